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


def test_what_lies_right_already_stays():
    """Transposed operands are read along columns of fractals, and a tile of two steps of K has no whole rows of A in either."""
    text = text_of(matmul(128, 128, 512, (128, 128, 64), transposed=(True, True)))
    assert "Nd2NzParams{1, " in text and "Nd2NzParams{4, " not in text and "Nd2NzParams{8, " not in text
    text = text_of(matmul(128, 128, 1024, (128, 128, 256)))
    assert "Nd2NzParams{1, 128, 256, " in text and "Nd2NzParams{16, 16, 128, " in text
