"""Stores: the last step of a statement, where a value lands in the user's tile."""

from __future__ import annotations

from dataclasses import replace

from ....analysis.index.sums import add, constant
from ....ir import Bind, Var, call, itemsize
from ....isa.units import BLOCK_BYTES, round_up
from ...base.layout import element_written, moved
from ...base.unsupported import Unsupported
from ..emit.emitter import Unwritable
from ..emit.gather import gather_view
from ..emit.pair import copy_pair, whole_rows
from ..emit.shift import store_columns, store_shifted
from ..emit.views import View, linear_span
from ..graph.convert import convert
from ..graph.fp8 import FORMATS, code
from ..graph.graph import Node, in_memory
from ..graph.operations import VectorOps
from ..graph.words import words
from .values import Values

_MOST_WIDENED = 16384
"""Bytes of a tile that are widened around a store: 32 KB."""


def store(values: Values, place: View, value: Node, span) -> None:
    """`place` = `value` for all lanes of the nest."""
    values.emitter.span = span
    if place.dtype in FORMATS:  # Instructions move 8-bit floats as bytes.
        number = code(values.graph, value, place.dtype)
        place, value = place.retyped("uint8"), number if value.is_scalar else values.added(number)
    axes = tuple(a for a, s in enumerate(place.strides) if s and values.extents[a] > 1)
    if any(a not in axes and values.extents[a] > 1 for a in value.axes):
        raise Unsupported("several iterations store to the same element", "use a reduction or an atomic")
    if value.is_scalar:
        _fill(values, place, value, axes)
    elif not axes:
        _store_element(values, place, value)
    elif place.dtype == "int64" and not whole_rows(values, place, axes):
        _store_words(values, place, value, axes)
    else:
        _move(values, place, value, axes)


def _store_element(values: Values, place: View, value: Node) -> None:
    """A single lane goes through the scalar unit when it cannot be computed in place."""
    if place.base.multiple_of(place.block):
        _move(values, place, value, ())
        return
    var = Var("x", place.dtype)
    values.emitter.out.append(Bind(var, call("ascend.get_value", [values.view(value).head()], dtype=place.dtype)))
    values.emitter.issue("set_value", place.head(), var)


def _store_words(values: Values, place: View, value: Node, axes) -> None:
    """Low and high words of pairs that are not adjacent or not aligned, each as the 32-bit lanes they are."""
    parts = [values.added(values.graph.tile(w)) for w in words(values.graph, value)]
    # The high words may depend on what the store of the low ones overwrites.
    for part in parts:
        values.view(part)
    for half, part in enumerate(parts):
        _unaligned(values, place.word(half), part, axes)


def _fill(values: Values, place: View, value: Node, axes) -> None:
    """All lanes become one number."""
    size = itemsize(place.dtype)
    if not axes:
        values.emitter.issue("set_value", *element_written(place.head(), values.scalar(value)))
    elif size in (2, 4):
        try:
            values.emitter.run("duplicate", [place], axes, [values.scalar(value)])
        except Unwritable:
            _unaligned(values, place, values.added(values.graph.tile(value)), axes)
    else:
        _fill_by_cast(values, place, value, axes)


def _fill_by_cast(values: Values, place: View, value: Node, axes) -> None:
    """8- and 64-bit tiles: fill a tile of a dtype that Duplicate has and convert it."""
    carrier, mode = ("float16", "trunc") if itemsize(place.dtype) == 1 else ("int32", "none")
    small = value.op == "const" and -(2**31) <= value.value < 2**31
    if place.dtype == "int64" and not whole_rows(values, place, axes):
        _store_words(values, place, values.graph.tile(value), axes)
        return
    if place.dtype == "int64" and not small:
        copy_pair(values, place, values.graph.tile(value), axes)
        return
    if place.dtype not in ("int8", "uint8", "int64"):
        raise Unsupported(f"a fill of {place.dtype} elements with this value")
    tile = values.temporary(carrier, axes, "fill")
    values.emitter.run("duplicate", [tile], axes, [values.scalar(VectorOps(values.graph).scalar_cast(value, carrier))])
    try:
        values.emitter.run("cast", [place, tile], axes, round=mode)
    except Unwritable:
        _unaligned(values, place, values.added(values.graph.tile(value)), axes)


def _move(values: Values, place: View, value: Node, axes) -> None:
    real = tuple(a for a in value.axes if values.extents[a] > 1)
    if value not in values.views and real == axes and values.evaluate(value, place) is place:
        return
    source = values.view(value)
    if source.same_place(place):
        return
    if source.buffer.same_as(place.buffer):
        values.settle(value, values.expand(value, value.axes))
    if _block_copy(values, place, values.view(value), axes):
        return
    try:
        values.copy(place, value, axes)
    except Unwritable:
        _unaligned(values, place, value, axes)


