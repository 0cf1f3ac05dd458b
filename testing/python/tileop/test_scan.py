"""cumsum and cummax along every dimension, forwards and backwards."""

import numpy as np
import pytest
from harness import Lab

from tilelang_ascend.ir import full_region
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
