"""Tiles in the sizes GPU kernels come in compile unchanged and give the right values, whatever the memories of a core hold.

Additions of 128x256, softmax of 8x8192 and 64x1024, rms_norm of 4x8192 and accumulators of 256x256 are in test_large_tiles.py, which also
looks at how they are divided.
"""

import attention
import numpy as np
import pytest
import strict
from dtype_cases import numpy_dtype

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.transform import fit

F16, F32 = "float16", "float32"


def pointwise(m, n, function):
    @T.prim_func
    def kernel(X: T.Tensor((2 * m, n), F32), Y: T.Tensor((2 * m, n), F32)):
        with T.Kernel(2, threads=128) as bx:
            x, y = T.alloc_shared((m, n), F32), T.alloc_fragment((m, n), F32)
            T.copy(X[bx * m, 0], x)
            for i, j in T.Parallel(m, n):
                y[i, j] = function(x[i, j])
            T.copy(y, Y[bx * m, 0])

    return kernel


def rms_norm(m, n, dtype):
    @T.prim_func
    def kernel(X: T.Tensor((2 * m, n), dtype), W: T.Tensor((n,), dtype), Y: T.Tensor((2 * m, n), dtype)):
        with T.Kernel(2, threads=128) as bx:
            x, w, y = T.alloc_shared((m, n), dtype), T.alloc_fragment((n,), dtype), T.alloc_fragment((m, n), F32)
            squares, scale = T.alloc_fragment((m, n), F32), T.alloc_fragment((m,), F32)
            T.copy(X[bx * m, 0], x)
            T.copy(W, w)
            T.copy(x, y)
            for i, j in T.Parallel(m, n):
                squares[i, j] = y[i, j] * y[i, j]
            T.reduce_sum(squares, scale, dim=1)
            for i in T.Parallel(m):
                scale[i] = T.rsqrt(scale[i] / n + 1e-5)
            for i, j in T.Parallel(m, n):
                y[i, j] = y[i, j] * scale[i] * w[j]
            T.copy(y, Y[bx * m, 0])

    return kernel


