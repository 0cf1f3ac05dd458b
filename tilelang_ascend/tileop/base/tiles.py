"""Tiles as lowerings see them."""

from __future__ import annotations

from ...ir import dtype_of, scope_of

TILE_SCOPES = ("shared", "local")


def is_tile(buffer) -> bool:
    """True for on-chip tile buffers (not GM, not mutable scalars)."""
    scope = scope_of(buffer)
    return scope != "local.var" and scope.split(".")[0] in TILE_SCOPES


def memory_dtype(buffer) -> str:
    """dtype in which instructions see the elements of a tile."""
    return held_as(dtype_of(buffer))


def held_as(dtype: str) -> str:
    """The same of elements of a dtype: 0 and 1 of bool are uint8, and uint64 has the bits of an int64."""
    return {"bool": "uint8", "uint64": "int64"}.get(dtype, dtype)
