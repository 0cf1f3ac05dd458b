"""Linear forms of index expressions, with intervals and evaluation at chosen loop iterations.

`Linear` is `const + sum(coeff * atom)`: the form of `sums`, over interned atoms. An atom is a loop variable, a `floormod` or `floordiv` by a
constant, or anything else ("opaque": a parameter, a scalar read from memory). Every atom knows in which loops its value may change, so two
accesses can be compared across iterations without a general solver.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

from ...ir import Call, IntImm, TensorLoad, Var, dtype_of, expr_children, imm, itemsize, tirx
from .sums import SUMS, reader

INF = math.inf
DEEPEST = 6
"""Quotients and remainders within each other that are looked into: each may stand for several of the one inside."""
NOWHERE: Mapping = MappingProxyType({})

RANGE_OF_CALL = {
    "ascend.get_block_idx": (0, INF),
    "ascend.get_sub_block_idx": (0, 1),
    "ascend.get_block_num": (1, INF),
}
"""Range of the values of calls that identify the core."""


class Atom:
    """One indivisible term. Atoms are interned by `LinearForms`: the same term is the same object.

    Attributes:
        kind: `loop`, `mod`, `div` or `opaque`.
        expr: the IR expression it stands for.
        arg, modulus: operand and constant of `mod` and `div`.
        varies: loop variables (as `loop` atoms) whose iteration may change the value.
        range: lowest and highest value of an opaque atom.
        depth: how many of `mod` and `div` stand within each other.
    """

    __slots__ = ("kind", "expr", "arg", "modulus", "varies", "range", "depth")

    def __init__(self, kind: str, expr, varies: frozenset = frozenset(), arg: Linear | None = None, modulus: int = 0):
        self.kind, self.expr, self.arg, self.modulus = kind, expr, arg, modulus
        self.varies = frozenset((self,)) if kind == "loop" else varies
        self.range = (-INF, INF)
        self.depth = 0 if arg is None else 1 + max((a.depth for a in arg.terms), default=0)

    def evaluate(self, env: dict) -> int | None:
        """Value with `env` (atom -> int), None when a needed atom has no value."""
        if self in env:
            return env[self]
        if self.kind == "mod" or self.kind == "div":
            value = self.arg.evaluate(env)
            if value is None:
                return None
            return value % self.modulus if self.kind == "mod" else value // self.modulus
        return None

    def interval(self, extents: dict, within: Mapping = NOWHERE) -> tuple[float, float]:
        """Lowest and highest value; `extents` gives the largest trip count of loops where it is known. `within`: loop atom -> first and last
        iteration of interest, where those are not all."""
        if self.kind == "loop":
            return within.get(self) or (0, extents.get(self, INF) - 1)
        if self.kind == "opaque":
            return self.range
        low, high = self.arg.interval(extents, within)
        if self.kind == "div":
            bits = _unsigned_bits(self.expr)
            if bits and not 0 <= low <= high < 1 << bits:
                return 0, ((1 << bits) - 1) // self.modulus  # The operand may wrap.
            # An infinite bound stays: inf // n is nan.
            return tuple(x if abs(x) == INF else x // self.modulus for x in (low, high))
        return (low, high) if 0 <= low and high < self.modulus else (0, self.modulus - 1)


class Linear:
    """`const + sum(coeff * atom)`; immutable, hashable, cheap to combine."""

    __slots__ = ("const", "terms", "_key")

    def __init__(self, const: int, terms: dict | None = None):
        self.const, self.terms, self._key = const, terms or {}, None

    @property
    def key(self):
        if self._key is None:
            self._key = (self.const, frozenset(self.terms.items()))
        return self._key

    def __eq__(self, other) -> bool:
        return isinstance(other, Linear) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """`self + factor * other`."""
        if not other.terms:
            return self if not other.const else Linear(self.const + factor * other.const, self.terms)
        terms = dict(self.terms)
        for atom, c in other.terms.items():
            value = terms.get(atom, 0) + factor * c
            if value:
                terms[atom] = value
            else:
                terms.pop(atom, None)
        return Linear(self.const + factor * other.const, terms)

    def scaled(self, factor: int) -> Linear:
        """`factor * self`."""
        if factor == 1:
            return self
        return Linear(self.const * factor, {a: c * factor for a, c in self.terms.items()} if factor else {})

    def evaluate(self, env: dict) -> int | None:
        """Value with `env` (atom -> int), None when an atom has no value."""
        total = self.const
        for atom, c in self.terms.items():
            value = atom.evaluate(env)
            if value is None:
                return None
            total += c * value
        return total

    def interval(self, extents: dict, within: Mapping = NOWHERE) -> tuple[float, float]:
        """Lowest and highest value, as of an atom."""
        low = high = self.const
        for atom, c in self.terms.items():
            a, b = atom.interval(extents, within)
            low, high = (low + c * a, high + c * b) if c > 0 else (low + c * b, high + c * a)
        return low, high

    @property
    def varies(self) -> frozenset:
        """Loops whose iteration may change the value."""
        return frozenset().union(*(a.varies for a in self.terms)) if self.terms else frozenset()

    def atoms(self) -> set:
        """All atoms, those inside `mod` and `div` included."""
        found = set()
        for atom in self.terms:
            found.add(atom)
            if atom.arg is not None:
                found |= atom.arg.atoms()
        return found

    def expr(self):
        """The IR expression (int32 constants)."""
        total = None
        for atom, c in self.terms.items():
            term = atom.expr if c == 1 else atom.expr * c
            total = term if total is None else total + term
        if total is None:
            return imm(self.const)
        return total + self.const if self.const else total


ZERO = Linear(0)


class LinearForms:
    """Translates IR expressions into `Linear` forms; one object for one function.

    Tell it about loops (`loop`) and lets (`bind`) in program order. Scalars read from memory or mutable state are
    opaque and vary in every loop around the place that reads them (`inside`).
    """

    def __init__(self):
        self._atoms: dict = {}
        self._lets: dict = {}
        self.values: dict = {}
        self._loops: list[Atom] = []
        self._fresh = 0
        self._read = reader(Linear, self._leaf, self._keeps_value)

    def loop(self, var: Var) -> Atom:
        """The atom of a loop variable."""
        atom = self._atoms.get(var)
        if atom is None:
            atom = self._atoms[var] = Atom("loop", var)
            self._lets[var] = Linear(0, {atom: 1})
        return atom

    def enter(self, atom: Atom) -> None:
        """Expressions seen from here on are inside this loop."""
        self._loops.append(atom)

    def leave(self) -> None:
        """End of the innermost loop."""
        self._loops.pop()

    def bind(self, var: Var, value) -> None:
        """`var` is a let of `value`: its uses have the linear form of the value."""
        form = self(value)
        self.values[var] = value
        atoms = form.terms
        if len(atoms) == 1 and form.const == 0 and next(iter(atoms)).kind == "opaque":
            # A name for something opaque: the name is what later code can mention.
            named = Atom("opaque", var, next(iter(atoms)).varies)
            named.range = next(iter(atoms)).range
            self._lets[var] = Linear(0, {named: 1})
        else:
            self._lets[var] = form

    def __call__(self, expr) -> Linear:
        return self._read(expr)

    def _keeps_value(self, e: tirx.Cast) -> bool:
        """True for conversions of integers that change no index: those to less than 32 bits may wrap; negative numbers have no unsigned ones,
        and of unsigned sums that wrap, more bits show it."""
        to, of = dtype_of(e), dtype_of(e.value)
        if "int" not in to or "int" not in of:
            return False
        if itemsize(to) < min(4, itemsize(of)):
            return False
        if of.startswith("uint"):
            wraps = itemsize(of) >= 4 and isinstance(e.value, SUMS)
            return not wraps if itemsize(to) > itemsize(of) else to == of or itemsize(to) >= 4
        return not to.startswith("uint") or self(e.value).interval({})[0] >= 0

    def _leaf(self, expr) -> Linear:
        """The form of what is no sum."""
        if isinstance(expr, Var):
            form = self._lets.get(expr)
            if form is None:
                form = self._lets[expr] = Linear(0, {self._opaque(expr, expr, frozenset()): 1})
            return form
        kind = _DIVIDED.get(type(expr))
        form = self._divided(kind, expr) if kind else None
        return Linear(0, {self._generic(expr): 1}) if form is None else form

    def _opaque(self, key, expr, varies: frozenset) -> Atom:
        atom = self._atoms.get(key)
        if atom is None:
            atom = self._atoms[key] = Atom("opaque", expr, varies)
        return atom

    def _generic(self, expr) -> Atom:
        """Opaque atom of an expression: shared between equal pure expressions, fresh for memory reads."""
        if isinstance(expr, TensorLoad) or (isinstance(expr, Call) and any(isinstance(a, TensorLoad) for a in expr.args)):
            self._fresh += 1
            return self._opaque(("read", self._fresh), expr, frozenset(self._loops))
        parts = [self(c) for c in expr_children(expr)]
        name = expr.op.name if isinstance(expr, Call) else type(expr).__name__
        literal = "" if parts else str(getattr(expr, "value", ""))
        attrs = str(expr.attrs) if isinstance(expr, Call) else ""
        # Operations of equal operands may differ by dtype: conversions, what wraps, comparisons with and without signs.
        dtypes = (dtype_of(expr), *map(dtype_of, expr_children(expr)))
        varies = frozenset().union(*(p.varies for p in parts)) if parts else frozenset()
        atom = self._opaque((name, literal, attrs, dtypes, *parts), expr, varies)
        atom.range = RANGE_OF_CALL.get(name, atom.range)
        return atom

    def _divided(self, kind: str, expr) -> Linear | None:
        if not isinstance(expr.b, IntImm) or expr.b.value <= 0:
            return None
        modulus, arg = int(expr.b.value), self(expr.a)
        if not arg.terms:
            return Linear(arg.const % modulus if kind == "mod" else arg.const // modulus)
        if modulus == 1:
            return ZERO if kind == "mod" else arg
        if max(a.depth for a in arg.terms) >= DEEPEST:
            return None
        key = (kind, arg, modulus, _unsigned_bits(expr))  # Sums without signs wrap before they are divided.
        atom = self._atoms.get(key)
        if atom is None:
            atom = self._atoms[key] = Atom(kind, expr, arg.varies, arg, modulus)
        return Linear(0, {atom: 1})


def _unsigned_bits(e) -> int:
    """Bits of an expression of unsigned integers, 0 for others."""
    dtype = dtype_of(e)
    return 8 * itemsize(dtype) if dtype.startswith("uint") else 0


_DIVIDED = {tirx.FloorMod: "mod", tirx.FloorDiv: "div"}


def upper_bound(expr, forms: LinearForms, extents: dict) -> int | None:
    """A constant that `expr` never exceeds, None when there is no obvious one. `extents`: loop atom -> largest trip count."""
    if isinstance(expr, Var) and expr in forms.values:
        bound = upper_bound(forms.values[expr], forms, extents)
        if bound is not None:
            return bound
    if isinstance(expr, tirx.Min):
        bounds = [b for b in (upper_bound(expr.a, forms, extents), upper_bound(expr.b, forms, extents)) if b is not None]
        return min(bounds) if bounds else None
    if isinstance(expr, tirx.Max):
        bounds = [upper_bound(expr.a, forms, extents), upper_bound(expr.b, forms, extents)]
        return None if None in bounds else max(bounds)
    if isinstance(expr, tirx.Select):
        bounds = [upper_bound(expr.true_value, forms, extents), upper_bound(expr.false_value, forms, extents)]
        return None if None in bounds else max(bounds)
    if isinstance(expr, tirx.Mul) and isinstance(expr.b, IntImm) and expr.b.value >= 0:
        bound = upper_bound(expr.a, forms, extents)
        return None if bound is None else bound * int(expr.b.value)
    if isinstance(expr, tirx.FloorDiv) and isinstance(expr.b, IntImm) and expr.b.value > 0:
        bound = upper_bound(expr.a, forms, extents)
        return None if bound is None else bound // int(expr.b.value)
    if isinstance(expr, (tirx.Add, tirx.Sub)) and forms(expr).interval(extents)[1] == INF:
        return _bound_of_sum(expr, forms, extents)
    high = forms(expr).interval(extents)[1]
    return None if high == INF else int(high)


def _bound_of_sum(expr, forms: LinearForms, extents: dict) -> int | None:
    first, other = upper_bound(expr.a, forms, extents), (upper_bound if isinstance(expr, tirx.Add) else lower_bound)(expr.b, forms, extents)
    if first is None or other is None:
        return None
    return first + other if isinstance(expr, tirx.Add) else first - other


def lower_bound(expr, forms: LinearForms, extents: dict) -> int | None:
    """A constant below which `expr` never is, None when there is no obvious one."""
    if isinstance(expr, Var) and expr in forms.values:
        return lower_bound(forms.values[expr], forms, extents)
    if isinstance(expr, (tirx.Min, tirx.Max)):
        known = [b for b in (lower_bound(expr.a, forms, extents), lower_bound(expr.b, forms, extents)) if b is not None]
        if isinstance(expr, tirx.Max):
            return max(known, default=None)
        return min(known) if len(known) == 2 else None
    low = forms(expr).interval(extents)[0]
    return None if low == -INF else int(low)


__all__ = ["Atom", "INF", "Linear", "LinearForms", "ZERO", "lower_bound", "upper_bound"]
