"""float32 arithmetic with a direction of rounding: `T.ieee_add(x, y, "rd")` and its relatives.

The hardware rounds to nearest. Every function takes that result, finds out on which side of it the exact one lies, and moves one step where it
is the wrong side. The side comes from the error of the operation, which float32 holds exactly: of a sum by two differences, of a product by
products of halves of the mantissas, of a quotient or a root by multiplying back. Operands are scaled by powers of two first wherever a
part could leave the range. An infinite result of finite operands lies above the exact one; steps in bits give the largest number.
"""

from __future__ import annotations

from typing import Callable

import numpy as np

from ..errors import DtypeMismatch
from ..frontend.builder import Builder, constant
from ..frontend.operators import as_scalar, number, plain, select
from ..frontend.values import is_expr
from ..ir import dtype_of, tirx

MODES = ("rn", "rz", "ru", "rd")

_SIGN, _EXPONENT, _MANTISSA, _ONE = -(2**31), 0x7F800000, 0x7FFFFF, 0x3F800000
_UPPER_HALF = ~0xFFF
"""Of the 24 bits of a mantissa: products of halves have no more."""

_STICKY = -80
"""Power of two that is less than every bit of a product whose factors are in [1, 2): what is smaller only says on which side a sum lies."""


def _f(value: float):
    return number(value, "float32")


def _bits(x):
    return tirx.reinterpret("int32", x)


def _value(bits):
    return tirx.reinterpret("float32", bits)


def _named(value, name: str = "part"):
    """The value under a name: the text of an expression would have it as often as it is used."""
    return value if constant(value) is not None else Builder.current("a rounded operation").let(name, value)


def _any(*conditions):
    out = conditions[0]
    for c in conditions[1:]:
        out = tirx.Or(out, c)
    return out


def _all(*conditions):
    out = conditions[0]
    for c in conditions[1:]:
        out = tirx.And(out, c)
    return out


def _power(k):
    """2**k, for -126 <= k <= 127."""
    return _value(tirx.shift_left(k + 127, 23))


def _negated(x):
    return _value(tirx.bitwise_xor(_bits(x), _SIGN))


def _moved(r, mode: str, below, above):
    """The rounded number `r` or its neighbour; `below` and `above` say where the exact one lies."""
    if mode == "rn":
        return r
    bits, zero = _named(_bits(r), "bits"), _f(0)
    if mode == "rz":
        return select(_any(_all(r > zero, below), _all(r < zero, above)), _value(bits - 1), r)
    down = mode == "rd"
    inner, outer = (bits - 1, bits + 1) if down else (bits + 1, bits - 1)
    step = select(r > zero, inner, select(r < zero, outer, _SIGN + 1 if down else 1))
    return select(below if down else above, _value(step), r)


def _error_of_product(x, y, p):
    """x * y - p, exact, for p = x * y rounded and no part that leaves the range."""
    (xh, xl), (yh, yl) = ((h, _named(v - h)) for v in (x, y) for h in [_named(_value(tirx.bitwise_and(_bits(v), _UPPER_HALF)))])
    return _named((((xh * yh - p) + xh * yl) + xl * yh) + xl * yl, "error")


def _two_sum(a, b):
    """a + b rounded, and what is missing, for numbers far from the ends of the range."""
    s = _named(a + b, "sum")
    t = _named(s - a)
    return s, _named((a - (s - t)) + (b - t), "error")


def _by_size(a, b):
    first = _named(tirx.abs(a) >= tirx.abs(b), "larger")
    return _named(select(first, a, b)), _named(select(first, b, a))


def add(a, b, mode: str):
    """a + b. In direction "rd" an exact zero is -0, unless both are +0."""
    s = _named(a + b, "sum")
    large, small = _by_size(a, b)
    # With the larger one first nothing overflows but the sum itself; its error is then infinite, too.
    error = _named(small - (s - large), "error")
    out = _moved(s, mode, error < _f(0), error > _f(0))
    if mode != "rd":
        return out
    return select(tirx.EQ(s, _f(0)), _value(tirx.bitwise_and(tirx.bitwise_or(_bits(a), _bits(b)), _SIGN)), out)


def sub(a, b, mode: str):
    """a - b."""
    return add(a, _named(_negated(b)), mode)


def mul(a, b, mode: str):
    """a * b."""
    r, zero, infinity = _named(a * b, "product"), _f(0), _f(float("inf"))
    large, small = _by_size(a, b)
    factor = _named(select(tirx.abs(r) < _f(2.0**-60), _f(2.0**120), _f(1)), "factor")
    small_scaled = _named(small * factor)
    p = _named(small_scaled * large)
    # Nothing is missing from p + error; r is p in another scale, or what is left of it below the smallest normal number.
    error, difference = _error_of_product(small_scaled, large, p), _named(p - r * factor)
    lost = _named(_all(tirx.EQ(r, zero), tirx.abs(small) > zero), "lost")
    finite = _named(tirx.abs(large) < infinity, "finite")
    negative = _bits(r) < 0
    below = _any(difference < -error, _all(tirx.EQ(r, infinity), finite), _all(lost, negative))
    above = _any(difference > -error, _all(tirx.EQ(r, -infinity), finite), _all(lost, tirx.Not(negative)))
    return _moved(r, mode, below, above)


def _parts(x):
    """(mantissa with the sign, in [1, 2); exponent) of a number that is neither 0 nor infinite."""
    small = _named(tirx.abs(x) < _f(2.0**-126), "small")
    bits = _named(_bits(select(small, x * _f(2.0**64), x)), "bits")
    exponent = tirx.shift_right(tirx.bitwise_and(bits, _EXPONENT), 23) - select(small, 127 + 64, 127)
    mantissa = tirx.bitwise_or(tirx.bitwise_and(bits, _MANTISSA | _SIGN), _ONE)
    return _named(_value(mantissa), "mantissa"), _named(exponent, "exponent")


