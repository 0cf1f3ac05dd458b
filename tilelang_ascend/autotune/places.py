"""Where programs are measured: on the machine model, on the board of this machine, or on servers over RPC."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from .. import env
from ..errors import TilelangAscendError
from ..jit.build import build_artifact
from ..runtime.artifact import Artifact
from ..runtime.executors import choose
from .inputs import Outputs, packed
from .measure import Workers
from .outcome import Outcome, Status, failure
from .program import TracedProgram
from .settings import ProfileArgs

_MOST_WARMUPS, _MOST_REPEATS = 10, 50
"""Calls on a board, however short: each one copies its tensors there."""


class Place(Protocol):
    """What every place offers.

    Attributes:
        name: of its records: the device, and what is known of its software.
        cann: release of CANN there, "" where there is none.
        clock: ``simulated`` or ``measured``.
        width: programs that are measured at a time.
    """

    name: str
    cann: str
    clock: str
    width: int

    def time(self, programs: Sequence[tuple[TracedProgram, Outcome]]) -> Iterator[tuple[TracedProgram, Outcome]]:
        """Time of each program, with what the time model has said about it, in the order in which they finish."""

    def outputs(self, program: TracedProgram) -> tuple[Outcome, Outputs]:
        """What one call writes."""

    def close(self) -> None:
        """Give back what the place holds."""


def place_of(execution_backend: str | None, profile: ProfileArgs, chip: str) -> Place | None:
    """The place where kernels with this backend run; None for the simulator, whose times the time model gives already.

    Raises:
        errors.TargetError: the backend cannot be used here. rpc.RpcError: there is no tracker, or no server.
    """
    executor = choose(execution_backend)
    if executor.name == "npu":
        return BoardPlace(profile, executor.label())
    if executor.name == "rpc":
        return ServerPlace(profile, chip)
    return None


class BoardPlace:
    """The board of this machine. One program at a time runs there, in a process that may crash or hang."""

    clock = "measured"
    width = 1

    def __init__(self, profile: ProfileArgs, label: str):
        self._profile = profile
        self._workers = Workers(profile.timeout, 1)
        self._label = label
        self.name = f"npu: {label}"
        self.cann = label.partition(" with ")[2]

    def time(self, programs: Sequence[tuple[TracedProgram, Outcome]]) -> Iterator[tuple[TracedProgram, Outcome]]:
        for program, predicted in programs:
            warmup, repeats = runs_of(self._profile, predicted)
            yield program, self._workers.one("board", program, warmup=warmup, repeats=repeats)[0]

    def outputs(self, program: TracedProgram) -> tuple[Outcome, Outputs]:
        return self._workers.one("values", program)

    def close(self) -> None:
        self._workers.close()


class ServerPlace:
    """The servers of a tracker that have a key; each of them measures one program at a time."""

    def __init__(self, profile: ProfileArgs, chip: str):
        from .. import arch
        from ..rpc.client import connect
        from ..rpc.settings import Timeouts, check_key, tracker_address
        from ..rpc.tracker import query

        self._profile = profile
        self._tracker = tracker_address(None)
        self._key = check_key(env.RPC_KEY.get() or arch.get_chip(chip).family)
        self._timeouts = Timeouts(call=profile.timeout)
        with connect(str(self._tracker), self._key, self._timeouts) as session:
            info = session.info
        self.width = max(1, sum(entry.key == self._key for entry in query(self._tracker, self._timeouts).servers))
        self.clock = "simulated" if info.clock == "simulated" else "measured"
        self.name = f"rpc: {self._key}, {info.chip or 'any chip'}, {info.clock} time"
        self.cann = ""

    def time(self, programs: Sequence[tuple[TracedProgram, Outcome]]) -> Iterator[tuple[TracedProgram, Outcome]]:
        from ..rpc.fleet import Job, run_jobs

        jobs = []
        for program, predicted in programs:
            try:
                artifact = _artifact(program)
            except TilelangAscendError as error:
                yield program, failure(error)
            else:
                jobs.append(Job(program, functools.partial(self._timed, program, artifact, *runs_of(self._profile, predicted))))
        for job, reply in run_jobs(jobs, str(self._tracker), self._key, self._timeouts, tries=2):
            if reply.error is None:
                yield job.name, Outcome(Status.OK, reply.value)
            else:
                yield job.name, _remote_failure(reply.error)

    def outputs(self, program: TracedProgram) -> tuple[Outcome, Outputs]:
        from ..rpc.client import connect

        artifact = _artifact(program)
        try:
            with connect(str(self._tracker), self._key, self._timeouts) as session:
                if program.inputs.supply is not None:
                    found = session.run_seeded(artifact, 0, program.inputs.supply)
                    return Outcome(Status.OK, 0.0), {name: packed(value) for name, value in found.items()}
                inputs = program.inputs.copies()
                returned = session.run(artifact, *inputs)
        except TilelangAscendError as error:
            return _remote_failure(error), {}
        signature = artifact.signature
        made = returned if isinstance(returned, (tuple, list)) else [returned]
        tensors_of = {p.name: t for p, t in [*zip(signature.inputs, inputs), *zip(signature.outputs, made)] if p.is_buffer and p.writes}
        return Outcome(Status.OK, 0.0), {name: packed(tensor) for name, tensor in tensors_of.items()}

    def _timed(self, program: TracedProgram, artifact: Artifact, warmup: int, repeats: int, session: Any) -> float:
        """Milliseconds: the median."""
        if program.inputs.supply is not None:
            timing = session.time(artifact, seed=0, supply=program.inputs.supply, warmup=warmup, repeats=repeats)
        else:
            timing = session.time(artifact, *program.inputs.copies(), warmup=warmup, repeats=repeats)
        return statistics.median(timing.microseconds) / 1e3

    def close(self) -> None:
        pass


def runs_of(profile: ProfileArgs, predicted: Outcome) -> tuple[int, int]:
    """Calls on a board that do not count, and that do, to fill the milliseconds asked for if the time model is right."""
    one = max(predicted.latency or 0.0, 1e-3)
    return min(_MOST_WARMUPS, round(profile.warmup / one)), max(1, min(_MOST_REPEATS, round(profile.rep / one)))


def _artifact(program: TracedProgram) -> Artifact:
    """Compiled in this process: a worker has compiled the same without harm."""
    return build_artifact(program.func, program.out_idx, program.chip, program.options)


def _remote_failure(error: TilelangAscendError) -> Outcome:
    from ..rpc.failures import ServerLost, ServerTimeout

    if isinstance(error, ServerTimeout):
        return Outcome(Status.TIMED_OUT, error=error.message, details=str(error))
    if isinstance(error, ServerLost):
        return Outcome(Status.CRASHED, error=error.message, details=str(error))
    return failure(error)
