"""Conditional stores at a constant index of a dimension whose extent is known at run time."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T


@pytest.mark.parametrize("rows", [1, 3])
def test_rows_of_run_time_tensors_by_number(rows):
    n = T.dynamic("n")

    @T.prim_func
    def kernel(X: T.Tensor((16, n), "float32"), C: T.Tensor((n, 16), "float32")):
        with T.Kernel(2) as bx:
            for i in T.Parallel(8):
                if i < 5:
                    C[0, bx * 8 + i] = X[bx * 8 + i, 0]

    x, c = np.random.default_rng(0).normal(size=(16, rows)).astype(np.float32), np.full((rows, 16), 7, np.float32)
    want = c.copy()
    for b in range(2):
        want[0, b * 8 : b * 8 + 5] = x[b * 8 : b * 8 + 5, 0]
    got = strict.run(tilelang.compile(kernel), {"X": x, "C": c}, {"n": rows})
    assert (got["C"] == want).all()
