"""Kernels of a few lines: for vector cores, for cube cores, for both, with scalars and shape variables, with several launches."""

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

N, BLOCK = 300, 128


def scale(n=N, factor=2.0, dtype="float32"):
    @T.prim_func
    def scale(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, BLOCK), threads=128) as bx:
            for i in T.Parallel(BLOCK):
                B[bx * BLOCK + i] = A[bx * BLOCK + i] * factor

    return scale


def increment():
    n = T.dynamic("n")

    @T.prim_func
    def increment(A: T.Tensor((n,), "float32"), s: T.float32):
        with T.Kernel(T.ceildiv(n, BLOCK), threads=128) as bx:
            for i in T.Parallel(BLOCK):
                A[bx * BLOCK + i] = A[bx * BLOCK + i] + s

    return increment


def first_columns():
    """The first 64 columns of rows of any length."""
    n = T.dynamic("n")

    @T.prim_func
    def first_columns(A: T.Tensor((3, n * 2), "float32"), N: T.Tensor((n,), "int8"), B: T.Tensor((3, 64), "float32")):
        with T.Kernel(1, threads=128):
            t = T.alloc_shared((3, 64), "float32")
            T.copy(A[:, 0:64], t)
            T.copy(t, B)

    return first_columns


def shift(dtype="float16"):
    """Adds a scalar of a narrow dtype to float32."""

    @T.prim_func
    def shift(A: T.Tensor((64,), "float32"), s: getattr(T, dtype), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(64):
                B[i] = A[i] + T.cast(s, "float32")

    return shift


def talkative():
    """Prints a tile, numbers and text, and asserts."""

    @T.prim_func
    def talkative(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64,), "float32")
            T.copy(A, a)
            T.print(a)
            T.printf("first %f of %d\n", A[0], 64)
            T.device_assert(A[0] < 5.0, "too large")
            for i in T.Parallel(64):
                a[i] = a[i] * 2.0
            T.copy(a, B)

    return talkative


def product(activation=False):
    """float16 product of 32x32; with an activation for both kinds of cores."""

    @T.prim_func
    def product(A: T.Tensor((32, 32), "float16"), B: T.Tensor((32, 32), "float16"), C: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=128) as bx:
            a = T.alloc_shared((32, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.gemm(a, b, c)
            if activation:
                for i, j in T.Parallel(32, 32):
                    c[i, j] = T.max(c[i, j], 0.0)
            T.copy(c, C)

    return product


def sum_and_difference():
    """Two results of one shape, plus and minus a whole number."""

    @T.prim_func
    def sum_and_difference(A: T.Tensor((64,), "float32"), n: T.int32, More: T.Tensor((64,), "float32"), Less: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=128) as _:
            a, b = T.alloc_shared((64,), "float32"), T.alloc_shared((64,), "float32")
            T.copy(A, a)
            for i in T.Parallel(64):
                b[i] = a[i] - T.cast(n, "float32")
            for i in T.Parallel(64):
                a[i] = a[i] + T.cast(n, "float32")
            T.copy(a, More)
            T.copy(b, Less)

    return sum_and_difference


def two_launches():
    @T.prim_func
    def two_launches(A: T.Tensor((256,), "float32"), B: T.Tensor((256,), "float32")):
        between = T.alloc_global((256,), "float32")
        with T.Kernel(2, threads=128) as bx:
            a = T.alloc_shared((128,), "float32")
            T.copy(A[bx * 128], a)
            for i in T.Parallel(128):
                a[i] = a[i] + 1.0
            T.copy(a, between[bx * 128])
        with T.Kernel(2, threads=128) as bx:
            b = T.alloc_shared((128,), "float32")
            T.copy(between[(1 - bx) * 128], b)
            for i in T.Parallel(128):
                b[i] = b[i] * 2.0
            T.copy(b, B[bx * 128])

    return two_launches


def compiled(func, out_idx=-1, backend="npu", **more):
    return tilelang.compile(func, out_idx=out_idx, execution_backend=backend, **more)
