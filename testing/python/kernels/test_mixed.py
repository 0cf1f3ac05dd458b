"""Cube to vector: accumulators that element-wise code reads, on both vector cores of a block."""

import numpy as np
import programs
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T


def inputs(m, n, k, scale=0.25, seed=3):
    rng = np.random.default_rng(seed)
    a = ((rng.random((m, k)) * 2 - 1) * scale).astype(np.float16)
    b = ((rng.random((k, n)) * 2 - 1) * scale).astype(np.float16)
    return a, b, a.astype(np.float64) @ b.astype(np.float64)


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("m,n,k,bm,bn", [(512, 512, 256, 128, 256), (100, 129, 48, 32, 64), (33, 17, 16, 33, 32)])
@pytest.mark.one_in(2)
def test_minicv(m, n, k, bm, bn, parallel):
    a, b, expected = inputs(m, n, k)
    empty = np.full((m, n), 7, np.float32)
    kernel = programs.minicv(m, n, k, bm, bn, parallel)
    out = strict.run(kernel, {"A": a, "B": b, "C": empty, "D": empty.copy()})
    limits = strict.tolerance("float32", k)
    assert np.isfinite(np.exp(expected)).all()
    np.testing.assert_allclose(out["C"], expected, **limits)
    # Relative error of exp(c) = absolute error of c, plus two units in the last place of exp itself.
    np.testing.assert_allclose(out["D"], np.exp(expected), rtol=limits["atol"] + limits["rtol"] * abs(expected).max() + 2**-22)


@pytest.mark.parametrize("m,n,k", [(512, 640, 128), (100, 129, 65)])
def test_gemm_bias_leaky(m, n, k):
    a, b, product = inputs(m, n, k, scale=1.0)
    bias = np.random.default_rng(5).standard_normal(n).astype(np.float32)
    kernel = programs.gemm_bias_leaky(m, n, k)
    out = strict.run(kernel, {"A": a, "B": b, "bias": bias, "C": np.full((m, n), 7, np.float32)})
    x = product + bias
    np.testing.assert_allclose(out["C"], np.where(x >= 0, x, x * 0.001), **strict.tolerance("float32", k))


def test_minicv_every_flag_is_needed():
    a, b, _ = inputs(200, 200, 64)
    empty = np.zeros((200, 200), np.float32)
    assert strict.surviving_mutants(programs.minicv(200, 200, 64, 32, 32), {"A": a, "B": b, "C": empty, "D": empty.copy()}) == []


def test_epilogue_every_flag_is_needed():
    a, b, _ = inputs(200, 200, 64)
    arrays = {"A": a, "B": b, "bias": np.ones(200, np.float32), "C": np.zeros((200, 200), np.float32)}
    assert strict.surviving_mutants(programs.gemm_bias_leaky(200, 200, 64, 32, 32, 32), arrays) == []


@pytest.mark.parametrize("first", [-1, 1])
def test_a_scalar_both_kinds_of_core_read(first):
    """Seed 309 of the fuzzer: one statement on both cores counted as two places."""

    @T.prim_func
    def kernel(
        X: T.Tensor((16,), "float32"), A: T.Tensor((32, 32), "float16"), B: T.Tensor((32, 32), "float16"), Y: T.Tensor((64, 32), "float32")
    ):
        with T.Kernel(2) as bx:
            a, s = T.alloc_shared((32, 32), "float16"), T.alloc_shared((32, 32), "float16")
            c, w = T.alloc_fragment((32, 32), "float32"), T.alloc_fragment((32, 32), "float32")
            T.copy(A, a)
            T.gemm(a, a, c, clear_accum=True)
            T.fill(w, 1)
            if X[bx] > 0:
                T.copy(c, Y[bx * 32, 0])
                T.copy(B, s)
                T.copy(s, w)
            for i, j in T.Parallel(32, 32):
                c[i, j] = c[i, j] + w[i, j]
            if X[bx] < 0:
                T.copy(c, Y[bx * 32, 0])

    rng = np.random.default_rng(5)
    a, b = (rng.integers(-3, 4, (32, 32)).astype(np.float16) for _ in range(2))
    x = np.zeros(16, np.float32)
    x[:2] = first, -first
    out = strict.run(tilelang.compile(kernel), {"X": x, "A": a, "B": b, "Y": np.zeros((64, 32), np.float32)})["Y"]
    product = a.astype(np.float32) @ a.astype(np.float32)
    np.testing.assert_array_equal(out, np.concatenate([product + (x[k] < 0) for k in range(2)]))


