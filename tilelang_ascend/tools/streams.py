"""Output that nobody reads: programs behind a pipe that have ended, streams that were closed from the start."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from typing import Iterator

UNREAD = 128 + signal.SIGPIPE
"""Exit code of a program whose output nobody reads any more."""

_STREAMS = {"stdin": (0, "r"), "stdout": (1, "w"), "stderr": (2, "w")}


def open_missing() -> None:
    """Give the standard streams that the caller has closed (``>&-``) to the null device, before some file gets their numbers."""
    for name, (number, mode) in _STREAMS.items():
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", errors="replace", closefd=False))


@contextlib.contextmanager
def ending_quietly() -> Iterator[None]:
    """A reader that has ended (``| head -1``) ends the program without a word, with the exit code `UNREAD`."""
    failure = None
    try:
        try:
            yield
        except SystemExit as request:
            failure = request.code  # counts more than what comes behind it
            raise
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        if not reader_is_gone():
            raise
        _silence()
        sys.exit(failure or UNREAD)


def reader_is_gone() -> bool:
    """Whether standard output or error is a pipe that nobody reads."""
    return any(_is_unread(number) for number in (1, 2))


def _is_unread(number: int) -> bool:
    poll = select.poll()
    poll.register(number, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def _silence() -> None:
    """What is still buffered goes nowhere."""
    null = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        if _is_unread(number):
            os.dup2(null, number)
    os.close(null)
