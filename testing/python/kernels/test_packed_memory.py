"""Buffers that share memory: what a loop leaves behind survives the iterations that do not write it.

Tiles of these kernels are small, and `packed_memory` has them share addresses as large ones must.
"""

import sys
from pathlib import Path

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.arch.spec import ChipSpec
from tilelang_ascend.isa.base import Space

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from testing.fuzz.check import packed_memory

N = 64
ROWS = 8


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")


def result(kernel, **arrays):
    with packed_memory():
        compiled = tilelang.compile(kernel, target="a2")
    return strict.run(compiled, arrays, {})


def rows(seed=0):
    return np.random.default_rng(seed).standard_normal((ROWS, N)).astype(np.float32)


def last_row_kept(kind):
    """`u` is used before, `t` written behind what may leave the iteration; `t` is read behind the loop."""

    @T.prim_func
    def kernel(X: T.Tensor((ROWS, N), "float32"), S: T.Tensor((ROWS,), "int32"), Y: T.Tensor((2, N), "float32")):
        with T.Kernel(1):
            u = T.alloc_shared((N,), "float32")
            t = T.alloc_shared((N,), "float32")
            for q in T.serial(ROWS):
                T.copy(X[q, :], u)
                for i in T.Parallel(N):
                    u[i] = u[i] * 2.0
                T.copy(u, Y[0, :])
                if kind == "break":
                    if S[q] == 1:
                        break
                if kind == "continue":
                    if S[q] == 1:
                        continue
                if kind == "if":
                    if S[q] == 0:
                        T.copy(X[q, :], t)
                elif kind == "inner break":
                    for r in T.serial(2):
                        if S[q] + r == 1:
                            break
                        T.copy(X[q, :], t)
                elif kind == "empty loop":
                    for _ in T.serial(1 - S[q]):
                        T.copy(X[q, :], t)
                else:
                    T.copy(X[q, :], t)
            for i in T.Parallel(N):
                t[i] = t[i] + 1.0
            T.copy(t, Y[1, :])

    return kernel


@pytest.mark.parametrize("kind", ["always", "break", "continue", "if", "inner break", "empty loop"])
def test_what_the_last_writing_iteration_left_is_read_behind_the_loop(kind):
    s = np.zeros(ROWS, np.int32)
    s[5:] = 1
    x = rows()
    ended = {"break": 5}.get(kind, ROWS - 1)
    kept = ROWS - 1 if kind == "always" else 4
    got = result(last_row_kept(kind), X=x, S=s, Y=np.zeros((2, N), np.float32))["Y"]
    np.testing.assert_array_equal(got, np.stack([x[ended] * 2, x[kept] + 1]))


def test_what_an_inner_loop_did_not_write_comes_from_the_iteration_before():
    @T.prim_func
    def kernel(
        X: T.Tensor((ROWS, N), "float32"), S: T.Tensor((ROWS,), "int32"), Y: T.Tensor((ROWS, N), "float32"), Z: T.Tensor((N,), "float32")
    ):
        with T.Kernel(1):
            u = T.alloc_shared((N,), "float32")
            t = T.alloc_shared((N,), "float32")
            for q in T.serial(ROWS):
                T.copy(X[q, :], u)
                for i in T.Parallel(N):
                    u[i] = u[i] * 2.0
                T.copy(u, Z)
                for _ in T.serial(2):
                    if S[q] == 1:
                        break
                    T.copy(X[q, :], t)
                T.copy(t, Y[q, :])

    s = np.array([0, 0, 1, 1, 0, 1, 0, 1], np.int32)
    x = rows(1)
    want = np.stack([x[max(p for p in range(q + 1) if s[p] == 0)] for q in range(ROWS)])
    got = result(kernel, X=x, S=s, Y=np.zeros((ROWS, N), np.float32), Z=np.zeros(N, np.float32))
    np.testing.assert_array_equal(got["Y"], want)


