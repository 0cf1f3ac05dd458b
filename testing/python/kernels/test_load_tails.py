"""Tiles that reach beyond the end of a tensor: what a load does not write of them is filled behind it."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend import ir


@tilelang.jit
def rows_and_columns(M, N, dtype, value=0, block_M=4, block_N=64, lead=0):
    """Tiles of A as one array of whole tiles; `lead` rows of a tile stay free in front of what is loaded."""
    rows, cols = -(-M // block_M), -(-N // block_N)

    @T.prim_func
    def main(A: T.Tensor((M, N), dtype), B: T.Tensor((rows * block_M, cols * block_N), dtype)):
        with T.Kernel(cols, rows, threads=128) as (bx, by):
            T.annotate_safe_value({A: value})
            tile = T.alloc_shared((block_M + lead, block_N), dtype)
            T.copy(A[by * block_M : (by + 1) * block_M, bx * block_N : (bx + 1) * block_N], tile[lead : lead + block_M, 0:block_N])
            T.copy(tile[lead : lead + block_M, 0:block_N], B[by * block_M, bx * block_N])

    return main


@pytest.mark.parametrize(
    "dtype, value, shape, lead",
    [
        ("float32", 0, (6, 64), 0),
        ("int8", 0, (6, 64), 1),
        ("int8", 0, (8, 75), 0),
        ("bool", 0, (8, 90), 0),
        ("float8_e4m3fn", 0, (8, 90), 0),
        ("int64", 0, (8, 67), 0),
        ("float32", 3, (5, 100), 2),
        ("float16", 0, (8, 97), 1),
        ("bfloat16", 0, (7, 70), 0),
        ("int8", 0, (5, 75), 0),
        ("int8", 5, (5, 75), 0),
        ("uint8", 0, (3, 33), 1),
        ("int32", -1, (7, 65), 0),
        ("int64", 0, (6, 67), 0),
        ("bool", 0, (5, 90), 0),
        ("float8_e4m3fn", 0, (5, 90), 0),
    ],
    ids=str,
)
@pytest.mark.one_in(6)
def test_two_dimensions(dtype, value, shape, lead):
    kernel = rows_and_columns(*shape, dtype, value, lead=lead)
    stored = np.dtype({"bfloat16": "uint16", "float8_e4m3fn": "uint8"}.get(dtype, dtype))
    a = np.random.default_rng(0).integers(1, 2 if dtype == "bool" else 9, shape).astype(stored)
    whole = np.full(tuple(-(-n // b) * b for n, b in zip(shape, (4, 64))), value, stored)
    whole[: shape[0], : shape[1]] = a
    got = strict.run(kernel, {"A": a, "B": np.zeros_like(whole)})
    np.testing.assert_array_equal(got["B"], whole)


@tilelang.jit
def windows(B, M, N, dtype="float32", block=(2, 3, 40)):
    """Three dimensions, of which the last two, or all, may end inside a tile."""
    b, m, n = block
    whole = (-(-B // b) * b, -(-M // m) * m, -(-N // n) * n)

    @T.prim_func
    def main(A: T.Tensor((B, M, N), dtype), C: T.Tensor(whole, dtype)):
        with T.Kernel(whole[2] // n, whole[1] // m, whole[0] // b, threads=128) as (bx, by, bz):
            tile = T.alloc_shared((b, m, n), dtype)
            T.copy(A[bz * b, by * m, bx * n], tile)
            T.copy(tile, C[bz * b, by * m, bx * n])

    return main


@pytest.mark.parametrize("shape", [(4, 5, 70), (3, 4, 33)], ids=str)
def test_three_dimensions(shape):
    a = np.random.default_rng(0).random(shape, np.float32)
    whole = np.zeros(tuple(-(-n // b) * b for n, b in zip(shape, (2, 3, 40))), np.float32)
    whole[tuple(slice(n) for n in shape)] = a
    got = strict.run(windows(*shape), {"A": a, "C": np.full_like(whole, 7)})
    np.testing.assert_array_equal(got["C"], whole)


@tilelang.jit
def counted(block=64):
    """One row of a length known at run time, beyond which zeros count."""
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), "float16"), B: T.Tensor((256,), "float16")):
        with T.Kernel(256 // block, threads=128) as bx:
            tile = T.alloc_shared((block,), "float16")
            T.copy(A[bx * block], tile)
            T.copy(tile, B[bx * block])

    return main


@pytest.mark.parametrize("n", [0, 1, 16, 63, 64, 65, 200, 256])
def test_any_length(n):
    a = np.random.default_rng(0).random(n).astype(np.float16)
    got = strict.run(counted(), {"A": a, "B": np.full(256, 7, np.float16)}, {"n": n}, text=n in (0, 65))
    np.testing.assert_array_equal(got["B"], np.concatenate([a, np.zeros(256 - n, np.float16)]))


def test_a_load_waits_for_nothing_but_its_tile():
    """No instruction of the vector pipe stands in front of a load of the end of a tensor."""
    (func,) = rows_and_columns(8, 100, "float32").artifact.ascend_ir.functions.values()
    names = [str(ir.op_name(s)) for s in ir.statements(func.body) if ir.op_name(s)]
    assert "ascend.duplicate" in names[names.index("ascend.copy_gm_to_ub") :]
    assert "ascend.duplicate" not in names[: names.index("ascend.copy_gm_to_ub")]
