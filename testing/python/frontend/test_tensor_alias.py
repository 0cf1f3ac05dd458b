"""One tensor in GM under several shapes and dtypes: `T.Tensor(shape, dtype, X.data)`, `T.view`, `T.reshape`."""

import sys
from pathlib import Path

import numpy as np
import pytest

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.errors import InvalidArgument, ShapeMismatch, UnsupportedConstruct
from tilelang_ascend.sim import reference

sys.path.insert(0, str(Path(__file__).parent.parent / "kernels"))

import roads  # noqa: E402

X = np.random.default_rng(0).standard_normal((16, 64)).astype(np.float32)


def result(func, x=X, like=X):
    """Y of a kernel Y = f(X), the same on the strict road and by the definition of Tile IR."""
    y = np.zeros_like(like)
    out = roads.run(tilelang.compile(func), {"X": x, "Y": y})["Y"].copy()
    defined = np.zeros_like(like)
    reference.run(func, x.copy(), defined)
    np.testing.assert_array_equal(out, defined)
    return out


def test_both_tensors_flat():
    @T.prim_func
    def k(X: T.Tensor((16, 64), "float32"), Y: T.Tensor((16, 64), "float32")):
        with T.Kernel(4) as bx:
            F, G = T.Tensor((1024,), "float32", X.data), T.Tensor((1024,), "float32", data=Y.data)
            for i in T.Parallel(256):
                G[bx * 256 + i] = F[bx * 256 + i] * 2

    np.testing.assert_array_equal(result(k), X * 2)


def test_eager():
    @tilelang.jit
    def k(A):
        M, N = T.const("M, N")
        A: T.Tensor[[M, N], "float32"]
        B = T.empty((M, N), "float32")
        F = T.Tensor((M * N,), "float32", A.data)
        G = T.Tensor((M * N,), "float32", B.data)
        with T.Kernel(4) as bx:
            s = T.alloc_shared((256,), "float32")
            T.copy(F[bx * 256], s)
            for i in T.Parallel(256):
                s[i] = s[i] + 1.0
            T.copy(s, G[bx * 256])
        return B

    np.testing.assert_array_equal(np.asarray(k(X)), X + 1)


def test_writes_under_one_name_are_read_under_the_other():
    @T.prim_func
    def k(X: T.Tensor((16, 64), "float32"), Y: T.Tensor((16, 64), "float32")):
        with T.Kernel(1):
            G = T.Tensor((1024,), "float32", Y.data)
            for i, j in T.Parallel(16, 64):
                Y[i, j] = X[i, j] * 2
            for i in T.Parallel(1024):
                G[i] = G[i] + 1.0
            for i, j in T.Parallel(16, 64):
                Y[i, j] = Y[i, j] * 3

    np.testing.assert_array_equal(result(k), (X * 2 + 1) * 3)


def test_regions_under_two_names():
    @T.prim_func
    def k(X: T.Tensor((16, 64), "float32"), Y: T.Tensor((16, 64), "float32")):
        with T.Kernel(4) as bx:
            G = T.Tensor((4, 4, 64), "float32", Y.data)
            s = T.alloc_shared((4, 64), "float32")
            T.copy(X[bx * 4 : bx * 4 + 4, :], s)
            T.copy(s, Y[bx * 4 : bx * 4 + 4, :])
            T.copy(G[bx, 0:4, 0:64], s)
            for i, j in T.Parallel(4, 64):
                s[i, j] += 1.0
            T.copy(s, G[bx, 0:4, 0:64])

    np.testing.assert_array_equal(result(k), X + 1)


@pytest.mark.parametrize("dtype", ["int32", "int16", "int8"])
def test_bits(dtype):
    width = 256 // np.dtype(dtype).itemsize

    @T.prim_func
    def k(X: T.Tensor((16, 64), "float32"), Y: T.Tensor((16, width), dtype)):
        with T.Kernel(4) as bx:
            F = T.view(X, dtype=dtype)
            s = T.alloc_shared((4, width), dtype)
            T.copy(F[bx * 4 : bx * 4 + 4, :], s)
            T.copy(s, Y[bx * 4 : bx * 4 + 4, :])

    np.testing.assert_array_equal(result(k, like=X.view(dtype)), X.view(dtype))


def test_bits_of_elements_under_two_names():
    @T.prim_func
    def k(X: T.Tensor((16, 64), "float32"), Y: T.Tensor((16, 64), "int32")):
        with T.Kernel(1):
            F = T.Tensor((1024,), "int32", X.data)
            for i, j in T.grid(16, 64):
                Y[i, j] = F[i * 64 + j] + T.cast(X[i, j], "int32")

    np.testing.assert_array_equal(result(k, like=X.view(np.int32)), X.view(np.int32) + X.astype(np.int32))


@pytest.mark.parametrize("both", [False, True])
def test_sizes_known_when_the_kernel_runs(both):
    m = T.dynamic("m")

    @T.prim_func
    def k(X: T.Tensor((m, 64), "float32"), Y: T.Tensor((m, 64), "float32")):
        with T.Kernel(m) as bx:
            F = T.Tensor((m * 64,), "float32", X.data)
            for i in T.Parallel(64):
                Y[bx, i] = F[bx * 64 + i] * 2 + (X[bx, i] if both else 0.0)

    kernel, y = tilelang.compile(k), np.zeros_like(X)
    kernel(X, y)
    np.testing.assert_array_equal(y, X * 3 if both else X * 2)


def test_reshape():
    @T.prim_func
    def k(X: T.Tensor((16, 64), "float32"), Y: T.Tensor((16, 64), "float32")):
        with T.Kernel(4) as bx:
            F, G = T.reshape(X, (4, 256)), T.view(Y, (4, 256))
            s = T.alloc_shared((256,), "float32")
            T.copy(F[bx, :], s)
            T.copy(s, G[bx, :])

    np.testing.assert_array_equal(result(k), X)


def test_another_size():
    with pytest.raises(ShapeMismatch, match="4096 bytes"):

        @T.prim_func
        def k(X: T.Tensor((16, 64), "float32")):
            with T.Kernel(4):
                F = T.Tensor((16, 65), "float32", X.data)
                F[0, 0] = 1.0


def test_no_storage():
    with pytest.raises(InvalidArgument, match="X.data"):

        @T.prim_func
        def k(X: T.Tensor((16, 64), "float32")):
            with T.Kernel(4):
                T.Tensor((16, 64), "float32", X)


def test_a_region_across_rows_under_two_names():
    @T.prim_func
    def k(X: T.Tensor((16, 64), "float32")):
        with T.Kernel(4) as bx:
            F = T.Tensor((1024,), "float32", X.data)
            s = T.alloc_shared((100,), "float32")
            T.copy(F[bx * 100 : bx * 100 + 100], s)
            X[0, 0] = s[0]

    with pytest.raises(UnsupportedConstruct, match="no region of X") as error:
        tilelang.compile(k)
    assert "T.copy(F[bx * 100" in str(error.value)


def test_elements_of_two_widths_under_two_names():
    @T.prim_func
    def k(X: T.Tensor((16, 64), "float32")):
        with T.Kernel(4):
            F = T.Tensor((16, 128), "int16", X.data)
            F[0, 0] = 1
            X[0, 1] = 1.0

    with pytest.raises(UnsupportedConstruct, match="elements of another size"):
        tilelang.compile(k)
