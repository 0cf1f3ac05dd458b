"""Copies between GM and the memories of the cores, exact at every edge.

Out-of-bounds parts of a GM region read as zero and are not written: transfers are clipped to the tensor, and the tile is
filled with zeros first where a clipped load leaves part of it untouched.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..analysis.tile_uses import ATOMIC_OPS, moved_regions
from ..errors import UnsupportedConstruct
from ..ir import (
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    Stmt,
    const_int,
    full_region,
    if_then,
    imm,
    intrin,
    itemsize,
    loop,
    op_name,
    reinterpret,
    seq,
    tile_op,
    tirx,
)
from ..isa.sync import ATOMIC_DTYPES
from .context import round_up
from .layout import BLOCK_BYTES
from .state import LoweringState, Side, Tile, head

MAX_BLOCK_COUNT = 4095
MAX_ND2NZ_STRIDE = 65535
MAX_ND2NZ_ROWS = 16384
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


@dataclass(frozen=True)
class Copy:
    """The statement being lowered and what it needs."""

    stmt: Evaluate
    state: LoweringState
    vector: object

    @property
    def span(self):
        return self.stmt.span

    def store(self, transfer: Stmt, dtype: str) -> Stmt:
        """A transfer to GM of elements of `dtype`, inside the atomic mode the statement asks for."""
        name = op_name(self.stmt)
        if name not in ATOMIC_OPS:
            return transfer
        if dtype not in ATOMIC_DTYPES:
            self.refuse(f"no atomic updates of {dtype} in global memory", "use one of: " + ", ".join(ATOMIC_DTYPES))
        start = intrin("set_atomic", op=name.removeprefix("tl.atomic_"), dtype=dtype, span=self.span)
        return seq(start, transfer, intrin("set_atomic", op="none", dtype="float32", span=self.span))

    def refuse(self, message: str, hint: str):
        """Raise a located error."""
        raise UnsupportedConstruct(message, at=self.span, hint=hint)


@dataclass(frozen=True)
class Axis:
    """One dimension of a copy: index of the dimension on both sides, extent, and the part of it inside the GM tensor."""

    gm: int
    tile: int
    extent: object
    valid: object
    clipped: bool


def pair_axes(gm: Side, tile: Side, c: Copy) -> list[Axis]:
    """Match the dimensions of a GM region with those of a tile region; unit dimensions drop out."""
    a = [d for d, e in enumerate(gm.extents) if const_int(e) != 1]
    b = [d for d, e in enumerate(tile.extents) if const_int(e) != 1]
    if len(a) != len(b):
        # One side may have unit extent by accident of its shape: fall back to right alignment.
        n = min(len(gm.extents), len(tile.extents))
        a = list(range(len(gm.extents) - n, len(gm.extents)))
        b = list(range(len(tile.extents) - n, len(tile.extents)))
    if not a:
        a, b = [len(gm.extents) - 1], [len(tile.extents) - 1]
    axes = []
    for g, t in zip(a, b):
        extent = tile.extents[t] if const_int(gm.extents[g]) is None or const_int(tile.extents[t]) is None else gm.extents[g]
        if const_int(gm.extents[g]) != const_int(tile.extents[t]) and None not in (
            const_int(gm.extents[g]),
            const_int(tile.extents[t]),
        ):
            c.refuse(
                f"copy extents differ: {gm.extents[g]} in global memory against {tile.extents[t]} in the tile",
                "give both sides the same extents",
            )
        axes.append(clip(gm, g, t, extent, c.state))
    return axes


def clip(gm: Side, g: int, t: int, extent, state: LoweringState) -> Axis:
    """Part of a dimension that lies inside the tensor."""
    inside = state.simplify(gm.gm.shape[g] - gm.mins[g])
    extent = state.simplify(extent)
    if state.proves(inside >= extent):
        return Axis(g, t, extent, extent, False)
    valid = state.simplify(tirx.max(tirx.min(extent if not isinstance(extent, int) else imm(extent), inside), imm(0)))
    if str(valid.ty.dtype) != "int32":
        valid = tirx.Cast("int32", valid)
    if const_int(valid) is not None:
        return Axis(g, t, extent, const_int(valid), True)
    name = gm.gm.flat.name + ("_rows" if g < len(gm.mins) - 1 else "_cols")
    return Axis(g, t, extent, state.bind_value(name, valid, extent), True)


def fixed_in_bounds(gm: Side, axes: list[Axis], state: LoweringState) -> list:
    """Conditions under which the dimensions that are not copied along (extent 1) lie inside the tensor."""
    used = {a.gm for a in axes}
    conds = []
    for d, m in enumerate(gm.mins):
        if d not in used and not state.proves(m < gm.gm.shape[d]):
            conds.append(m < gm.gm.shape[d])
    return conds


def guarded(conds: list, body: Stmt, span) -> Stmt:
    """`body` under all conditions."""
    if not conds:
        return body
    cond = conds[0]
    for x in conds[1:]:
        cond = tirx.And(cond, x)
    return if_then(cond, body, span=span)


def non_empty(axes: list[Axis], state: LoweringState) -> list:
    """Conditions under which a clipped transfer moves anything."""
    return [a.valid > 0 for a in axes if a.clipped and not state.proves(a.valid > 0)]


def tail_condition(axes: list[Axis], conds: list):
    """Condition under which a load leaves part of the tile untouched: an expression, True, or None if it never does."""
    clipped = [a for a in axes if a.clipped]
    if any(const_int(a.valid) is not None and const_int(a.extent) is not None for a in clipped):
        return True
    parts = [a.valid < a.extent for a in clipped] + [tirx.Not(c) for c in conds]
    if not parts:
        return None
    out = parts[0]
    for x in parts[1:]:
        out = tirx.Or(out, x)
    return out


def _tail_or_whole(tail, fill, transfer, axes: list[Axis], conds: list, always_fill: bool, c: Copy) -> Stmt:
    """A load that may be clipped: filled and clipped where it is, the plain transfer everywhere else.

    Two branches rather than a guarded fill in front of one transfer: the usual iteration then has no dependence on the fill and
    needs no flag for it.
    """
    if tail is None:
        return seq(fill if always_fill else None, transfer(axes, conds))
    clipped = seq(fill, transfer(axes, conds))
    if tail is True:
        return clipped
    whole = [replace(a, valid=a.extent, clipped=False) for a in axes]
    return if_then(tail, clipped, seq(fill if always_fill else None, transfer(whole, [])), span=c.span)


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
    offset = state.simplify(tile.nz.offset(row0, dst.mins[-1]))
    source = src.gm.offset(src.mins, state.analyzer)
    tail = tail_condition(axes, conds)
    blocks = tile.nz.elements * itemsize(dst.dtype) // BLOCK_BYTES
    # The fill knows no 8-bit types; zero bytes are zero in any.
    target = reinterpret(head(tile.buffer, dst.version, 0), "int16" if itemsize(dst.dtype) == 1 else dst.dtype)
    fill = intrin("fill_l1", target, 1, blocks, 0, 0, span=c.span)

    def transfer(axes, conds):
        rows, cols = ([None] + axes)[-2:]
        pitch = src.gm.strides[rows.gm] if rows else cols.valid
        body = _nd2nz(tile, dst.version, offset, src, source, rows.valid if rows else 1, cols.valid, pitch, c)
        return guarded(conds + non_empty(axes, state), body, c.span)

    always_fill = dst.tile in state.zero_rows and tile.nz.rows % tile.nz.row_unit
    return _tail_or_whole(tail, fill, transfer, axes, conds, bool(always_fill), c)


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
    offset = state.simplify(tile.nz.offset(row0, src.mins[-1]))
    store = intrin(
        "fixpipe_to_gm",
        head(dst.gm.flat, None, dst.gm.offset(dst.mins, state.analyzer)),
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


# ---- GM <-> UB -----------------------------------------------------------------------------------------------------


def gm_to_ub(src: Side, dst: Side, c: Copy) -> Stmt:
    """GM -> UB; a tile of another dtype is loaded as it is and converted by the vector unit."""
    if src.dtype != dst.dtype:
        raw = c.state.temp_tile(_static(dst.extents, c), src.dtype, f"{dst.tile.buffer.name}_raw")
        target = Side(raw, None, imm(0), [imm(0)] * len(dst.extents), dst.extents, src.dtype)
        return seq(gm_to_ub(src, target, c), _convert(target, dst, c))
    state = c.state
    axes = pair_axes(src, dst, c)
    conds = fixed_in_bounds(src, axes, state)
    tail = tail_condition(axes, conds)

    def transfer(axes, conds):
        clipped = bool(conds) or any(a.clipped for a in axes)
        return guarded(conds + non_empty(axes, state), _bursts(src, dst, axes, c, load=True, pad=clipped), c.span)

    return _tail_or_whole(tail, _zero(dst, c) if tail is not None else None, transfer, axes, conds, False, c)


def ub_to_gm(src: Side, dst: Side, c: Copy) -> Stmt:
    """UB -> GM, converted first if the dtypes differ."""
    if src.dtype != dst.dtype:
        raw = c.state.temp_tile(_static(src.extents, c), dst.dtype, f"{src.tile.buffer.name}_cast")
        target = Side(raw, None, imm(0), [imm(0)] * len(src.extents), src.extents, dst.dtype)
        return seq(_convert(src, target, c), ub_to_gm(target, dst, c))
    axes = pair_axes(dst, src, c)
    conds = fixed_in_bounds(dst, axes, c.state) + non_empty(axes, c.state)
    return guarded(conds, c.store(_bursts(dst, src, axes, c, load=False, pad=False), dst.dtype), c.span)


def gm_to_gm(src: Side, dst: Side, c: Copy) -> Stmt:
    """GM -> GM through a tile in UB."""
    raw = c.state.temp_tile(_static(src.extents, c), src.dtype, "copy_t")
    middle = Side(raw, None, imm(0), [imm(0)] * len(src.extents), src.extents, src.dtype)
    return seq(gm_to_ub(src, middle, c), ub_to_gm(middle, dst, c))


def _static(extents, c: Copy) -> list[int]:
    sizes = [const_int(e) for e in extents]
    if None in sizes:
        c.refuse("a converting copy needs constant extents", "copy whole tiles")
    return sizes


def _bursts(gm: Side, ub: Side, axes: list[Axis], c: Copy, load: bool, pad: bool) -> Stmt:
    """DataCopyPad over the two innermost dimensions, loops over the others."""
    strides = ub.tile.strides
    if const_int(gm.gm.strides[axes[-1].gm]) != 1:
        c.refuse("the last dimension of the copied region is not contiguous in global memory", "copy along the contiguous dimension")
    outer, inner = axes[:-2], axes[-2:]
    loops, gm_index, ub_index = [], list(gm.mins), list(ub.mins)
    for axis in outer:
        v = tirx.Var(f"i{axis.gm}", "int32")
        loops.append((v, axis.valid))
        gm_index[axis.gm] = gm_index[axis.gm] + v
        ub_index[axis.tile] = ub_index[axis.tile] + v
    rows, cols = ([None] + inner)[-2:]
    gm_pitch = gm.gm.strides[rows.gm] if rows else 0
    ub_pitch = strides[rows.tile] if rows else 0
    count, length = (rows.valid if rows else 1), cols.valid
    dense = rows and const_int(gm_pitch) == ub_pitch == const_int(cols.extent) and not cols.clipped
    if dense:
        count, length, gm_pitch, ub_pitch = 1, count * length, 0, 0
    body = _burst(gm, ub, gm_index, ub_index, count, length, gm_pitch, ub_pitch, c, load, pad)
    for v, extent in reversed(loops):
        body = loop(v, extent, body, span=c.span)
    return body


def _burst(gm: Side, ub: Side, gm_index, ub_index, count, length, gm_pitch, ub_pitch, c: Copy, load: bool, pad: bool) -> Stmt:
    """One DataCopyPad, cut where the row count exceeds its limit."""
    state, size = c.state, itemsize(gm.dtype)
    gm_offset = gm.gm.offset(gm_index, state.analyzer)
    ub_offset = sum((i * s for i, s in zip(ub_index, ub.tile.strides)), imm(0))
    nbytes = length * size
    filled = round_up(nbytes, BLOCK_BYTES) if isinstance(nbytes, int) else tirx.floordiv(nbytes + (BLOCK_BYTES - 1), 32) * BLOCK_BYTES
    one_row = const_int(count) == 1
    gm_gap = 0 if one_row else _int32(state.simplify((gm_pitch - length) * size))
    ub_gap = 0 if one_row else state.simplify(_blocks(ub_pitch * size - filled))

    def emit(first, n):
        far = gm_offset if const_int(first) == 0 else gm_offset + first * gm_pitch
        near = ub_offset if const_int(first) == 0 else ub_offset + first * ub_pitch
        local, remote = head(ub.tile.buffer, ub.version, state.simplify(near)), head(gm.gm.flat, None, state.simplify(far))
        if not load:
            return intrin("copy_ub_to_gm", remote, local, n, nbytes, ub_gap, gm_gap, span=c.span)
        right = state.simplify(tirx.floordiv(filled - nbytes, size)) if pad else 0
        return intrin("copy_gm_to_ub", local, remote, n, nbytes, gm_gap, ub_gap, int(pad), 0, right, 0, span=c.span)

    limit = const_int(count) if const_int(count) is not None else _upper_bound(count, state)
    if limit is not None and limit <= MAX_BLOCK_COUNT:
        return emit(0, count)
    i = tirx.Var("rows", "int32")
    first = i * MAX_BLOCK_COUNT
    chunks = tirx.floordiv(count + (MAX_BLOCK_COUNT - 1), MAX_BLOCK_COUNT)
    return loop(i, chunks, emit(first, tirx.min(imm(MAX_BLOCK_COUNT), count - first)), span=c.span)


def _blocks(nbytes):
    return nbytes // BLOCK_BYTES if isinstance(nbytes, int) else tirx.floordiv(nbytes, BLOCK_BYTES)


def _upper_bound(e, state: LoweringState) -> int | None:
    bound = state.analyzer.const_int_bound(e).max_value
    return int(bound) if bound < 2**31 - 1 else None


def _zero(dst: Side, c: Copy) -> Stmt:
    """Fill the whole version of a tile with zeros."""
    view = dst.tile.view
    return c.vector(tile_op("fill", full_region(view), imm(0, dst.dtype), span=c.span), {view: dst.version})


def _convert(src: Side, dst: Side, c: Copy) -> Stmt:
    """Element-wise conversion of one tile region into another, both in UB."""
    pairs = [(a, b) for a, b in zip(_kept(src), _kept(dst))]
    variables = [tirx.Var(f"i{n}", "int32") for n in range(len(pairs))]
    src_index, dst_index = list(src.mins), list(dst.mins)
    for v, (a, b) in zip(variables, pairs):
        src_index[a], dst_index[b] = src_index[a] + v, dst_index[b] + v
    value = BufferLoad(src.tile.view, [c.state.simplify(i) for i in src_index])
    if src.dtype != dst.dtype:
        value = tirx.Cast(dst.dtype, value)
    body: Stmt = BufferStore(dst.tile.view, value, [c.state.simplify(i) for i in dst_index], span=c.span)
    for n in reversed(range(len(pairs))):
        notes = {"tl.parallel": len(pairs)} if n == 0 else {}
        body = For(variables[n], imm(0), dst.extents[pairs[n][1]], ForKind.PARALLEL, body, annotations=notes, span=c.span)
    return c.vector(body, {src.tile.view: src.version, dst.tile.view: dst.version})


def _kept(side: Side) -> list[int]:
    kept = [d for d, e in enumerate(side.extents) if const_int(e) != 1]
    return kept or [len(side.extents) - 1]


def ub_to_ub(src: Side, dst: Side, c: Copy) -> Stmt:
    """UB -> UB is element-wise work."""
    if len(_kept(src)) != len(_kept(dst)):
        c.refuse("copy between tiles of different rank", "use T.Parallel to say how elements correspond")
    return _convert(src, dst, c)


__all__ = ["lower_copy"]
