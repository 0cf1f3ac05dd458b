"""8-bit floats in nests: all codes, all roundings."""

import ml_dtypes
import numpy as np
import pytest
from harness import Lab, assign, parallel

FP8 = {"float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2}


def same(got, want):
    got, want = np.asarray(got, np.float32), np.asarray(want, np.float32)
    np.testing.assert_array_equal(got, want)
    number = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(want[number]))


@pytest.mark.parametrize("dtype", list(FP8))
@pytest.mark.parametrize("target", ["float32", "float16", "bfloat16"])
def test_every_code(dtype, target):
    codes = np.arange(256, dtype=np.uint8).view(FP8[dtype])
    lab = Lab(x=(dtype, codes), y=(target, np.zeros(256)))
    same(lab.run(parallel((256,), lambda i: assign(lab.y, lab.x[i], i)))["y"], codes)


FAR = [1e6, -1e6, 1e30, -1e30, 3e38, -3e38, np.inf, -np.inf, np.nan, 1e-30, -1e-40]


@pytest.mark.parametrize("dtype", list(FP8))
def test_rounding(dtype):
    codes = np.arange(256, dtype=np.uint8).view(FP8[dtype]).astype(np.float32)
    finite = np.unique(codes[np.isfinite(codes)])
    middle = (finite[1:] + finite[:-1]) / 2
    x = np.concatenate([finite, middle, np.nextafter(middle, np.float32(9e9)), np.nextafter(middle, np.float32(-9e9)), FAR])
    x = x.astype(np.float32)
    lab = Lab(x=("float32", x), y=(dtype, np.zeros(len(x))))
    same(lab.run(parallel((len(x),), lambda i: assign(lab.y, lab.x[i], i)))["y"], x.astype(FP8[dtype]))
