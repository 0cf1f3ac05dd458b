"""8-bit floats as bytes: the arithmetic of the scalar unit, and what becomes of buffers and operands."""

import ml_dtypes
import numpy as np
import pytest

from tilelang_ascend.arch import get_chip
from tilelang_ascend.ir import (
    AllocBuffer,
    Bind,
    BufferLoad,
    PrimFunc,
    Var,
    call,
    decl_buffer,
    dtype_of,
    imm,
    intrin,
    is_buffer_var,
    op_name,
    operand_parts,
    seq,
    statements,
    tirx,
)
from tilelang_ascend.transform.lower.float8_codes import float8_codes

E4 = "float8_e4m3fn"


def at(buffer, *indices):
    return BufferLoad(buffer, [imm(i) for i in indices])


def sample() -> PrimFunc:
    """A tile is loaded; one element is doubled and stored."""
    x, y = (decl_buffer([64], E4, name) for name in "XY")
    tile, v = decl_buffer([1, 64], E4, "tile", scope="shared.ub"), Var("v", E4)
    load = intrin("copy_gm_to_ub", at(tile, 0, 0), at(x, 0), 1, 64, 0, 0, 0, 0, 0, 0.0)
    read = Bind(v, call("ascend.get_value", [at(tile, 0, 3)], dtype=E4))
    doubled = tirx.Cast(E4, tirx.Cast("float32", v) * imm(2.0, "float32"))
    body = seq(AllocBuffer(tile), load, read, intrin("set_value", at(y, 5), doubled))
    return PrimFunc([x, y], body)


def calls(func):
    return {op_name(s.value): s.value for s in statements(func.body) if hasattr(s, "value") and op_name(s.value)}


@pytest.mark.parametrize("target, moved", [("a2", "uint8"), ("a5", E4)])
def test_buffers_and_operands(target, moved):
    func = float8_codes(sample(), get_chip(target))
    assert [dtype_of(p) for p in func.params if is_buffer_var(p)] == [moved, moved]
    found = calls(func)
    assert {operand_parts(a)[1] for a in list(found["ascend.copy_gm_to_ub"].args)[:2]} == {moved}
    for name in ("ascend.get_value", "ascend.set_value"):
        assert operand_parts(found[name].args[0])[1] == "uint8"
    assert dtype_of(found["ascend.get_value"]) == dtype_of(found["ascend.set_value"].args[1]) == "uint8"


def test_functions_without_8_bit_floats_stay():
    x, y = decl_buffer([64], "float16", "X"), decl_buffer([1, 64], "float16", "y", scope="shared.ub")
    func = PrimFunc([x], seq(AllocBuffer(y), intrin("copy_gm_to_ub", at(y, 0, 0), at(x, 0), 1, 64, 0, 0, 0, 0, 0, 0.0)))
    assert float8_codes(func, get_chip("a2")) is func


def test_constants_are_codes():
    y = decl_buffer([64], E4, "Y")
    func = float8_codes(PrimFunc([y], intrin("set_value", at(y, 0), tirx.const(1.5, "float32"))), get_chip("a2"))
    code = int(np.array(1.5).astype(ml_dtypes.float8_e4m3fn).view(np.uint8))
    assert int(calls(func)["ascend.set_value"].args[1].value) == code
