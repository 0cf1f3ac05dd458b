"""float32 arithmetic with a direction of rounding, by exact fractions: what `T.ieee_*` mean."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Callable

import numpy as np

from ..errors import DtypeMismatch, InvalidArgument
from .state import here
from .values import Scalar, scalar

MODES = ("rn", "rz", "ru", "rd")
_LARGEST = float(np.finfo(np.float32).max)


def chosen(name: str, value: Callable, rest, mode) -> tuple[Callable, list]:
    """(the function of scalars that rounds as the call says, its further arguments without the mode)."""
    rest = list(rest)
    if mode is None and rest and isinstance(rest[-1], str):
        mode = rest.pop()
    if mode in (None, "", "rn"):
        return value, rest
    if name not in _EXACT:
        raise InvalidArgument(f"T.{name} rounds to nearest, not with {mode!r}", at=here())
    _check(name, mode)
    return lambda *operands: _apply(name, mode, operands), rest


def fused(x, y, z, rounding_mode="rn"):
    """`T.ieee_fmaf`"""
    _check("ieee_fmaf", rounding_mode)
    return _apply("ieee_fmaf", rounding_mode, (x, y, z))


def _check(name: str, mode) -> None:
    if mode not in MODES:
        raise InvalidArgument(f"T.{name} does not round with {mode!r}", at=here(), hint="use one of: " + ", ".join(map(repr, MODES)))


def _apply(name: str, mode: str, operands) -> Scalar:
    given = [scalar(v) for v in operands]
    for v in given:
        if v.dtype != "float32" and not v.literal:
            raise DtypeMismatch(f"T.{name} with {mode!r} is for float32, an operand is {v.dtype}", at=here(), hint="convert it first: T.cast(x, 'float32')")
    fault = next((v.fault for v in given if v.fault is not None), None)
    if fault is not None:
        return Scalar(0, "float32", fault=fault.computed())
    numbers = [float(np.float32(v.value)) for v in given]
    exact, of_zero, nearest = _EXACT[name]
    with np.errstate(all="ignore"):
        plain = float(nearest(*map(np.float64, numbers)))
    if not all(map(math.isfinite, numbers)) or not math.isfinite(plain):
        return Scalar(plain, "float32")
    found = exact(*map(Fraction, numbers))
    if found == 0:
        return Scalar(of_zero(*numbers, mode), "float32")
    return Scalar(_rounded(found, mode), "float32")


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


#: name -> (exact value, the zero it is if it is 0, in float64 for infinities and NaN)
_EXACT: dict[str, tuple[Callable, Callable, Callable]] = {
    "ieee_add": (lambda a, b: a + b, _zero_of_sum, lambda a, b: a + b),
    "ieee_sub": (lambda a, b: a - b, lambda a, b, mode: _zero_of_sum(a, -b, mode), lambda a, b: a - b),
    "ieee_mul": (lambda a, b: a * b, lambda a, b, mode: _product_sign(a, b), lambda a, b: a * b),
    "ieee_fdiv": (lambda a, b: a / b, lambda a, b, mode: _product_sign(a, b), lambda a, b: a / b),
    "ieee_frcp": (lambda x: 1 / x, lambda x, mode: 0.0, lambda x: 1 / x),
    "ieee_fsqrt": (_root, lambda x, mode: x, np.sqrt),
    "ieee_fmaf": (lambda a, b, c: a * b + c, _zero_of_fused, lambda a, b, c: a * b + c),
}
