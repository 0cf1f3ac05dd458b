"""Elements of a tensor that are close to each other, as numbers of one head in rows of all heads, are loaded with what lies between them."""

from __future__ import annotations

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T


def of_one_head(seq, heads, rows, dtype, shift=0, more=1):
    """Y[h, s] = X[s, h] * 2, a tile of rows of one head in each block; from row `shift` on. more: as many columns."""

    @T.prim_func
    def kernel(X: T.Tensor((seq, heads), dtype), Y: T.Tensor((heads, seq), dtype)):
        with T.Kernel(T.ceildiv(seq - shift, rows), heads // more, threads=128) as (bx, h):
            x = T.alloc_fragment((rows, more), dtype) if more > 1 else T.alloc_fragment((rows,), dtype)
            if more > 1:
                T.copy(X[bx * rows + shift, h * more], x)
                for j in T.serial(more):
                    for i in T.Parallel(rows):
                        if bx * rows + shift + i < seq:
                            Y[h * more + j, bx * rows + shift + i] = x[i, j] + x[i, j]
            else:
                T.copy(X[bx * rows + shift : (bx + 1) * rows + shift, h], x)
                for i in T.Parallel(rows):
                    x[i] = x[i] + x[i]
                T.copy(x, Y[h, bx * rows + shift : (bx + 1) * rows + shift])

    return kernel


def numbers(seq, heads, dtype):
    return np.random.default_rng(seq).integers(-50, 50, (seq, heads)).astype(dtype)


def transfers(kernel) -> list[str]:
    """The loads of a text."""
    return [line for line in kernel.get_kernel_source().splitlines() if "DataCopyPad(" in line and "PadExtParams" in line]


def together(kernel) -> bool:
    """True if each of the first loads is one piece."""
    return "DataCopyExtParams{1, " in transfers(kernel)[0]


@pytest.mark.one_in(6)
@pytest.mark.parametrize("target", ["a2", "a3", "a5"])
@pytest.mark.parametrize("dtype, heads", [("float32", 8), ("float32", 48), ("float16", 48), ("int32", 16), ("int8", 32), ("int64", 4)])
def test_values(target, dtype, heads):
    seq, rows = 192, 64
    x = numbers(seq, heads, dtype)
    kernel = tilelang.compile(of_one_head(seq, heads, rows, dtype), target=target)
    assert together(kernel) == (target != "a5")  # Where the ends of rows take no time.
    out = strict.run(kernel, {"X": x, "Y": np.zeros((heads, seq), dtype)})
    np.testing.assert_array_equal(out["Y"], (x + x).T)


@pytest.mark.parametrize("heads, dtype, why", [(6, "float32", "not whole blocks"), (80, "float32", "far apart")])
def test_elements_that_come_one_by_one(heads, dtype, why):
    seq, rows = 128, 64
    x = numbers(seq, heads, dtype)
    kernel = tilelang.compile(of_one_head(seq, heads, rows, dtype))
    assert not together(kernel)
    out = strict.run(kernel, {"X": x, "Y": np.zeros((heads, seq), dtype)})
    np.testing.assert_array_equal(out["Y"], (x + x).T)


@pytest.mark.parametrize("seq, shift", [(100, 0), (129, 1), (64, 0), (63, 0)])
def test_tiles_that_end_outside(seq, shift):
    """Rows behind the last one are zero, and nothing behind the tensor is read."""
    x = numbers(seq, 16, "float32")
    kernel = tilelang.compile(of_one_head(seq, 16, 64, "float32", shift))
    out = strict.run(kernel, {"X": x, "Y": np.zeros((16, seq), "float32")})
    np.testing.assert_array_equal(out["Y"][:, shift:], (x + x).T[:, shift:])


@pytest.mark.parametrize("rows", [200, 1000, 1024])
def test_tiles_of_many_rows(rows):
    """Loaded in several pieces, the last of which may begin inside of the one before."""
    x = numbers(2 * rows, 64, "float32")
    kernel = tilelang.compile(of_one_head(2 * rows, 64, rows, "float32"))
    out = strict.run(kernel, {"X": x, "Y": np.zeros((64, 2 * rows), "float32")})
    np.testing.assert_array_equal(out["Y"], (x + x).T)


def in_place(seq, heads, rows):
    @T.prim_func
    def kernel(X: T.Tensor((seq, heads), "float32")):
        with T.Kernel(seq // rows, heads, threads=128) as (bx, h):
            x = T.alloc_fragment((rows,), "float32")
            T.copy(X[bx * rows : (bx + 1) * rows, h], x)
            for i in T.Parallel(rows):
                x[i] = x[i] + x[i]
            T.copy(x, X[bx * rows : (bx + 1) * rows, h])

    return kernel


def test_what_other_blocks_write_is_not_read():
    """They do so at the same time."""
    x = numbers(128, 16, "float32")
    kernel = tilelang.compile(in_place(128, 16, 64))
    assert not together(kernel)
    out = strict.run(kernel, {"X": x})
    np.testing.assert_array_equal(out["X"], x + x)


def beside_large_tiles(seq, heads, rows, wide):
    """UB has no room for more than it needs."""

    @T.prim_func
    def kernel(A: T.Tensor((seq, wide), "float32"), X: T.Tensor((seq, heads), "float32"), Y: T.Tensor((heads, seq, wide), "float32")):
        with T.Kernel(seq // rows, heads, threads=128) as (bx, h):
            a, x = T.alloc_fragment((rows, wide), "float32"), T.alloc_fragment((rows,), "float32")
            T.copy(A[bx * rows, 0], a)
            T.copy(X[bx * rows : (bx + 1) * rows, h], x)
            for i, j in T.Parallel(rows, wide):
                a[i, j] = a[i, j] * x[i]
            T.copy(a, Y[h, bx * rows, 0])

    return kernel


def test_nothing_is_divided_for_that():
    seq, heads, rows, wide = 128, 64, 64, 688
    rng = np.random.default_rng(0)
    a, x = rng.integers(-8, 8, (seq, wide)).astype("float32"), numbers(seq, heads, "float32")
    kernel = tilelang.compile(beside_large_tiles(seq, heads, rows, wide), pass_configs={"tl.coarsen_blocks": False})
    assert not any("parts" in note for note in kernel.artifact.notes)
    assert not any("DataCopyExtParams{1, 16132," in line for line in transfers(kernel))
    out = strict.run(kernel, {"A": a, "X": x, "Y": np.zeros((heads, seq, wide), "float32")})
    np.testing.assert_array_equal(out["Y"], a[None] * x.T[:, :, None])


def test_every_flag_is_needed():
    x = numbers(256, 48, "float32")
    kernel = tilelang.compile(of_one_head(256, 48, 64, "float32"))
    arrays = {"X": x, "Y": np.zeros((48, 256), "float32")}
    out = strict.run(kernel, arrays)
    np.testing.assert_array_equal(out["Y"], (x + x).T)
    assert not strict.surviving_mutants(kernel, arrays)


def beside_narrow_tiles(seq, heads, rows, wide):
    """Rows of tiles are padded to as many elements as narrower tiles need."""

    @T.prim_func
    def kernel(A: T.Tensor((seq, wide), "float16"), X: T.Tensor((seq, heads), "float32"), Y: T.Tensor((heads, seq, wide), "float16")):
        with T.Kernel(seq // rows, heads, threads=128) as (bx, h):
            a, x = T.alloc_fragment((rows, wide), "float16"), T.alloc_fragment((rows,), "float32")
            T.copy(A[bx * rows, 0], a)
            T.copy(X[bx * rows : (bx + 1) * rows, h], x)
            for i, j in T.Parallel(rows, wide):
                a[i, j] = a[i, j] * (x[i] - x[rows - 1])
            T.copy(a, Y[h, bx * rows, 0])

    return kernel


@pytest.mark.one_in(3)
@pytest.mark.parametrize("heads", [8, 16, 24, 32, 56, 64])
def test_rows_that_are_padded(heads):
    seq, rows, wide = 64, 32, 48
    rng = np.random.default_rng(0)
    a, x = rng.integers(-8, 8, (seq, wide)).astype("float16"), numbers(seq, heads, "float32")
    kernel = tilelang.compile(beside_narrow_tiles(seq, heads, rows, wide), pass_configs={"tl.coarsen_blocks": False})
    out = strict.run(kernel, {"A": a, "X": x, "Y": np.zeros((heads, seq, wide), "float16")})
    moved = x - x.reshape(seq // rows, rows, heads)[:, -1:, :].repeat(rows, 1).reshape(seq, heads)
    np.testing.assert_array_equal(out["Y"], a[None] * moved.T[:, :, None])
