"""Loops whose iterations repeat: a run that wants only times need not issue all of them.

Of a loop that qualifies every group of `period` iterations issues the same instructions, but for addresses in GM. This is proven here,
from the program; the machine then sees what a group issues, and of the rest no more than which bytes of GM they reach
(docs/machine.md, Time). Before -> after::

    for k in range(n):              for k in range(n):
        body                   ->       if tla_counts(): instructions of body that reach GM
                                        else: body
                                        tla_next(loop, k, n, period)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Iterator

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
    seq,
    tirx,
    walk_expr,
)
from ..isa import TABLE, lookup

LONGEST = 64
"""Iterations of the longest group looked for: rings of versions have two to eight slots, and two of them meet after the product; tiles that
follow each other in one loop have some ten iterations each, and take turns."""
WORTH = 5
"""Groups a loop of known extent has to have: the machine issues the first two itself, and the replay needs some to see a rhythm."""
SHORT = 32
"""Iterations below which a loop of known extent is not worth it: they are issued sooner than code that need not issue them is compiled."""


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
    return finder.period if extent is None or extent >= max(SHORT, WORTH * finder.period) else None


class _Unknown(Exception):
    """A value whose course is not seen."""


class _Finder:
    def __init__(self, variable: Var):
        self.courses: dict[Var, _Course | None] = {variable: _Course(1, 1)}
        self.period = 1

    # ---- statements

    def statement(self, s: Stmt | None) -> None:
        if isinstance(s, Bind):
            self.bind(s)
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

    def bind(self, s: Bind) -> None:
        """A name counts where something that counts is made of it."""
        try:
            self.courses[s.var] = self.course(s.value)
        except _Unknown:
            self.courses[s.var] = None

    def evaluate(self, e) -> None:
        if not _is_instruction(e):
            return self.constant(e)
        record = lookup(op_name(e))
        count = len(record.operands)
        for operand in list(e.args)[:count]:
            load, _ = operand_parts(operand)
            # Addresses on the chip decide bank conflicts; those in GM the machine is told.
            see = self.turns if _in_gm(load) else self.constant
            for index in load.indices:
                see(index)
        for kind, argument in zip((a.kind for a in record.args), list(e.args)[count:]):
            if kind == "int":  # the others are data, which take no time
                self.constant(argument)

    # ---- expressions

    def turns(self, e) -> None:
        """Groups as long as `e` takes to go on in steps, where that is seen: what L2 has of a group it then has of the next one."""
        try:
            period = math.lcm(self.period, self.course(e).period)
        except _Unknown:
            return
        if period <= LONGEST:
            self.period = period

    def constant(self, e) -> None:
        """`e` is the same in every group."""
        course = self.course(e)
        self.period = math.lcm(self.period, course.period)
        if course.step != 0 or self.period > LONGEST:
            raise _Unknown

    def course(self, e) -> _Course:
        if isinstance(e, Var):
            course = self.courses.get(e, _Course())
            if course is None:
                raise _Unknown
            return course
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


def reaching_gm(body: Stmt) -> Stmt | None:
    """The instructions of `body` that reach GM, and what their addresses are made of; None where there are none. In `body`'s own names."""
    return _ReachingGM().kept(body)


class _ReachingGM:
    def __init__(self):
        self.used: set[Var] = set()
        """Names what comes behind is made of."""

    def kept(self, s: Stmt | None) -> Stmt | None:
        if s is None:
            return None
        if isinstance(s, (SeqStmt, For, IfThenElse)):
            parts = [self.kept(child) for child in reversed(children(s))][::-1]
            if not any(part is not None for part in parts):
                return None
            return self.structure(s, parts)
        found = list(_calls(s.value)) if isinstance(s, (Bind, Evaluate)) else []
        if isinstance(s, Bind) and (s.var in self.used or found):
            self.use(s.value)
            return s
        for call in found:
            self.use(call)
        return seq([Evaluate(call, span=s.span) for call in found]) if found else None

    def structure(self, s: Stmt, parts: list) -> Stmt:
        if isinstance(s, SeqStmt):
            return seq([part for part in parts if part is not None])
        if isinstance(s, For):
            self.use(s.min)
            self.use(s.extent)
            return For(s.loop_var, s.min, s.extent, s.kind, parts[0], annotations=dict(s.annotations), span=s.span)
        self.use(s.condition)
        first, *other = parts
        if first is None:
            return IfThenElse(tirx.Not(s.condition), other[0], None, span=s.span)
        return IfThenElse(s.condition, first, other[0] if other else None, span=s.span)

    def use(self, e) -> None:
        walk_expr(e, lambda x: self.used.add(x) if isinstance(x, Var) else None)


def _calls(e) -> Iterator[Call]:
    """The instructions in `e` that reach GM, the outermost ones; what is in one of them is issued with it."""
    if _is_instruction(e) and any(_in_gm(operand_parts(o)[0]) for o in list(e.args)[: len(lookup(op_name(e)).operands)]):
        yield e
    else:
        for part in expr_children(e):
            yield from _calls(part)


def _is_instruction(e) -> bool:
    name = (op_name(e) or "") if isinstance(e, Call) else ""
    return name.startswith("ascend.") and name.removeprefix("ascend.") in TABLE


def _in_gm(load) -> bool:
    return scope_of(load.source) == "global"
