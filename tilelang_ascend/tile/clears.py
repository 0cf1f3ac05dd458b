"""Products and what they start from: the clear condition of a gemm, a fill with zero."""

from __future__ import annotations

from ..ir import Evaluate, For, Range, Stmt, const_int, dtype_of, free_vars, imm, substitute_expr, sym, tirx
from . import FILL, GEMM, is_op, tile_op, with_args


def gemm_args(stmt: Stmt):
    """Arguments of a `tl.gemm` statement, else None."""
    return list(stmt.value.args) if is_op(stmt, GEMM) else None


def multiplies_own(stmt: Stmt) -> bool:
    """True for a gemm that multiplies what is in its accumulator: no zero may take the place of that in front of it."""
    args = gemm_args(stmt)
    return args is not None and any(r.source.same_as(args[2].source) for r in args[:2])


def with_clear(stmt: Stmt, cond) -> Evaluate:
    """The same gemm with another `clear_accum`."""
    args = gemm_args(stmt)
    return with_args(stmt, [*args[:3], cond])


def zero_fill(region, span) -> Evaluate:
    """`fill(region, 0)`."""
    return tile_op("fill", region, imm(0, dtype_of(region.source)), span=span)


def is_zero_fill(stmt: Stmt) -> bool:
    """True for a fill with the constant 0."""
    return is_op(stmt, FILL) and getattr(stmt.value.args[1], "value", None) == 0


def is_first_iteration(cond, loop: For) -> bool:
    """True if `cond` holds in the first iteration of `loop` and in no other."""
    var = loop.loop_var
    if free_vars(cond) != {var}:
        return False
    analyzer, one = sym.Analyzer(), imm(1, dtype_of(var))
    if const_int(analyzer.simplify(substitute_expr(cond, {var: imm(0, dtype_of(var))}))) != 1:
        return False
    last = const_int(loop.extent)
    if last == 1:
        return True
    analyzer.bind(var, Range.from_min_extent(one, imm(2**30 if last is None else last - 1, dtype_of(var))))
    return bool(analyzer.can_prove(tirx.Not(cond)))
