"""spread_loops: iterations of a loop become blocks where a grid has too few of them for the cores.

Before:  grid(8):      for t in 16: copy(X[(bx * 16 + t) * 128 : +128], x); y = x + 1; copy(y, Y[(bx * 16 + t) * 128 : +128])
After:   grid(8, 16):  copy(X[(bx * 16 + t) * 128 : +128], x); y = x + 1; copy(y, Y[(bx * 16 + t) * 128 : +128])

A GPU kernel gives a block a share of the work that suits a multiprocessor, and may have fewer blocks than this chip has cores, or a few more,
which leaves most cores without work in the last round. Where a block is nothing but a loop whose iterations are independent (`loose_loops`),
each of them is a block as well. Blocks that are too short become longer again (lengthen_tiles), as many as suit the cores.

Requires: placed Tile IR, before lengthen_tiles. Ensures: same values.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ...ir import AllocBuffer, Bind, Break, Continue, For, PrimFunc, Stmt, While, const_int, seq, statements, stmts_of
from ...ir.grids import Grid
from ...tile import GEMM, IM2COL, is_op
from ...tile.uses import is_output, loads_in
from .core_time import GAIN
from .loose_loops import independent, is_serial

MOST_AXES = 3
"""Of a grid."""


def spread_loops(func: PrimFunc, chip, notes: list, allowed: bool = True) -> PrimFunc:
    """`func` with more, shorter blocks, if that leaves fewer cores without work and is `allowed`; what was done is told in `notes`."""
    grid = Grid.of(func.body)
    if not allowed or None in grid.extents or len(grid.axes) == MOST_AXES:
        return func
    inner = _only_loop(grid.body)
    trips = const_int(inner.extent) if inner is not None else None
    if trips is None or trips < 2:
        return func
    blocks = math.prod(grid.extents)
    if math.ceil(blocks * trips / chip.num_aiv) > GAIN * math.ceil(blocks / chip.num_aiv) * trips or not independent(inner, grid.body):
        return func
    if any(is_op(s, GEMM, IM2COL) or is_output(s) or isinstance(s, (While, Break, Continue)) for s in statements(func.body)):
        return func
    notes.append(f"each iteration of the loop over '{inner.loop_var.name}' is a block: {blocks} blocks leave cores without work")
    axis = For(inner.loop_var, inner.min, inner.extent, inner.kind, inner.body, annotations={"tl.grid": len(grid.axes)}, span=inner.span)
    around = [s for s in stmts_of(grid.body) if not s.same_as(inner)]
    more = replace(grid, axes=(*grid.axes, axis), extents=(*grid.extents, trips), body=seq(around, inner.body))
    return func.with_body(more.rebuilt(func.body))


def _only_loop(body: Stmt) -> For | None:
    """The loop that is all the work of a block, but for declarations and names for indices."""
    work = [s for s in stmts_of(body) if not isinstance(s, AllocBuffer) and not (isinstance(s, Bind) and not loads_in(s.value))]
    return work[0] if len(work) == 1 and is_serial(work[0]) else None


__all__ = ["spread_loops"]
