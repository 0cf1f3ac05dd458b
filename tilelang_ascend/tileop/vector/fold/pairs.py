"""Folding of int64 tiles. Their words stay in two int32 tiles, low and high, from the first step to the last.

    an outer axis       halves are joined as whole planes until one is left, as in `reduce_rows`
    the innermost axis  halves of whole blocks until at most one block of a row is left; a gather turns its columns into planes
                        (a single row becomes planes of one lane each by `brcb`)

Every step has tiles of its own: the carry of a sum and the choice of a maximum need both words of both operands to the end.
"""

from __future__ import annotations

from dataclasses import replace

from ....analysis.index.sums import add, constant
from ....isa.units import BLOCK_BYTES, round_up
from ...base.context import VectorContext
from ..emit.emitter import Emitter
from ..emit.gather import gather_view
from ..emit.views import View
from ..graph import int64 as vector_int64
from ..graph import integers as vector_int
from ..graph.graph import Graph, Node, in_memory
from ..graph.operations import VectorOps
from ..graph.words import pair, words
from ..schedule.store import store
from ..schedule.values import Values

_LANES = BLOCK_BYTES // 4
"""Words of one block."""

_BITS = {"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor"}

Words = tuple[View, View]
"""(low, high): two int32 views with the same strides."""


def join(o: VectorOps, operation: str, a: Node, b: Node) -> Node:
    """``add sub mul max min and or xor`` of two int64 values."""
    if operation in _BITS:
        return vector_int.bitwise(o, _BITS[operation], [a, b], "int64")
    return vector_int64.arithmetic(o, operation, a, b)


def leaf(view: View, extents) -> Node:
    """A value that lies in memory already."""
    return in_memory(view, [a for a, s in enumerate(view.strides) if s and extents[a] > 1])


class WordLanes:
    """Instructions on tiles of words over a nest with these extents, collected in `out`."""

    def __init__(self, ctx: VectorContext, extents, out: list, span=None):
        self.ctx, self.extents, self.out, self.span = ctx, tuple(extents), out, span

    def values(self, graph: Graph | None = None, roots=()) -> Values:
        emitter = Emitter(self.extents, self.span)
        emitter.out = self.out
        return Values(self.ctx, graph or Graph(), emitter, max(self.ctx.pitch_unit, _LANES), roots)

    def over(self, dim: int, extent: int) -> WordLanes:
        """The same with another extent along `dim`."""
        return WordLanes(self.ctx, (*self.extents[:dim], extent, *self.extents[dim + 1 :]), self.out, self.span)

    def tiles(self, order, name: str) -> Words:
        """New tiles whose axes lie in memory in this order."""
        values = self.values()
        return values.temporary("int32", order, name), values.temporary("int32", order, name)

    def copy(self, out: Words, source: Words) -> None:
        emitter = self.values().emitter
        for target, view in zip(out, source):
            emitter.run("copy", [replace(target, dense=False), view], tuple(range(len(self.extents))))

    def combine(self, operation: str, out: Words, a: Words, b: Words) -> None:
        """`out` = `a` <operation> `b`; `out` shares no lanes with them."""
        graph = Graph()
        operands = [pair(graph, *(leaf(v, self.extents) for v in views)) for views in (a, b)]
        results = [graph.tile(w) for w in words(graph, join(VectorOps(graph), operation, *operands))]
        values = self.values(graph, results)
        for target, result in zip(out, results):
            store(values, target, result, self.span)


def fold_pairs(values: Values, value: Node, missing: tuple[int, ...], operation: str, span) -> Node:
    """The int64 `value` over all axes of the nest, folded along the axes `missing`: a leaf over the other axes."""
    every, graph = tuple(range(len(values.extents))), values.graph
    parts = [values.added(graph.tile(w)) for w in words(graph, value)]
    tiles = tuple(values.linear_operand(w, every, values.span(every)) for w in parts)
    lanes = WordLanes(values.ctx, values.extents, values.emitter.out, span)
    for dim in sorted(missing, reverse=True):
        tiles = fold_words(lanes, tiles, dim, operation)
        lanes = lanes.over(dim, 1)
    return pair(graph, *(leaf(v, lanes.extents) for v in tiles))


def fold_words(lanes: WordLanes, tiles: Words, dim: int, operation: str) -> Words:
    """Fold canonical tiles along `dim`; the results are canonical over the other axes."""
    order = tuple(range(len(lanes.extents)))
    if all(n == 1 for n in lanes.extents[dim + 1 :]) and lanes.extents[dim] > 1:
        lanes, tiles = _fold_row(lanes, tiles, dim, operation)
        tiles = _upright(lanes, tiles, dim)
        order = (dim, *(a for a in order if a != dim))
    return _fold_planes(lanes, tiles, dim, operation, order)


def _fold_planes(lanes: WordLanes, tiles: Words, dim: int, operation: str, order) -> Words:
    n = lanes.extents[dim]
    outermost = all(lanes.extents[a] == 1 for a in order[: order.index(dim)])
    while n > 1:
        half, keep = n // 2, n - n // 2
        out = tuple(replace(v, dense=outermost) for v in lanes.over(dim, keep).tiles(order, "fold"))
        if keep > half:
            lanes.over(dim, 1).copy(*(_moved(t, dim, half) for t in (out, tiles)))
        lanes.over(dim, half).combine(operation, out, tiles, _moved(tiles, dim, keep))
        tiles, n = out, keep
    return tuple(replace(v, strides=tuple(0 if a == dim else s for a, s in enumerate(v.strides))) for v in tiles)


def _fold_row(lanes: WordLanes, tiles: Words, dim: int, operation: str) -> tuple[WordLanes, Words]:
    """Rows of at most one block."""
    order, width = tuple(range(len(lanes.extents))), lanes.extents[dim]
    while width > _LANES:
        keep = round_up(-(-width // 2), _LANES)
        high, start = width - keep, (width - keep) // _LANES * _LANES
        out = tuple(replace(v, dense=False) for v in lanes.over(dim, keep).tiles(order, "fold"))
        if keep > start:
            lanes.over(dim, keep - start).copy(*(_moved(t, dim, start) for t in (out, tiles)))
        lanes.over(dim, high).combine(operation, out, tiles, _moved(tiles, dim, keep))
        tiles, width = out, keep
    return lanes.over(dim, width), tiles


def _upright(lanes: WordLanes, tiles: Words, dim: int) -> Words:
    """Columns as planes."""
    values = lanes.values()
    others = tuple(a for a, n in enumerate(lanes.extents) if n > 1 and a != dim)
    if others:
        return tuple(gather_view(values, v, (dim, *others)) for v in tiles)
    strides = tuple(_LANES if a == dim else 0 for a in range(len(lanes.extents)))
    out = tuple(replace(values.temporary_lanes("int32", _LANES * _LANES, "planes"), strides=strides) for _ in tiles)
    for planes, row in zip(out, tiles):
        values.emitter.issue("brcb", planes.head(), row.head(), 1, 1, _LANES)
    return out


def _moved(tiles: Words, dim: int, steps: int) -> Words:
    return tuple(replace(v, base=add(v.base, constant(steps * v.strides[dim]))) for v in tiles)


__all__ = ["WordLanes", "fold_pairs", "join", "leaf"]
