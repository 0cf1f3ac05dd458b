"""split_tiles: work on tiles that are too large for their memory in parts, one after the other.

Before:  copy(A[bx * 128 : +128, 0:256], a); Parallel(i < 128, j < 256): a[i, j] = f(a[i, j], i); copy(a, C[…])
After:   for part in range(4): copy(A[bx * 128 + part * 32 : +32, 0:256], a[0:32, …]); Parallel(i < 32, …): a[i, j] = f(a[i, j], i + part * 32); …

GPU kernels come in the sizes of GPUs. The axis is proven independent as for two vector cores (analysis/tiles/split_axis.py), through products
too, which are divided along M or N; what it does not divide every part does again.

Workspaces through which such a tile goes as a whole have room for a part.

Requires: mapped Tile IR before split_rows. Ensures: the same, with smaller tiles.
"""

from __future__ import annotations

from ...analysis.tiles.split_axis import Refusal, find_split
from ...ir import AllocBuffer, PrimFunc, Var, const_int, loop, scope_of, seq, statements, stmts_of
from .divided_body import DividedBody, divided_spaces


def split_tiles(func: PrimFunc, parts: int, scope: str) -> PrimFunc:
    """`func` in `parts` equal parts, so that most of the tiles in the memory `scope` are divided; itself if that is not legal."""
    plan = find_split(func.body, parts, scope)
    if plan.refusal:
        return func
    part = Var("part", "int32")
    spaces = divided_spaces(func.body, plan)
    body = stmts_of(DividedBody(plan, part, parts, with_cube=True, spaces=spaces)(func.body))
    allocs = [s for s in body if isinstance(s, AllocBuffer)]
    rest = [s for s in body if not isinstance(s, AllocBuffer)]
    return func.with_body(seq(allocs, loop(part, parts, seq(rest))))


def equal_parts(func: PrimFunc, numbers, scope: str) -> list[int]:
    """Those of `numbers` that divide some dimension of a tile in `scope`: all that can be legal."""
    tiles = [s.buffer for s in statements(func.body) if isinstance(s, AllocBuffer) and scope_of(s.buffer) == scope]
    sizes = {const_int(n) for b in tiles for n in b.ty.shape}
    return [parts for parts in numbers if any(n > 1 and n % parts == 0 for n in sizes)]


def why_whole(func: PrimFunc, parts: int, scope: str) -> Refusal | None:
    """What forbids to work on `func` in parts."""
    return find_split(func.body, parts, scope).refusal


__all__ = ["equal_parts", "split_tiles", "why_whole"]
