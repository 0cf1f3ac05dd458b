"""Products of dtypes the cube core does not multiply, and of two different ones: exact, since what operands become holds all their numbers."""

import numpy as np
import pytest
import strict
from dtype_cases import numpy_dtype

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.errors import DtypeMismatch

RNG = np.random.default_rng(0)
E4M3, E5M2 = "float8_e4m3fn", "float8_e5m2"
PAIRS = [
    (E4M3, E4M3, "float32"), (E5M2, E5M2, "float32"), (E4M3, E5M2, "float32"), (E4M3, "float16", "float32"), ("float16", "int8", "float32"),
    ("int8", "bfloat16", "float32"), ("int8", "int8", "float32"), ("uint8", "float16", "float32"), ("uint8", "int8", "int32"),
    ("int8", "uint8", "int32"), ("float16", "float32", "float32"), ("bfloat16", "float16", "float32"),
]  # fmt: skip


def matmul(a_dtype, b_dtype, accumulate, turned):
    """C = A B of 48 x 64 by 64 x 32, in two steps."""
    m, n, k, step = 48, 32, 64, 32

    @T.prim_func
    def kernel(
        A: T.Tensor((k, m) if turned else (m, k), a_dtype),
        B: T.Tensor((n, k) if turned else (k, n), b_dtype),
        C: T.Tensor((m, n), accumulate),
    ):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((step, m) if turned else (m, step), a_dtype), T.alloc_shared((n, step) if turned else (step, n), b_dtype)
            c = T.alloc_fragment((m, n), accumulate)
            T.clear(c)
            for i in T.Pipelined(k // step, num_stages=2):
                if turned:
                    T.copy(A[i * step, 0], a)
                    T.copy(B[0, i * step], b)
                else:
                    T.copy(A[0, i * step], a)
                    T.copy(B[i * step, 0], b)
                T.gemm(a, b, c, transpose_A=turned, transpose_B=turned)
            T.copy(c, C)

    return kernel


def numbers(shape, dtype):
    to = numpy_dtype(dtype)
    if "int" in dtype:
        info = np.iinfo(to)
        return RNG.integers(info.min, info.max + 1, shape).astype(to)
    return RNG.integers(-14, 15, shape).astype(np.float32).astype(to)


@pytest.mark.parametrize("turned", [False, True], ids=["", "transposed"])
@pytest.mark.parametrize("a_dtype, b_dtype, accumulate", PAIRS)
@pytest.mark.one_in(9)
def test_values(a_dtype, b_dtype, accumulate, turned):
    a, b = numbers((48, 64), a_dtype), numbers((64, 32), b_dtype)
    compiled = tilelang.compile(matmul(a_dtype, b_dtype, accumulate, turned))
    given = [np.ascontiguousarray(x.T if turned else x) for x in (a, b)]
    out = strict.run(compiled, {"A": given[0], "B": given[1], "C": np.zeros((48, 32), accumulate)}, text=not turned)["C"]
    np.testing.assert_array_equal(out, a.astype(np.float64) @ b.astype(np.float64))


@pytest.mark.parametrize("chip", ["a3", "a5"])
@pytest.mark.parametrize("a_dtype, b_dtype", [(E4M3, E4M3), (E4M3, E5M2), ("float16", "int8")])
def test_other_chips(a_dtype, b_dtype, chip):
    a, b = numbers((48, 64), a_dtype), numbers((64, 32), b_dtype)
    compiled = tilelang.compile(matmul(a_dtype, b_dtype, "float32", False), target=chip)
    out = strict.run(compiled, {"A": a, "B": b, "C": np.zeros((48, 32), np.float32)}, text=False)["C"]
    np.testing.assert_array_equal(out, a.astype(np.float64) @ b.astype(np.float64))


def test_float8_is_infinite_and_not_a_number():
    a, b = np.eye(48, 64, dtype=np.float32), numbers((64, 32), "float16").astype(np.float32)
    b[3, 5], b[7, 6] = np.inf, np.nan
    a, b = a.astype(numpy_dtype(E5M2)), b.astype(numpy_dtype(E5M2))
    compiled = tilelang.compile(matmul(E5M2, E5M2, "float32", False))
    out = strict.run(compiled, {"A": a, "B": b, "C": np.zeros((48, 32), np.float32)}, text=False)["C"]
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(out, a.astype(np.float64) @ b.astype(np.float64))


def test_what_no_float_holds_is_refused():
    with pytest.raises(DtypeMismatch, match="A is int32, B is float16"):
        matmul("int32", "float16", "float32", False)


def test_float8_with_scales_for_blocks():
    """The accumulator of every step is scaled by its row of A and its block of B before it is added."""
    m, n, k, block = 32, 64, 256, 64

    @T.prim_func
    def kernel(A: T.Tensor((m, k), E4M3), B: T.Tensor((n, k), E4M3), RowScale: T.Tensor((m, k // block), "float32"),
               BlockScale: T.Tensor((n // 32, k // block), "float32"), C: T.Tensor((m, n), "float32")):  # fmt: skip
        with T.Kernel(n // 32, threads=128) as bx:
            a, b, scale = T.alloc_shared((m, block), E4M3), T.alloc_shared((32, block), E4M3), T.alloc_shared((m,), "float32")
            c, total = T.alloc_fragment((m, 32), "float32"), T.alloc_fragment((m, 32), "float32")
            T.clear(c)
            T.clear(total)
            for step in T.Pipelined(k // block, num_stages=2):
                T.copy(A[0, step * block], a)
                T.copy(B[bx * 32, step * block], b)
                of_block = BlockScale[bx, step]
                for i in T.Parallel(m):
                    scale[i] = RowScale[i, step] * of_block
                T.gemm(a, b, c, transpose_B=True)
                for i, j in T.Parallel(m, 32):
                    total[i, j] += c[i, j] * scale[i]
                T.clear(c)
            T.copy(total, C[0, bx * 32])

    a, b = numbers((m, k), E4M3), numbers((n, k), E4M3)
    rows, blocks = RNG.random((m, k // block)).astype(np.float32), RNG.random((n // 32, k // block)).astype(np.float32)
    arrays = {"A": a, "B": b, "RowScale": rows, "BlockScale": blocks, "C": np.zeros((m, n), np.float32)}
    out = strict.run(tilelang.compile(kernel), arrays, text=False)["C"]
    wide = np.repeat(rows, block, 1) * a.astype(np.float64)
    np.testing.assert_allclose(out, wide @ (b.astype(np.float64) * np.repeat(np.repeat(blocks, 32, 0), block, 1)).T, rtol=1e-5, atol=1e-3)
