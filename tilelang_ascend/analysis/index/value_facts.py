"""What is known about integer scalars at one place of a program: ranges of loop variables, guards passed on the way, lets,
and mutable scalars that never become negative.

A mutable scalar has another value after every store. Facts therefore speak of its *versions*: a variable that stands for the
value between two stores. Nothing that was true of an old version is believed of a new one, except that it is not negative,
where an induction over all stores proves it.

An analyzer takes integers for numbers without end. Sums of data may wrap: what a condition says of one, or a range, is not believed where it may.
"""

from __future__ import annotations

import math
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Callable

from ...ir import (
    Bind,
    Break,
    BufferStore,
    Call,
    Continue,
    For,
    IfThenElse,
    PrimFunc,
    Range,
    Stmt,
    TensorLoad,
    Var,
    While,
    const_int,
    dtype_of,
    expr_children,
    free_vars,
    imm,
    is_buffer_var,
    itemsize,
    map_children,
    nodes_in,
    op_name,
    statements,
    stmts_of,
    substitute_expr,
    sym,
    tirx,
)
from ...tile import ASSUME, is_op
from ...tile.uses import is_parallel, is_scalar_var
from .data_names import DataNames
from .nest_indices import conjuncts, sides_of
from .sums import SUMS, as_sum, constant

MAX_NODES = 400
"""Values of lets larger than this stay names: proofs about them take longer than they are worth."""

SOLVER_STEPS = 200_000
"""Work after which the solver gives up, in its own deterministic unit; about 50 ms."""

_LARGEST = 2**31 - 1
_MEMORY = 1 << 48
"""More elements than any memory has."""
_NEVER_NEGATIVE_CALLS = ("ascend.get_block_idx", "ascend.get_sub_block_idx", "ascend.get_block_num")


def believable(cond, wraps: Callable = lambda e: False):
    """The part of a condition an analyzer can be told, None if there is none: it cannot subtract from unsigned numbers. `wraps`: whether a sum in an
    expression may wrap."""
    if dtype_of(cond) != "bool":
        return None
    if isinstance(cond, tirx.And):
        parts = [x for x in (believable(cond.a, wraps), believable(cond.b, wraps)) if x is not None]
        return tirx.And(*parts) if len(parts) == 2 else next(iter(parts), None)
    return None if _unsigned(cond) or wraps(cond) else cond


def _unsigned(e) -> bool:
    return dtype_of(e).startswith("uint") or any(_unsigned(x) for x in expr_children(e))


def leaves(stmt: Stmt) -> bool:
    """True if control never gets past `stmt`: it ends with `break` or `continue`."""
    last = stmts_of(stmt)[-1:] or [None]
    if isinstance(last[0], IfThenElse):
        return last[0].else_case is not None and leaves(last[0].then_case) and leaves(last[0].else_case)
    return isinstance(last[0], (Break, Continue))


