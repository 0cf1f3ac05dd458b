"""From what a user writes as `target=` to a chip."""

from __future__ import annotations

import difflib
import shlex
from typing import Any

from ..errors import TargetError
from .load import FAMILIES, chips, family_table
from .spec import ChipSpec

DEFAULT_CHIP = "Ascend910B1"
KINDS = ("ascend", "npuir", "auto")
"""Target kinds: they name no chip, so they mean the default one."""
_CHIP_KEYS = ("chip", "mcpu", "arch")
CANN_RELEASES = (8, 9)
"""Releases of CANN whose form of the text is known."""


def _names() -> dict[str, str]:
    """Lower-case name or alias -> SKU."""
    names = {sku.lower(): sku for sku in chips()}
    for family in FAMILIES:
        table = family_table(family)
        names[family] = table["default_sku"]
        names.update((alias.lower(), sku) for alias, sku in table.get("aliases", {}).items())
    return names


def get_chip(name: str | ChipSpec = DEFAULT_CHIP) -> ChipSpec:
    """The chip called `name`: a SKU or a family alias (a2, a3, a5), in any case.

    Raises:
        TargetError: there is no such chip; the message lists close matches.
    """
    if isinstance(name, ChipSpec):
        return name
    names = _names()
    key = str(name).strip().lower()
    if key in names:
        return chips()[names[key]]
    close = difflib.get_close_matches(key, names, n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(dict.fromkeys(names[c] for c in close))}?" if close else None
    raise TargetError(f"unknown chip {str(name)!r}", notes=[f"known chips: {', '.join([*chips(), *FAMILIES])}"], hint=hint)


def parse_target(target: Any = None, default: str = DEFAULT_CHIP) -> ChipSpec:
    """The chip a target names; see `parse_target_options`."""
    return parse_target_options(target, default)[0]


def parse_target_options(target: Any = None, default: str = DEFAULT_CHIP) -> tuple[ChipSpec, dict[str, Any]]:
    """The chip a target names, and the compiler options it sets.

    Accepts None, ``"ascend"``, ``"npuir"``, ``"auto"`` (the chip called `default`), ``"ascend -chip=Ascend910B3"``,
    ``"ascend -cann=9"``, a dict such as ``{"kind": "ascend", "chip": "a3", "cann": 9}``, a SKU, a family alias, or a `ChipSpec`.

    Raises:
        TargetError: unknown kind, option or chip.
    """
    if target is None:
        return get_chip(default), {}
    if isinstance(target, ChipSpec):
        return target, {}
    if isinstance(target, dict):
        return _from_options(dict(target), default)
    if not isinstance(target, str):
        raise TargetError(f"a target is a string, a dict or a chip, not {type(target).__name__}")
    words = shlex.split(target)
    if not words:
        raise TargetError("the target is an empty string", hint=f"write one of {', '.join(KINDS)} or a chip such as {DEFAULT_CHIP}")
    if words[0].lower() not in KINDS and len(words) == 1:
        return get_chip(words[0]), {}
    options: dict[str, str] = {"kind": words[0]}
    for word in words[1:]:
        key, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("-") or not equals:
            raise TargetError(
                f"target option {word!r} is not of the form -key=value",
                hint=f'for example "ascend -chip={DEFAULT_CHIP}"',
            )
        options[key] = value
    return _from_options(options, default)


def _from_options(options: dict, default: str) -> tuple[ChipSpec, dict[str, Any]]:
    kind = str(options.pop("kind", "ascend"))
    if kind.lower() not in KINDS:
        raise TargetError(f"unknown target kind {kind!r}", hint=f"write one of {', '.join(KINDS)}, or a chip such as {DEFAULT_CHIP}")
    named = [options.pop(key) for key in _CHIP_KEYS if key in options]
    cann = options.pop("cann", None)
    if options:
        raise TargetError(f"unknown target option {next(iter(options))!r}", hint="the options of a target are: kind, chip, cann")
    if cann is not None and str(cann) not in map(str, CANN_RELEASES):
        raise TargetError(f"target option cann is {cann!r}", hint=f"the text is written for CANN {' or '.join(map(str, CANN_RELEASES))}")
    return get_chip(named[0] if named else default), {} if cann is None else {"cann": int(cann)}
