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
