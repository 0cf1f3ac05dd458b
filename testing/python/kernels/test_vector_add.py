"""Element-wise addition with tails, with and without staging buffers."""

import numpy as np
import programs
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T


@pytest.mark.parametrize("staged", [True, False])
@pytest.mark.parametrize("n", [1, 7, 1023, 1024, 1025, 5000, 100_003])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.one_in(4)
def test_1d(n, staged, dtype):
    rng = np.random.default_rng(n)
    a, b = rng.standard_normal((2, n), dtype=np.float32).astype(dtype)
    out = strict.run(programs.add_1d(n, dtype=dtype, staged=staged), {"A": a, "B": b, "C": np.full_like(a, 9)}, text=n < 10_000)
    np.testing.assert_array_equal(out["C"], a + b)


@pytest.mark.parametrize("staged", [True, False])
@pytest.mark.parametrize("m,n", [(1, 1), (32, 64), (33, 65), (100, 129), (5, 1000)])
@pytest.mark.one_in(2)
def test_2d(m, n, staged):
    rng = np.random.default_rng(n)
    a, b = rng.standard_normal((2, m, n), dtype=np.float32)
    out = strict.run(programs.add_2d(m, n, staged=staged), {"A": a, "B": b, "C": np.full_like(a, 9)})
    np.testing.assert_array_equal(out["C"], a + b)


def test_vector_only_kernels_are_not_mixed():
    artifact = programs.add_1d(4096).artifact
    assert artifact.steps[0].kernel_type == "aiv_only" and "MIX" not in artifact.kernel_source


def test_a5():
    a, b = np.random.default_rng(0).standard_normal((2, 3000), dtype=np.float32)
    out = strict.run(programs.add_1d(3000).retarget("a5"), {"A": a, "B": b, "C": np.zeros_like(a)})
    np.testing.assert_array_equal(out["C"], a + b)


@pytest.mark.parametrize("staged", [True, False])
def test_every_flag_is_needed(staged):
    n = 1024 * 48 * 5 + 100  # the tail comes after every version of the tiles was used
    a, b = np.random.default_rng(0).standard_normal((2, n), dtype=np.float32)
    kernel = programs.add_1d(n, staged=staged)
    assert strict.surviving_mutants(kernel, {"A": a, "B": b, "C": np.zeros_like(a)}) == []


def test_column_tiles_updated_in_place():
    """The column of a tile of GM depends on the number of the core: no flag can rotate with it."""

    @T.prim_func
    def main(W: T.Tensor((64, 128), "float32")):
        with T.Kernel(8, 16) as (bx, by):
            w = T.alloc_fragment((4, 16), "float32")
            T.copy(W[by * 4, bx * 16], w)
            for i, j in T.Parallel(4, 16):
                w[i, j] = w[i, j] + 1
            T.copy(w, W[by * 4, bx * 16])

    before = np.random.default_rng(1).integers(-9, 9, (64, 128)).astype(np.float32)
    np.testing.assert_array_equal(strict.run(tilelang.compile(main), {"W": before})["W"], before + 1)
