"""8-bit floats: storage formats that are computed on as float32.

e5m2 and e4m3 are the top bits of a float16 in other scales: e5m2 is its upper byte, e4m3 has the same fields one bit lower and an
exponent bias that differs by 8 (a factor of 256). Conversion to them rounds float32 once, to nearest even, subnormals included;
e4m3fn has no infinity, and what is too large becomes NaN.

e8m0 is the exponent of a float32 alone: a power of two, or NaN. Conversion to it drops the sign and rounds as torch does: up from
halfway between two powers on; below the smallest normal float32 the bits count as if they had the hidden one, and 0 becomes 2**-127.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from ....isa.stream import exponent_code
from .graph import Graph, Node


@dataclass(frozen=True)
class Format:
    """mantissa: explicit bits; least: smallest normal exponent; scale: value of a float16 with these bits, relative; shift: position
    of the lowest bit in a float16; largest: bits of the largest code without a sign in a float16, a NaN; finite: has it no infinity?"""

    mantissa: int
    least: int
    scale: float
    shift: int
    largest: int
    finite: bool


@dataclass(frozen=True)
class Powers:
    """e8m0: code c is 2**(c - 127), the last one NaN."""


_POISON = 35840.0
"""Makes 1.875 infinite in float16, which is what the NaN of e4m3 is without its scale, but not 1.75, the largest number."""

FORMATS: dict[str, Format | Powers] = {
    "float8_e4m3fn": Format(3, -6, 256.0, 7, 0x7F << 7, True),
    "float8_e5m2": Format(2, -14, 1.0, 8, 0x7E << 8, False),
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
    """Float16 (e8m0: bfloat16) values of 8-bit codes, exact; `codes(node)` gives the int16 values of bytes."""
    f = FORMATS[a.dtype]
    if isinstance(f, Powers):
        return _powers(g, codes(g.reinterpret(a, "uint8")))
    signed = codes(g.reinterpret(a, "int8"))
    if f.shift == 8:
        return g.reinterpret(g.with_scalar("shift_left", signed, _int(g, 8)), "float16")
    # The sign is in the bit above, too, and has to go from there.
    bits = g.node("and", "int16", (g.with_scalar("shift_left", signed, _int(g, f.shift)), g.tile(_int(g, ~(1 << 14)))))
    small = g.reinterpret(bits, "float16")
    value = g.binary("mul", small, g.const(f.scale, "float16"))
    # Infinite for NaN alone, and inf * 0 is NaN; the sum with a zero of the same sign keeps zeros as they are.
    poison = g.binary("mul", small, g.const(_POISON, "float16"))
    return g.binary("add", value, g.binary("mul", poison, g.const(0.0, "float16")))


def encode(g: Graph, a: Node, dtype: str) -> Node:
    """Codes (int16, 0..255) of float32 values."""
    f = FORMATS[dtype]
    if isinstance(f, Powers):
        return _exponents(g, a)
    # Rounded to odd, a float16 still knows on which side of each number of the format, and of each middle of two, a value lies.
    scaled = g.binary("mul", a, g.const(1.0 / f.scale, "float32")) if f.scale != 1.0 else a
    bits = g.reinterpret(g.cast(scaled, "float16", "odd"), "int16")
    # What is too large, infinity and NaN are the largest float16 numbers, which become one code: NaN, or where infinity has a code the two of them.
    size = g.with_scalar("mins", g.node("and", "int16", (bits, g.tile(_int(g, 0x7FFF)))), _int(g, f.largest))
    last = g.node("and", "int16", (g.with_scalar("shift_right", size, _int(g, f.shift)), g.tile(_int(g, 1))))
    up = g.with_scalar("adds", g.binary("add", size, last), _int(g, (1 << f.shift - 1) - 1))
    sign = g.node("and", "int16", (g.with_scalar("shift_right", bits, _int(g, 8)), g.tile(_int(g, 0x80))))
    return g.node("or", "int16", (g.with_scalar("shift_right", up, _int(g, f.shift)), sign))


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
