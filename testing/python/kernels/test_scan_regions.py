"""Scans of regions that no vector form fits run as scalar loops, with a warning."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T


@tilelang.jit
def scan_of_columns(m, n, first, op, dim, reverse, dtype):
    """Y = scan of the columns from `first` on of X, through a tile of which they are a part."""

    @T.prim_func
    def main(X: T.Tensor((m, n), dtype), Y: T.Tensor((m, n), dtype)):
        with T.Kernel(1, threads=128):
            x = T.alloc_shared((m, n), dtype)
            T.copy(X, x)
            if op == "sum":
                T.cumsum(x[0:m, first:n], x[0:m, first:n], dim=dim, reverse=reverse)
            else:
                T.cummax(x[0:m, first:n], x[0:m, first:n], dim=dim, reverse=reverse)
            T.copy(x, Y)

    return main


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint16", "int64"])
@pytest.mark.parametrize("op, dim, reverse", [("sum", 1, False), ("sum", 0, True), ("max", 1, True), ("max", 0, False)])
@pytest.mark.one_in(12)
def test_scan_of_unaligned_columns(op, dim, reverse, dtype):
    x = np.random.default_rng(6).integers(0 if dtype.startswith("u") else -4, 5, (5, 45)).astype(dtype)
    out = strict.run(scan_of_columns(5, 45, 3, op, dim, reverse, dtype), {"X": x, "Y": np.zeros_like(x)})
    part = np.flip(x[:, 3:], dim) if reverse else x[:, 3:]
    part = np.cumsum(part, dim, dtype=dtype) if op == "sum" else np.maximum.accumulate(part, dim)
    want = np.concatenate([x[:, :3], np.flip(part, dim) if reverse else part], 1)
    np.testing.assert_array_equal(out["Y"], want)
