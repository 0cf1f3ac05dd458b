"""split_nests: element-wise statements over large tiles in parts, so that their temporaries fit UB.

Before:  Parallel(i < 16, j < 1024): y[i, j] = if_then_else(x[j] == i, 1, 0)
After:   for p in range(8): Parallel(i < 2, j < 1024): y[p * 2 + i, j] = if_then_else(x[j] == p * 2 + i, 1, 0)

Iterations of a nest are independent, so any part of them may run first. Temporaries of a statement (masks, selected values,
converted operands) are as large as its nest; tiles keep their size.

Requires: Tile IR with `Parallel` nests of constant extents (others stay). Ensures: no nest has more than `lanes` iterations.
"""

from __future__ import annotations

from math import prod

from ...ir import For, PrimFunc, Stmt, StmtMutator, const_int, statements
from ...tile.division import short_nests
from ...tile.nests import nest_of
from ...tile.uses import is_parallel


class _Split(StmtMutator):
    def __init__(self, lanes: int):
        self.lanes = lanes

    def visit_For(self, s: For):
        return short_nests(s, self.lanes) if is_parallel(s) else self.generic(s)


def longest_nest(body: Stmt) -> int:
    """Iterations of the longest nest whose extents are constant."""
    sizes = [[const_int(e) for _, e in nest_of(s)[0]] for s in statements(body) if is_parallel(s)]
    return max((prod(n) for n in sizes if None not in n), default=0)


def split_nests(func: PrimFunc, lanes: int) -> PrimFunc:
    """Apply to a Tile IR function."""
    return func.with_body(_Split(lanes)(func.body))


__all__ = ["split_nests", "longest_nest"]
