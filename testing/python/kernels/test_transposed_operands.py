"""Operands with K along their rows whose loads take squares of several fractals: 8 and 32 bits."""

import itertools

import numpy as np
import pytest
import strict
from programs import matmul

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.runtime.dtypes import numpy_dtype


def product(m, n, k, tiles, trans_a, trans_b, dtype, accum, target):
    """The kernel, its arrays, and the exact product of small integers."""
    block_m, block_n, block_k = tiles
    func = matmul.get_tir(m, n, k, block_m, block_n, block_k, dtype, accum, accum, trans_a, trans_b)
    kernel = tilelang.compile(func, target=target)
    rng = np.random.default_rng(m * 7 + n * 3 + k)
    a = rng.integers(-3, 4, (k, m) if trans_a else (m, k))
    b = rng.integers(-3, 4, (n, k) if trans_b else (k, n))
    arrays = {"A": a.astype(numpy_dtype(dtype)), "B": b.astype(numpy_dtype(dtype)), "C": np.zeros((m, n), accum)}
    return kernel, arrays, (a.T if trans_a else a) @ (b.T if trans_b else b)


def check(*args):
    kernel, arrays, want = product(*args)
    np.testing.assert_array_equal(strict.run(kernel, arrays)["C"], want)
    return kernel, arrays


SHAPES = [((17, 33, 70), (32, 32, 32)), ((20, 24, 24), (16, 32, 24)), ((40, 33, 8), (32, 32, 8)), ((128, 128, 130), (128, 128, 128))]


@pytest.mark.parametrize("trans_a, trans_b", list(itertools.product((False, True), repeat=2)))
@pytest.mark.parametrize("sizes, tiles", SHAPES)
@pytest.mark.one_in(4)
def test_float32(sizes, tiles, trans_a, trans_b):
    check(*sizes, tiles, trans_a, trans_b, "float32", "float32", "a2")


@pytest.mark.parametrize("dtype, accum", [("int8", "int32"), ("float32", "float32"), ("float8_e4m3fn", "float32")])
@pytest.mark.parametrize("sizes, tiles", [SHAPES[0], SHAPES[3]])
@pytest.mark.one_in(2)
def test_b_on_a5(dtype, accum, sizes, tiles):
    check(*sizes, tiles, False, False, dtype, accum, "a5")


@pytest.mark.parametrize("sizes, tiles", SHAPES[:2])
def test_every_flag_is_needed(sizes, tiles):
    kernel, arrays = check(*sizes, tiles, True, False, "float32", "float32", "a2")
    assert strict.surviving_mutants(kernel, arrays) == []


@pytest.mark.parametrize("target", ["a2", "a5"])
def test_one_tile_read_both_ways(target):
    """C = X @ X: the tile is A with K along the columns and B with K along the rows."""

    @T.prim_func
    def square(X: T.Tensor((40, 40), "float32"), C: T.Tensor((40, 40), "float32")):
        with T.Kernel(1):
            x, c = T.alloc_shared((40, 40), "float32"), T.alloc_fragment((40, 40), "float32")
            T.copy(X, x)
            T.gemm(x, x, c, clear_accum=True)
            T.copy(c, C)

    x = np.random.default_rng(0).integers(-3, 4, (40, 40)).astype(np.float32)
    out = strict.run(tilelang.compile(square, target=target), {"X": x, "C": np.zeros_like(x)})
    np.testing.assert_array_equal(out["C"], x @ x)


@pytest.mark.parametrize(
    "dtype, accum, target", [("int8", "int32", "a2"), ("float32", "float32", "a5"), ("float8_e4m3fn", "float32", "a5")]
)
@pytest.mark.parametrize("sizes, tiles", [SHAPES[0], SHAPES[2]])
@pytest.mark.one_in(2)
def test_what_no_load_transposes_is_transposed_in_a_tile(dtype, accum, target, sizes, tiles):
    check(*sizes, tiles, True, False, dtype, accum, target)
