"""normalize_clears: say "start from zero" in one way only, as a fill in front of the accumulation.

Before:  for k in range(n): gemm(A, B, C, clear_accum=(k == 0))        gemm(A, B, C, clear_accum=True)
After:   fill(C, 0); for k in range(n): gemm(A, B, C, False)           fill(C, 0); gemm(A, B, C, False)

A loop that may run zero times then leaves zeros behind, where the user's program leaves C undefined: a refinement.

Requires: Tile IR. Ensures: every constant `clear_accum` is False; other run-time conditions stay.
"""

from __future__ import annotations

from ..analysis.tile_uses import uses_of
from ..ir import (
    Evaluate,
    For,
    PrimFunc,
    Stmt,
    StmtMutator,
    Var,
    attrs_of,
    call,
    const_int,
    dtype_of,
    imm,
    op_name,
    seq,
    stmts_of,
    tile_op,
    tirx,
)


def gemm_args(stmt: Stmt):
    """Arguments of a `tl.gemm` statement, else None."""
    return list(stmt.value.args) if isinstance(stmt, Evaluate) and op_name(stmt) == "tl.gemm" else None


def with_clear(stmt: Stmt, cond) -> Evaluate:
    """The same gemm with another `clear_accum`."""
    args = gemm_args(stmt)
    return Evaluate(call("tl.gemm", [*args[:3], cond], attrs_of(stmt), span=stmt.span), span=stmt.span)


def zero_fill(region, span) -> Evaluate:
    """`fill(region, 0)`."""
    return tile_op("fill", region, imm(0, dtype_of(region.source)), span=span)


def is_first_iteration(cond, var: Var) -> bool:
    """True if `cond` says `var == 0`."""
    if not isinstance(cond, tirx.EQ):
        return False
    return (cond.a.same_as(var) and const_int(cond.b) == 0) or (cond.b.same_as(var) and const_int(cond.a) == 0)


class _Normalize(StmtMutator):
    def visit_Evaluate(self, s: Evaluate):
        args = gemm_args(s)
        if args is None or const_int(args[3]) is None:
            return s
        plain = with_clear(s, imm(False, "bool"))
        return [zero_fill(args[2], s.span), plain] if const_int(args[3]) else plain

    def visit_For(self, loop: For):
        body = stmts_of(self.block(loop.body))
        hoisted = []
        for i, s in enumerate(body):
            args = gemm_args(s)
            if args is None or not is_first_iteration(args[3], loop.loop_var):
                continue
            c = args[2].source
            before_in_iteration = any(c in uses_of(x).all for x in body[:i])
            if before_in_iteration:
                continue
            hoisted.append(zero_fill(args[2], s.span))
            body[i] = with_clear(s, imm(False, "bool"))
        out = For(loop.loop_var, loop.min, loop.extent, loop.kind, seq(body), annotations=dict(loop.annotations), span=loop.span)
        return [*hoisted, out]


def normalize_clears(func: PrimFunc) -> PrimFunc:
    """Apply to a Tile IR function."""
    return func.with_body(_Normalize()(func.body))


__all__ = ["gemm_args", "normalize_clears", "with_clear"]
