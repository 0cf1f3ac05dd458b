"""Vector kernels through the whole compiler, on the machine model with all checks on."""

import numpy as np
import pytest

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

RNG = np.random.default_rng(0)


def run(func, *arrays):
    """Outputs of a kernel; fails on any hazard the machine model reports."""
    report = tilelang.compile(func).simulate(*arrays)
    assert not report.hazards, report.hazards[0]
    return [np.asarray(a) for a in arrays]


def softmax(M, N, rows=16):
    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), B: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, rows), threads=128) as bx:
            a = T.alloc_fragment((rows, N), "float32")
            m = T.alloc_fragment((rows,), "float32")
            s = T.alloc_fragment((rows,), "float32")
            T.copy(A[bx * rows, 0], a)
            T.reduce_max(a, m, dim=1)
            for i, j in T.Parallel(rows, N):
                a[i, j] = T.exp(a[i, j] - m[i])
            T.reduce_sum(a, s, dim=1)
            for i, j in T.Parallel(rows, N):
                a[i, j] = a[i, j] / s[i]
            T.copy(a, B[bx * rows, 0])

    return main


@pytest.mark.parametrize("m, n", [(20, 100), (33, 1000), (5, 7)])
def test_softmax(m, n):
    a = RNG.standard_normal((m, n)).astype(np.float32)
    _, b = run(softmax(m, n), a, np.zeros_like(a))
    e = np.exp(a - a.max(1, keepdims=True))
    np.testing.assert_allclose(b, e / e.sum(1, keepdims=True), rtol=1e-5, atol=1e-7)


def rms_norm(M, N, rows=8):
    @T.prim_func
    def main(A: T.Tensor((M, N), "float16"), W: T.Tensor((N,), "float16"), B: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(M, rows), threads=128) as bx:
            a = T.alloc_shared((rows, N), "float16")
            w = T.alloc_shared((N,), "float16")
            square = T.alloc_fragment((rows, N), "float32")
            s = T.alloc_fragment((rows,), "float32")
            T.copy(A[bx * rows, 0], a)
            T.copy(W, w)
            for i, j in T.Parallel(rows, N):
                square[i, j] = T.cast(a[i, j], "float32") * T.cast(a[i, j], "float32")
            T.reduce_sum(square, s, dim=1)
            for i in T.Parallel(rows):
                s[i] = T.rsqrt(s[i] / N + 1e-5)
            for i, j in T.Parallel(rows, N):
                a[i, j] = a[i, j] * s[i] * w[j]
            T.copy(a, B[bx * rows, 0])

    return main


def test_rms_norm():
    a, w = RNG.standard_normal((21, 300)).astype(np.float16), RNG.standard_normal(300).astype(np.float16)
    _, _, b = run(rms_norm(21, 300), a, w, np.zeros_like(a))
    f = a.astype(np.float64)
    np.testing.assert_allclose(b, f / np.sqrt((f * f).mean(1, keepdims=True) + 1e-5) * w, rtol=4e-3, atol=1e-3)


def masked(M, N):
    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), B: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, 8), threads=128) as bx:
            a = T.alloc_fragment((8, N), "float32")
            b = T.alloc_fragment((8, N), "float32")
            T.copy(A[bx * 8, 0], a)
            for i, j in T.Parallel(8, N):
                if a[i, j] > 0:
                    b[i, j] = T.if_then_else(bx * 8 + i >= j, a[i, j] * 2, T.float32(-1))
                else:
                    b[i, j] = T.tanh(a[i, j])
            T.copy(b, B[bx * 8, 0])

    return main


def test_conditions_by_value_and_by_index():
    a = RNG.standard_normal((33, 128)).astype(np.float32)
    _, b = run(masked(33, 128), a, np.zeros_like(a))
    i, j = np.indices(a.shape)
    np.testing.assert_allclose(b, np.where(a > 0, np.where(i >= j, a * 2, -1), np.tanh(a)), rtol=1e-6, atol=1e-7)


def indirect(n):
    @T.prim_func
    def main(A: T.Tensor((1000,), "float32"), I: T.Tensor((n,), "int32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 64), threads=128) as bx:
            for i in T.Parallel(64):
                if bx * 64 + i < n:
                    B[bx * 64 + i] = A[I[bx * 64 + i]]

    return main


def test_indirect_read_of_global_memory():
    index, a = RNG.integers(0, 1000, 100).astype(np.int32), RNG.standard_normal(1000).astype(np.float32)
    _, _, b = run(indirect(100), a, index, np.zeros(100, np.float32))
    np.testing.assert_array_equal(b, a[index])
