"""The chip a kernel is compiled for: what `target=` means, and rules tools put in front of it."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator

from . import env

_target_rules: list[Callable[[Any], Any]] = []


@contextlib.contextmanager
def target_rule(rule: Callable[[Any], Any]) -> Iterator[None]:
    """Every target of a kernel that is compiled meanwhile goes through `rule` first."""
    _target_rules.append(rule)
    try:
        yield
    finally:
        _target_rules.remove(rule)


_board: list[Callable[[], str | None]] = []


def register_board(chip: Callable[[], str | None]) -> None:
    """`chip` gives the chip of the board of this machine, which targets mean that name none; None where there is no board."""
    _board[:] = [chip]


def resolve_chip(target: Any):
    """The chip record for a `target=` argument; None means `TILELANG_DEFAULT_TARGET`."""
    from . import arch

    target = env.DEFAULT_TARGET.get() if target is None else target
    for rule in _target_rules:
        target = rule(target)
    there = _board[0]() if _board else None
    return arch.parse_target(target, there or arch.DEFAULT_CHIP)