def test_a_part_of_run_time_size_is_not_the_whole_tile():
    @T.prim_func
    def kernel(
        X: T.Tensor((ROWS, N), "float32"),
        L: T.Tensor((ROWS,), "int32"),
        Y: T.Tensor((ROWS, N), "float32"),
        Z: T.Tensor((ROWS, N), "float32"),
    ):
        with T.Kernel(1):
            u = T.alloc_shared((N,), "float32")
            t = T.alloc_shared((N,), "float32")
            for q in T.serial(ROWS):
                T.copy(X[q, 0 : L[q]], t[0 : L[q]])
                T.copy(t, Y[q, :])
                T.copy(X[q, :], u)
                for i in T.Parallel(N):
                    u[i] = u[i] * 2.0
                T.copy(u, Z[q, :])

    lengths = np.array([64, 64, 8, 40, 16, 64, 24, 32], np.int32)
    x = rows(2)
    t, want = np.zeros(N, np.float32), np.zeros((ROWS, N), np.float32)
    for q, n in enumerate(lengths):
        t[:n] = x[q, :n]
        want[q] = t
    got = result(kernel, X=x, L=lengths, Y=np.zeros((ROWS, N), np.float32), Z=np.zeros((ROWS, N), np.float32))
    np.testing.assert_array_equal(got["Y"], want)
    np.testing.assert_array_equal(got["Z"], x * 2)


def test_elements_beside_the_last_rows_a_reduction_writes_stay():
    """The last BlockReduce writes four of eight elements; the other four were made before another tile was used."""

    @T.prim_func
    def kernel(
        A: T.Tensor((12, 8), "float32"), X: T.Tensor((256,), "float32"), Y: T.Tensor((256,), "float32"), Z: T.Tensor((16,), "float32")
    ):
        with T.Kernel(1):
            a = T.alloc_shared((12, 8), "float32")
            r = T.alloc_fragment((16,), "float32")
            u = T.alloc_shared((256,), "float32")
            T.copy(X[0:16], r)
            for i in T.Parallel(16):
                r[i] = r[i] + 1.0
            T.copy(X, u)
            for i in T.Parallel(256):
                u[i] = u[i] * 2.0
            T.copy(u, Y)
            T.copy(A, a)
            T.reduce_sum(a, r[0:12], dim=1)
            T.copy(r, Z)

    rng = np.random.default_rng(3)
    a, x = (rng.integers(-9, 9, shape).astype(np.float32) for shape in ((12, 8), 256))
    got = result(kernel, A=a, X=x, Y=np.zeros(256, np.float32), Z=np.zeros(16, np.float32))
    np.testing.assert_array_equal(got["Z"], np.concatenate([a.sum(1), x[12:16] + 1]))
    np.testing.assert_array_equal(got["Y"], x * 2)


def test_lanes_that_are_only_read_along_stay_with_their_tile():
    """A vector instruction reads lanes nobody uses beside its tile, in memory that a late transfer still stores from."""

    @T.prim_func
    def kernel(A: T.Tensor((6, 2, 18), "float32"), C: T.Tensor((6, 2, 18), "float32"), D: T.Tensor((6, 2, 18), "float32"), q: T.int32):
        with T.Kernel(1):
            for i, j, k in T.Parallel(1, 2, 16):
                D[i, j - 1, k] = 0.0
                for _ in T.serial(4):
                    D[i, j - 1, k] = D[i, j - 1, k] + A[i, j, k]
                if k < q:
                    C[i + 2, j, k - 2] = A[i, j, k] + 2.0

    rng = np.random.default_rng(0)
    arrays = {n: rng.integers(-9, 9, (6, 2, 18)).astype(np.float32) for n in "ACD"}
    with packed_memory():
        compiled = tilelang.compile(kernel, target="a2")
    have = strict.run(compiled, arrays, {"q": 3})
    want = {n: a.copy() for n, a in arrays.items()}
    want["D"][0, 0, :16] = 4 * arrays["A"][0, 1, :16]
    want["C"][2, :, 0:1] = arrays["A"][0, :, 2:3] + 2
    for n in "CD":
        np.testing.assert_array_equal(have[n], want[n])


