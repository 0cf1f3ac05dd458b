"""Arguments declared as `T.ptr`, with the shapes `T.make_tensor` gives them."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend import interpret
from tilelang_ascend.errors import ArgumentTypeError, ArgumentValueError, InvalidArgument, InvalidKernel


def matmul(block):
    @T.prim_func
    def main(a_ptr: T.ptr, b_ptr: T.ptr("float16"), c_ptr: "T.ptr", m: T.int32, n: T.int32, k: T.int32):
        A = T.make_tensor(a_ptr, (m, k), "float16")
        B = T.make_tensor(b_ptr, (k, n), "float16")
        C = T.make_tensor(c_ptr, (m, n), "float32")
        with T.Kernel(T.ceildiv(n, block), T.ceildiv(m, block)) as (bx, by):
            a, b, c = (
                T.alloc_shared((block, block), "float16"),
                T.alloc_shared((block, block), "float16"),
                T.alloc_fragment((block, block), "float32"),
            )
            T.clear(c)
            for s in T.Pipelined(T.ceildiv(k, block), num_stages=2):
                T.copy(A[by * block, s * block], a)
                T.copy(B[s * block, bx * block], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * block, bx * block])

    return main


def test_shapes_of_scalar_parameters():
    main, rng = matmul(32), np.random.default_rng(0)
    kernel = tilelang.compile(main)
    for m, n, k in ((32, 32, 64), (40, 70, 50)):
        a, b = rng.integers(-3, 4, (m, k)).astype(np.float16), rng.integers(-3, 4, (k, n)).astype(np.float16)
        expected = a.astype(np.float32) @ b.astype(np.float32)
        out = strict.run(kernel, {"a_ptr": a, "b_ptr": b, "c_ptr": np.zeros_like(expected)}, {"m": m, "n": n, "k": k})["c_ptr"]
        np.testing.assert_array_equal(out, expected)
        for run in (kernel, lambda *x: interpret.run(main, *x)):
            c = np.zeros_like(expected)
            run(a, b, c, m, n, k)
            np.testing.assert_array_equal(c, expected)


def test_pointers_without_a_tensor():
    with pytest.raises(InvalidKernel, match="nothing is made of the pointer 'b'"):

        @T.prim_func
        def forgotten(a: T.Tensor((8,), "float32"), b: T.ptr):
            with T.Kernel(1):
                a[0] = 1

    with pytest.raises(InvalidArgument, match="T.make_tensor of"):

        @T.prim_func
        def address(a: T.Tensor((8,), "int64")):
            with T.Kernel(1):
                T.make_tensor(a[0], (8,), "float32")

    with pytest.raises(InvalidArgument, match="known to the kernel only"):

        @T.prim_func
        def inner(a: T.ptr):
            with T.Kernel(4) as bx:
                T.make_tensor(a, (bx,), "float32")


@tilelang.jit
def eager_matmul(a_ptr: T.ptr, b: T.ptr, c_ptr: T.ptr, scale: T.float32, block: int = 32):
    M, N, K = T.const("M, N, K")
    A = T.make_tensor(a_ptr, (M, K), "float16")
    B = T.make_tensor_from_addr(b, (K, N), "float16")
    C = T.make_tensor(c_ptr, (M, N), "float32")
    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block)) as (bx, by):
        a, b_tile, c = (
            T.alloc_shared((block, block), "float16"),
            T.alloc_shared((block, block), "float16"),
            T.alloc_fragment((block, block), "float32"),
        )
        T.clear(c)
        for s in T.Pipelined(T.ceildiv(K, block), num_stages=2):
            T.copy(A[by * block, s * block], a)
            T.copy(B[s * block, bx * block], b_tile)
            T.gemm(a, b_tile, c)
        for i, j in T.Parallel(block, block):
            c[i, j] *= scale
        T.copy(c, C[by * block, bx * block])


@tilelang.jit
def eager_scalars(x: T.ptr, Y: T.Tensor((64,), "float32"), n: T.int32):
    X = T.make_tensor(x, (n, 8), "float32")
    with T.Kernel(1):
        flat, flat_y = T.make_tensor(x, (n * 8,), "float32"), T.make_tensor(Y.data, (8, 8), "float32")
        t = T.alloc_shared((8, 8), "float32")
        T.copy(X[0:8, 0:8], t)
        for i, j in T.Parallel(8, 8):
            t[i, j] += flat[i * 8 + j]
        T.copy(t, flat_y)


@tilelang.jit
def eager_dynamic(x: T.ptr, y: T.ptr):
    n = T.dynamic("n")
    X, Y = T.make_tensor(x, (n,), "float32"), T.make_tensor(y, (n,), "float32")
    with T.Kernel(T.ceildiv(n, 32)) as b:
        for i in T.Parallel(32):
            Y[b * 32 + i] = X[b * 32 + i] * 2


def test_pointers_of_eager_kernels():
    rng = np.random.default_rng(0)
    for m, n, k in ((32, 32, 64), (40, 70, 50)):
        a, b = rng.integers(-3, 4, (m, k)).astype(np.float16), rng.integers(-3, 4, (k, n)).astype(np.float16)
        for run in (eager_matmul, lambda *x: interpret.run(eager_matmul, *x)):
            c = np.zeros((m, n), np.float32)
            run(a, b, c, 0.5)
            np.testing.assert_array_equal(c, (a.astype(np.float32) @ b.astype(np.float32)) * 0.5)
    for rows in (8, 9, 20):
        x = rng.standard_normal((rows, 8)).astype(np.float32)
        for run in (eager_scalars, lambda *v: interpret.run(eager_scalars, *v)):
            y = np.zeros(64, np.float32)
            run(x, y, rows)
            np.testing.assert_array_equal(y.reshape(8, 8), x[:8] * 2)
    for n in (64, 75):
        x = rng.standard_normal(n).astype(np.float32)
        y = np.zeros_like(x)
        eager_dynamic(x, y)
        np.testing.assert_array_equal(y, x * 2)


def test_calls_that_do_not_fit_a_pointer():
    half, other = np.zeros((32, 32), np.float16), np.zeros((32, 48), np.float16)
    with pytest.raises(ArgumentValueError, match="1 dimensions"):
        eager_matmul(half, half[0].copy(), np.zeros((32, 32), np.float32), 1.0)
    with pytest.raises(ArgumentValueError, match="K is 48 elsewhere|but K is"):
        eager_matmul(other, half, np.zeros((32, 32), np.float32), 1.0)
    with pytest.raises(ArgumentTypeError, match="must be a tensor"):
        eager_matmul(half, 5, np.zeros((32, 32), np.float32), 1.0)

    @tilelang.jit
    def forgotten(a: T.ptr, B: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            B[0] = 1

    with pytest.raises(InvalidKernel, match="nothing is made of the pointer 'a'"):
        forgotten(half, np.zeros(8, np.float32))
    with pytest.raises(InvalidArgument, match="T.make_tensor of"):

        @T.prim_func
        def number(a: T.int64, B: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                T.make_tensor_from_addr(a, (8,), "float32")
