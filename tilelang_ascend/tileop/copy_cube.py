"""Copies between GM and the memories of the cube core, and what these transfers cannot do.

They move matrices whose rows are contiguous in GM between row-major and NZ; columns in front of the first one cannot be left out,
because rows of NZ are made of 32-byte pieces counted from the first column that is read. What has an obstacle (`load_obstacle`,
`store_obstacle`) goes through UB: `place_buffers` asks, so the functions here never meet it.
"""

from __future__ import annotations

from ..analysis.tile_uses import moved_regions, on_chip
from ..analysis.value_facts import ValueFacts, facts_about, walk_with_facts
from ..ir import PrimFunc, Stmt, TensorRegion, const_int, dtype_of, if_then, intrin, itemsize, loop, reinterpret, tirx
from .context import round_up
from .copy_axes import Copy, fixed_in_bounds, guarded, non_empty, pair_axes, paired_dims, tail_condition, tail_or_whole
from .layout import BLOCK_BYTES
from .state import Side, Tile, head

MAX_ND2NZ_STRIDE = 65535
FIXPIPE_QUANT = {
    ("float32", "float32"): "none",
    ("int32", "int32"): "none",
    ("float32", "float16"): "f32_f16",
    ("float32", "bfloat16"): "f32_bf16",
}


def load_obstacle(src: TensorRegion, dst: TensorRegion, facts: ValueFacts) -> str | None:
    """Why a copy from GM cannot go straight to L1, None if it can."""
    if dtype_of(src.source) != dtype_of(dst.source):
        return f"the cube core converts nothing on load, and {dtype_of(src.source)} is not {dtype_of(dst.source)}"
    return _matrix_obstacle(src, dst, facts)


def store_obstacle(src: TensorRegion, dst: TensorRegion, facts: ValueFacts) -> str | None:
    """Why a copy to GM cannot come straight from L0C, None if it can."""
    if (dtype_of(src.source), dtype_of(dst.source)) not in FIXPIPE_QUANT:
        return f"the fix-pipe does not convert {dtype_of(src.source)} to {dtype_of(dst.source)}"
    return _matrix_obstacle(dst, src, facts)


def _matrix_obstacle(gm: TensorRegion, tile: TensorRegion, facts: ValueFacts) -> str | None:
    pairs = paired_dims([r.extent for r in gm.region], [r.extent for r in tile.region])
    column = pairs[-1][0]
    strides = list(gm.source.strides or [])
    contiguous = const_int(strides[column]) == 1 if strides else column == len(gm.region) - 1
    if not contiguous or len(pairs) > 2:
        return "elements of its rows are apart in global memory"
    if not facts.nonnegative(gm.region[column].min):
        return "its columns may start in front of the first column of the tensor, or this cannot be ruled out"
    return None


def find_obstacles(func: PrimFunc) -> dict:
    """The copies of `func` between GM and tiles that the transfers of the cube core cannot do, with the reason."""
    found: dict = {}
    facts = facts_about(func)

    def see(s):
        regions = moved_regions(s)
        if regions is None or on_chip(regions[0].source) == on_chip(regions[1].source):
            return
        obstacle = (store_obstacle if on_chip(regions[0].source) else load_obstacle)(*regions, facts)
        if obstacle is not None:
            found[s] = obstacle

    walk_with_facts(func.body, facts, see)
    return found


def gm_to_l1(src: Side, dst: Side, c: Copy) -> Stmt:
    """GM -> L1 with conversion of the row-major matrix to NZ."""
    state, tile = c.state, dst.tile
    axes = pair_axes(src, dst, c, first_column=True)
    assert src.dtype == dst.dtype and len(axes) <= 2, "see load_obstacle"
    conds = fixed_in_bounds(src, axes, state)
    row0 = dst.mins[-2] if len(dst.mins) > 1 else 0
    tail = tail_condition(axes, conds)
    blocks = tile.nz.elements * itemsize(dst.dtype) // BLOCK_BYTES
    # The fill knows no 8-bit types; zero bytes are zero in any.
    target = reinterpret(head(tile.buffer, dst.version, 0), "int16" if itemsize(dst.dtype) == 1 else dst.dtype)
    fill = intrin("fill_l1", target, 1, blocks, 0, 0, span=c.span)

    def transfer(axes, conds):
        rows, cols = ([None] + axes)[-2:]
        pitch = src.gm.strides[rows.gm] if rows else cols.valid
        index, skip = _after_skip(src, rows)
        offset, source = state.simplify(tile.nz.offset(row0 + skip, dst.mins[-1])), src.gm.offset(index, state.analyzer)
        body = _nd2nz(tile, dst.version, offset, src, source, rows.valid if rows else 1, cols.valid, pitch, c)
        return guarded(conds + non_empty(axes, state), body, c.span)

    always_fill = dst.tile in state.zero_rows and tile.nz.rows % tile.nz.row_unit
    return tail_or_whole(tail, fill, transfer, axes, conds, bool(always_fill), c)


