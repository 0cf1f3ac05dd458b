"""reverse_loops: run `T.Parallel` loops in the direction in which their stores walk.

Before:  Parallel(i, j < 24): y[i, 23 - j] = x[i, j]
After:   Parallel(i, j < 24): y[i, j] = x[i, 23 - j]

Instructions gather from anywhere, but they store forwards. Iterations are independent, so any order is as good, unless a variable goes from
one to the next, or out of the last.

Requires: Tile IR. Ensures: a loop variable that all stores of its nest walk backwards is replaced by its mirror image.
"""

from __future__ import annotations

from ...analysis.index.affine import affine
from ...analysis.tiles.carried_scalars import carried_scalars
from ...ir import BufferStore, For, PrimFunc, Stmt, StmtMutator, Var, const_int, statements, substitute, sym
from ...tile.nests import inline_index_binds, nest_of, rebuild_nest
from ...tile.uses import IN_ORDER, is_parallel, is_scalar_var, uses_of


class _Simplify(StmtMutator):
    """Simplifies indices of stores: `23 - (23 - j)` is `j`."""

    def visit_BufferStore(self, s: BufferStore):
        simplify = sym.Analyzer().simplify
        return BufferStore(s.buffer, s.value, [simplify(i) for i in s.indices], span=s.span)


class _Face(StmtMutator):
    def __init__(self, carried: set):
        self.carried = carried

    def visit_For(self, s: For):
        if not is_parallel(s):
            return self.generic(s)
        if IN_ORDER in s.annotations or not self.carried.isdisjoint(uses_of(s).writes):
            return s
        loops, body = nest_of(s)
        body = inline_index_binds(body)
        backwards = {v: Var(v.name, "int32") for v, e in loops if const_int(e) is not None and _backwards(v, body)}
        if not backwards:
            return s
        mirrored = {v: const_int(e) - 1 - backwards[v] for v, e in loops if v in backwards}
        return rebuild_nest(s, [(backwards.get(v, v), e) for v, e in loops], _Simplify()(substitute(body, mirrored)))


def _backwards(var: Var, body: Stmt) -> bool:
    """True if the stores of `body` that depend on `var` all walk backwards with it, and there are some."""
    steps = []
    for s in statements(body):
        if isinstance(s, BufferStore) and not is_scalar_var(s.buffer):
            for index in s.indices:
                form = affine(index, [var])
                if form is None:
                    return False
                steps += form.coeffs.values()
    return bool(steps) and all(c < 0 for c in steps)


def reverse_loops(func: PrimFunc) -> PrimFunc:
    """Apply to a Tile IR function."""
    return func.with_body(_Face(carried_scalars(func.body))(func.body))


__all__ = ["reverse_loops"]
