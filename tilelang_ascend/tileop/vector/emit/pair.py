"""Words of int64 values in memory: GatherMask keeps every other 32-bit lane, a Gather interleaves two halves."""

from __future__ import annotations

from dataclasses import replace

from ....analysis.index.sums import add, constant, scale
from ....isa.units import round_up
from ..graph.graph import Node
from ..graph.words import words
from .emitter import Unwritable
from .gather import gather_view
from .views import View, offset_by


def load_word(values, n: Node, want) -> View:
    """Instructions of a `word` node."""
    (a,), (half,) = n.args, n.attrs
    values.chain(n, n.args, None)
    source = values.view(a)
    values.consume(n.args)
    packed = values.canonical(n.axes)
    if source.strides != packed or not source.base.multiple_of(source.block):
        return gather_view(values, source.word(half), n.axes)
    out = values.temporary("int32", n.axes, "low" if half == 0 else "high")
    lanes = 2 * values.span(n.axes)
    values.emitter.issue("gather_mask", out.head(), source.word(0).head(), 1 + half, lanes, 1, 1, 8)
    return out


def store_pair(values, n: Node, want) -> View:
    """Instructions of a `pair` node: its lanes in memory."""
    out = want if want is not None and want.dtype == n.dtype and _fits(values, want, n.axes) else None
    out = out or values.temporary(n.dtype, n.axes, "pair")
    halves = _halves(values, n.args, n.axes)
    values.consume(n.args)
    interleave(values, out, halves, n.axes)
    return out


def copy_pair(values, out: View, n: Node, axes) -> None:
    """`out` = the int64 value `n` over `axes`. Raises `Unwritable` when rows of `out` are not aligned."""
    _check(values, out, axes)
    halves = _halves(values, [values.added(x) for x in (values.graph.tile(w) for w in words(values.graph, n))], axes)
    interleave(values, out, halves, axes)


def _halves(values, parts, axes) -> View:
    """All low words, then all high words, in one buffer."""
    step = round_up(values.span(axes), 64)
    both = values.temporary_lanes("int32", 2 * step, "halves")
    for k, part in enumerate(parts):
        place = replace(both, base=constant(k * step), strides=values.canonical(axes), dense=True)
        fresh = part not in values.views and values.uses[part] == 1 and part.axes == tuple(axes) and part.op != "duplicate"
        if not (fresh and values.evaluate(part, place) is place):
            values.copy(place, part, axes)
    return both


def interleave(values, out: View, halves: View, axes) -> None:
    """`out` = low and high words of `halves` in turn, row by row unless `out` is one run of lanes."""
    table = _table(values, values.span(axes))
    source = halves.head()
    if _fits(values, out, axes):
        _gather(values, out, source, table, constant(0), constant(0), values.span(axes))
        return
    _check(values, out, axes)
    packed = values.canonical(axes)
    real = [a for a in axes if values.extents[a] > 1]

    def rows(k: int, at, place):
        if k >= len(real) - 1:
            _gather(values, out, source, table, at, place, values.extents[real[-1]] if real else 1)
            return
        a = real[k]
        step = lambda i: rows(k + 1, add(at, offset_by(i, packed[a])), add(place, offset_by(i, out.strides[a])))  # noqa: E731
        values.emitter.repeat(values.extents[a], step)

    rows(0, constant(0), constant(0))


def _gather(values, out: View, source, table: View, at, place, lanes: int) -> None:
    heads = [out.word(0).head(scale(place, 2)), source, table.head(scale(at, 2))]
    values.emitter.issue("gather", *heads, 0, 2 * lanes)


def _table(values, lanes: int) -> View:
    """Byte offsets of the words of `lanes` pairs: 4 * (i / 2 + (i % 2) * step)."""
    step = round_up(lanes, 64)
    known = values.tables.get(lanes)
    if known is None:
        index, half = (values.temporary_lanes("int32", 2 * lanes, name) for name in ("index", "half"))
        values.emitter.issue("create_vec_index", index.head(), 0, 2 * lanes)
        values.emitter.issue("shift_right", half.head(), index.head(), 1, 2 * lanes)
        values.emitter.issue("muls", index.head(), index.head(), 4 * step, 2 * lanes)
        values.emitter.issue("muls", half.head(), half.head(), 4 * (1 - 2 * step), 2 * lanes)
        values.emitter.issue("add", index.head(), index.head(), half.head(), 2 * lanes)
        known = values.tables[lanes] = index.retyped("uint32")
    return known


def _fits(values, out: View, axes) -> bool:
    """True when `out` is canonical and what lies between its lanes may be overwritten."""
    same = out.strides == values.canonical(axes) and out.base.multiple_of(out.block)
    return same and (out.dense or sum(values.extents[a] > 1 for a in axes) < 2)


def whole_rows(values, out: View, axes) -> bool:
    """True when the lanes of `out` are rows of adjacent pairs that start at 32-byte boundaries."""
    real = [a for a in axes if values.extents[a] > 1]
    aligned = out.base.multiple_of(out.block) and all(out.strides[a] % out.block == 0 for a in real[:-1])
    return aligned and (not real or out.strides[real[-1]] == 1)


def _check(values, out: View, axes) -> None:
    if not whole_rows(values, out, axes):
        raise Unwritable()
