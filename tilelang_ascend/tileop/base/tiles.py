"""Tiles as lowerings see them."""

from __future__ import annotations

from ...ir import dtype_of, scope_of

TILE_SCOPES = ("shared", "local")


def is_tile(buffer) -> bool:
    """True for on-chip tile buffers (not GM, not mutable scalars)."""
    scope = scope_of(buffer)
    return scope != "local.var" and scope.split(".")[0] in TILE_SCOPES


def memory_dtype(buffer) -> str:
    """dtype of the bytes of a tile: bool tiles hold 0 / 1 in uint8."""
    return "uint8" if dtype_of(buffer) == "bool" else dtype_of(buffer)
