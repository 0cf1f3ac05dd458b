"""Operands that lie in L1 by rows of fractals: one load brings a step of K to L0."""

import re

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.arch import get_chip

RNG = np.random.default_rng(0)


def matmul(M, N, K, tile, dtype="float16", transposed=(False, False)):
    m, n, k = tile

    @T.prim_func
    def kernel(
        A: T.Tensor((K, M) if transposed[0] else (M, K), dtype),
        B: T.Tensor((N, K) if transposed[1] else (K, N), dtype),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, n), T.ceildiv(M, m), threads=128) as (bx, by):
            a = T.alloc_shared((k, m) if transposed[0] else (m, k), dtype)
            b = T.alloc_shared((n, k) if transposed[1] else (k, n), dtype)
            c = T.alloc_fragment((m, n), "float32")
            T.clear(c)
            for i in T.Pipelined(T.ceildiv(K, k), num_stages=2):
                if transposed[0]:
                    T.copy(A[i * k, by * m], a)
                else:
                    T.copy(A[by * m, i * k], a)
                if transposed[1]:
                    T.copy(B[bx * n, i * k], b)
                else:
                    T.copy(B[i * k, bx * n], b)
                T.gemm(a, b, c, transpose_A=transposed[0], transpose_B=transposed[1])
            T.copy(c, C[by * m, bx * n])

    return kernel


def text_of(kernel) -> str:
    return tilelang.compile(kernel, pass_configs={"tl.coarsen_blocks": False, "tl.keep_operands": False}).get_kernel_source()


