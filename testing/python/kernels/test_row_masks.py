"""Choices that go by the row of an element alone: masks of whole rows, of 64 elements and of other lengths."""

from __future__ import annotations

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T


def kept_rows(rows, cols, dtype, other):
    """The first N rows twice, `other` behind them."""

    @T.prim_func
    def kernel(X: T.Tensor((rows, cols), dtype), N: T.Tensor((1,), "int32"), Y: T.Tensor((rows, cols), dtype)):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((rows, cols), dtype)
            T.copy(X, x)
            n = N[0]
            for i, j in T.Parallel(rows, cols):
                x[i, j] = T.if_then_else(i < n, x[i, j] + x[i, j], other)
            T.copy(x, Y)

    return kernel


@pytest.mark.parametrize("target", ["a2", "a3", "a5"])
@pytest.mark.parametrize("dtype, other", [("float32", 0), ("float32", -3.5), ("float16", 0), ("int32", 7)])
@pytest.mark.parametrize("rows, cols", [(1, 64), (5, 64), (64, 64), (250, 64), (300, 64), (40, 60), (40, 128), (40, 32)])
@pytest.mark.one_in(18)
def test_rows_up_to_one(target, dtype, other, rows, cols):
    x = np.random.default_rng(rows).integers(-50, 50, (rows, cols)).astype(dtype)
    x[-1, -1] = np.nan if dtype.startswith("float") else 1  # What is not chosen does not matter.
    kernel = tilelang.compile(kept_rows(rows, cols, dtype, other), target=target)
    for n in {0, 1, rows // 2, rows - 1}:
        out = strict.run(kernel, {"X": x, "N": np.array([n], "int32"), "Y": np.zeros_like(x)})
        np.testing.assert_array_equal(out["Y"], np.where(np.arange(rows)[:, None] < n, x + x, np.array(other, dtype)))


def test_a_comparison_for_each_row():
    """Without a tile of numbers for all elements."""
    kernel = tilelang.compile(kept_rows(64, 64, "float32", 0))
    source = kernel.get_kernel_source()
    assert "BinaryRepeatParams{1, 0, 0, 8, 0, 1}" in source and "AscendC::Copy(" not in source
