"""Functions of the user, reference programs and suppliers of inputs, called in a worker process, so that one that
crashes or hangs does not take the tuning with it.

They travel by value (cloudpickle), from this process to its own worker and never further. What cannot travel is called
in this process.
"""

from __future__ import annotations

import contextlib
import io
import sys
import time
import traceback
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Sequence

from .. import descendants
from ..errors import InvalidArgument
from ..log import get_logger
from .inputs import InputSet, as_given, open_inputs
from .pool import Job, WorkerPool

_SERVE = "tilelang_ascend.autotune.calls:serve"


class FunctionFailed(InvalidArgument):
    """A function of the user crashed or hung."""


@dataclass(frozen=True)
class Answer:
    """What a function returned, what its arguments were afterwards if it returned None, and how long it took."""

    returned: Any
    arguments: Sequence[Any]
    milliseconds: float


class Caller:
    """Calls functions of the user in one worker process. A context manager; the process ends with it.

    Args:
        timeout: seconds for one call.
    """

    def __init__(self, timeout: float):
        preload = [*descendants.IMPORTED_FIRST, *(["torch"] if "torch" in sys.modules else [])]  # seconds that are not the function's
        self._pool = WorkerPool(_SERVE, 1, timeout, preload=preload)
        self._timeout = timeout

    def __enter__(self) -> Caller:
        return self

    def __exit__(self, *_: Any) -> None:
        self._pool.close()

    def supply(self, function: Callable, parameters: Any) -> Any:
        """What ``function(parameters)`` returns."""
        return self._call("supply_prog", function, (parameters,), None).returned

    def reference(self, function: Callable, inputs: InputSet) -> Answer:
        """A call on copies of the inputs."""
        return self._call("ref_prog", function, (), inputs)

    def _call(self, name: str, function: Callable, arguments: tuple, inputs: InputSet | None) -> Answer:
        """Raises what the function raises, or `FunctionFailed`."""
        import cloudpickle

        try:
            content = cloudpickle.dumps((function, arguments))
        except Exception as reason:
            return self._here(name, function, arguments, inputs, reason)
        payload: dict[str, Any] = {"content": content}
        files = {}
        if inputs is not None:
            payload |= {"inputs": inputs.records, "file": inputs.name}
            files = {inputs.name: inputs.file}
        ((_, reply),) = self._pool.run([Job(name, payload, files)])
        if reply.kind == "timed out":
            raise FunctionFailed(f"{name} did not return within {self._timeout:g} s", hint="give autotune a larger timeout")
        if reply.kind != "result":
            raise FunctionFailed(f"{name} {'crashed' if reply.kind == 'crashed' else 'failed'}: {reply.value}")
        answer = reply.value
        print(answer["printed"], end="")
        if "unloadable" in answer:
            return self._here(name, function, arguments, inputs, answer["unloadable"])
        if "raised" in answer:
            raise cloudpickle.loads(answer["raised"]) from FunctionFailed(f"{name} was called in a worker process:\n{answer['traceback']}")
        returned, afterwards = cloudpickle.loads(answer["answer"])
        return Answer(returned, afterwards, answer["milliseconds"])

    def _here(self, name: str, function: Callable, arguments: tuple, inputs: InputSet | None, reason: Any) -> Answer:
        get_logger().debug("%s is called in this process, as no other can have it: %s", name, reason)
        values = arguments if inputs is None else inputs.copies()
        start = time.perf_counter()
        returned = function(*values)
        return Answer(returned, values, (time.perf_counter() - start) * 1e3)


def serve(payload: Mapping[str, Any], files: Mapping[str, int]) -> dict[str, Any]:
    """In the worker: one call. Gives ``answer`` and ``milliseconds``, or ``raised``, or ``unloadable``; and what was ``printed``."""
    import cloudpickle

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        found = _serve(payload, files, cloudpickle)
    return {**found, "printed": printed.getvalue()}


def _serve(payload: Mapping[str, Any], files: Mapping[str, int], cloudpickle: Any) -> dict[str, Any]:
    try:
        function, arguments = cloudpickle.loads(payload["content"])
    except Exception as reason:
        return {"unloadable": f"{type(reason).__name__}: {reason}"}
    if "inputs" in payload:
        arguments = as_given(payload["inputs"], open_inputs(payload["inputs"], files[payload["file"]]))
    start = time.perf_counter()
    try:
        returned = function(*arguments)
    except Exception as error:
        told = traceback.format_exc()
        try:
            return {"raised": cloudpickle.dumps(error), "traceback": told}
        except Exception:
            return {"raised": cloudpickle.dumps(RuntimeError(f"{type(error).__name__}: {error}")), "traceback": told}
    seconds = time.perf_counter() - start
    try:
        answer = cloudpickle.dumps((returned, arguments if returned is None else ()))
    except Exception as reason:
        return {"unloadable": f"{type(reason).__name__}: {reason}"}
    return {"answer": answer, "milliseconds": seconds * 1e3}
