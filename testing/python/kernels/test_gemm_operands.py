"""What may stand around a gemm: conversions, stores of operands, narrow accumulators, parts of tiles; and what is refused, how."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.errors import TilelangAscendError

RNG = np.random.default_rng(3)
N = 32


def small(dtype="float16", shape=(N, N)):
    return RNG.integers(-3, 4, shape).astype(dtype)


def kernel(body, a="float16", b="float16", c="float32", accum="float32", shape=(N, N), target="a2", shared=None):
    """A kernel whose `body(A, B, C, a, b, acc)` works on one tile of each."""

    @T.prim_func
    def k(A: T.Tensor(shape, a), B: T.Tensor((N, N), b), C: T.Tensor((N, N), c)):
        with T.Kernel(1):
            a_tile, b_tile = T.alloc_shared(shape, shared or a), T.alloc_shared((N, N), shared or b)
            acc = T.alloc_fragment((N, N), accum)
            T.copy(A, a_tile)
            T.copy(B, b_tile)
            body(A, B, C, a_tile, b_tile, acc)

    return tilelang.compile(k, target=target)


def plain(A, B, C, a, b, acc):
    T.gemm(a, b, acc, clear_accum=True)
    T.copy(acc, C)


def test_operands_are_converted_on_their_way():
    arrays = {"A": small("float32"), "B": small("float32"), "C": np.zeros((N, N), np.float32)}
    out = strict.run(kernel(plain, "float32", "float32", shared="float16"), arrays)["C"]
    np.testing.assert_array_equal(out, arrays["A"] @ arrays["B"])


def test_operands_can_be_stored():
    def body(A, B, C, a, b, acc):
        plain(A, B, C, a, b, acc)
        T.copy(a, B)

    arrays = {"A": small(), "B": small(), "C": np.zeros((N, N), np.float32)}
    out = strict.run(kernel(body), arrays)
    np.testing.assert_array_equal(out["C"], arrays["A"].astype(np.float32) @ arrays["B"].astype(np.float32))
    np.testing.assert_array_equal(out["B"], arrays["A"])


@pytest.mark.parametrize("epilogue", [False, True])
def test_a_float16_accumulator_sums_in_float32(epilogue):
    def body(A, B, C, a, b, acc):
        T.clear(acc)
        T.gemm(a, b, acc)
        if epilogue:
            for i, j in T.Parallel(N, N):
                acc[i, j] = acc[i, j] + 1.0
        T.copy(acc, C)

    arrays = {"A": small(), "B": small(), "C": np.zeros((N, N), np.float16)}
    out = strict.run(kernel(body, c="float16", accum="float16"), arrays)["C"]
    np.testing.assert_array_equal(out, arrays["A"].astype(np.float32) @ arrays["B"].astype(np.float32) + epilogue)


@pytest.mark.parametrize("row", [0, 5])
def test_parts_of_tiles(row):
    def body(A, B, C, a, b, acc):
        T.gemm(a[row : row + 16, 16:32], b[0:16, 16:32], acc[0:16, 16:32], clear_accum=True)
        T.copy(acc[0:16, 16:32], C[0:16, 0:16])

    arrays = {"A": small(), "B": small(), "C": np.zeros((N, N), np.float32)}
    want = arrays["A"][row : row + 16, 16:].astype(np.float32) @ arrays["B"][:16, 16:].astype(np.float32)
    np.testing.assert_array_equal(strict.run(kernel(body), arrays)["C"][:16, :16], want)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_product_on_one_way_and_elements_on_another(sign):
    def body(A, B, C, a, b, acc):
        if A[0, 0] > 0:
            T.gemm(a, b, acc, clear_accum=True)
        else:
            for i, j in T.Parallel(N, N):
                acc[i, j] = 1.0
        T.copy(acc, C)

    arrays = {"A": small(), "B": small(), "C": np.zeros((N, N), np.float32)}
    arrays["A"][0, 0] = sign
    want = arrays["A"].astype(np.float32) @ arrays["B"].astype(np.float32) if sign > 0 else np.ones((N, N))
    np.testing.assert_array_equal(strict.run(kernel(body), arrays)["C"], want)


@pytest.mark.parametrize("turned", [False, True])
def test_parts_that_begin_between_the_pieces_of_a_tile(turned):
    """The first column is odd, or known only at run time."""

    @T.prim_func
    def main(A: T.Tensor((N, N), "float16"), B: T.Tensor((N, N), "float16"), n: T.int32, C: T.Tensor((2, 16, 16), "float32")):
        with T.Kernel(1):
            a, b = T.alloc_shared((N, N), "float16"), T.alloc_shared((N, N), "float16")
            acc = T.alloc_fragment((16, 16), "float32")
            T.copy(A, a)
            T.copy(B, b)
            for k in T.serial(2):
                if turned:
                    T.gemm(a[:, n : n + 16], b[:, 3 + k * 8 : 19 + k * 8], acc, transpose_A=True, clear_accum=True)
                else:
                    T.gemm(a[3:19, :], b[:, n + k : n + k + 16], acc, clear_accum=True)
                T.copy(acc, C[k, :, :])

    a, b, n = small(), small(), 5
    out = strict.run(tilelang.compile(main), {"A": a, "B": b, "C": np.zeros((2, 16, 16), np.float32)}, {"n": n})["C"]
    for k in range(2):
        left, first = (a[:, n : n + 16].T, 3 + k * 8) if turned else (a[3:19], n + k)
        np.testing.assert_array_equal(out[k], left.astype(np.float32) @ b[:, first : first + 16].astype(np.float32))


def from_memory(A, B, C, a, b, acc):
    T.gemm(A, b, acc)


INT16 = {"a": "int16", "b": "int16"}
REFUSED = [
    (from_memory, {}, "T.gemm(A, b, acc)", "T.gemm works on tiles; A = A (32x32 float16) is in global memory", "T.alloc_shared"),
    (plain, INT16 | {"accum": "int32"}, "T.gemm", "the cube core of Ascend910B1 does not multiply int16", "T.copy converts"),
    (plain, {"accum": "int32"}, "T.gemm", "gemm of float16 accumulates in float32, here C is int32", "declare C as float32"),
]


@pytest.mark.parametrize("body, options, line, message, hint", REFUSED, ids=[f"{r[0].__name__}-{i}" for i, r in enumerate(REFUSED)])
def test_refusals_say_what_to_write_instead(body, options, line, message, hint):
    with pytest.raises(TilelangAscendError) as caught:
        kernel(body, **options)
    assert message in caught.value.message and hint in caught.value.hint
    assert line in caught.value.location.source