class ValueFacts:
    """Facts at the place a walk over a program has reached; the walk tells about every loop, branch, let and store.

    `analyzer` knows ranges and guards, with mutable scalars as versions (`now`). `proves` and `nonnegative` answer questions
    about expressions at the present place. `data`: which values are made of data.
    """

    def __init__(self, data: DataNames, never_negative: frozenset = frozenset()):
        self.analyzer = sym.Analyzer(data)
        self.data, self.never_negative = data, never_negative
        self._values: dict = {}
        self._told: dict = {}
        """(name, number) -> is it at least that? While one question is answered."""
        self._expanded: dict = {}
        self._versions: dict = {}
        self._guards: list = []
        self._bounds: list = []
        """Sums that are not negative here, as guards and ends of loops say."""

    # -- expressions --------------------------------------------------------------------------------------------
    def now(self, e):
        """`e` with every read of memory replaced: mutable scalars by their present version, others by an unknown value."""

        def go(x):
            if isinstance(x, TensorLoad):
                if is_scalar_var(x.source):
                    return self._version(x.source)
                element = Var(x.source.name, dtype_of(x))
                self.analyzer.name_data(element)
                return element
            return map_children(x, go)

        return e if isinstance(e, int) else go(e)

    def _version(self, buffer) -> Var:
        version = self._versions.get(buffer)
        if version is None:
            version = self._versions[buffer] = Var(buffer.name, dtype_of(buffer))
            if buffer in self.data.names:
                self.analyzer.name_data(version)
            if buffer in self.never_negative:
                # Half of the numbers of its dtype: more than an extent of that dtype counts.
                self.analyzer.between(version, 0, (1 << (8 * itemsize(dtype_of(buffer)) - 1)) - 1)
        return version

    def _expand(self, e):
        """`e` (from `now`) with lets replaced by their values."""
        return substitute_expr(e, self._expanded)

    def wraps(self, e) -> bool:
        """True if a sum or product of data in `e` may leave its dtype, as far as ranges tell."""
        return not all(map(self._holds, self.data.growing(e)))

    def _holds(self, e) -> bool:
        return self.analyzer.holds(self.now(e))

    # -- the walk -----------------------------------------------------------------------------------------------
    def bind(self, var: Var, value) -> None:
        """`var` is a name for `value`. Its range is the caller's business."""
        value = self.now(value)
        self._values[var] = value
        expanded = self._expand(value)
        if nodes_in(expanded) <= MAX_NODES:
            self._expanded[var] = expanded

    def bind_range(self, var: Var, extent) -> None:
        """0 <= var < extent."""
        self.analyzer.bind(var, Range.from_min_extent(imm(0), extent))

    def bind_like(self, var: Var, value) -> None:
        """The integer `var` lies between the same numbers as `value`, which does not wrap."""
        if not dtype_of(var).startswith("int"):
            return
        if const_int(value) is not None:
            self.analyzer.bind(var, value)
            return
        bound, dtype = self.analyzer.const_int_bound(value), dtype_of(var)
        largest = (1 << (8 * itemsize(dtype) - 1)) - 1
        low, high = int(bound.min_value), min(int(bound.max_value), largest)
        if low >= 0:
            high = min(high, largest - 1)
        if 0 < high - low + 1 <= largest:
            self.analyzer.bind(var, Range.from_min_extent(imm(low, dtype), imm(high - low + 1, dtype)))
        elif low <= high:
            # Half of the numbers of a dtype or more: how many they are is no number of that dtype.
            self.analyzer.between(var, low, high)

    def wrote(self, buffer) -> None:
        """A mutable scalar has got another value."""
        self._versions.pop(buffer, None)

    def wrote_in(self, stmt: Stmt | None) -> None:
        """All mutable scalars stored to below `stmt` may have got another value."""
        for s in statements(stmt) if stmt is not None else ():
            if isinstance(s, BufferStore) and is_scalar_var(s.buffer):
                self.wrote(s.buffer)

    @contextmanager
    def assume(self, cond):
        """`cond` holds inside."""
        cond = believable(cond, self.wraps)
        if cond is None:
            yield
            return
        cond = self.now(cond)
        self._guards.append(self._expand(cond))
        with self.analyzer.constraint_scope(cond), self._bounded(cond):
            yield
        self._guards.pop()

    @contextmanager
    def _bounded(self, cond):
        """The comparisons in `cond`, none of whose sums wraps, hold inside."""
        known = len(self._bounds)
        for sides in filter(None, map(sides_of, conjuncts(cond))):
            small, large, least = sides
            self._bounds.append(as_sum(large, exact=True).plus(as_sum(small, exact=True), -1).plus(constant(least), -1))
        yield
        del self._bounds[known:]

    @contextmanager
    def loop(self, var: Var, extent, body: Stmt):
        """The body of a loop over ``0 <= var < extent``: mutable scalars it stores to have any version inside and after."""
        extent = self.now(extent)
        self.analyzer.bind(var, Range.from_min_extent(imm(0, dtype_of(var)), extent))
        self.wrote_in(body)
        ends = believable(tirx.LT(var, extent), self.wraps) if const_int(extent) is None else None
        with nullcontext() if ends is None else self._bounded(ends):
            yield
        self.wrote_in(body)

    @contextmanager
    def repeat(self, cond, body: Stmt):
        """The body of a `while`."""
        self.wrote_in(body)
        with self.assume(cond):
            yield
        self.wrote_in(body)

    # -- questions ----------------------------------------------------------------------------------------------
    def proves(self, cond) -> bool:
        """True if `cond` surely holds here, as far as ranges and guards tell."""
        return cond if isinstance(cond, bool) else bool(self.analyzer.can_prove(self.now(cond)))

    def multiplies(self, buffer, value) -> bool:
        """True if `value`, stored to the mutable scalar `buffer`, may be its present value several times over."""
        return _factor(self._expand(self.now(value)), self._version(buffer)) > 1

    def simplify(self, e):
        """`e` as far as ranges and guards simplify it; Python ints stay."""
        return e if isinstance(e, int) else self.analyzer.simplify(e)

    def most(self, e) -> int:
        """A number that `e` surely does not exceed here."""
        return e if isinstance(e, int) else int(self.analyzer.const_int_bound(self._expand(self.now(e))).max_value)

    def nonnegative(self, e) -> bool:
        """True if `e` is surely not negative here. Lets are followed, and a solver is asked where structure does not decide."""
        return e >= 0 if isinstance(e, int) else self._ask(self.now(e), 0)

    def positive(self, e) -> bool:
        """True if `e` is surely at least 1 here, found in the same way."""
        return e >= 1 if isinstance(e, int) else self._ask(self.now(e), 1)

    def _ask(self, e, low: int) -> bool:
        self._told.clear()
        return self._at_least(e, low)

    def _at_least(self, e, low: int) -> bool:
        """`e >= low` for low 0 or 1."""
        value = const_int(e)
        if value is not None:
            return value >= low
        if not dtype_of(e).startswith(("int", "uint")):
            return False
        if self.analyzer.can_prove(e >= low) or self._by_bound(e, low) or self._by_structure(e, low):
            return True
        # The signs of the operands decide: a solver would spend its steps on every bit of an unknown number to find no more.
        return not isinstance(e, _OF_BITS) and self._solve(self._expand(e) >= low)

    def _by_bound(self, e, low: int) -> bool:
        """True if `e` is a known bound, some times over, and something that is at least `low`."""
        if not self._bounds or not isinstance(e, SUMS) or self.wraps(e):
            return False
        asked, size = as_sum(e, exact=True), itemsize(dtype_of(e))
        for bound in self._bounds:
            if any(itemsize(dtype_of(x)) > size for x, _ in bound.terms):
                continue  # What is left of an int64 is no number of the dtype of `e`.
            atom, n = bound.terms[0] if bound.terms else (None, 0)
            times, left = divmod(asked.coefficient(atom), n) if n else (0, 1)
            if left == 0 and times > 0:
                rest = asked.plus(bound, -times)
                if rest.const >= low if not rest.terms else self.analyzer.can_prove(rest.expr(dtype_of(e)) >= low):
                    return True
        return False

    def _solve(self, cond) -> bool:
        """Ask the solver. It knows numbers as ranges of variables, and the guards: sizes that are products of unknowns as the
        ranges of loops make it give up."""
        solver = sym.Analyzer(self.data)
        solver.set_z3_rlimit(SOLVER_STEPS)
        variables = set().union(*(free_vars(x) for x in (cond, *self._guards)))
        known = [x for v in sorted(variables, key=lambda v: v.name) for x in self._limits(v)]
        with ExitStack() as stack:
            for x in [*known, *self._guards]:
                stack.enter_context(solver.constraint_scope(x))
            return bool(solver.can_prove(cond, sym.ProofStrength.SYMBOLIC_BOUND))

    def _limits(self, v: Var) -> list:
        """The numbers between which a variable lies, as conditions."""
        if not dtype_of(v).startswith("int"):
            return []
        bound = self.analyzer.const_int_bound(v)
        low, high = int(bound.min_value), int(bound.max_value)
        return ([v >= low] if low > -_LARGEST else []) + ([v <= high] if high < _LARGEST else [])

    def _kept(self, e) -> bool:
        """True if an integer that is not negative surely is the same number as `e`, which it is converted to."""
        source, target = dtype_of(e.value), dtype_of(e)
        if not source.startswith("int") or not target.startswith(("int", "uint")):
            return False
        bits = 8 * itemsize(target) - target.startswith("int")
        return 8 * itemsize(source) <= bits + 1 or int(self.analyzer.const_int_bound(e.value).max_value) < 1 << bits

    def _by_structure(self, e, low: int) -> bool:
        if isinstance(e, Var):
            # Names of sums of names, each of which stands for two, would be asked about as often as there are ways to them.
            if (e, low) not in self._told:
                self._told[e, low] = e in self._values and self._at_least(self._values[e], low)
            return self._told[e, low]
        if isinstance(e, Call):
            if op_name(e) == "tirx.if_then_else":
                return self._at_least(e.args[1], low) and self._at_least(e.args[2], low)
            return op_name(e) in _NEVER_NEGATIVE_CALLS and low == 0
        if isinstance(e, tirx.Cast):
            return self._kept(e) and self._at_least(e.value, low)
        if isinstance(e, (tirx.Add, tirx.Mul)) and self.data.is_data(e) and not self._holds(e):
            return False  # It may have wrapped.
        rule = _FROM_PARTS.get(type(e))
        return rule is not None and rule(e, low, self._at_least)


