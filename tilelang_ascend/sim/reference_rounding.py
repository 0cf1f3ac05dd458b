"""float32 arithmetic with a direction of rounding, by exact fractions: what `T.ieee_*` mean."""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Callable

import numpy as np

from ..ir.build import DIRECTIONS

_LARGEST = float(np.finfo(np.float32).max)


def directed(name: str, mode: str, *operands: float) -> float:
    """The float32 next to the exact result of an operation, in a direction: "rn" to nearest, "rz" towards zero, "ru" up, "rd" down."""
    exact, of_zero, nearest = EXACT[name]
    with np.errstate(all="ignore"):
        plain = float(nearest(*map(np.float64, operands)))
    if not all(map(math.isfinite, operands)) or not math.isfinite(plain):
        return plain
    found = exact(*map(Fraction, operands))
    return _rounded(found, mode) if found else of_zero(*operands, mode)


def _rounded(exact: Fraction, mode: str) -> float:
    """The float32 next to a number other than 0."""
    unit = Fraction(2) ** max(_exponent(abs(exact)) - 23, -149)
    value = {"rz": math.trunc, "rd": math.floor, "ru": math.ceil, "rn": round}[mode](exact / unit) * unit
    sign = math.copysign(1.0, exact)
    if abs(value) > _LARGEST:
        return sign * (_LARGEST if mode == "rz" or mode == ("rd" if sign > 0 else "ru") else math.inf)
    return math.copysign(float(value), sign)


def _exponent(size: Fraction) -> int:
    guess = size.numerator.bit_length() - size.denominator.bit_length()
    return guess if Fraction(2) ** guess <= size else guess - 1


def _root(x: Fraction) -> Fraction:
    """The root with 200 binary digits; where there are more, a last one that says so."""
    big = int(x * 2**400)
    whole = math.isqrt(big)
    return Fraction(2 * whole + (whole * whole != big), 2**201)


def _zero_of_sum(a: float, b: float, mode: str) -> float:
    if a == b == 0 and math.copysign(1, a) == math.copysign(1, b):
        return a
    return -0.0 if mode == "rd" else 0.0


def _product_sign(a: float, b: float) -> float:
    return math.copysign(0.0, math.copysign(1, a) * math.copysign(1, b))


def _zero_of_fused(a: float, b: float, c: float, mode: str) -> float:
    return _zero_of_sum(_product_sign(a, b), c, mode) if a == 0 or b == 0 else _zero_of_sum(1, -1, mode)


EXACT: dict[str, tuple[Callable, Callable, Callable]] = {
    "add": (lambda a, b: a + b, _zero_of_sum, lambda a, b: a + b),
    "sub": (lambda a, b: a - b, lambda a, b, mode: _zero_of_sum(a, -b, mode), lambda a, b: a - b),
    "mul": (lambda a, b: a * b, lambda a, b, mode: _product_sign(a, b), lambda a, b: a * b),
    "fdiv": (lambda a, b: a / b, lambda a, b, mode: _product_sign(a, b), lambda a, b: a / b),
    "frcp": (lambda x: 1 / x, lambda x, mode: 0.0, lambda x: 1 / x),
    "fsqrt": (_root, lambda x, mode: x, np.sqrt),
    "fmaf": (lambda a, b, c: a * b + c, _zero_of_fused, lambda a, b, c: a * b + c),
}
"""name -> (exact value, the zero it is if it is 0, in float64 for infinities and NaN)."""


def _of_arrays(name: str, mode: str) -> Callable:
    each = np.frompyfunc(functools.partial(directed, name, mode), len(_ARITY[name]), 1)
    return lambda *operands: np.asarray(each(*(np.asarray(x, np.float32).astype(np.float64) for x in operands)), np.float64)[()]


_ARITY = {"frcp": "x", "fsqrt": "x", "fmaf": "xyz", **dict.fromkeys(("add", "sub", "mul", "fdiv"), "xy")}

FUNCTIONS: dict[str, Callable] = {f"{name}_{mode}": _of_arrays(name, mode) for name in EXACT for mode in DIRECTIONS}
"""By the name of the operation in Tile IR, for arrays."""

__all__ = ["EXACT", "FUNCTIONS", "directed"]
