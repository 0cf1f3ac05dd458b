"""map_grid: run any 1-D to 3-D grid on the cores of the chip, as one persistent loop per core.

Before:  for bx in grid(gx): for by in grid(gy): body
After:   block = get_block_idx()
         for t in range(ceildiv(gx * gy - block, blocks)):
             tile = block + t * blocks; bx = tile % gx; by = tile // gx % gy; body

Blocks whose loads share lines of L2 get neighbouring numbers, and so run at the same time: if a step along an axis stays inside of a line of
a tensor that L2 cannot hold (heads of 128 numbers behind one another), that axis runs fastest. A GPU says nothing about the order of blocks.

If a number of a block decides how often a loop runs, as under a causal mask, every other round goes the other way, so that no core
has the longest block of each: tile = block + t * blocks + t % 2 * (blocks - 1 - 2 * block). Where the number of blocks along that axis is a multiple of the
number of cores, the same cores would always have the same ones of each row: if data leaves out the last ones of some rows, these would have less to do than
others. Every second round begins further on then: block becomes (block + t // 2 * shift) % blocks.

`blocks` = cube cores of the chip if any statement is cube work (each brings its two vector cores along), else vector cores; never
more than there are tiles. In this combined form `get_block_idx` counts blocks on both kinds of core.

Requires: placed Tile IR with one grid. Ensures: no grid loops; attribute `ascend.block_dim`.
"""

from __future__ import annotations

import math

from ...analysis.index.data_names import DataNames
from ...analysis.tiles.core_kinds import uses_cube
from ...ir import (
    AllocBuffer,
    Bind,
    For,
    IfThenElse,
    PrimFunc,
    Stmt,
    call,
    const_int,
    dependent_names,
    dtype_of,
    free_vars,
    imm,
    loop,
    seq,
    statements,
    stmts_of,
    substitute_expr,
    sym,
    tirx,
)
from ...ir.grids import is_grid_axis
from ...ir.visit import drop_allocs
from ...isa.base import ITEMSIZE
from ...tile.uses import INDEPENDENT, PAIRED, UNORDERED, loads_in, moved_regions, on_chip

GOLDEN = 0.382
"""Part of a round by which places are shifted: multiples of it spread evenly."""


def _grids(body: Stmt) -> tuple[list[Stmt], list[For], list[Stmt]]:
    """Statements before the grid, the grid nests, statements after."""
    before, grids, after = [], [], []
    for s in stmts_of(body):
        if is_grid_axis(s):
            grids.append(s)
        else:
            (after if grids else before).append(s)
    return before, grids, after


def _trips_depend(body: Stmt, number) -> bool:
    """True if `number` decides how often a loop of `body` runs."""
    found = dependent_names(body, number)
    return any(isinstance(s, For) and UNORDERED not in s.annotations and free_vars(s.extent) & found for s in statements(body))


def _shift(blocks: int, along, body: Stmt) -> int:
    """By how much further every second round begins: where the axis that decides has `along` blocks, a multiple of those of a round, and all of
    a block, but for names, stands under a condition on data."""
    if (const_int(along) or 1) % blocks:
        return 0
    work = [s for s in stmts_of(body) if not isinstance(s, (AllocBuffer, Bind))]
    left_out = len(work) == 1 and isinstance(work[0], IfThenElse) and DataNames(body).is_data(work[0].condition)
    return round(GOLDEN * blocks) if left_out else 0


