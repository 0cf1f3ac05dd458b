"""Integer index expressions as sums: constant + coefficient * atom, by structure, without a solver.

The one reading of index expressions: addresses are added up from it and written back as expressions, in the same order (`tileop`);
`affine` asks it for the coefficients of loop variables; `linear` interns its atoms, so that accesses of one function can be compared across
iterations.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import IntImm, Var, const_int, dtype_of, is_buffer_var, itemsize, tirx

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


def as_sum(e, exact: bool = False) -> Sum:
    """`e` as a sum; sub-expressions that are not sums become atoms, sums of less than 32 bits among them: they wrap. The low 32 bits of an
    int64 count as the number itself, which they are in an index, and in a result of which only these bits count; not with `exact`."""
    value = const_int(e)
    if value is not None:
        return constant(value)
    if itemsize(dtype_of(e)) < 4:
        return Sum(0, ((e, 1),))
    if isinstance(e, tirx.Add):
        return add(as_sum(e.a, exact), as_sum(e.b, exact))
    if isinstance(e, tirx.Sub):
        return add(as_sum(e.a, exact), as_sum(e.b, exact), -1)
    if isinstance(e, tirx.Mul):
        a, b = as_sum(e.a, exact), as_sum(e.b, exact)
        if not b.terms:
            return scale(a, b.const)
        if not a.terms:
            return scale(b, a.const)
    if isinstance(e, tirx.Cast) and _keeps_value(dtype_of(e.value), dtype_of(e), exact):
        return as_sum(e.value, exact)
    return Sum(0, ((e, 1),))


def _keeps_value(src: str, dst: str, exact: bool) -> bool:
    return src in ("int32", "int64") and dst in ("int32", "int64") and not (exact and itemsize(dst) < itemsize(src))


def is_integer(dtype: str) -> bool:
    """True for the signed and unsigned integer dtypes (not bool)."""
    return dtype in _INTEGER


def is_variable(e) -> bool:
    """True for a variable that is not a buffer."""
    return isinstance(e, Var) and not is_buffer_var(e)
