"""Ways to watch compilations and to steer them, for tools. Importing this module does not load tvm."""

from __future__ import annotations

import contextlib
from typing import Callable, Iterator

from ..runtime.artifact import Artifact

_listeners: list[Callable[[Artifact], None]] = []


@contextlib.contextmanager
def on_build(callback: Callable[[Artifact], None]) -> Iterator[None]:
    """Call `callback` with every artifact that is compiled or taken from the cache meanwhile."""
    _listeners.append(callback)
    try:
        yield
    finally:
        _listeners.remove(callback)


def notify(artifact: Artifact) -> None:
    """Tell everyone who asked with `on_build`."""
    for callback in list(_listeners):
        callback(artifact)
