"""`if`, `for` and `while`: Python when everything is known at compile time, regions of IR otherwise.

Each statement is a small state object. Its `enter` / `exit` receive the current values of the names the statement
assigns and return what those names hold from then on.
"""

from __future__ import annotations

from typing import Any

from ..errors import InvalidKernel, UnsupportedConstruct
from ..ir import Bind, Break, For, ForKind, IfThenElse, IntImm, While, children, const_int, free_vars, tirx
from . import operators
from .annotations import dtype_name
from .builder import Builder, Region, constant, index_var
from .containers import consume
from .locations import span_of, user_location
from .rewriter import DEFINITE, EXPOSED, LIVE_AFTER
from .values import UNBOUND, LoopSpec, Restart, ScalarVar, Unavailable, is_buffer, is_expr, is_region, reads_memory

_CARRIED = LIVE_AFTER | EXPOSED


class _Statement:
    """Shared part: what happens to the assigned names when control flow is decided at run time."""

    word = ""

    def __init__(self, names: tuple, flags: tuple):
        self.builder = Builder.current(f"a run-time `{self.word}`")
        self.names, self.flags = names, flags
        self.where = user_location()
        self.runtime = False
        self.entry: tuple = ()

    def promote(self, values: tuple) -> tuple:
        """Numbers that leave the statement, or go from one iteration to the next, become mutable scalars."""
        self.entry = tuple(self._promoted(n, f, v) for n, f, v in zip(self.names, self.flags, values))
        return self.entry

    def _promoted(self, name: str, flags: int, value):
        if isinstance(value, ScalarVar):
            value.known = None
            return value
        if not flags & _CARRIED:
            return value
        key = (self.where, name, self.builder.trail())
        if isinstance(value, Unavailable):
            # Assigned on both sides of an `if`: a variable that gets its type from the first store.
            return self.builder.implicit_var(name, key) if flags & DEFINITE and flags & LIVE_AFTER else value
        value = operators.plain(value)
        if not isinstance(value, (bool, int, float)) and not is_expr(value):
            return value
        expr = operators.as_scalar(value)
        var = self.builder.implicit_var(name, key)
        self.builder.materialise(var, dtype_name(expr.ty.dtype))
        self.builder.store(var.buffer, operators.cast(expr, var.dtype), [0])
        return var

    def merge(self, finals: tuple) -> tuple:
        """Values after the statement: `finals` holds one tuple of values per path that was traced."""
        return tuple(self._merged(name, before, [f[k] for f in finals]) for k, (name, before) in enumerate(zip(self.names, self.entry)))

    def _merged(self, name: str, before, after: list):
        if isinstance(before, ScalarVar):
            if before.buffer is None:  # never stored to: bound to buffers, or not at all
                return self._gone(name)
            before.known = None
            return before if all(a is before for a in after) else self._gone(name)
        return before if all(a is before for a in after) else self._gone(name)

    def _gone(self, name: str) -> Unavailable:
        return Unavailable(
            f"it gets its value inside the `{self.word}` at line {self.where.line if self.where else '?'}, "
            "which may not run, or may run with another value",
            self.where,
            f"give '{name}' a value of the same kind before the `{self.word}`",
        )


class If(_Statement):
    """State of one `if` statement."""

    word = "if"

    def __init__(self, test, names, flags):
        super().__init__(names, flags)
        test = operators.plain(test)
        if is_buffer(test) or is_region(test):
            raise UnsupportedConstruct(f"the condition '{test}' is a tile", hint="test one element, or reduce it first: T.reduce_any")
        if is_expr(test):
            test = operators.as_bool(test)
            known = constant(test)
            self.runtime, self.test = known is None, test if known is None else known
        else:
            self.test = bool(test)
        self.bodies: list = []

    def enter(self, values):
        return self.promote(values) if self.runtime else values

    def then(self) -> bool:
        if self.runtime:
            self.builder.evaluations.use(self.test)
            self.region = self.builder.push("branch", self.where)
        return True if self.runtime else self.test

    def otherwise(self, values) -> bool:
        if not self.runtime:
            return not self.test
        self.then_values = values
        self.bodies.append(self.builder.pop(self.region))
        self.region = self.builder.push("branch", self.where)
        return True

    def restore(self, values):
        if not self.runtime:
            return values
        for value in self.entry:
            if isinstance(value, ScalarVar):
                value.known = None
        return self.entry

    def exit(self, values):
        if not self.runtime:
            return values
        self.bodies.append(self.builder.pop(self.region))
        then, other = (*self.bodies, None)[:2]
        self.builder.emit(IfThenElse(self.test, then, other, span=span_of(self.where)))
        return self.merge((self.then_values, values) if other is not None else (values, self.entry))


