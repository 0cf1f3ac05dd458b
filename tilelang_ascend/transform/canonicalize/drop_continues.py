"""drop_continues: what stands behind a conditional `continue` is the other branch of its condition.

Before:  for k: if Mask[k] == 0: continue; gemm(…); …
After:   for k: if Mask[k] != 0: gemm(…); …

A jump is in the way of everything that moves, divides or overlaps the statements of an iteration, and a branch is not. A `continue` that ends no branch
of an iteration, as one within a branch that goes on behind, stays.

Requires: Tile IR. Ensures: no `Continue` at the end of an iteration, of a branch there, or of a branch that all the rest of an iteration stands beside.
"""

from __future__ import annotations

from ...ir import Break, Continue, For, IfThenElse, PrimFunc, Stmt, StmtMutator, While, if_then, seq, statements, stmts_of, tirx
from ...tile.jumps import may_leave
from ...tile.uses import is_parallel


class _Drop(StmtMutator):
    def visit_For(self, s: For):
        s = self.generic(s)
        if is_parallel(s) or not may_leave(s.body):
            return s
        return For(s.loop_var, s.min, s.extent, s.kind, _body(s), annotations=dict(s.annotations), span=s.span)

    def visit_While(self, s: While):
        s = self.generic(s)
        return While(s.condition, _body(s), span=s.span) if may_leave(s.body) else s


def _body(loop: For | While) -> Stmt:
    return seq(_last(stmts_of(loop.body)))


def _last(stmts: list[Stmt]) -> list[Stmt]:
    """Statements that nothing of their iteration follows, without the jumps to where they end."""
    for n, s in enumerate(stmts):
        if isinstance(s, Continue):
            return stmts[:n]
        if isinstance(s, IfThenElse) and may_leave(s):
            return [*stmts[:n], *_branch(s, stmts[n + 1 :])]
    return stmts


def _branch(s: IfThenElse, rest: list[Stmt]) -> list[Stmt]:
    """A branch, which may leave the iteration, and the rest of that."""
    then, other = (stmts_of(x) if x is not None else [] for x in (s.then_case, s.else_case))
    if _ends(then):
        other, rest = [*other, *rest], []
    elif _ends(other):
        then, rest = [*then, *rest], []
    if rest:
        return [s, *_last(rest)]
    then, other = _last(then), _last(other)
    if not then and not other:
        return []
    return [
        if_then(s.condition, seq(then), seq(other) if other else None, span=s.span)
        if then
        else if_then(_not(s.condition), seq(other), span=s.span)
    ]


def _ends(stmts: list[Stmt]) -> bool:
    """True if what follows some statements is never reached."""
    if not stmts:
        return False
    *_, s = stmts
    if isinstance(s, IfThenElse):
        return s.else_case is not None and _ends(stmts_of(s.then_case)) and _ends(stmts_of(s.else_case))
    return isinstance(s, (Break, Continue))


def _not(condition):
    """The opposite of a condition."""
    for a, b in ((tirx.EQ, tirx.NE), (tirx.NE, tirx.EQ)):
        if isinstance(condition, a):
            return b(condition.a, condition.b)
    return condition.a if isinstance(condition, tirx.Not) else tirx.Not(condition)


def drop_continues(func: PrimFunc) -> PrimFunc:
    """Apply to a Tile IR function; those without `continue` stay as they are."""
    if not any(isinstance(s, Continue) for s in statements(func.body)):
        return func
    return func.with_body(_Drop()(func.body))


__all__ = ["drop_continues"]
