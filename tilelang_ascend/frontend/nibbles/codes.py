"""Codes of 4 bits and the numbers they stand for, as expressions."""

from __future__ import annotations

from ...ir import as_dtype, const_int, dtype_of, imm, tirx

HELD_IN = {"int4": "int8", "uint4": "int8", "float4_e2m1fn": "float16"}
"""What tiles and variables have instead."""
BYTE = "uint8"
_LARGEST = 6.0
_SCALE = 2.0**14
"""A float4_e2m1fn relative to the float16 with the same sign, exponent and mantissa."""


def _select(cond, a, b):
    return tirx.if_then_else(cond, a, b)


def value_of(byte, high, dtype: str):
    """The value, in `HELD_IN[dtype]`, of the code in the high half of a byte (where `high`) or in the low one."""
    if const_int(high) is None:
        code = _select(high, tirx.shift_right(byte, imm(4, BYTE)), tirx.bitwise_and(byte, imm(15, BYTE)))
    else:
        code = tirx.shift_right(byte, imm(4, BYTE)) if const_int(high) else tirx.bitwise_and(byte, imm(15, BYTE))
    return number_of(code, dtype)


def number_of(code, dtype: str):
    """The value, in `HELD_IN[dtype]`, of a code from 0 to 15."""
    if dtype == "uint4":
        return tirx.Cast("int8", code)
    signed = tirx.shift_right(tirx.shift_left(as_dtype(code, "int16"), imm(12, "int16")), imm(12, "int16"))
    if dtype == "int4":
        return tirx.Cast("int8", signed)
    size = tirx.shift_left(tirx.bitwise_and(signed, imm(7, "int16")), imm(9, "int16"))
    bits = tirx.bitwise_or(size, tirx.bitwise_and(signed, imm(-(2**15), "int16")))
    return tirx.reinterpret("float16", bits) * imm(_SCALE, "float16")


def code_of(value, dtype: str):
    """The code of a value of `HELD_IN[dtype]` that 4 bits hold, an int16 from 0 to 15."""
    if dtype != "float4_e2m1fn":
        return tirx.bitwise_and(tirx.Cast("int16", value), imm(15, "int16"))
    bits = tirx.reinterpret("int16", value * imm(1 / _SCALE, "float16"))
    size = tirx.bitwise_and(tirx.shift_right(bits, imm(9, "int16")), imm(7, "int16"))
    return tirx.bitwise_or(size, tirx.bitwise_and(tirx.shift_right(bits, imm(12, "int16")), imm(8, "int16")))


def byte_of(even, odd, dtype: str):
    """The byte of two values."""
    word = tirx.bitwise_or(code_of(even, dtype), tirx.shift_left(code_of(odd, dtype), imm(4, "int16")))
    return tirx.Cast(BYTE, word)


def held(value, dtype: str):
    """A number of any other dtype converted to 4 bits, in `HELD_IN[dtype]`."""
    source = dtype_of(value)
    if dtype == "float4_e2m1fn":
        return _nearest(as_dtype(value, "float32"))
    if "float" in source:
        low, high = (0, 15) if dtype == "uint4" else (-8, 7)
        return tirx.max(tirx.min(tirx.Cast("int8", value), imm(high, "int8")), imm(low, "int8"))
    word = "int16" if source in ("int8", "uint8", "int16", "bool") else "int32"
    low_bits = tirx.bitwise_and(as_dtype(value, word), imm(15, word))
    if dtype == "int4":
        low_bits = tirx.bitwise_xor(low_bits, imm(8, word)) - imm(8, word)
    return tirx.Cast("int8", low_bits)


def _nearest(x):
    """The float4_e2m1fn next to a float32, halves to even codes; what is too large, and NaN, is the largest one."""
    one = lambda number: imm(number, "float32")  # noqa: E731
    x = _select(tirx.EQ(x, x), x, one(_LARGEST))
    size = tirx.min(tirx.abs(x), one(_LARGEST))
    small, middle, large = tirx.nearbyint(size * one(2)) * one(0.5), tirx.nearbyint(size), tirx.nearbyint(size * one(0.5)) * one(2)
    size = _select(size < one(2), small, _select(size < one(4), middle, large))
    sign = tirx.bitwise_and(tirx.reinterpret("int32", x), imm(-(2**31)))
    return tirx.Cast("float16", tirx.reinterpret("float32", tirx.bitwise_or(tirx.reinterpret("int32", size), sign)))


__all__ = ["BYTE", "HELD_IN", "byte_of", "code_of", "held", "number_of", "value_of"]
