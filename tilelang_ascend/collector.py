"""Python's search for cycles, paused where it looks through much and finds nothing."""

from __future__ import annotations

import gc
import threading


class _PausedCollector:
    """Python's search for cycles rests while anybody is inside. Passes make many objects that live as long as the compilation, hardly any in
    cycles, and the search would look at all of them, and at torch's and tvm's, again and again: a quarter of the time. So do the modules of
    torch and tvm while they are imported: a fifth of the time."""

    def __init__(self):
        self.lock, self.inside, self.was_on = threading.Lock(), 0, False

    def __enter__(self):
        with self.lock:
            self.was_on = gc.isenabled() if self.inside == 0 else self.was_on
            self.inside += 1
            gc.disable()

    def __exit__(self, *_):
        with self.lock:
            self.inside -= 1
            if self.inside == 0 and self.was_on:
                gc.enable()


PAUSED_COLLECTOR = _PausedCollector()

__all__ = ["PAUSED_COLLECTOR"]
