"""`nan_propagate` of maxima and minima."""

import ml_dtypes
import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend import interpret


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.one_in(2)
def test_nan_is_skipped_where_that_is_asked_for(dtype):
    kinds = ("max", "min", "absmax")

    @T.prim_func
    def main(X: T.Tensor((8, 48), dtype), Y: T.Tensor((12, 8), dtype), n: T.int32):
        with T.Kernel(1):
            x, y = T.alloc_fragment((8, 48), dtype), T.alloc_fragment((8,), dtype)
            T.copy(X, x)
            for k, kind in enumerate(kinds):
                reduction = getattr(T, f"reduce_{kind}")
                reduction(x, y, dim=1, nan_propagate=False)
                T.copy(y, Y[4 * k, 0])
                reduction(x[:, 0:n], y, dim=1, nan_propagate=False)
                T.copy(y, Y[4 * k + 1, 0])
                for i in T.Parallel(8):
                    y[i] = T.log(X[i, 0] * 0 - i)  # NaN but for the first
                reduction(x, y, dim=1, clear=False, nan_propagate=False)
                T.copy(y, Y[4 * k + 2, 0])
                reduction(x, y, dim=1, nan_propagate=True)
                T.copy(y, Y[4 * k + 3, 0])

    x = np.random.default_rng(0).standard_normal((8, 48)).astype(np.float32)
    x[:, 0] = 1
    x[2, 5] = x[5, 40:] = x[3, 1:] = np.nan
    x[4, 1] = np.inf
    x = x.astype(getattr(ml_dtypes, dtype, None) or dtype)
    wide = x.astype(np.float32)
    first = np.where(np.arange(8) == 0, -np.inf, np.nan)
    want = []
    for fold, get in ((np.fmax, lambda v: v), (np.fmin, lambda v: v), (np.fmax, np.abs)):
        v = get(wide)
        old = np.maximum(first, -np.inf)
        want += [fold.reduce(v, 1), fold.reduce(v[:, :20], 1), fold(fold.reduce(v, 1), old), {np.fmax: np.max, np.fmin: np.min}[fold](v, 1)]
    want = np.array(want).astype(x.dtype)
    out = strict.run(tilelang.compile(main), {"X": x, "Y": np.zeros_like(want)}, {"n": 20})["Y"]
    y = np.zeros_like(want)
    interpret.run(main, x.copy(), y, 20)
    for got in (out, y):
        np.testing.assert_array_equal(got.astype(np.float32), want.astype(np.float32))


@pytest.mark.parametrize("kind", ["max", "min"])
def test_numbers_that_change_nothing_in_a_dtype_without_infinities(kind):
    """float8_e4m3fn: infinity would be NaN, which what is skipped and reducers began with."""
    dtype = "float8_e4m3fn"

    @T.prim_func
    def main(X: T.Tensor((4, 40), dtype), Y: T.Tensor((2, 4), dtype)):
        with T.Kernel(1):
            x, y = T.alloc_fragment((4, 40), dtype), T.alloc_fragment((4,), dtype)
            reducer = T.alloc_reducer((4,), dtype, op=kind)
            T.copy(X, x)
            getattr(T, f"reduce_{kind}")(x, y, dim=1, nan_propagate=False)
            T.copy(y, Y[0, 0])
            T.reducer_init(reducer)
            for i in T.Parallel(4):
                for j in T.serial(2):
                    T.reducer_update(reducer[i], x[i, j])
            T.finalize_reducer(reducer, y)
            T.copy(y, Y[1, 0])

    x = np.random.default_rng(1).integers(-5, 6, (4, 40)).astype(ml_dtypes.float8_e4m3fn)
    x[1, 2:] = x[2, 4] = x[3] = np.nan
    fold, last = (np.fmax, -448) if kind == "max" else (np.fmin, 448)
    wide = x.astype(np.float32)
    skipped = np.where(np.isnan(wide).all(1), last, fold.reduce(wide, 1))
    want = np.stack([skipped, np.where(np.isnan(wide[:, 0]), np.nan, fold.reduce(wide[:, :2], 1))])
    out = strict.run(tilelang.compile(main), {"X": x, "Y": np.zeros((2, 4), x.dtype)})["Y"]
    y = np.zeros((2, 4), x.dtype)
    interpret.run(main, x.copy(), y)
    for got in (out, y):
        np.testing.assert_array_equal(got.astype(np.float32), want)
