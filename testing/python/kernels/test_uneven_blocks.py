"""Grids of blocks that do more the higher their number: rounds go forth and back, and every block runs once."""

from functools import lru_cache

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

W, ROWS = 32, 3


@lru_cache(maxsize=None)
def sums(n, chip):
    """Row b of B is the sum of the rows of A up to b, plus the number of the second axis."""
    rows = T.dynamic("n") if n is None else n

    @T.prim_func
    def k(A: T.Tensor((rows, W), "float32"), B: T.Tensor((rows, ROWS, W), "float32")):
        with T.Kernel(rows, ROWS) as (bx, by):
            a, s = T.alloc_shared((W,), "float32"), T.alloc_fragment((W,), "float32")
            T.fill(s, 0)
            for k in T.serial(bx + 1):
                T.copy(A[k, 0], a)
                for i in T.Parallel(W):
                    s[i] += a[i]
            for i in T.Parallel(W):
                s[i] = s[i] + by
            T.copy(s, B[bx, by, 0])

    return tilelang.compile(k, target=chip)


def given(n: int) -> dict:
    return {"A": np.random.default_rng(n).integers(0, 5, (n, W)).astype(np.float32), "B": np.zeros((n, ROWS, W), np.float32)}


def check(got: dict, a: np.ndarray) -> None:
    np.testing.assert_array_equal(got["B"], np.cumsum(a, 0)[:, None, :] + np.arange(ROWS)[None, :, None])


@pytest.mark.parametrize("chip", ["a2", "a3", "a5"])
@pytest.mark.parametrize("n", [17, 33, 49])
@pytest.mark.one_in(6)
def test_sizes_known(n, chip):
    arrays = given(n)
    check(strict.run(sums(n, chip), arrays), arrays["A"])


@pytest.mark.one_in(3)
@pytest.mark.parametrize("n", [1, 31, 33, 64])
def test_sizes_of_run_time(n):
    arrays = given(n)
    check(strict.run(sums(None, "a2"), arrays, {"n": n}, text=False), arrays["A"])
