"""Products of parts of tiles along K, and of matrices with a single row or column."""

import covering
import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

M, N, K = 32, 48, 64
ACCUMULATED = {"float16": "float32", "float32": "float32", "int8": "int32"}


def numbers(shape, dtype, seed):
    rng = np.random.default_rng(seed)
    return rng.integers(-8, 8, shape).astype(np.int8) if dtype == "int8" else rng.standard_normal(shape).astype(dtype)


def close(got, want, dtype, k):
    tolerance = strict.tolerance(ACCUMULATED[dtype], k)
    np.testing.assert_allclose(got.astype(np.float64), want, tolerance["rtol"], tolerance["atol"] * 8)


def part_of_k(first, end, ta, tb, dtype):
    a_shape, b_shape = ((K, M) if ta else (M, K)), ((N, K) if tb else (K, N))

    @T.prim_func
    def kernel(A: T.Tensor(a_shape, dtype), B: T.Tensor(b_shape, dtype), C: T.Tensor((M, N), ACCUMULATED[dtype])):
        with T.Kernel(1):
            a, b = T.alloc_shared(a_shape, dtype), T.alloc_shared(b_shape, dtype)
            c = T.alloc_fragment((M, N), ACCUMULATED[dtype])
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            if ta and tb:
                T.gemm(a[first:end, :], b[:, first:end], c, transpose_A=True, transpose_B=True)
            elif ta:
                T.gemm(a[first:end, :], b[first:end, :], c, transpose_A=True)
            elif tb:
                T.gemm(a[:, first:end], b[:, first:end], c, transpose_B=True)
            else:
                T.gemm(a[:, first:end], b[first:end, :], c)
            T.copy(c, C)

    return kernel, a_shape, b_shape


FLAGS = {"float16": ((0, 0), (0, 1), (1, 0), (1, 1)), "float32": ((0, 0), (0, 1)), "int8": ((0, 0), (0, 1))}
"""Transposed operands the loads of both chips know."""


@pytest.mark.one_in(3)
@covering.product({"part": [(0, 24), (16, 40), (0, 5), (32, 64), (8, 24), (3, 19), (32, 33)], "dtype": FLAGS, "chip": ["a2", "a5"]})
def test_a_part_of_k_does_not_take_in_what_lies_behind_it(chip, dtype, part):
    for ta, tb in FLAGS[dtype]:
        kernel, a_shape, b_shape = part_of_k(*part, ta, tb, dtype)
        a, b = numbers(a_shape, dtype, 0), numbers(b_shape, dtype, 1)
        got = strict.run(tilelang.compile(kernel, target=chip), {"A": a, "B": b, "C": np.zeros((M, N), ACCUMULATED[dtype])}, text=False)
        left, right = ((a.T if ta else a).astype(np.float64), (b.T if tb else b).astype(np.float64))
        close(got["C"], left[:, slice(*part)] @ right[slice(*part)], dtype, part[1] - part[0])


def test_a_part_next_to_a_number_that_spoils_everything():
    kernel, a_shape, b_shape = part_of_k(0, 24, 0, 0, "float16")
    a, b = numbers(a_shape, "float16", 0), numbers(b_shape, "float16", 1)
    a[:, 24:], b[24:] = np.nan, np.inf
    got = strict.run(tilelang.compile(kernel), {"A": a, "B": b, "C": np.zeros((M, N), np.float32)})
    close(got["C"], a[:, :24].astype(np.float64) @ b[:24].astype(np.float64), "float16", 24)


SIZES = [(32, 48, 1), (1, 48, 1), (32, 1, 1), (1, 1, 1), (1, 1, 16), (17, 1, 3), (1, 33, 7), (16, 1, 64), (33, 47, 1)]


@pytest.mark.parametrize("size", SIZES, ids=lambda s: "x".join(map(str, s)))
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.one_in(6)
def test_products_of_single_rows_and_columns(size, dtype):
    m, n, k = size
    for chip, tb in (("a2", 0), ("a2", 1), ("a5", 0)):
        b_shape = (n, k) if tb else (k, n)

        @T.prim_func
        def kernel(A: T.Tensor((m, k), dtype), B: T.Tensor(b_shape, dtype), C: T.Tensor((m, n), "float32")):
            with T.Kernel(1):
                a, b, c = T.alloc_shared((m, k), dtype), T.alloc_shared(b_shape, dtype), T.alloc_fragment((m, n), "float32")
                T.copy(A, a)
                T.copy(B, b)
                T.clear(c)
                T.gemm(a, b, c, transpose_B=bool(tb))
                T.copy(c, C)

        a, b = numbers((m, k), dtype, 0), numbers(b_shape, dtype, 1)
        got = strict.run(tilelang.compile(kernel, target=chip), {"A": a, "B": b, "C": np.zeros((m, n), np.float32)}, text=False)
        close(got["C"], a.astype(np.float64) @ (b.T if tb else b).astype(np.float64), dtype, k)
