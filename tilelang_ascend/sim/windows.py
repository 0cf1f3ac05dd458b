"""Loops of which some branches are taken in all iterations but the first or last few, as three loops: the one in the middle decides nothing.

Before:  for k in range(n + 2): if k < n: early(k)            After:  for k in range(2): as before
             if k >= 2: late(k)                                       for k in range(2, n): early(k); late(k)
                                                                      for k in range(n, n + 2): as before

Iterations in the middle issue the same instructions (`repeats`), which those of the whole loop do not.
"""

from __future__ import annotations

from ..ir import Bind, For, IfThenElse, Stmt, StmtMutator, Var, const_int, dtype_of, imm, renew, statements, sym, tirx

_FROM, _UNTIL = {tirx.GE: 0, tirx.GT: 1}, {tirx.LT: 0, tirx.LE: 1}


def in_windows(s: For) -> tuple[list[Bind], list[For]] | None:
    """Where the first ends and the last begins, and the three loops; None for a loop without such branches."""
    kind = dtype_of(s.loop_var)
    found = {b: edge for b in statements(s.body) if isinstance(b, IfThenElse) and (edge := _edge(b, s)) is not None}
    if not found:
        return None
    first, last = max((a for a, _ in found.values()), default=0), max((b for _, b in found.values()), default=0)
    whole = _Taken(set(found))(s.body)
    one, two = (Var(f"{s.loop_var.name}_{name}", kind) for name in ("first", "last"))
    binds = [
        Bind(one, tirx.max(tirx.min(imm(first, kind), s.extent), imm(0, kind)), span=s.span),
        Bind(two, tirx.max(one, s.extent - imm(last, kind)), span=s.span),
    ]

    def part(low, high, body: Stmt) -> For:
        return renew(For(s.loop_var, low, high - low, s.kind, body, annotations=dict(s.annotations), span=s.span))

    return binds, [part(imm(0, kind), one, s.body), part(one, two, whole), part(two, s.extent, s.body)]


def _edge(b: IfThenElse, s: For) -> tuple[int, int] | None:
    """(first, last) iterations of a loop that alone do not take a branch; None if that is not what its condition says."""
    c = b.condition
    if b.else_case is not None or const_int(s.min) != 0 or type(c) not in {**_FROM, **_UNTIL} or not isinstance(c.a, Var):
        return None
    if not c.a.same_as(s.loop_var):
        return None
    if type(c) in _FROM:
        first = const_int(c.b)
        return None if first is None else (max(0, first + _FROM[type(c)]), 0)
    last = const_int(sym.Analyzer().simplify(s.extent - c.b))
    return None if last is None else (0, max(0, last - _UNTIL[type(c)]))


class _Taken(StmtMutator):
    def __init__(self, branches: set):
        self.branches = branches

    def visit_IfThenElse(self, s: IfThenElse):
        return self.visit(s.then_case) if s in self.branches else self.generic(s)


__all__ = ["in_windows"]
