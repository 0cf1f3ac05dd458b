"""Ways to watch compilations and to steer them, for tools. Importing this module does not load tvm."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator

from ..runtime.artifact import Artifact

_listeners: list[Callable[[Artifact], None]] = []
_completers: list[Callable[[Any, tuple, dict], dict]] = []


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


@contextlib.contextmanager
def completing_calls(complete: Callable[[Any, tuple, dict], dict]) -> Iterator[None]:
    """Calls of functions decorated with `@tilelang.jit` get, meanwhile, the keyword arguments that ``complete(function, args, kwargs)``
    returns."""
    _completers.append(complete)
    try:
        yield
    finally:
        _completers.remove(complete)


def completed(function: Any, args: tuple, kwargs: dict) -> dict:
    """The keyword arguments of a call, with those that tools add."""
    for complete in list(_completers):
        kwargs = complete(function, args, kwargs)
    return kwargs
