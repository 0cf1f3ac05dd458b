"""cumsum and cummax along every dimension, forwards and backwards."""

import numpy as np
import pytest
from harness import Lab

from tilelang_ascend.ir import const_int, full_region, op_name, statements
from tilelang_ascend.tile import tile_op
from tilelang_ascend.tileop.ops.scan import lower_scan

RNG = np.random.default_rng(5)


def scanned(shape, dim, name, dtype, reverse, in_place=False):
    x = RNG.integers(-9, 9, shape) if dtype.startswith("int") else RNG.standard_normal(shape)
    lab = Lab(x=(dtype, x), y=(dtype, np.zeros(shape)))
    before = lab.arrays["x"].astype(np.float64)
    target = lab.x if in_place else lab.y
    out = lab.run(tile_op(name, full_region(lab.x), full_region(target), dim=dim, reverse=int(reverse)), fn=lower_scan)
    flipped = np.flip(before, dim) if reverse else before
    want = (np.cumsum if name == "cumsum" else np.maximum.accumulate)(flipped, axis=dim)
    return out["x" if in_place else "y"].astype(np.float64), np.flip(want, dim) if reverse else want


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", ["cumsum", "cummax"])
@pytest.mark.parametrize("shape, dim", [((1,), 0), ((9,), 0), ((100,), 0), ((5, 70), 1), ((7, 33), 0), ((3, 4, 20), 1), ((3, 4, 20), 2)])
def test_shapes(shape, dim, name, reverse):
    for dtype in ("float32", "int32"):
        got, want = scanned(shape, dim, name, dtype, reverse)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", ["cumsum", "cummax"])
@pytest.mark.parametrize("shape", [(16, 16), (4, 4, 16), (2, 128), (256,), (2, 3, 256), (6, 128), (1, 2048)])
@pytest.mark.one_in(4)
def test_rows_of_groups_of_sixteen(shape, name, reverse):
    for dtype in ("float32", "int32", "float16", "uint32"):
        if dtype == "float16" and name == "cumsum" and shape[-1] > 256:
            continue  # Sums of so many are as large as their tolerance.
        got, want = scanned(shape, len(shape) - 1, name, dtype, reverse, in_place=dtype == "float32")
        exact = dtype.endswith("32") and dtype != "float32"
        np.testing.assert_allclose(
            got,
            want % 2.0**32 if dtype == "uint32" else want,
            rtol=0 if exact else 2e-2 if dtype == "float16" else 1e-5,
            atol=0 if exact else 2e-2 if dtype == "float16" else 2e-5,
        )


def test_rows_of_groups_of_sixteen_take_transposes():
    """One turns everything over, one back; what is left to gather is a sixteenth."""
    lab = Lab(x=("float32", np.zeros((2, 1024))), y=("float32", np.zeros((2, 1024))))
    lowered = lab.lower(tile_op("cumsum", full_region(lab.x), full_region(lab.y), dim=1, reverse=0), fn=lower_scan)
    names = [op_name(s) for s in statements(lowered)]
    assert names.count("ascend.trans_data_to_5hd") == 4
    assert all(const_int(s.value.args[-1]) <= 64 for s in statements(lowered) if op_name(s) == "ascend.gather")


@pytest.mark.parametrize("dtype, tolerance", [("float16", 2e-2), ("bfloat16", 1e-1)])
@pytest.mark.parametrize("dim", [0, 1])
def test_half_precision_accumulates_in_float32(dtype, tolerance, dim):
    got, want = scanned((6, 130), dim, "cumsum", dtype, False)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
def test_in_place(dim, reverse):
    got, want = scanned((6, 70), dim, "cumsum", "float32", reverse, in_place=True)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
