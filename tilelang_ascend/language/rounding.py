"""Casts with a direction of rounding: `T.cast(x, dtype, "rz")`.

The hardware rounds floats to the nearest one; the other directions are the result of that, moved by one step where it lies on the wrong
side. Steps are steps of the bits: neighbouring floats are neighbouring integers.
"""

from __future__ import annotations

import math

import ml_dtypes

from ..errors import InvalidArgument
from ..frontend.annotations import is_float
from ..frontend.operators import as_scalar, cast, number, select
from ..ir import dtype_of, itemsize, tirx

MODES = ("rn", "rz", "ru", "rd", "rna")


def check_mode(mode: str, what: str, known=MODES) -> str:
    """`mode`, which may be empty. Raises `InvalidArgument` for others."""
    if mode in ("", None) or mode in known:
        return mode or ""
    hint = "use one of: " + ", ".join(repr(m) for m in known)
    if mode == "rs":
        hint = "stochastic rounding needs random bits: add them to the bits of the value (T.reinterpret) and cast with 'rz'"
    raise InvalidArgument(f"{what} does not round with {mode!r}", hint=hint)


def rounded_cast(value, dtype: str, mode: str):
    """The float `value` converted to `dtype`: "rn" to nearest (halves to even), "rna" (halves away from zero), "rz" towards zero, "ru" up,
    "rd" down."""
    x = as_scalar(value)
    if not is_float(dtype_of(x)):
        if is_float(dtype) and itemsize(dtype) < 8:
            raise InvalidArgument(
                f"T.cast of {dtype_of(x)} to {dtype} with {mode!r}", hint="cast to float32 first; it is exact below 2**24"
            )
        return cast(x, dtype)
    if not is_float(dtype):
        return cast(_whole(cast(x, "float32"), mode), dtype)
    if dtype == "float4_e2m1fn":
        return cast(_in_4_bits(cast(x, "float32"), mode), dtype)
    if itemsize(dtype) >= itemsize(dtype_of(x)) and not itemsize(dtype) == itemsize(dtype_of(x)) == 2:
        return cast(x, dtype)
    return _narrowed(cast(x, "float32"), dtype, mode)


def saturated(value, dtype: str):
    """A float cut to the numbers of the 8-bit float `dtype`."""
    x = cast(as_scalar(value), "float32")
    most = number(float(ml_dtypes.finfo(dtype).max), "float32")
    return select(x > most, most, select(x < -most, -most, x))


def _whole(x, mode: str):
    """A float32 rounded to a whole number."""
    simple = {"rn": tirx.nearbyint, "rz": tirx.trunc, "ru": tirx.ceil, "rd": tirx.floor}
    if mode in simple:
        return simple[mode](x)
    whole, one = tirx.trunc(x), number(1, "float32")
    away = select(x < 0, whole - one, whole + one)
    return select(tirx.abs(x - whole) >= number(0.5, "float32"), away, whole)


def _narrowed(x, dtype: str, mode: str):
    if dtype == "float8_e8m0fnu" and mode in ("rz", "rd", "ru"):
        return cast(_power(x, up=mode == "ru"), dtype)
    if dtype == "float8_e4m3fn" and mode in ("rz", "ru", "rd"):
        x = _inside(x, number(float(ml_dtypes.finfo(dtype).max), "float32"), mode)
    nearest = cast(x, dtype)
    if mode == "rn" or dtype == "float8_e8m0fnu":  # whose halves go away from zero anyway
        return nearest
    back, zero = cast(nearest, "float32"), number(0, "float32")
    word = f"int{8 * itemsize(dtype)}"

    def step(by: int):
        """The neighbour of the result, away from zero or towards it."""
        return tirx.reinterpret(dtype, cast(cast(tirx.reinterpret(word, nearest), "int32") + by, word))

    outer, inner = step(1), step(-1)
    if mode == "rz":
        return select(tirx.abs(back) > tirx.abs(x), inner, nearest)
    if mode == "rna":
        size, low = tirx.abs(x), tirx.abs(back)
        tie = tirx.And(low < size, tirx.EQ(size - low, tirx.abs(cast(outer, "float32")) - size))
        return select(tie, outer, nearest)
    wrong = back < x if mode == "ru" else back > x
    away = x > zero if mode == "ru" else x < zero
    return select(wrong, select(away, outer, inner), nearest)


def _inside(x, most, mode: str):
    """x, or the largest number where a finite x lies beyond it on the side from which `mode` rounds: there is no infinity to step back from."""
    infinite = number(math.inf, "float32")
    cut = x
    if mode != "ru":
        cut = select(tirx.And(x > most, x < infinite), most, cut)
    if mode != "rd":
        cut = select(tirx.And(x < -most, x > -infinite), -most, cut)
    return cut


def _in_4_bits(x, mode: str):
    """The float4_e2m1fn next to a float32, as one; 6 if there is none, and for NaN."""
    x = select(tirx.EQ(x, x), x, number(6, "float32"))
    size = tirx.min(tirx.abs(x), number(6, "float32"))

    def among(whole):
        two, half = number(2, "float32"), number(0.5, "float32")
        return select(size < two, whole(size * two) * half, select(size < number(4, "float32"), whole(size), whole(size * half) * two))

    if mode in ("ru", "rd"):
        zero = number(0, "float32")
        size = select(x > zero if mode == "ru" else x < zero, among(tirx.ceil), among(tirx.floor))
    else:
        size = among(lambda v: _whole(v, mode))
    sign = tirx.bitwise_and(tirx.reinterpret("int32", x), -(2**31))
    return tirx.reinterpret("float32", tirx.bitwise_or(tirx.reinterpret("int32", size), sign))


def _power(x, up: bool):
    """The power of two next to the size of a float32, above or below, or the number itself; 0 below the smallest normal float32, unless a
    power above is asked for and half of that number is less."""
    size = tirx.min(tirx.bitwise_and(tirx.reinterpret("int32", x), 0x7FFFFFFF), 0x7F800000)
    if up:
        size = select(size > 1 << 22, size + 0x7FFFFF, 0)
    return tirx.reinterpret("float32", tirx.bitwise_and(size, 0x7F800000))


__all__ = ["MODES", "check_mode", "rounded_cast", "saturated"]
