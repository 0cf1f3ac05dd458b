"""tanh, erf, sinh, cosh in float32, and sigmoid; 1 + tanh and 1 + erf, the sums in which activations use them.

Error bounds: docs/numbers.md.
"""

from __future__ import annotations

from .polynomial import horner, odd

_TANH_SWITCH = 0.6
_TANH = (-0.33333298563957214, 0.13331958651542664, -0.05378668010234833, 0.020805377513170242, -0.00590586056932807)
"""tanh(x) = x + x z (c0 + …), z = x * x, |x| <= 0.6; relative error 3e-9 (own least-squares fit)."""

_ERF_LIMIT = 4.0
"""erf rounds to 1 from 3.92 on."""
_ERF_SWITCH = 0.9
_ERF_NEAR = (
    0.12837915379053558, -0.3761252324930807, 0.11282140555599429, -0.026778899698977454, 0.005011948984472311,
    -0.0006090286806284331,
)  # fmt: skip
"""erf(x) = x + x (c0 + c1 z + …), z = x * x, |x| <= 0.9; relative error 1.2e-8 (own minimax fit)."""
_ERF_FAR = (
    -0.00016642283671777062, -1.1277973446325205, -0.6369759124519142, -0.10411382723057089, 0.022315283722780577,
    -0.003065507722230354, 0.00019821139184233478,
)  # fmt: skip
"""erf(x) = 1 - exp(c0 + c1 x + …), 0.9 <= x <= 4; error 2e-9 (own minimax fit)."""
_ERF_P = (1.12837914, 0.193547468, 0.0531019539, 0.00388340532, 0.000284560512, 1.98668429e-06)
_ERF_Q = (1.0, 0.504859534, 0.115350891, 0.0152073945, 0.0011855724, 3.74188552e-05)
"""erf(x) = x P(z) / Q(z), z = x * x, |x| <= 4; relative error 2.5e-8, all coefficients positive (own rational fit)."""
_ERFC = (
    -1.128380298614502, -0.636597752571106, -0.10291961580514908, 0.019583962857723236, -0.0005369361606426537, -0.0010324000613763928,
    0.00030880168196745217, -3.1440100428881124e-05,
)  # fmt: skip
"""1 - erf(x) = exp(x (c0 + c1 x + …)), x >= 0; error 1.6e-8 (own minimax fit up to 4.2, beyond it falls faster than 1 - erf)."""

_SINH = (0.16666667, 0.0083333293, 0.00019841270, 2.7557319e-06)
"""Taylor coefficients 1/3!, 1/5!, 1/7!, 1/9!: relative error below 3e-8 for |x| <= 1."""


def tanh(o, x):
    """1 - 2 / (exp(2 |x|) + 1) with the sign of x; near 0, where that cancels, an odd polynomial."""
    size = o.unary("abs", x)
    far = o.add(o.div(2.0, o.add(o.unary("exp", o.mul(size, 2.0)), 1.0)), -1.0)
    signed = o.where(o.cond("lt", x, 0.0), far, o.mul(far, -1.0))
    near = odd(o, x, o.mul(x, x), _TANH)
    return o.where(o.cond("lt", size, _TANH_SWITCH), near, signed)


def erf(o, x):
    """x + x P(z) up to 0.9; beyond, 1 - exp(Q(|x|)) with the sign of x, where Q is the logarithm of 1 - erf: what exp loses
    is small against 1."""
    if o.fast:
        return erf_fast(o, x)
    size = o.unary("abs", x)
    far = o.add(o.unary("exp", horner(o, o.minimum(size, _ERF_LIMIT), _ERF_FAR)), -1.0)
    signed = o.where(o.cond("lt", x, 0.0), far, o.mul(far, -1.0))
    near = o.add(o.mul(horner(o, o.mul(x, x), _ERF_NEAR), x), x)
    return o.where(o.cond("lt", size, _ERF_SWITCH), near, signed)


def erf_fast(o, x):
    """One rational function, without exp and selections."""
    x = o.maximum(o.minimum(x, _ERF_LIMIT), -_ERF_LIMIT)
    z = o.mul(x, x)
    ratio = o.div(o.mul(horner(o, z, _ERF_P), x), horner(o, z, _ERF_Q))
    return o.maximum(o.minimum(ratio, 1.0), -1.0)


def one_plus_tanh(o, x):
    """2 / (1 + exp(-2 x)): nothing cancels, and no polynomial is needed near 0."""
    return o.div(2.0, o.add(o.unary("exp", o.mul(x, -2.0)), 1.0))


def one_plus_erf(o, x):
    """With t = 1 - erf(|x|): t for negative x, else 2 - t. The sum needs an absolute error only, so one formula serves all x."""
    size = o.unary("abs", x)
    tail = o.unary("exp", o.mul(horner(o, size, _ERFC), size))
    return o.where(o.cond("lt", x, 0.0), tail, o.sub(2.0, tail))


def sigmoid(o, x):
    """1 / (1 + exp(-x)). Where exp overflows the result is 0 instead of a denormal."""
    return o.div(1.0, o.add(o.unary("exp", o.mul(x, -1.0)), 1.0))


def cosh(o, x):
    """(e * e + 1 / (e * e)) / 2 with e = exp(|x| / 2), which does not overflow before the result does."""
    e = o.unary("exp", o.mul(o.unary("abs", x), 0.5))
    half = o.mul(e, 0.5)
    return o.add(o.mul(half, e), o.div(o.div(0.5, e), e))


def sinh(o, x):
    """(e * e - 1 / (e * e)) / 2 with e = exp(|x| / 2) and the sign of x; near 0 the Taylor series."""
    size = o.unary("abs", x)
    e = o.unary("exp", o.mul(size, 0.5))
    far = o.sub(o.mul(o.mul(e, 0.5), e), o.div(o.div(0.5, e), e))
    signed = o.where(o.cond("lt", x, 0.0), o.mul(far, -1.0), far)
    return o.where(o.cond("lt", size, 1.0), odd(o, x, o.mul(x, x), _SINH), signed)


FUNCTIONS = {"tanh": tanh, "erf": erf, "cosh": cosh, "sinh": sinh, "sigmoid": sigmoid}
"""Computed in float32 for all dtypes."""
FAST_NATIVE = {"sigmoid": sigmoid}
"""With fast math in float16, too: sigmoid 2 ulp, and 0 where exp(-x) overflows (x < -11)."""
ONE_PLUS = {"tanh": one_plus_tanh, "erf": one_plus_erf}
"""1 + f(x) for odd functions f, as exact as the sum of 1 and f(x) (docs/numbers.md), in fewer instructions."""
