"""Stores to lanes that are not aligned or not adjacent, by copies under a bit mask."""

from __future__ import annotations

from ....analysis.index.sums import Sum, add, constant
from ....ir import IntImm, itemsize, tirx
from ....isa.units import MAX_REPEAT, REPEAT_BYTES, round_up
from ...base.unsupported import Unsupported
from ..graph.graph import Node
from .emitter import signed64
from .views import View, offset_by

_MAGIC_BITS = 16


def store_columns(values, place: View, value: Node, axes) -> None:
    """One lane in each of many blocks (``y[i, c] = v[i]``): every value fills a block, the copy keeps the lane of column c. Blocks one behind
    the other in which nothing else lies are filled in place."""
    if value.op != "duplicate" and _are_blocks_alone(values, place, axes):
        values.spread(value, place)
    else:
        column_copies(values.emitter, place, values.spread(value), values.extents, axes)


def _are_blocks_alone(values, place: View, axes) -> bool:
    """True if a whole tile is a lane in each of its blocks, and padding, to the end of the last eight of them."""
    real = [a for a in axes if values.extents[a] > 1]
    if len(real) != 1 or not place.whole or place.base != constant(0) or place.strides[real[0]] != place.block:
        return False
    return round_up(values.extents[real[0]], 8) * place.block <= int(place.buffer.ty.shape[1])


def column_copies(emitter, place: View, source: View, extents, axes) -> None:
    """Copy the first lane of every block of `source` (spread) to `place`, whose lanes lie whole blocks apart.

    The column may be known only at run time: then the lane is computed, and block stride 0 says that one block is touched.
    """
    start, lane, words = _lane_of(place)
    d_blk = 1 if isinstance(lane, int) else 0
    aligned = View(place.buffer, place.version, start, (), place.dtype)
    *outer, inner = axes
    d_rep, s_rep = place.strides[inner] // place.block, source.strides[inner] // place.block

    def rows(k: int, d_at, s_at):
        if k < len(outer):
            a = outer[k]
            step = lambda i: rows(k + 1, add(d_at, offset_by(i, place.strides[a])), add(s_at, offset_by(i, source.strides[a])))
            emitter.repeat(extents[a], step)
            return
        for first in range(0, extents[inner], MAX_REPEAT):
            n = min(MAX_REPEAT, extents[inner] - first)
            heads = [
                aligned.head(add(d_at, offset_by(first, place.strides[inner]))),
                source.head(add(s_at, offset_by(first, source.strides[inner]))),
            ]
            emitter.issue("copy_mask", *heads, *words, n, d_blk, 0, d_rep, s_rep)

    rows(0, constant(0), constant(0))


def _lane_of(place: View):
    """(offset of the block, lane in it, mask words) of the first element of `place`."""
    block = place.block
    # Terms that are whole blocks stay outside: only the rest decides about the lane.
    whole = Sum(0, tuple(t for t in place.base.terms if Sum(0, (t,)).multiple_of(block)))
    rest = add(place.base, whole, -1)
    if not rest.terms:
        lane = rest.const % block
        return add(whole, constant(rest.const - lane)), lane, _words([lane])
    index = rest.expr()
    lane = tirx.floormod(index, IntImm("int32", block))
    start = add(whole, Sum(0, ((index - lane, 1),)))
    return start, lane, (IntImm("int64", 0), tirx.shift_left(IntImm("int64", 1), tirx.Cast("int64", lane)))


