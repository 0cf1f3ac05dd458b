"""Remainder of floats, exact.

A quotient of floats is rounded, and its product with the divisor needs twice the bits of a float: a difference with that product may have
lost all digits, or the sign. Here the quotient is taken 11 bits at a time, and the divisor in two parts of 13 and 11 bits: products with
these are exact, and so are the differences, as each is a multiple of what the lowest bit of the dividend or of the divisor is worth.
"""

from __future__ import annotations

import numpy as np

from ..graph.graph import power_of_two

_DIGITS = (24, 12, 0)
"""Where the digits of the quotient start: those above count for quotients up to 2**35."""

_LOW_BITS = 11
_LARGE = 2.0**126
"""Dividends above it are scaled."""


def fmod(o, a, b):
    """``a - trunc(a / b) * b`` with the sign of a, exact for ``|a / b| < 2**35``. Each digit is the nearest, so the last remainder is in
    [-b / 2, b / 2]."""
    known = o.constant(b) or 0.0
    if power_of_two(known) and abs(known) >= 1:  # All three operations are exact, and the quotient does not overflow.
        return o.sub(a, o.mul(o.cast(o.div(a, b), "float32", "trunc"), b))
    size, by = o.unary("abs", a), o.unary("abs", b)
    below = o.cond("lt", size, by)
    # A multiple of b next to the largest numbers may lie beyond them.
    large = None if 0 < abs(known) < _LARGE * 2.0**-35 else o.cond("gt", size, _LARGE)
    rest = size
    if large is not None:
        rest, by = (o.where(large, o.mul(x, 0.25), x) for x in (size, by))
    high, low = _halves(o, by)
    for digit in _DIGITS:
        quotient = o.div(rest, by)
        scaled = o.mul(quotient, 2.0**-digit) if digit else quotient
        times = o.cast(scaled, "float32", "rint")
        times = o.mul(times, 2.0**digit) if digit else times
        rest = o.sub(o.sub(rest, o.mul(times, high)), o.mul(times, low))
    rest = o.where(o.cond("lt", rest, 0.0), o.add(rest, by), rest)
    rest = rest if large is None else o.where(large, o.mul(rest, 4.0), rest)
    rest = o.where(o.cond("lt", a, 0.0), o.mul(rest, -1.0), rest)
    # Infinite divisors change nothing, either.
    return o.where(below, a, rest)


def _halves(o, x):
    """The upper 13 bits of positive numbers, and the rest."""
    known = o.constant(x)
    if known is not None:
        upper = np.array(known, np.float32).view(np.int32) >> _LOW_BITS << _LOW_BITS
        high = float(upper.astype(np.int32).view(np.float32))
        return o.splat(high, x), o.splat(known - high, x)
    high = o.bits(o.shift_left(o.shift_right(o.bits(x, "int32"), _LOW_BITS), _LOW_BITS), "float32")
    return high, o.sub(x, high)


FUNCTIONS = {"fmod": fmod}
