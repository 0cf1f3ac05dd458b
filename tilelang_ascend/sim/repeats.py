"""Loops whose iterations repeat: a run that wants only times need not issue all of them.

Of a loop that qualifies every group of `period` iterations issues the same instructions, but for addresses in GM, which move by the same
distances from group to group. This is proven here, from the program; the machine then sees what a group issues, and counts the rest
(docs/machine.md, Time). Before -> after::

    for k in range(n):              k_now = 0
        body                   ->   while k_now < n:
                                        k = k_now
                                        body
                                        k_now = tla_next(loop, k, n, period)     # k + 1, or a group's start further on
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..ir import (
    AllocBuffer,
    Bind,
    Call,
    Evaluate,
    For,
    IfThenElse,
    SeqStmt,
    Stmt,
    TensorLoad,
    Var,
    children,
    const_int,
    dtype_of,
    expr_children,
    op_name,
    operand_parts,
    scope_of,
    tirx,
)
from ..isa import lookup

LONGEST = 32
"""Iterations of the longest group looked for: rings of versions have two to eight slots, and two of them meet after the product."""
WORTH = 5
"""Groups a loop of known extent has to have: the machine issues the first two itself, and the replay needs some to see a rhythm."""


@dataclass(frozen=True)
class _Course:
    """How a value depends on the loop variable: `value(k + period) - value(k)` is the same for all k; `step` when it is known. Constant
    over a period where `step` is 0."""

    period: int = 1
    step: int | None = 0


def period_of(loop: For) -> int | None:
    """Iterations after which the loop issues the same instructions again, None where that is not proven."""
    extent = const_int(loop.extent)
    finder = _Finder(loop.loop_var)
    try:
        finder.statement(loop.body)
    except _Unknown:
        return None
    return finder.period if extent is None or extent >= WORTH * finder.period else None


class _Unknown(Exception):
    """A value whose course is not seen."""


class _Finder:
    def __init__(self, variable: Var):
        self.courses = {variable: _Course(1, 1)}
        self.period = 1

    # ---- statements

    def statement(self, s: Stmt | None) -> None:
        if isinstance(s, Bind):
            self.courses[s.var] = self.course(s.value)
        elif isinstance(s, For):
            self.constant(s.min)
            self.constant(s.extent)
            self.statement(s.body)
        elif isinstance(s, IfThenElse):
            self.constant(s.condition)
            for arm in children(s):
                self.statement(arm)
        elif isinstance(s, Evaluate):
            self.evaluate(s.value)
        elif isinstance(s, (SeqStmt, AllocBuffer)):
            for child in children(s):
                self.statement(child)
        else:
            # Variables that are written, loops without a count, exits.
            raise _Unknown

    def evaluate(self, e) -> None:
        if not isinstance(e, Call) or not (op_name(e) or "").startswith("ascend."):
            return self.constant(e)
        record = lookup(op_name(e))
        count = len(record.operands)
        for operand in list(e.args)[:count]:
            load, _ = operand_parts(operand)
            # Addresses on the chip decide bank conflicts; those in GM move nothing but data.
            see = self.seen if scope_of(load.source) == "global" else self.constant
            for index in load.indices:
                see(index)
        for kind, argument in zip((a.kind for a in record.args), list(e.args)[count:]):
            if kind == "int":  # the others are data, which take no time
                self.constant(argument)

    # ---- expressions

    def constant(self, e) -> None:
        """`e` is the same in every group."""
        if self.seen(e).step != 0:
            raise _Unknown

    def seen(self, e) -> _Course:
        course = self.course(e)
        self.period = math.lcm(self.period, course.period)
        if self.period > LONGEST:
            raise _Unknown
        return course

    def course(self, e) -> _Course:
        if isinstance(e, Var):
            return self.courses.get(e, _Course())
        known = const_int(e)
        if known is not None:
            return _Course()
        if isinstance(e, TensorLoad) and scope_of(e.source) != "local.var":
            raise _Unknown
        parts = [self.course(x) for x in expr_children(e)]
        period = math.lcm(*(p.period for p in parts)) if parts else 1
        if period > LONGEST:
            raise _Unknown
        steps = [None if p.step is None else p.step * (period // p.period) for p in parts]
        if all(step == 0 for step in steps):
            return _Course(period)
        if isinstance(e, (tirx.Add, tirx.Sub)):
            sign = 1 if isinstance(e, tirx.Add) else -1
            return _Course(period, None if None in steps else steps[0] + sign * steps[1])
        if isinstance(e, tirx.Mul):
            return self._product(e, period, steps)
        if isinstance(e, (tirx.FloorDiv, tirx.FloorMod)):
            return self._quotient(e, period, steps)
        if isinstance(e, tirx.Cast) and all("int" in dtype_of(x) for x in (e, e.value)):
            return _Course(period, steps[0])
        raise _Unknown

    def _product(self, e, period: int, steps: list) -> _Course:
        for factor, step in (e.a, steps[1]), (e.b, steps[0]):
            known = const_int(factor)
            if known is not None:
                return _Course(period, None if step is None else step * known)
            if self.course(factor) == _Course():
                return _Course(period, None)
        raise _Unknown

    def _quotient(self, e, period: int, steps: list) -> _Course:
        divisor = const_int(e.b)
        if divisor is None or divisor <= 0 or steps[0] is None:
            raise _Unknown
        times = divisor // math.gcd(steps[0], divisor)
        if period * times > LONGEST:
            raise _Unknown
        return _Course(period * times, steps[0] * times // divisor if isinstance(e, tirx.FloorDiv) else 0)
