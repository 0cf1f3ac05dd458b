"""Reductions along every dimension, dtype and width, against NumPy."""

import numpy as np
import pytest
from harness import Lab

from tilelang_ascend.ir import full_region
from tilelang_ascend.tile import tile_op
from tilelang_ascend.tileop.ops.reduce import lower_reduce

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
        want = {"sum": np.add, "abssum": np.add, "max": np.maximum, "absmax": np.maximum, "min": np.minimum}[kind](want, 3)
    return lab, got["y"].astype(np.float64), want


@pytest.mark.parametrize("width", [1, 2, 7, 8, 63, 64, 65, 100, 128, 129, 200, 513])
@pytest.mark.parametrize("rows", [1, 3, 9])
@pytest.mark.parametrize("kind", ["sum", "max"])
@pytest.mark.one_in(3)
def test_last_dimension(width, rows, kind):
    _, got, want = reduced((rows, width), 1, kind, "float32")
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-5)


@pytest.mark.parametrize(
    "shape",
    [
        (3, 192),
        (5, 576),
        (2, 1024),
        (9, 4096),
        (2, 3, 320),
        (3, 256),
        (13, 256),
        (300, 64),
        (9, 128),
        (40, 32),
        (2, 8, 64),
        (7, 16),
        (19, 8),
    ],
)
@pytest.mark.parametrize("kind", ["sum", "max", "min"])
@pytest.mark.one_in(2)
def test_long_rows(shape, kind):
    """Whole repeats in packed rows: BlockReduce once, twice, and with folding in halves before or after it."""
    lab, got, want = reduced(shape, len(shape) - 1, kind, "float32")
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-5)
    assert any(name.startswith("block_reduce") for name in lab.instructions)


@pytest.mark.parametrize("kind", list(NUMPY))
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "int16", "int8", "uint8"])
@pytest.mark.parametrize("clear", [0, 1])
@pytest.mark.one_in(3)
def test_kinds_and_dtypes(kind, dtype, clear):
    _, got, want = reduced((5, 70), 1, kind, dtype, clear, out_dtype="int32" if dtype in ("int8", "uint8", "int16") else None)
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
    assert lab.instructions == ["block_reduce_max"] * 2
    lab, *_ = reduced((7, 64), 1, "max", "float32")
    assert lab.instructions == ["whole_reduce_max"]


@pytest.mark.parametrize("kind, numpy", [("any", np.any), ("all", np.all)])
@pytest.mark.parametrize("dtype", ["bool", "int32", "int8"])
def test_any_and_all(kind, numpy, dtype):
    x = RNG.integers(0, 2, (12, 5)) * 3 if dtype != "bool" else RNG.integers(0, 2, (12, 5))
    lab = Lab(x=(dtype, x), y=("bool", np.zeros(12)))
    op = tile_op("reduce", full_region(lab.x), full_region(lab.y), kind=kind, dim=1, clear=1)
    np.testing.assert_array_equal(lab.run(op, fn=lower_reduce)["y"].astype(bool), numpy(x != 0, axis=1))


BITS = {"bitand": np.bitwise_and, "bitor": np.bitwise_or, "bitxor": np.bitwise_xor}
ORDER = {"max": np.maximum, "min": np.minimum, "sum": np.add}


def integers(dtype, shape):
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)


def run_integers(kind, ufunc, dtype, shape, dim, clear):
    x = integers(dtype, shape)
    y = integers(dtype, [n for d, n in enumerate(shape) if d != dim])
    lab = Lab(x=(dtype, x), y=(dtype, y))
    op = tile_op("reduce", full_region(lab.x), full_region(lab.y), kind=kind, dim=dim, clear=clear)
    want = ufunc.reduce(x, axis=dim, dtype=x.dtype)
    want = want if clear else ufunc(want, y)
    np.testing.assert_array_equal(lab.run(op, fn=lower_reduce, expect_scalar=dtype == "int64")["y"], want)
    return lab


@pytest.mark.parametrize("kind", list(BITS))
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
@pytest.mark.parametrize("clear", [0, 1])
def test_bit_reductions(kind, dtype, clear):
    lab = run_integers(kind, BITS[kind], dtype, (5, 70), 1, clear)
    assert not lab.warnings


@pytest.mark.parametrize("kind", list(ORDER))
@pytest.mark.parametrize("dtype", ["uint16", "uint32"])
@pytest.mark.parametrize("dim, clear", [(0, 1), (1, 1), (1, 0)])
def test_unsigned_reductions(kind, dtype, dim, clear):
    lab = run_integers(kind, ORDER[kind], dtype, (5, 70), dim, clear)
    assert not lab.warnings


@pytest.mark.parametrize("kind", [*ORDER, *BITS])
@pytest.mark.parametrize("dim, clear", [(0, 1), (1, 0), (2, 1)])
@pytest.mark.one_in(3)
def test_64_bit_reductions(kind, dim, clear):
    lab = run_integers(kind, {**ORDER, **BITS}[kind], "int64", (2, 3, 4) if dim == 0 else (3, 5, 19), dim, clear)
    assert not lab.warnings


@pytest.mark.parametrize("shape", [(6, 40), (3, 4, 20), (2, 3, 4, 12)])
@pytest.mark.parametrize("clear", [0, 1])
@pytest.mark.parametrize("dtype, kind", [("float16", "sum"), ("float32", "absmax"), ("int32", "min")])
def test_every_dimension_with_and_without_clear(shape, clear, dtype, kind):
    for dim in range(len(shape)):
        lab, got, want = reduced(shape, dim, kind, dtype, clear)
        np.testing.assert_allclose(got, want, rtol=2e-3, atol=2e-2 if dtype == "float16" else 1e-6)
        assert not lab.warnings


@pytest.mark.parametrize("start, width", [(3, 21), (8, 5), (1, 1)])
def test_rows_that_start_inside_a_block(start, width):
    """No instruction can read there: the rows are gathered first."""
    from tilelang_ascend.ir import imm, region

    x = RNG.standard_normal((6, 40))
    lab = Lab(x=("float32", x), y=("float32", np.zeros(6)))
    source = region(lab.x, [imm(0), imm(start)], [imm(6), imm(width)])
    op = tile_op("reduce", source, full_region(lab.y), kind="max", dim=1, clear=1)
    got = lab.run(op, fn=lower_reduce)
    np.testing.assert_array_equal(got["y"], got["x"][:, start : start + width].max(1))
