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
