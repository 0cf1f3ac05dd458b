"""fold_conditions: drop conditions that the ranges of loops decide.

Before:  for i, j in Parallel(64, 64): s[i, j] = if_then_else(k * 64 + j >= 4096, -inf, 0)       # k < 64
After:   for i, j in Parallel(64, 64): s[i, j] = 0

Integers are what they are: `c < c` is false, `c == c` true. Floats may be NaN.

A loop of one iteration is its body. What stands right behind a jump is never reached, and goes.

GPU kernels guard every access; with sizes that tiles divide, nothing is left to guard. A branch that is always taken and may leave its loop
keeps its condition: what stands behind a jump is assumed to be reached.

Sums of data may wrap: `x + 5 < x` is how a program finds out.

Requires: Tile IR after wrap_products (integers of loops do not wrap). Ensures: no condition without loads and sums of data that the ranges of the
loops around it decide, but for jumps; nothing behind a jump in its block.
"""

from __future__ import annotations

from ...analysis.index.data_names import DataNames
from ...ir import (
    Bind,
    Break,
    Continue,
    For,
    IfThenElse,
    PrimFunc,
    Range,
    SeqStmt,
    StmtMutator,
    const_int,
    dtype_of,
    expr_children,
    imm,
    is_choice,
    is_noop,
    map_children,
    stmts_of,
    structural_equal,
    sym,
    tirx,
    walk_expr,
)
from ...ir.grids import is_grid_axis
from ...tile.jumps import may_leave
from ...tile.uses import is_parallel, loads_in


class _Fold(StmtMutator):
    """known: the ranges of loops, and names of values, around the place the walk has reached."""

    def __init__(self, data: DataNames):
        self.known, self.data = sym.Analyzer(), data

    def visit_For(self, s: For):
        if const_int(s.extent) == 1 and not is_parallel(s) and not is_grid_axis(s) and not may_leave(s.body):
            if not loads_in(s.min):  # What is read may be another number when it is read again.
                self.known.bind(s.loop_var, s.min, True)
            return [Bind(s.loop_var, s.min, span=s.span), *stmts_of(self.block(s.body))]
        if not loads_in(s.min) and not loads_in(s.extent):
            self.known.bind(s.loop_var, Range.from_min_extent(s.min, s.extent), True)
        out = self.generic(s)
        return None if is_noop(out.body) and not is_grid_axis(s) else out

    def visit_SeqStmt(self, s: SeqStmt):
        jump = next((n for n, x in enumerate(s.seq) if isinstance(x, (Break, Continue))), len(s.seq))
        return [self.visit(x) for x in s.seq[: jump + 1]]

    def visit_Bind(self, s: Bind):
        out = self.generic(s)
        if dtype_of(out.var).startswith("int") and not loads_in(out.value):
            self.known.bind(out.var, out.value, True)
        return out

    def visit_IfThenElse(self, s: IfThenElse):
        condition = self.expr(s.condition)
        told = self.decided(condition)
        taken = const_int(told)
        branch = s.then_case if taken else s.else_case
        if taken is not None and (branch is None or not may_leave(branch)):
            return None if branch is None else self.block(branch)
        other = None if s.else_case is None else self.block(s.else_case)
        return IfThenElse(told if taken is None else condition, self.block(s.then_case), other, span=s.span)

    def expr(self, e):
        """`e` without choices that are decided."""
        found: list = []
        walk_expr(e, lambda x: found.append(x) if is_choice(x) or _with_itself(x) is not None else None)
        return self.chosen(e) if found else e

    def chosen(self, e):
        if not is_choice(e):
            told = _with_itself(e)
            return map_children(e, self.chosen) if told is None else told
        condition, yes, no = expr_children(e)
        told = self.decided(self.chosen(condition))
        taken = const_int(told)
        if taken is not None:
            return self.chosen(yes if taken else no)
        parts = iter([told, self.chosen(yes), self.chosen(no)])
        return map_children(e, lambda _: next(parts))

    def decided(self, e):
        """A condition without the terms that are known: a constant, if all are."""
        if isinstance(e, (tirx.And, tirx.Or)):
            neutral = int(isinstance(e, tirx.And))
            terms = [self.decided(x) for x in (e.a, e.b)]
            if any(const_int(x) == 1 - neutral for x in terms):
                return imm(not neutral, "bool")
            rest = [x for x in terms if const_int(x) is None]
            if len(rest) == 2:
                return e if terms[0].same_as(e.a) and terms[1].same_as(e.b) else type(e)(*rest)
            return rest[0] if rest else imm(bool(neutral), "bool")
        if isinstance(e, tirx.Not):
            inner = self.decided(e.a)
            known = const_int(inner)
            return (e if inner.same_as(e.a) else tirx.Not(inner)) if known is None else imm(not known, "bool")
        told = _with_itself(e)
        if told is not None:
            return told
        if not isinstance(e, sym.COMPARISONS) or loads_in(e) or self.data.may_wrap(e):
            return e
        if self.known.can_prove(e):
            return imm(True, "bool")
        return imm(False, "bool") if self.known.can_prove(tirx.Not(e)) else e


def _with_itself(e):
    """The constant that a comparison of an integer with itself is, None for everything else."""
    if not isinstance(e, sym.COMPARISONS) or "float" in dtype_of(e.a) or not structural_equal(e.a, e.b):
        return None
    return imm(isinstance(e, (tirx.EQ, tirx.LE, tirx.GE)), "bool")


def fold_conditions(func: PrimFunc) -> PrimFunc:
    """Apply to a Tile IR function."""
    return func.with_body(_Fold(DataNames(func.body, variables=True))(func.body))


__all__ = ["fold_conditions"]
