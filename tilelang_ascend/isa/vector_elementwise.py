"""Element-wise vector instructions: binary, unary, with a scalar, and the fused ones. Two records each."""

from __future__ import annotations

from .base import Arg
from .vector_common import (
    A2_ARITHMETIC,
    A5_ARITHMETIC,
    ALL_INTS,
    FLOATS,
    SCALAR,
    both_forms,
    dst,
    same_dtypes,
    src,
)

_BINARY_STRIDES = "{{{d_blk}, {s0_blk}, {s1_blk}, {d_rep}, {s0_rep}, {s1_rep}}}"
_UNARY_STRIDES = "{{{d_blk}, {s_blk}, {d_rep}, {s_rep}}}"

_ARITHMETIC = same_dtypes(A2_ARITHMETIC, A5_ARITHMETIC)
_FLOAT = same_dtypes(FLOATS)
_QUOTIENTS = same_dtypes(FLOATS, (*FLOATS, "int64"))


def _without(*absent: str) -> dict:
    """Arithmetic that lacks some dtypes on 3510 (doc: emit API, documented dtypes)."""
    return same_dtypes(A2_ARITHMETIC, tuple(d for d in A5_ARITHMETIC if d not in absent))


_PRODUCTS = _without("int8", "uint8")
_WITH_SCALAR = _without("uint16", "uint32")
_SCALED = _without("int8", "uint8", "uint16", "uint32")
_BITS = same_dtypes(("int16", "uint16"), ALL_INTS)


def _binary(name, api, dtypes, cost_class, doc, direction="out"):
    operands = (dst(direction=direction), src("s0"), src("s1"))
    return both_forms(
        name, api, operands, (),
        f"AscendC::{api}({{d}}, {{s0}}, {{s1}}, {{count}})",
        f"AscendC::{api}({{d}}, {{s0}}, {{s1}}, {{mask}}, {{repeat}}, AscendC::BinaryRepeatParams{_BINARY_STRIDES})",
        doc, cost_class, dtypes,
    )  # fmt: skip


def _unary(name, api, dtypes, cost_class, doc):
    return both_forms(
        name, api, (dst(), src()), (),
        f"AscendC::{api}({{d}}, {{s}}, {{count}})",
        f"AscendC::{api}({{d}}, {{s}}, {{mask}}, {{repeat}}, AscendC::UnaryRepeatParams{_UNARY_STRIDES})",
        doc, cost_class, dtypes,
    )  # fmt: skip


def _scalar(name, api, dtypes, cost_class, doc, scalar: Arg = SCALAR, direction="out"):
    return both_forms(
        name, api, (dst(direction=direction), src()), (scalar,),
        f"AscendC::{api}({{d}}, {{s}}, {{scalar}}, {{count}})",
        f"AscendC::{api}({{d}}, {{s}}, {{scalar}}, {{mask}}, {{repeat}}, AscendC::UnaryRepeatParams{_UNARY_STRIDES})",
        doc, cost_class, dtypes,
    )  # fmt: skip


_SHIFTS = same_dtypes(("int16", "uint16", "int32", "uint32"), ALL_INTS)
_ABS = same_dtypes(FLOATS, (*FLOATS, "bfloat16", "int16", "int32", "int8", "int64"))
_RELU = same_dtypes((*FLOATS, "int32"), (*FLOATS, "int32", "int64"))
_MULTIPLY_ADD = "the product is rounded before the sum."
_SHIFT_AMOUNT = Arg("scalar", "int", 0, 64, "T")

RECORDS = (
    *_binary("add", "Add", _ARITHMETIC, "simple", "d = s0 + s1. Integers wrap on overflow."),
    *_binary("sub", "Sub", _ARITHMETIC, "simple", "d = s0 - s1."),
    *_binary("mul", "Mul", _PRODUCTS, "simple", "d = s0 * s1."),
    *_binary("div", "Div", _QUOTIENTS, "transcendental", "d = s0 / s1. int64 is truncated towards zero, and any number where s1 is 0."),
    *_binary("max", "Max", _ARITHMETIC, "simple", "d = max(s0, s1). A NaN gives NaN; max(+0, -0) = +0."),
    *_binary("min", "Min", _ARITHMETIC, "simple", "d = min(s0, s1). A NaN gives NaN; min(+0, -0) = -0."),
    *_binary("and", "And", _BITS, "simple", "d = s0 & s1, bitwise."),
    *_binary("or", "Or", _BITS, "simple", "d = s0 | s1, bitwise."),
    *_unary("exp", "Exp", _FLOAT, "transcendental", "d = e ** s."),
    *_unary("ln", "Ln", _FLOAT, "transcendental", "d = natural logarithm of s."),
    *_unary("abs", "Abs", _ABS, "simple", "d = |s|."),
    *_unary("sqrt", "Sqrt", _FLOAT, "transcendental", "d = square root of s."),
    *_unary("rsqrt", "Rsqrt", _FLOAT, "simple", "d = 1 / sqrt(s); rsqrt(-0) = -inf."),
    *_unary("reciprocal", "Reciprocal", _FLOAT, "simple", "d = 1 / s."),
    *_unary("relu", "Relu", _RELU, "simple", "d = max(s, 0). Relu(NaN) is NaN, Relu(-0) is +0."),
    *_unary("not", "Not", _BITS, "simple", "d = ~s, bitwise."),
    *_scalar("adds", "Adds", _WITH_SCALAR, "simple", "d = s + scalar."),
    *_scalar("muls", "Muls", _SCALED, "simple", "d = s * scalar."),
    *_scalar("maxs", "Maxs", _WITH_SCALAR, "simple", "d = max(s, scalar), NaN as for max."),
    *_scalar("mins", "Mins", _WITH_SCALAR, "simple", "d = min(s, scalar), NaN as for min."),
    *_scalar("leaky_relu", "LeakyRelu", _FLOAT, "simple", "d = s with a clear sign bit, else s * scalar."),
    *_scalar("shift_left", "ShiftLeft", _SHIFTS, "simple", "d = s << scalar.", _SHIFT_AMOUNT),
    *_scalar("shift_right", "ShiftRight", _SHIFTS, "simple",
             "d = s >> scalar: arithmetic for signed, logical for unsigned dtypes; no rounding.", _SHIFT_AMOUNT),
    *_scalar("axpy", "Axpy", _FLOAT, "simple", "d = s * scalar + d; " + _MULTIPLY_ADD, direction="inout"),
    *_binary("mul_add_dst", "MulAddDst", _FLOAT, "mul_add_dst", "d = s0 * s1 + d; " + _MULTIPLY_ADD, direction="inout"),
    *_binary("fused_mul_add", "FusedMulAdd", _FLOAT, "simple", "d = s0 * d + s1; " + _MULTIPLY_ADD, direction="inout"),
)  # fmt: skip
