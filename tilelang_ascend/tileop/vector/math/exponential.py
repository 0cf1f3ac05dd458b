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
    """2 ** x = 2 ** n * exp((x - n) ln 2), n the even number next to x, so that 2 ** (n / 2) is a normal number over the whole range
    down to denormals."""
    scaled = o.product_in_factors(x, _LN2)
    if scaled is not None:
        return o.unary("exp", scaled)
    if o.fast:
        return o.unary("exp", o.mul(x, _LN2))
    x = o.maximum(o.minimum(x, 129.0), -151.0)
    n, root = _even_power_of_two(o, x)
    return _scaled(o, o.unary("exp", o.mul(o.sub(x, n), _LN2)), root)


def _even_power_of_two(o, x):
    """(n, 2 ** (n / 2)) with n the even number next to x, -152 <= x <= 130.

    Float32 numbers from 2 ** 24 to 2 ** 25 are the even ones: adding 1.5 * 2 ** 24 rounds to them, and leaves n / 2 in the lowest bits. 127 more
    is the exponent of the root; what stands above its bits is shifted out, or was 0."""
    magic = 1.5 * 2.0**24 + 2 * 127
    sum_ = o.add(x, magic)
    return o.add(sum_, -magic), o.bits(o.shift_left(o.bits(sum_, "int32"), 23), "float32")


def _scaled(o, mantissa, root):
    """mantissa * root ** 2: only the second product may overflow or become denormal, and is rounded once."""
    return o.mul(o.mul(mantissa, root), root)


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
    """10 ** x = 2 ** n * exp((x - n log10 2) ln 10), n the even number next to x log2 10, log10 2 in two parts of which the first times n is
    exact."""
    scaled = o.product_in_factors(x, math.log(10.0))
    if scaled is not None:
        return o.unary("exp", scaled)
    if o.fast:
        return o.unary("exp", o.mul(x, math.log(10.0)))
    x = o.maximum(o.minimum(x, 39.0), -45.5)
    n, root = _even_power_of_two(o, o.mul(x, math.log2(10.0)))
    for part in _LOG10_2:
        x = o.sub(x, o.mul(n, part))
    return _scaled(o, o.unary("exp", o.mul(x, math.log(10.0))), root)


def power(o, a, b):
    """a ** b. A constant exponent that is a small integer or a half becomes products and roots. Zeros, infinities and NaN give what they give in C."""
    exponent = o.constant(b)
    if exponent is not None:
        special = _constant_power(o, a, exponent)
        return _power_of(o, a, exponent) if special is None else special
    is_integer = o.cond("eq", o.cast(b, "float32", "floor"), b)
    base = o.where(is_integer, o.unary("abs", a), _unless_minus_infinity(o, a))
    magnitude = _of_one(o, base, o.unary("exp", o.mul(o.unary("ln", base), b)))
    half = o.mul(b, 0.5)
    is_odd = o.cond("eq", o.unary("abs", o.sub(half, o.cast(half, "float32", "trunc"))), 0.5)
    return o.where(o.cond("eq", b, 0.0), 1.0, o.where(is_odd, _with_sign(o, magnitude, a), magnitude))


def _power_of(o, a, exponent: float):
    """a ** exponent: with an integer the sign counts for odd ones only, with a fraction a negative number has no logarithm and no power."""
    is_integer = math.isinf(exponent) or exponent % 1 == 0
    base = o.unary("abs", a) if is_integer else _unless_minus_infinity(o, a)
    magnitude = o.unary("exp", o.mul(o.unary("ln", base), exponent))
    if not math.isfinite(exponent):
        return _of_one(o, base, magnitude)
    return _with_sign(o, magnitude, a) if exponent % 2 == 1 else magnitude


def _unless_minus_infinity(o, a):
    """a, and +inf for -inf, whose powers are those of +inf but for the sign."""
    return o.where(o.cond("eq", a, -math.inf), math.inf, a)


def _of_one(o, base, magnitude):
    """1 to any power is 1: the logarithm times an infinite exponent, or NaN, is NaN."""
    return o.where(o.cond("eq", base, 1.0), 1.0, magnitude)


def _with_sign(o, magnitude, a):
    """A number without a sign, with the sign bit of `a`, which -0 has as well."""
    sign = o.shift_left(o.shift_right(o.bits(a, "int32"), 31), 31)
    return o.bits(o.add(o.bits(magnitude, "int32"), sign), "float32")


def _constant_power(o, a, exponent: float):
    if exponent == 0:
        return o.splat(1.0, a)
    if abs(exponent) == 0.5:
        # The root of -0 is -0, a power of it is not.
        root = o.unary("sqrt", o.add(_unless_minus_infinity(o, a), 0.0))
        return root if exponent > 0 else o.div(1.0, root)
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
