"""Checking a configuration before it wins: hazards and undefined values, then its outputs against a reference."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, Callable

import numpy as np

from ..jit.build import build_artifact
from ..jit.kernel import JITKernel
from ..log import get_logger
from ..profiler import Profiler
from ..runtime import dtypes, tensors
from ..runtime.artifact import Artifact
from .measure import Measurer
from .outcome import Outcome, Status, headline
from .program import TracedProgram
from .settings import ProfileArgs


@dataclass
class Verifier:
    """Checks candidates one after the other.

    Attributes:
        ref_latency: wall clock of the last call of `ref_prog` in milliseconds, None before the first.
    """

    measurer: Measurer
    profile: ProfileArgs
    ref_latency: float | None = None

    def verify(self, program: TracedProgram, outcome: Outcome, kernel: JITKernel) -> Outcome:
        """The outcome after the check: unchanged (then it may win), or a failure."""
        if self.profile.skip_check:
            return outcome
        run: Any = kernel
        if not outcome.checked:
            found, outputs = self.measurer.check(program)
            if found.status is Status.TIMED_OUT:
                get_logger().warning(
                    "the fastest configuration could not be checked within %g s; give autotune a larger timeout",
                    self.measurer.timeout,
                )
                return outcome
            outcome = replace(outcome, checked=True) if found.ok else found
            self.measurer.database.save(program.key, outcome)
            run = _Replay(kernel.artifact, outputs)
        return self._compare(run, program, outcome) if outcome.ok else outcome

    def _compare(self, run: Any, program: TracedProgram, outcome: Outcome) -> Outcome:
        p = self.profile
        if p.ref_prog is None:
            return outcome
        profiler, inputs = Profiler(run), program.inputs.copies()
        try:
            if p.manual_check_prog is not None:
                profiler.manual_assert_close(self._timed(p.ref_prog), inputs, p.manual_check_prog)
            else:
                ratio = p.max_mismatched_ratio
                profiler.assert_allclose(self._timed(p.ref_prog), inputs, p.atol, p.rtol, ratio)
        except AssertionError as error:
            return Outcome(Status.WRONG, error=headline(error), details=str(error))
        return outcome

    def _timed(self, reference: Callable) -> Callable:
        def call(*inputs: Any) -> Any:
            start = time.perf_counter()
            result = reference(*inputs)
            self.ref_latency = (time.perf_counter() - start) * 1e3
            return result

        return call


class _Replay:
    """Stands for a kernel whose outputs a worker has computed already."""

    def __init__(self, artifact: Artifact, outputs: dict[str, tuple[str, tuple[int, ...], bytes]]):
        self.artifact = artifact
        self._outputs = outputs

    def __call__(self, *inputs: Any) -> Any:
        signature = self.artifact.signature
        like_torch = any(tensors.is_torch(x) for x in inputs) or (not inputs and tensors.have_torch())
        for parameter, value in zip(signature.inputs, inputs):
            if parameter.name in self._outputs:
                self._fill(value, parameter.name)
        made = []
        for parameter in signature.outputs:
            dtype, shape, _ = self._outputs[parameter.name]
            made.append(tensors.empty(shape, dtype, like_torch))
            self._fill(made[-1], parameter.name)
        return made or None

    def _fill(self, tensor: Any, name: str) -> None:
        dtype, shape, data = self._outputs[name]
        tensors.HostTensor(tensor).assign(np.frombuffer(data, dtypes.numpy_dtype(dtype)).reshape(shape))


def winner_kernel(program: TracedProgram, execution_backend: str | None) -> JITKernel:
    """The kernel of a configuration, compiled in this process (or taken from the cache)."""
    return JITKernel(build_artifact(program.func, program.out_idx, program.chip, program.options), execution_backend)
