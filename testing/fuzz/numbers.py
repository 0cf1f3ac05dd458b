"""Arrays of numbers that know how far a correct program may be from them.

The oracle of the fuzzer computes with `Numbers`: values in the dtype of the expression, and for every element a bound on
the difference between this value and that of any correct program. Exact operations on exact numbers stay exact (bound 0,
compared bit by bit); a rounding adds one unit in the last place, a function such as exp its documented error; where a
decision hangs on an inexact number, or a conversion overflows, the bound is infinite and the element is not compared.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
"""Floats that are only stored: nothing computes in them."""
FLOATS = {
    "float32": np.dtype(np.float32), "float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16),
    **{name: np.dtype(getattr(ml_dtypes, name)) for name in FLOAT8},
}  # fmt: skip
EPS = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
"""Distance of neighbouring numbers next to 1."""
SMALLEST = {"float32": 2.0**-126, "float16": 2.0**-14, "bfloat16": 2.0**-126}
LARGEST = {"float32": 3.4e38, "float16": 65504.0, "bfloat16": 3.38e38, "float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}
FUNCTION_ULPS = 6
"""Units in the last place of float32 by which exp, erf, … may be off."""
UNKNOWN = np.inf
NARROW = ("int8", "uint8", "int16", "uint16")
"""Integers whose arithmetic is done in int32."""


def is_float(dtype: str) -> bool:
    """Whether `dtype` is a float."""
    return dtype in FLOATS


def numpy_dtype(name: str) -> np.dtype:
    """NumPy dtype of a dtype name."""
    return FLOATS.get(name) or np.dtype(name)


class Numbers:
    """An array: `v` holds values (float64, int64 or bool), `e` bounds of their errors."""

    __slots__ = ("dtype", "e", "v")
    __array_priority__ = 1000

    def __init__(self, dtype: str, v, e=0.0):
        self.dtype, self.v, self.e = dtype, np.asarray(v), np.asarray(e, np.float64)

    def __add__(self, other):
        a, b = operands(self, other)
        return settle(a.dtype, a.v + b.v, a.e + b.e)

    def __radd__(self, other):
        return like(self, other) + self

    def __sub__(self, other):
        a, b = operands(self, other)
        return settle(a.dtype, a.v - b.v, a.e + b.e)

    def __rsub__(self, other):
        return like(self, other) - self

    def __neg__(self):
        x = computed(self)
        return settle(x.dtype, -x.v, x.e)

    def __mul__(self, other):
        a, b = operands(self, other)
        return settle(a.dtype, a.v * b.v, times(np.abs(a.v), b.e) + times(np.abs(b.v), a.e) + times(a.e, b.e))

    def __rmul__(self, other):
        return like(self, other) * self

    def __truediv__(self, other):
        a, b = operands(self, other)
        q = a.v / b.v
        room = np.abs(b.v) - b.e
        e = np.where(room > 0, (a.e + times(np.abs(q), b.e)) / np.where(room > 0, room, 1), UNKNOWN)
        power = np.frexp(b.v)[0] == 0.5  # dividing by a power of two rounds once; otherwise a reciprocal may be used
        return settle(a.dtype, q, e + np.where(power, 0, 2 * EPS[a.dtype] * np.abs(q)))

    def __rtruediv__(self, other):
        return like(self, other) / self

    def _integers(self, other, function, both=None):
        a, b = (both or pair)(self, other)
        known = (a.e == 0) & (b.e == 0)
        return settle(a.dtype, function(a.v, b.v), np.where(known, 0, UNKNOWN))

    def __floordiv__(self, other):
        return self._integers(other, lambda a, b: np.floor_divide(a, np.where(b == 0, 1, b)), operands)

    def __mod__(self, other):
        return self._integers(other, lambda a, b: np.mod(a, np.where(b == 0, 1, b)), operands)

    def __and__(self, other):
        return self._integers(other, np.bitwise_and)

    def __or__(self, other):
        return self._integers(other, np.bitwise_or)

    def __xor__(self, other):
        return self._integers(other, np.bitwise_xor)

    def __invert__(self):
        x = computed(self)
        return settle(x.dtype, ~x.v, np.where(x.e == 0, 0, UNKNOWN))

    def __lshift__(self, other):
        return self._integers(other, np.left_shift, operands)

    def __rshift__(self, other):
        return self._integers(other, np.right_shift)

    def _compare(self, other, function):
        a, b = pair(self, other)
        exact = (a.e == 0) & (b.e == 0)
        apart = np.abs(np.subtract(a.v, b.v, dtype=np.float64)) > a.e + b.e
        return Numbers("bool", function(a.v, b.v), np.where(exact | apart, 0, UNKNOWN))

    def __lt__(self, other):
        return self._compare(other, np.less)

    def __le__(self, other):
        return self._compare(other, np.less_equal)

    def __gt__(self, other):
        return self._compare(other, np.greater)

    def __ge__(self, other):
        return self._compare(other, np.greater_equal)

    def __eq__(self, other):
        return self._compare(other, np.equal)

    def __ne__(self, other):
        return self._compare(other, np.not_equal)

    __hash__ = None


def times(a, b):
    """a * b for bounds, where 0 times unknown is 0."""
    return np.where((a == 0) | (b == 0), 0.0, a * b)


def of(dtype: str, value) -> Numbers:
    """Exact numbers of a dtype."""
    v = np.asarray(value)
    return Numbers(dtype, v.astype(np.float64 if is_float(dtype) else bool if dtype == "bool" else np.int64))


def as_numbers(x) -> Numbers:
    """Indices and conditions as numbers."""
    if isinstance(x, Numbers):
        return x
    return of("bool" if np.asarray(x).dtype == bool else "int32", x)


def like(a: Numbers, other) -> Numbers:
    """`other` as numbers; a bare number takes the dtype of `a`."""
    return other if isinstance(other, Numbers) else of(a.dtype, other)


def pair(a, b) -> tuple[Numbers, Numbers]:
    """Both operands in one dtype: float16 meets float32 in float32."""
    a, b = (a, like(a, b)) if isinstance(a, Numbers) else (like(b, a), b)
    if a.dtype == b.dtype:
        return a, b
    if not is_float(a.dtype) and not is_float(b.dtype):
        common = max(a.dtype, b.dtype, key=lambda d: numpy_dtype(d).itemsize)
        return cast(a, common), cast(b, common)
    assert "float32" in (a.dtype, b.dtype) and is_float(a.dtype) and is_float(b.dtype), (a.dtype, b.dtype)
    return cast(a, "float32"), cast(b, "float32")


def computed(x: Numbers) -> Numbers:
    """An operand in the dtype arithmetic on it is done in (docs/numbers.md)."""
    return cast(x, {**dict.fromkeys(NARROW, "int32"), "bfloat16": "float32"}.get(x.dtype, x.dtype))


def operands(a, b) -> tuple[Numbers, Numbers]:
    """Both operands of arithmetic."""
    a, b = pair(a, b)
    return computed(a), computed(b)


def settle(dtype: str, v, e) -> Numbers:
    """The result of one operation: rounded, or wrapped, to `dtype`."""
    if is_float(dtype):
        rounded = v.astype(FLOATS[dtype]).astype(np.float64)
        # A correct program may keep a wider intermediate, or fuse, as soon as something has been rounded.
        inexact = (rounded != v) | (e > 0)
        e = e + np.where(inexact, EPS[dtype] * np.maximum(np.abs(v), SMALLEST[dtype]), 0)
        return Numbers(dtype, rounded, np.where(np.abs(v) + e <= LARGEST[dtype], e, UNKNOWN))
    if dtype == "bool":
        return Numbers(dtype, v.astype(bool), np.where(e == 0, 0, UNKNOWN))
    wrapped = v.astype(np.int64).astype(numpy_dtype(dtype)).astype(np.int64)
    wraps = (wrapped != v) | ((e > 0) & (dtype not in ("int64", "int32")))
    return Numbers(dtype, wrapped, np.where(wraps & (e > 0), UNKNOWN, e))


def cast(x, dtype: str) -> Numbers:
    """`x` in another dtype: floats truncate to integers, integers wrap, anything but 0 is true."""
    x = as_numbers(x)
    if x.dtype == dtype:
        return x
    if dtype == "bool":
        return x != 0
    if dtype in FLOAT8:
        return _stored(x, dtype)
    if not is_float(x.dtype) or is_float(dtype):
        v = x.v.astype(np.float64 if is_float(dtype) else np.int64)
        return settle(dtype, v, np.where(np.isfinite(x.e), x.e, UNKNOWN))
    info = np.iinfo(dtype)
    whole = np.trunc(np.nan_to_num(x.v))
    e = spread(np.trunc, x)
    outside = (np.abs(whole) > 2.0**62) | (whole < info.min) | (whole > info.max)
    return settle(dtype, np.where(outside, 0, whole).astype(np.int64), np.where(outside | (e > 0), UNKNOWN, 0))


def _stored(x: Numbers, dtype: str) -> Numbers:
    """`x` as 8-bit floats: rounded once, to nearest even, exactly so if `x` is exact. What is too large is not compared."""

    def rounded(a):
        return a.astype(np.float32).astype(FLOATS[dtype]).astype(np.float64)

    with np.errstate(all="ignore"):
        v, e = rounded(x.v), spread(rounded, x)
    inside = np.abs(x.v) + x.e <= LARGEST[dtype]
    return Numbers(dtype, np.where(inside, v, 0.0), np.where(inside, e, UNKNOWN))


def reinterpret(x: Numbers, dtype: str) -> Numbers:
    """The bits of `x` as another dtype of the same width. Zeros, NaN and subnormals are not compared, but those of 8-bit floats."""
    v = x.v.astype(numpy_dtype(x.dtype)).view(numpy_dtype(dtype)).astype(np.float64 if is_float(dtype) else np.int64)
    known = x.e == 0
    for name, numbers in ((x.dtype, x.v), (dtype, v)):
        if is_float(name):
            known = known & (np.abs(numbers) >= SMALLEST.get(name, np.finfo(float).tiny)) & (np.abs(numbers) <= LARGEST[name])
    return Numbers(dtype, np.where(known, v, v.dtype.type(0)), np.where(known, 0, UNKNOWN))


def spread(function, x: Numbers):
    """How far a monotonic function moves within the bounds of `x`."""
    with np.errstate(all="ignore"):
        here = function(x.v)
        wide = np.maximum(np.abs(function(x.v + x.e) - here), np.abs(function(x.v - x.e) - here))
    return np.where(x.e == 0, 0.0, np.nan_to_num(wide, nan=UNKNOWN, posinf=UNKNOWN))


def function_of(numpy_function, slope=None, exact=False):
    """An element function: monotonic, or with derivatives of at most `slope`; `exact` ones do not round."""

    def call(x):
        x = as_numbers(x)
        if not is_float(x.dtype):
            x = cast(x, "float32")
        with np.errstate(all="ignore"):
            v = np.asarray(numpy_function(x.v), np.float64)
        e = spread(numpy_function, x) if slope is None else times(np.float64(slope), x.e)
        if not exact:
            e = e + FUNCTION_ULPS * EPS["float32"] * np.maximum(np.abs(v), 0 if slope is None else 1)
        return settle(x.dtype, v, np.where(np.isfinite(v), e, UNKNOWN))

    return call


@np.vectorize
def _erf(x):
    import math

    return math.erf(x)


exp = function_of(np.exp)
exp2 = function_of(np.exp2)
log = function_of(np.log)
log2 = function_of(np.log2)
log1p = function_of(np.log1p)
sqrt = function_of(np.sqrt)
rsqrt = function_of(lambda x: 1 / np.sqrt(x))
tanh = function_of(np.tanh)
sigmoid = function_of(lambda x: 1 / (1 + np.exp(-x)))
erf = function_of(lambda x: _erf(x).astype(np.float64) if np.size(x) else x)
tan = function_of(np.tan)
sin = function_of(np.sin, slope=1)
cos = function_of(np.cos, slope=1)
floor = function_of(np.floor, exact=True)
ceil = function_of(np.ceil, exact=True)
trunc = function_of(np.trunc, exact=True)
nearest = function_of(np.rint, exact=True)


def power(a, b):
    """a ** b for positive a."""
    a, b = pair(a, b)
    product = times(np.abs(np.log(a.v)), b.e) + times(np.abs(b.v), a.e / np.maximum(a.v - a.e, 1e-30))
    v = a.v**b.v
    return settle(a.dtype, v, v * np.expm1(product) + 2 * FUNCTION_ULPS * EPS["float32"] * v * (1 + np.abs(b.v)))


def absolute(x) -> Numbers:
    """|x|."""
    return settle(x.dtype, np.abs(x.v), x.e)


def maximum(a, b) -> Numbers:
    """The larger one."""
    a, b = pair(a, b)
    return Numbers(a.dtype, np.maximum(a.v, b.v), np.where(a.v - a.e > b.v + b.e, a.e, np.where(
        b.v - b.e > a.v + a.e, b.e, np.maximum(a.e, b.e))))  # fmt: skip


def minimum(a, b) -> Numbers:
    """The smaller one."""
    a, b = pair(a, b)
    return Numbers(a.dtype, np.minimum(a.v, b.v), np.where(a.v + a.e < b.v - b.e, a.e, np.where(
        b.v + b.e < a.v - a.e, b.e, np.maximum(a.e, b.e))))  # fmt: skip


def where(condition, a, b) -> Numbers:
    """`a` where the condition holds, else `b`."""
    c = as_numbers(condition)
    a, b = pair(a, b)
    with np.errstate(invalid="ignore"):
        either = np.abs(np.where(a.v == b.v, 0.0, a.v.astype(np.float64) - b.v)) + np.maximum(a.e, b.e)
    return Numbers(a.dtype, np.where(c.v, a.v, b.v), np.where(c.e > 0, either, np.where(c.v, a.e, b.e)))


def both(a, b) -> Numbers:
    """Conjunction."""
    a, b = as_numbers(a), as_numbers(b)
    settled = ((a.e == 0) & ~a.v) | ((b.e == 0) & ~b.v) | ((a.e == 0) & (b.e == 0))
    return Numbers("bool", a.v & b.v, np.where(settled, 0, UNKNOWN))


def negate(a) -> Numbers:
    """Negation."""
    a = as_numbers(a)
    return Numbers("bool", ~a.v, a.e)


def either(a, b) -> Numbers:
    """Disjunction."""
    return negate(both(negate(a), negate(b)))


def truth(a) -> bool:
    """A condition the scalar unit decides; it has to be exact."""
    a = as_numbers(a)
    assert a.e == 0, "a branch hangs on an inexact number"
    return bool(a.v)


def index(a) -> np.ndarray:
    """Numbers used as indices."""
    a = as_numbers(a)
    assert not np.any(a.e), "an index hangs on an inexact number"
    return a.v


def ceildiv(a: int, b: int) -> int:
    """a / b, rounded up."""
    return -(-a // b)


def neutral(kind: str, dtype: str) -> Numbers:
    """What a reducer of an operation starts with."""
    if kind == "sum":
        return of(dtype, 0)
    sign = -1 if kind == "max" else 1
    if is_float(dtype):
        return of(dtype, sign * np.inf)
    info = np.iinfo(dtype)
    return of(dtype, info.min if kind == "max" else info.max)