@pytest.mark.parametrize(
    "size, tile",
    [
        ((64, 96, 128), (32, 48, 64)),
        ((40, 75, 100), (32, 48, 64)),  # Rows, columns and K end inside of a tile.
        ((32, 4096, 64), (32, 128, 64)),  # 16 rows of B are farther apart than a transfer of 16-bit elements says.
        ((32, 8192, 64), (32, 128, 64)),  # Farther than any says: B stays in columns.
    ],
)
def test_values(size, tile):
    M, N, K = size
    kernel = matmul(M, N, K, tile)
    a, b = RNG.integers(-3, 4, (M, K)).astype("float16"), RNG.integers(-3, 4, (K, N)).astype("float16")
    (out, *_) = strict.once(kernel, get_chip("a2"), {"A": a, "B": b, "C": np.zeros((M, N), "float32")})
    np.testing.assert_array_equal(out["C"], a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_one_load_and_one_transfer_for_each_operand(dtype):
    text = text_of(matmul(256, 256, 128, (128, 128, 128), dtype))
    assert text.count("LoadData(") == text.count("DataCopy(") == 2
    assert "for (int32_t i_l0" not in text
    assert len(re.findall(r"LoadData2DParams\{0, 64, 1, 0, 0, (?:true|false), 0\}", text)) == 2


def test_wide_pitches_move_pairs_of_elements():
    text = text_of(matmul(128, 4096, 128, (128, 128, 128)))
    assert re.search(r"B\[.*?\]\.ReinterpretCast<int32_t>\(\), AscendC::Nd2NzParams\{8, 16, 64, 32768, 2048, 16, 1, 1024\}", text)
    assert "A.ReinterpretCast" not in text and "a.ReinterpretCast" not in text
    assert "Nd2NzParams{1, 128, 128, 0, 8192, 128, 1, 1}" in text_of(matmul(128, 8192, 128, (128, 128, 128))), "B stays in columns"


def test_pairs_of_elements_begin_at_even_ones():
    """GM is read at multiples of what is moved as one: from column 1 on, elements of 16 bits are."""

    @T.prim_func
    def kernel(A: T.Tensor((32, 64), "float16"), B: T.Tensor((64, 6000), "float16"), C: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((32, 64), "float16"), T.alloc_shared((64, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.copy(A, a)
            T.copy(B[0, 1], b)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, C)

    assert "ReinterpretCast" not in text_of(kernel)
    a, b = RNG.integers(-3, 4, (32, 64)).astype("float16"), RNG.integers(-3, 4, (64, 6000)).astype("float16")
    out, _ = strict.once(kernel, "a2", {"A": a, "B": b, "C": np.zeros((32, 32), "float32")})
    np.testing.assert_array_equal(out["C"], a.astype(np.float32) @ b[:, 1:33].astype(np.float32))


def test_parts_of_a_tile_too_wide_for_the_transfer():
    """16 rows of the tile are farther apart than a parameter says, those of the parts that are loaded are not."""

    @T.prim_func
    def kernel(A: T.Tensor((2, 16, 2048), "float32"), B: T.Tensor((16, 32), "float32"), C: T.Tensor((64, 32), "float32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((16, 4096), "float32"), T.alloc_shared((16, 32), "float32")
            c = T.alloc_fragment((64, 32), "float32")
            T.copy(A[0, :, :], a[:, 0:2048])
            T.copy(A[1, :, :], a[:, 2048:4096])
            T.copy(B, b)
            T.gemm(a[:, 2016:2080], b, c, transpose_A=True, clear_accum=True)
            T.copy(c, C)

    a, b = RNG.integers(-3, 4, (2, 16, 2048)).astype("float32"), RNG.integers(-3, 4, (16, 32)).astype("float32")
    out, _ = strict.once(kernel, "a2", {"A": a, "B": b, "C": np.zeros((64, 32), "float32")})
    np.testing.assert_array_equal(out["C"], np.concatenate([a[0], a[1]], 1)[:, 2016:2080].T @ b)


def test_what_lies_right_already_stays():
    """Transposed operands are read along columns of fractals, and a tile of two steps of K has no whole rows of A in either."""
    text = text_of(matmul(128, 128, 512, (128, 128, 64), transposed=(True, True)))
    assert "Nd2NzParams{1, " in text and "Nd2NzParams{4, " not in text and "Nd2NzParams{8, " not in text
    text = text_of(matmul(128, 128, 1024, (128, 128, 256)))
    assert "Nd2NzParams{1, 128, 256, " in text and "Nd2NzParams{16, 16, 128, " in text


def rows_from_anywhere(height, rows):
    """`height` rows of X (`rows` x 64) from a place that is data, those outside of it zeros, times a matrix."""

    @T.prim_func
    def kernel(
        X: T.Tensor((rows, 64), "float16"),
        W: T.Tensor((64, 64), "float16"),
        P: T.Tensor((1,), "int32"),
        Y: T.Tensor((height, 64), "float32"),
    ):
        with T.Kernel(1):
            x, w = T.alloc_shared((height, 64), "float16"), T.alloc_shared((64, 64), "float16")
            y = T.alloc_fragment((height, 64), "float32")
            T.copy(X[P[0] : P[0] + height, :], x)
            T.copy(W, w)
            T.gemm(x, w, y, clear_accum=True)
            T.copy(y, Y)

    return kernel


def test_rows_outside_of_a_tensor_are_left_out_in_groups():
    """A transfer for each 16 rows, unless those in front of the tensor end in the middle of such a group."""
    height, rows = 64, 80
    compiled = tilelang.compile(rows_from_anywhere(height, rows))
    assert "for (int32_t row_block" in compiled.get_kernel_source()
    x, w = (RNG.integers(-3, 4, shape).astype("float16") for shape in ((rows, 64), (64, 64)))
    for start in (-100, -64, -63, -49, -48, -17, -16, -5, 0, 1, 16, 17, 31, 32, 48, 65, 79, 80, 200):
        shown = np.zeros((height, 64), np.float32)
        low, high = max(start, 0), min(start + height, rows)
        if low < high:
            shown[low - start : high - start] = x[low:high]
        out = strict.run(
            compiled, {"X": x, "W": w, "P": np.array([start], np.int32), "Y": np.zeros((height, 64), np.float32)}, text=start in (-17, 31)
        )
        np.testing.assert_array_equal(out["Y"], shown @ w.astype(np.float32), err_msg=str(start))
