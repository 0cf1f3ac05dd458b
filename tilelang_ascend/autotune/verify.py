"""Checking a configuration before it wins: hazards and undefined values, then its outputs against a reference."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..jit.build import build_artifact
from ..jit.kernel import JITKernel
from ..log import get_logger
from ..profiler import Profiler
from ..runtime import dtypes, tensors
from ..runtime.artifact import Artifact
from .calls import Answer, Caller
from .inputs import InputSet, Outputs
from .measure import Workers
from .outcome import Outcome, Status, headline
from .places import Place
from .program import TracedProgram
from .settings import ProfileArgs


@dataclass
class Verifier:
    """Checks candidates one after the other.

    Attributes:
        place: where values are computed; None: on the machine model.
        baseline: program that says what is right where nothing else does: the default configuration of a derived space.
        ref_latency: wall clock of the call of `ref_prog` in milliseconds, None before it.
    """

    workers: Workers
    place: Place | None
    caller: Caller
    profile: ProfileArgs
    baseline: TracedProgram | None = None
    ref_latency: float | None = None
    _answers: tuple[InputSet, Answer] | None = None
    _expected: Outputs | None = None

    def verify(self, program: TracedProgram, outcome: Outcome, kernel: JITKernel) -> tuple[Outcome, Outcome]:
        """(what is true of the program, the verdict). They differ where only the reference says that it is wrong: with another reference
        it may be right.

        Raises:
            whatever `ref_prog` or `manual_check_prog` raise, but for AssertionError of the latter.
        """
        if self.profile.skip_check:
            return outcome, outcome
        compared = self.profile.ref_prog is not None or self.baseline is not None
        outputs: Outputs | None = None
        if not outcome.checked and (self.place is None or not compared):
            found, outputs = self.workers.one("check", program)
            if found.status is Status.TIMED_OUT:
                return self._unchecked(outcome)
            if not found.ok:
                return found, found
            outcome = replace(outcome, checked=True)
        if not compared:
            return outcome, outcome
        if outputs is None and self.place is not None:
            found, outputs = self.place.outputs(program)
            if not found.ok:
                return found, found
        # What has passed all checks on the machine model, in an earlier tuning, can run in this process.
        wrong = self._compare(kernel if outputs is None else _Replay(kernel.artifact, outputs), program)
        return outcome, wrong or outcome

    def _unchecked(self, outcome: Outcome) -> tuple[Outcome, Outcome]:
        get_logger().warning(
            "the fastest configuration could not be checked within %g s; give autotune a larger timeout", self.workers.timeout
        )
        return outcome, outcome

    def _compare(self, run: JITKernel | _Replay, program: TracedProgram) -> Outcome | None:
        """None when the outputs are right."""
        p = self.profile
        reference = self._reference(run.artifact, program)
        if reference is None:
            return None
        profiler, inputs = Profiler(run), program.inputs.copies()
        try:
            if p.ref_prog is None:
                Profiler(_Written(run)).manual_assert_close(_Written(reference), inputs, _assert_same_meaning)
            elif p.manual_check_prog is not None:
                profiler.manual_assert_close(reference, inputs, p.manual_check_prog)
            else:
                profiler.assert_allclose(reference, inputs, p.atol, p.rtol, p.max_mismatched_ratio)
        except AssertionError as error:
            return Outcome(Status.WRONG, error=headline(error), details=str(error))
        return None

    def _reference(self, artifact: Artifact, program: TracedProgram) -> Any:
        """Something that, called with the inputs, gives what is right; None when nothing can say so."""
        if self.profile.ref_prog is None:
            if self._expected is None:
                assert self.baseline is not None, "asked for only where something is compared"
                run = self.place.outputs if self.place is not None else lambda program: self.workers.one("check", program)
                found, self._expected = run(self.baseline)
                if not found.ok:
                    get_logger().warning("the default configuration says nothing about the others: %s", found.error)
            return _Replay(artifact, self._expected) if self._expected else None
        if self._answers is None or self._answers[0] is not program.inputs:
            answer = self.caller.reference(self.profile.ref_prog, program.inputs)
            self._answers, self.ref_latency = (program.inputs, answer), answer.milliseconds
        return _Again(self._answers[1])


SPREAD = {"float64": 2.0**-30, "float32": 2.0**-10, "float16": 2.0**-7, "bfloat16": 2.0**-4}
"""dtype -> what elements of two configurations may differ by, relative to the largest element: sums in another order, and values between that
are rounded to 16 bits in both. 8-bit floats: a quarter; integers: nothing."""


def _assert_same_meaning(ours: list, defaults: list) -> None:
    """Every element of every output is what the default configuration gives, up to the order of sums. A tile size that is more than that
    may change few elements only."""
    assert len(ours) == len(defaults), f"{len(ours)} outputs, the default configuration has {len(defaults)}"
    for i, (mine, theirs) in enumerate(zip(ours, defaults)):
        dtype = tensors.HostTensor(theirs).dtype
        a, b = (_numbers(x) for x in (mine, theirs))
        assert a.shape == b.shape, f"output {i}: shape {a.shape}, that of the default configuration is {b.shape}"
        finite = np.abs(b[np.isfinite(b)])
        slack = SPREAD.get(dtype, 0.25) * finite.max(initial=0.0) if dtypes.is_float(dtype) else 0.0
        with np.errstate(invalid="ignore"):
            wrong = ~((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= slack))
        assert not wrong.any(), (
            f"output {i}: {wrong.sum()} of {wrong.size} elements are not what the default configuration computes, first at "
            f"{tuple(int(x) for x in np.argwhere(wrong)[0])}"
        )


def _numbers(value: Any) -> np.ndarray:
    """Elements as they are if they are integers, else as float64."""
    host = tensors.HostTensor(value)
    found = np.frombuffer(host.tobytes(), dtypes.numpy_dtype(host.dtype)).reshape(host.shape)
    return found.astype(np.float64) if dtypes.is_float(host.dtype) else found


class _Written:
    """A kernel that returns all it has written: its outputs, and those of the tensors it was given."""

    def __init__(self, run: JITKernel | _Replay):
        self.artifact = run.artifact
        self._run = run

    def __call__(self, *inputs: Any) -> list[Any]:
        returned = self._run(*inputs)
        outputs = [] if returned is None else [*returned] if isinstance(returned, (list, tuple)) else [returned]
        return outputs + [x for p, x in zip(self.artifact.signature.inputs, inputs) if p.is_buffer and p.writes]


class _Again:
    """Stands for a reference that has been called already, on equal inputs."""

    def __init__(self, answer: Answer):
        self._answer = answer

    def __call__(self, *inputs: Any) -> Any:
        if self._answer.returned is None:
            for mine, theirs in zip(inputs, self._answer.arguments):
                if tensors.is_tensor(mine):
                    mine[...] = theirs
        return self._answer.returned


class _Replay:
    """Stands for a kernel whose outputs have been computed already."""

    def __init__(self, artifact: Artifact, outputs: Outputs):
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
