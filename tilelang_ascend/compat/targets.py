"""A script that names a GPU as its target is compiled for the default chip."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator

from .. import env
from ..log import get_logger

FOREIGN_KINDS = frozenset({"auto", "c", "cpu", "cuda", "cutedsl", "hip", "llvm", "metal", "nvptx", "opencl", "rocm", "vulkan", "webgpu"})
"""Kinds of target a GPU TileLang script may name."""

_told: set[str] = set()


def kind_of(target: Any) -> str | None:
    """``cuda`` for ``"cuda -arch=sm_80"``, ``{"kind": "cuda"}`` and a tvm `Target`; None when there is none."""
    if isinstance(target, str):
        words = target.split()
        return words[0].lower() if words else None
    if isinstance(target, dict):
        return str(target.get("kind", "")).lower() or None
    kind = getattr(target, "kind", None)
    return str(getattr(kind, "name", kind)).lower() if kind is not None else None


def replace_foreign(target: Any) -> Any:
    """`target`, or the default target when `target` names another vendor's device."""
    kind = kind_of(target)
    if kind not in FOREIGN_KINDS:
        return target
    default = env.DEFAULT_TARGET.get()
    default = env.DEFAULT_TARGET.default if kind_of(default) in FOREIGN_KINDS else default
    if kind != "auto" and kind not in _told:
        _told.add(kind)
        get_logger().debug("target %s: compiled for %s instead", kind, default)
    return default


@contextlib.contextmanager
def active() -> Iterator[None]:
    """Replace foreign targets for the time of a `with` block."""
    from ..targets import target_rule

    _told.clear()
    with target_rule(replace_foreign):
        yield
