"""Blocks of GPU size are worked on together where that is faster, and only where it means the same."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.arch import get_chip

RNG = np.random.default_rng(0)
M, N, K, TILE, STEP = 128, 160, 64, 16, 16


def matmul(epilogue=None, transposed=(False, False), accumulate="float32", swizzle=False, rows=M, tile=TILE):
    """C = A B of many small blocks; `epilogue(c, bx, by)` adds statements behind the loop."""
    a_shape, b_shape = ((K, rows) if transposed[0] else (rows, K)), ((N, K) if transposed[1] else (K, N))
    dtype = "int8" if accumulate == "int32" else "float16"

    @T.prim_func
    def kernel(A: T.Tensor(a_shape, dtype), B: T.Tensor(b_shape, dtype), C: T.Tensor((rows, N), accumulate)):
        with T.Kernel(T.ceildiv(N, tile), T.ceildiv(rows, tile), threads=128) as (bx, by):
            if swizzle:
                T.use_swizzle(10)
            a = T.alloc_shared((STEP, tile) if transposed[0] else (tile, STEP), dtype)
            b = T.alloc_shared((tile, STEP) if transposed[1] else (STEP, tile), dtype)
            c = T.alloc_fragment((tile, tile), accumulate)
            T.clear(c)
            for k in T.Pipelined(K // STEP, num_stages=2):
                if transposed[0]:
                    T.copy(A[k * STEP, by * tile], a)
                else:
                    T.copy(A[by * tile, k * STEP], a)
                if transposed[1]:
                    T.copy(B[bx * tile, k * STEP], b)
                else:
                    T.copy(B[k * STEP, bx * tile], b)
                T.gemm(a, b, c, transpose_A=transposed[0], transpose_B=transposed[1])
            if epilogue is not None:
                epilogue(c, bx, by)
            T.copy(c, C[by * tile, bx * tile])

    return kernel


def run(kernel, expected=None, coarse=True, rows=M, dtype="float16", transposed=(False, False)):
    compiled = tilelang.compile(kernel)
    assert any("worked on together" in note for note in compiled.artifact.notes) == coarse, compiled.artifact.notes
    a, b = RNG.integers(-3, 4, (rows, K)).astype(dtype), RNG.integers(-3, 4, (K, N)).astype(dtype)
    result = "int32" if dtype == "int8" else "float32"
    given = {"A": np.ascontiguousarray(a.T) if transposed[0] else a, "B": np.ascontiguousarray(b.T) if transposed[1] else b}
    out = strict.run(compiled, {**given, "C": np.zeros((rows, N), result)}, text=False)["C"]
    product = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_array_equal(out, product if expected is None else expected(product))


@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
def test_products(transposed):
    run(matmul(transposed=transposed), transposed=transposed)


@pytest.mark.parametrize("by_elements", [False, True])
def test_names_of_indices(by_elements):
    """What a name stands for depends on a block as it would without the name; a result that is stored element by element is stored."""

    @T.prim_func
    def kernel(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, TILE), T.ceildiv(M, TILE), threads=128) as (bx, by):
            a, b, c = (
                T.alloc_shared((TILE, STEP), "float16"),
                T.alloc_shared((STEP, TILE), "float16"),
                T.alloc_fragment((TILE, TILE), "float32"),
            )
            row = by * TILE
            first = row + 0
            column = bx * TILE
            T.clear(c)
            for k in T.Pipelined(K // STEP, num_stages=2):
                at = k * STEP
                T.copy(A[first, at], a)
                T.copy(B[at, column], b)
                T.gemm(a, b, c)
            if by_elements:
                for i, j in T.Parallel(TILE, TILE):
                    C[first + i, column + j] = c[i, j]
            else:
                T.copy(c, C[row, column])

    run(kernel)


def test_integers():
    run(matmul(accumulate="int32", tile=32, rows=512), dtype="int8", rows=512)


def test_swizzled():
    run(matmul(swizzle=True))


def test_rows_that_end_inside_a_block():
    run(matmul(rows=121), rows=121)


def test_an_epilogue_that_knows_its_columns():
    def epilogue(c, bx, by):
        for i, j in T.Parallel(TILE, TILE):
            c[i, j] = c[i, j] * 2.0 + T.cast((bx * TILE + j) * 3 - (by * TILE + i), "float32")

    i, j = np.indices((M, N))
    run(matmul(epilogue), lambda p: p * 2 + j * 3 - i)


def per_block(c, bx, by):
    for i, j in T.Parallel(TILE, TILE):
        c[i, j] = c[i, j] + T.cast(bx * 100 + by, "float32")


def in_some_blocks(c, bx, by):
    if (bx + by) % 3 == 0:
        for i, j in T.Parallel(TILE, TILE):
            c[i, j] = 7.0


def within_the_block(c, bx, by):
    for i, j in T.Parallel(TILE, TILE):
        c[i, j] = T.if_then_else(i > j, c[i, j], 0.0)


def largest_of_the_block(c, bx, by):
    most = T.alloc_fragment((TILE,), "float32")
    T.reduce_max(c, most, dim=1)
    for i, j in T.Parallel(TILE, TILE):
        c[i, j] = c[i, j] - most[i]


def largest_of_all(c, bx, by):
    largest_of_the_block(c, bx, by)
    other = T.alloc_fragment((TILE,), "float32")
    T.reduce_max(c, other, dim=0)
    for i, j in T.Parallel(TILE, TILE):
        c[i, j] = c[i, j] - other[j]


def tiles(p, function):
    """`function(block, bx, by)` of every block of the product."""
    out = p.copy()
    for by in range(M // TILE):
        for bx in range(N // TILE):
            box = np.s_[by * TILE : by * TILE + TILE, bx * TILE : bx * TILE + TILE]
            out[box] = function(p[box], bx, by)
    return out


ONLY_BLOCKS = {
    "numbers of the block": (per_block, lambda p, bx, by: p + bx * 100 + by),
    "some blocks": (in_some_blocks, lambda p, bx, by: np.full_like(p, 7) if (bx + by) % 3 == 0 else p),
    "places in the block": (within_the_block, lambda p, bx, by: np.tril(p, -1)),
    "rows and columns of the block": (largest_of_all, lambda p, bx, by: (p - p.max(1)[:, None]) - (p - p.max(1)[:, None]).max(0)),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ONLY_BLOCKS)
def test_what_only_blocks_know_stays_in_blocks(name):
    epilogue, expected = ONLY_BLOCKS[name]
    run(matmul(epilogue), lambda p: tiles(p, expected), coarse=False)


def test_rows_of_a_block_leave_the_other_axis():
    run(matmul(largest_of_the_block), lambda p: tiles(p, lambda x, bx, by: x - x.max(1)[:, None]))


def test_it_can_be_switched_off():
    compiled = tilelang.compile(matmul(), pass_configs={"tl.coarsen_blocks": False})
    assert not any("worked on together" in note for note in compiled.artifact.notes)


def test_few_blocks_stay_apart():
    """There are cores for all of them."""
    chip = get_chip("a2")

    @T.prim_func
    def kernel(A: T.Tensor((512, 256), "float16"), B: T.Tensor((256, 512), "float16"), C: T.Tensor((512, 512), "float32")):
        with T.Kernel(4, 4, threads=128) as (bx, by):
            a, b, c = T.alloc_shared((128, 64), "float16"), T.alloc_shared((64, 128), "float16"), T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[by * 128, k * 64], a)
                T.copy(B[k * 64, bx * 128], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 128, bx * 128])

    assert 16 <= chip.num_aic
    assert tilelang.compile(kernel).artifact.steps[0].block_dim == 16


def test_rows_known_at_run_time_only():
    m = T.dynamic("m")

    @T.prim_func
    def kernel(A: T.Tensor((m, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((m, N), "float32")):
        with T.Kernel(N // TILE, T.ceildiv(m, TILE), threads=128) as (bx, by):
            a, b, c = (
                T.alloc_shared((TILE, STEP), "float16"),
                T.alloc_shared((STEP, TILE), "float16"),
                T.alloc_fragment((TILE, TILE), "float32"),
            )
            T.clear(c)
            for k in T.Pipelined(K // STEP, num_stages=2):
                T.copy(A[by * TILE, k * STEP], a)
                T.copy(B[k * STEP, bx * TILE], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * TILE, bx * TILE])

    compiled = tilelang.compile(kernel)
    assert any("worked on together" in note for note in compiled.artifact.notes)
    for rows in (1, 37):
        a, b = RNG.integers(-3, 4, (rows, K)).astype("float16"), RNG.integers(-3, 4, (K, N)).astype("float16")
        out = strict.run(compiled, {"A": a, "B": b, "C": np.zeros((rows, N), "float32")}, {"m": rows}, text=False)["C"]
        np.testing.assert_array_equal(out, a.astype(np.float64) @ b.astype(np.float64))
