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

import strict  # noqa: E402

X = np.random.default_rng(0).standard_normal((16, 64)).astype(np.float32)


def result(func, x=X, like=X):
    """Y of a kernel Y = f(X), the same in a strict run and by the definition of Tile IR."""
    y = np.zeros_like(like)
    out = strict.run(tilelang.compile(func), {"X": x, "Y": y})["Y"].copy()
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


# ---- what lies outside of a view lies outside, whatever the tensor has there ----------------------------------------

WIDE = 128
FLAT = np.arange(1, 1001, dtype=np.float32)
"""10 rows of 100: kernels go to column 128."""


def outside_of_the_view(what):
    @T.prim_func
    def k(X: T.Tensor((1000,), "float32"), Y: T.Tensor((8, WIDE), "float32")):
        with T.Kernel(1):
            V = T.Tensor((10, 100), "float32", X.data)
            t = T.alloc_shared((8, WIDE), "float32")
            T.copy(X[1:2], t[0, 0:1])
            if what == "load":
                for i, j in T.Parallel(8, WIDE):
                    t[i, j] = V[i, j] + 1.0
            elif what == "load below":
                for i, j in T.Parallel(8, WIDE):
                    t[i, j] = V[i, j - 28] + 1.0
            elif what == "let":
                for i, j in T.Parallel(8, WIDE):
                    c = j + 0
                    t[i, j] = V[i, c] + 1.0
            elif what == "chosen":
                for i, j in T.Parallel(8, WIDE):
                    t[i, j] = T.if_then_else(j < 100, V[i, j], 0.0) + 1.0
            elif what == "rows":
                for j in T.serial(8):
                    T.copy(V[j, 97 + j], t[j, 0])
            elif what == "store":
                T.copy(Y, t)
                for i, j in T.Parallel(8, WIDE):
                    V[i, j] = t[i, j]
            elif what == "guarded store":
                T.copy(Y, t)
                for i, j in T.Parallel(8, WIDE):
                    if j < 100:
                        V[i, j] = t[i, j]
            else:
                T.copy(Y, t)
                for i, j in T.Parallel(8, WIDE):
                    T.atomic_add(V[i, j], t[i, j])
            if what in ("load", "load below", "let", "chosen"):
                T.copy(t, Y)
            elif what == "rows":
                for i in T.Parallel(8):
                    Y[i, 0] = t[i, 0]

    return k


@pytest.mark.parametrize("what", ["load", "load below", "let", "chosen", "rows", "store", "guarded store", "atomic"])
def test_elements_outside_of_a_view_read_zero_and_are_not_stored_to(what):
    y = np.random.default_rng(1).integers(-9, 9, (8, WIDE)).astype(np.float32)
    x, want = FLAT.copy(), y.copy()
    wide = np.zeros((8, WIDE + 28), np.float32)
    wide[:, 28:128] = FLAT.reshape(10, 100)[:8]
    after = x.reshape(10, 100).copy()
    if what == "load below":
        want = wide[:, :WIDE] + 1
    elif what in ("load", "let", "chosen"):
        want = wide[:, 28:] + 1
    elif what == "rows":
        want[:, 0] = [wide[j, 28 + 97 + j] for j in range(8)]
    else:
        after[:8] = y[:, :100] + (after[:8] if what == "atomic" else 0)
    out = strict.run(tilelang.compile(outside_of_the_view(what)), {"X": x, "Y": y}, text=False)
    np.testing.assert_array_equal(out["Y"], want)
    np.testing.assert_array_equal(out["X"], after.reshape(-1))


@pytest.mark.parametrize("rows", [(0, 16), (4, 8)])
def test_regions_that_leave_a_view_are_no_regions_of_its_tensor(rows):
    @T.prim_func
    def k(X: T.Tensor((32, 64), "float32"), Y: T.Tensor((rows[1], 64), "float32")):
        with T.Kernel(1):
            V = T.Tensor((4, 8, 64), "float32", X.data)
            t = T.alloc_shared((rows[1], 64), "float32")
            T.copy(X[0, 0:64], t[0, 0:64])
            T.copy(V[1, rows[0] : rows[0] + rows[1], 0:64], t)
            T.copy(t, Y)

    with pytest.raises(UnsupportedConstruct, match="no region of X"):
        tilelang.compile(k)


@pytest.mark.parametrize("product", [False, True])
def test_a_row_outside_of_a_view_reads_zero(product):
    """Heads 1 to 4 of 4: there is no head 4, though the tensor has a row there."""

    @T.prim_func
    def k(X: T.Tensor((12, 64), "float16"), E: T.Tensor((64, 64), "float16"), Y: T.Tensor((4, 16, 64), "float32")):
        with T.Kernel(1):
            V = T.Tensor((3, 4, 64), "float16", X.data)
            t, e = T.alloc_shared((16, 64), "float16"), T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((16, 64), "float32")
            T.copy(E, e)
            for h in T.serial(4):
                if product:
                    T.copy(X[0:16, :], t)
                    T.copy(V[1, h + 1, :], t[0, :])
                    T.gemm(t, e, c, clear_accum=True)
                    T.copy(c, Y[h, :, :])
                else:
                    T.copy(X[0:16, :], t)
                    T.copy(V[1, h + 1, :], t[0, :])
                    T.copy(t, Y[h, :, :])

    x = np.random.default_rng(2).integers(1, 5, (12, 64)).astype(np.float16)
    want = np.zeros((4, 16, 64), np.float32)
    want[:, :12] = x
    for h in range(4):
        want[h, 0] = x[4 + h + 1] if h + 1 < 4 else 0
    arrays = {"X": x, "E": np.eye(64, dtype=np.float16), "Y": np.zeros_like(want)}
    np.testing.assert_array_equal(strict.run(tilelang.compile(k), arrays, text=False)["Y"], want)