def _within(k, low: int, high: int):
    return _named(tirx.max(tirx.min(k, high), low))


def div(a, b, mode: str):
    """a / b."""
    q, infinity = _named(a / b, "quotient"), _f(float("inf"))
    (x, ea), (y, eb) = _parts(tirx.abs(a)), _parts(tirx.abs(b))
    k = _named(eb - ea)
    first = _within(k, -126, 127)
    size = _named(tirx.abs(q) * _power(first) * _power(_within(k - first, -126, 127)))
    p = _named(size * y)
    error, difference = _error_of_product(size, y, p), _named(x - p)
    numbers = _all(tirx.abs(a) < infinity, tirx.abs(b) < infinity, tirx.abs(a) > _f(0), tirx.abs(b) > _f(0))
    numbers = _named(numbers, "finite")
    less = _named(_all(numbers, _any(difference < error, tirx.EQ(tirx.abs(q), infinity))), "less")
    more = _named(_all(numbers, difference > error), "more")
    negative = _named(tirx.bitwise_xor(_bits(a), _bits(b)) < 0, "negative")
    swap = lambda one, other: _any(_all(tirx.Not(negative), one), _all(negative, other))  # noqa: E731
    return _moved(q, mode, swap(less, more), swap(more, less))


def rcp(x, mode: str):
    """1 / x."""
    return div(Builder.current("T.ieee_frcp").let("one", _f(1)), x, mode)


def sqrt(x, mode: str):
    """Square root."""
    r = _named(tirx.sqrt(x), "root")
    small, large = x < _f(2.0**-64), x > _f(2.0**64)
    size = _named(r * select(small, _f(2.0**50), select(large, _f(2.0**-20), _f(1))))
    p = _named(size * size)
    error = _error_of_product(size, size, p)
    difference = _named(x * select(small, _f(2.0**100), select(large, _f(2.0**-40), _f(1))) - p)
    return _moved(r, mode, difference < error, difference > error)


def _to_odd(a, b):
    """a + b; where it is not exact, of the numbers on both sides the one with an odd last bit. It keeps the side of every later rounding."""
    s, error = _two_sum(a, b)
    bits = _named(_bits(s), "bits")
    even = _all(tirx.NE(error, _f(0)), tirx.EQ(tirx.bitwise_and(bits, 1), 0))
    outward = tirx.bitwise_xor(bits, _bits(error)) >= 0
    return _named(select(even, _value(select(outward, bits + 1, bits - 1)), s))


def _scaled(x, exponent, mode: str):
    """x * 2**exponent: steps that each round in the same direction round like one."""
    for _ in range(3):
        k = _within(exponent, -126, 126)
        exponent = _named(exponent - k)
        y = _named(x * _power(k))
        back = _named(y * _power(-k))
        x = _named(_moved(y, mode, x < back, x > back))
    return x


def fma(a, b, c, mode: str):
    """a * b + c, rounded once."""
    zero, infinity = _f(0), _f(float("inf"))
    (x, ea), (y, eb), (z, ec) = _parts(a), _parts(b), _parts(c)
    none = _named(tirx.EQ(c, zero), "none")
    of_product, of_sum = _named(ea + eb), _named(select(none, -1000, ec))
    top = _named(tirx.max(of_product, of_sum), "top")
    x = _named(x * _power(tirx.max(of_product - top, _STICKY)))
    z = _named(select(none, zero, z * _power(tirx.max(of_sum - top, _STICKY))))
    p = _named(x * y, "product")
    high, low = _two_sum(z, _error_of_product(x, y, p))
    total, rest = _two_sum(p, high)
    rest = _to_odd(rest, low)
    total = total + rest if mode == "rn" else add(total, rest, mode)
    total = _named(total, "total")
    # Nothing is left of a product and its opposite.
    total = _named(select(tirx.EQ(total, zero), _f(-0.0 if mode == "rd" else 0.0), total))
    out = _scaled(total, top, mode)
    plainly = _named(a * b, "product")
    out = select(tirx.Or(tirx.EQ(a, zero), tirx.EQ(b, zero)), add(plainly, c, mode), out)
    finite = _all(tirx.abs(a) < infinity, tirx.abs(b) < infinity)
    out = select(tirx.abs(c) < infinity, out, select(finite, c, plainly + c))
    return select(finite, out, plainly + c)


def function(name: str, compute: Callable) -> Callable:
    """The function of scalars behind `T.<name>(…, mode)`. Raises: DtypeMismatch for operands of other dtypes than float32; Python's numbers
    take it."""

    def apply(*operands, mode: str):
        values = []
        for v in map(plain, operands):
            v = as_scalar(v) if is_expr(v) else _f(float(np.float32(v)))
            if dtype_of(v) != "float32":
                text = f"T.{name} with {mode!r} is for float32, an operand is {dtype_of(v)}"
                raise DtypeMismatch(text, hint="convert it first: T.cast(x, 'float32')")
            # Constants, too: nothing but the machine is to compute with them.
            values.append(Builder.current(f"T.{name}").let("operand", v))
        return _named(compute(*values, mode), "rounded")

    return apply


FUNCTIONS = {
    "ieee_add": add, "ieee_sub": sub, "ieee_mul": mul, "ieee_fdiv": div, "ieee_frcp": rcp, "ieee_fsqrt": sqrt, "ieee_fmaf": fma,
}  # fmt: skip

__all__ = ["FUNCTIONS", "MODES", "function"]
