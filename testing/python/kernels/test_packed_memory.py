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
from tilelang_ascend.analysis.dependence.sync_check import sync_covers
from tilelang_ascend.arch import get_chip
from tilelang_ascend.arch.spec import ChipSpec
from tilelang_ascend.isa.base import Space
from tilelang_ascend.transform import pipeline

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


def test_ids_that_are_settled_stay_apart_when_flags_elsewhere_change():
    """Two flags of V_MTE3 share an id as long as nothing between other pipes becomes less."""
    n = 16

    @T.prim_func
    def kernel(
        X: T.Tensor((112, n), "float32"), H: T.Tensor((112, n), "float16"), S: T.Tensor((16,), "int32"), m: T.int32,
        W: T.Tensor((1600, n), "float32"),
        Y0: T.Tensor((20000, n), "float32"), Y1: T.Tensor((20000, n), "float32"), Y2: T.Tensor((20000, n), "float32"), Y3: T.Tensor((20000, n), "float32"),
        Y4: T.Tensor((20000, n), "float32"), Y5: T.Tensor((20000, n), "float32"), Y6: T.Tensor((20000, n), "float32"), Y7: T.Tensor((20000, n), "float32"),
    ):  # fmt: skip
        with T.Kernel(25) as bx:
            a = T.alloc_shared((n, n), "float32")
            t = T.alloc_fragment((n, n), "float32")
            b = T.alloc_shared((n, n), "float32")
            c = T.alloc_shared((n, n), "float32")
            h = T.alloc_shared((n, n), "float16")
            g = T.alloc_shared((n, n), "float16")
            T.fill(a, 0)
            for k1 in T.Pipelined(m // 2, num_stages=6):
                T.copy(X[((bx * 3 + k1 * 2) % 7) * 16, 0], t)
                for i, j in T.Parallel(n, n):
                    t[i, j] = T.min(T.max(t[i, j] * 0.25 + b[i, j], -8), 8)
                T.copy(t, Y0[(bx * 5 + k1) * 16, 0])
                for k3 in T.Pipelined(m, num_stages=3):
                    T.gemm(h, g, b, clear_accum=True)
                    for i, j in T.Parallel(n, n):
                        b[i, j] = T.min(T.max(b[i, j] * 0.25, -8), 8)
                    for i, j in T.Parallel(n, n):
                        a[i, j] = T.min(T.max(a[i, j] * 0.25, -8), 8)
                    T.copy(X[((k3 * 2) % 7) * 16, 0], c)
                    T.copy(X[((bx + k1 + 1) % 7) * 16, 0], t)
                    T.copy(t, Y1[((bx * 5 + k1) * 10 + k3) * 16, 0])
                    T.copy(b, Y2[((bx * 5 + k1) * 10 + k3) * 16, 0])
                    for i, j in T.Parallel(n, n):
                        c[i, j] = T.min(T.max(c[i, j] + c[i, j] * t[i, j], -8), 8)
                    T.copy(c, Y3[((bx * 5 + k1) * 10 + k3) * 16, 0])
            for k7 in T.Pipelined(S[bx % 16], num_stages=6):
                T.copy(X[((bx * 3 + k7 + 1) % 7) * 16, 0], b)
                T.copy(b, Y4[(bx * 10 + k7) * 16, 0])
                T.copy(X[((bx * 3 + k7) % 7) * 16, 0], c)
                for i, j in T.Parallel(n, n):
                    c[i, j] = T.min(T.max(c[i, j] + c[i, j] * b[i, j], -8), 8)
                T.copy(c, Y5[(bx * 10 + k7) * 16, 0])
            for k10 in T.Pipelined(m, num_stages=4):
                for k11 in T.Pipelined(5, num_stages=1):
                    for i, j in T.Parallel(n, n):
                        h[i, j] = c[i, j] * 0.125
                    if S[bx % 16] > 4:
                        T.copy(X[((bx + k10 + k11 * 2) % 7) * 16, 0], t)
                        T.copy(t, Y6[((bx * 10 + k10) * 5 + k11) * 16, 0])
                    for i, j in T.Parallel(n, n):
                        c[i, j] = T.min(T.max(c[i, j] + c[i, j] * t[i, j], -8), 8)
                T.copy(a, W[(bx * 4 + (k10 + 2) % 4) * 16, 0])
                T.copy(X[((bx * 3 + k10 * 2) % 7) * 16, 0], t)
                for i, j in T.Parallel(n, n):
                    g[i, j] = t[i, j] * 0.125
                T.gemm(h, h, a, clear_accum=True)
                for i, j in T.Parallel(n, n):
                    c[i, j] = T.min(T.max(T.max(c[i, j], c[i, j]) - c[i, j], -8), 8)
                T.copy(c, Y7[(bx * 10 + k10) * 16, 0])
                T.gemm(h, g, b, clear_accum=True)
                for i, j in T.Parallel(n, n):
                    b[i, j] = T.min(T.max(b[i, j] * 0.25, -8), 8)

    chip = get_chip("a5")
    with packed_memory():
        stages = dict(pipeline.lower(kernel, chip, keep_stages=True).stages)
    assert sync_covers(stages["insert_sync"], chip) == []
