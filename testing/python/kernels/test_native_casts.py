"""Conversions A5 has an instruction for take one; other chips take a sequence with the same values."""

import ml_dtypes
import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

CASES = [
    ("float8_e4m3fn", "float32"), ("float8_e5m2", "float32"), ("float16", "bfloat16"), ("bfloat16", "float16"),
    ("int8", "int16"), ("int8", "int32"), ("int16", "int32"),
]  # fmt: skip


def numpy_dtype(name):
    return np.dtype(getattr(ml_dtypes, name) if name.startswith(("bfloat", "float8")) else name)


@pytest.mark.parametrize("source, dtype", CASES)
def test_one_cast_where_there_is_one(source, dtype):
    n = 256 if numpy_dtype(source).itemsize == 1 else 2048

    @T.prim_func
    def k(X: T.Tensor((n,), source), Y: T.Tensor((n,), dtype)):
        with T.Kernel(1):
            x, y = T.alloc_shared((n,), source), T.alloc_shared((n,), dtype)
            T.copy(X, x)
            for i in T.Parallel(n):
                y[i] = x[i]
            T.copy(y, Y)

    word = f"uint{8 * numpy_dtype(source).itemsize}"
    x = (np.arange(n) * (1 if n == 256 else 32) + (0 if n == 256 else 7)).astype(word).view(numpy_dtype(source))
    with np.errstate(all="ignore"):
        want = (x.astype(np.float32) if "float" in source else x).astype(numpy_dtype(dtype))
    texts = {}
    for target in ("a2", "a5"):
        kernel = tilelang.compile(k, target=target)
        texts[target] = kernel.get_kernel_source()
        got = strict.run(kernel, {"X": x, "Y": np.zeros(n, numpy_dtype(dtype))})["Y"]
        a, b = got.astype(np.float64), want.astype(np.float64)
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(np.signbit(a)[~np.isnan(a)], np.signbit(b)[~np.isnan(b)])
    assert texts["a5"].count("AscendC::Cast(") == 1 and "Shift" not in texts["a5"]
    assert texts["a2"].count("AscendC::Cast(") > 1