class _Loop(_Statement):
    """Shared part of `for` and `while`: the stack that `break` and `continue` look at."""

    kind = "serial"
    unroll_key: Any = None
    runtime_key: Any = None  # the fact that makes a loop of Python a run-time one
    rounds = 0  # iterations of a loop that is unrolled
    vars: tuple = ()
    region: Region | None = None

    def open(self, kind: str, values: tuple) -> None:
        self.region = self.builder.push(kind, self.where)
        for name, flags, value in zip(self.names, self.flags, values):
            if flags & EXPOSED and not isinstance(value, (ScalarVar, Unavailable)):
                self.region.carried[name] = value

    def check_carried(self, finals: tuple) -> None:
        """Refuse what the next iteration would read from a variable that does not hold it."""
        for name, flags, before, after in zip(self.names, self.flags, self.entry, finals):
            if flags & EXPOSED and isinstance(before, ScalarVar) and before.buffer is not None and after is not before:
                if self.builder.evaluations.reads_since(before.buffer, self.region.opened):
                    raise InvalidKernel(
                        f"'{name}' is read in the next iteration of this loop, but not assigned as a number that is kept until then",
                        at=self.where,
                        hint="use another name for the inner loop, or assign a number to it at the end of the iteration",
                    )

    def leave(self) -> None:
        """Pop this loop, and inner ones that a Python exception or return left behind."""
        loops = self.builder.loops
        while loops and loops.pop() is not self:
            pass


class ForLoop(_Loop):
    """State of one `for` statement."""

    word = "for"

    def __init__(self, iterable, names, flags, targets):
        super().__init__(names, flags)
        self.targets = targets
        self.spec = self._spec(operators.plain(iterable))
        self.runtime = isinstance(self.spec, LoopSpec)
        self.kind = self.spec.kind if self.runtime else "python"

    def _spec(self, iterable):
        if isinstance(iterable, range) and self.builder.region.kind != "func":
            iterable = serial_range(iterable.start, iterable.stop, iterable.step, unrollable=True)
        if isinstance(iterable, LoopSpec):
            if iterable.unrollable is not None:
                self.unroll_key = ("unroll", self.where)
                if self.builder.facts.get(self.unroll_key):
                    return iterable.unrollable
            # A loop that never runs is not traced at all.
            return () if any(isinstance(e, int) and e <= 0 for e in iterable.extents) else iterable
        if is_expr(iterable) or is_buffer(iterable) or is_region(iterable):
            raise UnsupportedConstruct(f"'{iterable}' cannot be iterated over", hint="write `for i in T.serial(n)` or `for i in range(n)`")
        consume(iterable)
        return iterable

    def enter(self, values):
        if self.runtime:
            mask = set(self.targets)
            self.flags = tuple(0 if n in mask else f for n, f in zip(self.names, self.flags))
            values = self.promote(values)
            self.open("parallel" if self.kind == "parallel" else "loop", values)
        else:
            self.region = self.builder.region
        self.builder.loops.append(self)
        return values

    def __iter__(self):
        if not self.runtime:
            for value in self.spec:
                yield value
                self.rounds += 1
            return
        names = [*self.targets, *(f"{self.targets[-1] if self.targets else 'i'}" for _ in self.spec.extents)]
        self.vars = tuple(index_var(self.builder.unique("i" if n == "_" else n)) for n in names[: len(self.spec.extents)])
        yield self.spec.make_values(*self.vars) if self.spec.make_values else _one_or_all(self.vars)

    def exit(self, values):
        self.leave()
        if not self.runtime:
            return values
        self.check_carried(values)
        body, span = self.builder.pop(self.region), span_of(self.where)
        loops = list(zip(self.vars, map(operators.loop_extent, self.spec.extents)))
        if self.kind in ("parallel", "nested"):
            more, body = self._inner_loops(body)
            loops += more
        kind = ForKind.PARALLEL if self.kind == "parallel" else ForKind.SERIAL
        for depth, (var, extent) in reversed(list(enumerate(loops))):
            notes = dict(self.spec.annotations) if depth == 0 else {}
            if depth == 0 and self.kind == "parallel":
                notes["tl.parallel"] = len(loops)
            body = For(var, IntImm("int32", 0), extent, kind, body, annotations=notes, span=span)
        if self.kind == "nested":
            self.builder.nested.append((body, len(loops)))
        self.builder.emit(body)
        return self.merge((values, self.entry))

    def _inner_loops(self, body) -> tuple[list, object]:
        """(variables and extents of the parallel loops that are all of the body, their body): one nest with this loop, unless how often
        they run depends on it."""
        depth = next((n for stmt, n in self.builder.nested if stmt.same_as(body)), 0)
        loops, inner = [], body
        for _ in range(depth):
            loops.append((inner.loop_var, inner.extent))
            inner = inner.body
        if any(not free_vars(extent).isdisjoint(self.vars) or reads_memory(extent) for _, extent in loops):
            return [], body
        return loops, inner


def _one_or_all(values: tuple):
    return values[0] if len(values) == 1 else values


class Forever:
    """The condition of `while True`."""


FOREVER = Forever()
_MAX_UNROLLED = 100_000


