"""Functions that test pools run in their workers; they load neither tvm nor numpy."""

import os
import signal
import sys
import time


def run(payload, files):
    """`payload` is (what to do, argument)."""
    what, argument = payload
    return _ACTIONS[what](argument, files)


def _crash(number, files):
    print("something went wrong in native code", file=sys.stderr, flush=True)
    os.kill(os.getpid(), number)


def _raise(text, files):
    raise ValueError(text)


_ACTIONS = {
    "echo": lambda argument, files: argument,
    "pid": lambda argument, files: os.getpid(),
    "print": lambda argument, files: print(argument * 100_000),
    "crash": _crash,
    "exit": lambda status, files: os._exit(status),
    "raise": _raise,
    "hang": lambda seconds, files: time.sleep(seconds),
    "hang deaf": lambda seconds, files: (signal.signal(signal.SIGTERM, signal.SIG_IGN), time.sleep(seconds)),
    "read": lambda name, files: os.pread(files[name], 100, 0).decode(),
}
"""What a worker can be told to do."""
