"""Copies between GM and the memories of the cores, exact at every edge.

Out-of-bounds parts of a GM region read as zero and are not written: transfers are clipped to the tensor, and the tile is
filled with zeros first where a clipped load leaves part of it untouched.
"""

from __future__ import annotations

from ..analysis.tile_uses import moved_regions
from ..errors import UnsupportedConstruct
from ..ir import Evaluate, Stmt, const_int, if_then, imm, intrin, itemsize, loop, reinterpret, seq, tirx
from .context import round_up
from .copy_axes import Copy, fixed_in_bounds, guarded, non_empty, pair_axes, tail_condition, tail_or_whole
from .copy_ub import gm_to_gm, gm_to_ub, ub_to_gm, ub_to_ub
from .layout import BLOCK_BYTES
from .state import LoweringState, Side, Tile, head

MAX_ND2NZ_STRIDE = 65535
FIXPIPE_QUANT = {
    ("float32", "float32"): "none",
    ("int32", "int32"): "none",
    ("float32", "float16"): "f32_f16",
    ("float32", "bfloat16"): "f32_bf16",
}


def lower_copy(s: Evaluate, state: LoweringState, vector) -> Stmt:
    """Lower `tl.copy(src, dst)` or the tile form of `tl.atomic_*`. `vector(stmt, versions)` lowers a nest or fill over view buffers."""
    src, dst = (state.side(x) for x in moved_regions(s))
    key = (src.scope, dst.scope)
    routes = {
        ("global", "shared.l1"): gm_to_l1,
        ("global", "shared.ub"): gm_to_ub,
        ("shared.ub", "global"): ub_to_gm,
        ("local.l0c", "global"): l0c_to_gm,
        ("local.l0c", "shared.l1"): l0c_to_l1,
        ("shared.ub", "shared.ub"): ub_to_ub,
        ("global", "global"): gm_to_gm,
    }
    if key not in routes:
        raise UnsupportedConstruct(
            f"no transfer from {key[0]} to {key[1]} on {state.chip.name}", at=s.span, hint="copy through global memory"
        )
    body = routes[key](src, dst, Copy(s, state, vector))
    return seq(state.take_binds(), body)


# ---- GM <-> L1, L0C ------------------------------------------------------------------------------------------------


def gm_to_l1(src: Side, dst: Side, c: Copy) -> Stmt:
    """GM -> L1 with conversion of the row-major matrix to NZ."""
    state, tile = c.state, dst.tile
    if src.dtype != dst.dtype:
        c.refuse(
            f"'{tile.buffer.name}' is {dst.dtype} for gemm but loaded from {src.dtype}: the cube core converts nothing on load",
            f"declare the tile as {src.dtype}",
        )
    axes = pair_axes(src, dst, c)
    rows, cols = ([None] + axes)[-2:]
    if const_int(src.gm.strides[cols.gm]) != 1 or len(axes) > 2:
        c.refuse("a gemm operand must be a matrix whose last dimension is contiguous in global memory", "copy it to a matrix")
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
        index, skip = _after_skip(src, rows, cols, c)
        offset, source = state.simplify(tile.nz.offset(row0 + skip, dst.mins[-1])), src.gm.offset(index, state.analyzer)
        body = _nd2nz(tile, dst.version, offset, src, source, rows.valid if rows else 1, cols.valid, pitch, c)
        return guarded(conds + non_empty(axes, state), body, c.span)

    always_fill = dst.tile in state.zero_rows and tile.nz.rows % tile.nz.row_unit
    return tail_or_whole(tail, fill, transfer, axes, conds, bool(always_fill), c)


def _after_skip(gm: Side, rows, cols, c: Copy):
    """First index inside the GM tensor, and the number of rows of the tile in front of it."""
    if const_int(cols.skip) != 0:
        c.refuse(
            "columns of a gemm tile may start in front of the first column of the tensor, or this cannot be ruled out",
            "start gemm tiles at a column that is at least 0 by construction",
        )
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
    quant = FIXPIPE_QUANT.get((src.dtype, dst.dtype))
    if quant is None:
        c.refuse(f"the fix-pipe does not convert {src.dtype} to {dst.dtype}", "convert element-wise with T.Parallel before the copy")
    axes = pair_axes(dst, src, c)
    rows, cols = ([None] + axes)[-2:]
    if const_int(dst.gm.strides[cols.gm]) != 1 or len(axes) > 2:
        c.refuse("an accumulator can only be stored to rows that are contiguous in global memory", "store a matrix")
    m_size = rows.valid if rows else 1
    row_pitch = dst.gm.strides[rows.gm] if rows else cols.valid
    row0 = src.mins[-2] if len(src.mins) > 1 else 0
    index, skip = _after_skip(dst, rows, cols, c)
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


__all__ = ["lower_copy"]


__all__ = ["lower_copy"]
