"""Elements that decide about products, loaded one by one or under a condition: the cube core reads them in global memory, if they lie there."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

BLOCKS, N, MOST = 3, 32, 4


def number(count, offsets, n, off, bx):
    n[0] = count[bx]
    for v in T.Parallel(MOST):
        off[v] = offsets[bx, v]


def conditional(count, offsets, n, off, bx):
    n[0] = count[bx]
    for v in T.Parallel(MOST):
        if v < n[0]:
            off[v] = offsets[bx, v]


def one_after_the_other(count, offsets, n, off, bx):
    n[0] = count[bx]
    for v in T.serial(MOST):
        if v < n[0]:
            off[v] = offsets[bx, v]


@pytest.mark.parametrize("load", [number, conditional, one_after_the_other])
def test_counts_and_places_of_products(load):
    @T.prim_func
    def kernel(
        A: T.Tensor((128, N), "float16"), B: T.Tensor((N, N), "float16"), count: T.Tensor((BLOCKS,), "int32"),
        offsets: T.Tensor((BLOCKS, MOST), "int32"), C: T.Tensor((BLOCKS * N, N), "float32"),
    ):  # fmt: skip
        with T.Kernel(BLOCKS) as bx:
            a, b = T.alloc_shared((N, N), "float16"), T.alloc_shared((N, N), "float16")
            c = T.alloc_fragment((N, N), "float32")
            n, off = T.alloc_local([1], "int32"), T.alloc_shared([MOST], "int32", scope="shared")
            load(count, offsets, n, off, bx)
            T.copy(B, b)
            T.clear(c)
            for i in T.Pipelined(n[0], num_stages=1):
                T.copy(A[off[i] : off[i] + N, :], a)
                for y, x in T.Parallel(N, N):
                    c[y, x] *= 0.5
                T.gemm(a, b, c)
            T.copy(c, C[bx * N : (bx + 1) * N, :])

    rng = np.random.default_rng(1)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((128, N), (N, N)))
    count, offsets = np.array([2, 0, 4], np.int32), rng.integers(0, 97, (BLOCKS, MOST)).astype(np.int32)
    expected = np.zeros((BLOCKS, N, N), np.float32)
    for block in range(BLOCKS):
        for i in range(count[block]):
            first = offsets[block, i]
            expected[block] = expected[block] * 0.5 + a[first : first + N].astype(np.float32) @ b.astype(np.float32)
    arrays = {"A": a, "B": b, "count": count, "offsets": offsets, "C": np.full((BLOCKS * N, N), 7, np.float32)}
    np.testing.assert_array_equal(strict.run(tilelang.compile(kernel), arrays)["C"], expected.reshape(-1, N))


def test_values_of_an_iteration_before_stay():
    """What a condition leaves out keeps what an earlier iteration loaded: that is nowhere in global memory, and goes to the cube core."""

    @T.prim_func
    def kernel(
        A: T.Tensor((128, N), "float16"),
        B: T.Tensor((N, N), "float16"),
        offsets: T.Tensor((2, MOST), "int32"),
        C: T.Tensor((N, N), "float32"),
    ):
        with T.Kernel(1):
            a, b = T.alloc_shared((N, N), "float16"), T.alloc_shared((N, N), "float16")
            c, off = T.alloc_fragment((N, N), "float32"), T.alloc_shared([MOST], "int32", scope="shared")
            T.copy(B, b)
            T.clear(c)
            for k in T.serial(2):
                for v in T.Parallel(MOST):
                    if v < MOST - 2 * k:
                        off[v] = offsets[k, v]
                for i in T.serial(MOST):
                    T.copy(A[off[i] : off[i] + N, :], a)
                    T.gemm(a, b, c)
            T.copy(c, C)

    rng = np.random.default_rng(2)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((128, N), (N, N)))
    offsets = np.array([[3, 50, 96, 7], [11, 64, 0, 0]], np.int32)
    firsts = [*offsets[0], *offsets[1, :2], *offsets[0, 2:]]
    expected = sum(a[first : first + N].astype(np.float32) for first in firsts) @ b.astype(np.float32)
    got = strict.run(tilelang.compile(kernel), {"A": a, "B": b, "offsets": offsets, "C": np.zeros((N, N), np.float32)})
    np.testing.assert_array_equal(got["C"], expected)
