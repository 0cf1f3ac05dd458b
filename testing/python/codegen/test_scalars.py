"""Scalar expressions as C++ text."""

import pytest

from tilelang_ascend.analysis.index.data_names import DataNames
from tilelang_ascend.analysis.index.signs import Known
from tilelang_ascend.codegen.names import Names, identifier
from tilelang_ascend.codegen.scalars import ScalarText, cast_text, float_literal, int_literal, int_text
from tilelang_ascend.ir import BufferLoad, IntImm, Var, decl_buffer, imm, seq, tirx

x, y, i, wide, u = Var("x", "int32"), Var("y", "int32"), Var("i", "int32"), Var("wide", "int64"), Var("u", "uint32")
f, h, b16, s8, u8 = Var("f", "float32"), Var("h", "float16"), Var("b", "bfloat16"), Var("s", "int8"), Var("u8", "uint8")


def printer() -> ScalarText:
    text = ScalarText(lambda v: v.name, lambda call: "machine()", Known(DataNames(seq())))
    text.known.nonnegative.add(i)
    return text


@pytest.mark.parametrize(
    "expression, text",
    [
        (x + y * 2, "x + y * 2"),
        (tirx.RShift(IntImm("int64", 5), IntImm("int64", 32)), "static_cast<int64_t>(5) >> 32"),
        (tirx.RShift(wide, IntImm("int64", 32)), "wide >> 32"),
        ((x + y) * 2, "(x + y) * 2"),
        (x - (y - 1), "x - (y - 1)"),
        (x + (-3), "x - 3"),
        (tirx.floordiv(i, 4), "i / 4"),
        (tirx.floormod(i + 3, 4), "(i + 3) % 4"),
        (tirx.floordiv(x, 4), "FloorDiv<int32_t>(x, 4)"),
        (tirx.floormod(i, y), "FloorMod<int32_t>(i, y)"),
        (tirx.truncdiv(x, y), "TruncDiv<int32_t>(x, y)"),
        (tirx.min(x, tirx.max(y, 1)), "Min<int32_t>(x, Max<int32_t>(y, 1))"),
        (tirx.if_then_else(x > 1, x + 1, y), "(x > 1 ? (x + 1) : y)"),
        (tirx.all(x > 1, tirx.any(y < 2, y != 7)), "x > 1 && (y < 2 || y != 7)"),
        (tirx.EQ(x & 3, y), "(x & 3) == y"),
        (x << 2, "x << 2"),
        (tirx.LShift(IntImm("int64", 1), wide), "ShiftLeft<int64_t>(1, wide)"),
        (tirx.if_then_else(x > 1, imm(65536, "int64"), imm(3, "int64")) * imm(65536, "int64"),
         "(x > 1 ? static_cast<int64_t>(65536) : 3) * 65536"),
        (tirx.bitwise_not(imm(5, "uint64")), "~static_cast<uint64_t>(5U)"),
        (tirx.bitwise_not(tirx.Cast("int32", u8)) * 2, "(-1 - static_cast<int32_t>(u8)) * 2"),
        (tirx.bitwise_not(tirx.Cast("int32", s8)) * 2, "~static_cast<int32_t>(s) * 2"),
        (tirx.reinterpret("uint64", imm(-5, "int64")), "BitCast<uint64_t>(static_cast<int64_t>(-5))"),
        (tirx.Cast("int64", x) * tirx.const(1 << 40, "int64"), "static_cast<int64_t>(x) * 1099511627776LL"),
        (s8 * tirx.const(3, "int8"), "static_cast<int8_t>(s * 3)"),
        (h + h * h, "static_cast<half>((static_cast<float>(h)) + (static_cast<float>(static_cast<half>("
                    "(static_cast<float>(h)) * (static_cast<float>(h))))))"),
        (tirx.Cast("bfloat16", f), "AscendC::ToBfloat16(f)"),
        (tirx.Cast("int32", b16), "ToInteger<int32_t>(AscendC::ToFloat(b))"),
        (tirx.Cast("float16", x), "static_cast<half>(static_cast<float>(x))"),
        (tirx.Cast("bool", x), "(x != 0)"),
        (tirx.Cast("bool", x & 2), "((x & 2) != 0)"),
        (tirx.Cast("bool", x | y), "((x | y) != 0)"),
        (tirx.Cast("bool", x + y), "(x + y != 0)"),
        (tirx.Not(x > y), "!(x > y)"),
        (u + tirx.const(7, "uint32"), "u + 7U"),
        (tirx.reinterpret("int32", f), "BitCast<int32_t>(f)"),
        (f / (f * f), "f / (f * f)"),
        (f * f / f, "f * f / f"),
        (f * (f / f), "f * (f / f)"),
        (BufferLoad(decl_buffer((1,), "int32", "state", scope="local.var"), [0]) + 1, "state + 1"),
    ],
)  # fmt: skip
def test_text_of_expressions(expression, text):
    assert printer()(expression) == text


