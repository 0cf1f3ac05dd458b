"""Worker processes that a script starts with `multiprocessing` see what the script sees.

A forked process inherits the session; one that is started afresh (``spawn``, ``forkserver``) has to begin its own before
it imports the script.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Iterator

from .. import descendants

_CHILD = f"{__package__}.child"
_ROOT = str(Path(__file__).resolve().parents[2])


@contextlib.contextmanager
def active() -> Iterator[None]:
    """Prepare new worker processes for the time of a `with` block."""
    from multiprocessing import forkserver, spawn

    command_line = spawn.get_command_line

    def get_command_line(**options) -> list[str]:
        """As the standard library's, with a session begun first."""
        words = command_line(**options)
        if "-c" in words:  # a frozen program has no command to extend
            at = words.index("-c") + 1
            words[at] = f"import sys; sys.path.append({_ROOT!r}); import {_CHILD}; {words[at]}"
        return words

    first = descendants.IMPORTED_FIRST
    server = forkserver._forkserver
    preloaded = server._preload_modules
    spawn.get_command_line, server._preload_modules = get_command_line, [_CHILD]
    first.insert(0, _CHILD)
    try:
        yield
    finally:
        spawn.get_command_line, server._preload_modules = command_line, preloaded
        first.remove(_CHILD)
