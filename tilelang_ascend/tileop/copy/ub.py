"""Copies between GM and UB, and within UB.

The DMA moves rows of bytes: a row starts at a multiple of 32 bytes in UB and is contiguous in GM. What does not fit takes a detour
through a tile of one statement: a region of a tile that starts or ends inside a 32-byte block, and elements that are apart in GM,
which travel as rows of one element.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...analysis.index.value_facts import ValueFacts
from ...ir import (
    BufferLoad,
    BufferStore,
    Stmt,
    as_dtype,
    const_int,
    dtype_of,
    if_then,
    imm,
    intrin,
    itemsize,
    loop,
    parallel_nest,
    region,
    seq,
    tirx,
)
from ...isa.units import BLOCK_BYTES, round_up
from ...tile import tile_op
from ...tile.uses import is_atomic
from ..base.layout import head, moved
from ..base.placement import Side
from .axes import Axis, Copy, clip, fixed_in_bounds, guarded, non_empty, pair_axes, tail_condition, tail_or_whole
from .tails import fill_behind

MAX_BLOCK_COUNT = 4095
MAX_GAP = 2**32 - 1
"""Bytes between rows in GM, at most."""
SPREAD_ROWS = 512
"""Elements of one detour through rows of one element: 16 KB of UB."""
CLOSE = 2
"""Elements are loaded with all that lies between them if they are no further apart than that many times what a transfer takes of memory for each row, whatever
it asks for: one long row is faster than many short ones all the same."""


def gm_to_ub(src: Side, dst: Side, c: Copy, whole_blocks: bool = False) -> Stmt:
    """GM -> UB; a tile of another dtype is loaded as it is and converted by the vector unit. `whole_blocks`: nothing but the region
    counts in the blocks of the tile it starts and ends in."""
    if src.dtype != dst.dtype or not (whole_blocks or starts_aligned(dst, c.facts) and ends_aligned(dst, c.facts)):
        raw = _temporary(dst, src.dtype, "raw", c)
        return seq(gm_to_ub(src, raw, c, whole_blocks=True), convert(raw, dst, c))
    facts = c.facts
    axes = pair_axes(src, dst, c)
    if const_int(src.gm.strides[axes[-1].gm]) != 1 and not one_element_rows(dst, axes):
        return _spread(src, dst, axes, c, load=True)
    conds = fixed_in_bounds(src, axes, facts)
    tail = tail_condition(axes, conds, facts)

    def transfer(axes, conds):
        clipped = bool(conds) or any(a.clipped for a in axes)
        return guarded(conds + non_empty(axes, facts), _bursts(src, dst, axes, c, load=True, pad=clipped), c.span)

    behind = fill_behind(src, dst, axes, c) if tail is not None and not conds else None
    if behind is None:
        return tail_or_whole(tail, _outside(src, dst, c) if tail is not None else None, transfer, axes, conds, False, c)
    return seq(tail_or_whole(tail, None, transfer, axes, conds, False, c), behind)


def ub_to_gm(src: Side, dst: Side, c: Copy) -> Stmt:
    """UB -> GM, converted first if the dtypes differ."""
    facts = c.facts
    axes = pair_axes(dst, src, c)
    if src.dtype == dst.dtype and not one_element_rows(src, axes):
        # Elements cut off in front would move the start of a row inside its block.
        shifted = not isinstance(axes[-1].skip, int) or axes[-1].skip % (BLOCK_BYTES // itemsize(src.dtype))
        if shifted or const_int(dst.gm.strides[axes[-1].gm]) != 1:
            return _spread(dst, src, axes, c, load=False)
    if src.dtype != dst.dtype or not starts_aligned(src, facts):
        raw = _temporary(src, dst.dtype, "out", c)
        return seq(convert(src, raw, c), ub_to_gm(raw, dst, c))
    conds = fixed_in_bounds(dst, axes, facts) + non_empty(axes, facts)
    return guarded(conds, c.store(_bursts(dst, src, axes, c, load=False, pad=False), dst.dtype), c.span)


def gm_to_gm(src: Side, dst: Side, c: Copy) -> Stmt:
    """GM -> GM through a tile in UB."""
    middle = _temporary(src, src.dtype, "copy", c)
    return seq(gm_to_ub(src, middle, c), ub_to_gm(middle, dst, c))


def ub_to_ub(src: Side, dst: Side, c: Copy) -> Stmt:
    """UB -> UB is element-wise work."""
    if len(_kept(src)) != len(_kept(dst)):
        c.refuse("copy between tiles of different rank", "use T.Parallel to say how elements correspond")
    return convert(src, dst, c)


# ---- detours -------------------------------------------------------------------------------------------------------


def one_element_rows(ub: Side, axes: list[Axis]) -> bool:
    """True if neighbours along the innermost copied dimension lie in blocks of their own in UB (a tile of one column)."""
    return ub.tile.strides[axes[-1].tile] != 1


def starts_aligned(side: Side, facts: ValueFacts) -> bool:
    """True if rows of a tile region surely start at a multiple of 32 bytes."""
    unit, first = BLOCK_BYTES // itemsize(side.dtype), side.mins[-1]
    if const_int(first) is not None:
        return const_int(first) % unit == 0
    return facts.proves(tirx.EQ(tirx.floormod(first, imm(unit)), imm(0)))


def ends_aligned(side: Side, facts: ValueFacts) -> bool:
    """True if a load may fill the last 32-byte block of a row: it is complete, or the rest of it is the padding of the row."""
    unit = BLOCK_BYTES // itemsize(side.dtype)
    end = facts.simplify(side.mins[-1] + side.extents[-1])
    if facts.proves(tirx.EQ(_expr(end), imm(side.tile.shape[-1]))):
        return True
    return facts.proves(tirx.EQ(tirx.floormod(_expr(end), imm(unit)), imm(0)))


def _temporary(like: Side, dtype: str, what: str, c: Copy) -> Side:
    """A tile for one statement with the extents of the region `like`; those of run time are at most those of the tile it is a part of."""
    sizes = [const_int(e) for e in like.extents]
    extents = [e if n is None else n for e, n in zip(like.extents, sizes)]
    if like.tile:
        sizes = [most if n is None else n for n, most in zip(sizes, like.tile.shape)]
    if None in sizes:
        c.refuse("this copy passes through a tile and needs constant extents", "copy whole tiles")
    name = f"{like.tile.buffer.name if like.tile else like.gm.flat.name}_{what}"
    return Side(c.temporary(sizes, dtype, name), None, imm(0), [imm(0)] * len(sizes), extents, dtype)


def _spread(gm: Side, ub: Side, axes: list[Axis], c: Copy, load: bool) -> Stmt:
    """A copy along a dimension that is not contiguous in GM (or starts inside a block): each element is a row of its own."""
    facts, last = c.facts, axes[-1]
    n = const_int(last.extent)
    most = ub.tile.shape[last.tile] if n is None else n
    rows, tile = _detour(gm, ub, last, most, c, load)
    loops = [(tirx.Var(f"i{a.gm}", "int32"), a) for a in axes[:-1]]
    which = tirx.Var("part", "int32")
    first = which * rows if most > rows else imm(0)
    # Moving an element twice changes nothing, updating it twice does.
    again = n is not None and not is_atomic(c.stmt)
    count = rows if again or n == rows else last.extent if most <= rows else tirx.min(imm(rows), last.extent - first)
    gm_mins, ub_mins, ub_extents = list(gm.mins), list(ub.mins), [1] * len(ub.mins)
    trips = -(-most // rows) if n is not None else tirx.floordiv(last.extent + (rows - 1), imm(rows))
    for v, a in loops:
        facts.bind_range(v, a.valid if isinstance(a.valid, int) else a.extent)
        gm_mins[a.gm], ub_mins[a.tile] = gm_mins[a.gm] + a.skip + v, ub_mins[a.tile] + a.skip + v
    gm_mins[last.gm], ub_mins[last.tile], ub_extents[last.tile] = gm_mins[last.gm] + first, ub_mins[last.tile] + first, count
    facts.bind_range(which, imm(trips) if isinstance(trips, int) else trips)
    if again and n % rows:
        # The last part is as long as the others and overlaps the one before it.
        back = tirx.min(first, imm(n - rows))
        gm_mins[last.gm], ub_mins[last.tile] = gm.mins[last.gm] + back, ub.mins[last.tile] + back
    near = Side(ub.tile, None, ub.version, ub_mins, ub_extents, ub.dtype)
    rows_side = Side(tile, None, imm(0), [imm(0), imm(0)], [count, 1], ub.dtype)
    far = Side(None, gm.gm, None, gm_mins, [count if d == last.gm else 1 for d in range(len(gm_mins))], gm.dtype)
    inner = replace(c, binds=[])
    part = _spread_part(far, rows_side, last, inner, load)
    moved = convert(rows_side, near, c) if load else convert(near, rows_side, c)
    body = seq(inner.binds, part, moved) if load else seq(moved, inner.binds, part)
    if most > rows:
        body = loop(which, trips, body, span=c.span)
    for v, a in reversed(loops):
        body = loop(v, a.valid, body, span=c.span)
    if not load:
        return guarded(non_empty(axes[:-1], facts), body, c.span)
    return seq(_outside(gm, ub, c) if any(a.clipped for a in axes[:-1]) else None, body)


def _detour(gm: Side, ub: Side, last: Axis, most: int, c: Copy, load: bool):
    """(elements, tile) of a part of `most` elements that travel as rows of one, or with what lies between them."""
    pitch = _close_pitch(gm, last, c) if load and c.close_loads is not None else None
    rows = min(most, SPREAD_ROWS)
    if pitch is not None:
        c.close_loads.append(c.stmt)
        rows = min(most, SPREAD_ROWS * BLOCK_BYTES // (pitch * itemsize(gm.dtype)))
    return rows, c.temporary([rows, pitch or 1], ub.dtype, f"{ub.tile.buffer.name}_rows")


def _close_pitch(gm: Side, last: Axis, c: Copy) -> int | None:
    """Elements from one to the next of those of a dimension, if all that lies between them may be loaded, too, and the ends of rows take time: they are close to each
    other, as far apart as rows of a tile are, and all of them lie inside of the tensor."""
    chip, pitch = c.placement.chip, const_int(gm.gm.strides[last.gm])
    nbytes = (pitch or 0) * itemsize(gm.dtype)
    if chip.gm_edge_bytes == 0 or not 0 < nbytes <= CLOSE * chip.gm_granule_bytes or nbytes % BLOCK_BYTES or pitch % c.unit:
        return None
    sure = const_int(last.extent) is not None and not last.clipped and not fixed_in_bounds(gm, [last], c.facts)
    return pitch if sure else None


def _spread_part(gm: Side, tile: Side, last: Axis, c: Copy, load: bool) -> Stmt:
    """One transfer of rows of one element."""
    facts = c.facts
    axis = clip(gm, last.gm, 0, tile.extents[0], c, most=tile.tile.shape[0])
    conds = fixed_in_bounds(gm, [axis], facts)
    pitch, close = gm.gm.strides[last.gm], tile.tile.shape[1] > 1

    def transfer(axes, conds):
        (a,) = axes
        index = list(gm.mins)
        index[last.gm] = index[last.gm] + a.skip
        rows = _Rows(index, [a.skip, imm(0)], a.valid, 1, pitch, tile.tile.strides[0])
        if close:
            rows = _Rows(index, [a.skip, imm(0)], 1, (a.valid - 1) * pitch + 1, 0, 0)
        burst = _burst(gm, tile, rows, c, load, pad=load)
        return guarded(conds + non_empty(axes, facts), burst if load else c.store(burst, gm.dtype), c.span)

    if not load:
        return transfer([axis], conds)
    tail = tail_condition([axis], conds, facts)
    return tail_or_whole(tail, _outside(gm, tile, c) if tail is not None else None, transfer, [axis], conds, False, c)


# ---- transfers -----------------------------------------------------------------------------------------------------


def _bursts(gm: Side, ub: Side, axes: list[Axis], c: Copy, load: bool, pad: bool) -> Stmt:
    """DataCopyPad over the two innermost dimensions, loops over the others."""
    strides = ub.tile.strides
    columns = not one_element_rows(ub, axes)
    outer, inner = (axes[:-2], axes[-2:]) if columns else (axes[:-1], axes[-1:])
    loops, gm_index, ub_index = [], list(gm.mins), list(ub.mins)
    for axis in axes:
        gm_index[axis.gm], ub_index[axis.tile] = gm_index[axis.gm] + axis.skip, ub_index[axis.tile] + axis.skip
    for axis in outer:
        v = tirx.Var(f"i{axis.gm}", "int32")
        loops.append((v, axis.valid))
        gm_index[axis.gm], ub_index[axis.tile] = gm_index[axis.gm] + v, ub_index[axis.tile] + v
    rows, cols = ([None] + inner)[-2:] if columns else (inner[0], None)
    gm_pitch = gm.gm.strides[rows.gm] if rows else 0
    ub_pitch = strides[rows.tile] if rows else 0
    count, length = (rows.valid if rows else 1), (cols.valid if cols else 1)
    left = 0
    if cols and const_int(cols.skip) != 0:
        left = tirx.floormod(_expr(cols.skip), imm(BLOCK_BYTES // itemsize(gm.dtype)))
        ub_index[cols.tile] = ub_index[cols.tile] - left
    dense = rows and cols and const_int(gm_pitch) == ub_pitch == const_int(cols.extent) and not cols.clipped
    if dense:
        count, length, gm_pitch, ub_pitch = 1, count * length, 0, 0
    body = _burst(gm, ub, _Rows(gm_index, ub_index, count, length, gm_pitch, ub_pitch, left), c, load, pad)
    for v, extent in reversed(loops):
        body = loop(v, extent, body, span=c.span)
    return body


@dataclass(frozen=True)
class _Rows:
    """The rows of a transfer: indices of the first one on both sides, how many there are, elements of each, and how many elements apart they
    begin. `left`: zeros in front of each, less than a block."""

    gm_index: list
    ub_index: list
    count: object
    length: object
    gm_pitch: object
    ub_pitch: object
    left: object = 0


def _burst(gm: Side, ub: Side, rows: _Rows, c: Copy, load: bool, pad: bool) -> Stmt:
    """One DataCopyPad for all rows; one for each where they are further apart than its parameter says."""
    gap = 0 if const_int(rows.count) == 1 else _gm_gap(rows, itemsize(gm.dtype), c.facts)
    transfer = _Transfer(gm, ub, rows, c, load, pad)
    known = const_int(gap)
    if known is not None and known <= MAX_GAP or known is None and dtype_of(gap) == "int32":
        return transfer.together(gap)
    if known is not None:
        return transfer.one_by_one()
    fits, close = gap <= imm(MAX_GAP, "int64"), transfer.together(tirx.Cast("uint32", gap))
    return close if c.facts.proves(fits) else if_then(fits, close, transfer.one_by_one(), span=c.span)


def _gm_gap(rows: _Rows, size: int, facts: ValueFacts):
    """Bytes from the end of a row to the next one: an int64 where they may be too many for an int32."""
    pitch, length = rows.gm_pitch, rows.length
    long = pitch * size >= 2**31 if isinstance(pitch, int) else dtype_of(pitch) == "int64"
    if not long or isinstance(pitch, int) and isinstance(length, int):
        return facts.simplify((pitch - length) * size)
    pitch, length = (imm(x, "int64") if isinstance(x, int) else as_dtype(x, "int64") for x in (pitch, length))
    return facts.simplify((pitch - length) * imm(size, "int64"))


@dataclass(frozen=True)
class _Transfer:
    """Rows of a tensor and of a tile, of which one or several instructions move some each."""

    gm: Side
    ub: Side
    rows: _Rows
    c: Copy
    load: bool
    pad: bool

    def together(self, gm_gap) -> Stmt:
        """One instruction, cut where the row count exceeds its limit."""
        count, facts = self.rows.count, self.c.facts
        limit = const_int(count) if const_int(count) is not None else _upper_bound(count, facts)
        if limit is not None and limit <= MAX_BLOCK_COUNT:
            return self._emit(0, count, gm_gap)
        i = tirx.Var("rows", "int32")
        first = i * MAX_BLOCK_COUNT
        parts = tirx.floordiv(count + (MAX_BLOCK_COUNT - 1), MAX_BLOCK_COUNT)
        return loop(i, parts, self._emit(first, tirx.min(imm(MAX_BLOCK_COUNT), count - first), gm_gap), span=self.c.span)

    def one_by_one(self) -> Stmt:
        """An instruction for each row."""
        i = tirx.Var("row", "int32")
        return loop(i, self.rows.count, self._emit(i, 1, 0), span=self.c.span)

    def _emit(self, first, n, gm_gap) -> Stmt:
        """`n` rows from row `first` on."""
        c, rows, facts, size = self.c, self.rows, self.c.facts, itemsize(self.gm.dtype)
        nbytes = rows.length * size
        filled = _round_up(rows.left * size + nbytes)
        ub_gap = 0 if const_int(n) == 1 else facts.simplify(_blocks(rows.ub_pitch * size - filled))
        far = self.gm.gm.offset(rows.gm_index, facts.analyzer)
        near = sum((i * s for i, s in zip(rows.ub_index, self.ub.tile.strides)), imm(0))
        if const_int(first) != 0:
            far, near = facts.simplify(self.gm.gm.further(far, first, rows.gm_pitch)), near + first * rows.ub_pitch
        ends = head(self.ub.tile.buffer, self.ub.version, facts.simplify(near)), head(self.gm.gm.flat, None, far)
        local, remote = (moved(x) if self.load else c.stored(x) for x in ends)
        if not self.load:
            return intrin("copy_ub_to_gm", remote, local, n, nbytes, ub_gap, gm_gap, span=c.span)
        right = facts.simplify(_per(filled - nbytes, size) - rows.left) if self.pad else 0
        value = _pad_value(self.gm, c) if self.pad else 0
        return intrin("copy_gm_to_ub", local, remote, n, nbytes, gm_gap, ub_gap, int(self.pad), rows.left, right, value, span=c.span)


def _round_up(nbytes):
    if isinstance(nbytes, int):
        return round_up(nbytes, BLOCK_BYTES)
    return tirx.floordiv(nbytes + (BLOCK_BYTES - 1), BLOCK_BYTES) * BLOCK_BYTES


def _per(nbytes, size: int):
    return nbytes // size if isinstance(nbytes, int) else tirx.floordiv(nbytes, size)


def _blocks(nbytes):
    return _per(nbytes, BLOCK_BYTES)


def _expr(e):
    return imm(e) if isinstance(e, int) else e


def _upper_bound(e, facts: ValueFacts) -> int | None:
    bound = facts.analyzer.const_int_bound(e).max_value
    return int(bound) if bound < 2**31 - 1 else None


def _outside(src: Side, dst: Side, c: Copy) -> Stmt:
    """Fill the region of a tile a load is about to reach with what the outside of the tensor reads as."""
    target = region(dst.tile.view, dst.mins, dst.extents)
    return c.vector(tile_op("fill", target, imm(src.gm.outside, dst.dtype), span=c.span), {dst.tile: dst.version})


def _pad_value(gm: Side, c: Copy):
    """The operand of DataCopyPad for elements behind the end of a row."""
    if gm.gm.outside == 0:
        return 0
    if itemsize(gm.dtype) == 8:
        c.refuse(f"the transfer pads {gm.dtype} with zeros only", f"use 0 as the safe value of '{gm.gm.flat.name}'")
    return imm(gm.gm.outside, gm.dtype)


# ---- element-wise --------------------------------------------------------------------------------------------------


def convert(src: Side, dst: Side, c: Copy) -> Stmt:
    """Element-wise conversion of one tile region into another, both in UB."""
    pairs = list(zip(_kept(src), _kept(dst)))
    variables = [tirx.Var(f"i{n}", "int32") for n in range(len(pairs))]
    src_index, dst_index = list(src.mins), list(dst.mins)
    for v, (a, b) in zip(variables, pairs):
        src_index[a], dst_index[b] = src_index[a] + v, dst_index[b] + v
    value = BufferLoad(src.tile.view, [c.facts.simplify(i) for i in src_index])
    if src.dtype != dst.dtype:
        value = tirx.Cast(dst.dtype, value)
    body: Stmt = BufferStore(dst.tile.view, value, [c.facts.simplify(i) for i in dst_index], span=c.span)
    body = parallel_nest([(v, _expr(dst.extents[b])) for v, (_, b) in zip(variables, pairs)], body, c.span)
    return c.vector(body, {src.tile: src.version, dst.tile: dst.version})


def _kept(side: Side) -> list[int]:
    kept = [d for d, e in enumerate(side.extents) if const_int(e) != 1]
    return kept or [len(side.extents) - 1]


__all__ = ["convert", "gm_to_gm", "gm_to_ub", "ub_to_gm", "ub_to_ub"]
