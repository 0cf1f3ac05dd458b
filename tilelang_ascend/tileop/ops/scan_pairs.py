"""Scans of int64 tiles: the two ways of `scan`, on the low and the high words of the lanes."""

from __future__ import annotations

from dataclasses import replace

from ...analysis.index.sums import add, constant, scale
from ...ir import Stmt, seq
from ...isa.units import round_up
from ..base.context import VectorContext
from ..vector.emit.emitter import Emitter
from ..vector.emit.views import View, offset_by
from ..vector.fold.pairs import WordLanes, Words, leaf
from ..vector.graph.convert import convert
from ..vector.graph.graph import Graph, Node
from ..vector.graph.words import pair, words
from ..vector.schedule.store import store

_BLOCK = 8
"""Words of one block."""

_NEUTRAL = {"add": (0, 0), "max": (0, -(2**31))}
"""operation -> (low, high) words of the number that changes nothing."""


def scan_pairs(ctx: VectorContext, operation: str, source: View, target: View, shape, dim: int, reverse: bool, span) -> Stmt:
    """`target` = running ``add`` or ``max`` of `source` along `dim`. Raises `Unsupported` where the target cannot be addressed."""
    return _PairScan(ctx, operation, shape, dim, reverse, span).lower(source, target)


class _PairScan:
    def __init__(self, ctx: VectorContext, operation: str, shape, dim: int, reverse: bool, span):
        self.ctx, self.operation, self.shape, self.dim, self.reverse = ctx, operation, tuple(shape), dim, reverse
        self.emitter = Emitter(self.shape, span)
        self.order = tuple(range(len(self.shape)))

    def lanes(self) -> WordLanes:
        """Instructions at the present place of the program."""
        return WordLanes(self.ctx, self.shape, self.emitter.out, self.emitter.span)

    def lower(self, source: View, target: View) -> Stmt:
        inner = all(n == 1 for n in self.shape[self.dim + 1 :])
        tiles = self._source(source)
        tiles = self._along_rows(tiles) if inner else self._along_planes(tiles)
        graph = Graph()
        result = convert(graph, pair(graph, *(leaf(v, self.shape) for v in tiles)), target.dtype)
        store(self.lanes().values(graph, [result]), target, result, self.emitter.span)
        return seq(self.emitter.out)

    def _source(self, view: View) -> Words:
        graph = Graph()
        parts: list[Node] = [graph.tile(w) for w in words(graph, convert(graph, leaf(view, self.shape), "int64"))]
        values = self.lanes().values(graph, parts)
        return tuple(values.linear_operand(w, self.order, values.span(self.order)) for w in parts)

    def _along_planes(self, source: Words) -> Words:
        dim, n = self.dim, self.shape[self.dim]
        out = tuple(replace(v, dense=False) for v in self.lanes().tiles(self.order, "scan"))
        first, step = (n - 1, -1) if self.reverse else (0, 1)
        self.lanes().over(dim, 1).copy(_at(out, dim, constant(first)), _at(source, dim, constant(first)))

        def one(k):
            here = add(constant(first + step), offset_by(k, step))
            planes = _at(out, dim, here), _at(out, dim, add(here, constant(-step))), _at(source, dim, here)
            self.lanes().over(dim, 1).combine(self.operation, *planes)

        if n > 1:
            self.emitter.repeat(n - 1, one)
        return out

    def _along_rows(self, source: Words) -> Words:
        """Rows have room for neutral elements in front (behind when reversed), so that every step is one for whole rows."""
        width = self.shape[self.dim]
        steps = [1 << k for k in range((width - 1).bit_length())]
        if not steps:
            return source
        pad = round_up(steps[-1], _BLOCK)
        current, other = (self._padded(width + pad, 0 if self.reverse else pad) for _ in range(2))
        self.lanes().copy(current, source)
        for s in steps:
            moved = _at(current, self.dim, constant(s if self.reverse else -s))
            self.lanes().combine(self.operation, other, current, moved)
            current, other = other, current
        return current

    def _padded(self, width: int, front: int) -> Words:
        tiles = self.lanes().over(self.dim, width).tiles(self.order, "scan")
        for view, number in zip(tiles, _NEUTRAL[self.operation]):
            self.emitter.issue("duplicate", view.head(), number, int(view.buffer.ty.shape[1]))
        return tuple(replace(v, base=constant(front), dense=False) for v in tiles)


def _at(tiles: Words, dim: int, index) -> Words:
    """The tiles from `index` on along `dim`."""
    return tuple(replace(v, base=add(v.base, scale(index, v.strides[dim]))) for v in tiles)


__all__ = ["scan_pairs"]
