"""Exponentials and logarithms to other bases, powers.

Error bounds (float32): docs/numbers.md.
"""

from __future__ import annotations

import math

_LN2 = math.log(2.0)
_LOG10_2 = (0.301025390625, 4.605039066518657e-06)
_LARGEST = 3.4028234663852886e38
_TINY = 1e-30
_MAX_POWER = 4
"""Integer exponents up to this magnitude become products."""


def exp2(o, x):
    """2 ** x = 2 ** n * exp((x - n) ln 2), n = x rounded; 2 ** n is built in the exponent bits, in two halves so that the
    whole range down to denormals works."""
    if o.fast:
        return exp2_fast(o, x)
    x = o.maximum(o.minimum(x, 129.0), -151.0)
    n = o.cast(x, "float32", "rint")
    return _scaled(o, o.unary("exp", o.mul(o.sub(x, n), _LN2)), n)


def _scaled(o, mantissa, n):
    """mantissa * 2 ** n for -151 <= n <= 130."""
    whole = o.cast(n, "int32", "rint")
    half = o.shift_right(whole, 1)
    return o.mul(o.mul(mantissa, _power_of_two(o, half)), _power_of_two(o, o.sub(whole, half)))


def exp2_fast(o, x):
    """exp(x ln 2): two instructions, the rounding of the product grows with |x|."""
    return o.unary("exp", o.mul(x, _LN2))


def _power_of_two(o, n):
    return o.bits(o.shift_left(o.add(n, 127), 23), "float32")


def log2(o, x):
    return o.mul(o.unary("ln", x), 1.0 / _LN2)


def log10(o, x):
    return o.mul(o.unary("ln", x), 1.0 / math.log(10.0))


def log1p(o, x):
    """ln(u) + (x - (u - 1)) / u with u = 1 + x: the second term is what rounding u lost."""
    finite = o.minimum(x, _LARGEST)
    u = o.add(finite, 1.0)
    lost = o.div(o.sub(finite, o.add(u, -1.0)), o.maximum(u, _TINY))
    return o.add(o.unary("ln", o.add(x, 1.0)), lost)


def exp10(o, x):
    """10 ** x = 2 ** n * exp((x - n log10 2) ln 10), n = x log2 10 rounded, log10 2 in two parts of which the first times n is exact."""
    if o.fast:
        return o.unary("exp", o.mul(x, math.log(10.0)))
    x = o.maximum(o.minimum(x, 39.0), -45.5)
    n = o.cast(o.mul(x, math.log2(10.0)), "float32", "rint")
    for part in _LOG10_2:
        x = o.sub(x, o.mul(n, part))
    return _scaled(o, o.unary("exp", o.mul(x, math.log(10.0))), n)


def power(o, a, b):
    """a ** b. A constant exponent that is a small integer or a half becomes products and roots."""
    exponent = o.constant(b)
    if exponent is not None:
        special = _constant_power(o, a, exponent)
        if special is not None:
            return special
    size = o.unary("abs", a)
    magnitude = o.unary("exp", o.mul(o.unary("ln", size), b))
    # 1 to any power is 1: the product above is NaN for infinite exponents.
    magnitude = o.where(o.cond("eq", size, 1.0), 1.0, magnitude)
    return o.where(o.cond("eq", b, 0.0), 1.0, _signed_power(o, a, b, magnitude))


def _signed_power(o, a, b, magnitude):
    """Sign of a negative base: defined for integer exponents, negative for odd ones."""
    half = o.mul(b, 0.5)
    is_odd = o.cond("gt", o.unary("abs", o.sub(half, o.cast(half, "float32", "floor"))), 0.25)
    is_integer = o.cond("eq", o.cast(b, "float32", "floor"), b)
    signed = o.where(is_odd, o.mul(magnitude, -1.0), magnitude)
    negative = o.where(is_integer, signed, math.nan)
    return o.where(o.cond("lt", a, 0.0), negative, magnitude)


def _constant_power(o, a, exponent: float):
    if exponent == 0:
        return o.splat(1.0, a)
    if exponent == 0.5:
        return o.unary("sqrt", a)
    if exponent == -0.5:
        return o.div(1.0, o.unary("sqrt", a))
    if not abs(exponent) <= _MAX_POWER or exponent != int(exponent):
        return None
    n = int(abs(exponent))
    square = o.mul(a, a) if n > 1 else a
    if exponent > 0:
        return {1: lambda: a, 2: lambda: square, 3: lambda: o.mul(square, a), 4: lambda: o.mul(square, square)}[n]()
    # Divided twice: the product of the divisors overflows before the quotient becomes 0.
    inverse = o.div(1.0, square if n == 4 else a)
    return {1: lambda: inverse, 2: lambda: o.div(inverse, a), 3: lambda: o.div(inverse, square), 4: lambda: o.div(inverse, square)}[n]()


FUNCTIONS = {"exp2": exp2, "log2": log2, "log10": log10, "log1p": log1p, "exp10": exp10, "pow": power}