def test_flags_that_rotate_at_different_speeds_do_not_share_ids(monkeypatch):
    """Rings of three and of four copies: flags of one id would meet in the twelfth iteration only."""
    usual, n = ChipSpec.capacity_bytes, 24
    monkeypatch.setattr(ChipSpec, "capacity_bytes", lambda chip, space: 2048 if space is Space.UB else usual(chip, space))

    @T.prim_func
    def kernel(C: T.Tensor((n,), "float32"), D: T.Tensor((n,), "float32"), X: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=128) as _:
            for i in T.serial(n):
                T.atomic_max(C[i], X[i])
                C[i] = C[i] * 2
                if C[i] > 0:
                    T.atomic_max(C[i], X[i])
                T.atomic_add(D[i], C[i])

    rng = np.random.default_rng(0)
    c, d, x = (rng.integers(-9, 10, n).astype(np.float32) for _ in range(3))
    got = strict.run(tilelang.compile(kernel), {"C": c, "D": d, "X": x})
    expected = np.maximum(c, x) * 2
    expected = np.where(expected > 0, np.maximum(expected, x), expected)
    np.testing.assert_array_equal(got["C"], expected)
    np.testing.assert_array_equal(got["D"], d + expected)


def test_loops_that_took_over_flags_may_need_their_own_again(monkeypatch):
    """Once two loops share flags, what ordered them is left out; where sharing was not enough after all, it has to come back."""
    usual, n = ChipSpec.capacity_bytes, 16
    monkeypatch.setattr(ChipSpec, "capacity_bytes", lambda chip, space: 1024 if space is Space.UB else usual(chip, space))

    @T.prim_func
    def kernel(
        X: T.Tensor((7, n), "int32"), W: T.Tensor((7, n), "int32"), S: T.Tensor((16,), "int32"), m: T.int32,
        Y: T.Tensor((30, n), "int32"), Z: T.Tensor((30, n), "int32"),
    ):  # fmt: skip
        with T.Kernel(3) as bx:
            t = T.alloc_fragment((n,), "int32")
            u = T.alloc_shared((n,), "int32")
            T.copy(X[bx % 7, :], t)
            for k in T.serial(m):
                T.copy(X[k % 7, :], u)
                for q in T.Pipelined(m + 2, num_stages=6):
                    for i in T.Parallel(n):
                        if i >= 3:
                            u[i] = u[i] ^ u[i]
                    if m > q:
                        for i in T.Parallel(n):
                            t[i] = t[i] + 2
                    T.copy(W[(bx + k + 1 + q * 2) % 7, :], u)
                T.copy(X[k * 2 % 7, :], u)
                for i in T.Parallel(n):
                    t[i] = t[i] ^ t[i]
            for k in T.Pipelined(S[bx % 16], num_stages=3):
                T.copy(u, Y[bx * 10 + k, :])
                for q in T.Pipelined(m, num_stages=2):
                    T.copy(W[(k * 2 + q) % 7, :], u)
                    if m > k:
                        for i in T.Parallel(n):
                            u[i] = u[i] ^ u[i]
                T.copy(u, Z[bx * 10 + k, :])
            for _ in T.serial(2):
                for i in T.Parallel(n):
                    t[i] = t[i] * 3 + u[i]

    rng, m = np.random.default_rng(0), 3
    x, w = rng.integers(-9, 10, (2, 7, n)).astype(np.int32)
    s = np.full(16, 5, np.int32)
    y, z = np.zeros((2, 30, n), np.int32)
    got = strict.run(tilelang.compile(kernel), {"X": x, "W": w, "S": s, "Y": y, "Z": z}, {"m": m})
    for b in range(3):
        u = x[(m - 1) * 2 % 7]
        for k in range(5):
            y[b * 10 + k] = u
            u = np.zeros(n, np.int32) if m > k else w[(k * 2 + m - 1) % 7]
            z[b * 10 + k] = u
    np.testing.assert_array_equal(got["Y"], y)
    np.testing.assert_array_equal(got["Z"], z)
