"""Rewrite what the launches of a Tile IR function run, and nothing around it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from . import For, PrimFunc, Stmt, StmtMutator, const_int, dtype_of, imm, stmts_of

MANY = 1 << 10
"""Blocks of a core, of a grid of unknown size."""


def is_grid_axis(stmt: Stmt) -> bool:
    """True for one axis of the grid of a launch."""
    return isinstance(stmt, For) and "tl.grid" in stmt.annotations


class _GridBodies(StmtMutator):
    def __init__(self, rewrite: Callable[[Stmt], Stmt]):
        self.rewrite = rewrite

    def visit_For(self, s: For):
        if not is_grid_axis(s):
            return s
        body = self.block(s.body) if is_grid_axis(s.body) else self.rewrite(s.body)
        return For(s.loop_var, s.min, s.extent, s.kind, body, annotations=dict(s.annotations), span=s.span)


def rewrite_grid_bodies(func: PrimFunc, rewrite: Callable[[Stmt], Stmt]) -> PrimFunc:
    """`func` with the body of the innermost grid axis of each launch replaced by `rewrite(body)`."""
    return func.with_body(_GridBodies(rewrite)(func.body))


@dataclass(frozen=True)
class Grid:
    """The only launch of a function: its axes, outermost first, and the `body` of the innermost. extents: of the axes, None for those known at
    run time only."""

    axes: tuple[For, ...]
    extents: tuple[int | None, ...]
    body: Stmt

    @staticmethod
    def of(whole: Stmt) -> Grid:
        """The first grid of the body of a function."""
        axes, body = [], next(s for s in stmts_of(whole) if is_grid_axis(s))
        while is_grid_axis(body):
            axes.append(body)
            body = body.body
        return Grid(tuple(axes), tuple(const_int(a.extent) for a in axes), body)

    def fewer(self, axis: int, extent: int, body: Stmt) -> Grid:
        """The grid with `extent` blocks along an axis, and another `body`."""
        return replace(self, extents=(*self.extents[:axis], extent, *self.extents[axis + 1 :]), body=body)

    def most_of_core(self, cores: int) -> int:
        """Blocks of the busiest of so many cores; `MANY` of a grid whose size only run time tells."""
        return MANY if None in self.extents else math.ceil(math.prod(self.extents) / cores)

    def count(self, axis: int, times: int) -> int:
        """Blocks, with `times` of them along an axis as one."""
        return math.prod(self.extents) // self.extents[axis] * math.ceil(self.extents[axis] / times)

    def rebuilt(self, whole: Stmt) -> Stmt:
        """`whole` with this grid in place of its own."""
        nest = self.body
        for axis, known in zip(reversed(self.axes), reversed(self.extents)):
            extent = axis.extent if known is None else imm(known, dtype_of(axis.extent))
            nest = For(axis.loop_var, axis.min, extent, axis.kind, nest, annotations=dict(axis.annotations), span=axis.span)
        return _Replace(nest)(whole)


class _Replace(StmtMutator):
    def __init__(self, nest: Stmt):
        self.nest = nest

    def visit_For(self, s: For):
        return self.nest if is_grid_axis(s) else self.generic(s)


__all__ = ["Grid", "is_grid_axis", "rewrite_grid_bodies"]
