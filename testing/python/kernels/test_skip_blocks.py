"""Blocks that store nothing, as data tells, do nothing; all others do what they did."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

F16, F32 = "float16", "float32"
N, ROWS = 32, 128


def kernel_of(store):
    """relu(A_b A_b^T) A_b of two sequences of up to ROWS rows, stored by `store(Y, Z, o, first, n, bx, bz)`."""

    @T.prim_func
    def main(A: T.Tensor((2 * ROWS, N), F16), P: T.Tensor((3,), "int32"), Y: T.Tensor((2 * ROWS, N), F32), Z: T.Tensor((2, 4, N), F32)):
        with T.Kernel(ROWS // N, 2) as (bx, bz):
            q, a, p = T.alloc_shared((N, N), F16), T.alloc_shared((N, N), F16), T.alloc_fragment((N, N), F16)
            s, o = T.alloc_fragment((N, N), F32), T.alloc_fragment((N, N), F32)
            first = P[bz]
            n = P[bz + 1] - first
            T.copy(A[first + bx * N : first + (bx + 1) * N, :], q)
            T.clear(o)
            for k in T.Pipelined(T.ceildiv(n, N), num_stages=2):
                T.copy(A[first + k * N : first + (k + 1) * N, :], a)
                T.gemm(q, a, s, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(N, N):
                    p[i, j] = T.if_then_else(k * N + j < n, T.max(s[i, j], 0.0), 0.0)
                T.gemm(p, a, o)
            store(Y, Z, o, first, n, bx, bz)

    return tilelang.compile(main)


def rows(Y, Z, o, first, n, bx, bz):
    for i, j in T.Parallel(N, N):
        if bx * N + i < n:
            Y[first + bx * N + i, j] = o[i, j]


def named_rows(Y, Z, o, first, n, bx, bz):
    for i, j in T.Parallel(N, N):
        row = i + bx * N
        if n - row > 0 and first >= 0:
            Y[first + row, j] = o[i, j]


def updates(Y, Z, o, first, n, bx, bz):
    for i, j in T.Parallel(N, N):
        if n >= bx * N + i + 1:
            T.atomic_add(Y[first + bx * N + i, j], o[i, j])


def two_tensors(Y, Z, o, first, n, bx, bz):
    """What does not belong to Y's rows is left wherever one of the blocks has an even number of rows."""
    for i, j in T.Parallel(N, N):
        if bx * N + i < n:
            Y[first + bx * N + i, j] = o[i, j]
    for j in T.Parallel(N):
        if n > 64:
            Z[bz, bx, j] = o[0, j]


def totals(Y, Z, o, first, n, bx, bz):
    """Every block leaves something."""
    for i, j in T.Parallel(N, N):
        if bx * N + i < n:
            Y[first + bx * N + i, j] = o[i, j]
    for j in T.Parallel(N):
        Z[bz, bx, j] = 1.0


def from_the_end(Y, Z, o, first, n, bx, bz):
    """The index has data in it, and might have wrapped."""
    for i, j in T.Parallel(N, N):
        if first + bx * N + i < first + n:
            Y[first + bx * N + i, j] = o[i, j]


def expected(a, ends, store):
    y, z = np.full((2 * ROWS, N), 7, np.float32), np.full((2, 4, N), 7, np.float32)
    for b in range(2):
        first, n = ends[b], ends[b + 1] - ends[b]
        x = a[first : first + n].astype(np.float32)
        out = np.maximum(x @ x.T, 0).astype(np.float16).astype(np.float32) @ x
        y[first : first + n] = out + 7 * (store is updates)
        for block in range(4):
            if store is two_tensors and n > 64:
                z[b, block] = out[block * N] if block * N < n else z[b, block]
            if store is totals:
                z[b, block] = 1
    return y, z


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "store, skips",
    [(rows, True), (named_rows, True), (updates, True), (two_tensors, True), (totals, False), (from_the_end, False)],
)
def test_blocks_without_rows(store, skips):
    compiled = kernel_of(store)
    assert any("store nothing" in str(note) for note in compiled.artifact.notes) == skips
    a = np.random.default_rng(0).integers(-2, 3, (2 * ROWS, N)).astype(np.float16)
    for ends in ((0, 128, 256), (0, 0, 1), (0, 33, 130), (3, 35, 99), (0, 1, 1)):
        y, z = expected(a, ends, store)
        given = {"A": a, "P": np.array(ends, np.int32), "Y": np.full_like(y, 7), "Z": np.full_like(z, 7)}
        out = strict.run(compiled, given, text=ends[1] == 33)
        np.testing.assert_array_equal(out["Y"], y, err_msg=str(ends))
        if store is two_tensors:  # Rows of A behind a sequence are not zero: what such blocks leave is not told here.
            known = [(b, k) for b in range(2) for k in range(4) if k * N < ends[b + 1] - ends[b] or ends[b + 1] - ends[b] <= 64]
            for b, k in known:
                np.testing.assert_array_equal(out["Z"][b, k], z[b, k])
        else:
            np.testing.assert_array_equal(out["Z"], z)
