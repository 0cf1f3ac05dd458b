"""Statements under one condition, apart and together."""

from __future__ import annotations

from ..ir import AllocBuffer, Bind, IfThenElse, Stmt, const_int, exprs, seq, stmts_of, structural_equal, tirx, walk_expr
from .uses import loads_in, uses_of

_DIVISIONS = (tirx.FloorDiv, tirx.FloorMod, tirx.Div, tirx.Mod)


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


def apart(s: IfThenElse) -> list[Stmt] | None:
    """The statements of a branch, each under the condition, and names in front of them; None if a name may be worked out under the condition alone.
    The condition has to be a lasting one."""
    out: list[Stmt] = []
    for x in stmts_of(s.then_case):
        if isinstance(x, Bind) and any(map(_needs_care, exprs(x))):
            return None
        out.append(x if isinstance(x, (AllocBuffer, Bind)) else IfThenElse(s.condition, x, None, span=x.span))
    return out


def _needs_care(e) -> bool:
    """True if an expression reads memory, or divides by a number of run time."""
    found: list = []
    walk_expr(e, lambda x: found.append(x) if isinstance(x, _DIVISIONS) and const_int(x.b) is None else None)
    return bool(found or loads_in(e))


def joined(stmts: list[Stmt]) -> list[Stmt]:
    """The same statements, with neighbours under the same condition as one."""
    out: list[Stmt] = []
    for s in stmts:
        inside = under_one([out[-1], s]) if out else None
        if inside is not None:
            s = IfThenElse(s.condition, seq(inside), None, span=out.pop().span)
        out.append(s)
    return out


__all__ = ["apart", "is_lasting", "joined", "under_one"]