_OF_BITS = (tirx.BitwiseOr, tirx.BitwiseXor, tirx.BitwiseAnd, tirx.RShift)
_FROM_PARTS = {
    tirx.Min: lambda e, low, at: at(e.a, low) and at(e.b, low),
    tirx.Max: lambda e, low, at: at(e.a, low) or at(e.b, low),
    tirx.Select: lambda e, low, at: at(e.true_value, low) and at(e.false_value, low),
    tirx.Add: lambda e, low, at: (at(e.a, low) and at(e.b, 0)) or (low > 0 and at(e.a, 0) and at(e.b, low)),
    tirx.Mul: lambda e, low, at: at(e.a, low) and at(e.b, low),
    tirx.FloorMod: lambda e, low, at: low == 0 and at(e.b, 1),
    tirx.FloorDiv: lambda e, low, at: low == 0 and at(e.a, 0) and at(e.b, 1),
    # The sign of the result is that operation on the signs of the operands.
    tirx.BitwiseOr: lambda e, low, at: at(e.a, 0) and at(e.b, 0) and (low == 0 or at(e.a, low) or at(e.b, low)),
    tirx.BitwiseXor: lambda e, low, at: low == 0 and at(e.a, 0) and at(e.b, 0),
    tirx.BitwiseAnd: lambda e, low, at: low == 0 and (at(e.a, 0) or at(e.b, 0)),
    tirx.RShift: lambda e, low, at: low == 0 and at(e.a, 0),
}
"""Whether `e >= low`, low 0 or 1, follows from its parts: ``at(part, n)`` tells whether a part is at least n."""


