"""Helpers for passes that move declarations."""

from __future__ import annotations

from ..ir import AllocBuffer, Stmt, StmtMutator


class _Drop(StmtMutator):
    def __init__(self, dead: set):
        self.dead = dead

    def visit_AllocBuffer(self, s: AllocBuffer):
        return None if s.buffer in self.dead else s


def drop_allocs(stmt: Stmt, dead: set) -> Stmt:
    """`stmt` without the declarations of `dead` buffers."""
    return _Drop(dead)(stmt)


__all__ = ["drop_allocs"]
