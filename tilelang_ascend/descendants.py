"""Processes this one has started: finding them, ending them, and making sure that none outlives its parent."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from pathlib import Path

GRACE_SECONDS = 2.0
"""Time for processes to end by themselves, and for native code to notice an interrupt."""

IMPORTED_FIRST: list[str] = []
"""Modules that fresh processes import before they call functions of the user: what makes them look like this one."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def die_with(parent: int) -> None:
    """End this process when its parent ends: a killed parent cannot end it, and native code does not see a pipe close."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, so that `stop_descendants` finds them."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap() -> None:
    """Forget the children that have ended. Nobody may be waiting for one of them."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def stop_descendants() -> None:
    """End every process this one has started, directly or not: asked first, killed after a while."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        running = descendants(os.getpid())
        for pid in running:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, how)
        deadline = time.monotonic() + GRACE_SECONDS
        while any(is_running(pid) for pid in running):
            if time.monotonic() > deadline:
                break
            time.sleep(0.02)
        else:
            return


def descendants(pid: int) -> list[int]:
    """Ids of the children of a process, their children, and so on."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        fields = _stat(status)
        if fields is not None:
            children.setdefault(int(fields[1]), []).append(int(status.parent.name))
    found, frontier = [], [pid]
    while frontier:
        frontier = [child for parent in frontier for child in children.get(parent, ())]
        found += frontier
    return found


def is_running(pid: int) -> bool:
    """False for processes that are gone or have ended but were not waited for."""
    fields = _stat(Path(f"/proc/{pid}/stat"))
    return fields is not None and fields[0] not in ("Z", "X")


def _stat(path: Path) -> list[str] | None:
    """Fields of a process's status behind its name, which may contain anything: state, parent, …"""
    try:
        return path.read_text().rpartition(")")[2].split()
    except OSError:
        return None
