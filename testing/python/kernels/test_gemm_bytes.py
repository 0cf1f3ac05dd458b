"""gemm of bytes: with A transposed, which no load of the cube core does, and of uint8, which it does not multiply."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend import interpret

RNG = np.random.default_rng(6)


def product(dtype, ta, tb, m, n, k, step):
    """K in steps, with edges; the tiles are parts of larger ones where that is possible."""
    a_tile, b_tile = (step, m) if ta else (m, step), (n, step) if tb else (step, n)

    @T.prim_func
    def main(A: T.Tensor((k, m) if ta else (m, k), dtype), B: T.Tensor((n, k) if tb else (k, n), dtype), C: T.Tensor((m, n), "int32")):
        with T.Kernel(1):
            a, b, c = T.alloc_shared(a_tile, dtype), T.alloc_shared(b_tile, dtype), T.alloc_fragment((m, n), "int32")
            T.clear(c)
            for s in T.Pipelined(T.ceildiv(k, step), num_stages=2):
                T.copy(A[s * step, 0] if ta else A[0, s * step], a)
                T.copy(B[0, s * step] if tb else B[s * step, 0], b)
                T.gemm(a, b, c, transpose_A=ta, transpose_B=tb)
            T.copy(c, C)

    return main


CASES = [
    ("int8", 1, 0, 32, 48, 100, 64),
    ("int8", 1, 1, 20, 33, 64, 32),
    ("uint8", 0, 0, 32, 32, 600, 320),
    ("uint8", 1, 0, 17, 32, 40, 32),
    ("uint8", 0, 1, 16, 24, 50, 32),
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_products_of_bytes(case):
    dtype, ta, tb, m, n, k, _ = case
    ends = np.iinfo(dtype)
    a, b = (RNG.integers(ends.min, ends.max + 1, s).astype(dtype) for s in ((m, k), (k, n)))
    a[0], b[:, 0] = ends.max, ends.max
    expected = a.astype(np.int32) @ b.astype(np.int32)
    given = {"A": a.T.copy() if ta else a, "B": b.T.copy() if tb else b, "C": np.zeros_like(expected)}
    main = product(*case)
    np.testing.assert_array_equal(strict.run(tilelang.compile(main), given)["C"], expected)
    interpret.run(main, given["A"], given["B"], given["C"])
    np.testing.assert_array_equal(given["C"], expected)


def test_an_operand_of_several_matrices():
    @T.prim_func
    def main(A: T.Tensor((2, 32, 16), "int8"), B: T.Tensor((32, 32), "int8"), C: T.Tensor((2, 16, 32), "int32")):
        with T.Kernel(1):
            a, b, c = T.alloc_shared((2, 32, 16), "int8"), T.alloc_shared((32, 32), "int8"), T.alloc_fragment((2, 16, 32), "int32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, transpose_A=True, clear_accum=True)
            T.copy(c, C)

    a, b = RNG.integers(-128, 128, (2, 32, 16)).astype(np.int8), RNG.integers(-128, 128, (32, 32)).astype(np.int8)
    expected = a.swapaxes(1, 2).astype(np.int32) @ b.astype(np.int32)
    np.testing.assert_array_equal(strict.run(tilelang.compile(main), {"A": a, "B": b, "C": np.zeros_like(expected)})["C"], expected)


@pytest.mark.parametrize("chip", ["a2", "a5"])
@pytest.mark.parametrize("dtype, clear", [("uint8", False), ("uint8", True), ("int8", None)])
@pytest.mark.one_in(2)
def test_unsigned_accumulators(dtype, clear, chip):
    """Sums of products modulo 2^32: with what is there, from zero, and from zero in the first of several steps."""
    n, k, steps = 48, 32, 3

    @T.prim_func
    def main(A: T.Tensor((n, steps * k), dtype), B: T.Tensor((steps * k, n), dtype), C: T.Tensor((n, n), "uint32")):
        with T.Kernel(1, threads=128):
            a, b, c = T.alloc_shared((n, k), dtype), T.alloc_shared((k, n), dtype), T.alloc_fragment((n, n), "uint32")
            T.fill(c, 2**32 - 5000)
            for s in T.Pipelined(steps, num_stages=2):
                T.copy(A[0, s * k], a)
                T.copy(B[s * k, 0], b)
                T.gemm(a, b, c, clear_accum=s == 0 if clear is None else clear)
            T.copy(c, C)

    info = np.iinfo(dtype)
    a, b = (RNG.integers(info.min, info.max, s, dtype=dtype, endpoint=True) for s in ((n, steps * k), (steps * k, n)))
    x, y = a.astype(np.int64), b.astype(np.int64)
    want = x[:, -k:] @ y[-k:] if clear else x @ y + (2**32 - 5000 if clear is False else 0)
    out = strict.run(tilelang.compile(main, target=chip), {"A": a, "B": b, "C": np.zeros((n, n), np.uint32)})["C"]
    np.testing.assert_array_equal(out, (want % 2**32).astype(np.uint32))