def _factor(e, v: Var) -> float:
    """How many times the variable `v` goes into an integer expression, at most."""
    if isinstance(e, Var):
        return int(e.same_as(v))
    parts = [_factor(x, v) for x in expr_children(e)]
    if isinstance(e, (tirx.Add, tirx.Sub)):
        return parts[0] + (parts[1] if isinstance(e, tirx.Add) else -parts[1])
    if isinstance(e, tirx.Min):
        return min(parts)
    if isinstance(e, tirx.Mul) and any(parts):
        by = const_int(e.a) if const_int(e.b) is None else const_int(e.b)
        return math.inf if by is None else sum(parts) * by
    if isinstance(e, tirx.LShift) and parts[0]:
        return math.inf
    return 0 if isinstance(e, tirx.FloorMod) and not parts[1] else max(parts, default=0)


def walk_with_facts(body: Stmt, facts: ValueFacts, see) -> None:
    """Call ``see(stmt)`` for every statement below `body`, in order, while `facts` describes the place in front of it."""
    with ExitStack() as stack:
        for s in stmts_of(body):
            see(s)
            if isinstance(s, For):
                with facts.loop(s.loop_var, s.extent, s.body):
                    walk_with_facts(s.body, facts, see)
            elif isinstance(s, While):
                with facts.repeat(s.condition, s.body):
                    walk_with_facts(s.body, facts, see)
            elif isinstance(s, IfThenElse):
                _walk_branch(s, facts, see)
            elif isinstance(s, Bind):
                facts.bind(s.var, s.value)
            elif isinstance(s, BufferStore) and is_scalar_var(s.buffer):
                facts.wrote(s.buffer)
            assume_rest(s, facts, stack)


