"""T.sync_grid: what stands behind it in a block sees what any block has stored in front of it."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.errors import TilelangAscendError, UnsupportedConstruct

N, BLOCKS = 32, 6
F32 = "float32"


def run(kernel, **arrays):
    return strict.run(tilelang.compile(kernel), arrays)


def test_every_block_sees_what_all_have_stored():
    @T.prim_func
    def main(A: T.Tensor((BLOCKS, N), F32), P: T.Tensor((BLOCKS, N), F32), Q: T.Tensor((BLOCKS,), F32), Y: T.Tensor((BLOCKS, N), F32)):
        with T.Kernel(BLOCKS) as bx:
            a, s = T.alloc_shared((N,), F32), T.alloc_fragment((N,), F32)
            most = T.alloc_var(F32)
            other = (bx + 1) % BLOCKS
            T.copy(A[bx, :], a)
            for i in T.Parallel(N):
                a[i] = a[i] * 2
            T.copy(a, P[bx, :])
            T.sync_grid()
            T.clear(s)
            for k in T.serial(BLOCKS):
                T.copy(P[k, :], a)
                for i in T.Parallel(N):
                    s[i] += a[i]
            most = s[0]
            Q[bx] = most
            T.sync_grid()
            T.copy(P[other, :], a)
            for i in T.Parallel(N):
                s[i] = a[i] + Q[other]
            T.copy(s, Y[bx, :])

    a = np.random.default_rng(0).integers(-9, 9, (BLOCKS, N)).astype(np.float32)
    out = run(main, A=a, P=np.zeros_like(a), Q=np.zeros(BLOCKS, np.float32), Y=np.zeros_like(a))
    np.testing.assert_array_equal(out["P"], a * 2)
    np.testing.assert_array_equal(out["Q"], np.full(BLOCKS, 2 * a[:, 0].sum()))
    np.testing.assert_array_equal(out["Y"], np.roll(a * 2, -1, 0) + 2 * a[:, 0].sum())


def test_products_in_front_and_behind():
    """Split over K, and the parts added up, in one launch of a grid of two axes."""

    @T.prim_func
    def main(A: T.Tensor((N, 4 * N), "float16"), B: T.Tensor((4 * N, N), "float16"), P: T.Tensor((4, N, N), F32), C: T.Tensor((N, N), F32)):
        with T.Kernel(4, 1) as (bx, by):
            a, b = T.alloc_shared((N, N), "float16"), T.alloc_shared((N, N), "float16")
            c = T.alloc_fragment((N, N), F32)
            T.copy(A[0, bx * N], a)
            T.copy(B[bx * N, 0], b)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, P[bx, :, :])
            T.sync_grid()
            rows = T.alloc_fragment((N // 4, N), F32)
            part = T.alloc_fragment((N // 4, N), F32)
            T.clear(rows)
            for k in T.serial(4):
                T.copy(P[k, bx * (N // 4) : (bx + 1) * (N // 4), :], part)
                for i, j in T.Parallel(N // 4, N):
                    rows[i, j] += part[i, j]
            T.copy(rows, C[bx * (N // 4), 0])

    rng = np.random.default_rng(0)
    a, b = rng.integers(-2, 3, (N, 4 * N)).astype(np.float16), rng.integers(-2, 3, (4 * N, N)).astype(np.float16)
    out = run(main, A=a, B=b, P=np.zeros((4, N, N), np.float32), C=np.zeros((N, N), np.float32))
    np.testing.assert_array_equal(out["C"], a.astype(np.float32) @ b.astype(np.float32))


def test_views_in_front_hold_behind():
    """Of a tensor, and of a tile that is written anew."""

    @T.prim_func
    def main(A: T.Tensor((BLOCKS, N), F32), Y: T.Tensor((BLOCKS, N), F32)):
        with T.Kernel(BLOCKS) as bx:
            a = T.alloc_shared((2, N // 2), F32)
            flat = T.view(a, (N,))
            T.copy(A[bx, :], flat)
            T.copy(flat, Y[bx, :])
            T.sync_grid()
            T.fill(a, 3.0)
            T.fill(flat, 4.0)
            for i, j in T.Parallel(2, N // 2):
                a[i, j] = a[i, j] + i
            T.copy(flat, Y[bx, :])

    a = np.random.default_rng(0).integers(-9, 9, (BLOCKS, N)).astype(np.float32)
    out = run(main, A=a, Y=np.zeros_like(a))
    np.testing.assert_array_equal(out["Y"], np.broadcast_to(np.repeat([4.0, 5.0], N // 2), (BLOCKS, N)))


def test_a_workspace_of_the_block_outlives_the_barrier():
    """It is memory of the launch, as one made in front of it is; one that views alone use, too."""

    @T.prim_func
    def main(A: T.Tensor((BLOCKS, N), F32), Y: T.Tensor((BLOCKS, N), F32)):
        with T.Kernel(BLOCKS) as bx:
            flat = T.alloc_global((BLOCKS * N,), F32)
            rows = T.view(flat, (BLOCKS, N))
            a = T.alloc_shared((N,), F32)
            T.copy(A[bx, :], a)
            for i in T.Parallel(N):
                a[i] = a[i] * 2
            T.copy(a, rows[bx, :])
            T.sync_grid()
            T.copy(rows[(bx + 1) % BLOCKS, :], a)
            more = T.alloc_global((BLOCKS, N), F32)
            T.copy(a, more[bx, :])
            T.sync_grid()
            T.copy(more[(bx + 1) % BLOCKS, :], a)
            T.copy(a, Y[bx, :])

    a = np.random.default_rng(0).integers(-9, 9, (BLOCKS, N)).astype(np.float32)
    out = run(main, A=a, Y=np.zeros_like(a))
    np.testing.assert_array_equal(out["Y"], np.roll(a * 2, -2, 0))


def refused(body, match, line):
    with pytest.raises(UnsupportedConstruct, match=match) as caught:

        @T.prim_func
        def main(A: T.Tensor((BLOCKS, N), F32), Y: T.Tensor((BLOCKS, N), F32)):
            with T.Kernel(BLOCKS) as bx:
                body(A, Y, bx)

    assert caught.value.location.file == __file__ and caught.value.hint
    with open(__file__) as f:
        assert line in f.read().splitlines()[caught.value.location.line - 1]


def in_a_loop(A, Y, bx):
    for k in T.serial(2):
        T.copy(A[bx, :], Y[bx, :])
        T.sync_grid()


def keeps_a_tile(A, Y, bx):
    a = T.alloc_shared((N,), F32)
    T.copy(A[bx, :], a)
    T.sync_grid()
    T.copy(a, Y[bx, :])


def keeps_part_of_a_tile(A, Y, bx):
    b = T.alloc_shared((N,), F32)
    T.copy(A[bx, :], b)
    T.sync_grid()
    for i in T.Parallel(N // 2):
        b[i] = 1.0
    T.copy(b, Y[bx, :])


def keeps_a_variable(A, Y, bx):
    n = T.alloc_var("int32")
    n = bx * 2
    T.sync_grid()
    for k in T.serial(2):
        Y[bx, n] = 1.0
        n = n + 1


def keeps_a_name(A, Y, bx):
    Y[bx, 0] = 1.0
    x = Y[bx, 0]
    Y[bx, 0] = 2.0
    T.sync_grid()
    Y[bx, 1] = x


def keeps_a_name_of_what_is_changed_behind(A, Y, bx):
    """Another block may have stored to Y when the name is worked out again."""
    y = Y[(bx + 1) % BLOCKS, 0]
    T.sync_grid()
    Y[bx, 0] = y + 1.0


@pytest.mark.parametrize(
    "body, match, line",
    [
        (in_a_loop, "within a loop or a branch", "T.sync_grid()"),
        (keeps_a_tile, "tile \\('a'\\) that keeps its value", "a = T.alloc_shared"),
        (keeps_part_of_a_tile, "tile \\('b'\\) that keeps its value", "b = T.alloc_shared"),
        (keeps_a_variable, "variable \\('n'\\) that keeps its value", "n = T.alloc_var"),
        (keeps_a_name, "the name 'x' across T.sync_grid, which reads 'Y'", "x = Y[bx, 0]"),
        (keeps_a_name_of_what_is_changed_behind, "the name 'y' across T.sync_grid, which reads 'Y'", "y = Y[(bx + 1)"),
    ],
)
def test_what_does_not_survive_the_barrier_is_told(body, match, line):
    refused(body, match, line)


def test_plain_python_says_that_it_cannot_wait(monkeypatch):
    @tilelang.jit(out_idx=[-1])
    def factory():
        @T.prim_func
        def main(A: T.Tensor((BLOCKS, N), F32), Y: T.Tensor((BLOCKS, N), F32)):
            with T.Kernel(BLOCKS) as bx:
                T.copy(A[bx, :], Y[bx, :])
                T.sync_grid()
                T.copy(A[bx, :], Y[bx, :])

        return main

    import torch

    monkeypatch.setenv("TILELANG_INTERPRET", "1")
    with pytest.raises(TilelangAscendError, match="waits for all blocks"):
        factory()(torch.zeros(BLOCKS, N))


def test_products_that_begin_anew_behind_the_barrier():
    """What an accumulator or a tile holds in front of the barrier is gone when a loop that surely runs has written it."""

    @T.prim_func
    def main(A: T.Tensor((BLOCKS * N, N), "float16"), P: T.Tensor((BLOCKS * N, N), "float16"), Y: T.Tensor((BLOCKS * N, N), F32)):
        with T.Kernel(BLOCKS) as bx:
            a, b = T.alloc_shared((N, N), "float16"), T.alloc_shared((N, N), "float16")
            c, d = T.alloc_fragment((N, N), F32), T.alloc_fragment((N, N), F32)
            for k in T.serial(2):
                T.copy(A[bx * N, 0], a)
                T.gemm(a, a, c, transpose_B=True, clear_accum=True)
            T.copy(c, P[bx * N, 0])
            T.sync_grid()
            T.clear(d)
            for k in T.serial(BLOCKS):
                T.copy(P[k * N, 0], b)
                T.copy(A[bx * N, 0], a)
                T.gemm(a, b, c, clear_accum=True)
                for i, j in T.Parallel(N, N):
                    d[i, j] += c[i, j]
            for i, j in T.Parallel(N, N):
                d[i, j] += c[i, j]
            T.copy(d, Y[bx * N, 0])

    rng = np.random.default_rng(4)
    a = rng.integers(-1, 2, (BLOCKS * N, N)).astype(np.float16)
    out = run(main, A=a, P=np.zeros_like(a), Y=np.zeros(a.shape, np.float32))
    tiles = a.astype(np.float32).reshape(BLOCKS, N, N)
    own = tiles @ tiles.transpose(0, 2, 1)
    np.testing.assert_array_equal(out["Y"].reshape(BLOCKS, N, N), tiles @ own.sum(0) + tiles @ own[-1])
