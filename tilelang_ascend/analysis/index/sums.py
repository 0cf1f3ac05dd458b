"""Integer index expressions as sums: constant + coefficient * atom, by structure, without a solver.

The one reading of index expressions: addresses are added up from it and written back as expressions, in the same order (`tileop`);
`affine` asks it for the coefficients of loop variables; `linear` interns its atoms, so that accesses of one function can be compared across
iterations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

from ...ir import IntImm, Var, dtype_of, is_buffer_var, itemsize, tirx

_INTEGER = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


@dataclass(frozen=True)
class Sum:
    """``const + sum(coefficient * atom)``. An atom is a variable or an opaque integer expression."""

    const: int
    terms: tuple  # of (atom, coefficient), coefficient != 0

    def coefficient(self, atom) -> int:
        """Coefficient of a variable (0 when absent)."""
        return sum(c for a, c in self.terms if a.same_as(atom))

    def without(self, atoms) -> Sum:
        """The sum with the terms of some variables removed."""
        return Sum(self.const, tuple(t for t in self.terms if not any(t[0].same_as(a) for a in atoms)))

    def plus(self, other: Sum, factor: int = 1) -> Sum:
        """`self + factor * other`."""
        return add(self, other, factor)

    def scaled(self, factor: int) -> Sum:
        """`factor * self`."""
        return scale(self, factor)

    def expr(self, dtype: str = "int32"):
        """Back to an expression; a Python int when constant."""
        out = None
        for atom, c in self.terms:
            atom = atom if dtype_of(atom) == dtype else tirx.Cast(dtype, atom)
            term = atom if c == 1 else atom * IntImm(dtype, c)
            out = term if out is None else out + term
        if out is None:
            return self.const
        return out + IntImm(dtype, self.const) if self.const else out

    def multiple_of(self, unit: int) -> bool:
        """True when the value is provably a multiple of `unit`."""
        return self.const % unit == 0 and all(c % unit == 0 or _atom_multiple(a, c, unit) for a, c in self.terms)


def _atom_multiple(atom, coefficient: int, unit: int) -> bool:
    """`coefficient * atom` for atoms that are themselves products, e.g. ``(x // 8) * 8`` behind a min."""
    if isinstance(atom, (tirx.Min, tirx.Max)):
        parts = [as_sum(atom.a), as_sum(atom.b)]
        return all(scale(p, coefficient).multiple_of(unit) for p in parts)
    return False


def constant(value: int) -> Sum:
    """A constant sum."""
    return Sum(value, ())


def add(a: Sum, b: Sum, sign: int = 1) -> Sum:
    """``a + sign * b``."""
    terms: list = list(a.terms)
    for atom, c in b.terms:
        for k, (other, d) in enumerate(terms):
            if other.same_as(atom):
                terms[k] = (other, d + sign * c)
                break
        else:
            terms.append((atom, sign * c))
    return Sum(a.const + sign * b.const, tuple(t for t in terms if t[1]))


def scale(a: Sum, factor: int) -> Sum:
    """``factor * a``."""
    if factor == 0:
        return constant(0)
    return Sum(a.const * factor, tuple((v, c * factor) for v, c in a.terms))


def divided(a: Sum, by: int):
    """``a // by`` as an expression, for sums that are multiples of `by` even where their terms are not."""
    if a.const % by == 0 and all(c % by == 0 for _, c in a.terms):
        return Sum(a.const // by, tuple((v, c // by) for v, c in a.terms)).expr()
    return tirx.floordiv(a.expr(), IntImm("int32", by))


def reader(constant: Callable, leaf: Callable, keeps_value: Callable) -> Callable:
    """The reading of integer expressions as sums: a function from expressions to forms.

    Forms have `const`, `terms`, `plus(other, factor)` and `scaled(factor)`. `constant(n)` makes one of a number, `leaf(e)` of what is no sum;
    sums of less than 32 bits are none, they wrap. `keeps_value(cast)`: whether a conversion counts as the number itself.
    """

    def read(e):
        kind = type(e)
        if kind is IntImm:
            return constant(int(e.value))
        if kind is tirx.Cast:
            return read(e.value) if keeps_value(e) else leaf(e)
        if kind not in SUMS or itemsize(dtype_of(e)) < 4:
            return leaf(e)
        a, b = read(e.a), read(e.b)
        if kind is not tirx.Mul:
            return a.plus(b, 1 if kind is tirx.Add else -1)
        if not b.terms:
            return a.scaled(b.const)
        return leaf(e) if a.terms else b.scaled(a.const)

    return read


SUMS = (tirx.Add, tirx.Sub, tirx.Mul)


def as_sum(e, exact: bool = False) -> Sum:
    """`e` as a sum; sub-expressions that are not sums become atoms. The low 32 bits of an int64 count as the number itself, which they are in an
    index, and in a result of which only these bits count; not with `exact`."""
    return constant(e) if isinstance(e, int) else (_EXACT if exact else _READ)(e)


def _keeps_value(e: tirx.Cast) -> bool:
    return dtype_of(e.value) in ("int32", "int64") and dtype_of(e) in ("int32", "int64")


def _keeps_all(e: tirx.Cast) -> bool:
    return _keeps_value(e) and itemsize(dtype_of(e)) >= itemsize(dtype_of(e.value))


def _atom(e) -> Sum:
    return Sum(0, ((e, 1),))


_READ, _EXACT = (reader(constant, _atom, keeps) for keeps in (_keeps_value, _keeps_all))


def is_integer(dtype: str) -> bool:
    """True for the signed and unsigned integer dtypes (not bool)."""
    return dtype in _INTEGER


def is_variable(e) -> bool:
    """True for a variable that is not a buffer."""
    return isinstance(e, Var) and not is_buffer_var(e)
