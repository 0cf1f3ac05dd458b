"""Rules both levels of IR obey: variables are defined before they are used, loops start at 0.

(TVM itself refuses an index list of the wrong rank.)
"""

from __future__ import annotations

from dataclasses import dataclass

from .base import (
    AllocBuffer,
    Bind,
    BufferStore,
    For,
    IfThenElse,
    IntImm,
    SeqStmt,
    Span,
    TensorLoad,
    TensorRegion,
    Var,
    While,
    elements,
    is_buffer_var,
)
from .build import const_int, scope_of
from .visit import exprs, walk_expr


@dataclass(frozen=True)
class Problem:
    """A broken rule. `rule` is a short name that tests match on, `message` says what is wrong with numbers."""

    rule: str
    message: str
    span: Span | None = None

    def __str__(self) -> str:
        where = f"{self.span.source_name.name}:{self.span.line}: " if self.span is not None else ""
        return f"{where}[{self.rule}] {self.message}"


class VerificationError(AssertionError):
    """IR that breaks our own rules: a mistake of the compiler, not of the user."""

    def __init__(self, what: str, problems: list[Problem]):
        self.problems = problems
        super().__init__(f"{what}: {len(problems)} problem(s)\n" + "\n".join(str(p) for p in problems))


class WellFormed:
    """Walk a function with the set of defined variables. Subclasses override `statement`."""

    def __init__(self, func):
        self.func = func
        self.problems: list[Problem] = []
        self.defined: set = set()
        self.everything: set = set()

    def report(self, rule: str, message: str, span=None) -> None:
        """Record a problem."""
        self.problems.append(Problem(rule, message, span))

    def run(self) -> list[Problem]:
        """All problems of the function."""
        for param in self.func.params:
            self.define(param, None)
            if is_buffer_var(param):
                for extent in param.ty.shape:
                    walk_expr(extent, self._shape_var)
        self.block(self.func.body)
        return self.problems

    def _shape_var(self, e) -> None:
        if isinstance(e, Var):
            self.defined.add(e)
            self.everything.add(e)

    def define(self, var, span) -> None:
        """Make a variable visible; every definition must have a `Var` of its own."""
        if var in self.everything:
            self.report("redefinition", f"{var.name} is defined twice", span)
        self.everything.add(var)
        self.defined.add(var)

    def block(self, stmt) -> None:
        """Statements in order; what they define ends with the block."""
        outer = set(self.defined)
        for s in stmt.seq if isinstance(stmt, SeqStmt) else [stmt]:
            self.visit(s)
        self.defined = outer

    def visit(self, s) -> None:
        """One statement."""
        for e in exprs(s):
            self.expression(e, s)
        self.statement(s)
        if isinstance(s, For):
            self._loop(s)
        elif isinstance(s, While):
            self.block(s.body)
        elif isinstance(s, IfThenElse):
            self.block(s.then_case)
            if s.else_case is not None:
                self.block(s.else_case)
        elif isinstance(s, Bind):
            self.define(s.var, s.span)
        elif isinstance(s, AllocBuffer):
            self.define(s.buffer, s.span)

    def _loop(self, s: For) -> None:
        if const_int(s.min) != 0:
            self.report("loop", f"loop {s.loop_var.name} starts at {s.min}, not at 0", s.span)
        outer = set(self.defined)
        self.define(s.loop_var, s.span)
        self.block(s.body)
        self.defined = outer

    def statement(self, s) -> None:
        """Hook: rules of one statement (its children come later)."""

    def expression(self, e, s) -> None:
        """All variables and buffers of an expression."""

        def see(x):
            if isinstance(x, (TensorLoad, TensorRegion)):
                self._used(x.source, s)
            elif isinstance(x, Var) and not is_buffer_var(x):
                self._used(x, s)

        walk_expr(e, see)

    def _used(self, var, s) -> None:
        if var not in self.defined:
            self.report("undefined", f"{var.name} is used where it is not defined", s.span)

    def store(self, s: BufferStore) -> None:
        """The destination of an element store."""
        self._used(s.buffer, s)


def is_static(buffer) -> bool:
    """True when all dimensions of a buffer are constants."""
    return all(isinstance(extent, IntImm) for extent in elements(buffer.ty.shape))


def elements_of(buffer) -> int:
    """Number of elements of a static buffer."""
    product = 1
    for extent in elements(buffer.ty.shape):
        product *= int(extent.value)
    return product


__all__ = ["Problem", "VerificationError", "WellFormed", "elements_of", "is_static", "scope_of"]
