"""Measuring traced configurations: known results from the database, the others in worker processes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

from .. import env
from .database import Database
from .outcome import Outcome, Status
from .pool import Job, Reply, WorkerPool
from .program import TracedProgram

MEASURE = "tilelang_ascend.autotune.jobs:measure"
"""What workers run; this process does not import it."""

_WORKER_ENV = {
    # A worker that is killed must leave nothing half-written, and losers do not belong into the kernel cache.
    "TILELANG_DISABLE_CACHE": "1",
    "TILELANG_LOG_LEVEL": "error",
    "TILELANG_PRINT_ON_COMPILATION": "0",
    "TVM_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}


class Measurer:
    """Times and checks programs. A context manager: when it is left, by an exception or not, no worker is left.

    Args:
        timeout: seconds for one configuration.
    """

    def __init__(self, timeout: float):
        self.database = Database()
        self.timeout = timeout
        self._pool = WorkerPool(MEASURE, worker_count(), timeout, _WORKER_ENV)

    def __enter__(self) -> "Measurer":
        return self

    def __exit__(self, *_: Any) -> None:
        self._pool.close()

    def known(self, program: TracedProgram) -> Outcome | None:
        """The result of an earlier measurement."""
        return self.database.load(program.key)

    def time(self, programs: Iterable[TracedProgram]) -> Iterator[tuple[TracedProgram, Outcome]]:
        """Simulated time of each program, in the order in which they finish."""
        for job, reply in self._pool.run(_job(p, check=False) for p in programs):
            outcome = self._outcome(reply)
            self.database.save(job.name.key, outcome)
            yield job.name, outcome

    def check(self, program: TracedProgram) -> tuple[Outcome, dict[str, tuple]]:
        """Run for values with all checks on: the outcome, and the written tensors as `jobs.measure` returns them."""
        ((_, reply),) = self._pool.run([_job(program, check=True)])
        outcome = self._outcome(reply)
        outputs = reply.value["outputs"] if outcome.ok else {}
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


def _job(program: TracedProgram, check: bool) -> Job:
    return Job(program, program.payload(check), {program.file_name: program.inputs.file})
