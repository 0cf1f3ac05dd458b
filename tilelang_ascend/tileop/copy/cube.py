"""Copies between GM and the memories of the cube core, and what these transfers cannot do.

They move matrices whose rows are contiguous in GM between row-major and NZ; columns in front of the first one cannot be left out,
because rows of NZ are made of 32-byte pieces counted from the first column that is read. What has an obstacle (`load_obstacle`,
`store_obstacle`) goes through UB: `place_buffers` asks, so the functions here never meet it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...analysis.index.safe_values import safe_values
from ...analysis.index.value_facts import ValueFacts, facts_about, walk_with_facts
from ...ir import (
    Bind,
    PrimFunc,
    Stmt,
    TensorRegion,
    as_expr,
    const_int,
    dtype_of,
    if_then,
    imm,
    intrin,
    itemsize,
    loop,
    reinterpret,
    seq,
    sym,
    tirx,
)
from ...isa.fixpipe import SPLITS
from ...isa.units import BLOCK_BYTES, FRACTAL_ROWS, round_up
from ...tile.products import ACCUMULATED_IN
from ...tile.uses import moved_regions, on_chip
from ..base.layout import GmTensor, head
from ..base.placement import Side, Tile
from ..base.row_fractals import MAX_ND2NZ_STRIDE, units_of
from .axes import Axis, Copy, fixed_in_bounds, guarded, non_empty, pair_axes, paired_dims, tail_condition, tail_or_whole

MAX_FIXPIPE_STRIDE = (1 << 32) - 1
"""Elements from a row in GM to the next one that a parameter of 32 bits says."""
FIXPIPE_QUANT = {
    ("float32", "float32"): "none",
    ("int32", "int32"): "none",
    ("float32", "float16"): "f32_f16",
    ("float32", "bfloat16"): "f32_bf16",
}


def stays_in_nz(accumulated: str, dtype: str) -> bool:
    """True if a whole accumulator can go straight to a tile in L1: results of 16 bits."""
    return FIXPIPE_QUANT.get((accumulated, dtype), "none") != "none"


def leaves_as(accumulator: str, dtype: str) -> bool:
    """True if the fix-pipe makes numbers of `dtype` of what the user calls an accumulator of dtype `accumulator`: those of 16 bits are wider in
    L0C, and have to be rounded."""
    return (ACCUMULATED_IN.get(accumulator, accumulator), dtype) in FIXPIPE_QUANT and (
        accumulator == dtype or accumulator not in ACCUMULATED_IN
    )


def load_obstacle(src: TensorRegion, dst: TensorRegion, facts: ValueFacts, outside=0) -> str | None:
    """Why a copy from GM cannot go straight to L1, None if it can. `outside`: what elements outside of the tensor read as."""
    if outside != 0:
        return f"elements outside of the tensor read as {outside}, and the cube core fills rows with zeros"
    if dtype_of(src.source) != dtype_of(dst.source):
        return f"the cube core converts nothing on load, and {dtype_of(src.source)} is not {dtype_of(dst.source)}"
    return _matrix_obstacle(src, dst, BLOCK_BYTES // itemsize(dtype_of(dst.source)), facts)


def store_obstacle(src: TensorRegion, dst: TensorRegion, facts: ValueFacts) -> str | None:
    """Why a copy to GM cannot come straight from L0C, None if it can."""
    if not leaves_as(dtype_of(src.source), dtype_of(dst.source)):
        return f"the fix-pipe does not convert {dtype_of(src.source)} to {dtype_of(dst.source)}"
    return _matrix_obstacle(dst, src, FRACTAL_ROWS, facts)


def _matrix_obstacle(gm: TensorRegion, tile: TensorRegion, unit: int, facts: ValueFacts) -> str | None:
    """`unit`: columns of a piece of NZ."""
    pairs = paired_dims([r.extent for r in gm.region], [r.extent for r in tile.region])
    column, across = pairs[-1]
    last = len(tile.region) - 1
    if across != last or (len(pairs) > 1 and pairs[-2][1] != last - 1):
        return "rows of the tensor are not rows of the tile"
    strides = list(gm.source.strides or [])
    contiguous = const_int(strides[column]) == 1 if strides else column == len(gm.region) - 1
    if not contiguous or len(pairs) > 2:
        return "elements of its rows are apart in global memory"
    first, end = tile.region[last].min, tile.region[last].min + tile.region[last].extent
    whole_pieces = facts.proves(tirx.EQ(tirx.floormod(end, unit), 0)) or facts.proves(end >= tile.source.ty.shape[last])
    if not (facts.proves(tirx.EQ(tirx.floormod(first, unit), 0)) and whole_pieces):
        return f"its columns are not whole pieces of {unit} elements of the tile"
    if not facts.nonnegative(gm.region[column].min):
        return "its columns may start in front of the first column of the tensor, or this cannot be ruled out"
    return None


def find_obstacles(func: PrimFunc) -> dict:
    """The copies of `func` between GM and tiles that the transfers of the cube core cannot do, with the reason."""
    found: dict = {}
    facts, outside = facts_about(func), safe_values(func)

    def see(s):
        regions = moved_regions(s)
        if regions is None or on_chip(regions[0].source) == on_chip(regions[1].source):
            return
        if on_chip(regions[0].source):
            obstacle = store_obstacle(*regions, facts)
        else:
            obstacle = load_obstacle(*regions, facts, outside.get(regions[0].source, 0))
        if obstacle is not None:
            found[s] = obstacle

    walk_with_facts(func.body, facts, see)
    return found


def _matrix_axes(gm: Side, tile: Side, c: Copy) -> list[Axis]:
    """Rows and columns of a transfer, or columns alone; a single column is one, too."""
    axes = pair_axes(gm, tile, c, first_column=True)
    last = len(tile.mins) - 1
    return axes if axes[-1].tile == last else [*axes, Axis(len(gm.mins) - 1, last, 1, 1)]


def gm_to_l1(src: Side, dst: Side, c: Copy) -> Stmt:
    """GM -> L1 with conversion of the row-major matrix to NZ."""
    facts, tile = c.facts, dst.tile
    axes = _matrix_axes(src, dst, c)
    assert src.dtype == dst.dtype and len(axes) <= 2, "see load_obstacle"
    conds = fixed_in_bounds(src, axes, facts)
    row0 = dst.mins[-2] if len(dst.mins) > 1 else 0
    tail = tail_condition(axes, conds, facts)
    height = axes[0].extent if len(axes) > 1 else 1
    # Rows of padding belong to the last row of the tile.
    spare, last = tile.nz.rows_padded - tile.nz.rows, facts.proves(row0 + height >= tile.nz.rows)
    fill = fill_rows(tile, dst.version, row0, dst.mins[-1], height + (spare if last else 0), axes[-1].extent, c.span)
    padding = None
    if dst.tile in c.placement.zero_rows and spare and not last and not facts.proves(row0 + height < tile.nz.rows):
        # Whether the last row is among these is known at run time.
        padding = fill_rows(tile, dst.version, tile.nz.rows, dst.mins[-1], spare, axes[-1].extent, c.span)

    def transfer(axes, conds):
        rows, cols = ([None] + axes)[-2:]
        pitch = src.gm.strides[rows.gm] if rows else cols.valid
        index, skip = _after_skip(src, rows)
        moved = GmRows(src.gm, src.gm.offset(index, facts.analyzer), rows.valid if rows else 1, cols.valid, pitch)
        body = copy_rows(moved, tile, dst.version, row0 + skip, dst.mins[-1], facts, c.span)
        return guarded(conds + non_empty(axes, facts), body, c.span)

    always_fill = dst.tile in c.placement.zero_rows and (spare and last or tile.nz.single_column)
    return seq(padding, tail_or_whole(tail, fill, transfer, axes, conds, bool(always_fill), c))


def _after_skip(gm: Side, rows):
    """First index inside the GM tensor, and the number of rows of the tile in front of it."""
    index, skip = list(gm.mins), rows.skip if rows else 0
    if rows:
        index[rows.gm] = index[rows.gm] + skip
    return index, skip


def fill_rows(tile: Tile, version, row, col, rows, cols, span, value=0) -> Stmt:
    """`value` (of two bytes, where the tile has elements of one) in `rows` rows from `row` on of a tile in L1, from column `col`
    (a multiple of 32 bytes) to the block that holds the last of `cols` columns."""
    nz = tile.nz
    groups = round_up(const_int(cols), nz.c0) // nz.c0 if const_int(cols) is not None and not nz.single_column else nz.col_groups
    # The fill knows no 8-bit types.
    dtype = dtype_of(tile.buffer)

    def fill(first, *shape):
        target = head(tile.buffer, version, sym.Analyzer().simplify(nz.offset(as_expr(first), as_expr(col))))
        return intrin("fill_l1", reinterpret(target, "int16" if itemsize(dtype) == 1 else dtype), *shape, value, span=span)

    if nz.by_rows:
        if all(const_int(n) is not None and const_int(n) % FRACTAL_ROWS == 0 for n in (row, rows)):
            return fill(row, const_int(rows) // FRACTAL_ROWS, groups * FRACTAL_ROWS, (nz.col_groups - groups) * FRACTAL_ROWS)
        i = tirx.Var("row", "int32")
        return loop(i, rows, fill(row + i, groups, 1, FRACTAL_ROWS - 1), span=span)
    if const_int(rows) == nz.rows_padded:
        return fill(row, 1, nz.rows_padded * groups, 0)
    return fill(row, groups, rows, nz.rows_padded - rows)


@dataclass(frozen=True)
class GmRows:
    """`rows` rows of `cols` elements in a GM tensor, from element `source` on and `pitch` elements apart."""

    gm: GmTensor
    source: object
    rows: object
    cols: object
    pitch: object


def copy_rows(moved: GmRows, tile: Tile, version, row, col, facts: ValueFacts, span) -> Stmt:
    """Rows of a GM tensor to a tile in L1 from (row, col) on.

    As few Nd2Nz transfers as the layout allows, or one for each row where the pitch exceeds the parameter's 16 bits.
    """
    nz, rows, pitch = tile.nz, moved.rows, moved.pitch

    def transfer(i, count, step, first=row):
        return intrin(
            "copy_gm_to_l1_nd2nz",
            head(tile.buffer, version, facts.simplify(nz.offset(as_expr(first if i is None else first + i), as_expr(col)))),
            head(moved.gm.flat, None, moved.source if i is None else moved.gm.further(moved.source, i, pitch)),
            1, count, moved.cols, 0, step, nz.group_rows, 1, 1,
            span=span,
        )  # fmt: skip

    def by_fractals(step, unit):
        """Several matrices of 16 rows each, `unit` elements as one."""
        wide = (lambda x: reinterpret(x, "int32")) if unit > 1 else (lambda x: x)
        height, width = FRACTAL_ROWS, const_int(moved.cols) // unit
        return intrin(
            "copy_gm_to_l1_nd2nz",
            wide(head(tile.buffer, version, facts.simplify(nz.offset(as_expr(row), as_expr(col))))),
            wide(head(moved.gm.flat, None, moved.source)),
            const_int(rows) // height, height, width, height * step // unit, step // unit,
            nz.group_rows, 1, nz.col_groups * height * nz.c0 // unit,
            span=span,
        )  # fmt: skip

    def in_groups(step, first):
        """A transfer for each 16 rows, from the first row of such a group on."""
        block = tirx.Var("row_block", "int32")
        whole = const_int(rows) is not None and const_int(rows) % FRACTAL_ROWS == 0
        count = FRACTAL_ROWS if whole else tirx.min(imm(FRACTAL_ROWS), rows - block * FRACTAL_ROWS)
        blocks = facts.simplify(tirx.floordiv(as_expr(rows) + (FRACTAL_ROWS - 1), imm(FRACTAL_ROWS)))
        return loop(block, blocks, transfer(block * FRACTAL_ROWS, count, step, first), span=span)

    def several(step):
        if not nz.by_rows:
            return transfer(None, rows, step)
        within = tirx.floormod(as_expr(row), imm(FRACTAL_ROWS))
        if not facts.proves(tirx.EQ(within, imm(0))):
            # Rows in front of a tensor are left out seldom, and then mostly in the middle of a group.
            group = tirx.Var("group", "int32")
            start = Bind(group, tirx.floordiv(as_expr(row), imm(FRACTAL_ROWS)), span=span)
            return seq(start, if_then(tirx.EQ(within, imm(0)), in_groups(step, group * FRACTAL_ROWS), by_row, span=span))
        count, width = (const_int(n) for n in (rows, moved.cols))
        if isinstance(step, int) and None not in (count, width):
            unit = units_of(step, width, count, itemsize(dtype_of(tile.buffer)), nz.col_groups * nz.c0)
            first = as_expr(moved.source)
            # Pairs of elements begin at even ones.
            if unit == 1 or unit and facts.proves(tirx.EQ(tirx.floormod(first, imm(unit, dtype_of(first))), imm(0, dtype_of(first)))):
                return by_fractals(step, unit)
        return in_groups(step, row)

    i = tirx.Var("row", "int32")
    by_row = loop(i, rows, transfer(i, 1, nz.cols), span=span)
    known = const_int(pitch)
    if known is not None:
        return several(known) if known <= MAX_ND2NZ_STRIDE else by_row
    return if_then(pitch <= MAX_ND2NZ_STRIDE, several(tirx.Cast("int32", pitch)), by_row, span=span)


def l0c_to_gm(src: Side, dst: Side, c: Copy) -> Stmt:
    """L0C -> GM through the fix-pipe: NZ to row-major, with conversion of the accumulator."""
    facts, tile = c.facts, src.tile
    quant = FIXPIPE_QUANT[src.dtype, dst.dtype]
    axes = _matrix_axes(dst, src, c)
    assert len(axes) <= 2, "see store_obstacle"
    rows, cols = ([None] + axes)[-2:]
    m_size = rows.valid if rows else 1
    row_pitch = dst.gm.strides[rows.gm] if rows else cols.valid
    row0 = src.mins[-2] if len(src.mins) > 1 else 0
    index, skip = _after_skip(dst, rows)
    first = dst.gm.offset(index, facts.analyzer)

    def transfer(count, pitch, i=None):
        """`count` rows from row `i` on."""
        target = first if i is None else dst.gm.further(first, i, row_pitch)
        source = tile.nz.offset(row0 + skip if i is None else row0 + skip + i, src.mins[-1])
        return intrin(
            "fixpipe_to_gm",
            head(dst.gm.flat, None, target),
            head(tile.buffer, src.version, facts.simplify(source)),
            cols.valid, count, tile.nz.rows_padded, pitch, 0,
            span=c.span,
            quant=quant,
        )  # fmt: skip

    def one_by_one():
        i = tirx.Var("row", "int32")
        return loop(i, m_size, transfer(1, cols.valid, i), span=c.span)

    known = const_int(row_pitch)
    if known is not None:
        store = transfer(m_size, known if known < 1 << 31 else imm(known, "uint32")) if known <= MAX_FIXPIPE_STRIDE else one_by_one()
    elif dtype_of(row_pitch) == "int32":
        store = transfer(m_size, row_pitch)
    else:
        fits, together = row_pitch <= imm(MAX_FIXPIPE_STRIDE, "int64"), transfer(m_size, tirx.Cast("uint32", row_pitch))
        store = together if facts.proves(fits) else if_then(fits, together, one_by_one(), span=c.span)
    return guarded(fixed_in_bounds(dst, axes, facts) + non_empty(axes, facts), c.store(store, dst.dtype), c.span)


def l0c_to_l1(src: Side, dst: Side, c: Copy) -> Stmt:
    """L0C -> L1 through the fix-pipe, staying NZ."""
    a, b = src.tile.nz, dst.tile.nz
    quant = FIXPIPE_QUANT[src.dtype, dst.dtype]
    assert stays_in_nz(src.dtype, dst.dtype) and (a.rows, a.cols) == (b.rows, b.cols), "place_buffers goes through GM"
    return intrin(
        "fixpipe_to_l1",
        head(dst.tile.buffer, dst.version, b.offset(dst.mins[-2], dst.mins[-1])),
        head(src.tile.buffer, src.version, a.offset(src.mins[-2], src.mins[-1])),
        round_up(a.cols, a.c0), a.rows, a.rows_padded, b.rows_padded * b.c0 * itemsize(dst.dtype) // BLOCK_BYTES, 0,
        span=c.span,
        quant=quant,
    )  # fmt: skip


def l0c_to_ub(src: Side, dst: Side, c: Copy) -> Stmt:
    """L0C -> UB of both vector cores through the fix-pipe: the region is the half of the one that asks (`direct_channels`)."""
    (height, width), (rows, columns) = (const_int(n) for n in src.extents), src.tile.shape
    split = SPLITS["rows" if 2 * height == rows else "columns"]
    assert (rows, columns) in ((2 * height, width), (height, 2 * width)), "direct_channels asks for halves"
    return intrin(
        "fixpipe_to_ub",
        head(dst.tile.buffer, dst.version, 0),
        head(src.tile.buffer, src.version, 0),
        columns, rows, src.tile.nz.rows_padded, dst.tile.strides[0], 0, split, 0,
        span=c.span,
        quant=FIXPIPE_QUANT[src.dtype, dst.dtype],
    )  # fmt: skip


def ub_to_l1(src: Side, dst: Side, c: Copy) -> Stmt:
    """UB -> L1 of the cube core, from rows to NZ: a piece of 32 bytes from each row, or the pieces of a row, whichever are fewer transfers."""
    nz, (rows, columns), (row, column) = dst.tile.nz, (const_int(n) for n in dst.extents), dst.mins
    groups, pitch = columns // nz.c0, src.tile.strides[0]
    assert nz.rows == nz.rows_padded and rows % FRACTAL_ROWS == columns % nz.c0 == 0, "direct_channels asks for whole fractals"
    by_row = nz.by_rows or rows < groups
    i = tirx.Var("row" if by_row else "piece", "int32")
    place = nz.offset(as_expr(row) + i, as_expr(column)) if by_row else nz.offset(as_expr(row), as_expr(column) + i * nz.c0)
    count, source_gap, target_gap = (groups, 0, nz.group_rows - 1) if by_row else (rows, pitch // nz.c0 - 1, 0)
    moved = intrin(
        "copy_ub_to_l1",
        head(dst.tile.buffer, dst.version, c.facts.simplify(place)),
        head(src.tile.buffer, src.version, i * (pitch if by_row else nz.c0)),
        count, 1, source_gap, target_gap,
        span=c.span,
    )  # fmt: skip
    return loop(i, rows if by_row else groups, moved, span=c.span)


__all__ = [
    "GmRows",
    "copy_rows",
    "fill_rows",
    "find_obstacles",
    "gm_to_l1",
    "l0c_to_gm",
    "l0c_to_l1",
    "l0c_to_ub",
    "leaves_as",
    "stays_in_nz",
    "ub_to_l1",
]
