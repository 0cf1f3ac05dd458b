"""The configurations to try: from what the user wrote to a list of dicts."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Callable, Iterable

from ..errors import InvalidArgument

PASS_CONFIGS = "pass_configs"
"""Reserved key of a configuration: compiler options for it alone."""

DERIVED = 256
"""Configurations of a space nobody has written: the likely best ones, a minute or two on a laptop."""


def expand(configs: Any, signature: inspect.Signature, args: tuple = (), kwargs: dict | None = None) -> list[dict]:
    """The configurations for a call of a kernel with `signature`.

    Args:
        configs: dicts from parameter names to values, or a function that gets the call's arguments and returns them.

    Raises:
        errors.InvalidArgument: there is none, one is no dict, or one sets a parameter the kernel does not have.
    """
    found = _call(configs, signature, args, kwargs or {}) if callable(configs) else configs
    listed = list(found) if isinstance(found, Iterable) and not isinstance(found, (Mapping, str)) else found
    if not isinstance(listed, list) or not listed:
        raise InvalidArgument(
            f"autotune needs a list of configurations, got {found!r}",
            hint='write configs=[{"block_M": 64}, {"block_M": 128}]',
        )
    for index, config in enumerate(listed):
        _check(index, config, signature)
    return [dict(config) for config in listed]


def tunables(configs: list[dict]) -> list[str]:
    """Names that some configuration sets, in order of appearance."""
    return list(dict.fromkeys(name for config in configs for name in config if name != PASS_CONFIGS))


def split(config: dict, signature: inspect.Signature) -> tuple[dict, dict | None]:
    """(arguments of the kernel function, its own `pass_configs` or None)."""
    arguments = dict(config)
    own = arguments.pop(PASS_CONFIGS, None) if PASS_CONFIGS not in signature.parameters else None
    return arguments, own


def _call(configs: Callable, signature: inspect.Signature, args: tuple, kwargs: dict) -> Any:
    """`configs` with the call's arguments, or, where it does not take all of them, with those it has a name for."""
    takes = inspect.signature(configs)
    try:
        takes.bind(*args, **kwargs)
    except TypeError:
        known = signature.bind_partial(*args, **kwargs)
        known.apply_defaults()
        return configs(**{name: known.arguments[name] for name in takes.parameters if name in known.arguments})
    return configs(*args, **kwargs)


def _check(index: int, config: Any, signature: inspect.Signature) -> None:
    if not isinstance(config, Mapping):
        raise InvalidArgument(f"configuration {index} is {config!r}, not a dict of tunable parameters")
    if any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values()):
        return
    unknown = [name for name in config if name not in signature.parameters and name != PASS_CONFIGS]
    if unknown:
        raise InvalidArgument(
            f"configuration {index} sets {', '.join(unknown)}, which the kernel does not take; "
            f"its parameters are {', '.join(signature.parameters)}"
        )
