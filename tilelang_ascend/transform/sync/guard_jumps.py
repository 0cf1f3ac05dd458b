"""guard_jumps: `break` and `continue` as conditions of what they would leave out.

Before:  for k: a; if x: break;    b
After:   done = 0
         for k: if done == 0: a; rest = 0; if x: rest = 1; done = 1
                              if rest == 0: b

Flags between the cube core and the vector cores cannot always be kept in step around jumps: they can around branches, outside of which they
are set and waited for on every path. The iterations behind a `break` run, and do nothing but hand flags on.

Requires: Ascend IR without flags. Ensures: no `Break` or `Continue`.
"""

from __future__ import annotations

from ...ir import (
    AllocBuffer,
    Break,
    BufferLoad,
    BufferStore,
    Continue,
    For,
    IfThenElse,
    PrimFunc,
    Stmt,
    While,
    children,
    decl_buffer,
    imm,
    seq,
    stmts_of,
    tirx,
)
from ...tile.jumps import may_leave


class _Loop:
    """Scalars of one loop: `rest` is 1 where the rest of an iteration is left out, `done` where all that follows is."""

    def __init__(self, body: Stmt):
        self.rest = _scalar("rest") if may_leave(body) else None
        self.done = _scalar("done") if _may_break(body) else None

    @property
    def scalars(self) -> list:
        return [x for x in (self.rest, self.done) if x is not None]


def _may_break(stmt: Stmt) -> bool:
    """True if a `break` of the loop around `stmt` stands in it."""
    return isinstance(stmt, Break) or not isinstance(stmt, (For, While)) and any(map(_may_break, children(stmt)))


def _scalar(name: str):
    return decl_buffer((1,), "int32", name, scope="local.var")


def _set(scalar, value: int, span=None) -> BufferStore:
    return BufferStore(scalar, imm(value), [imm(0)], span=span)


def _is_zero(scalar):
    return tirx.EQ(BufferLoad(scalar, [imm(0)]), imm(0))


def guard_jumps(func: PrimFunc) -> PrimFunc:
    """`func` without jumps."""
    return func.with_body(_block(func.body, None))


def _block(stmt: Stmt, loop: _Loop | None) -> Stmt:
    items, out = stmts_of(stmt), []
    for n, s in enumerate(items):
        if isinstance(s, (Break, Continue)):
            out.append(_set(loop.rest, 1, s.span))
            return seq(*out, _set(loop.done, 1, s.span) if isinstance(s, Break) else None)
        out.append(_statement(s, loop))
        if may_leave(s) and n + 1 < len(items):
            rest = items[n + 1 :]
            declared = [x for x in rest if isinstance(x, AllocBuffer)]
            left = _block(seq([x for x in rest if not isinstance(x, AllocBuffer)]), loop)
            return seq(*out, *declared, IfThenElse(_is_zero(loop.rest), left, None, span=s.span))
    return seq(*out)


def _statement(s: Stmt, loop: _Loop | None):
    if isinstance(s, IfThenElse):
        other = _block(s.else_case, loop) if s.else_case is not None else None
        return IfThenElse(s.condition, _block(s.then_case, loop), other, span=s.span)
    if not isinstance(s, (For, While)):
        return s
    inner = _Loop(s.body)
    body = _block(s.body, inner)
    if inner.rest is not None:
        body = seq(_set(inner.rest, 0), body)
    if isinstance(s, For):
        if inner.done is not None:
            body = IfThenElse(_is_zero(inner.done), body, None, span=s.span)
        new: Stmt = For(s.loop_var, s.min, s.extent, s.kind, body, annotations=dict(s.annotations), span=s.span)
    else:
        condition = s.condition if inner.done is None else tirx.And(_is_zero(inner.done), s.condition)
        new = While(condition, body, span=s.span)
    first = [_set(inner.done, 0)] if inner.done is not None else []
    return seq(*(AllocBuffer(x) for x in inner.scalars), *first, new)


__all__ = ["guard_jumps"]
