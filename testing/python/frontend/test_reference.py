"""The reference interpreter is strict: what Tile IR forbids is an error, fresh memory is poison."""

import numpy as np
import pytest

import tilelang_ascend.language as T
from tilelang_ascend.sim.reference import InterpreterError, convert, numpy_dtype, poison, run


def test_element_access_outside_a_tensor():
    @T.prim_func
    def k(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            for i in T.serial(5):
                A[i] = 1

    with pytest.raises(InterpreterError, match="outside its shape"):
        run(k, np.zeros(4, np.float32))


def test_tile_outside_an_on_chip_buffer():
    @T.prim_func
    def k(A: T.Tensor((4,), "float32"), n: T.int32):
        with T.Kernel(1):
            s = T.alloc_shared((4,), "float32")
            T.copy(s[n : n + 4], A)

    with pytest.raises(InterpreterError, match="outside s"):
        run(k, np.zeros(4, np.float32), 1)


def test_fresh_memory_is_poison():
    @T.prim_func
    def k(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            T.copy(T.alloc_shared((4,), "float32"), A)
            T.copy(T.alloc_shared((4,), "int32"), B)

    a, b = np.zeros(4, np.float32), np.zeros(4, np.int32)
    run(k, a, b)
    assert np.isnan(a).all() and (b == 0x5A5A5A5A).all()
    assert np.isnan(poison((2,), numpy_dtype("bfloat16")).astype(np.float32)).all()


def test_arguments_are_checked():
    n = T.dynamic("n")

    @T.prim_func
    def k(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1):
            A[0] = B[0]

    one, two = np.zeros(1, np.float32), np.zeros(2, np.float32)
    for args in ((one,), (one, two), (one, one.astype(np.float16)), (one, one.reshape(1, 1))):
        with pytest.raises(InterpreterError):
            run(k, *args)


def test_integers_wrap_and_floats_truncate():
    assert convert(300, np.dtype("int8")) == 44 and convert(-1, np.dtype("uint8")) == 255
    assert convert(-2.7, np.dtype("int32")) == -2 and convert(1e-8, np.dtype("float16")) == 0


def test_device_assert_stops_the_run():
    @T.prim_func
    def k(A: T.Tensor((4,), "float32"), n: T.int32):
        with T.Kernel(1):
            assert n < 3, "n is too large"
            T.device_assert(n > 0, "n is too small")
            A[0] = n

    run(k, np.zeros(4, np.float32), 2)
    for n, text in ((3, "too large"), (0, "too small")):
        with pytest.raises(InterpreterError, match=text):
            run(k, np.zeros(4, np.float32), n)


@pytest.mark.parametrize("dtype, wide", [("float32", np.float32), ("int8", np.int32)])
@pytest.mark.parametrize("m, k, n", [(17, 100, 33), (16, 1, 16)])
def test_products_are_added_one_after_the_other(dtype, wide, m, k, n):
    """In the order of K, rounded each time, whatever instructions this machine has: cutting K changes nothing."""

    @T.prim_func
    def main(A: T.Tensor((m, k), dtype), B: T.Tensor((n, k), dtype), C: T.Tensor((m, n), np.dtype(wide).name)):
        with T.Kernel(1):
            a, b, c = T.alloc_shared((m, k), dtype), T.alloc_shared((n, k), dtype), T.alloc_fragment((m, n), np.dtype(wide).name)
            T.copy(A, a)
            T.copy(B, b)
            T.copy(C, c)
            T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C)

    rng = np.random.default_rng(0)
    if wide is np.float32:
        a, b, c = (rng.standard_normal(shape).astype(wide) * 1e4 for shape in ((m, k), (n, k), (m, n)))
    else:
        a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((m, k), (n, k)))
        c = rng.integers(2**31 - 9999, 2**31, (m, n)).astype(wide)  # sums leave int32
    expected = c.copy()
    for i in range(k):
        expected += a[:, i : i + 1].astype(wide) * b[:, i].astype(wide)
    run(main, a, b, c)
    assert c.tobytes() == expected.tobytes()
