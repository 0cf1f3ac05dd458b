"""Kernels whose reports are looked at: memory-bound, wait-bound, both kinds of cores, several launches."""

import numpy as np

import tilelang_ascend as tilelang
import tilelang_ascend.language as T


@tilelang.jit(out_idx=[-1])
def add(n, tile, num_stages):
    @T.prim_func
    def add(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32")):
        with T.Kernel(48, threads=128) as core:
            a = T.alloc_shared((tile,), "float32")
            b = T.alloc_shared((tile,), "float32")
            for i in T.Pipelined(n // 48 // tile, num_stages=num_stages):
                T.copy(A[(core * (n // 48 // tile) + i) * tile], a)
                T.copy(B[(core * (n // 48 // tile) + i) * tile], b)
                for j in T.Parallel(tile):
                    a[j] += b[j]
                T.copy(a, C[(core * (n // 48 // tile) + i) * tile])

    return add


@tilelang.jit(out_idx=[-1], pass_configs={"tl.coarsen_blocks": False})
def exponentials(n, tile, num_stages):
    """One core: every tile is loaded, worked on and stored, one after the other when there is one stage."""

    @T.prim_func
    def exponentials(A: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((tile,), "float32")
            for i in T.Pipelined(n // tile, num_stages=num_stages):
                T.copy(A[i * tile], a)
                for j in T.Parallel(tile):
                    a[j] = T.exp(a[j])
                T.copy(a, C[i * tile])

    return exponentials


@tilelang.jit(out_idx=[-1])
def scores(m, n, k):
    """Cube and vector cores."""

    @T.prim_func
    def scores(A: T.Tensor((m, k), "float16"), B: T.Tensor((n, k), "float16"), C: T.Tensor((m, n), "float32")):
        with T.Kernel(m // 64, threads=128) as bx:
            a = T.alloc_shared((64, k), "float16")
            b = T.alloc_shared((64, k), "float16")
            s = T.alloc_fragment((64, 64), "float32")
            T.copy(A[bx * 64, 0], a)
            for i in T.Pipelined(n // 64, num_stages=2):
                T.copy(B[i * 64, 0], b)
                T.gemm(a, b, s, transpose_B=True, clear_accum=True)
                for x, y in T.Parallel(64, 64):
                    s[x, y] = T.exp(s[x, y])
                T.copy(s, C[bx * 64, i * 64])

    return scores


@tilelang.jit(out_idx=[-1])
def twice(n):
    """Two launches."""

    @T.prim_func
    def twice(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(n // 256, threads=128) as bx:
            a = T.alloc_shared((256,), "float32")
            T.copy(A[bx * 256], a)
            for j in T.Parallel(256):
                a[j] = a[j] * 2.0
            T.copy(a, B[bx * 256])
        with T.Kernel(n // 512, threads=128) as bx:
            b = T.alloc_shared((512,), "float32")
            T.copy(B[bx * 512], b)
            for j in T.Parallel(512):
                b[j] = b[j] + 1.0
            T.copy(b, B[bx * 512])

    return twice


def ones(*shapes, dtype=np.float32):
    return [np.ones(shape, dtype) for shape in shapes]


MADE = {
    "add": lambda: (add(48 * 32768, 8192, 2), ones(48 * 32768, 48 * 32768)),
    "exponentials": lambda: (exponentials(65536, 8192, 1), ones(65536)),
    "scores": lambda: (scores(256, 512, 128), ones((256, 128), (512, 128), dtype=np.float16)),
    "twice": lambda: (twice(4096), ones(4096)),
}