@pytest.mark.parametrize(
    "value, dtype, text",
    [
        (0.1, "float32", "0.1f"),
        (1.0, "float32", "1.0f"),
        (1e20, "float32", "1e+20f"),
        (0.1, "float64", "0.1"),
        (0.1, "float16", "static_cast<half>(0.099975586f)"),
        (0.1, "bfloat16", "AscendC::ToBfloat16(0.100097656f)"),
        (float("inf"), "float32", "__builtin_inff()"),
        (float("-inf"), "float16", "static_cast<half>(-__builtin_inff())"),
        (float("nan"), "float32", '__builtin_nanf("")'),
        (1e6, "float16", "static_cast<half>(__builtin_inff())"),
    ],
)
def test_float_literals_are_rounded_to_their_dtype(value, dtype, text):
    assert float_literal(value, dtype) == text


@pytest.mark.parametrize(
    "value, dtype, text",
    [
        (5, "int32", "5"),
        (-5, "int32", "-5"),
        (-(1 << 31), "int32", "(-2147483647 - 1)"),
        (1 << 31, "int64", "2147483648LL"),
        (-(1 << 63), "int64", "(-9223372036854775807LL - 1)"),
        ((1 << 64) - 1, "uint64", "18446744073709551615ULL"),
        (1, "bool", "true"),
        (3, "uint8", "3"),
    ],
)
def test_int_literals(value, dtype, text):
    assert int_literal(value, dtype) == text


def test_conversions_between_small_floats_go_through_float():
    assert cast_text("h", "float16", "bfloat16") == "AscendC::ToBfloat16(static_cast<float>(h))"


def test_an_operation_without_scalar_form_is_our_mistake():
    with pytest.raises(AssertionError, match="no scalar form"):
        printer()(tirx.exp(f))


def test_names_keep_the_users_spelling_and_never_clash():
    names = Names()
    first, second, keyword, template = (Var(n, "int32") for n in ("A_shared", "A_shared", "class", "mask"))
    assert [names.of(v) for v in (first, second, keyword, template)] == ["A_shared", "A_shared_1", "class_1", "mask_1"]
    # What headers and the emitted text define: helpers, types, macros.
    hints = ("ShiftLeft", "ToInteger", "TruncDiv", "int32_t", "NULL", "ASCEND_IS_AIV", "INT_MAX", "M_PI", "UINT8_MAX", "M_tile", "x_t")
    given = [names.of(Var(n, "int32")) for n in hints]
    assert given[:6] == [n + "_1" for n in hints[:6]] and given[6:9] == ["v_" + n for n in hints[6:9]] and given[9:] == ["M_tile", "x_t"]
    assert names.of(first) == "A_shared"


@pytest.mark.parametrize("hint, name", [("x.y", "x_y"), ("2nd", "v2nd"), ("__a__b", "a_b"), ("é", "é"), ("", "v")])
def test_identifiers(hint, name):
    assert identifier(hint) == name


def test_arguments_of_instructions_are_literals_of_c():
    """-2^63 is no literal, and an int of C++ does not hold larger numbers."""
    assert int_text(-(2**63), "int64") == "(-9223372036854775807LL - 1)" and int_text(2**63, "uint64") == f"{2**63}ULL"
    assert int_text(5, "uint32") == "5" and int_text(-7, "int64") == "-7"
