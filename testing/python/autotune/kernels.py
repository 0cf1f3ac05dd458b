"""Kernels with tunable parameters."""

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

M = N = 128
K = 64

GEMM_SPACE = [
    {"block_M": 64, "block_N": 64, "block_K": 32, "threads": 128},
    {"block_M": 64, "block_N": 64, "block_K": 32, "threads": 256},  # the same program
    {"block_M": 128, "block_N": 128, "block_K": 64, "threads": 128},
    {"block_M": 32, "block_N": 128, "block_K": 64, "threads": 128},
    {"block_M": 1024, "block_N": 1024, "block_K": 64, "threads": 128},  # does not fit L0C, however many parts it is worked on in
    {"block_M": 0, "block_N": 128, "block_K": 64, "threads": 128},  # fails in Python
    {"block_M": 128, "block_N": 64, "block_K": 32, "threads": 128},
]


def gemm(m, n, k, block_M=None, block_N=None, block_K=None, threads=None):
    """A lazy kernel C = A @ B in float16."""

    @T.prim_func
    def main(A: T.Tensor((m, k), "float16"), B: T.Tensor((k, n), "float16"), C: T.Tensor((m, n), "float16")):
        with T.Kernel(T.ceildiv(n, block_N), T.ceildiv(m, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), "float16")
            B_shared = T.alloc_shared((block_K, block_N), "float16")
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(C_local)
            for step in T.Pipelined(T.ceildiv(k, block_K), num_stages=2):
                T.copy(A[by * block_M, step * block_K], A_shared)
                T.copy(B[step * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


def add_one(n, block=None, skip=None):
    """A lazy kernel B = A + 1; with `skip` it leaves out the work, and is fast and wrong."""

    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block), threads=128) as bx:
            tile = T.alloc_fragment((block,), "float32")
            T.copy(A[bx * block], tile)
            if not skip:
                for repeat in T.serial(4):
                    for i in T.Parallel(block):
                        tile[i] = tile[i] + 0.25
            T.copy(tile, B[bx * block])

    return main


def add_one_dynamic(block=None):
    """`add_one` for any length."""
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block), threads=128) as bx:
            tile = T.alloc_fragment((block,), "float32")
            T.copy(A[bx * block], tile)
            for i in T.Parallel(block):
                tile[i] = tile[i] + 1.0
            T.copy(tile, B[bx * block])

    return main


def add_one_eager(A, block=128):
    """`add_one` in eager style."""
    n = T.const("n")
    A: T.Tensor[[n], "float32"]
    B = T.empty((n,), "float32")
    with T.Kernel(T.ceildiv(n, block), threads=128) as bx:
        tile = T.alloc_fragment((block,), "float32")
        T.copy(A[bx * block], tile)
        for i in T.Parallel(block):
            tile[i] = tile[i] + 1.0
        T.copy(tile, B[bx * block])
    return B


def tuned(fn, configs, out_idx=(-1,), **options):
    """`fn` under both decorators."""
    out_idx = None if out_idx is None else list(out_idx)
    return tilelang.autotune(configs=configs, **options)(tilelang.jit(out_idx=out_idx)(fn))
