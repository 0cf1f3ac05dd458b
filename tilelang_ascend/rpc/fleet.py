"""Many jobs over all servers of a tracker: results come as they are made, and what fails takes nothing else with it."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ..errors import TilelangAscendError
from .client import Session, connect
from .failures import NoServer, NoTracker, RpcError, ServerLost, ServerTimeout
from .results import Results
from .settings import Timeouts, check_key, tracker_address
from .tracker import query

_LAST_SECONDS = 5.0
_PATIENCE_SECONDS = 30.0
"""How long a job waits for a server or tracker that may be coming back."""


@dataclass(frozen=True)
class Job:
    """Work for one session.

    Attributes:
        name: identifies it among the replies; a string when results are kept in a file.
        work: called with a `Session`; with results in a file it returns JSON values. It may be called again on another server.
    """

    name: Any
    work: Callable[[Session], Any]


@dataclass(frozen=True)
class Reply:
    """What came of a job. server: where, "" when there was none. error: None, or why there is no value."""

    value: Any = None
    server: str = ""
    error: TilelangAscendError | None = None


def run_jobs(
    jobs: Iterable[Job],
    tracker: str | None = None,
    key: str = "a2",
    timeouts: Timeouts = Timeouts(),
    tries: int = 1,
    results: Results | None = None,
) -> Iterator[tuple[Job, Reply]]:
    """Yield every job with its reply as they finish; jobs whose results the file has are not run again.

    Args:
        tries: sessions a job may lose, or wait in vain for, before that is its reply. A program that crashes its server does so every time.
        results: gets every value at once, so that whatever happens next loses none.

    Raises:
        NoTracker, NoServer: there is nothing to begin with.
    """
    address, key = tracker_address(tracker), check_key(key)
    found = sum(entry.key == key for entry in query(address, timeouts).servers)
    if not found:
        raise NoServer(f"the tracker {address} knows no server with the key {key!r}")
    todo: queue.SimpleQueue[Job] = queue.SimpleQueue()
    count = 0
    for job in jobs:
        if results is not None and job.name in results:
            yield job, Reply(results[job.name])
        else:
            todo.put(job)
            count += 1
    done: queue.SimpleQueue[tuple[Job, Reply]] = queue.SimpleQueue()
    stop = threading.Event()
    sessions: dict[int, Session] = {}
    worker = lambda: _work(todo, done, stop, lambda: connect(str(address), key, timeouts), tries, sessions)
    threads = [threading.Thread(target=worker, name=f"tilelang-rpc-{i}", daemon=True) for i in range(min(found, count))]
    for thread in threads:
        thread.start()
    try:
        for _ in range(count):
            job, reply = done.get()
            if results is not None and reply.error is None:
                results.add(job.name, reply.value)
            yield job, reply
    finally:
        stop.set()
        for session in list(sessions.values()):  # of a caller who does not want the rest
            session.abort()
        for thread in threads:
            thread.join(_LAST_SECONDS)


def _work(todo, done, stop: threading.Event, open_session: Callable[[], Session], tries: int, sessions: dict[int, Session]) -> None:
    """Do jobs until there are none, in one session as long as that lasts."""
    session: Session | None = None
    while not stop.is_set():
        try:
            job = todo.get_nowait()
        except queue.Empty:
            break
        for attempt in range(tries):
            try:
                if session is None or not session.is_open:
                    session = None
                    session = _patiently(open_session, stop)
                    sessions[threading.get_ident()] = session
                reply = Reply(job.work(session), str(session.server))
            except TilelangAscendError as error:
                reply = Reply(server=str(session.server) if session else "", error=error)
            except Exception as error:  # a mistake in the job's own code, which is no reason to lose the others
                reply = Reply(error=RpcError(f"the job {job.name} failed: {type(error).__name__}: {error}"))
            if not isinstance(reply.error, (ServerLost, ServerTimeout, NoServer, NoTracker)) or stop.is_set():
                break
        done.put((job, reply))
    if session is not None:
        session.close()


def _patiently(open_session: Callable[[], Session], stop: threading.Event) -> Session:
    """A session; servers and trackers that are gone are given time to come back."""
    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return open_session()
        except (NoServer, NoTracker):
            if time.monotonic() > until or stop.wait(0.5):
                raise