def _block_copy(values: Values, place: View, source: View, axes) -> bool:
    """Whole tiles move by blocks in one instruction: same layout, aligned, and what lies between and behind is padding."""
    size = itemsize(place.dtype)
    alike = bool(axes) and not source.spread and all(place.strides[a] == source.strides[a] > 0 for a in axes)
    whole = place.dense and place.base == constant(0) and source.base == constant(0)
    if not (alike and whole and place.strides[axes[-1]] == 1):
        return False
    nbytes = linear_span(values.extents, place.strides, axes) * size
    blocks = -(-nbytes // BLOCK_BYTES)
    room = min(int(v.buffer.ty.shape[1]) for v in (place, source)) * size
    padded_end = nbytes % BLOCK_BYTES == 0 or place.whole
    if not padded_end or blocks * BLOCK_BYTES > room or blocks > 65535:
        return False
    values.emitter.issue("copy_ub_to_ub", moved(place.head()), moved(source.head()), 1, blocks, 0, 0)
    return True


def _unaligned(values: Values, place: View, value: Node, axes) -> None:
    """Destinations that start inside a block or step over lanes: masked copies of a value shifted into position."""
    if any(place.strides[a] < 0 for a in axes):
        _reversed(values, place, value, axes)
        return
    order = tuple(sorted(axes, key=lambda a: -abs(place.strides[a])))
    if order != axes:
        _transposed(values, place, value, axes, order)
        return
    step = place.strides[axes[-1]] if axes else 1
    rows_aligned = all(place.strides[a] % place.block == 0 for a in axes[:-1])
    if itemsize(place.dtype) in (2, 4) and rows_aligned and step > 0:
        if axes and step % place.block == 0:
            store_columns(values, place, value, axes)
            return
        if step <= 64 and not place.base.terms:
            store_shifted(values, place, value, axes, step)
            return
    if itemsize(place.dtype) == 1 and rows_aligned and step % place.block == 0 and place.base.multiple_of(place.block):
        wide = values.spread(_widened(values, value))
        values.emitter.run("cast", [place, wide], axes, round="trunc")
        return
    if itemsize(place.dtype) == 1:
        _store_widened(values, place, value, axes)
        return
    raise Unsupported(
        "the store does not start at a 32-byte boundary or steps irregularly through the tile",
        "store to a contiguous tile first",
    )


def _reversed(values: Values, place: View, value: Node, axes) -> None:
    """Axes the tile steps through backwards: gather the value in the order of the tile."""
    back = [a for a in axes if place.strides[a] < 0]
    if value.op == "duplicate":
        _fill(values, _turned(values, place, back), value.args[0], axes)
        return
    full = values.view(value) if all(a in value.axes for a in axes) else values.expand(value, axes)
    moved = gather_view(values, _turned(values, full, back), axes)
    _move(values, _turned(values, place, back), _leaf(values, moved, axes), axes)


def _leaf(values: Values, view: View, axes) -> Node:
    """Lanes in memory as a value."""
    return values.added(in_memory(view, axes))


def _widened(values: Values, value: Node) -> Node:
    """Bytes as float16, which holds them exactly."""
    graph = values.graph
    if value.op == "duplicate":
        return values.added(graph.tile(VectorOps(graph).scalar_cast(value.args[0], "float16")))
    return values.added(convert(graph, value if value.dtype == "int8" else graph.reinterpret(value, "uint8"), "float16"))


def _turned(values: Values, view: View, axes) -> View:
    """The same lanes counted from the other end of some axes."""
    base, strides = view.base, list(view.strides)
    for a in axes:
        base = add(base, constant((values.extents[a] - 1) * strides[a]))
        strides[a] = -strides[a]
    return replace(view, base=base, strides=tuple(strides), dense=False, whole=False)


def _store_widened(values: Values, place: View, value: Node, axes) -> None:
    """Bytes anywhere: the part of the tile around them is widened to float16, changed and narrowed again."""
    wide, size = _widened(values, value), int(place.buffer.ty.shape[1])
    first, last = 0, size
    if not place.base.terms:
        first = place.base.const // BLOCK_BYTES * BLOCK_BYTES
        last = min(size, round_up(place.base.const + linear_span(values.extents, place.strides, axes), BLOCK_BYTES))
    if last - first > _MOST_WIDENED:
        raise Unsupported("a store of bytes that does not start at a 32-byte boundary in a large tile", "store to a smaller tile first")
    values.view(wide)
    room = values.temporary_lanes("float16", last - first, "around")
    around = View(place.buffer, place.version, constant(first), (), "int8" if place.dtype == "int8" else "uint8")
    values.emitter.linear("cast", [room.head(), around.head()], last - first, round="none")
    base = add(place.base, constant(-first))
    _move(values, replace(place, buffer=room.buffer, version=0, base=base, dtype="float16", dense=False, whole=False), wide, axes)
    values.emitter.linear("cast", [around.head(), room.head()], last - first, round="trunc")


def _transposed(values: Values, place: View, value: Node, axes, order) -> None:
    """The tile steps through the axes in another order than the computation: gather the value into that order."""
    if itemsize(place.dtype) == 1 and value.op == "duplicate":
        _store_widened(values, place, value, axes)
        return
    full = values.view(value) if all(a in value.axes for a in axes) else values.expand(value, axes)
    moved = gather_view(values, full, order)
    hops = [moved] if itemsize(place.dtype) != 1 else [moved, values.temporary("float16", order, "wide")]
    name = "copy" if len(hops) == 1 else "cast"
    if name == "cast":
        values.emitter.run("cast", [hops[1], moved], order, round="none")
    try:
        values.emitter.run(name, [place, hops[-1]], order, **({"round": "trunc"} if name == "cast" else {}))
    except Unwritable:
        if name == "cast":
            _store_widened(values, place, value, axes)
        else:
            _unaligned(values, place, _leaf(values, moved, order), order)


__all__ = ["store"]
