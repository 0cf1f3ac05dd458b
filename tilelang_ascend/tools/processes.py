"""Ending what a script has started."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from typing import Callable, Iterator

from ..descendants import GRACE_SECONDS, stop_descendants

INTERRUPTED = 128 + signal.SIGINT
"""Exit code of a program ended by Ctrl-C."""


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
        if not seen.wait(GRACE_SECONDS):
            stop_descendants()
            _leave()
        seen.clear()
    os.close(reader)


def finish_interrupted() -> None:
    """After an interrupt: end all descendants, and the process too if a thread keeps running."""
    stop_descendants()
    deadline = time.monotonic() + GRACE_SECONDS
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                _leave()


def _leave() -> None:
    """End the process at once; nothing of Python gets to run any more."""
    os.write(2, b"\ninterrupted\n")
    os._exit(INTERRUPTED)
