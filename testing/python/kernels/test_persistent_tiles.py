"""Kernels whose blocks work through tiles by a loop of their own: who has which rows, and how many there are, is said by names of quotients."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.arch import get_chip
from tilelang_ascend.ir import Evaluate, TensorRegion, const_int, op_name, statements
from tilelang_ascend.ir.grids import Grid
from tilelang_ascend.transform import pipeline

F16, F32 = "float16", "float32"
BLOCKS, BATCH, PARTS, ROWS, KEYS, DIM = 3, 2, 4, 16, 32, 32
RNG = np.random.default_rng(0)


def scores(step=ROWS, blocks=BLOCKS):
    """Y[b, p * step : + ROWS] = row softmax of X[b, p * step : + ROWS] @ K[b]^T, one after the other."""
    tiles = BATCH * PARTS

    @T.prim_func
    def kernel(
        X: T.Tensor((BATCH, PARTS * ROWS, DIM), F16),
        K: T.Tensor((BATCH, KEYS, DIM), F16),
        Y: T.Tensor((BATCH, PARTS * ROWS, KEYS), F32),
        R: T.Tensor((BATCH, PARTS * ROWS), F32),
    ):
        with T.Kernel(blocks, threads=128) as block:
            x, k = T.alloc_shared((ROWS, DIM), F16), T.alloc_shared((KEYS, DIM), F16)
            s, m = T.alloc_fragment((ROWS, KEYS), F32), T.alloc_fragment((ROWS,), F32)
            for w in T.serial(T.ceildiv(tiles, blocks)):
                tile = blocks * w + block
                b = tile // PARTS
                p = tile % PARTS
                first = p * step
                end = p * step + ROWS
                if b < BATCH and p < PARTS:
                    T.copy(X[b, first:end, :], x)
                    T.copy(K[b, :, :], k)
                    T.gemm(x, k, s, transpose_B=True, clear_accum=True)
                    T.reduce_max(s, m, dim=1)
                    for i, j in T.Parallel(ROWS, KEYS):
                        s[i, j] = T.exp(s[i, j] - m[i])
                    T.copy(s, Y[b, first:end, :])
                    T.copy(m, R[b, first:end])

    return kernel


def expected(x, k, step):
    y, r = np.zeros((BATCH, PARTS * ROWS, KEYS)), np.zeros((BATCH, PARTS * ROWS))
    for b in range(BATCH):
        for p in range(PARTS):
            rows = slice(p * step, p * step + ROWS)
            found = x[b, rows].astype(np.float64) @ k[b].astype(np.float64).T
            r[b, rows] = found.max(1)
            y[b, rows] = np.exp(found - found.max(1, keepdims=True))
    return y, r


def freed(compiled) -> bool:
    return any("are blocks of their own" in note for note in compiled.artifact.notes)


@pytest.fixture
def kept(monkeypatch):
    """Loops over tiles stay, as those whose tiles are not independent do."""
    monkeypatch.setattr("tilelang_ascend.transform.nests.free_tiles.MOST_TILES", 0)


@pytest.mark.parametrize("chip", ["a2", "a5"])
@pytest.mark.parametrize("step", [ROWS, ROWS // 2])
def test_rows_of_tiles(step, chip, kept):
    """Rows of a tile are those of another one, or none of them is; where tiles of a block overlap, the later one counts."""
    compiled = tilelang.compile(scores(step, BLOCKS if step == ROWS else 1), target=chip)
    assert not freed(compiled)
    alone = any("one of the two vector cores does all vector work" in note for note in compiled.artifact.notes)
    assert alone == (step != ROWS)
    x, k = RNG.standard_normal((BATCH, PARTS * ROWS, DIM)).astype(np.float16), RNG.standard_normal((BATCH, KEYS, DIM)).astype(np.float16)
    given = {"X": x, "K": k, "Y": np.zeros((BATCH, PARTS * ROWS, KEYS), np.float32), "R": np.zeros((BATCH, PARTS * ROWS), np.float32)}
    got = strict.run(compiled, given)
    for name, want in zip("YR", expected(x, k, step)):
        np.testing.assert_allclose(got[name], want, rtol=2e-5, atol=2e-5)


def test_slices_between_names_have_as_many_rows_as_these_are_apart():
    lowered = pipeline.lower(tilelang.compile(scores()).artifact.tile_ir, get_chip("a2"), keep_stages=True)
    body = next(ir for name, ir in lowered.stages if name == "known_extents").body
    regions = [a for s in statements(body) if isinstance(s, Evaluate) and op_name(s) for a in s.value.args if isinstance(a, TensorRegion)]
    assert regions and all(const_int(x.extent) is not None for r in regions for x in r.region)


@pytest.mark.parametrize("end", ["in front", "at first", "behind"])
def test_slices_between_names_may_be_empty(end):
    @T.prim_func
    def kernel(X: T.Tensor((64, 64), F32), Y: T.Tensor((64, 64), F32)):
        with T.Kernel(2) as block:
            s = T.alloc_shared((32, 64), F32)
            T.clear(s)
            first = block * 32
            last = block * 32 + {"in front": -3, "at first": 0, "behind": 5}[end]
            T.copy(X[first:last, :], s[0 : last - first, :])
            T.copy(s, Y[first, 0])

    x, want = RNG.integers(1, 9, (64, 64)).astype(np.float32), np.zeros((64, 64), np.float32)
    if end == "behind":
        want[:5], want[32:37] = x[:5], x[32:37]
    got = strict.run(tilelang.compile(kernel), {"X": x, "Y": np.full((64, 64), np.nan, np.float32)})["Y"]
    np.testing.assert_array_equal(got, want)


def test_slices_between_the_ends_of_a_long_chain_of_names():
    @T.prim_func
    def kernel(X: T.Tensor((64, 64), F32), Y: T.Tensor((64, 64), F32)):
        with T.Kernel(2) as block:
            s = T.alloc_shared((32, 64), F32)
            T.clear(s)
            behind = block + 5
            n1 = behind - block
            n2 = n1 + 1
            n3 = n2 + 1
            n4 = n3 + 1
            n5 = n4 + 1
            n6 = n5 + 1
            n7 = n6 + 1
            n8 = n7 + 1
            n9 = n8 + 1
            T.copy(X[n1:n9, :], s[0 : n9 - n1, :])
            T.copy(s, Y[block * 32, 0])

    x, want = RNG.integers(1, 9, (64, 64)).astype(np.float32), np.zeros((64, 64), np.float32)
    want[:8] = want[32:40] = x[5:13]
    got = strict.run(tilelang.compile(kernel), {"X": x, "Y": np.full((64, 64), np.nan, np.float32)})["Y"]
    np.testing.assert_array_equal(got, want)


M, N, K, BM, BN, BK = 96, 128, 64, 32, 32, 32


def product(order: str, blocks=5, chip="a2"):
    """C = A @ B by tiles that blocks work through in some order."""
    rows, columns = M // BM, N // BN
    total = rows * columns

    @T.prim_func
    def kernel(A: T.Tensor((M, K), F16), B: T.Tensor((K, N), F16), C: T.Tensor((M, N), F32)):
        with T.Kernel(blocks, threads=128) as block:
            a, b, c = T.alloc_shared((BM, BK), F16), T.alloc_shared((BK, BN), F16), T.alloc_fragment((BM, BN), F32)
            if order == "primitive":
                for i, j in T.Persistent([rows, columns], blocks, block):
                    T.clear(c)
                    for k in T.Pipelined(K // BK, num_stages=2):
                        T.copy(A[i * BM, k * BK], a)
                        T.copy(B[k * BK, j * BN], b)
                        T.gemm(a, b, c)
                    T.copy(c, C[i * BM, j * BN])
            else:
                for w in T.serial(T.ceildiv(total, blocks)):
                    tile = blocks * w + block
                    if order == "rows":
                        i, j = tile // columns, tile % columns
                    elif order == "columns":
                        i, j = tile % rows, tile // rows
                    elif order == "groups":
                        i, j = tile // 2 % rows, tile % 2 + tile // 2 // rows * 2
                    elif order == "backwards":
                        i, j = (total - 1 - tile) // columns, (total - 1 - tile) % columns
                    elif order == "waves":
                        i, j = w, block
                    elif order in ("twice", "left"):
                        i, j = tile // columns, tile % columns // 2 * 2
                    elif order == "shuffled":
                        i, j = (tile * 5 % total) // columns, (tile * 5 % total) % columns
                    if order == "left":
                        if tile >= total:
                            T.loop_break()
                    if i < rows and j < columns and i >= 0 and tile < total:
                        T.clear(c)
                        for k in T.Pipelined(K // BK, num_stages=2):
                            T.copy(A[i * BM, k * BK], a)
                            T.copy(B[k * BK, j * BN], b)
                            T.gemm(a, b, c)
                        T.copy(c, C[i * BM, j * BN])

    return tilelang.compile(kernel, target=chip)


@pytest.mark.parametrize("chip", ["a2", "a5"])
@pytest.mark.parametrize("order", ["primitive", "rows", "columns", "groups", "shuffled"])
def test_independent_tiles_are_blocks(order, chip):
    compiled = product(order, chip=chip)
    assert freed(compiled)
    a, b = RNG.standard_normal((M, K)).astype(np.float16), RNG.standard_normal((K, N)).astype(np.float16)
    got = strict.run(compiled, {"A": a, "B": b, "C": np.full((M, N), np.nan, np.float32)})["C"]
    np.testing.assert_allclose(got, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("blocks", [1, 2, 3, 4, 12])
def test_numbers_of_blocks(blocks):
    """Also such as leave nothing out, and more than there are rows."""
    compiled = product("rows", blocks)
    assert freed(compiled) == (blocks < 12)
    a, b = RNG.standard_normal((M, K)).astype(np.float16), RNG.standard_normal((K, N)).astype(np.float16)
    got = strict.run(compiled, {"A": a, "B": b, "C": np.full((M, N), np.nan, np.float32)}, text=False)["C"]
    np.testing.assert_allclose(got, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-4, atol=1e-4)


def test_groups_have_two_axes():
    lowered = pipeline.lower(product("groups").artifact.tile_ir, get_chip("a2"), keep_stages=True)
    grid = Grid.of(next(ir for name, ir in lowered.stages if name == "free_tiles").body)
    assert sorted(grid.extents) == [M // BM, N // BN]


def test_a_block_ends_with_the_first_tile_it_leaves_out():
    """Others go on, with tiles of higher numbers."""

    @T.prim_func
    def kernel(X: T.Tensor((8, 64), F32), Y: T.Tensor((8, 64), F32)):
        with T.Kernel(2, threads=128) as block:
            x = T.alloc_fragment((64,), F32)
            for w in T.serial(4):
                tile = 2 * w + block
                if tile % 4 == 3:
                    T.loop_break()
                T.copy(X[tile, 0], x)
                T.copy(x, Y[tile, 0])

    compiled, x = tilelang.compile(kernel), RNG.standard_normal((8, 64)).astype(np.float32)
    assert not freed(compiled)
    got = strict.run(compiled, {"X": x, "Y": np.zeros((8, 64), np.float32)})["Y"]
    there = np.array([1, 1, 1, 0, 1, 0, 1, 0], bool)
    np.testing.assert_array_equal(got, np.where(there[:, None], x, 0))


def sums(kind: str):
    """Tiles that need each other: by what is left on chip, in a variable or in GM, or by where they store."""

    @T.prim_func
    def kernel(X: T.Tensor((8, 64), F32), Y: T.Tensor((8, 64), F32)):
        with T.Kernel(2, threads=128) as block:
            x, s = T.alloc_fragment((64,), F32), T.alloc_fragment((64,), F32)
            n = T.alloc_var("int32")
            if kind == "in front":
                T.clear(s)
            for w in T.serial(4):
                tile = 2 * w + block
                T.copy(X[tile, 0], x)
                if kind == "counted":
                    n = T.if_then_else(w == 0, 1, n + 1)
                if kind in ("in front", "on chip"):
                    if kind == "on chip":
                        if w == 0:
                            T.clear(s)
                    for i in T.Parallel(64):
                        s[i] = s[i] + x[i]
                    T.copy(s, Y[tile, 0])
                elif kind == "counted":
                    for i in T.Parallel(64):
                        x[i] = x[i] * T.cast(n, F32)
                    T.copy(x, Y[tile, 0])
                elif kind == "in GM":
                    if w > 0:
                        T.copy(Y[tile - 2, 0], s)
                        for i in T.Parallel(64):
                            x[i] = x[i] + s[i]
                    T.copy(x, Y[tile, 0])
                elif kind == "same place":
                    T.copy(x, Y[block, 0])
                elif kind == "overlapping":
                    T.copy(x[0:48], Y[block, w * 4 : w * 4 + 48])

    return tilelang.compile(kernel)


@pytest.mark.parametrize("kind", ["in front", "on chip", "counted", "in GM", "same place", "overlapping"])
def test_tiles_that_need_each_other_stay_in_order(kind):
    compiled, x = sums(kind), RNG.integers(0, 9, (8, 64)).astype(np.float32)
    assert not freed(compiled)
    want = np.zeros((8, 64), np.float32)
    for block in range(2):
        for w in range(4):
            tile = 2 * w + block
            if kind in ("in front", "on chip", "in GM"):
                want[tile] = x[tile] + (want[tile - 2] if w else 0)
            elif kind == "counted":
                want[tile] = x[tile] * (w + 1)
            elif kind == "same place":
                want[block] = x[tile]
            else:
                want[block, w * 4 : w * 4 + 48] = x[tile, :48]
    got = strict.run(compiled, {"X": x, "Y": np.zeros((8, 64), np.float32)})["Y"]
    np.testing.assert_array_equal(got, want)


def test_names_in_front_of_the_condition():
    """They keep nobody from seeing which tiles there are."""

    @T.prim_func
    def kernel(X: T.Tensor((7, 64), F32), Y: T.Tensor((7, 64), F32)):
        with T.Kernel(3, threads=128) as block:
            x, low = T.alloc_fragment((64,), F32), T.alloc_var(F32)
            for w in T.serial(3):
                tile = 3 * w + block
                low = -0.25
                if tile < 7:
                    T.copy(X[tile, 0], x)
                    for i in T.Parallel(64):
                        x[i] = T.max(x[i], low)
                    T.copy(x, Y[tile, 0])

    compiled, x = tilelang.compile(kernel), RNG.standard_normal((7, 64)).astype(np.float32)
    assert any(note.startswith("the 7 tiles") for note in compiled.artifact.notes)
    got = strict.run(compiled, {"X": x, "Y": np.zeros((7, 64), np.float32)})["Y"]
    np.testing.assert_array_equal(got, np.maximum(x, np.float32(-0.25)))


def stopped(kind: str):
    """Y = X by tiles, until a condition ends the work of a block."""

    @T.prim_func
    def kernel(X: T.Tensor((12, 64), F32), Y: T.Tensor((12, 64), F32), n: T.int32):
        with T.Kernel(2, threads=128) as block:
            x = T.alloc_fragment((64,), F32)
            for w in T.serial(8):
                tile = 2 * w + block
                if kind == "one block":
                    if tile == 5:
                        T.loop_break()
                elif kind == "each third":
                    if tile % 3 == 2:
                        T.loop_break()
                elif kind == "tiles of both":
                    if tile == 9 or tile == 10:
                        T.loop_break()
                elif kind == "number of tiles":
                    if tile >= n:
                        T.loop_break()
                T.copy(X[tile, 0], x)
                T.copy(x, Y[tile, 0])

    return tilelang.compile(kernel)


@pytest.mark.parametrize("kind, free", [("one block", False), ("each third", False), ("tiles of both", True), ("number of tiles", False)])
def test_a_block_that_stops_leaves_the_others_at_work(kind, free):
    """Also where only run time tells when it does."""
    compiled, x, n = stopped(kind), RNG.integers(1, 9, (12, 64)).astype(np.float32), 7
    assert freed(compiled) == free
    want = np.zeros((12, 64), np.float32)
    for block in range(2):
        for tile in range(block, 12, 2):
            if {"one block": tile == 5, "each third": tile % 3 == 2, "tiles of both": tile in (9, 10), "number of tiles": tile >= n}[kind]:
                break
            want[tile] = x[tile]
    got = strict.run(compiled, {"X": x, "Y": np.zeros((12, 64), np.float32)}, {"n": n})["Y"]
    np.testing.assert_array_equal(got, want)


def test_tiles_that_are_stored_to_rows_a_hash_chooses():
    """Its numbers are beyond those of an int32, and wrap."""
    count, factor, summand, rows = 12, 1103515245, 12345, 29

    @T.prim_func
    def kernel(X: T.Tensor((count, 64), F32), Y: T.Tensor((rows, 64), F32)):
        with T.Kernel(2) as block:
            x = T.alloc_fragment((64,), F32)
            for w in T.serial(count // 2):
                tile = 2 * w + block
                T.copy(X[tile, 0], x)
                T.copy(x, Y[(tile * factor + summand) % rows, 0])

    x, want = RNG.integers(1, 9, (count, 64)).astype(np.float32), np.zeros((rows, 64), np.float32)
    chosen = np.array([n * factor + summand for n in range(count)]).astype(np.int32) % rows
    assert len(set(chosen.tolist())) == count
    want[chosen] = x
    got = strict.run(tilelang.compile(kernel), {"X": x, "Y": np.zeros((rows, 64), np.float32)})["Y"]
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("kept_sum", [False, True])
def test_loops_of_run_time(kept_sum):
    """What a loop fills in each of its iterations nobody finds, however many it has; what one that has none leaves alone, the next tile does."""

    @T.prim_func
    def kernel(X: T.Tensor((6, 4, 64), F32), n: T.Tensor((6,), "int32"), Y: T.Tensor((6, 64), F32)):
        with T.Kernel(2, threads=128) as block:
            x, twice, s = T.alloc_fragment((64,), F32), T.alloc_fragment((64,), F32), T.alloc_fragment((64,), F32)
            for w in T.serial(3):
                tile = 2 * w + block
                if not kept_sum:
                    T.clear(s)
                for k in T.serial(n[tile]):
                    T.copy(X[tile, k, 0], x)
                    for i in T.Parallel(64):
                        twice[i] = x[i] * 2.0
                    if kept_sum:
                        if k == 0:
                            T.clear(s)
                    for i in T.Parallel(64):
                        s[i] = s[i] + twice[i]
                T.copy(s, Y[tile, 0])

    compiled, x = tilelang.compile(kernel), RNG.integers(0, 9, (6, 4, 64)).astype(np.float32)
    assert freed(compiled) == (not kept_sum)
    n = np.array([4, 2, 0 if not kept_sum else 1, 1, 3, 0 if not kept_sum else 2], np.int32)
    got = strict.run(compiled, {"X": x, "n": n, "Y": np.zeros((6, 64), np.float32)})["Y"]
    np.testing.assert_array_equal(got, [2 * x[t, : n[t]].sum(0) for t in range(6)])
