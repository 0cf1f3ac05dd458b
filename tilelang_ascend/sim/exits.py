"""Rewrite `break` and `continue` to flags: TVM's LLVM back end has no code for them.

Before -> after (``exit`` is a mutable scalar: 0 go on, 1 continue, 2 break)::

    for i in range(n):              i_now = 0; exit = 0
        a                           while exit != 2 and i_now < n:
        if c: break            ->       i = i_now; exit = 0
        b                               a
                                        if c: exit = 2
                                        if exit == 0: b
                                        i_now = i_now + 1
"""

from __future__ import annotations

from ..ir import (
    AllocBuffer,
    Bind,
    Break,
    BufferLoad,
    BufferStore,
    Continue,
    For,
    IfThenElse,
    IntImm,
    SeqStmt,
    Stmt,
    StmtMutator,
    Var,
    While,
    children,
    decl_buffer,
    dtype_of,
    seq,
    statements,
    tirx,
)

_GO_ON, _CONTINUE, _BREAK = 0, 1, 2


def lower_exits(body: Stmt) -> Stmt:
    """`body` without `Break` and `Continue` statements; unchanged when it has none."""
    if not any(isinstance(s, (Break, Continue)) for s in statements(body)):
        return body
    mutator = _Exits()
    lowered = mutator(body)
    return seq([AllocBuffer(b) for b in mutator.scalars], lowered)


def _own_exits(stmt: Stmt) -> set:
    """Types of the exits that leave the loop `stmt` is the body of (or a part of it)."""
    if isinstance(stmt, (Break, Continue)):
        return {type(stmt)}
    if isinstance(stmt, (For, While)):
        return set()
    return {t for child in children(stmt) for t in _own_exits(child)}


class _Exits(StmtMutator):
    def __init__(self):
        self.scalars: list = []
        self.flags: list = []

    def scalar(self, name: str, dtype: str):
        buffer = decl_buffer((1,), dtype, f"{name}_{len(self.scalars)}", scope="local.var")
        self.scalars.append(buffer)
        return buffer

    # ---- leaving

    def visit_Break(self, s: Break):
        return _set(self.flags[-1], _BREAK, s.span)

    def visit_Continue(self, s: Continue):
        return _set(self.flags[-1], _CONTINUE, s.span)

    def visit_SeqStmt(self, s: SeqStmt):
        out: list = []
        stmts = list(s.seq)
        for index, stmt in enumerate(stmts):
            out.append(self.visit(stmt))
            rest = stmts[index + 1 :]
            if rest and _own_exits(stmt):
                others = self.block(seq(rest))
                out.append(IfThenElse(tirx.EQ(_get(self.flags[-1]), IntImm("int32", _GO_ON)), others, None, span=rest[0].span))
                break
        return out

    # ---- loops

    def visit_For(self, s: For):
        exits = _own_exits(s.body)
        if not exits:
            return self.generic(s)
        flag, body = self.body(s.body)
        if Break not in exits:
            return For(s.loop_var, s.min, s.extent, s.kind, seq(_set(flag, _GO_ON, s.span), body), span=s.span)
        dtype = dtype_of(s.loop_var)
        now, end = self.scalar(s.loop_var.name + "_now", dtype), Var(s.loop_var.name + "_end", dtype)
        steps = seq(
            Bind(s.loop_var, _get(now)),
            _set(flag, _GO_ON, s.span),
            body,
            BufferStore(now, _get(now) + IntImm(dtype, 1), [0], span=s.span),
        )
        return [
            Bind(end, s.min + s.extent),
            BufferStore(now, s.min, [0], span=s.span),
            _set(flag, _GO_ON, s.span),
            While(_unless_broken(flag, _get(now) < end), steps, span=s.span),
        ]

    def visit_While(self, s: While):
        if not _own_exits(s.body):
            return self.generic(s)
        flag, body = self.body(s.body)
        start = _set(flag, _GO_ON, s.span)
        return [start, While(_unless_broken(flag, s.condition), seq(start, body), span=s.span)]

    def body(self, stmt: Stmt):
        """(flag, body) of a loop that is left early."""
        flag = self.scalar("exit", "int32")
        self.flags.append(flag)
        lowered = self.block(stmt)
        self.flags.pop()
        return flag, lowered


def _get(buffer):
    return BufferLoad(buffer, [0])


def _set(buffer, value: int, span):
    return BufferStore(buffer, IntImm("int32", value), [0], span=span)


def _unless_broken(flag, condition):
    # A branch, not an `and`: the condition may read memory and must not be evaluated after a break.
    return tirx.if_then_else(tirx.NE(_get(flag), IntImm("int32", _BREAK)), condition, tirx.const(False, "bool"))
