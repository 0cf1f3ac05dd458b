"""Printed IR reads back structurally equal."""

import sys
from pathlib import Path

import pytest

from tilelang_ascend import ir
from tilelang_ascend.ir import (
    AllocBuffer,
    BufferLoad,
    FloatImm,
    PrimFunc,
    Var,
    decl_buffer,
    imm,
    intrin,
    loop,
    seq,
    tirx,
)

_TESTING = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_TESTING), str(_TESTING / "transform")]

import ascend_ir_samples  # noqa: E402
import tile_samples  # noqa: E402


@pytest.mark.parametrize("name", ascend_ir_samples.SAMPLES)
def test_ascend_ir(name):
    module = ascend_ir_samples.SAMPLES[name]().module
    again = ir.parse(module.script())
    assert ir.same_program(module, again)
    assert ir.same_program(again, ir.parse(again.script()))


TILE = {
    "gemm": lambda: tile_samples.gemm(1024, 1000, 512),
    "gemm_trans": lambda: tile_samples.gemm(100, 129, 17, trans_a=1, trans_b=1),
    "add": lambda: tile_samples.add(1000),
    "add_from_gm": lambda: tile_samples.add(1000, staged=False),
    "dynamic": lambda: tile_samples.add(Var("n", "int32")),
}


@pytest.mark.parametrize("name", TILE)
def test_tile_ir(name):
    func = TILE[name]()
    assert ir.same_program(func, ir.parse(func.script()))


def small(*stmts, params=()):
    ub = decl_buffer((1, 128), "int16", "u", scope="shared.ub")
    body = seq(AllocBuffer(ub, annotations={"address": 0}), *(s(BufferLoad(ub, [0, 0])) for s in stmts))
    return PrimFunc(list(params), body).with_attr("global_symbol", "k_aiv")


def test_keywords_print_as_names():
    func = small(lambda u: intrin("and", u, u, u, 128), lambda u: intrin("or", u, u, u, 128), lambda u: intrin("not", u, u, 128))
    assert "T.ascend.and_(" in func.script()
    assert ir.same_program(func, ir.parse(func.script()))


def test_expressions_are_not_simplified():
    m, n = Var("m", "int32"), Var("n", "int64")
    odd = tirx.Sub(m, tirx.Add(m, tirx.Add(imm(1), tirx.Sub(m, imm(2)))))
    wide = tirx.Mul(tirx.FloorMod(n, imm(3, "int64")), tirx.FloorDiv(n, imm(5, "int64")))
    i = Var("i", "int32")
    func = small(
        lambda u: intrin("add", u, u, u, odd),
        lambda u: intrin("adds_mask", u, u, 3, imm(0, "int64"), wide, 1, 1, 1, 8, 8),
        lambda u: loop(i, tirx.Add(tirx.Sub(m, m), imm(2)), intrin("add", u, u, u, 16)),
        params=[m, n],
    )
    again = ir.parse(func.script())
    assert ir.same_program(func, again)
    assert func.script() == again.script()


def test_special_floats():
    func = small(*(lambda u, v=v: intrin("duplicate", u, FloatImm("float32", v), 8) for v in (float("inf"), float("nan"), -0.1)))
    assert ir.same_program(func, ir.parse(func.script()))


def test_unknown_instructions_do_not_parse():
    text = small(lambda u: intrin("add", u, u, u, 128)).script().replace("T.ascend.add", "T.ascend.addd")
    with pytest.raises(Exception, match="addd"):
        ir.parse(text)


def test_parsing_leaves_the_parser_of_tvm_as_it_was():
    import importlib

    dispatch = importlib.import_module("tvm.script.parser.core.dispatch")
    before = dict(dispatch.OpVTable)
    with pytest.raises(Exception):
        ir.parse("this is no script")
    ir.parse(small(lambda u: intrin("add", u, u, u, 128)).script())
    assert dispatch.OpVTable == before


def test_comparison_notices_a_difference():
    a, b = (small(lambda u, n=n: intrin("add", u, u, u, n)) for n in (128, 127))
    assert not ir.same_program(a, b)
