"""Numbers of the Tile IR interpreter: dtypes, conversions and functions, for single values and for arrays of them.

A single integer is a Python int, a single float a NumPy scalar of its dtype. Arrays of integers are int64 (uint64 for that dtype)
whatever the dtype of the expression, with values of that dtype's range; arrays of floats have their dtype.
"""

from __future__ import annotations

import math
import operator
from typing import Callable

import ml_dtypes
import numpy as np

_EXTENDED = {
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "float8_e8m0fnu": ml_dtypes.float8_e8m0fnu,
}
_EXTENDED_TYPES = frozenset(_EXTENDED.values())
_POWERS = np.dtype(ml_dtypes.float8_e8m0fnu)


def numpy_dtype(name: str) -> np.dtype:
    """NumPy dtype of a dtype name."""
    return np.dtype(_EXTENDED.get(str(name), str(name)))


def is_float(dtype: np.dtype) -> bool:
    """True for floating-point dtypes, those of ml_dtypes included."""
    return dtype.kind == "f" or dtype.type in _EXTENDED_TYPES


def poison(shape: tuple, dtype: np.dtype) -> np.ndarray:
    """Fresh memory: NaN, or 0x5A bytes for integers."""
    if is_float(dtype):
        return np.full(shape, np.nan, dtype)
    if dtype.kind == "b":
        return np.ones(shape, bool)
    return np.full(math.prod(shape) * dtype.itemsize, 0x5A, np.uint8).view(dtype).reshape(shape)


def loaded(values):
    """What was read from memory, as a value of an expression."""
    kind = values.dtype.kind
    if values.ndim:
        return values.astype(np.int64) if kind == "i" or (kind == "u" and values.itemsize < 8) else values
    if kind == "b":
        return bool(values)
    return int(values) if kind in "iu" else values[()]


def convert(value, dtype: np.dtype):
    """A value or an array in `dtype` (docs/numbers.md): floats truncate to integers and stop at the ends of the range, NaN becomes 0,
    integers wrap."""
    if isinstance(value, np.ndarray) and value.ndim:
        if value.dtype.type in _EXTENDED_TYPES and dtype != value.dtype:
            value = value.astype(np.float32)
        if dtype.kind in "iu" and value.dtype.kind == "f":
            low, high = _float_limits(dtype)
            value = np.nan_to_num(np.trunc(value.astype(np.float64)), nan=0.0, posinf=np.inf, neginf=-np.inf)
            inside = (value > low) & (value < high)
            whole = np.uint64 if dtype == np.uint64 else np.int64
            value = np.where(inside, np.where(inside, value, 0).astype(whole), np.where(value <= low, whole(low), whole(high)))
        return _powers(value, dtype) if dtype == _POWERS and value.dtype != dtype else value.astype(dtype, copy=False)
    if dtype.kind == "b":
        return bool(value)
    if dtype.kind in "iu":
        if isinstance(value, np.integer):
            value = int(value)
        elif not isinstance(value, (int, bool)):
            number, (low, high) = float(value), _float_limits(dtype)
            value = 0 if number != number else low if number <= low else high if number >= high else int(number)
        bits = 8 * dtype.itemsize
        value &= (1 << bits) - 1
        return value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value
    if dtype == _POWERS and getattr(value, "dtype", None) != dtype:
        return _powers(value, dtype)[()]
    if dtype.type in _EXTENDED_TYPES and isinstance(value, int) and value >= 1 << 63:
        value = np.uint64(value).astype(np.float32)  # `ml_dtypes` takes no integer beyond int64
    return dtype.type(value if isinstance(value, (int, float)) else np.float64(value))


