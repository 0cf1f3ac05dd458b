"""Sums over some variables, with constant coefficients, or the answer that an expression is none: `sums` reads it, here it is asked about."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import Var, const_int, dtype_of, free_vars, imm, sym
from .sums import Sum, as_sum

_LEAST, _MOST = -(1 << 31), (1 << 31) - 1
"""Ends of the range of int32."""


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


def _range(e, analyzer: sym.Analyzer) -> tuple[int, int]:
    if isinstance(e, int):
        return e, e
    bound = analyzer.const_int_bound(e)
    return max(int(bound.min_value), _LEAST), min(int(bound.max_value), _MOST)


__all__ = ["Affine", "affine", "affine_limits", "difference_fits"]
