"""Scans along rows of many elements of 32 bits, sixteen neighbours at a time.

A transpose puts the first elements of all groups of sixteen side by side, then the second ones, and so on: sixteen planes, of which each is
combined with an earlier one, in four steps of whole instructions. The last plane then holds what each group comes to. What all groups
before one in its row come to is a scan of a sixteenth of the elements, is combined with all planes, and a second transpose puts everything
back. Steps along rows as they lie need a gather for each distance below a block, at a twelfth of the speed.

    x[16 g + c]  --turn-->  p[c, g]  --4 steps-->  p[c, g] = x[16 g] op … op x[16 g + c]
    e[g] = p[15, first group of the row] op … op p[15, g - 1];  y[16 g + c] = e[g] op p[c, g]
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...analysis.index.sums import constant
from ...ir import itemsize
from ...isa.units import BLOCK_BYTES, MAX_REPEAT
from ..vector.emit.emitter import Emitter
from ..vector.emit.transpose import ROWS
from ..vector.emit.views import View

BLOCK = BLOCK_BYTES // 4
"""Elements of a block."""
TURNED = 2 * ROWS * BLOCK
"""Elements that two transposes take together: two neighbouring blocks of sixteen groups."""


def can_turn(view: View, shape: tuple[int, ...]) -> bool:
    """True if rows can be scanned this way: whole groups of sixteen, whose totals fill whole blocks, and nothing between rows."""
    count, width = math.prod(shape), shape[-1]
    whole = width == ROWS or width % (ROWS * BLOCK) == 0
    return whole and itemsize(view.dtype) == 4 and count % TURNED == 0 and count // TURNED <= MAX_REPEAT and is_contiguous(view, shape)


def is_contiguous(view: View, shape: tuple[int, ...]) -> bool:
    """True if elements lie one behind the other from the start of a block on."""
    steps = [math.prod(shape[a + 1 :]) for a in range(len(shape))]
    return view.base.multiple_of(BLOCK) and all(s == step for s, step, n in zip(view.strides, steps, shape) if n > 1)


@dataclass
class TurnedScan:
    """A scan of the rows of `shape` by the operation `combine`, from their ends if `reverse`. planes: room for all elements."""

    emitter: Emitter
    combine: str
    shape: tuple[int, ...]
    reverse: bool
    planes: View

    def __post_init__(self):
        self.units = math.prod(self.shape) // TURNED
        self.lanes = self.units * 2 * BLOCK
        """Elements of a plane: groups."""

    def forth(self, source: View) -> None:
        """Fill the planes, and scan each group."""
        for half in range(2):  # Even blocks hold the first eight elements of a group.
            heads = [self.plane(half * BLOCK), source.head(constant(half * BLOCK))]
            self.emitter.issue("trans_data_to_5hd", *heads, self.units, 2, 0, 0, self.units, 1, 2 * ROWS)
        for length in (1, 2, 4, 8):
            for k in range(ROWS):
                if k & length:
                    last = (k & -2 * length) + length - 1
                    self.emitter.linear(self.combine, [self.ordered(k), self.ordered(k), self.ordered(last)], self.lanes)

    def take_totals(self, totals: View) -> None:
        """What each group comes to, in the order of the groups."""
        self.reorder(lambda half: (totals.head(constant(half * BLOCK)), self.ordered(ROWS - 1, half)), 0, 1)

    def add(self, before: View, spread: View) -> None:
        """Combine each group with an element of `before`; `spread` is room for as many."""
        at = lambda half: constant(half * self.units * BLOCK)  # noqa: E731
        self.reorder(lambda half: (spread.head(at(half)), before.head(constant(half * BLOCK))), 1, 0)
        for k in range(ROWS):
            self.emitter.linear(self.combine, [self.plane(k), self.plane(k), spread.head(constant(0))], self.lanes)

    def back(self, out: View) -> None:
        """The elements in their own order."""
        for half in range(2):
            heads = [out.head(constant(half * ROWS * BLOCK)), self.plane(0, half)]
            self.emitter.issue("trans_data_to_5hd", *heads, 1, 2 * self.units, 0, 0, self.units, 2 * ROWS, 1)

    def plane(self, k: int, half: int = 0):
        return self.planes.head(constant(k * self.lanes + half * self.units * BLOCK))

    def ordered(self, k: int, half: int = 0):
        """The plane of the elements that come `k`-th."""
        return self.plane(ROWS - 1 - k if self.reverse else k, half)

    def reorder(self, heads, source_gap: int, target_gap: int) -> None:
        """Planes hold the first eight groups of every two transposes, then the other eight."""
        for half in range(2):
            self.emitter.issue("copy_ub_to_ub", *heads(half), self.units, 1, source_gap, target_gap)


__all__ = ["ROWS", "TurnedScan", "can_turn", "is_contiguous"]
