"""A way to watch launches, for tools."""

from __future__ import annotations

import contextlib
from typing import Callable, Iterator

from .arguments import Launch
from .artifact import Artifact

_listeners: list[Callable[[Artifact, Launch], None]] = []


@contextlib.contextmanager
def on_launch(callback: Callable[[Artifact, Launch], None]) -> Iterator[None]:
    """Call `callback` with the artifact and the checked arguments of every call and simulation meanwhile, before it runs."""
    _listeners.append(callback)
    try:
        yield
    finally:
        _listeners.remove(callback)


def notify(artifact: Artifact, launch: Launch) -> None:
    """Tell everyone who asked with `on_launch`."""
    for callback in list(_listeners):
        callback(artifact, launch)
