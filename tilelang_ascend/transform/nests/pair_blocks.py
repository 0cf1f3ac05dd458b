"""pair_blocks: two neighbouring blocks of the grid whose vector work is a chain of short instructions may be one, statement beside statement.

Before:  grid(80, 4): load(A[bx], a); for k in range(by + 1): load(B[k, bx], b); p = f(b); gemm(p, a, s); …
After:   grid(40, 4): load(A[2 * bx], a); load(A[2 * bx + 1], a_2)
                      for k in range(by + 1): load(B[k, 2 * bx], b); load(B[k, 2 * bx + 1], b_2); p = f(b); p_2 = f(b_2); …

An instruction waits for the one it needs behind a barrier, and that waits for everything in front of it: where rows are short, this takes about
as long as the work. One barrier serves both blocks (`interleave_pairs`). Blocks need nothing of each other; they are neighbours along an axis that decides
no loop, so that loops are the same for both. `pair_tiles` is for vector work alone, and for recurrences, in which the two kinds of core wait for each
other.

Tiles of both have to have room: the machine model decides (`pipeline.lower`).

Requires: placed Tile IR behind batch_blocks, before map_grid. Ensures: the same values; the attribute `ascend.paired` of functions that are changed.
"""

from __future__ import annotations

from ...analysis.tiles.core_kinds import uses_cube, uses_vector
from ...ir import (
    AllocBuffer,
    Bind,
    For,
    IfThenElse,
    PrimFunc,
    Stmt,
    dependent_names,
    free_vars,
    redeclared,
    renew,
    seq,
    statements,
    stmts_of,
    substitute,
)
from ...ir.grids import Grid
from ...isa.base import VECTOR_CORES_PER_BLOCK
from ...tile.uses import is_parallel, loads_in, uses_of
from .core_time import Model
from .side_by_side import TILES, another, may_stand_beside, side_by_side

LEAST_LATENCY = 1 / 3
"""Share of vector work that has to be latency."""
LEAST_ROUNDS = 4
"""Pairs of blocks of a core: with few of them, an uneven number costs more than is gained."""


def pair_blocks(func: PrimFunc, chip, pairing) -> PrimFunc:
    """Apply to a placed Tile IR function. pairing: an object whose `may_pair_blocks` becomes true if that may be worth it, and whose `pair_blocks` says
    whether to do it."""
    grid = Grid.of(func.body)
    axis = _axis(grid, chip)
    if axis is None:
        return func
    pairing.may_pair_blocks = True
    if not pairing.pair_blocks:
        return func
    paired = grid.fewer(axis, grid.extents[axis] // TILES, _paired(grid.body, grid.axes[axis].loop_var))
    return func.with_body(paired.rebuilt(func.body)).with_attr("ascend.paired", 1)


def _axis(grid: Grid, chip) -> int | None:
    """Position of the axis along which blocks may be pairs, None if there is none, or it is not worth it."""
    body = grid.body
    if not uses_cube(body) or not uses_vector(body) or not may_stand_beside(body) or None in grid.extents:
        return None
    with_latency, without = (Model(chip, chip.num_aiv, latency=latency).cost(body).vector for latency in (True, False))
    work, latency = without / VECTOR_CORES_PER_BLOCK, with_latency - without
    if latency < LEAST_LATENCY * (work + latency):
        return None
    for k, (axis, extent) in enumerate(zip(grid.axes, grid.extents)):
        rounds = grid.most_of_core(chip.num_aic) / TILES
        if "tl.part" not in axis.annotations and extent % TILES == 0 and rounds >= LEAST_ROUNDS and not _decides(body, axis.loop_var):
            return k
    return None


def _decides(body: Stmt, var) -> bool:
    """True if loops or branches of a body depend on a variable."""
    known = dependent_names(body, var)
    heads = (
        s.condition if isinstance(s, IfThenElse) else s.extent
        for s in statements(body)
        if isinstance(s, (For, IfThenElse)) and not is_parallel(s)
    )
    return any(free_vars(e) & known for e in heads)


def _paired(body: Stmt, var) -> Stmt:
    """The work of two blocks. Names of what is the same for both stand once."""
    taken, whole, known = {b.name for b in uses_of(body).all}, stmts_of(body), dependent_names(body, var)
    own = {s.buffer: another(s.buffer, taken) for s in whole if isinstance(s, AllocBuffer)}
    same: list[Stmt] = []
    for s in whole:
        if isinstance(s, Bind) and not free_vars(s.value) & known and not loads_in(s.value):
            same.append(s)
        elif isinstance(s, Bind):
            known.add(s.var)  # Of what is read twice, too.
    work = seq([s for s in whole if s not in same and not isinstance(s, AllocBuffer)])
    first, second = (stmts_of(renew(substitute(work, {var: var * TILES + n, **tiles}))) for n, tiles in ((0, {}), (1, own)))
    allocs = [s for s in whole if isinstance(s, AllocBuffer)]
    return redeclared(seq(allocs, same, side_by_side(first, second, in_turns=False)), {b: [b, new] for b, new in own.items()})


__all__ = ["pair_blocks"]
