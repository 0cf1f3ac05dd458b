"""Loops of which some branches are taken in all iterations but the first or last few, as three loops: the one in the middle decides nothing.

Before:  for k in range(n + 2): if k < n: early(k)            After:  for k in range(2): as before
             if k >= 2: late(k)                                       for k in range(2, n): early(k); late(k)
                                                                      for k in range(n, n + 2): as before

Iterations in the middle issue the same instructions (`repeats`), which those of the whole loop do not.
"""

from __future__ import annotations

from ..analysis.index.windows import window_of
from ..ir import Bind, For, IfThenElse, Stmt, StmtMutator, Var, dtype_of, imm, renew, statements, tirx


def in_windows(s: For) -> tuple[list[Bind], list[For]] | None:
    """Where the first ends and the last begins, and the three loops; None for a loop without such branches."""
    kind = dtype_of(s.loop_var)
    found = {b: edge for b in statements(s.body) if isinstance(b, IfThenElse) and (edge := window_of(b, s)) is not None}
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


class _Taken(StmtMutator):
    def __init__(self, branches: set):
        self.branches = branches

    def visit_IfThenElse(self, s: IfThenElse):
        return self.visit(s.then_case) if s in self.branches else self.generic(s)


__all__ = ["in_windows"]
