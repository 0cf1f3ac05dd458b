"""The spaces of configurations that benchmark/tuner.py searches: kernels as GPU users write them, with the choices such a user would try.

A kernel gives the same values in each of its configurations, up to rounding. Some fit no memory; some compile to the same program as others,
because the compiler makes those choices itself (block_K and num_stages of a product, for example).
"""

import itertools
from dataclasses import dataclass
from typing import Any, Callable

import tilelang_ascend.language as T

F32 = "float32"
LOG2E = 1.44269504


def gemm(n, block_M, block_N, block_K, num_stages, rows_first, split_k, dtype="float16"):
    """C += A @ B of n x n matrices; `split_k` blocks share a sum over K. `rows_first`: neighbouring blocks are below each other."""
    steps = n // split_k

    @T.prim_func
    def main(A: T.Tensor((n, n), dtype), B: T.Tensor((n, n), dtype), C: T.Tensor((n, n), F32)):
        across, down = T.ceildiv(n, block_N), T.ceildiv(n, block_M)
        with T.Kernel(down if rows_first else across, across if rows_first else down, split_k, threads=128) as (bx, by, bz):
            row = (bx if rows_first else by) * block_M
            column = (by if rows_first else bx) * block_N
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), F32)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(steps, block_K), num_stages=num_stages):
                T.copy(A[row, bz * steps + k * block_K], A_shared)
                T.copy(B[bz * steps + k * block_K, column], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.atomic_add(C[row, column], C_local)

    return main


def attention(heads, seq, dim, block_M, block_N, heads_first, folded, dtype="float16"):
    """Attention forward; `block_N` divides the length of the sequence.

    heads_first: neighbouring blocks are the same rows of different heads. folded: the scale is part of the exponents of 2; otherwise scores are
    scaled, and exponents are those of e.
    """
    scale = (1.0 / dim) ** 0.5
    shape = (heads, seq, dim)

    @T.prim_func
    def main(Q: T.Tensor(shape, dtype), K: T.Tensor(shape, dtype), V: T.Tensor(shape, dtype), Output: T.Tensor(shape, dtype)):
        blocks = T.ceildiv(seq, block_M)
        with T.Kernel(heads if heads_first else blocks, blocks if heads_first else heads, threads=128) as (bx, by):
            row = (by if heads_first else bx) * block_M
            head = bx if heads_first else by
            Q_shared = T.alloc_shared([block_M, dim], dtype)
            K_shared = T.alloc_shared([block_N, dim], dtype)
            V_shared = T.alloc_shared([block_N, dim], dtype)
            scores = T.alloc_fragment([block_M, block_N], F32)
            weights = T.alloc_fragment([block_M, block_N], dtype)
            acc = T.alloc_fragment([block_M, dim], F32)
            largest = T.alloc_fragment([block_M], F32)
            before = T.alloc_fragment([block_M], F32)
            factor = T.alloc_fragment([block_M], F32)
            total = T.alloc_fragment([block_M], F32)
            sums = T.alloc_fragment([block_M], F32)
            T.copy(Q[head, row : row + block_M, :], Q_shared)
            T.fill(acc, 0)
            T.fill(sums, 0)
            T.fill(largest, -T.infinity(F32))
            for k in T.Pipelined(T.ceildiv(seq, block_N), num_stages=2):
                T.copy(K[head, k * block_N : (k + 1) * block_N, :], K_shared)
                T.gemm(Q_shared, K_shared, scores, transpose_B=True, clear_accum=True)
                if not folded:
                    for i, j in T.Parallel(block_M, block_N):
                        scores[i, j] = scores[i, j] * scale
                T.copy(largest, before)
                T.reduce_max(scores, largest, dim=1, clear=False)
                if folded:
                    for i in T.Parallel(block_M):
                        factor[i] = T.exp2(before[i] * (scale * LOG2E) - largest[i] * (scale * LOG2E))
                    for i, j in T.Parallel(block_M, block_N):
                        scores[i, j] = T.exp2(scores[i, j] * (scale * LOG2E) - largest[i] * (scale * LOG2E))
                else:
                    for i in T.Parallel(block_M):
                        factor[i] = T.exp(before[i] - largest[i])
                    for i, j in T.Parallel(block_M, block_N):
                        scores[i, j] = T.exp(scores[i, j] - largest[i])
                T.reduce_sum(scores, total, dim=1)
                for i in T.Parallel(block_M):
                    sums[i] = sums[i] * factor[i] + total[i]
                T.copy(scores, weights)
                for i, j in T.Parallel(block_M, dim):
                    acc[i, j] *= factor[i]
                T.copy(V[head, k * block_N : (k + 1) * block_N, :], V_shared)
                T.gemm(weights, V_shared, acc)
            for i, j in T.Parallel(block_M, dim):
                acc[i, j] /= sums[i]
            T.copy(acc, Output[head, row : row + block_M, :])

    return main


def softmax(rows, columns, block_M, block_N, base2, reciprocal):
    """Softmax of float32 rows. Rows that fit into one tile (block_N = columns) are read once; others in parts of `block_N` columns, and twice.

    base2: exponents of 2 instead of e. reciprocal: multiplies by 1 / sum instead of dividing.
    """

    @T.macro
    def exponent(x, largest):
        for i, j in T.Parallel(block_M, block_N):
            x[i, j] = T.exp2((x[i, j] - largest[i]) * LOG2E) if base2 else T.exp(x[i, j] - largest[i])

    @T.macro
    def divide(x, row_sum):
        if reciprocal:
            for i in T.Parallel(block_M):
                row_sum[i] = 1.0 / row_sum[i]
            for i, j in T.Parallel(block_M, block_N):
                x[i, j] = x[i, j] * row_sum[i]
        else:
            for i, j in T.Parallel(block_M, block_N):
                x[i, j] = x[i, j] / row_sum[i]

    @T.prim_func
    def whole(X: T.Tensor((rows, columns), F32), Y: T.Tensor((rows, columns), F32)):
        with T.Kernel(T.ceildiv(rows, block_M), threads=128) as bx:
            x = T.alloc_fragment((block_M, columns), F32)
            row_max = T.alloc_fragment((block_M,), F32)
            row_sum = T.alloc_fragment((block_M,), F32)
            T.copy(X[bx * block_M, 0], x)
            T.reduce_max(x, row_max, dim=1)
            exponent(x, row_max)
            T.reduce_sum(x, row_sum, dim=1)
            divide(x, row_sum)
            T.copy(x, Y[bx * block_M, 0])

    @T.prim_func
    def parts(X: T.Tensor((rows, columns), F32), Y: T.Tensor((rows, columns), F32)):
        with T.Kernel(T.ceildiv(rows, block_M), threads=128) as bx:
            x = T.alloc_fragment((block_M, block_N), F32)
            part_max = T.alloc_fragment((block_M,), F32)
            part_sum = T.alloc_fragment((block_M,), F32)
            row_max = T.alloc_fragment((block_M,), F32)
            row_sum = T.alloc_fragment((block_M,), F32)
            T.fill(row_max, -T.infinity(F32))
            T.clear(row_sum)
            for k in T.Pipelined(columns // block_N, num_stages=2):
                T.copy(X[bx * block_M, k * block_N], x)
                T.reduce_max(x, part_max, dim=1)
                for i in T.Parallel(block_M):
                    part_max[i] = T.max(part_max[i], row_max[i])
                exponent(x, part_max)
                T.reduce_sum(x, part_sum, dim=1)
                for i in T.Parallel(block_M):
                    row_sum[i] = row_sum[i] * T.exp(row_max[i] - part_max[i]) + part_sum[i]
                    row_max[i] = part_max[i]
            if reciprocal:
                for i in T.Parallel(block_M):
                    row_sum[i] = 1.0 / row_sum[i]
            for k in T.Pipelined(columns // block_N, num_stages=2):
                T.copy(X[bx * block_M, k * block_N], x)
                exponent(x, row_max)
                for i, j in T.Parallel(block_M, block_N):
                    x[i, j] = x[i, j] * row_sum[i] if reciprocal else x[i, j] / row_sum[i]
                T.copy(x, Y[bx * block_M, k * block_N])

    return whole if block_N == columns else parts


@dataclass(frozen=True)
class Space:
    """A kernel of one size and what may be chosen: parameters and their values, in the order of the kernel's arguments."""

    name: str
    kernel: Callable
    problem: tuple[int, ...]
    choices: dict[str, tuple]

    @property
    def configs(self) -> list[dict[str, Any]]:
        """All of them."""
        return [dict(zip(self.choices, values)) for values in itertools.product(*self.choices.values())]


BOOL = (False, True)
SPACES = {
    "gemm": {
        "block_M": (32, 64, 96, 128, 160, 192, 256),
        "block_N": (32, 64, 96, 128, 160, 192, 256),
        "block_K": (64, 256),
        "num_stages": (2, 4),
        "rows_first": BOOL,
        "split_k": (1, 4),
    },
    "attention": {
        "block_M": tuple(range(32, 256, 16)),
        "block_N": (32, 48, 64, 80, 96, 160, 192, 240, 320),
        "heads_first": BOOL,
        "folded": BOOL,
    },
    "softmax": {
        "block_M": (*range(1, 17), 18, 20, 22, 24, 28, 32, 36, 40, 44, 48, 56, 64),
        "block_N": (64, 128, 256, 512, 1024),
        "base2": BOOL,
        "reciprocal": BOOL,
    },
}
PROBLEMS = {"gemm": (1024,), "attention": (8, 960, 64), "softmax": (4096, 1024)}
KERNELS: dict[str, Callable] = {"gemm": gemm, "attention": attention, "softmax": softmax}
_FEWER = {"block_M": (32, 64, 128), "block_N": (64, 128, 256), "block_K": (64,)}


def space(name: str, size: str) -> Space:
    """The space of a kernel: ``full`` with at least 500 configurations, ``small`` with few of them on smaller problems."""
    choices = SPACES[name]
    if size == "full":
        return Space(name, KERNELS[name], PROBLEMS[name], choices)
    problems = {"gemm": (512,), "attention": (4, 256, 64), "softmax": (512, 1024)}
    return Space(name, KERNELS[name], problems[name], {key: _FEWER.get(key, values) for key, values in choices.items()})
