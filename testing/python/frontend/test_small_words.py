"""Spellings of GPU kernels that add nothing: a launch without extents, attributes of the function, a scalar without a value."""

import numpy as np
import pytest

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend import interpret

N = 64


@T.prim_func
def one_block(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32")):
    T.func_attr({"tir.noalias": True})
    with T.Kernel(threads=128):
        for i in T.Parallel(N):
            Y[i] = X[i] * 2


@T.prim_func
def nothing_said(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32")):
    with T.Kernel():
        for i in T.Parallel(N):
            Y[i] = X[i] * 2


@T.prim_func
def scalar_without_value(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32")):
    with T.Kernel(1):
        at = T.int32()
        total = T.float32()
        total = 0.0
        for i in T.serial(N):
            at = N - 1 - i
            total = total + X[at]
            Y[at] = total


@pytest.mark.parametrize("kernel", [one_block, nothing_said, scalar_without_value], ids=lambda k: str(k.attrs["global_symbol"]))
def test_values(kernel):
    x = np.arange(N, dtype=np.float32)
    want = np.cumsum(x[::-1])[::-1] if kernel is scalar_without_value else 2 * x
    y, z = np.zeros(N, np.float32), np.zeros(N, np.float32)
    tilelang.compile(kernel)(x, y)
    np.testing.assert_array_equal(y, want)
    interpret.run(kernel, x, z)
    np.testing.assert_array_equal(z, want)
