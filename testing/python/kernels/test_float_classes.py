"""What kind of float a value is, and its sign, in every float dtype."""

import ml_dtypes
import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.errors import UnsupportedConstruct

VALUES = [0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan, -np.nan] * 8


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float8_e5m2"])
def test_classes(dtype):
    @T.prim_func
    def main(X: T.Tensor((64,), dtype), A: T.Tensor((64,), "bool"), B: T.Tensor((64,), "bool"), C: T.Tensor((64,), "bool")):
        with T.Kernel(1):
            for i in T.Parallel(64):
                A[i] = T.isnan(X[i])
                B[i] = T.isinf(X[63 - i])
                C[i] = T.isfinite(X[i])

    x = np.array(VALUES).astype(getattr(ml_dtypes, dtype, dtype))
    wide = x.astype(np.float32)
    out = strict.run(tilelang.compile(main), {"X": x, **{name: np.zeros(64, bool) for name in "ABC"}})
    np.testing.assert_array_equal(out["A"], np.isnan(wide))
    np.testing.assert_array_equal(out["B"], np.isinf(wide)[::-1])
    np.testing.assert_array_equal(out["C"], np.isfinite(wide))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_copysign(dtype):
    @T.prim_func
    def main(X: T.Tensor((64,), dtype), Y: T.Tensor((64,), dtype), Z: T.Tensor((64,), dtype)):
        with T.Kernel(1):
            for i in T.Parallel(64):
                Z[i] = T.copysign(X[i], Y[i])

    kind = getattr(ml_dtypes, dtype, dtype)
    x, y = np.array(VALUES).astype(kind), np.repeat(np.array(VALUES[:8]), 8).astype(kind)
    out = strict.run(tilelang.compile(main), {"X": x, "Y": y, "Z": np.zeros(64, kind)})["Z"].astype(np.float32)
    np.testing.assert_array_equal(out, np.copysign(x.astype(np.float32), y.astype(np.float32)))
    known = ~np.isnan(out)
    np.testing.assert_array_equal(np.signbit(out)[known], np.signbit(y.astype(np.float32))[known])


@pytest.mark.parametrize("dtype, asked", [("float32", True), ("float16", False), ("bfloat16", True)])
def test_maxima_of_nan_are_nan(dtype, asked):
    """Also where nobody asks for it."""
    options = {"nan_propagate": True} if asked else {}

    @T.prim_func
    def main(X: T.Tensor((4, 64), dtype), A: T.Tensor((4,), dtype), B: T.Tensor((64,), dtype)):
        with T.Kernel(1):
            x = T.alloc_fragment((4, 64), dtype)
            a, b = T.alloc_fragment((4,), dtype), T.alloc_fragment((64,), dtype)
            T.copy(X, x)
            T.reduce_max(x, a, dim=1, **options)
            T.reduce_min(x, b, dim=0, **options)
            T.copy(a, A)
            T.copy(b, B)

    kind = getattr(ml_dtypes, dtype, dtype)
    x = np.zeros((4, 64), kind)
    x[1, 5] = x[2, 63] = np.nan
    out = strict.run(tilelang.compile(main), {"X": x, "A": np.zeros(4, kind), "B": np.zeros(64, kind)}, text=asked)
    assert np.flatnonzero(np.isnan(out["A"].astype(np.float32))).tolist() == [1, 2]
    assert np.flatnonzero(np.isnan(out["B"].astype(np.float32))).tolist() == [5, 63]


def test_a_function_without_instructions_is_an_error_with_its_line():
    @T.prim_func
    def main(X: T.Tensor((64,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(64):
                X[i] = T.atan2(X[i], 2.0)

    with pytest.raises(UnsupportedConstruct, match=r"(?s)test_float_classes\.py:\d+:\d+: error: T\.atan2 has no .*\^.*hint: .*tanh"):
        tilelang.compile(main)
