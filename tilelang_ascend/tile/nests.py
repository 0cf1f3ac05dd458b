"""Perfect `Parallel` nests: their axes and body, the same nest rebuilt."""

from __future__ import annotations

from ..ir import (
    Bind,
    For,
    ForKind,
    Stmt,
    StmtMutator,
    dtype_of,
    parallel_nest,
    substitute,
)
from .uses import IN_ORDER, loads_in


def nest_of(stmt: For):
    """Loop variables with extents of a perfect `Parallel` nest, and its body."""
    loops, body = [], stmt
    while isinstance(body, For) and body.kind == ForKind.PARALLEL:
        loops.append((body.loop_var, body.extent))
        body = body.body
    return loops, body


class _InlineBinds(StmtMutator):
    """Substitutes integer lets that read no memory."""

    def visit_SeqStmt(self, block):
        mapping, out = {}, []
        for s in block.seq:
            s = substitute(s, mapping) if mapping else s
            if isinstance(s, Bind) and "int" in dtype_of(s.var) and not loads_in(s.value):
                mapping[s.var] = s.value
            else:
                out.append(self.visit(s))
        return out


def inline_index_binds(body: Stmt) -> Stmt:
    """`n = b * 128 + i; C[n] = A[n]` with `n` written out, so that indices show their loop variables."""
    return _InlineBinds()(body)


def rebuild_nest(nest: Stmt, loops, body: Stmt, in_order: str | None = None) -> Stmt:
    """A `Parallel` nest of `loops` around `body`, at the place of `nest` in the user's program. `in_order`: why its iterations run one
    after the other; what `nest` says of that stays."""
    kept = nest.annotations.get(IN_ORDER) if isinstance(nest, For) else None
    reason = in_order or kept
    return parallel_nest(loops, body, nest.span, **({} if reason is None else {IN_ORDER: reason}))
