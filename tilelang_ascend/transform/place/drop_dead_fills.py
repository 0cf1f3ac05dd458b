"""drop_dead_fills: remove constant fills, and loads of tiles, nobody reads.

Placement writes a cleared tile on every core that holds it; the instance that is overwritten by a transfer needs no fill.

Before:  fill(C@ub, 0); copy(ws, C@ub[whole])
After:   copy(ws, C@ub[whole])

Requires: placed Tile IR. Ensures: values read are unchanged.
"""

from __future__ import annotations

from ...analysis.index.coverage import writes_whole
from ...ir import Evaluate, For, PrimFunc, Stmt, StmtMutator, seq, stmts_of
from ...ir.grids import is_grid_axis
from ...tile import COPY, FILL, is_op
from ...tile.jumps import may_leave
from ...tile.uses import on_chip, uses_of


class _Drop(StmtMutator):
    """`outer` = True while the block is the body of the grid: what is not read in it is never read."""

    def __init__(self, read: set):
        self.outer = False
        self.read = read

    def visit_Evaluate(self, s: Evaluate):
        if is_op(s, COPY):
            target = s.value.args[1].source
            if on_chip(target) and target not in self.read:
                return None
        return s

    def visit_For(self, s: For):
        self.outer = is_grid_axis(s) and not is_grid_axis(s.body)
        body = self.visit_block(s.body)
        return For(s.loop_var, s.min, s.extent, s.kind, body, annotations=dict(s.annotations), span=s.span)

    def visit_block(self, body: Stmt) -> Stmt:
        outer, self.outer = self.outer, False
        stmts, out = stmts_of(body), []
        for i, s in enumerate(stmts):
            if self.is_dead(s, stmts[i + 1 :], outer):
                continue
            out.append(self.visit(s))
        return seq(out)

    @staticmethod
    def is_dead(s: Stmt, rest: list[Stmt], outer: bool) -> bool:
        if not is_op(s, FILL):
            return False
        buffer = s.value.args[0].source
        if not on_chip(buffer):
            return False  # The user sees global memory.
        for x in rest:
            uses = uses_of(x)
            if buffer in uses.all:
                return buffer not in uses.reads and writes_whole(x, buffer)
            if may_leave(x):
                return False  # Whoever leaves here does not come to the write.
        return outer


def drop_dead_fills(func: PrimFunc) -> PrimFunc:
    """Apply to a placed Tile IR function."""
    return func.with_body(_Drop(uses_of(func.body).reads)(func.body))


__all__ = ["drop_dead_fills"]