def test_a_tile_copied_into_a_part_keeps_the_rest_of_a_product():
    """Seed 10387 of the fuzzer: the accumulator was not fetched before a copy changed some of its columns."""

    @T.prim_func
    def kernel(A: T.Tensor((32, 32), "float16"), W: T.Tensor((32, 12), "float32"), Y: T.Tensor((32, 32), "float32")):
        with T.Kernel(1):
            a, c = T.alloc_shared((32, 32), "float16"), T.alloc_fragment((32, 32), "float32")
            w = T.alloc_shared((32, 12), "float32")
            T.copy(A, a)
            T.copy(W, w)
            T.gemm(a, a, c, clear_accum=True)
            for i, j in T.Parallel(32, 12):
                w[i, j] = w[i, j] + 1
            T.copy(w, c[0:32, 4:16])
            T.copy(c, Y)

    rng = np.random.default_rng(6)
    a, w = rng.integers(-3, 4, (32, 32)).astype(np.float16), rng.integers(-3, 4, (32, 12)).astype(np.float32)
    out = strict.run(tilelang.compile(kernel), {"A": a, "W": w, "Y": np.zeros((32, 32), np.float32)})["Y"]
    expected = a.astype(np.float32) @ a.astype(np.float32)
    expected[:, 4:16] = w + 1
    np.testing.assert_array_equal(out, expected)


def test_an_operand_copied_into_a_part_keeps_the_rest():
    @T.prim_func
    def kernel(
        A: T.Tensor((32, 32), "float16"),
        W: T.Tensor((16, 32), "float16"),
        P: T.Tensor((32, 32), "float16"),
        Y: T.Tensor((32, 32), "float32"),
    ):
        with T.Kernel(1):
            a, c = T.alloc_shared((32, 32), "float16"), T.alloc_fragment((32, 32), "float32")
            w = T.alloc_shared((16, 32), "float16")
            T.copy(A, a)
            T.copy(W, w)
            for i, j in T.Parallel(32, 32):
                a[i, j] = a[i, j] + 1
            for i, j in T.Parallel(16, 32):
                w[i, j] = w[i, j] * 2
            T.copy(w, a[16:32, 0:32])
            T.gemm(a, a, c, clear_accum=True)
            T.copy(c, Y)
            T.copy(a, P)

    rng = np.random.default_rng(7)
    a, w = rng.integers(-3, 4, (32, 32)).astype(np.float16), rng.integers(-3, 4, (16, 32)).astype(np.float16)
    out = strict.run(tilelang.compile(kernel), {"A": a, "W": w, "P": np.zeros_like(a), "Y": np.zeros((32, 32), np.float32)})
    p = np.concatenate([a[:16] + 1, w * 2]).astype(np.float32)
    np.testing.assert_array_equal(out["P"], p)
    np.testing.assert_array_equal(out["Y"], p @ p)


def test_products_of_one_tile_in_branches_of_a_branch():
    """How many flags between the cores are up depends on the branches taken; that no more than two are does not."""

    @T.prim_func
    def kernel(X: T.Tensor((4, 16, 16), "float16"), M: T.Tensor((4,), "int32"), Y: T.Tensor((16, 16), "float32")):
        with T.Kernel(1):
            x, h = T.alloc_shared((16, 16), "float16"), T.alloc_shared((16, 16), "float16")
            c = T.alloc_fragment((16, 16), "float32")
            T.clear(c)
            for k in T.serial(4):
                T.copy(X[k, 0, 0], x)
                if M[k] != 0:
                    if M[k] == 2:
                        for i, j in T.Parallel(16, 16):
                            h[i, j] = x[i, j] + 1
                        T.gemm(h, h, c)
                    if M[k] != 1:
                        for i, j in T.Parallel(16, 16):
                            h[i, j] = x[i, j] * 2
                        T.gemm(h, h, c)
            T.copy(c, Y)

    X = np.random.default_rng(5).integers(-1, 2, (4, 16, 16)).astype(np.float32)
    for n, M in enumerate([(2, 0, 1, 3), (2, 2, 2, 2)]):
        y = sum(((x + 1) @ (x + 1)) * (m == 2) + 4 * x @ x * (m > 1) for x, m in zip(X, M))
        arrays = {"X": X.astype(np.float16), "M": np.array(M, np.int32), "Y": np.zeros((16, 16), np.float32)}
        np.testing.assert_array_equal(strict.run(tilelang.compile(kernel), arrays, text=n == 0)["Y"], y)
