"""Masks of padded tiles: padding lanes are undefined and nobody notices; lanes that count are checked as ever."""

import numpy as np
import pytest
import roads

import tilelang_ascend as tilelang
import tilelang_ascend.language as T


@tilelang.jit
def keep_above(M, N, threshold, initialised=True, dtype="float32"):
    """Y = X where X > threshold, else 0 (or whatever the tile held)."""

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(1, threads=128) as _:
            x, y = T.alloc_fragment((M, N), dtype), T.alloc_fragment((M, N), dtype)
            T.copy(X, x)
            if initialised:
                T.clear(y)
            for i, j in T.Parallel(M, N):
                if x[i, j] > threshold and x[i, j] < 4.0:
                    y[i, j] = x[i, j]
            T.copy(y, Y)

    return main


@pytest.mark.parametrize("m, n", [(20, 100), (3, 97), (1, 7), (4, 64)])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_padding_lanes_do_not_count(m, n, dtype):
    x = np.random.default_rng(n).standard_normal((m, n), dtype=np.float32).astype(dtype)
    out = roads.run(keep_above(m, n, 0.5, dtype=dtype), {"X": x, "Y": np.full_like(x, 9)}, text=n == 100)
    np.testing.assert_array_equal(out["Y"], np.where(x > np.asarray(0.5, dtype), x, 0))


def test_a_lane_that_keeps_an_undefined_value_is_reported():
    x = np.full((20, 100), 1.0, np.float32)
    kernel = keep_above(20, 100, 0.5, initialised=False)
    roads.run(kernel, {"X": x, "Y": np.zeros_like(x)}, text=False)
    x[7, 99] = 0.0
    with pytest.raises(AssertionError, match="(?i)undefined|uninit"):
        roads.run(kernel, {"X": x, "Y": np.zeros_like(x)}, text=False)


@pytest.mark.parametrize("m, n", [(20, 100), (3, 97), (1, 7)])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_compares_read_tiles_where_they_lie(m, n, dtype):
    """A count-form compare reads whole repeats: tiles are long enough, so nothing is copied for it."""
    assert "::Copy(" not in keep_above(m, n, 0.5, dtype=dtype).artifact.kernel_source
