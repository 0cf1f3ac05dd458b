"""Short rows of integers become one value for each row.

WholeReduce and BlockReduce know floats only, and halving short rows wastes the lanes of a repeat. Groups of sixteen rows are
transposed instead, so that the lanes of a row become columns of sixteen neighbours, and the columns are combined in halves:

    trans_data_to_5hd   16 rows x c lanes  ->  c columns x 16 rows, one repeat for each block of each group
    combine             columns [0, c / 2) with the others, log2(c) steps on whole repeats
"""

from __future__ import annotations

import math
from dataclasses import replace

from ....analysis.index.sums import Sum, add, constant
from ....ir import itemsize
from ...base.unsupported import Unsupported
from ..emit.transpose import turn_squares
from ..emit.views import View, offset_by
from .fold import Fold

GROUP = 16
"""Rows one transpose takes."""


def fold_lanes(r: Fold, view: View, width: int) -> View:
    """`view` holds `width` lanes in every row (all axes but the innermost, `r.dim`); the result has one value for each."""
    if itemsize(r.dtype) not in (2, 4):
        raise Unsupported(f"reductions of {r.dtype}")
    rows = [a for a in range(len(r.shape)) if a != r.dim and r.shape[a] > 1]
    out = r.result({a: r.shape[a] for a in rows})
    if any(out.strides[a] != 1 for a in rows[-1:]):
        out = r.temporary(r.dtype, {a: r.shape[a] for a in rows}, "reduced")
    together = _steps_alike(r.shape, rows, view) and _steps_alike(r.shape, rows, out)
    inner = rows if together else rows[-1:]
    _Lanes(r, view, out, width, [r.shape[a] for a in inner], inner).emit([a for a in rows if a not in inner])
    return out


def _steps_alike(shape, axes, view: View) -> bool:
    """The axes are one arithmetic progression."""
    return all(view.strides[a] == view.strides[b] * shape[b] for a, b in zip(axes, axes[1:]))


class _Lanes:
    """One run of rows that lie equally far apart, folded as often as the axes outside of it ask for."""

    def __init__(self, r: Fold, view: View, out: View, width: int, extents, axes):
        self.r, self.view, self.out, self.width = r, view, out, width
        self.rows = math.prod(extents)
        self.groups = -(-self.rows // GROUP)
        self.blocks = -(-width // view.block)
        self.pitch = view.strides[axes[-1]] if axes else self.blocks * view.block
        self.group = GROUP * self.blocks * view.block
        columns = r.ctx.new_temp(r.dtype, self.groups * self.group, "columns")
        self.columns = View(columns, 0, constant(0), (self.group, 1), r.dtype)

    def emit(self, outer) -> None:
        def nest(axes, source: Sum, target: Sum):
            if not axes:
                self._fold(source, target)
                return
            a, *rest = axes
            step = lambda i: nest(rest, add(source, offset_by(i, self.view.strides[a])), add(target, offset_by(i, self.out.strides[a])))
            self.r.emitter.repeat(self.r.shape[a], step)

        nest(outer, constant(0), constant(0))

    def _fold(self, source: Sum, target: Sum) -> None:
        self._transpose(source)
        columns = self.width
        if columns == 1:
            self._last([self.columns, self.columns], target, "copy")
        while columns > 1:
            half = columns // 2
            high = self._column(columns - half)
            if columns == 2:
                self._last([self.columns, high], target)
            else:
                self._combine([self.columns, self.columns, high], self.groups, half * GROUP)
            columns -= half

    def _column(self, k: int) -> View:
        return _moved(self.columns, k * GROUP)

    def _last(self, sources: list[View], target: Sum, name: str | None = None) -> None:
        """The last step writes the results: sixteen from every group, fewer from the last one."""
        out = View(self.out.buffer, self.out.version, add(self.out.base, target), (GROUP, 1), self.r.dtype)
        full, tail = divmod(self.rows, GROUP)
        for first, groups, lanes in ((0, full, GROUP), (full, 1, tail)):
            if not groups or not lanes:
                continue
            views = [_moved(out, first * GROUP), *(_moved(v, first * self.group) for v in sources)]
            if name is None:
                self._combine(views, groups, lanes)
            else:
                self._sub(groups, lanes).emitter.run(name, views[:2], (0, 1))

    def _combine(self, views: list[View], groups: int, lanes: int) -> None:
        self._sub(groups, lanes).combine(*views, (0, 1))

    def _sub(self, groups: int, lanes: int) -> Fold:
        sub = Fold(self.r.ctx, (groups, lanes), 0, self.r.dtype, self.r.operation, self.r.emitter.span)
        sub.emitter.out = self.r.emitter.out
        return sub

    def _transpose(self, source: Sum) -> None:
        """Groups of sixteen rows. An incomplete group is copied, so that nothing behind the tile is read."""
        view, block = self.view, self.view.block
        step = self.pitch // block
        if self.rows % GROUP:
            padded = self.r.ctx.new_temp(self.r.dtype, self.groups * self.group, "rows")
            copy = View(padded, 0, constant(0), (), self.r.dtype)
            self.r.emitter.issue("copy_ub_to_ub", copy.head(), view.head(source), self.rows, self.blocks, step - self.blocks, 0)
            view, source, step = copy, constant(0), self.blocks
        source_view = replace(view, base=add(view.base, source))
        steps = GROUP * self.blocks * block, GROUP * block
        turn_squares(self.r.emitter, self.columns, source_view, (self.groups, self.blocks), step * block, block, steps)


def _moved(view: View, elements: int) -> View:
    return replace(view, base=add(view.base, constant(elements)))


__all__ = ["fold_lanes"]