def layer_norm(m, n):
    @T.prim_func
    def kernel(X: T.Tensor((2 * m, n), F32), Y: T.Tensor((2 * m, n), F32)):
        with T.Kernel(2, threads=128) as bx:
            x, squares = T.alloc_fragment((m, n), F32), T.alloc_fragment((m, n), F32)
            mean, variance = T.alloc_fragment((m,), F32), T.alloc_fragment((m,), F32)
            T.copy(X[bx * m, 0], x)
            T.reduce_sum(x, mean, dim=1)
            for i, j in T.Parallel(m, n):
                x[i, j] = x[i, j] - mean[i] / n
            for i, j in T.Parallel(m, n):
                squares[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(squares, variance, dim=1)
            for i, j in T.Parallel(m, n):
                x[i, j] = x[i, j] * T.rsqrt(variance[i] / n + 1e-5)
            T.copy(x, Y[bx * m, 0])

    return kernel


def softmax(m, n):
    @T.prim_func
    def kernel(X: T.Tensor((2 * m, n), F32), Y: T.Tensor((2 * m, n), F32)):
        with T.Kernel(2, threads=128) as bx:
            x, most, total = T.alloc_fragment((m, n), F32), T.alloc_fragment((m,), F32), T.alloc_fragment((m,), F32)
            T.copy(X[bx * m, 0], x)
            T.reduce_max(x, most, dim=1)
            for i, j in T.Parallel(m, n):
                x[i, j] = T.exp(x[i, j] - most[i])
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(m, n):
                x[i, j] = x[i, j] / total[i]
            T.copy(x, Y[bx * m, 0])

    return kernel


def gemv(n, k):
    @T.prim_func
    def kernel(X: T.Tensor((1024,), F16), W: T.Tensor((1024, 1024), F16), Y: T.Tensor((1024,), F16)):
        with T.Kernel(1024 // n, threads=128) as bx:
            x, w = T.alloc_shared((k,), F16), T.alloc_shared((n, k), F16)
            products, y = T.alloc_fragment((n, k), F32), T.alloc_fragment((n,), F32)
            T.clear(y)
            for step in T.Pipelined(1024 // k, num_stages=2):
                T.copy(X[step * k], x)
                T.copy(W[bx * n, step * k], w)
                for i, j in T.Parallel(n, k):
                    products[i, j] = x[j] * w[i, j]
                T.reduce_sum(products, y, dim=1, clear=False)
            T.copy(y, Y[bx * n])

    return kernel


def cumsum(m, n, dim):
    @T.prim_func
    def kernel(X: T.Tensor((m, n), F32), Y: T.Tensor((m, n), F32)):
        with T.Kernel(1, threads=128):
            x, y = T.alloc_shared((m, n), F32), T.alloc_fragment((m, n), F32)
            T.copy(X, x)
            T.cumsum(x, y, dim=dim)
            T.copy(y, Y)

    return kernel


def panels(k, steps):
    """C = A B with all of K in shared memory, of A alone or of both."""
    rows = k // steps

    @T.prim_func
    def kernel(A: T.Tensor((256, k), F16), B: T.Tensor((k, 256), F16), C: T.Tensor((256, 256), F32)):
        with T.Kernel(2, 2, threads=128) as (bx, by):
            a, b, c = T.alloc_shared((128, k), F16), T.alloc_shared((rows, 128), F16), T.alloc_fragment((128, 128), F32)
            T.copy(A[by * 128, 0], a)
            T.clear(c)
            for i in T.Pipelined(steps, num_stages=2):
                T.copy(B[i * rows, bx * 128], b)
                T.gemm(a[:, i * rows : (i + 1) * rows], b, c)
            T.copy(c, C[by * 128, bx * 128])

    return kernel


def softmax_of(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def normalized(x):
    centred = x - x.mean(1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)


def rms_normalized(x, w):
    return x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-5) * w


SIZES = {
    "tanh 128x128": (pointwise(128, 128, T.tanh), np.tanh),
    "copy 64x576": (pointwise(64, 576, lambda x: x), lambda x: x),
    "rms_norm 4x8192, bfloat16": (rms_norm(4, 8192, "bfloat16"), rms_normalized),
    "layer_norm 8x5120": (layer_norm(8, 5120), normalized),
    "softmax 1x32000": (softmax(1, 32000), softmax_of),
    "gemv 256x256": (gemv(256, 256), lambda x, w: w @ x),
    "cumsum 64x512": (cumsum(64, 512, 1), lambda x: np.cumsum(x, 1)),
    "cumsum 64x512 of columns": (cumsum(64, 512, 0), lambda x: np.cumsum(x, 0)),
    "panel of K = 4096": (panels(4096, 64), lambda a, b: a @ b),
    "panels of K = 4096": (panels(4096, 1), lambda a, b: a @ b),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", SIZES)
def test_values(name):
    kernel, expected = SIZES[name]
    compiled = tilelang.compile(kernel)
    rng = np.random.default_rng(0)
    arrays = {p.name: rng.integers(-2, 3, p.shape).astype(numpy_dtype(p.dtype)) for p in compiled.params}
    (out,) = (p.name for p in compiled.params if p.writes)
    given = [x.astype(np.float64) for name, x in arrays.items() if name != out]
    got, want = strict.run(compiled, arrays, text=False)[out], expected(*given)
    step = {"float32": 2e-5, "float16": 1e-3}.get(got.dtype.name, 8e-3)
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=step, atol=step)


def test_sums_that_cannot_fit_are_lowered_once(monkeypatch):
    """128 KB of L0C have no room for what a step of attention's backward adds up beside the sum of 128 KB of all steps, and other nests for vector
    work change nothing: each way to use L0C is lowered once to find that out."""
    tried, attempt = [], fit.attempt

    def observed(mapped, *rest, **how):
        try:
            return attempt(mapped, *rest, **how)
        except tilelang.errors.OutOfMemory as error:
            tried.append((error.fields["memory"], error.fields["needed"], fit.least_bytes(mapped.body)["local.l0c"]))
            raise

    monkeypatch.setattr(fit, "attempt", observed)
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    tilelang.compile(attention.gathered_backward(8, 64, 64, 512, 64, 64, dtype="bfloat16", reused=False))
    sums = [(needed, least) for memory, needed, least in tried if memory == "L0C"]
    assert sums and all(131072 < least <= needed for needed, least in sums)
    assert len(sums) == len(set(sums))
