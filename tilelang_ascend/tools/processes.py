"""Ending what a script has started."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path
from typing import Callable, Iterator

INTERRUPTED = 128 + signal.SIGINT
"""Exit code of a program ended by Ctrl-C."""

_GRACE_SECONDS = 2.0
"""Time for processes to end by themselves, and for native code to notice an interrupt."""


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C ends the process even while native code runs, which Python's own handler has to wait for.

    The signal also reaches a thread, through a pipe. If Python has not raised `KeyboardInterrupt` some time later,
    the thread ends all descendants and the process. A script that handles the interrupt, in either way, stays in
    charge.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    seen = threading.Event()

    def raise_interrupt(number, frame):
        seen.set()
        signal.default_int_handler(number, frame)

    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.signal(signal.SIGINT, raise_interrupt)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(reader, seen, raise_interrupt), name="interrupt-watcher", daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        if signal.getsignal(signal.SIGINT) is raise_interrupt:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        os.close(writer)  # ends the watcher


def _watch(reader: int, seen: threading.Event, handler: Callable) -> None:
    while signals := os.read(reader, 64):
        if signal.SIGINT not in signals or signal.getsignal(signal.SIGINT) is not handler:
            continue
        if not seen.wait(_GRACE_SECONDS):
            stop_descendants()
            _leave()
        seen.clear()
    os.close(reader)


def finish_interrupted() -> None:
    """After an interrupt: end all descendants, and the process too if a thread keeps running."""
    stop_descendants()
    deadline = time.monotonic() + _GRACE_SECONDS
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                _leave()


def _leave() -> None:
    """End the process at once; nothing of Python gets to run any more."""
    os.write(2, b"\ninterrupted\n")
    os._exit(INTERRUPTED)


def stop_descendants() -> None:
    """End every process this one has started, directly or not: asked first, killed after a while."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        running = descendants(os.getpid())
        for pid in running:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, how)
        deadline = time.monotonic() + _GRACE_SECONDS
        while any(_is_running(pid) for pid in running):
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


def _is_running(pid: int) -> bool:
    """False for processes that are gone or have ended but were not waited for."""
    fields = _stat(Path(f"/proc/{pid}/stat"))
    return fields is not None and fields[0] not in ("Z", "X")


def _stat(path: Path) -> list[str] | None:
    """Fields of a process's status behind its name, which may contain anything: state, parent, …"""
    try:
        return path.read_text().rpartition(")")[2].split()
    except OSError:
        return None
