"""Ways to watch compilations and to steer them, for tools. Importing this module does not load tvm."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator

from .. import env
from ..runtime.artifact import Artifact

_listeners: list[Callable[[Artifact], None]] = []
_target_rules: list[Callable[[Any], Any]] = []


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
def target_rule(rule: Callable[[Any], Any]) -> Iterator[None]:
    """Every target of a kernel that is compiled meanwhile goes through `rule` first."""
    _target_rules.append(rule)
    try:
        yield
    finally:
        _target_rules.remove(rule)


def resolve_chip(target: Any):
    """The chip record for a `target=` argument; None means `TILELANG_DEFAULT_TARGET`."""
    from .. import arch

    target = env.DEFAULT_TARGET.get() if target is None else target
    for rule in _target_rules:
        target = rule(target)
    return arch.parse_target(target)
