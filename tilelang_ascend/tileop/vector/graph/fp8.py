"""8-bit floats: storage formats that are computed on as float32.

e5m2 and e4m3 are the top bits of a float16 in other scales: e5m2 is its upper byte, e4m3 has the same fields one bit lower and an
exponent bias that differs by 8 (a factor of 256). Conversion to them rounds float32 once, to nearest even, subnormals included;
e4m3fn has no infinity, and what is too large becomes NaN.

e8m0 is the exponent of a float32 alone: a power of two, or NaN. Conversion to it drops the sign and rounds as torch does: up from
halfway between two powers on; below the smallest normal float32 the bits count as if they had the hidden one, and 0 becomes 2**-127.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from ....isa.stream import exponent_code
from .graph import Graph, Node


@dataclass(frozen=True)
class Format:
    """mantissa: explicit bits; least: smallest normal exponent; scale: value of a float16 with these bits, relative; shift: position
    of the lowest bit in a float16; limit: what the code behind the largest number would be worth, which is infinity or, in a format without
    (`finite`), NaN."""

    mantissa: int
    least: int
    scale: float
    shift: int
    limit: float
    finite: bool


@dataclass(frozen=True)
class Powers:
    """e8m0: code c is 2**(c - 127), the last one NaN."""


FORMATS: dict[str, Format | Powers] = {
    "float8_e4m3fn": Format(3, -6, 256.0, 7, 480.0, True),
    "float8_e5m2": Format(2, -14, 1.0, 8, 2.0**16, False),
    "float8_e8m0fnu": Powers(),
}


def code_of(number: float, dtype: str) -> int:
    """Code of a constant."""
    if isinstance(FORMATS[dtype], Powers):
        return exponent_code(number)
    return int(np.array(number, np.float32).astype(getattr(ml_dtypes, dtype)).view(np.uint8))


def code(g: Graph, a: Node, dtype: str) -> Node:
    """The byte of an 8-bit float."""
    if a.op == "const":
        return g.const(code_of(a.value, dtype), "uint8")
    return g.scalar_reinterpret(a, "uint8") if a.is_scalar else g.reinterpret(a, "uint8")


def decode(g: Graph, a: Node, codes) -> Node:
    """Float16 (e8m0: bfloat16) values of 8-bit codes, exact; `codes(node)` gives the codes as int16."""
    f = FORMATS[a.dtype]
    if isinstance(f, Powers):
        return _powers(g, codes(a))
    bits = g.with_scalar("shift_left", codes(a), _int(g, 8))
    if f.shift == 8:
        return g.reinterpret(bits, "float16")
    # The arithmetic shift doubles the sign; the copy has to go.
    bits = g.node("and", "int16", (g.with_scalar("shift_right", bits, _int(g, 8 - f.shift)), g.tile(_int(g, ~(1 << 14)))))
    value = g.binary("mul", g.reinterpret(bits, "float16"), g.const(f.scale, "float16"))
    nan = g.compare("ge", g.unary("abs", value), g.const(f.limit, "float16"))
    poison = g.select(nan, g.const(math.inf, "float16"), g.tile(g.const(0.0, "float16")))
    # inf * 0 is NaN, and x - 0 keeps the sign of a zero.
    return g.binary("sub", value, g.binary("mul", poison, g.const(0.0, "float16")))


def encode(g: Graph, a: Node, dtype: str, half) -> Node:
    """Codes (int16, 0..255) of float32 values; `half(node)` converts float32 to float16."""
    f = FORMATS[dtype]
    if isinstance(f, Powers):
        return _exponents(g, a)
    # Larger numbers round to the limit, too, and the sums below stay finite.
    near = g.with_scalar("maxs", g.with_scalar("mins", a, g.const(f.limit, "float32")), g.const(-f.limit, "float32"))
    exponent = g.node("and", "int32", (g.reinterpret(near, "int32"), g.tile(g.const(0x7F800000, "int32"))))
    power = g.with_scalar("maxs", g.reinterpret(exponent, "float32"), g.const(2.0**f.least, "float32"))
    # Adding 1.5 * 2**(e + 23 - mantissa) pushes the bits below the mantissa out of a float32: rounding to nearest even.
    magic = g.binary("mul", power, g.const(1.5 * 2.0 ** (23 - f.mantissa), "float32"))
    rounded = g.binary("sub", g.binary("add", near, magic), magic)
    if f.finite:  # A NaN of float16 has other bits.
        rounded = g.select(g.compare("eq", a, a), rounded, g.const(f.limit, "float32"))
    bits = g.reinterpret(half(g.binary("mul", rounded, g.const(1.0 / f.scale, "float32"))), "int16")
    low = g.node("and", "int16", (g.with_scalar("shift_right", bits, _int(g, f.shift)), g.tile(_int(g, 0x7F))))
    # Subtracting the magic number loses the sign of what rounds to zero.
    signed = g.with_scalar("shift_right", g.reinterpret(half(a), "int16"), _int(g, 8))
    sign = g.node("and", "int16", (signed, g.tile(_int(g, 0x80))))
    return g.node("or", "int16", (low, sign))


def _powers(g: Graph, codes: Node) -> Node:
    """bfloat16 has the same exponents: 2**-127 is half of its smallest normal number, and the last exponent with a bit of mantissa NaN."""
    power = g.with_scalar("maxs", g.with_scalar("shift_left", codes, _int(g, 7)), _int(g, 1 << 6))
    last = g.with_scalar("adds", g.with_scalar("maxs", codes, _int(g, 254)), _int(g, -254))
    return g.reinterpret(g.binary("add", power, g.with_scalar("shift_left", last, _int(g, 6))), "bfloat16")


def _exponents(g: Graph, a: Node) -> Node:
    """Codes of float32 values: adding half of an exponent's step carries into the exponent."""

    def const(value: int) -> Node:
        return g.const(value, "int32")

    size = g.node("and", "int32", (g.reinterpret(a, "int32"), g.tile(const(0x7FFFFFFF))))
    size = g.with_scalar("mins", size, const(0x7F800000))  # infinity and every NaN
    # Halves go up where there is a hidden one: 0x3FFFFF, or one more where the exponent is not 0.
    normal = g.with_scalar("mins", g.with_scalar("shift_right", size, const(23)), const(1))
    rounded = g.binary("add", g.with_scalar("adds", size, const(0x3FFFFF)), normal)
    return g.cast(g.with_scalar("shift_right", rounded, const(23)), "int16", "none")


def _int(g: Graph, value: int) -> Node:
    return g.const(value, "int16")


__all__ = ["FORMATS", "Format", "Powers", "code", "code_of", "decode", "encode"]
