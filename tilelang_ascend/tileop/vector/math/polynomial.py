"""Polynomials by Horner's rule."""

from __future__ import annotations


def horner(o, z, coefficients):
    """``c0 + z * (c1 + z * (c2 + …))``: one multiplication and one addition for each degree."""
    *rest, last = coefficients
    value = o.mul(z, last)
    for c in reversed(rest[1:]):
        value = o.mul(o.add(value, c), z)
    return o.add(value, rest[0])


def odd(o, x, z, coefficients):
    """``x + x * z * (c0 + c1 * z + …)`` for odd functions with slope 1, z = x * x."""
    return o.add(o.mul(o.mul(horner(o, z, coefficients), z), x), x)
