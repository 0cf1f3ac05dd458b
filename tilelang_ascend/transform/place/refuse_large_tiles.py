"""refuse_large_tiles: tiles far larger than any memory are errors before anything is lowered.

An attempt at lowering takes time in proportion to its tiles, but for those of UB, which may be streamed or live in GM.

Requires: placed Tile IR. Ensures: the same; no tile is larger than `most_bytes` of its memory.
"""

from __future__ import annotations

from ...errors import OutOfMemory
from ...ir import AllocBuffer, PrimFunc, const_int, dtype_of, scope_of, statements
from ...ir.functions import fixed_bytes
from ...isa.base import SCOPES, Space
from ..suggest_tile import suggest_tile

FAR_TOO_LARGE = 16
"""Capacities of a memory above which a single tile is refused before lowering."""
FAR_TOO_LARGE_FOR_UB = 128
"""The same of UB."""


def most_bytes(chip, space: Space) -> int:
    """Bytes of a memory above which nothing is tried."""
    return chip.capacity_bytes(space) * (FAR_TOO_LARGE_FOR_UB if space is Space.UB else FAR_TOO_LARGE)


def refuse_large_tiles(func: PrimFunc, chip) -> PrimFunc:
    """`func`, if none of its placed tiles is far too large for its memory.

    Raises: OutOfMemory, without the table of a plan: an attempt at lowering takes time and memory in proportion to its tiles.
    """
    tiles = [s for s in statements(func.body) if isinstance(s, AllocBuffer) and scope_of(s.buffer) in SCOPES]
    sizes = sorted(((fixed_bytes(s.buffer), s) for s in tiles if SCOPES[scope_of(s.buffer)] in chip.memories), key=lambda x: -x[0])
    for nbytes, s in sizes:
        space = SCOPES[scope_of(s.buffer)]
        if nbytes > most_bytes(chip, space):
            shape = " x ".join(str(const_int(n)) for n in s.buffer.ty.shape)
            note = (f"'{s.buffer.name}' alone takes {nbytes} bytes: {shape} {dtype_of(s.buffer)}", s.span)
            error = OutOfMemory(
                at=s.span, notes=[note], memory=space.name, needed=nbytes, available=chip.capacity_bytes(space), chip=chip.name
            )
            raise suggest_tile(func, chip, error, 0)
    return func


__all__ = ["refuse_large_tiles"]
