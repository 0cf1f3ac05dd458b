"""Arguments declared as `T.ptr`, with the shapes `T.make_tensor` gives them."""

import numpy as np
import pytest
import roads

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend import interpret
from tilelang_ascend.errors import InvalidArgument, InvalidKernel


def matmul(block):
    @T.prim_func
    def main(a_ptr: T.ptr, b_ptr: T.ptr("float16"), c_ptr: "T.ptr", m: T.int32, n: T.int32, k: T.int32):
        A = T.make_tensor(a_ptr, (m, k), "float16")
        B = T.make_tensor(b_ptr, (k, n), "float16")
        C = T.make_tensor(c_ptr, (m, n), "float32")
        with T.Kernel(T.ceildiv(n, block), T.ceildiv(m, block)) as (bx, by):
            a, b, c = T.alloc_shared((block, block), "float16"), T.alloc_shared((block, block), "float16"), T.alloc_fragment((block, block), "float32")
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
        out = roads.run(kernel, {"a_ptr": a, "b_ptr": b, "c_ptr": np.zeros_like(expected)}, {"m": m, "n": n, "k": k})["c_ptr"]
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


def test_pointers_of_eager_kernels():
    @tilelang.jit
    def eager(a: T.ptr):
        A = T.make_tensor(a, (8,), "float32")
        with T.Kernel(1):
            A[0] = 1

    with pytest.raises(InvalidKernel, match="parameter 'a' of the eager kernel 'eager' is a pointer"):
        eager(np.zeros(8, np.float32))
