"""The chip a kernel is compiled for: what `target=` means, and rules tools put in front of it."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator, Mapping

from . import env
from .errors import TargetError

_target_rules: list[Callable[[Any], Any]] = []


@contextlib.contextmanager
def target_rule(rule: Callable[[Any], Any]) -> Iterator[None]:
    """Every target of a kernel that is compiled meanwhile goes through `rule` first."""
    _target_rules.append(rule)
    try:
        yield
    finally:
        _target_rules.remove(rule)


def rules() -> tuple[Callable[[Any], Any], ...]:
    """The rules that hold now."""
    return tuple(_target_rules)


_board: list[Callable[[], str | None]] = []


def register_board(chip: Callable[[], str | None]) -> None:
    """`chip` gives the chip of the board of this machine, which targets mean that name none; None where there is no board."""
    _board[:] = [chip]


def resolve_chip(target: Any):
    """The chip record for a `target=` argument; None means `TILELANG_DEFAULT_TARGET`."""
    return resolve_target(target)[0]


def resolve_target(target: Any, options: Mapping[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
    """The chip record for a `target=` argument, and `options` with those the target sets.

    Raises:
        errors.TargetError: there is no such chip or option, or target and options disagree.
    """
    from . import arch

    target = env.DEFAULT_TARGET.get() if target is None else target
    for rule in _target_rules:
        target = rule(target)
    there = _board[0]() if _board else None
    chip, own = arch.parse_target_options(target, there or arch.DEFAULT_CHIP)
    given = dict(options or {})
    for name, value in own.items():
        if given.setdefault(name, value) != value:
            raise TargetError(f"the target says {name}={value}, pass_configs say {name}={given[name]}", hint="say it in one place")
    return chip, given