def _after_skip(gm: Side, rows):
    """First index inside the GM tensor, and the number of rows of the tile in front of it."""
    index, skip = list(gm.mins), rows.skip if rows else 0
    if rows:
        index[rows.gm] = index[rows.gm] + skip
    return index, skip


def _nd2nz(tile: Tile, version, offset, src: Side, source, rows, cols, stride, c: Copy) -> Stmt:
    """One Nd2Nz transfer, or one for each row where the row pitch exceeds the parameter's 16 bits."""

    def transfer(row, count, pitch):
        return intrin(
            "copy_gm_to_l1_nd2nz",
            head(tile.buffer, version, offset + row * tile.nz.c0 if row is not None else offset),
            head(src.gm.flat, None, source + row * stride if row is not None else source),
            1, count, cols, 0, pitch, tile.nz.rows_padded, 1, 1,
            span=c.span,
        )  # fmt: skip

    row = tirx.Var("row", "int32")
    by_row = loop(row, rows, transfer(row, 1, tile.nz.cols), span=c.span)
    pitch = const_int(stride)
    if pitch is not None:
        return transfer(None, rows, pitch) if pitch <= MAX_ND2NZ_STRIDE else by_row
    fits = stride <= MAX_ND2NZ_STRIDE
    return if_then(fits, transfer(None, rows, tirx.Cast("int32", stride)), by_row, span=c.span)


def l0c_to_gm(src: Side, dst: Side, c: Copy) -> Stmt:
    """L0C -> GM through the fix-pipe: NZ to row-major, with conversion of the accumulator."""
    state, tile = c.state, src.tile
    quant = FIXPIPE_QUANT[src.dtype, dst.dtype]
    axes = pair_axes(dst, src, c, first_column=True)
    assert len(axes) <= 2, "see store_obstacle"
    rows, cols = ([None] + axes)[-2:]
    m_size = rows.valid if rows else 1
    row_pitch = dst.gm.strides[rows.gm] if rows else cols.valid
    row0 = src.mins[-2] if len(src.mins) > 1 else 0
    index, skip = _after_skip(dst, rows)
    offset = state.simplify(tile.nz.offset(row0 + skip, src.mins[-1]))
    store = intrin(
        "fixpipe_to_gm",
        head(dst.gm.flat, None, dst.gm.offset(index, state.analyzer)),
        head(tile.buffer, src.version, offset),
        cols.valid, m_size, tile.nz.rows_padded, _int32(row_pitch), 0,
        span=c.span,
        quant=quant,
    )  # fmt: skip
    return guarded(fixed_in_bounds(dst, axes, state) + non_empty(axes, state), c.store(store, dst.dtype), c.span)


def l0c_to_l1(src: Side, dst: Side, c: Copy) -> Stmt:
    """L0C -> L1 through the fix-pipe, staying NZ."""
    quant = FIXPIPE_QUANT.get((src.dtype, dst.dtype))
    if quant in (None, "none"):
        c.refuse(f"L0C to L1 needs a 16-bit result, not {dst.dtype}", "make the tile float16 or bfloat16")
    a, b = src.tile.nz, dst.tile.nz
    return intrin(
        "fixpipe_to_l1",
        head(dst.tile.buffer, dst.version, b.offset(dst.mins[-2], dst.mins[-1])),
        head(src.tile.buffer, src.version, a.offset(src.mins[-2], src.mins[-1])),
        round_up(a.cols, a.c0), a.rows, a.rows_padded, b.rows_padded * b.c0 * itemsize(dst.dtype) // BLOCK_BYTES, 0,
        span=c.span,
        quant=quant,
    )  # fmt: skip


def _int32(e):
    if isinstance(e, int) or str(e.ty.dtype) == "int32":
        return e
    return tirx.Cast("int32", e)


__all__ = ["find_obstacles", "gm_to_l1", "l0c_to_gm", "l0c_to_l1"]
