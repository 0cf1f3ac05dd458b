"""Between which numbers integers of a trace lie, where loops and lengths tell."""

from __future__ import annotations

from typing import Any

from ..ir import Var, const_int, tirx

NOMINAL = 4096
"""Of a length nobody knows: long enough for many tiles."""

Range = tuple[int, int]
"""The least and the greatest number."""


class Ranges:
    """What is known of variables. Lengths count as `NOMINAL`; what comes from a tensor or a mutable scalar is unknown."""

    def __init__(self) -> None:
        self._known: dict[Any, Range | None] = {}
        self._nominal: dict[Any, int] = {}

    def set(self, var: Var, known: Range | None, nominal: int = NOMINAL) -> None:
        """`var` lies in a range; None: unknown, then `nominal` stands for it."""
        self._known[var], self._nominal[var] = known, nominal

    def of(self, e) -> Range | None:
        """The range of an integer, None if unknown."""
        constant = const_int(e)
        if constant is not None:
            return constant, constant
        if isinstance(e, Var):
            return self._known.get(e, (NOMINAL, NOMINAL))
        if isinstance(e, tirx.Cast):
            return self.of(e.value)
        compute = _ARITHMETIC.get(type(e))
        if compute is None:
            return None
        a, b = self.of(e.a), self.of(e.b)
        return None if a is None or b is None else compute(a, b)

    def nominal(self, e) -> int:
        """One number for `e`: the middle of its range, or what follows from `NOMINAL` for its unknown parts."""
        known = self.of(e)
        if known is not None:
            return (known[0] + known[1]) // 2
        if isinstance(e, (tirx.FloorDiv, tirx.Min, tirx.Max)):
            a, b = self.nominal(e.a), self.nominal(e.b)
            if isinstance(e, tirx.FloorDiv):
                return a // b if b else NOMINAL
            return min(a, b) if isinstance(e, tirx.Min) else max(a, b)
        return self._nominal.get(e, NOMINAL) if isinstance(e, Var) else NOMINAL


def _products(a: Range, b: Range) -> Range:
    every = [x * y for x in a for y in b]
    return min(every), max(every)


def _quotients(a: Range, b: Range) -> Range | None:
    if b[0] <= 0:
        return None
    every = [x // y for x in a for y in b]
    return min(every), max(every)


def _remainders(a: Range, b: Range) -> Range | None:
    if b[0] <= 0:
        return None
    return a if 0 <= a[0] and a[1] < b[0] else (0, b[1] - 1)


_ARITHMETIC = {
    tirx.Add: lambda a, b: (a[0] + b[0], a[1] + b[1]),
    tirx.Sub: lambda a, b: (a[0] - b[1], a[1] - b[0]),
    tirx.Mul: _products,
    tirx.Min: lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    tirx.Max: lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    tirx.FloorDiv: _quotients,
    tirx.FloorMod: _remainders,
}

__all__ = ["NOMINAL", "Range", "Ranges"]
