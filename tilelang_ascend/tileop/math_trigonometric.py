"""Sine, cosine, tangent in float32.

The argument is reduced by n * pi with pi split into four parts whose products with n are exact for |n| < 2**13, so the bounds hold
for |x| <= 25000: sin and cos 3 ulp where the result is above 2**-10 in magnitude, else 1e-9 absolute; tan 7 ulp likewise. Beyond
that range the error grows with |x|, as in every float32 reduction without the Payne-Hanek method.
"""

from __future__ import annotations

import math

from .math_polynomial import odd

_PI_PARTS = (3.140625, 0.0009670257568359375, 6.2771141529083251953e-07, 1.2154201256553420762e-10)
"""11 bits, 11 bits, 11 bits and the rest of pi."""

_SIN = (-0.16666659712791443, 0.008333065547049046, -0.00019809538207482547, 2.6056306978716748e-06)
"""sin(r) = r + r z (c0 + c1 z + …), z = r * r, |r| <= pi / 2; relative error 7e-9 (own least-squares fit)."""


def _reduced(o, x, n):
    for part in _PI_PARTS:
        x = o.sub(x, o.mul(n, part))
    return x


def _sine_of(o, r):
    return odd(o, r, o.mul(r, r), _SIN)


def _sign(o, n):
    """1 for even n, -1 for odd n."""
    half = o.mul(n, 0.5)
    return o.add(o.mul(o.sub(half, o.cast(half, "float32", "floor")), -4.0), 1.0)


def sin(o, x):
    n = o.cast(o.mul(x, 1.0 / math.pi), "float32", "rint")
    return o.mul(_sine_of(o, _reduced(o, x, n)), _sign(o, n))


def cos(o, x):
    """cos(x) = (-1)**n sin(x - (n - 1/2) pi) with n = x / pi + 1/2 rounded."""
    n = o.cast(o.add(o.mul(x, 1.0 / math.pi), 0.5), "float32", "rint")
    return o.mul(_sine_of(o, _reduced(o, x, o.add(n, -0.5))), _sign(o, n))


def tan(o, x):
    return o.div(sin(o, x), cos(o, x))


FUNCTIONS = {"sin": sin, "cos": cos, "tan": tan}