def _powers(value, dtype: np.dtype):
    """Floats or integers as powers of two (docs/numbers.md): the sign goes, and 0 becomes the smallest one. `ml_dtypes` gives NaN for both."""
    value = value if isinstance(value, (int, float)) else value.astype(np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        return np.maximum(np.abs(np.asarray(value, np.float32)), np.finfo(np.float32).smallest_subnormal).astype(dtype)


def _float_limits(dtype: np.dtype) -> tuple[int, int]:
    """Ends of the range of conversions from floats: negative numbers wrap in unsigned integers of 16 and 32 bits, down to the end of int32."""
    if dtype.name == "uint32":
        return -(2**31), 2**32 - 1
    info = np.iinfo(np.int32 if dtype.name == "uint16" else dtype)
    return int(info.min), int(info.max)


def as_value(value, dtype: np.dtype):
    """`value` converted to `dtype`, in the form values of expressions have."""
    out = convert(value, dtype)
    return loaded(out) if isinstance(out, np.ndarray) and out.ndim else out


def _many(*values) -> bool:
    return any(isinstance(v, np.ndarray) and v.ndim for v in values)


def _is_int(v) -> bool:
    return v.dtype.kind in "iub" if isinstance(v, (np.ndarray, np.generic)) and hasattr(v, "dtype") else isinstance(v, int)


def _div(a, b):
    if not (_is_int(a) and _is_int(b)):
        return np.true_divide(a, b)
    # From the floor: the smallest number has no absolute value.
    if not _many(a, b):
        return a // b + (1 if a % b and (a < 0) != (b < 0) else 0) if b else 0
    b0 = np.where(b == 0, 1, b)
    quotient = np.floor_divide(a, b0) + ((np.mod(a, b0) != 0) & ((np.asarray(a) < 0) != (b0 < 0)))
    return np.where(b == 0, 0, quotient)


def _mod(a, b):
    if not (_is_int(a) and _is_int(b)):
        return np.fmod(a, b)
    if not _many(a, b):
        return a % b - (b if a % b and (a < 0) != (b < 0) else 0) if b else 0
    return np.where(b == 0, 0, np.fmod(a, np.where(b == 0, 1, b)))


def _floordiv(a, b):
    if _is_int(a) and _is_int(b):
        if not _many(a, b):
            return a // b if b else 0
        return np.where(b == 0, 0, np.floor_divide(a, np.where(b == 0, 1, b)))
    return np.floor(np.true_divide(a, b))


def _floormod(a, b):
    if _is_int(a) and _is_int(b):
        if not _many(a, b):
            return a % b if b else 0
        return np.where(b == 0, 0, np.mod(a, np.where(b == 0, 1, b)))
    return np.mod(a, b)


def _larger(a, b):
    """NaN wins, 0 lies above -0."""
    if _many(a, b):
        first = (a > b) | (a != a) | ((a == b) & ~np.signbit(a)) if not _is_int(a) else a >= b
        return np.where(first, a, b)
    if a == b and not _is_int(a):
        return b if math.copysign(1, a) < 0 else a
    return a if a >= b or a != a else b


def _smaller(a, b):
    """NaN wins, -0 lies below 0."""
    if _many(a, b):
        first = (a < b) | (a != a) | ((a == b) & np.signbit(a)) if not _is_int(a) else a <= b
        return np.where(first, a, b)
    if a == b and not _is_int(a):
        return a if math.copysign(1, a) < 0 else b
    return a if a <= b or a != a else b


def _shift_left(a, n):
    """The amount counts as unsigned: beyond the width nothing is left."""
    if _many(a, n):
        return np.where((n < 0) | (n > 63), 0, np.left_shift(a, np.clip(n, 0, 63)))
    return a << n if 0 <= n < 64 else 0


def _shift_right(a, n):
    """The amount counts as unsigned: beyond the width the sign is left."""
    if _many(a, n):
        outside = (n < 0) | (n > 63)
        shifted = np.right_shift(a, np.where(outside, 63, n))
        return np.where(outside, np.right_shift(shifted, 1), shifted)  # 63 bits leave the upper one of uint64
    return a >> (n if 0 <= n < 64 else 64)


def integer_power(a, n, dtype: np.dtype):
    """Integers of `dtype` to the power of others, whose products wrap; to a negative power only 1 and -1 are not 0."""

    def one(a, n):
        a, n = int(a), int(n)
        if n < 0:
            return a if a in (1, -1) and n % 2 else int(a in (1, -1))
        return pow(a, n, 1 << 8 * dtype.itemsize)

    if not _many(a, n):
        return one(a, n)
    bits = np.frompyfunc(lambda a, n: one(a, n) % (1 << 8 * dtype.itemsize), 2, 1)(a, n)
    return bits.astype(f"u{dtype.itemsize}").view(dtype)


def of_dtype(function: Callable, dtype: np.dtype) -> Callable:
    """`function` of integers of `dtype`. A single one beside an array of uint64 is one, too: as a Python int it may become an int64, and both
    together float64."""
    if dtype != np.uint64:
        return function

    def run(*values):
        return function(*(np.uint64(v) if isinstance(v, int) else v for v in values) if _many(*values) else values)

    return run


BINARY: dict[str, Callable] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Div": _div,
    "Mod": _mod,
    "FloorDiv": _floordiv,
    "FloorMod": _floormod,
    "Max": _larger,
    "Min": _smaller,
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
    "EQ": operator.eq,
    "NE": operator.ne,
    "LShift": _shift_left,
    "RShift": _shift_right,
    "BitwiseAnd": operator.and_,
    "BitwiseOr": operator.or_,
    "BitwiseXor": operator.xor,
}

