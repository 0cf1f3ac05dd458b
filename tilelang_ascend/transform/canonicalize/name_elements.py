"""name_elements: an element of a tensor that is read again in a loop has a name.

Before:  for k in range(lengths[b] // 64): … Parallel: s[i, j] = if_then_else(k * 64 + j >= lengths[b], -inf, s[i, j])
After:   n = lengths[b]; for k in range(n // 64): … Parallel: s[i, j] = if_then_else(k * 64 + j >= n, -inf, s[i, j])

What a loop reads of memory it reads in every iteration, and nothing can be said about it: which steps need a mask is known of names. Only what is read
in front of the loop in any case gets one: an element that nobody asks for may lie outside of its tensor.

Requires: Tile IR after bind_elements. Ensures: values are unchanged.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir import (
    Bind,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    PrimFunc,
    Stmt,
    StmtMutator,
    TensorLoad,
    Var,
    choice_of,
    dtype_of,
    expr_children,
    exprs,
    map_children,
    seq,
    statements,
    stmts_of,
    structural_equal,
)
from ...tile.uses import is_parallel, is_scalar_var, loads_in, on_chip, uses_of


class _Written(StmtMutator):
    """Changes the expressions of statements."""

    def __init__(self, expr: Callable):
        self.expr = expr


class _Name(StmtMutator):
    """known: elements that have a name here, with that."""

    def __init__(self, body: Stmt):
        self.written = uses_of(body).writes
        self.known: list = []

    def __call__(self, stmt: Stmt) -> Stmt:
        return self.block(stmt)

    def block(self, stmt: Stmt) -> Stmt:
        body, out, outside = stmts_of(stmt), [], len(self.known)
        for n, x in enumerate(body):
            again = [e for y in body[n:] for e in _read_in_loops(y)]
            for e in _always_read(x):
                if not self.is_lasting(e) or self.name_of(e) is not None or isinstance(x, Bind) and x.value.same_as(e):
                    continue
                if any(structural_equal(e, other) for other in again):
                    var = Var(f"{e.source.name}_v", dtype_of(e))
                    out.append(Bind(var, self.expr(e), span=x.span))
                    self.known.append((e, var))
            out.append(self.visit(x))
            if isinstance(x, Bind) and isinstance(x.value, TensorLoad) and self.is_lasting(x.value) and self.name_of(x.value) is None:
                self.known.append((x.value, x.var))
        del self.known[outside:]
        return seq(out)

    def visit_For(self, s: For):
        return _Written(self.expr)(s) if is_parallel(s) else self.generic(s)

    def is_lasting(self, e: TensorLoad) -> bool:
        """True for an integer of a tensor that nobody writes."""
        buffers = {e.source, *(x.source for i in e.indices for x in loads_in(i))}
        return dtype_of(e).startswith("int") and not any(on_chip(b) or is_scalar_var(b) or b in self.written for b in buffers)

    def name_of(self, e: TensorLoad) -> Var | None:
        return next((var for known, var in self.known if known.source.same_as(e.source) and structural_equal(known, e)), None)

    def expr(self, e):
        if not self.known:
            return e
        name = self.name_of(e) if isinstance(e, TensorLoad) else None
        return map_children(e, self.expr) if name is None else name


def _read_in_loops(s: Stmt) -> list[TensorLoad]:
    """Elements of memory that loops below a statement read."""
    inside = [y for x in statements(s) if isinstance(x, For) for y in statements(x.body)]
    return [x for y in dict.fromkeys(inside) for e in exprs(y) for x in loads_in(e)]


def _always_read(s: Stmt) -> list[TensorLoad]:
    """Elements of memory that a statement reads whenever it is reached."""
    found: list = []

    def see(e) -> None:
        chosen = choice_of(e)
        if isinstance(e, TensorLoad):
            found.append(e)
        for x in expr_children(e) if chosen is None else chosen[:1]:
            see(x)

    if isinstance(s, (Bind, BufferStore, Evaluate, For, IfThenElse)) and not is_parallel(s):
        for e in exprs(s):
            see(e)
    return found


def name_elements(func: PrimFunc) -> PrimFunc:
    """Apply to a Tile IR function."""
    return func.with_body(_Name(func.body)(func.body))


__all__ = ["name_elements"]
