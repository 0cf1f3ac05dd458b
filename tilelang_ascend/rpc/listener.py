"""The process that listens: TVM's server with our function in it, one process for every session, and signs of life for the supervisor.

Signs are lines of JSON on a pipe: ``{"port": …}`` once it serves, ``{"fatal": "…"}`` when trying again is of no use, else ``{}``.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any, Callable

from ..descendants import adopt_orphans, die_with
from .plan import Plan
from .settings import Address, is_loopback

SIGN_SECONDS = 1.0
"""Between two signs of life."""


def main(pipe: int, parent: int, text: str) -> None:
    """Serve until the parent ends, or this process is killed."""
    die_with(parent)
    adopt_orphans()
    signs = _Signs(pipe)
    signs.send({})
    plan = Plan.from_text(text)
    if not plan.simulated:
        # The executor's devices count from the first visible one.
        os.environ["ASCEND_RT_VISIBLE_DEVICES"] = plan.device.partition(":")[2]
    with signs.regular():
        reason = _missing(plan) if plan.simulated else _in_a_fork(lambda: _missing(plan))
        if reason:
            signs.send({"fatal": f"no server for the device {plan.device}: {reason}"})
            return
        _load()
        _serve(plan, signs)


def _in_a_fork(question: Callable[[], str | None]) -> str | None:
    """An answer from a process of its own: a driver that was asked once may not work in forks of the process that asked."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, (question() or "").encode()[:4000])
            os._exit(0)
        finally:
            os._exit(1)
    os.close(writer)
    with open(reader, "rb") as pipe:
        answer = pipe.read().decode("utf-8", "replace")
    _, status = os.waitpid(child, 0)
    return answer or (None if status == 0 else f"the process that looked at it ended with {os.waitstatus_to_exitcode(status)}")


def _missing(plan: Plan) -> str | None:
    """Why this machine cannot be the server it is to be."""
    from .. import native
    from ..errors import TargetError
    from ..runtime import executors
    from ..sim import twin

    try:
        if plan.simulated:
            twin.find_compiler()
            native.load()
        executors.choose(plan.executor)
    except (TargetError, twin.NoCompilerError, native.NativeLibraryError) as error:
        return " ".join(str(error).split())
    return None


def _load() -> None:
    """What every session needs, before there are sessions: they are forks of this process. Nothing of it starts a thread."""
    from ..sim import machine, twin, twin_rules  # noqa: F401
    from . import door, protocol, service  # noqa: F401


def _serve(plan: Plan, signs: "_Signs") -> None:
    from . import door, protocol, service

    work = service.Service(plan)
    door.register(protocol.FUNCTION, work.answer)
    scratch = Path(os.environ["TMPDIR"])
    advertised = plan.host if is_loopback(plan.host) or plan.host not in ("0.0.0.0", "::") else None

    try:
        port, thread = door.serve(
            plan.host,
            plan.ports,
            Address(plan.tracker_host, plan.tracker_port),
            plan.key,
            advertised,
            scratch,
            lambda: _begin_session(work, plan.idle_limit),
        )
    except OSError as reason:
        signs.send({"fatal": str(reason)})
        os._exit(1)
    signs.send({"port": port})
    thread.join()
    os._exit(1)  # it ends only by mistake; the supervisor starts another one


class _Signs:
    """The pipe to the supervisor."""

    def __init__(self, pipe: int):
        self._pipe, self._lock = pipe, threading.Lock()

    def send(self, sign: dict[str, Any]) -> None:
        with self._lock:
            os.write(self._pipe, json.dumps(sign).encode() + b"\n")

    def regular(self) -> "_Regular":
        """Sends signs of life in a `with` block."""
        return _Regular(self)


class _Regular:
    def __init__(self, signs: _Signs):
        self._signs, self._stop = signs, threading.Event()

    def __enter__(self) -> None:
        threading.Thread(target=self._run, name="signs-of-life", daemon=True).start()

    def __exit__(self, *_: Any) -> None:
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(SIGN_SECONDS):
            self._signs.send({})


# -- the process of a session ------------------------------------------------------------------------------------------------


def _begin_session(work: Any, idle_limit: float) -> None:
    """In the new process: end with the listener, and when the client has nothing to ask."""
    die_with(os.getppid())
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    socket.setdefaulttimeout(None)
    work.last = time.monotonic()
    threading.Thread(target=_end_idle, args=(work, idle_limit), name="idle-limit", daemon=True).start()


def _end_idle(work: Any, limit: float) -> None:
    while work.busy or time.monotonic() - work.last < limit:
        time.sleep(0.5)
    os._exit(0)
