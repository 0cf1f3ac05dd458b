"""Rewrite what the launches of a Tile IR function run, and nothing around it."""

from __future__ import annotations

from collections.abc import Callable

from . import For, PrimFunc, Stmt, StmtMutator


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


__all__ = ["is_grid_axis", "rewrite_grid_bodies"]