BITWISE: dict[str, Callable] = {
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "bitwise_not": operator.invert,
    "shift_left": _shift_left,
    "shift_right": _shift_right,
}

_erf = np.frompyfunc(math.erf, 1, 1)

FUNCTIONS: dict[str, Callable] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "exp10": lambda x: np.power(10.0, x),
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "atan2": np.arctan2,
    "sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)),
    "erf": lambda x: np.asarray(_erf(x), np.float64),
    "pow": np.float_power,
    "fabs": np.abs,
    # Conversions from float to float make 0 of -0.
    "floor": lambda x: np.floor(x) + 0.0,
    "ceil": lambda x: np.ceil(x) + 0.0,
    "trunc": lambda x: np.trunc(x) + 0.0,
    "round": lambda x: np.rint(x) + 0.0,
    "nearbyint": lambda x: np.rint(x) + 0.0,
    "fmod": np.fmod,
    "copysign": np.copysign,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
}


def _picked(pick: Callable, changes_nothing: Callable) -> Callable:
    """The largest or smallest number along an axis, where -0 lies below 0; of none the one that changes no other."""
    first = 0.0 if pick is np.max else -0.0

    def apply(x, d):
        if x.shape[d]:
            out = pick(x, axis=d)
            if x.dtype.kind != "f" or np.all(out):
                return out
            found = ((x == 0) & (np.signbit(x) == np.signbit(first))).any(axis=d)
            return np.where(out == 0, np.where(found, first, -first), out).astype(x.dtype)
        return np.full(np.delete(x.shape, d), changes_nothing(x.dtype), x.dtype)

    return apply


def _least(dtype):
    return -np.inf if is_float(dtype) else False if dtype.kind == "b" else np.iinfo(dtype).min


def _most(dtype):
    return np.inf if is_float(dtype) else True if dtype.kind == "b" else np.iinfo(dtype).max


REDUCTIONS: dict[str, Callable] = {
    "sum": lambda x, d: np.sum(x, axis=d, dtype=x.dtype, initial=-0.0 if x.dtype.kind == "f" and x.shape[d] else 0),
    "max": _picked(np.max, _least),
    "min": _picked(np.min, _most),
    "abssum": lambda x, d: np.sum(np.abs(x), axis=d, dtype=x.dtype),
    "absmax": lambda x, d: np.max(np.abs(x), axis=d) if x.shape[d] else np.sum(x, axis=d, dtype=x.dtype),
    "any": lambda x, d: np.any(x != 0, axis=d),
    "all": lambda x, d: np.all(x != 0, axis=d),
    "bitand": lambda x, d: np.bitwise_and.reduce(x, axis=d),
    "bitor": lambda x, d: np.bitwise_or.reduce(x, axis=d),
    "bitxor": lambda x, d: np.bitwise_xor.reduce(x, axis=d),
}


def running_maxima(x, d):
    """The largest number so far along an axis."""
    out = np.maximum.accumulate(x, axis=d)
    if x.dtype.kind != "f":
        return out
    found = np.logical_or.accumulate((x == 0) & ~np.signbit(x), axis=d)
    return np.where(out == 0, np.where(found, 0.0, -0.0), out).astype(x.dtype)


COMBINE: dict[str, Callable] = {
    "sum": np.add,
    "max": _larger,
    "min": _smaller,
    "abssum": np.add,
    "absmax": np.maximum,
    "any": np.logical_or,
    "all": np.logical_and,
    "bitand": np.bitwise_and,
    "bitor": np.bitwise_or,
    "bitxor": np.bitwise_xor,
}
