"""Sums over some variables, with constant coefficients, or the answer that an expression is none: `sums` reads it, here it is asked about."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import Var, as_dtype, const_int, dtype_of, free_vars, imm, sym, tirx
from .sums import Sum, as_sum

_LEAST, _MOST = -(1 << 31), (1 << 31) - 1
"""Ends of the range of int32."""
FAR = 1 << 60
"""A number that is further from 0 than any int32, and any size of memory; an int64 holds several times as much."""
_LARGEST = (1 << 63) - 1


@dataclass(frozen=True)
class Affine:
    """`sum(coeffs[v] * v) + base`, with constant integer coefficients; `base` is free of the variables."""

    coeffs: dict
    base: object

    def hull(self, extents: dict):
        """(minimum, extent) of the values over `0 <= v < extents[v]`."""
        low, span = self.base, 1
        for v, c in self.coeffs.items():
            reach = c * (extents[v] - 1)
            span += abs(reach)
            low = low + min(reach, 0)
        return low, span


def affine(expr, variables: list[Var]) -> Affine | None:
    """Affine form of `expr` over `variables`, or None if it is not affine with constant coefficients, or a constant of it is no int32."""
    if not any(v in free_vars(expr) for v in variables):
        return Affine({}, expr)
    total, coeffs, rest = as_sum(expr, exact=True), {}, []
    if not all(_LEAST <= n <= _MOST for n in (total.const, *(c for _, c in total.terms))):
        return None
    for atom, c in total.terms:
        if isinstance(atom, Var) and atom in variables:
            coeffs[atom] = c
        elif any(v in free_vars(atom) for v in variables):
            return None
        else:
            rest.append((atom, c))
    base = Sum(total.const, tuple(rest)).expr(dtype_of(expr))
    return Affine(coeffs, imm(base) if isinstance(base, int) else base)


def affine_limits(expr, extents: dict) -> tuple[int, int] | None:
    """The lowest and highest value an affine `expr` takes over `0 <= v < extents[v]`, both of which it takes; None if that is not known."""
    form = affine(expr, list(extents))
    if form is None:
        return None
    low, span = form.hull(extents)
    first = const_int(low)
    return None if first is None else (first, first + span - 1)


def difference_fits(a, b, analyzer: sym.Analyzer, plus: int = 0) -> bool:
    """True if `a - b + plus` surely is an int32 value, as `a` and `b` are."""
    (low, high), (first, last) = (_range(x, analyzer) for x in (a, b))
    return low - last + plus >= _LEAST and high - first + plus <= _MOST


def far_difference(a, b, plus: int, analyzer: sym.Analyzer):
    """`a - b + plus` of signed integers as an int64, whatever they are: beyond `FAR` and -`FAR` it is a number on the same side, at least about as far."""
    a, b = (imm(x, "int64") if isinstance(x, int) else x for x in (a, b))
    near_a, near_b = (_is_near(x, analyzer) for x in (a, b))
    a, b = as_dtype(a, "int64"), as_dtype(b, "int64")
    if not (near_a and near_b):
        far = 2 * FAR
        low, high = imm(-far, "int64"), imm(far, "int64")
        if not near_b:
            low, high = tirx.max(b, imm(far - _LARGEST - 1, "int64")) - far, tirx.min(b, imm(_LARGEST - far, "int64")) + far
        a = tirx.min(tirx.max(a, low), high)
    return a - b + imm(plus, "int64")


def _is_near(e, analyzer: sym.Analyzer) -> bool:
    """True for numbers that differ by what an int64 holds."""
    if dtype_of(e) == "int32":
        return True
    bound = analyzer.const_int_bound(e)
    return -FAR <= int(bound.min_value) and int(bound.max_value) <= FAR


def _range(e, analyzer: sym.Analyzer) -> tuple[int, int]:
    if isinstance(e, int):
        return e, e
    bound = analyzer.const_int_bound(e)
    return max(int(bound.min_value), _LEAST), min(int(bound.max_value), _MOST)


__all__ = ["FAR", "Affine", "affine", "affine_limits", "difference_fits", "far_difference"]
