"""T.PersistentTileScheduler: every tile once, in the order upstream documents."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

M, N, B = 5, 3, 16


def order(rows, columns, swizzle, column_major):
    """Tiles in their order: strips of `swizzle` columns (or rows), along the other dimension first."""
    along, across = (rows, columns) if column_major else (columns, rows)
    tiles = [(a, c) for first in range(0, across, swizzle) for a in range(along) for c in range(first, min(across, first + swizzle))]
    return tiles if column_major else [(c, a) for a, c in tiles]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("swizzle, column_major", [(1, True), (1, False), (2, True), (2, False), (4, True)])
def test_a_block_walks_over_its_tiles(swizzle, column_major):
    @T.prim_func
    def main(X: T.Tensor((M * B, N * B), "float32"), Y: T.Tensor((M * B, N * B), "float32"), Seen: T.Tensor((2, M * N, 3), "int32")):
        with T.Kernel(2) as block:
            x = T.alloc_shared((B, B), "float32")
            tiles = T.PersistentTileScheduler(M, N, num_workers=2, swizzle_size=swizzle, column_major=column_major)
            tiles.init(block)
            while tiles.valid():
                m, n = tiles.m_idx, tiles.n_idx
                Seen[block, tiles.current_iter, 0] = m
                Seen[block, tiles.current_iter, 1] = n
                Seen[block, tiles.current_iter, 2] = tiles.linear_idx
                T.copy(X[m * B, n * B], x)
                for i, j in T.Parallel(B, B):
                    x[i, j] = x[i, j] + 1
                T.copy(x, Y[m * B, n * B])
                tiles.next_tile()

    X = np.random.default_rng(0).integers(-9, 10, (M * B, N * B)).astype(np.float32)
    given = {"X": X, "Y": np.zeros_like(X), "Seen": np.full((2, M * N, 3), -1, np.int32)}
    got = strict.run(tilelang.compile(main), given, text=swizzle == 2)
    np.testing.assert_array_equal(got["Y"], X + 1)
    want = order(M, N, swizzle, column_major)
    for block in range(2):
        mine = [(*want[k], k) for k in range(block, M * N, 2)]
        np.testing.assert_array_equal(got["Seen"][block][: len(mine)], mine)
        assert (got["Seen"][block][len(mine) :] == -1).all()


def test_coordinates_without_a_state(monkeypatch):
    @T.prim_func
    def main(Y: T.Tensor((M * N + 2, 2), "int32")):
        with T.Kernel(1) as _:
            tiles = T.PersistentTileScheduler(M, N, swizzle_size=2, stateful=False)
            for k in T.serial(M * N + 2):
                m, n = tiles.coord(k)
                Y[k, 0] = m
                Y[k, 1] = n

    got = strict.run(tilelang.compile(main), {"Y": np.zeros((M * N + 2, 2), np.int32)}, text=False)
    np.testing.assert_array_equal(got["Y"][: M * N], order(M, N, 2, True))

    with pytest.raises(tilelang.errors.InvalidArgument, match="stateful=False has no m_idx"):

        @T.prim_func
        def other(Y: T.Tensor((1,), "int32")):
            with T.Kernel(1) as _:
                Y[0] = T.PersistentTileScheduler(M, N, stateful=False).m_idx


def test_the_interpreter_of_python(monkeypatch):
    monkeypatch.setenv("TILELANG_INTERPRET", "1")

    @tilelang.jit
    def make():
        @T.prim_func
        def main(Y: T.Tensor((M * N,), "int32")):
            with T.Kernel(2) as block:
                tiles = T.PersistentTileScheduler(M, N, num_workers=2)
                tiles.init(block)
                while tiles.valid():
                    Y[tiles.linear_idx] = tiles.m_idx * 10 + tiles.n_idx
                    tiles.next_tile()

        return main

    Y = np.zeros(M * N, np.int32)
    make()(Y)
    np.testing.assert_array_equal(Y, [m * 10 + n for m, n in order(M, N, 1, True)])
