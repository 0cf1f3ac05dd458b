"""Sine, cosine, tangent in float32.

The argument is reduced to r = x - q * pi / 2, |r| <= pi / 4, with pi / 2 split into four parts whose products with q are exact for q < 2**16,
so the bounds of docs/numbers.md hold for |x| <= 65504. Close to a zero of the result (for tan also close to a pole) the reduced argument has
an error of 1e-10 at most, which is small against the result no longer; for |x| <= pi / 4 nothing is reduced. Larger arguments give a value in [-1, 1] (tan: any value) without a bound:
neighbouring float32 numbers soon are a whole period apart. Infinities and NaN give NaN.

The fast forms reduce by pi and need one polynomial; their bounds hold for |x| <= 25000.
"""

from __future__ import annotations

import math

from .polynomial import horner, odd

_HALF_PI_PARTS = (1.5703125, 0.0004825592041015625, 1.2665987014770508e-06, 9.92093629470503e-10)
"""8 bits, 8 bits, 8 bits and the rest of pi / 2."""

_SIN = (-0.16666654730179076, 0.00833216417659112, -0.00019515350715965107)
"""sin(r) = r + r z (c0 + c1 z + …), z = r * r, |r| <= pi / 4; relative error 4e-9 (own minimax fit)."""

_COS = (0.041666646505837485, -0.001388734911969733, 2.4436267673292244e-05)
"""cos(r) = 1 - z / 2 + z z (c0 + c1 z + …); error 1e-10 (own minimax fit)."""

_PI_PARTS = (3.140625, 0.0009670257568359375, 6.2771141529083251953e-07, 1.2154201256553420762e-10)
"""11 bits, 11 bits, 11 bits and the rest of pi."""

_SIN_WIDE = (-0.16666659712791443, 0.008333065547049046, -0.00019809538207482547, 2.6056306978716748e-06)
"""Like `_SIN` for |r| <= pi / 2; relative error 7e-9 (own least-squares fit)."""


def _reduced(o, x, n, parts):
    for part in parts:
        x = o.sub(x, o.mul(n, part))
    return x


def _reduced_once_rounded(o, x, n, parts):
    """Like `_reduced`; what the third difference loses is added to the fourth, so that only the last one rounds."""
    *exact, third, fourth = parts
    x, part = _reduced(o, x, n, exact), o.mul(n, third)
    difference = o.sub(x, part)
    lost = o.sub(o.sub(x, difference), part)
    return o.sub(difference, o.sub(o.mul(n, fourth), lost))


def _clamped(o, value):
    """Where the reduction has lost all digits the polynomial may be anything."""
    return o.maximum(o.minimum(value, 1.0), -1.0)


class _Quarter:
    """sin and cos of r, and the number q of the quarter turn they belong to."""

    def __init__(self, o, x):
        self.q = o.cast(o.mul(x, 2.0 / math.pi), "float32", "rint")
        r = _reduced_once_rounded(o, x, self.q, _HALF_PI_PARTS)
        z = o.mul(r, r)
        self.sin = odd(o, r, z, _SIN)
        self.cos = o.add(o.sub(o.mul(o.mul(horner(o, z, _COS), z), z), o.mul(z, 0.5)), 1.0)

    def parity(self, o, q):
        """(q is odd, q // 2)."""
        half = o.mul(q, 0.5)
        whole = o.cast(half, "float32", "floor")
        return o.cond("gt", o.sub(half, whole), 0.25), whole


def _sign(o, n):
    """1 for even n, -1 for odd n."""
    half = o.mul(n, 0.5)
    return o.add(o.mul(o.sub(half, o.cast(half, "float32", "floor")), -4.0), 1.0)


def sin(o, x):
    return sin_fast(o, x) if o.fast else _turned(o, x, 0.0)


def cos(o, x):
    """sin(x + pi / 2)."""
    return cos_fast(o, x) if o.fast else _turned(o, x, 1.0)


def _turned(o, x, quarters):
    """sin(x + quarters * pi / 2)."""
    part = _Quarter(o, x)
    is_odd, half_turns = part.parity(o, o.add(part.q, quarters) if quarters else part.q)
    return o.mul(_clamped(o, o.where(is_odd, part.cos, part.sin)), _sign(o, half_turns))


def tan(o, x):
    """sin / cos for even q, -cos / sin for odd q."""
    if o.fast:
        return o.div(sin_fast(o, x), cos_fast(o, x))
    part = _Quarter(o, x)
    is_odd, _ = part.parity(o, part.q)
    return o.div(o.where(is_odd, o.mul(part.cos, -1.0), part.sin), o.where(is_odd, part.sin, part.cos))


def _sine_of(o, r):
    return odd(o, r, o.mul(r, r), _SIN_WIDE)


def sin_fast(o, x):
    n = o.cast(o.mul(x, 1.0 / math.pi), "float32", "rint")
    return o.mul(_sine_of(o, _reduced(o, x, n, _PI_PARTS)), _sign(o, n))


def cos_fast(o, x):
    """cos(x) = (-1)**n sin(x - (n - 1/2) pi) with n = x / pi + 1/2 rounded."""
    n = o.cast(o.add(o.mul(x, 1.0 / math.pi), 0.5), "float32", "rint")
    return o.mul(_sine_of(o, _reduced(o, x, o.add(n, -0.5), _PI_PARTS)), _sign(o, n))


FUNCTIONS = {"sin": sin, "cos": cos, "tan": tan}
