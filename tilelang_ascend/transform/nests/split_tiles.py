"""split_tiles: work on tiles that are too large for their memory in parts, each of which is a block.

Before:  grid(8):     copy(A[bx * 128 : +128, 0:256], a); Parallel(i < 128, j < 256): a[i, j] = f(a[i, j], i); copy(a, C[…])
After:   grid(4, 8):  copy(A[bx * 128 + part * 32 : +32, 0:256], a[0:32, …]); Parallel(i < 32, …): a[i, j] = f(a[i, j], i + part * 32); …

GPU kernels come in the sizes of GPUs. The axis is proven independent as for two vector cores (analysis/tiles/split_axis.py), through products
too, which are divided along M or N; what it does not divide every part does again. Parts of a block are blocks that follow each other: they run on
different cores at the same time, which load what they share once into L2.

Workspaces through which such a tile goes as a whole have room for a part.

Requires: placed Tile IR with one grid, before map_grid. Ensures: the same, with smaller tiles; annotation `tl.part` on the axis of parts.
"""

from __future__ import annotations

from dataclasses import replace

from ...analysis.tiles.split_axis import Refusal, find_split
from ...ir import AllocBuffer, PrimFunc, Var, const_int, loop, scope_of, statements
from ...ir.grids import Grid
from .divided_body import DividedBody, divided_spaces


def split_tiles(func: PrimFunc, parts: int, scope: str) -> PrimFunc:
    """`func` in `parts` equal parts, so that most of the tiles in the memory `scope` are divided; itself if that is not legal."""
    plan = find_split(func.body, parts, scope)
    if plan.refusal:
        return func
    part = Var("part", "int32")
    body = DividedBody(plan, part, parts, with_cube=True, spaces=divided_spaces(func.body, plan))(func.body)
    grid = Grid.of(body)
    axis = loop(part, parts, grid.body, tl__grid=len(grid.axes), tl__part=1)
    return func.with_body(replace(grid, axes=(axis, *grid.axes), extents=(parts, *grid.extents)).rebuilt(body))


def equal_parts(func: PrimFunc, numbers, scope: str) -> list[int]:
    """Those of `numbers` that divide some dimension of a tile in `scope`: all that can be legal."""
    tiles = [s.buffer for s in statements(func.body) if isinstance(s, AllocBuffer) and scope_of(s.buffer) == scope]
    sizes = {const_int(n) for b in tiles for n in b.ty.shape}
    return [parts for parts in numbers if any(n > 1 and n % parts == 0 for n in sizes)]


def why_whole(func: PrimFunc, parts: int, scope: str) -> Refusal | None:
    """What forbids to work on `func` in parts."""
    return find_split(func.body, parts, scope).refusal


__all__ = ["equal_parts", "split_tiles", "why_whole"]
