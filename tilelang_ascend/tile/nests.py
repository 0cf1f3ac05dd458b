"""Perfect `Parallel` nests: their axes and body, the same nest rebuilt."""

from __future__ import annotations

from ..ir import (
    LONGEST_INDEX,
    Bind,
    Break,
    BufferStore,
    Continue,
    For,
    ForKind,
    Stmt,
    StmtMutator,
    TensorLoad,
    const_int,
    dtype_of,
    expr_children,
    exprs,
    is_if_then_else,
    nodes_in,
    parallel_nest,
    statements,
    stmts_of,
    structural_equal,
    substitute,
    tirx,
)
from .uses import IN_ORDER, is_atomic, loads_in, on_chip


def nest_of(stmt: For):
    """Loop variables with extents of a perfect `Parallel` nest, and its body."""
    loops, body = [], stmt
    while isinstance(body, For) and body.kind == ForKind.PARALLEL:
        loops.append((body.loop_var, body.extent))
        body = body.body
    return loops, body


def is_own(e, store: BufferStore) -> bool:
    """True for the element a statement stores to."""
    return isinstance(e, TensorLoad) and e.source.same_as(store.buffer) and all(map(structural_equal, e.indices, store.indices))


def tile_bounds(variables, body: Stmt) -> dict:
    """variable -> the smallest dimension of a tile that it alone indexes in every iteration of a nest with this `body`, of those that index any.
    What stands under a condition says nothing about the other iterations."""
    bounds: dict = {}

    def see(buffer, indices):
        for i, n in zip(indices, map(const_int, buffer.ty.shape)):
            for v in variables:
                if v.same_as(i) and n is not None and on_chip(buffer):
                    bounds[v] = min(bounds.get(v, n), n)

    def see_expr(e):
        if isinstance(e, TensorLoad):
            see(e.source, e.indices)
        children = list(expr_children(e))
        for x in children[:1] if isinstance(e, (tirx.Select, tirx.And, tirx.Or)) or is_if_then_else(e) else children:
            see_expr(x)

    def see_block(block: Stmt):
        for s in stmts_of(block):
            if isinstance(s, BufferStore):
                see(s.buffer, s.indices)
            if is_atomic(s):
                see(s.value.args[0].source, [r.min for r in s.value.args[0].region])
            for e in exprs(s):
                see_expr(e)
            if any(isinstance(x, (Break, Continue)) for x in statements(s)):
                break
            if isinstance(s, For) and (const_int(s.extent) or 0) > 0:
                see_block(s.body)

    see_block(body)
    return bounds


class _InlineBinds(StmtMutator):
    """Substitutes integer lets that read no memory."""

    def visit_SeqStmt(self, block):
        mapping, out = {}, []
        for s in block.seq:
            s = substitute(s, mapping) if mapping else s
            if isinstance(s, Bind) and "int" in dtype_of(s.var) and not loads_in(s.value) and nodes_in(s.value) <= LONGEST_INDEX:
                mapping[s.var] = s.value
            else:
                out.append(self.visit(s))
        return out


def inline_index_binds(body: Stmt) -> Stmt:
    """`n = b * 128 + i; C[n] = A[n]` with `n` written out, so that indices show their loop variables. Names of what is too long to be an index stay."""
    return _InlineBinds()(body)


def rebuild_nest(nest: Stmt, loops, body: Stmt, in_order: str | None = None) -> Stmt:
    """A `Parallel` nest of `loops` around `body`, at the place of `nest` in the user's program. `in_order`: why its iterations run one
    after the other; what `nest` says of that stays."""
    kept = nest.annotations.get(IN_ORDER) if isinstance(nest, For) else None
    reason = in_order or kept
    return parallel_nest(loops, body, nest.span, **({} if reason is None else {IN_ORDER: reason}))
