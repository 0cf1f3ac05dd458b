"""Worker processes of a tuning: they compile, predict times and check values on the machine model, and run kernels on
the board of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

from .. import env
from .inputs import Outputs
from .outcome import Outcome, Status
from .pool import Job, Reply, WorkerPool
from .program import TracedProgram

WORK = "tilelang_ascend.autotune.jobs:work"
"""What workers run; this process does not import it."""

_WORKER_ENV = {
    # A worker that is killed must leave nothing half-written, and losers do not belong into the kernel cache.
    "TILELANG_DISABLE_CACHE": "1",
    "TILELANG_LOG_LEVEL": "error",
    "TILELANG_PRINT_ON_COMPILATION": "0",
    "TVM_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}


class Workers:
    """Compiles and runs programs in other processes. A context manager: when it is left, by an exception or not, none is left.

    Args:
        timeout: seconds for one program.
        size: processes at a time; None: as many as this process may use.
    """

    def __init__(self, timeout: float, size: int | None = None):
        self.timeout = timeout
        self._pool = WorkerPool(WORK, size or worker_count(), timeout, _WORKER_ENV)

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Kill all processes."""
        self._pool.close()

    def run(self, do: str, programs: Iterable[TracedProgram], **settings: Any) -> Iterator[tuple[TracedProgram, Outcome, Outputs]]:
        """Each program with its outcome and what it has written, in the order in which they finish.

        Args:
            do: one of `jobs`: ``time``, ``check``, ``board`` or ``values``.
            settings: of the job.
        """
        jobs = (Job(p, {**p.payload(), "do": do, **settings}, {p.inputs.name: p.inputs.file}) for p in programs)
        for job, reply in self._pool.run(jobs):
            outcome = self._outcome(reply)
            yield job.name, outcome, reply.value.get("outputs", {}) if outcome.ok else {}

    def one(self, do: str, program: TracedProgram, **settings: Any) -> tuple[Outcome, Outputs]:
        """As `run`, of one program."""
        ((_, outcome, outputs),) = self.run(do, [program], **settings)
        return outcome, outputs

    def _outcome(self, reply: Reply) -> Outcome:
        if reply.kind == "result":
            return Outcome.from_json(reply.value["outcome"])
        if reply.kind == "timed out":
            text = f"not done after {self.timeout:g} s"
            return Outcome(Status.TIMED_OUT, error=text, details=text)
        if reply.kind == "crashed":
            return Outcome(Status.CRASHED, error=reply.value, details=reply.value)
        line, details = reply.value
        return Outcome(Status.ERROR, error=line.splitlines()[0], details=details)


def worker_count() -> int:
    """Worker processes at a time: CPUs this process may use, as limited by the `TILELANG_AUTO_TUNING_…` variables."""
    fixed = env.AUTO_TUNING_CPU_COUNTS.get()
    count = fixed if fixed > 0 else round(_available_cpus() * env.AUTO_TUNING_CPU_UTILITIES.get())
    limit = env.AUTO_TUNING_MAX_CPU_COUNT.get()
    return max(1, min(count, limit) if limit > 0 else count)


def _available_cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
