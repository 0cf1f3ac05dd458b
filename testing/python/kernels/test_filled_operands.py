"""T.fill of gemm operands: whole tiles, rows, pieces of rows, every dtype, and what only the vector cores can make."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

M, N, K = 32, 16, 32


def product(fill, dtype="float16", shapes=((M, K), (K, N)), accum="float32", target="a2", text=True):
    """`fill(A, a, b)` makes the operands, `a` after it was loaded from A; returns (A, a @ b)."""

    @T.prim_func
    def k(A: T.Tensor(shapes[0], dtype), C: T.Tensor((shapes[0][0], shapes[1][1]), accum), s: T.float32):
        with T.Kernel(1):
            a, b = T.alloc_shared(shapes[0], dtype), T.alloc_shared(shapes[1], dtype)
            c = T.alloc_fragment((shapes[0][0], shapes[1][1]), accum)
            T.copy(A, a)
            fill(s, a, b)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, C)

    kernel = tilelang.compile(k, target=target)
    a = np.random.default_rng(1).integers(-3, 4, shapes[0]).astype(dtype)
    c = np.zeros((shapes[0][0], shapes[1][1]), accum)
    return a, strict.run(kernel, {"A": a, "C": c}, {"s": 2.0}, text=text)["C"], kernel.artifact.kernel_source


def check(a, got, b):
    np.testing.assert_array_equal(got, a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize("target", ["a2", "a5"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "int8"])
def test_whole_operands(dtype, target):
    """Seed 31 and 630 of the fuzzer: a single element was set."""

    def body(s, a, b):
        T.fill(a, -3)
        T.fill(b, 1)

    shapes = ((M, K), (K, 32))
    a, got, source = product(body, dtype, shapes, "int32" if dtype == "int8" else "float32", target)
    check(np.full(a.shape, -3), got, np.ones(shapes[1]))
    assert source.count("InitConstValue(") == 2 and "SetValue" not in source


def test_rows_and_columns_of_an_operand():
    def body(s, a, b):
        T.fill(b, 1)
        T.fill(b[5:9, :], 2)
        T.clear(a[30:32, :])
        T.clear(a[:, 16:32])

    a, got, source = product(body)
    b = np.ones((K, N))
    b[5:9] = 2
    a[30:], a[:, 16:] = 0, 0
    check(a, got, b)
    assert source.count("InitConstValue(") == 4


def test_padding_stays_zero():
    """K is 24 of 32 rows of the fractals of `b`, and 24 of 32 columns of `a`."""
    a, got, _ = product(lambda s, a, b: (T.fill(a, 1), T.fill(b, 1)), shapes=((20, 24), (24, 20)))
    check(np.ones((20, 24)), got, np.ones((24, 20)))


def test_a_number_of_run_time():
    a, got, _ = product(lambda s, a, b: T.fill(b, s))
    check(a, got, np.full((K, N), 2))


def test_single_columns_are_filled_in_ub():
    def body(s, a, b):
        T.fill(b, 1)
        T.fill(a[:, 3:5], 2)

    a, got, _ = product(body)
    a[:, 3:5] = 2
    check(a, got, np.ones((K, N)))
