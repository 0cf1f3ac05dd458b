"""What the indices and conditions of a `T.Parallel` nest say about its loop variables."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import (
    Bind,
    Break,
    BufferStore,
    Continue,
    For,
    IfThenElse,
    Range,
    SeqStmt,
    Stmt,
    TensorLoad,
    While,
    const_int,
    dtype_of,
    expr_children,
    exprs,
    free_vars,
    imm,
    is_if_then_else,
    statements,
    structural_equal,
    substitute_expr,
    sym,
    tirx,
)
from ...tile.uses import is_buffer_var, loads_in, uses_of
from .affine import affine, difference_fits, far_difference
from .sums import Sum, as_sum

LONGEST = 1 << 20
"""Iterations from which on a bound says nothing useful about what a loop touches."""


class NestIndices:
    """Which indices of a nest are sums of its loop variables, the rest being the same in all iterations.

    loops: (variable, extent) of the nest, outermost first. body: what it holds. stepped: loops inside whose iterations are not looked at
    together, by their variables. widest: loops inside count with the most iterations they may have. analyzer: what is known around the nest.
    """

    def __init__(self, loops, body: Stmt, stepped: frozenset = frozenset(), widest: bool = False, analyzer: sym.Analyzer | None = None):
        self.analyzer = analyzer or sym.Analyzer()
        self.extents = {v: const_int(e) for v, e in loops}
        # A tile holds what all iterations of the loops inside the nest touch.
        # One that may be left early touches less than that.
        inner = [s for s in statements(body) if isinstance(s, For)]
        for s in inner:
            left_early = not widest and any(isinstance(x, (Break, Continue)) for x in statements(s))
            extent = const_int(s.extent)
            if extent is None and widest:
                extent = self._most(s.extent)
            self.extents[s.loop_var] = None if left_early else extent or None
        self.extents.update(dict.fromkeys(stepped))
        self.local = {s.var for s in statements(body) if isinstance(s, Bind)}
        self.changed = uses_of(body).writes

    def _most(self, extent) -> int | None:
        """The largest value of an extent that depends on loop variables around it."""
        most = int(self._bounds(extent).max_value)
        return most if 0 <= most < LONGEST else None

    def forms(self, indices) -> list | None:
        """Affine forms of all indices, or None."""
        forms = [affine(i, list(self.extents)) for i in indices]
        if any(f is None or self.varies(f.base) for f in forms) or any(self.extents[v] is None for f in forms for v in f.coeffs):
            return None
        return forms

    def hulls(self, indices) -> list | None:
        """(minimum, extent) of the values of every index, or None: those that are no sums of loop variables may be other functions of them, such as
        `v // 32`, beside what is the same in all iterations."""
        found = [self._hull(i) for i in indices]
        return None if None in found else found

    def _hull(self, index) -> tuple | None:
        forms = self.forms([index])
        if forms is not None:
            return forms[0].hull(self.extents)
        total, low, high, rest = as_sum(self.analyzer.simplify(index)), 0, 0, []
        for atom, c in total.terms:
            used = free_vars(atom) & (self.extents.keys() | self.local)
            if not used and not self.varies(atom):
                rest.append((atom, c))
                continue
            if loads_in(atom) or used != set(free_vars(atom)) or not all(self.extents.get(v) for v in used):
                return None
            bound = self._within(atom)
            if bound is None:
                return None
            low, high = low + min(c * n for n in bound), high + max(c * n for n in bound)
        base = Sum(total.const + low, tuple(rest)).expr(dtype_of(index))
        return imm(base, dtype_of(index)) if isinstance(base, int) else base, high - low + 1

    def _bounds(self, e):
        """Of an expression, over the iterations of all loops whose number is known."""
        analyzer = sym.Analyzer()
        for v, n in self.extents.items():
            if n:
                analyzer.bind(v, Range.from_min_extent(imm(0, dtype_of(v)), imm(n, dtype_of(v))))
        return analyzer.const_int_bound(e)

    def _within(self, e) -> tuple[int, int] | None:
        """The lowest and highest value that an expression of loop variables may have."""
        bound = self._bounds(e)
        low, high = int(bound.min_value), int(bound.max_value)
        return (low, high) if -LONGEST < low and high < LONGEST else None

    def limit(self, cond):
        """(v, first, end) if `cond` says `first <= v` or `v < end` of one loop variable; the other limit is None."""
        sides = sides_of(cond)
        if sides is None:
            return None
        small, large, strict = sides
        form = affine(small - large, list(self.extents))
        if form is None or self.varies(form.base) or len(form.coeffs) != 1:
            return None
        ((v, step),), base = form.coeffs.items(), form.base
        if step == 1:  # v + base < 0
            end = self._bound(v, (0 if strict else 1) - base, large, small, 0 if strict else 1)
            return None if end is None else (v, None, end)
        if step != -1:
            return None
        first = self._bound(v, base + (1 if strict else 0), small, large, 1 if strict else 0)
        return None if first is None else (v, first, None)

    def _bound(self, v, exact, a, b, plus: int):
        """`exact`, which is `a - b + plus` without the loop variables, as an int32; where int32 may not hold it, as the nearest number within
        the loop. None if `a` and `b` are no sums of their own."""
        forms, extent = [affine(x, list(self.extents)) for x in (a, b)], self.extents[v]
        if None in forms or extent is None:
            return None
        a, b = (f.base for f in forms)
        if dtype_of(exact) == "int32" and difference_fits(a, b, self.analyzer, plus):
            return sym.Analyzer().simplify(exact)
        wide = far_difference(a, b, plus, self.analyzer)
        return tirx.Cast("int32", tirx.max(tirx.min(wide, imm(extent, "int64")), imm(0, "int64")))

    def varies(self, base) -> bool:
        """True if the constant part of an index depends on what the nest computes."""
        return bool(free_vars(base) & self.local) or any(x.source in self.changed for x in loads_in(base))

    def box(self, terms: list, store: BufferStore) -> dict | None:
        """`{v: (first, end)}` if the terms of a condition say no more than that loop variables, which each index one dimension of
        `store`, lie between limits: the nest then writes a box of the tile. Either limit may be None, and rows must start at their
        first element, where transfers can."""
        forms, limits = self.forms(store.indices), {}
        for term in terms:
            found = self.limit(term)
            if found is None or forms is None:
                return None
            v, first, end = found
            low, high = limits.get(v, (None, None))
            # The variable alone walks one dimension, and no other.
            if [f.coeffs for f in forms if v in f.coeffs] != [{v: 1}] or self.extents[v] in (None, 1):
                return None
            if first is not None and (v in forms[-1].coeffs or low is not None) or end is not None and high is not None:
                return None
            limits[v] = (low if first is None else first, high if end is None else end)
        return limits


@dataclass(frozen=True)
class _Place:
    """What `implied_by_bounds` looks at."""

    buffer: object
    indices: list


class ReadLimits:
    """Where conditions begin and end the reads of a nest: `spans(buffer, indices)` is {loop variable: (first, end)} of the iterations that
    read an element, where conditions of the user say so and the bounds of the tensor do not; None for what they do not say. `buffers`: the
    tensors asked about."""

    def __init__(self, nest: NestIndices, body: Stmt, buffers: set):
        self.nest, self.buffers = nest, buffers
        self.found: list = []
        self._walk(body, [])

    def spans(self, buffer, indices) -> dict:
        same = [e for b, i, e in self.found if b.same_as(buffer) and all(map(structural_equal, i, indices))]
        common = dict(same[0]) if same else {}
        for other in same[1:]:
            common = {v: tuple(map(_widest, (tirx.Min, tirx.Max), span, other[v])) for v, span in common.items() if v in other}
        return common

    def _walk(self, s: Stmt, terms: list) -> None:
        for e in exprs(s):
            self._see(e, terms)
        if isinstance(s, SeqStmt):
            for x in s.seq:
                self._walk(x, terms)
        elif isinstance(s, (For, While)):
            self._walk(s.body, terms)
        elif isinstance(s, IfThenElse):
            self._walk(s.then_case, [*terms, *conjuncts(s.condition)])
            if s.else_case is not None:
                self._walk(s.else_case, [*terms, tirx.Not(s.condition)])

    def _see(self, e, terms: list) -> None:
        if isinstance(e, TensorLoad) and e.source in self.buffers:
            spans: dict = {}
            for term in terms:
                limit = self.nest.limit(term)
                if limit is not None and not implied_by_bounds(term, _Place(e.source, list(e.indices))):
                    v, *span = limit
                    old = spans.get(v, (None, None))
                    spans[v] = tuple(b if a is None else a if b is None else f(a, b) for f, a, b in zip((tirx.Max, tirx.Min), old, span))
            self.found.append((e.source, list(e.indices), spans))
        if is_if_then_else(e):
            self._see(e.args[0], terms)
            self._see(e.args[1], [*terms, *conjuncts(e.args[0])])
            self._see(e.args[2], terms)
        else:
            for x in expr_children(e):
                self._see(x, terms)


def _widest(function, a, b):
    """The limit of iterations of which some have limit `a` and some `b`."""
    if a is None or b is None:
        return None
    return a if structural_equal(a, b) else function(a, b)


def conjuncts(cond) -> list:
    """The terms of `a and b and …`."""
    return conjuncts(cond.a) + conjuncts(cond.b) if isinstance(cond, tirx.And) else [cond]


def implied_by_bounds(cond, store: BufferStore) -> bool:
    """True if `0 <= index < shape` in every dimension proves `cond`."""
    analyzer = sym.Analyzer()
    bounds = imm(True, "bool")
    for i, n in zip(store.indices, store.buffer.ty.shape):
        for bound in (i >= 0, i < n):
            if _implied(cond, bound, analyzer):
                return True
            bounds = tirx.And(bounds, bound)
    with analyzer.constraint_scope(bounds):
        return bool(analyzer.can_prove(cond))


def _implied(cond, bound, analyzer) -> bool:
    """True if the comparison `cond` holds wherever `bound` does, both being linear."""
    sides, limits = sides_of(cond), sides_of(bound)
    if sides is None or limits is None:  # of a constant index, `0 <= index` is a constant
        return False
    (small, large, least), (low, high, margin) = sides, limits
    scales = {1}
    for v in (v for v in free_vars(large - small) if not is_buffer_var(v)):
        forms = affine(large - small, [v]), affine(high - low, [v])
        if None not in forms and all(v in f.coeffs for f in forms) and forms[1].coeffs[v] % forms[0].coeffs[v] == 0:
            scales.add(forms[1].coeffs[v] // forms[0].coeffs[v])
    wide = lambda x: tirx.Cast("int64", x)  # noqa: E731
    for c in scales:
        # c * (large - small - least) >= high - low - margin - (c - 1) makes large - small at least `least`: all are integers.
        rest = c * (wide(large) - wide(small) - least) - (wide(high) - wide(low) - margin)
        rest = const_int(analyzer.simplify(rest)) if c > 0 and sym.constants_fit(rest) else None
        if rest is not None and rest > -c:
            return True
    return False


def sides_of(cond):
    """(small, large, least) of a comparison of integers that says `large - small >= least`; None for other conditions."""
    if isinstance(cond, tirx.Not):
        sides = sides_of(cond.a)
        return None if sides is None else (sides[1], sides[0], 1 - sides[2])
    if not isinstance(cond, (tirx.LT, tirx.LE, tirx.GT, tirx.GE)) or not dtype_of(cond.a).startswith("int"):
        return None
    small, large = (cond.a, cond.b) if isinstance(cond, (tirx.LT, tirx.LE)) else (cond.b, cond.a)
    return small, large, 1 if isinstance(cond, (tirx.LT, tirx.GT)) else 0


def over_nest(cond, extents: dict, every: bool):
    """A condition on scalars under which a comparison of integers holds for `every` value of the variables of a nest, or for some: that it does for the least
    favourable, or the most favourable, of them. None if that is not known. extents: variable -> iterations."""
    sides = sides_of(cond)
    if sides is None or dtype_of(sides[0]) not in ("int32", "int64"):
        return None
    *ends, least = sides
    small, large = forms = [affine(e, list(extents)) for e in ends]
    if None in forms or any(extents[v] is None for form in forms for v in form.coeffs):
        return None
    corner = {}
    for v, n in extents.items():
        grows = large.coeffs.get(v, 0) >= small.coeffs.get(v, 0)
        corner[v] = imm(0 if grows == every else (n or 1) - 1, dtype_of(v))
    first, last = (substitute_expr(e, corner) for e in ends)
    return tirx.GT(last, first) if least else tirx.GE(last, first)


__all__ = ["NestIndices", "ReadLimits", "conjuncts", "implied_by_bounds", "over_nest", "sides_of"]
