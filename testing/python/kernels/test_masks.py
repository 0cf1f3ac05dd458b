"""Masks of padded tiles: padding lanes are undefined and nobody notices; lanes that count are checked as ever."""

import numpy as np
import pytest
import strict

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
    out = strict.run(keep_above(m, n, 0.5, dtype=dtype), {"X": x, "Y": np.full_like(x, 9)}, text=n == 100)
    np.testing.assert_array_equal(out["Y"], np.where(x > np.asarray(0.5, dtype), x, 0))


def test_a_lane_that_keeps_an_undefined_value_is_reported():
    x = np.full((20, 100), 1.0, np.float32)
    kernel = keep_above(20, 100, 0.5, initialised=False)
    strict.run(kernel, {"X": x, "Y": np.zeros_like(x)}, text=False)
    x[7, 99] = 0.0
    with pytest.raises(AssertionError, match="(?i)undefined|uninit"):
        strict.run(kernel, {"X": x, "Y": np.zeros_like(x)}, text=False)


@pytest.mark.parametrize("m, n", [(20, 100), (3, 97), (1, 7)])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_compares_read_tiles_where_they_lie(m, n, dtype):
    """A count-form compare reads whole repeats: tiles are long enough, so nothing is copied for it."""
    assert "::Copy(" not in keep_above(m, n, 0.5, dtype=dtype).artifact.kernel_source


@tilelang.jit
def keep_columns(M, N, limit):
    """Y = X in the first `limit` columns, else -1."""

    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(1, threads=128) as _:
            x = T.alloc_fragment((M, N), "float32")
            T.copy(X, x)
            for i, j in T.Parallel(M, N):
                x[i, j] = T.if_then_else(j < limit, x[i, j], -1.0)
            T.copy(x, Y)

    return main


@pytest.mark.parametrize("m, n, limit", [(3, 256, 100), (5, 2304, 2300), (4, 100, 7)])
def test_masks_of_columns(m, n, limit):
    """Rows of whole blocks of bits are copied; others are compared again."""
    x = np.random.default_rng(n).standard_normal((m, n), dtype=np.float32)
    kernel = keep_columns(m, n, limit)
    out = strict.run(kernel, {"X": x, "Y": np.zeros_like(x)})
    np.testing.assert_array_equal(out["Y"], np.where(np.arange(n) < limit, x, -1))
    assert kernel.artifact.kernel_source.count("CompareScalar(") == (1 if n % 256 == 0 else 2)


def test_sources_of_large_tiles_do_not_conflict():
    """Three tiles of 48 KB: one cycle for each of the 192 repeats of the addition, where a conflict makes it two."""
    import programs

    kernel = programs.add_1d(12288, 12288)
    report = kernel.simulate(*(np.zeros(12288, np.float32) for _ in range(3)), values=False, checks=False)
    assert report.run.per_core[0].busy_cycles["V"] == 192


@pytest.mark.parametrize("first", [False, True])
def test_a_boolean_of_a_tile_is_the_condition_of_all_lanes(first):
    @T.prim_func
    def kernel(B: T.Tensor((32,), "bool"), X: T.Tensor((32,), "float32")):
        with T.Kernel(1):
            b, x = T.alloc_shared((32,), "bool"), T.alloc_fragment((32,), "float32")
            T.copy(B, b)
            T.clear(x)
            for i in T.Parallel(32):
                if b[0]:
                    x[i] = T.cast(i, "float32")
            T.copy(x, X)

    b = np.full(32, first)
    out = strict.run(tilelang.compile(kernel), {"B": b, "X": np.full(32, -1, np.float32)})
    np.testing.assert_array_equal(out["X"], np.arange(32) * first)


def test_comparisons_that_are_always_true():
    """Seed 1448 of the fuzzer: the C++ compiler warned of the user's comparison, and warnings are errors."""

    @T.prim_func
    def kernel(X: T.Tensor((16,), "uint32"), Y: T.Tensor((16,), "int32")):
        with T.Kernel(1):
            if X[3] >= 0:
                for i in T.Parallel(16):
                    Y[i] = i

    out = strict.run(tilelang.compile(kernel), {"X": np.zeros(16, np.uint32), "Y": np.full(16, -1, np.int32)})
    np.testing.assert_array_equal(out["Y"], np.arange(16))
