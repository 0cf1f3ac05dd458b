"""lengthen_tiles: neighbouring blocks, or iterations of a loop, whose vector work is short become one with longer tiles.

Before:  grid(4097): copy(X[bx * 4 : +4, 0:32], x); reduce_max(x, m, dim=1); copy(m, M[bx * 4 : +4])   # x: 4 x 32
After:   grid(373):  copy(X[bx * 44 : +44, 0:32], x); reduce_max(x, m, dim=1); copy(m, M[bx * 44 : +44])

A GPU has hundreds of blocks under way at a time; a vector core has one, and waits for the latency of every instruction of a chain of
dependent ones, of every transfer and flag, whether tiles are long or short. What is divided with a dimension of a tile gets longer. That
means the same if the work on the longer tiles can be divided into equal parts (analysis/tiles/split_axis.py), and if each part is what the
block it stands for did, statement by statement (`same_work`). Blocks have no order among each other; iterations of a loop have one, so no
tile may go from one to another, and what they store to a tensor has to lie apart.

By a model of what bounds a core, and as long as tiles stay small beside UB. A grid whose blocks do not come out even gets a last one that
ends behind it, if all that one stores there lies outside of the tensors.

Requires: Tile IR after normalize_clears, before place_buffers. Ensures: same values.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ...analysis.tiles.split_axis import SplitPlan, copy_dims, plan_along
from ...ir import (
    AllocBuffer,
    Break,
    Continue,
    For,
    PrimFunc,
    Stmt,
    StmtMutator,
    While,
    const_int,
    dtype_of,
    imm,
    statements,
)
from ...ir.functions import fixed_bytes
from ...ir.grids import Grid
from ...tile import GEMM, IM2COL, is_op
from ...tile.uses import is_output, moved_regions, on_chip, own_uses
from .core_time import Model, best_times, is_short
from .longer import Longer, ends_outside
from .loose_loops import independent, is_serial, only_in


def lengthen_tiles(func: PrimFunc, chip, notes: list, allowed: bool = True) -> PrimFunc:
    """`func` with longer tiles in a smaller grid and shorter loops, if that is clearly faster and `allowed`; what was done is told in `notes`."""
    grid = Grid.of(func.body)
    if not allowed or not is_short(grid.body, grid.extents, chip):
        return func
    if any(is_op(s, GEMM, IM2COL) or is_output(s) or isinstance(s, (While, Break, Continue)) for s in statements(func.body)):
        return func
    longer = _fewer_blocks(grid, chip, notes)
    longer = _fewer_iterations(longer, chip, notes)
    return func if longer is grid else func.with_body(longer.rebuilt(func.body))


def _fewer_blocks(grid: Grid, chip, notes: list) -> Grid:
    """The grid with several blocks along one axis as one."""
    if None in grid.extents or math.prod(grid.extents) <= chip.num_aiv:
        return grid
    for plan in _plans(grid.body):
        for k, (axis, extent) in enumerate(zip(grid.axes, grid.extents)):

            def rounds(times, k=k):
                return math.ceil(grid.count(k, times) / chip.num_aiv)

            def cycles(times, plan=plan, k=k):
                return Model(chip, min(grid.count(k, times), chip.num_aiv), plan, times).cycles(grid.body, rounds(times, k))

            even = not ends_outside(grid.body, axis.loop_var, extent)
            times = best_times(cycles, rounds, extent, even, plan.dims, chip)
            if times > 1 and (longer := Longer.of(grid.body, axis.loop_var, plan, times)) is not None:
                notes.append(f"{times} neighbouring blocks are worked on together: of tiles this short, latency takes most of the time")
                return grid.fewer(k, math.ceil(extent / times), longer.body)
    return grid


def _fewer_iterations(grid: Grid, chip, notes: list) -> Grid:
    """The grid with several iterations of innermost loops as one."""
    blocks = math.prod(n or chip.num_aiv for n in grid.extents)
    cores, rounds, body = min(blocks, chip.num_aiv), math.ceil(blocks / chip.num_aiv), grid.body
    for s in [x for x in statements(body) if is_serial(x) and not any(map(is_serial, statements(x.body)))]:
        trips = const_int(s.extent)
        if trips is None or trips < 2 or not independent(s, body):
            continue
        for plan in _plans(s.body):

            def cycles(times, plan=plan, s=s, n=trips):
                return Model(chip, cores, plan, times).cycles(s.body, rounds * n // times)

            alone = all(only_in(b, s, body) for b in plan.dims)
            times = best_times(cycles, lambda n, trips=trips: trips // n, trips, True, plan.dims, chip) if alone else 1
            if times > 1 and (longer := Longer.of(s.body, s.loop_var, plan, times)) is not None:
                notes.append(f"{times} iterations of the loop over '{s.loop_var.name}' are worked on together: their tiles are short")
                body = _Lengthened(s, trips // times, longer)(body)
                break
    return grid if body is grid.body else replace(grid, body=body)


class _Lengthened(StmtMutator):
    """The body of a grid with the longer tiles of one loop, which has fewer `trips`."""

    def __init__(self, loop: For, trips: int, longer: Longer):
        self.loop, self.trips, self.longer = loop, trips, longer

    def visit_AllocBuffer(self, s: AllocBuffer):
        new = self.longer.tiles.get(s.buffer)
        return s if new is None else AllocBuffer(new, annotations=dict(s.annotations), span=s.span)

    def visit_For(self, s: For):
        if not s.same_as(self.loop):
            return self.generic(s)
        extent = imm(self.trips, dtype_of(s.extent))
        return For(s.loop_var, s.min, extent, s.kind, self.longer.body, annotations=dict(s.annotations), span=s.span)


def _plans(body: Stmt) -> list[SplitPlan]:
    """What could get longer: sets of dimensions of tiles that go together, those with most bytes first."""
    tiles = {b for s in statements(body) for b in own_uses(s).all if on_chip(b)}
    found: list[SplitPlan] = []
    for b in sorted(tiles, key=fixed_bytes, reverse=True):
        for d in range(len(b.ty.shape)):
            if not any(p.dims.get(b) == d for p in found):
                found.append(plan_along(body, b, d, 1))
    return [p for p in found if p.dims and p.refusal is None and _has_partners(body, p)]


def _has_partners(body: Stmt, plan: SplitPlan) -> bool:
    """True if every transfer has a dimension on its other side for the one of `plan`."""
    for s in statements(body):
        regions = moved_regions(s)
        for k, r in enumerate(regions or ()):
            if r.source in plan.dims and plan.dims[r.source] not in [pair[k] for pair in copy_dims(*regions)]:
                return False
    return True


__all__ = ["lengthen_tiles"]
