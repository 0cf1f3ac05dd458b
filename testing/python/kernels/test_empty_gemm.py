"""A product over zero steps of K is zero, also where only the launch knows the number of steps."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T


@tilelang.jit
def matmul(M, N, block_M=32, block_N=32, block_K=64, dtype="float16", accum="float32", relu=False):
    """C = A @ B with a K of the launch; `relu` adds work of the vector cores."""
    K = T.dynamic("K")

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), accum)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            a = T.alloc_shared((block_M, block_K), dtype)
            b = T.alloc_shared((block_K, block_N), dtype)
            c = T.alloc_fragment((block_M, block_N), accum)
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], a)
                T.copy(B[k * block_K, bx * block_N], b)
                T.gemm(a, b, c)
            if relu:
                for i, j in T.Parallel(block_M, block_N):
                    c[i, j] = T.max(c[i, j], 0)
            T.copy(c, C[by * block_M, bx * block_N])

    return main


def check(kernel, m, n, k, dtype, accum, relu, text=False):
    rng = np.random.default_rng(k)
    a, b = (rng.integers(-4, 5, shape).astype(dtype) for shape in ((m, k), (k, n)))
    out = strict.run(kernel, {"A": a, "B": b, "C": np.full((m, n), 9, accum)}, {"K": k}, text=text)
    want = a.astype(accum) @ b.astype(accum)
    np.testing.assert_array_equal(out["C"], np.maximum(want, 0) if relu else want)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("chip, dtype, accum", [("a2", "float16", "float32"), ("a2", "int8", "int32"), ("a5", "float16", "float32")])
@pytest.mark.one_in(3)
def test_zero_steps(chip, dtype, accum, relu):
    kernel = matmul(40, 48, dtype=dtype, accum=accum, relu=relu).retarget(chip)
    for k in (0, 100):
        check(kernel, 40, 48, k, dtype, accum, relu, text=k == 0 and not relu)


def test_every_flag_is_needed():
    """By a launch without steps or by one with steps."""
    rng, survivors = np.random.default_rng(0), []
    for k in (0, 100):
        a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((40, k), (k, 48)))
        survivors.append(strict.surviving_mutants(matmul(40, 48), {"A": a, "B": b, "C": np.zeros((40, 48), np.float32)}, {"K": k}))
    assert set(survivors[0]) & set(survivors[1]) == set()


def test_accumulator_that_fills_l0c():
    kernel = matmul(128, 256, 128, 256)
    for k in (0, 64):
        check(kernel, 128, 256, k, "float16", "float32", False)


def test_a_certain_number_of_steps_needs_no_guard():
    @tilelang.jit
    def static(M, N, K):
        @T.prim_func
        def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float32")):
            with T.Kernel(1, threads=128) as _:
                a, b = T.alloc_shared((M, 64), "float16"), T.alloc_shared((64, N), "float16")
                c = T.alloc_fragment((M, N), "float32")
                T.clear(c)
                for k in T.Pipelined(T.ceildiv(K, 64), num_stages=2):
                    T.copy(A[0, k * 64], a)
                    T.copy(B[k * 64, 0], b)
                    T.gemm(a, b, c)
                T.copy(c, C)

        return main

    source = static(32, 32, 256).artifact.kernel_source
    assert "fresh" not in source and source.count("::Mmad(") == 1


@pytest.mark.parametrize("chip", ["a2", "a5"])
@pytest.mark.parametrize("upper", [False, True])
def test_steps_of_a_triangle_need_no_guard(upper, chip):
    """Their number is the block's, and at least one of every block."""

    @T.prim_func
    def main(A: T.Tensor((96, 96), "float16"), B: T.Tensor((96, 32), "float16"), C: T.Tensor((96, 32), "float32")):
        with T.Kernel(3, threads=128) as bx:
            a, b = T.alloc_shared((32, 32), "float16"), T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            first = bx * 32 // 32 if upper else 0
            end = 3 if upper else T.ceildiv((bx + 1) * 32, 32)
            T.clear(c)
            for k in T.Pipelined(first, end, num_stages=2):
                T.copy(A[bx * 32, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C[bx * 32, 0])

    kernel = tilelang.compile(main, target=chip)
    assert "fresh" not in kernel.artifact.kernel_source and kernel.artifact.kernel_source.count("::Mmad(") == 1
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((96, 96), (96, 32)))
    seen = np.kron(np.triu(np.ones((3, 3))) if upper else np.tril(np.ones((3, 3))), np.ones((32, 32)))
    out = strict.run(kernel, {"A": a, "B": b, "C": np.full((96, 32), 9, np.float32)}, text=False)["C"]
    np.testing.assert_array_equal(out, (a * seen).astype(np.float32) @ b)


def test_a_number_of_steps_that_wraps():
    """Twice a number of the data, halved, is not always that number: there may be no step."""

    @T.prim_func
    def main(N: T.Tensor((1,), "int32"), A: T.Tensor((16, 16), "float16"), C: T.Tensor((16, 16), "float32")):
        with T.Kernel(1, threads=128) as _:
            a, c = T.alloc_shared((16, 16), "float16"), T.alloc_fragment((16, 16), "float32")
            n = N[0]
            half = n * 2 // 2
            steps = half - n + 1
            T.copy(A, a)
            T.clear(c)
            for k in T.serial(steps):
                T.gemm(a, a, c)
            T.copy(c, C)

    a = np.random.default_rng(2).integers(-4, 5, (16, 16)).astype(np.float16)
    for n, want in ((3, a.astype(np.float32) @ a), (2**30, np.zeros((16, 16), np.float32))):
        arrays = {"N": np.array([n], np.int32), "A": a, "C": np.full((16, 16), 9, np.float32)}
        np.testing.assert_array_equal(strict.run(tilelang.compile(main), arrays, text=False)["C"], want)
