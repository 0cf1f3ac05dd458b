"""Affine form of index expressions over loop variables, or the answer that there is none.

One of three linear forms, which answer different questions. Here what is not affine is refused, and the rest of a sum is any expression:
TVM's solver sees through products and casts of sums, which the other two read by structure. `linear` compares accesses of one function
across iterations: its atoms are interned there and know the loops they vary in. `tileop/base/sums` builds addresses: any integer is such
a sum, atoms are the expressions themselves, in the order in which they are written to the program.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import Var, const_int, free_vars, imm, sym

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
    """Affine form of `expr` over `variables`, or None if it is not affine with constant coefficients."""
    if not any(v in free_vars(expr) for v in variables):
        return Affine({}, expr)
    parts = sym.detect_linear_equation(expr, list(variables))
    if not parts:
        return None
    coeffs = {}
    for v, c in zip(variables, parts):
        value = const_int(sym.Analyzer().simplify(c))
        if value is None:
            return None
        if value:
            coeffs[v] = value
    base = parts[len(variables)]
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
