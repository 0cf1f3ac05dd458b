"""Statements under one condition, apart and together."""

from __future__ import annotations

from typing import Callable

from ..ir import (
    AllocBuffer,
    Bind,
    BufferLoad,
    IfThenElse,
    Stmt,
    TensorLoad,
    const_int,
    dtype_of,
    expr_children,
    imm,
    map_children,
    seq,
    statements,
    stmts_of,
    structural_equal,
    tirx,
)
from .table import GEMM, is_op
from .uses import is_scalar_var, loads_in, uses_of

_DIVISIONS = (tirx.FloorDiv, tirx.FloorMod, tirx.Div, tirx.Mod)
_NEED_CARE = (*_DIVISIONS, tirx.LShift, tirx.RShift)
"""Whose second operand a condition may keep away from zero, or between zero and the number of bits."""


def is_lasting(e, writes: set) -> bool:
    """True if statements that write such buffers do not change an expression."""
    return not any(x.source in writes for x in loads_in(e))


def under_one(stmts: list[Stmt]) -> list[Stmt] | None:
    """What runs of statements that all stand under the same condition, if that holds, and which they do not change; None if they do not."""
    if not stmts or any(not isinstance(s, IfThenElse) or s.else_case is not None for s in stmts):
        return None
    condition, inside = stmts[0].condition, [x for s in stmts for x in stmts_of(s.then_case)]
    if not all(structural_equal(s.condition, condition) for s in stmts[1:]) or not is_lasting(condition, uses_of(seq(inside)).writes):
        return None
    return inside


def has_product(s: Stmt) -> bool:
    """True if a product is part of a statement."""
    return any(is_op(x, GEMM) for x in statements(s))


def apart(s: Stmt, constant: Callable) -> list[Stmt] | None:
    """The statements of branches with products, each under the conditions it stands under, and names in front of them, which are worked out whatever
    holds: of the first element of a tensor where the condition does not, which may keep places inside of it. A statement that is no such branch stays, as one
    whose condition is not `constant`; None if a name cannot be worked out where its condition does not hold."""
    if not isinstance(s, IfThenElse) or not constant(s.condition) or not has_product(s):
        return [s]
    out: list[Stmt] = []
    for condition, branch in ((s.condition, s.then_case), (tirx.Not(s.condition), s.else_case)):
        for x in stmts_of(branch) if branch is not None else []:
            inside = apart(x, constant)
            if inside is None:
                return None
            for y in inside:
                if isinstance(y, Bind):
                    y = Bind(y.var, anywhere(y.value, condition), span=y.span) if can_be_anywhere(y.value) else None
                if y is None:
                    return None
                out.append(y if isinstance(y, (AllocBuffer, Bind)) else IfThenElse(condition, y, None, span=y.span))
    return out


def divides_at_run_time(e) -> bool:
    """True for a division of integers by a number of run time, which may be zero."""
    return isinstance(e, _DIVISIONS) and "int" in dtype_of(e) and const_int(e.b) is None


def can_be_anywhere(e) -> bool:
    """True if an expression has a value wherever its elements lie inside of their tensors: it does not divide or shift by a number of run time, and
    reads tensors that surely have elements."""
    if isinstance(e, _NEED_CARE) and const_int(e.b) is None:
        return False
    if isinstance(e, TensorLoad) and not is_scalar_var(e.source) and not all((const_int(n) or 0) > 0 for n in e.source.ty.shape):
        return False
    return all(map(can_be_anywhere, expr_children(e)))


def anywhere(e, condition):
    """`e` where a condition holds, and of the first elements of its tensors elsewhere."""
    e = map_children(e, lambda x: anywhere(x, condition))
    if not isinstance(e, TensorLoad) or is_scalar_var(e.source):
        return e
    return BufferLoad(e.source, [i if const_int(i) == 0 else tirx.Select(condition, i, imm(0, dtype_of(i))) for i in e.indices])


def joined(stmts: list[Stmt]) -> list[Stmt]:
    """The same statements, with neighbours under the same condition as one."""
    out: list[Stmt] = []
    for s in stmts:
        inside = under_one([out[-1], s]) if out else None
        if inside is not None:
            s = IfThenElse(s.condition, seq(joined(inside)), None, span=out.pop().span)
        out.append(s)
    return out


__all__ = ["anywhere", "apart", "can_be_anywhere", "divides_at_run_time", "has_product", "is_lasting", "joined", "under_one"]
