"""Words of the instruction stream, computed at compile time."""

import math
import struct

import pytest
from ascend_ir_samples import SAMPLES, Builder, at, gm

from tilelang_ascend.ir import Call, IntImm, Var, const_int, intrin, statements, tirx, walk_expr
from tilelang_ascend.ir.functions import core_functions, split_params
from tilelang_ascend.isa import Space, opcode
from tilelang_ascend.isa.stream import float_bits, operand_base, round_to
from tilelang_ascend.sim.exits import lower_exits
from tilelang_ascend.sim.lower import float_word, from_word, lower_function


def bits(value):
    return struct.unpack("<q", struct.pack("<d", value))[0]


def test_operand_words_hold_space_dtype_and_offset():
    assert operand_base(Space.UB, "float32", 64) == 5 << 56 | 11 << 48 | 64
    assert operand_base(Space.GM, "bool") == operand_base(Space.GM, "uint8")
    with pytest.raises(AssertionError, match="does not fit"):
        operand_base(Space.GM, "int8", 1 << 48)


def test_an_index_far_outside_does_not_change_the_tile_of_a_word():
    base = operand_base(Space.UB, "float32", 64, tile=3)
    for index in (-(2**28), -17, -16, 2**28):
        assert (base + 4 * index) >> 32 == base >> 32 == 5 << 24 | 11 << 16 | 3


def test_floats_are_rounded_once_to_the_dtype():
    assert round_to(0.1, "float16") == 0.0999755859375
    assert round_to(0.1, "bfloat16") == 0.10009765625
    assert round_to(65520.0, "float16") == math.inf
    # Rounding to float32 on the way would end on the other side of the tie.
    between = 1 + 2**-11 + 2**-40
    assert round_to(between, "float16") == 1 + 2**-10
    assert float_bits(0.5) == bits(0.5)


def test_float_arguments_of_integer_operands_are_integers():
    assert const_int(float_word(tirx.const(3.0, "float32"), "int32")) == 3
    assert const_int(float_word(IntImm("int32", -2), "int16")) == -2
    assert const_int(float_word(IntImm("int32", 2), "float32")) == bits(2.0)
    assert const_int(float_word(tirx.const(0.1, "float32"), "float16")) == bits(0.0999755859375)


def test_argument_words_become_scalars():
    word = Var("w", "int64")
    assert from_word(word, "int64").same_as(word)
    assert str(from_word(word, "int32").ty.dtype) == "int32"
    assert str(from_word(word, "float16").ty.dtype) == "float16"


def calls_of(func):
    found = []

    def see(e):
        if isinstance(e, Call) and e.op.name == "tirx.call_extern":
            found.append(e)

    for s in statements(func.body):
        for e in [s.value] if hasattr(s, "value") else []:
            walk_expr(e, see)
    return found


def test_one_intrinsic_is_one_call_with_its_line():
    b = Builder()
    x = gm("X", "float32", 64)
    ub = b.alloc("ub", "float32", "ub", 64, 256, versions=2)
    body = intrin("adds", at(ub, 1, 8), at(ub, 0, 0), 2.0, 64, span=b.at(17))
    func = lower_function(b.function("k", "aiv", "aiv_only", [x], body), "aiv")
    tile, call = calls_of(func)
    head, args = [str(call.args[0].value)], [const_int(a) for a in list(call.args)[1:]]
    base = operand_base(Space.UB, "float32", 256, tile=1)
    assert head == ["tla_issue_4"]
    assert args == [opcode("adds"), 17, base + 64 * 4 + 8 * 4, base, bits(2.0), 64]
    assert [str(tile.args[0].value), *(const_int(a) for a in tile.args[1:6]), str(tile.args[6].value)] == [
        "tla_tile",
        5,
        256,
        256,
        2,
        256,
        "ub",
    ]


def test_a_buffer_without_address_is_our_mistake():
    from tilelang_ascend.ir import AllocBuffer, decl_buffer, seq

    b = Builder()
    buffer = decl_buffer((1, 64), "float32", "ub", scope="shared.ub")
    func = b.function("k", "aiv", "aiv_only", [], seq(AllocBuffer(buffer), intrin("pipe_barrier", pipe="V")))
    with pytest.raises(AssertionError, match="has no address"):
        lower_function(func, "aiv")


def test_parameters_are_split_into_scalars_buffers_and_workspaces():
    func = core_functions(SAMPLES["matmul_exp"]().module)["aic"]
    scalars, buffers, spaces = split_params(func)
    assert [len(scalars), len(buffers), len(spaces)] == [0, 3, 1]


def test_functions_without_exits_stay_as_they_are():
    body = core_functions(SAMPLES["vector_add"]().module)["aiv"].body
    assert lower_exits(body).same_as(body)
