"""Worker processes that may crash or hang.

A worker is no fork of this process (tvm has threads) but of a template that has imported what it needs (`warm`). It shares nothing
with this one but a socket and the files sent through it, so the user's script is never imported again, and code in `__main__`,
notebooks and closures does not matter. Workers die with this process, whatever ends it.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import Pipe, connection, reduction
from typing import Any

from .. import warm
from ..errors import TilelangAscendError

_SERVE = "tilelang_ascend.autotune.worker:serve"

_START_SECONDS = 120
"""A worker that has not loaded the compiler by then never will."""

_TICK_SECONDS = 1.0


@dataclass(frozen=True)
class Job:
    """Work for one worker.

    Attributes:
        name: identifies the job in `WorkerPool.run`'s results.
        payload: picklable argument of the pool's function.
        files: open file descriptors the function needs, by a name that is unique in the pool.
    """

    name: Any
    payload: Any
    files: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Reply:
    """What came of a job. kind: ``result``, ``error`` (the function raised), ``crashed`` or ``timed out``."""

    kind: str
    value: Any = None


class WorkerStartError(TilelangAscendError, RuntimeError):
    """A worker process ended or got stuck before it could take a job; the message has its output."""


class WorkerPool:
    """Runs ``function(payload, files)`` for every job, in processes that start when there is work for them.

    Args:
        function: ``"module:name"``; workers have imported the module before the clock of their first job starts.
        size: processes at a time.
        timeout: seconds a job may take before its worker is killed.
        env: environment variables of the workers besides this process's own.
        preload: modules that workers have imported besides.
    """

    def __init__(self, function: str, size: int, timeout: float, env: Mapping[str, str] | None = None, preload: Sequence[str] = ()):
        self._function, self._size, self._timeout, self._preload = function, size, timeout, list(preload)
        self._env = {**os.environ, **(env or {})}
        self._workers: list[_Worker] = []

    def __enter__(self) -> "WorkerPool":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Kill every worker and wait until it is gone."""
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.dispose()
        self._workers.clear()

    def run(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Reply]]:
        """Yield every job with its reply as they finish.

        Raises:
            WorkerStartError: workers cannot start on this machine.
        """
        waiting = deque(jobs)
        while waiting or any(w.job for w in self._workers):
            self._start_workers(len(waiting))
            for worker in self._workers:
                if waiting and worker.idle:
                    worker.send(waiting.popleft(), self._timeout)
            ready = connection.wait([w.connection for w in self._workers], self._seconds_to_wait())
            for worker in list(self._workers):
                job = worker.job
                reply = worker.receive() if worker.connection in ready else worker.expire()
                if worker.gone:
                    self._workers.remove(worker)
                if reply is not None:
                    assert job is not None, "a reply to nothing"
                    yield job, reply

    def _start_workers(self, waiting: int) -> None:
        free = sum(1 for w in self._workers if w.job is None)
        for _ in range(min(self._size - len(self._workers), waiting - free)):
            self._workers.append(_Worker(self._function, self._env, self._preload))

    def _seconds_to_wait(self) -> float:
        now = time.monotonic()
        return max(0.0, min([_TICK_SECONDS, *(w.deadline - now for w in self._workers if w.deadline)]))


class _Worker:
    """One process: starting (no job, not ready), idle (ready, no job), busy (job), or gone."""

    def __init__(self, function: str, env: Mapping[str, str], preload: list[str]):
        self.connection, theirs = Pipe()
        self.output = tempfile.TemporaryFile()
        self.job: Job | None = None
        self.ready = self.gone = False
        self.deadline: float | None = time.monotonic() + _START_SECONDS
        self._known_files: set[str] = set()
        module = function.partition(":")[0]
        with theirs, open(os.devnull, "rb") as nothing:
            streams = nothing.fileno(), self.output.fileno(), self.output.fileno()
            try:
                self._template = warm.template([*preload, module], env)
                self.process = self._template.fork(_SERVE, [function], [theirs.fileno()], streams, env)
            except OSError as error:
                raise WorkerStartError(f"a worker process cannot start: {error}") from error

    @property
    def idle(self) -> bool:
        return self.ready and self.job is None

    def send(self, job: Job, timeout: float) -> None:
        """Hand over a job; the clock starts."""
        self.job, self.deadline = job, time.monotonic() + timeout
        try:
            for name, descriptor in job.files.items():
                if name not in self._known_files:
                    self.connection.send(("file", name))
                    reduction.send_handle(self.connection, descriptor, self.process.pid)
                    self._known_files.add(name)
            self.connection.send(("job", job.payload))
        except OSError:
            # It died while idle. Its end of the socket is closed, so `receive` reports the crash.
            pass

    def receive(self) -> Reply | None:
        """What the worker says, None for its greeting; a broken socket means that it died."""
        try:
            kind, value = self.connection.recv()
        except (EOFError, OSError):
            return self._crashed()
        self.job = self.deadline = None
        if kind == "ready":
            self.ready = True
            return None
        return Reply(kind, value)

    def expire(self) -> Reply | None:
        """Kill the worker if its time is over."""
        if self.deadline is None or time.monotonic() < self.deadline:
            return None
        if self.job is None:
            raise WorkerStartError(f"a worker process did not start in {_START_SECONDS} s\n{self._end()}")
        self._end()
        return Reply("timed out")

    def dispose(self) -> None:
        """Release everything of a process that is dead or is to die."""
        self.gone = True
        self.process.end()
        self.connection.close()
        self.output.close()

    def _crashed(self) -> Reply | None:
        was_ready, code = self.ready, self.process.wait()
        output = self._end()
        how = f"killed by {_signal_name(-code)}" if code < 0 else f"ended with status {code}"
        if not was_ready:
            raise WorkerStartError(f"a worker process was {how} before it could take a job\n{self._template.output()}{output}")
        if self.job is None:
            return None
        last = output.strip().splitlines()[-1:]
        return Reply("crashed", ": ".join([how, *last]))

    def _end(self) -> str:
        """Output of the process, which is disposed of."""
        self.process.end()
        self.output.seek(0)
        text = self.output.read().decode("utf-8", "replace")
        self.dispose()
        return text


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