class WhileLoop(_Loop):
    """State of one `while` statement. A condition that is Python runs as Python until it is not."""

    word = "while"

    def __init__(self, names, flags, binds: bool):
        super().__init__(names, flags)
        self.done, self.binds = False, binds
        self.region = self.builder.region
        self.forever_key, self.runtime_key = ("python", self.where), ("runtime", self.where)
        self.builder.loops.append(self)

    def mark(self, values=()) -> None:
        """Before the condition: remember how many statements there are, and what the names hold."""
        self.marked, self.before = len(self.builder.region.stmts), values

    def decide(self, condition, values):
        facts = self.builder.facts
        if condition is FOREVER:
            self.runtime = self.forever_key not in facts or self.runtime_key in facts
            self.unroll_key = self.forever_key
        else:
            condition = operators.as_bool(condition)
            known = constant(condition) if is_expr(condition) else bool(condition)
            self.runtime = known is None or self.runtime_key in facts
            self.done = known is False and not self.runtime
        if self.runtime:
            self._forget_condition()
            return self.promote(self.before if self.binds else values)
        self.rounds += 1
        if self.rounds > _MAX_UNROLLED:
            raise InvalidKernel(f"this loop was unrolled {_MAX_UNROLLED} times at compile time without ending", at=self.where)
        return values

    def _forget_condition(self) -> None:
        """What the condition did in front of the loop, it will do at its head."""
        stmts = self.builder.region.stmts
        if self.binds or not all(isinstance(s, Bind) for s in stmts[self.marked :]):
            del stmts[self.marked :]

    def begin(self) -> None:
        """The head of the loop: the condition follows once more, now on mutable scalars."""
        self.open("while", self.entry)
        self.head = self.builder.evaluations.tick()

    def condition(self, condition) -> None:
        """A condition that is one expression is the one of the loop; what computes more stands at the start of its body."""
        condition = True if condition is FOREVER else operators.as_bool(condition)
        test = condition if is_expr(condition) else tirx.const(bool(condition), "bool")
        if not self.region.stmts:
            self.builder.evaluations.use(test, since=self.head)
            self.test = test
            return
        self.test = tirx.const(True, "bool")
        self.builder.evaluations.use(test)
        leave = Break(span=span_of(self.where))
        self.builder.emit(IfThenElse(operators.logical_not(test), leave, None, span=span_of(self.where)))

    def finish(self) -> bool:
        """End of the body: True leaves the generated loop."""
        return self.runtime

    def exit(self, values):
        self.leave()
        if not self.runtime:
            return values
        self.check_carried(values)
        body = self.builder.pop(self.region)
        if constant(self.test) is True and not _has_break(body):
            # No break that depends on run-time values: this is a loop of Python, to be run at compile time.
            self.builder.facts[self.forever_key] = True
            raise Restart
        self.builder.emit(While(self.test, body, span=span_of(self.where)))
        return self.merge((values, self.entry))


def _has_break(body) -> bool:
    if isinstance(body, Break):
        return True
    return any(_has_break(c) for c in children(body) if not isinstance(body, (For, While)))


def serial_range(start, stop, step, unrollable: bool = False, annotations: dict | None = None) -> LoopSpec:
    """`range(start, stop, step)` as a loop that counts from 0 by 1."""
    start, stop = operators.as_integer(start, "the start of a loop"), operators.as_integer(stop, "the end of a loop")
    step = operators.as_integer(step, "the step of a loop")
    if const_int(step) is None:
        raise UnsupportedConstruct("a loop step known only when the kernel runs", hint="use `while`, or multiply the loop variable")
    step = const_int(step)
    if step == 0:
        raise UnsupportedConstruct("a loop with step 0")
    python = None
    if all(isinstance(v, int) for v in (start, stop)):
        python = range(start, stop, step)
        extent: Any = len(python)
    else:
        span = operators.distance(*((stop, start) if step > 0 else (start, stop)), step)
        extent = span if abs(step) == 1 else operators.binop("FloorDiv", operators.binop("Add", span, abs(step) - 1), abs(step))
        extent = operators.plain(extent)
    simple = isinstance(start, int) and start == 0 and step == 1

    def value(i):
        scaled = i if step == 1 else operators.binop("Mult", i, step)
        return scaled if isinstance(start, int) and start == 0 else operators.binop("Add", scaled, start)

    return LoopSpec("serial", (extent,), None if simple else value, annotations or {}, python if unrollable else None)


def if_(test, names=(), flags=()) -> If:
    """`if test:`."""
    return If(test, names, flags)


def for_(iterable, names, flags, targets) -> ForLoop:
    """`for targets in iterable:`."""
    return ForLoop(iterable, names, flags, targets)


def while_(names, flags, binds: bool = False) -> WhileLoop:
    """`while …:`; `binds`: there is a `:=` in the condition."""
    return WhileLoop(names, flags, binds)


__all__ = ["FOREVER", "UNBOUND", "for_", "if_", "serial_range", "while_"]
