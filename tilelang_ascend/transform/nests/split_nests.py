"""split_nests: element-wise statements over large tiles in parts, so that their temporaries fit UB.

Before:  Parallel(i < 16, j < 1024): y[i, j] = if_then_else(x[j] == i, 1, 0)
After:   for p in range(8): Parallel(i < 2, j < 1024): y[p * 2 + i, j] = if_then_else(x[j] == p * 2 + i, 1, 0)

Iterations of a nest are independent, so any part of them may run first. Temporaries of a statement (masks, selected values,
converted operands) are as large as its nest; tiles keep their size.

Requires: Tile IR with `Parallel` nests of constant extents (others stay). Ensures: no nest has more than `lanes` iterations.
"""

from __future__ import annotations

from math import prod

from ...ir import For, PrimFunc, Stmt, StmtMutator, const_int, seq, statements
from ...isa.units import REPEAT_BYTES, round_up
from ...tile.division import even_size, split_nest
from ...tile.nests import nest_of
from ...tile.uses import is_parallel


class _Split(StmtMutator):
    def __init__(self, lanes: int):
        self.lanes = lanes

    def visit_For(self, s: For):
        return self.split(s) if is_parallel(s) else self.generic(s)

    def split(self, nest: For) -> Stmt:
        """`nest` in parts of at most `lanes` iterations, split along the outermost loop that has more than one."""
        loops, _ = nest_of(nest)
        sizes = [const_int(e) for _, e in loops]
        if None in sizes or prod(sizes) <= self.lanes:
            return nest
        axis = next(k for k, n in enumerate(sizes) if n > 1)
        inner = prod(sizes[axis + 1 :])
        # Parts of a row start where instructions can: at whole repeats. Rows start aligned anyway.
        rows = even_size(sizes[axis], max(1, self.lanes // inner)) if axis < len(sizes) - 1 else round_up(self.lanes, REPEAT_BYTES)
        return seq(split_nest(nest, {loops[axis][0]: rows}, self.split))


def longest_nest(body: Stmt) -> int:
    """Iterations of the longest nest whose extents are constant."""
    sizes = [[const_int(e) for _, e in nest_of(s)[0]] for s in statements(body) if is_parallel(s)]
    return max((prod(n) for n in sizes if None not in n), default=0)


def split_nests(func: PrimFunc, lanes: int) -> PrimFunc:
    """Apply to a Tile IR function."""
    return func.with_body(_Split(lanes)(func.body))


__all__ = ["split_nests", "longest_nest"]