def at_loops(func: PrimFunc, ask) -> dict:
    """Loop of `func` (`Parallel` ones aside) -> what ``ask(facts, loop)`` says in front of it."""
    facts, found = facts_about(func), {}

    def see(s: Stmt) -> None:
        if isinstance(s, For) and not is_parallel(s):
            found[s] = ask(facts, s)

    walk_with_facts(func.body, facts, see)
    return found


def _walk_branch(s: IfThenElse, facts: ValueFacts, see) -> None:
    with facts.assume(s.condition):
        walk_with_facts(s.then_case, facts, see)
    if s.else_case is not None:
        facts.wrote_in(s.then_case)
        with facts.assume(tirx.Not(s.condition)):
            walk_with_facts(s.else_case, facts, see)
    facts.wrote_in(s)


def assume_rest(s: Stmt, facts: ValueFacts, stack: ExitStack) -> None:
    """After `s`: where one side of a branch leaves the loop, the rest of the list runs under the condition of the other; a promise
    holds from there on."""
    if is_op(s, ASSUME):
        stack.enter_context(facts.assume(s.value.args[0]))
    if not isinstance(s, IfThenElse):
        return
    # A scalar the other side stores to has another version by now, of which the condition says nothing.
    stays = s.else_case if leaves(s.then_case) else s.then_case
    if any(isinstance(x, BufferStore) and is_scalar_var(x.buffer) for x in (statements(stays) if stays is not None else ())):
        return
    if leaves(s.then_case):
        stack.enter_context(facts.assume(tirx.Not(s.condition)))
    elif s.else_case is not None and leaves(s.else_case):
        stack.enter_context(facts.assume(s.condition))


def shape_vars(buffers) -> list[Var]:
    """Free variables of shapes and strides, in order of appearance."""
    found: list[Var] = []
    for b in buffers:
        for e in [*b.ty.shape, *(b.strides or [])]:
            for v in sorted(free_vars(e) if not isinstance(e, int) else (), key=lambda v: v.name):
                if not any(v.same_as(x) for x in found):
                    found.append(v)
    return found


def facts_about(func: PrimFunc) -> ValueFacts:
    """Facts in front of the body of `func`: shapes are not negative, nor are the mutable scalars no store makes negative.

    The latter is an induction: assume it of all, drop those of which a store leaves it open, until the assumption is stable.
    """
    sizes = sizes_of(func)
    stores = [s for s in statements(func.body) if isinstance(s, BufferStore) and is_scalar_var(s.buffer)]
    found, data = {s.buffer for s in stores if dtype_of(s.buffer).startswith("int")}, DataNames(func.body)
    while True:
        failed = _stores_left_open(func.body, _start(sizes, data, found), found)
        if not failed:
            return _start(sizes, data, found)
        found -= failed


def sizes_of(func: PrimFunc) -> list[Var]:
    """The signed variables in shapes and strides of the parameters of `func`."""
    return [v for v in shape_vars(p for p in func.params if is_buffer_var(p)) if dtype_of(v).startswith("int")]


def tell_sizes(analyzer: sym.Analyzer, sizes) -> None:
    """Tell an analyzer that sizes are not negative, and less than all memory has."""
    for v in sizes:
        most = _MEMORY if itemsize(dtype_of(v)) > 4 else _LARGEST
        analyzer.bind(v, Range.from_min_extent(imm(0, dtype_of(v)), imm(most, dtype_of(v))))


def _start(sizes: list[Var], data: DataNames, never_negative: set) -> ValueFacts:
    facts = ValueFacts(data, frozenset(never_negative))
    tell_sizes(facts.analyzer, sizes)
    return facts


def _stores_left_open(body: Stmt, facts: ValueFacts, scalars: set) -> set:
    """The mutable scalars among `scalars` that some store may make negative, or that a loop may double until they wrap."""
    failed: set = set()

    def see(s):
        if not isinstance(s, BufferStore) or s.buffer not in scalars or s.buffer in failed:
            return
        if facts.multiplies(s.buffer, s.value) or not facts.nonnegative(s.value):
            failed.add(s.buffer)

    if scalars:
        walk_with_facts(body, facts, see)
    return failed


__all__ = ["ValueFacts", "assume_rest", "at_loops", "facts_about", "leaves", "shape_vars", "sizes_of", "tell_sizes", "walk_with_facts"]