def store_shifted(values, place: View, value: Node, axes, step: int) -> None:
    """Rows with a step below one block: lane ``first + k * step`` of the destination row gets element k of the value."""
    size = itemsize(place.dtype)
    first = place.base.const % place.block
    inner = axes[-1]
    lanes = [first + k * step for k in range(values.extents[inner])]
    aligned = View(place.buffer, place.version, constant(place.base.const - first), place.strides, place.dtype)
    if value.op == "duplicate":
        scalar = values.scalar(value.args[0])
        _each_row(
            values,
            axes,
            [aligned],
            lambda at: _masked(values, "duplicate_mask", lanes, size, [aligned.head(at[0])], aligned, [scalar]),
        )
        return
    full = value if tuple(a for a in value.axes if values.extents[a] > 1) == axes else None
    source = values.view(full) if full is not None else values.expand(value, axes)
    if source.strides[inner] != 1 or not source.base.multiple_of(source.block) or _misaligned_rows(source, axes):
        source = values.expand(value, axes) if full is None else values.realign(full)
    table = _lane_table(values, lanes[-1] + 1, first, step, size)
    row = values.temporary_lanes(place.dtype, lanes[-1] + 1, "row")

    def one_row(at):
        heads = [row.head(), source.head(at[1]), table.retyped("uint32").head()]
        values.emitter.issue("gather", *heads, 0, lanes[-1] + 1)
        _masked(values, "copy_mask", lanes, size, [aligned.head(at[0]), row.head()], aligned, [], row)

    _each_row(values, axes, [aligned, source], one_row)


def _misaligned_rows(source: View, axes) -> bool:
    return any(source.strides[a] % source.block for a in axes[:-1])


def _each_row(values, axes, views: list[View], body) -> None:
    def rows(k: int, at):
        if k == len(axes) - 1:
            body(at)
            return
        a = axes[k]
        values.emitter.repeat(values.extents[a], lambda i: rows(k + 1, [add(o, offset_by(i, v.strides[a])) for o, v in zip(at, views)]))

    rows(0, [constant(0)] * len(views))


def _lane_table(values, lanes: int, first: int, step: int, size: int) -> View:
    """Byte offset of the element that lane l of a row shows: ``max(l - first, 0) // step * size``."""
    if lanes * step >= 1 << _MAGIC_BITS:
        raise Unsupported("a strided store of this length", "use a smaller tile")
    table = values.temporary_lanes("int32", lanes, "table")
    head = table.head()
    values.emitter.issue("create_vec_index", head, -first, lanes)
    if first:
        values.emitter.issue("maxs", head, head, 0, lanes)
    if step > 1:
        # l // step == l * ceil(2**16 / step) >> 16 as long as l * step < 2**16.
        values.emitter.issue("muls", head, head, -(-(1 << _MAGIC_BITS) // step), lanes)
        values.emitter.issue("shift_right", head, head, _MAGIC_BITS, lanes)
    values.emitter.issue("muls", head, head, size, lanes)
    return table


def _masked(values, name: str, lanes: list[int], size: int, heads, place: View, scalars, row: View | None = None) -> None:
    """Issue `name` for the given lanes of one row, one instruction for each repeat of 256 bytes."""
    per_repeat = REPEAT_BYTES // size
    for start in range(0, lanes[-1] + 1, per_repeat):
        chosen = [lane - start for lane in lanes if start <= lane < start + per_repeat]
        if not chosen:
            continue
        moved = heads if start == 0 else [_advance(h, start) for h in heads]
        strides = [1, 8] if row is None else [1, 1, 8, 8]
        values.emitter.issue(name, *moved, *scalars, *_words(chosen), 1, *strides)


def _advance(head, elements: int):
    from ....ir import BufferLoad, call, dtype_of, operand_parts

    load, dtype = operand_parts(head)
    words = itemsize(dtype_of(load)) == 8 and itemsize(dtype) == 4
    moved = BufferLoad(load.source, [load.indices[0], load.indices[1] + elements // (2 if words else 1)])
    return moved if dtype == dtype_of(load) else call("ascend.reinterpret", [moved], dtype=dtype)


def _words(lanes: list[int]):
    bits = sum(1 << lane for lane in lanes)
    return signed64(bits >> 64), signed64(bits & (1 << 64) - 1)


__all__ = ["column_copies", "store_columns", "store_shifted"]
