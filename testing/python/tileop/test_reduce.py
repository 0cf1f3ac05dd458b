"""Reductions along every dimension, dtype and width, against NumPy."""

import numpy as np
import pytest
from harness import Lab

from tilelang_ascend.ir import full_region, tile_op
from tilelang_ascend.tileop.reduce import lower_reduce

RNG = np.random.default_rng(1)
NUMPY = {"sum": np.sum, "max": np.max, "min": np.min, "abssum": lambda x, **k: np.sum(np.abs(x), **k),
         "absmax": lambda x, **k: np.max(np.abs(x), **k)}  # fmt: skip


def reduced(shape, dim, kind, dtype, clear=1, out_dtype=None, keep=False):
    x = RNG.integers(-9, 9, shape) if dtype.startswith(("int", "uint")) else RNG.standard_normal(shape)
    x = np.abs(x) if dtype == "uint8" else x
    out_shape = [n for d, n in enumerate(shape) if d != dim % len(shape)] or [1]
    if keep:
        out_shape = [1 if d == dim % len(shape) else n for d, n in enumerate(shape)]
    lab = Lab(x=(dtype, x), y=(out_dtype or dtype, np.full(out_shape, 3)))
    op = tile_op("reduce", full_region(lab.x), full_region(lab.y), kind=kind, dim=dim, clear=clear)
    got = lab.run(op, fn=lower_reduce)
    want = NUMPY[kind](got["x"].astype(np.float64), axis=dim).reshape(out_shape)
    if not clear:
        want = {"sum": np.add, "abssum": np.add, "max": np.maximum, "absmax": np.maximum, "min": np.minimum}[kind](
            want, 3
        )
    return lab, got["y"].astype(np.float64), want


@pytest.mark.parametrize("width", [1, 2, 7, 8, 63, 64, 65, 100, 128, 129, 200, 513])
@pytest.mark.parametrize("rows", [1, 3, 9])
@pytest.mark.parametrize("kind", ["sum", "max"])
def test_last_dimension(width, rows, kind):
    _, got, want = reduced((rows, width), 1, kind, "float32")
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-5)


@pytest.mark.parametrize("kind", list(NUMPY))
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "int16", "int8", "uint8"])
@pytest.mark.parametrize("clear", [0, 1])
def test_kinds_and_dtypes(kind, dtype, clear):
    _, got, want = reduced(
        (5, 70), 1, kind, dtype, clear, out_dtype="int32" if dtype in ("int8", "uint8", "int16") else None
    )
    tolerance = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2}.get(dtype, 0)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * 10)


@pytest.mark.parametrize("rows", [2, 3, 5, 8, 13])
@pytest.mark.parametrize("width", [5, 64, 100])
def test_first_dimension(rows, width):
    _, got, want = reduced((rows, width), 0, "sum", "float32")
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_three_dimensions(dim):
    _, got, want = reduced((4, 5, 70), dim, "sum", "float32")
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_one_dimension_and_kept_dimension():
    _, got, want = reduced((300,), 0, "sum", "float32")
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    _, got, want = reduced((6, 70), 1, "max", "float32", keep=True)
    np.testing.assert_array_equal(got, want)


def test_sum_of_float16_accumulates_in_float32():
    _, got, want = reduced((2, 512), 1, "sum", "float16", out_dtype="float32")
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-5)


def test_many_rows_need_few_instructions():
    lab, got, want = reduced((128, 64), 1, "max", "float32")
    np.testing.assert_array_equal(got, want)
    assert lab.instructions == ["whole_reduce_max"]


@pytest.mark.parametrize("kind, numpy", [("any", np.any), ("all", np.all)])
@pytest.mark.parametrize("dtype", ["bool", "int32", "int8"])
def test_any_and_all(kind, numpy, dtype):
    x = RNG.integers(0, 2, (12, 5)) * 3 if dtype != "bool" else RNG.integers(0, 2, (12, 5))
    lab = Lab(x=(dtype, x), y=("bool", np.zeros(12)))
    op = tile_op("reduce", full_region(lab.x), full_region(lab.y), kind=kind, dim=1, clear=1)
    np.testing.assert_array_equal(lab.run(op, fn=lower_reduce)["y"].astype(bool), numpy(x != 0, axis=1))


def test_what_cannot_be_reduced_is_refused_with_the_reason():
    from tilelang_ascend.errors import UnsupportedConstruct

    lab = Lab(x=("int32", np.ones((4, 8))), y=("int32", np.zeros(4)))
    op = tile_op("reduce", full_region(lab.x), full_region(lab.y), kind="bitxor", dim=1, clear=1)
    with pytest.raises(UnsupportedConstruct, match="bitxor.*bitwise reductions"):
        lab.lower(op, lower_reduce)
