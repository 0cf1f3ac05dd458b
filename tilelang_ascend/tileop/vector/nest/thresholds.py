"""Conditions that hold from some column on, or in front of it, where each row has a column of its own.

    j <= i + c and j < n        # causal, and of a sequence of n keys: the columns in front of min(i + c + 1, n)
    bx * 64 + i >= m or j >= n  # of rows from m on, and of columns from n on: the columns from `bx * 64 + i >= m ? 0 : n` on

The general way makes a tile of numbers, and a mask as large, for every comparison, and joins these. Here minima and maxima of one number for each row
join them, and one comparison for each row meets the numbers of the columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ....analysis.index.sums import constant
from ....ir import tirx
from ..emit.masks import row_dtype
from ..graph.graph import COMPARE_EXPR, MASK, SWAPPED, Node

EXACT = {"float16": 1 << 11, "float32": 1 << 24}
"""Integers up to this magnitude are exact."""
_MODES = {kind: mode for mode, kind in COMPARE_EXPR.items() if mode not in ("eq", "ne")}


@dataclass(frozen=True)
class Columns:
    """The columns from `first + plus` on, or those in front of it. first: a number for each row, or a float32 scalar for all of them. plus: an int or an
    integer expression."""

    first: Node
    behind: bool
    plus: Any = 0


def by_columns(lowering, e) -> Node | None:
    """The mask of a condition, if it is one of `Columns` that not all rows have alike; else None. lowering: of the nest it stands in."""
    if not isinstance(e, (tirx.And, tirx.Or, tirx.Not, *_MODES)):
        return None
    real = [a for a, n in enumerate(lowering.extents) if n > 1]
    dtype = _dtype([lowering.extents[a] for a in real])
    if dtype is None:
        return None
    found = _Reader(lowering, real[-1], dtype).read(e)
    if not isinstance(found, Columns) or found.first.axes not in [(a,) for a in real]:
        return None
    numbers = lowering.iota(real[-1], dtype)
    if not _is_zero(found.plus):
        # Less of the columns instead of more of the rows: what rows are compared with, a block for each of them, is the same in every iteration of a loop.
        numbers = lowering.g.binary("add", numbers, lowering.number(-1 * found.plus, dtype))
    return lowering.g.node("compare_columns", MASK, (numbers, found.first), (("mode", "ge" if found.behind else "lt"),))


def _dtype(extents: list[int]) -> str | None:
    """In what numbers of columns are compared row by row, None if they cannot be. Sums of numbers of rows and columns have to be exact."""
    return row_dtype(extents[-1], extents[-1] + max(extents[:-1]) < EXACT["float16"]) if len(extents) > 1 else None


@dataclass(frozen=True)
class _Reader:
    """What conditions say of the columns along an axis. dtype: of numbers of columns."""

    lowering: Any
    axis: int
    dtype: str

    def read(self, e) -> Columns | Node | None:
        """Columns, or a mask or scalar that says the same of all of them; None if a condition says something else."""
        x = self.lowering
        if isinstance(e, tirx.Not):
            found = self.read(e.a)
            return replace(found, behind=not found.behind) if isinstance(found, Columns) else None if found is None else x.g.mask_not(found)
        if isinstance(e, (tirx.And, tirx.Or)):
            a = self.read(e.a)
            if a is None:
                return None
            # Lanes differ in whether columns hold, even if rows do not.
            b = x.under(x.iota(self.axis, self.dtype) if isinstance(a, Columns) else a, lambda: self.read(e.b))
            return None if b is None else self.joined(isinstance(e, tirx.And), a, b)
        parts = x.affine_parts(e) if isinstance(e, tuple(_MODES)) else None
        if parts is not None and self.axis in parts[0]:
            return self.compared(_MODES[type(e)], *parts)
        found = x.value(e)
        return None if self.axis in found.axes else found

    def joined(self, both: bool, a, b) -> Columns | Node | None:
        """The condition `a and b`, or `a or b`."""
        g = self.lowering.g
        if not isinstance(a, Columns) and not isinstance(b, Columns):
            return g.mask_binary("and" if both else "or", a, b)
        behind = (a if isinstance(a, Columns) else b).behind
        a, b = (self.of_all(c, behind) for c in (a, b))
        if a.behind != b.behind:  # Of a window of columns both ends count.
            return None
        first = [self.sum(c) for c in (a, b)]
        if not all(n.is_scalar for n in first):
            first = [g.scalar_cast(n, self.dtype) if n.is_scalar else n for n in first]
        return Columns(g.binary("max" if both == behind else "min", *first), behind)

    def of_all(self, c, behind: bool) -> Columns:
        """All columns where a condition holds, none where it does not."""
        if isinstance(c, Columns):
            return c
        g = self.lowering.g
        ends = [g.const(n, "float32" if c.is_scalar else self.dtype) for n in (0, self.lowering.extents[self.axis])]
        return Columns(g.select(c, *(ends if behind else ends[::-1])), behind)

    def compared(self, mode: str, coefficients: dict, bound) -> Columns | None:
        """``sum(coefficient * axis) <mode> bound``."""
        x, step = self.lowering, coefficients[self.axis]
        rows = {a: -c * step for a, c in coefficients.items() if a != self.axis}
        if abs(step) != 1 or len(rows) > 1 or any(abs(c) != 1 for c in rows.values()):
            return None
        # The column is <mode> step * bound plus what rows count.
        mode = SWAPPED[mode] if step < 0 else mode
        number, behind = bound * step + 1 if mode in ("gt", "le") else bound * step, mode in ("ge", "gt")
        return (
            Columns(x.index_node(rows, constant(0), self.dtype), behind, number) if rows else Columns(x.number(number, "float32"), behind)
        )

    def sum(self, c: Columns) -> Node:
        """Of what a row, or all of them, have the first column."""
        x = self.lowering
        return c.first if _is_zero(c.plus) else x.g.binary("add", c.first, x.number(c.plus, self.dtype))


def _is_zero(e) -> bool:
    return isinstance(e, int) and e == 0


__all__ = ["by_columns"]
