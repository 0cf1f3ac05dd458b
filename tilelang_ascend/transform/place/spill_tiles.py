"""spill_tiles: tiles that UB has no room for live in workspaces in GM.

Before:  copy(X[b, 0:256, 0:256], x@ub); Parallel(i, j): y@ub[i, j] = x@ub[j, i]; copy(y@ub, Y[b, 0:256, 0:256])
After:   copy(X[b, 0:256, 0:256], x_ws); Parallel(i, j): y_ws[i, j] = x_ws[j, i]; copy(y_ws, Y[b, 0:256, 0:256])

What kernels do with tensors, they do with these: `stage_operands` and `stage_globals` let every statement work on parts of its own. A tile that all
statements can work on in the same parts needs no such place (`split_tiles`, `stream_reductions`), and costs no transfers: this is for what is left,
as tiles are that one statement reads by rows and another by columns, or at places that are data.

Requires: placed Tile IR. Ensures: the same; tiles in UB are together no larger than a share of it. Values are unchanged.
"""

from __future__ import annotations

from ...ir import AllocBuffer, PrimFunc, StmtMutator, decl_buffer, dtype_of, scope_of, statements, substitute
from ...isa.base import SCOPES, Space
from ...tileop.base.layout import tile_bytes


class _Declare(StmtMutator):
    def __init__(self, spilled: dict):
        self.spilled = spilled

    def visit_AllocBuffer(self, s: AllocBuffer):
        return AllocBuffer(self.spilled[s.buffer], annotations={"workspace": 1}, span=s.span) if s.buffer in self.spilled else s


def spill_tiles(func: PrimFunc, chip, notes: list, room: float) -> PrimFunc:
    """`func` with the largest of its tiles in GM, so that the others take `room`, a share of UB, or less."""
    tiles = [s.buffer for s in statements(func.body) if isinstance(s, AllocBuffer) and SCOPES.get(scope_of(s.buffer)) is Space.UB]
    tiles.sort(key=tile_bytes)
    left = chip.capacity_bytes(Space.UB) * room
    kept = 0
    while kept < len(tiles) and tile_bytes(tiles[kept]) <= left:
        left -= tile_bytes(tiles[kept])
        kept += 1
    spilled = {b: decl_buffer(list(b.ty.shape), dtype_of(b), f"{b.name}_ws") for b in tiles[kept:]}
    if not spilled:
        return func
    names = ", ".join(sorted(b.name for b in spilled))
    notes.append(f"tiles are larger than {Space.UB.name}, and parts of them cannot be worked on alone: global memory holds {names}")
    return func.with_body(substitute(_Declare(spilled)(func.body), spilled))


__all__ = ["spill_tiles"]