def _shares_lines(body: Stmt, axes: list, chip) -> int:
    """Position of the axis along which loads of neighbouring blocks share lines of L2; 0, the fastest one, if there is none or any will do."""
    lets = {s.var: s.value for s in statements(body) if isinstance(s, Bind) and not loads_in(s.value)}
    analyzer = sym.Analyzer()
    shared = [0] * len(axes)
    for s in statements(body):
        source = (moved_regions(s) or (None,))[0]
        if source is None or on_chip(source.source):
            continue
        shape = [const_int(n) for n in source.source.ty.shape]
        size = ITEMSIZE[dtype_of(source.source)]
        row, loaded = const_int(source.region[-1].extent), [const_int(r.extent) for r in source.region]
        if None in shape or None in loaded or math.prod(shape) * size <= chip.l2_bytes or row * size >= chip.l2_line_bytes:
            continue
        offset = imm(0)
        for r, n in zip(source.region, shape):
            offset = offset * n + r.min
        for _ in range(len(lets)):
            offset = substitute_expr(offset, lets)
        for k, (var, extent) in enumerate(axes):
            step = const_int(analyzer.simplify(substitute_expr(offset, {var: imm(1)}) - substitute_expr(offset, {var: imm(0)})))
            if const_int(extent) != 1 and step is not None and row <= step and step * size < chip.l2_line_bytes:
                shared[k] += math.prod(loaded)
    return shared.index(max(shared))


def _place(block, step, blocks: int, turns: bool, shift: int):
    """The place of a block in a round. shift: by how much further every second round begins."""
    if shift:
        block = tirx.floormod(block + tirx.floordiv(step, imm(2)) * shift, imm(blocks))
    return block + tirx.floormod(step, imm(2)) * (imm(blocks - 1) - block * 2) if turns else block


def _notes(func: PrimFunc) -> dict:
    """Annotations of the loop over tiles."""
    return {INDEPENDENT: 1} | ({PAIRED: 1} if "ascend.paired" in func.attrs else {})


def map_grid(func: PrimFunc, chip) -> PrimFunc:
    """Apply to a placed Tile IR function; `chip` gives the numbers of cores."""
    before, grids, after = _grids(func.body)
    assert len(grids) == 1, f"{len(grids)} grids in one function"
    axes, parts, body = [], set(), grids[0]
    while is_grid_axis(body):
        axes.append((body.loop_var, body.extent))
        parts |= {body.loop_var} if "tl.part" in body.annotations else set()
        body = body.body
    axes.insert(0, axes.pop(_shares_lines(body, axes, chip)))
    analyzer = sym.Analyzer()
    total = imm(1)
    for _, extent in axes:
        total = total * extent
    total = analyzer.simplify(total)
    cores = chip.num_aic if uses_cube(body) else chip.num_aiv
    tiles = const_int(total)
    blocks = max(1, min(cores, tiles)) if tiles is not None else cores

    block = tirx.Var("block", "int32")
    binds = [Bind(block, call("ascend.get_block_idx", [], dtype="int32"))]
    step = tirx.Var("t", "int32")
    tile = tirx.Var("tile", "int32")
    single = tiles is not None and tiles <= blocks
    numbers = [var for var, _ in axes if var not in parts]
    turns = not single and any(_trips_depend(body, var) for var in numbers)
    shift = _shift(blocks, dict(axes)[numbers[0]], body) if turns and _trips_depend(body, numbers[0]) else 0
    inner: list[Stmt] = [] if single else [Bind(tile, _place(block, step, blocks, turns, shift) + step * blocks)]
    rest = block if single else tile
    even = tiles is not None and tiles % blocks == 0
    for var, extent in axes:
        # The remainder of the last axis changes nothing; it tells later passes the range of the index.
        inner.append(Bind(var, block if single and len(axes) == 1 else tirx.floormod(rest, extent)))
        rest = tirx.floordiv(rest, extent)
    inner.append(body)
    if single:
        main = seq(inner)
    else:
        mine = _place(block, tirx.floordiv(total, imm(blocks)), blocks, turns, shift)  # in the last round
        trips = imm(tiles // blocks) if even else analyzer.simplify(tirx.floordiv(total - mine + (blocks - 1), imm(blocks)))
        main = loop(step, trips, seq(inner), span=grids[0].span, **_notes(func))
    allocs = [s for s in statements(main) if isinstance(s, AllocBuffer) and (on_chip(s.buffer) or "workspace" in s.annotations)]
    out = func.with_body(seq(allocs, binds, before, drop_allocs(main, {a.buffer for a in allocs}), after))
    return out.with_attr("ascend.block_dim", blocks)


__all__ = ["map_grid"]
