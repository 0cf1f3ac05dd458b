"""Attention with steps of more keys than L0C and UB hold: products in parts, vector work in slices of rows, early and late products in one loop."""

import merging
import numpy as np
import pytest
import strict
from test_merge_steps import check, merged, tensors

import tilelang_ascend as tilelang
from tilelang_ascend.arch import get_chip
from tilelang_ascend.ir import For, ForKind, scope_of, statements
from tilelang_ascend.tile import GEMM, is_op
from tilelang_ascend.tile.uses import uses_of
from tilelang_ascend.transform import pipeline


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """Long steps are worth it where there are eight of them; four are tested in half of the time."""
    monkeypatch.setattr("tilelang_ascend.transform.nests.merge_steps.LONG_STEPS", ((512, 4),))


FAST = {tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True}


def compile(variant="", steps=32, rows=64, block=64, dtype="float16", **how):
    return tilelang.compile(merging.forward(variant, keys=steps * block, dtype=dtype, rows=rows, block=block), **how)


def given(steps=32, rows=64, block=64, dtype="float16"):
    return tensors(steps * block, dtype, rows, block)


def stage(compiled, name: str):
    lowered = pipeline.lower(compiled.artifact.tile_ir, get_chip(compiled.artifact.chip), keep_stages=True)
    return [ir for found, ir in lowered.stages if found == name][-1]


def loops_inside(body):
    """Loops of one kind of core in another loop: (of the cube core, of the vector cores)."""
    found = [
        s
        for loop in statements(body)
        if isinstance(loop, For)
        for s in statements(loop.body)
        if isinstance(s, For) and s.kind == ForKind.SERIAL
    ]
    scopes = [{scope_of(b) for b in uses_of(s).all} for s in dict.fromkeys(found)]
    return sum("local.l0c" in x and "shared.ub" not in x for x in scopes), sum("shared.ub" in x and "local.l0c" not in x for x in scopes)


def test_products_have_parts_and_rows_have_slices():
    compiled = compile()
    assert merged(compiled)
    cube, vector = loops_inside(stage(compiled, "slice_rows").body)
    assert cube >= 2 and vector == 1
    # Side by side: one loop has products of both iterations.
    rotated = stage(compiled, "rotate_loops").body
    both = [s for s in statements(rotated) if isinstance(s, For) and sum(is_op(x, GEMM) for x in statements(s.body)) == 2]
    assert both and "shared.ub" not in {scope_of(b) for b in uses_of(both[-1]).all}
    check(compiled, given(), "", text=True)


@pytest.mark.parametrize("variant", ["natural", "two outputs"])
def test_variants(variant):
    check(compile(variant), given(), variant)


@pytest.mark.parametrize("chip", ["a3", "a5"])
def test_other_chips(chip):
    check(compile(target=chip), given(), "")


@pytest.mark.parametrize("steps, rows, block", [(35, 64, 64), (16, 128, 128)], ids=["steps left over", "128 rows"])
def test_shapes(steps, rows, block):
    compiled = compile("", steps, rows, block)
    assert merged(compiled)
    check(compiled, given(steps, rows, block), "")


def test_bfloat16():
    check(compile(dtype="bfloat16"), given(dtype="bfloat16"), "", dtype="bfloat16")


def test_maxima_of_what_crosses_as_float16():
    """With fast math scores cross as float16, and their maxima are found before they are converted."""
    compiled, arrays = compile(pass_configs=FAST), given()
    arrays["Q"] /= 8
    got, expected = strict.run(compiled, {n: x for n, x in arrays.items() if n != "n"}, {"n": arrays["n"]}), merging.reference(arrays, "")
    assert (abs(got["O"] - expected["O"]) <= 2**-8 * expected["size"]).all()
    np.testing.assert_allclose(got["X"], expected["X"], rtol=2**-10)


def test_no_flag_can_be_left_out():
    compiled, arrays = compile("", 32), given(32)
    survivors = strict.surviving_mutants(compiled, {n: x for n, x in arrays.items() if n != "n"}, {"n": arrays["n"]})
    assert [x for x in survivors if "flag" in x] == []
