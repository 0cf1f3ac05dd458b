"""A condition that is the same for all lanes guards what its sides read: they are computed whatever it says."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

ROWS, N = 4, 64
X = np.random.default_rng(3).normal(size=(ROWS, N)).astype("float32")


def run(kernel, expected, **scalars):
    out = strict.run(tilelang.compile(kernel), {"X": X, "Y": np.zeros_like(X)}, scalars)["Y"]
    np.testing.assert_array_equal(out, expected)


def test_row_before_the_first():
    @T.prim_func
    def kernel(X: T.Tensor((ROWS, N), "float32"), Y: T.Tensor((ROWS, N), "float32")):
        with T.Kernel(1):
            x, y = T.alloc_shared((ROWS, N), "float32"), T.alloc_shared((ROWS, N), "float32")
            T.copy(X, x)
            for k in T.serial(ROWS):
                for i in T.Parallel(N):
                    y[k, i] = x[k, i] + T.if_then_else(k > 0, x[k - 1, i], 0.0)
            T.copy(y, Y)

    run(kernel, X + np.concatenate([np.zeros((1, N), "float32"), X[:-1]]))


def test_elements_and_conditions_of_lanes():
    @T.prim_func
    def kernel(X: T.Tensor((ROWS, N), "float32"), Y: T.Tensor((ROWS, N), "float32")):
        with T.Kernel(1):
            x, y = T.alloc_shared((ROWS, N), "float32"), T.alloc_shared((ROWS, N), "float32")
            T.copy(X, x)
            for k in T.serial(ROWS):
                for i in T.Parallel(N):
                    y[k, i] = T.if_then_else(k > 0, x[k - 1, 0], 1.0) + T.if_then_else(k > 0 and x[k - 1, i] > 0, x[k - 1, i], 0.0)
            T.copy(y, Y)

    before = X[:-1]
    run(kernel, np.concatenate([np.ones((1, N), "float32"), before[:, :1] + np.maximum(before, 0)]))


@pytest.mark.parametrize("s", [-8, 0, 3, 32, 40])
def test_columns_from_a_place_of_run_time(s):
    @T.prim_func
    def kernel(X: T.Tensor((ROWS, N), "float32"), Y: T.Tensor((ROWS, N), "float32"), s: T.int32):
        with T.Kernel(1):
            x, y = T.alloc_shared((ROWS, N), "float32"), T.alloc_shared((ROWS, N), "float32")
            T.copy(X, x)
            for k, i in T.Parallel(ROWS, N // 2):
                y[k, i] = T.if_then_else(s >= 0 and s <= N // 2, x[k, i + s], -1.0)
                y[k, i + N // 2] = T.if_then_else(s < 0 or s > N // 2, x[k, i * 2], x[k, N // 2 + s - 1 - i])
            T.copy(y, Y)

    half = N // 2
    inside = 0 <= s <= half
    left = X[:, s : s + half] if inside else np.full((ROWS, half), -1, "float32")
    right = X[:, s : s + half][:, ::-1] if inside else X[:, ::2]
    run(kernel, np.concatenate([left, right], 1), s=s)


@pytest.mark.parametrize("rows, n", [([3, 1, 2, 0], 2), ([-5, 9, 70, -1], 0)])
def test_rows_of_a_table_that_may_hold_none(rows, n):
    """The table counts while k < n only."""

    @T.prim_func
    def kernel(X: T.Tensor((ROWS, N), "float32"), I: T.Tensor((ROWS,), "int32"), Y: T.Tensor((ROWS, ROWS, N), "float32"), n: T.int32):
        with T.Kernel(1):
            table, y = T.alloc_shared((ROWS,), "int32"), T.alloc_shared((ROWS, ROWS, N), "float32")
            T.copy(I, table)
            for k in T.serial(ROWS):
                for q, j in T.Parallel(ROWS, N):
                    y[k, q, j] = T.if_then_else(k < n, X[table[q], j], -1.0)
            T.copy(y, Y)

    expected = np.full((ROWS, ROWS, N), -1, "float32")
    expected[:n] = X[rows] if n else 0
    arrays = {"X": X, "I": np.array(rows, "int32"), "Y": np.zeros_like(expected)}
    np.testing.assert_array_equal(strict.run(tilelang.compile(kernel), arrays, {"n": n})["Y"], expected)
