"""Arithmetic on uint32 scalars of a nest (elements of tiles and of tensors, arguments) gives a uint32, also where it is converted at once."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

N = 64


@pytest.mark.parametrize("chip", ("a2", "a5"))
def test_converted_results(chip):
    """Operands, and so the results, are the same for all lanes."""

    @T.prim_func
    def kernel(
        A: T.Tensor((N,), "uint32"), B: T.Tensor((N,), "uint32"), c: T.uint32, F: T.Tensor((5, N), "float32"), L: T.Tensor((5, N), "int64")
    ):  # fmt: skip
        with T.Kernel(1):
            a = T.alloc_shared((N,), "uint32")
            T.copy(A, a)
            for i in T.Parallel(N):
                F[0, i] = T.cast(a[3] + B[5], "float32")
                F[1, i] = T.cast(a[3] * B[5], "float32")
                F[2, i] = T.cast(A[3] | B[5], "float32")
                F[3, i] = T.cast(T.max(a[3], B[5]), "float32")
                F[4, i] = T.cast(T.if_then_else(B[5] > c, B[5], A[3] + c), "float32")
            for i in T.Parallel(N):
                L[0, i] = T.cast(a[3] + B[5], "int64")
                L[1, i] = T.cast(a[3] * B[5], "int64")
                L[2, i] = T.cast(A[3] | B[5], "int64")
                L[3, i] = T.cast(T.max(a[3], B[5]), "int64")
                L[4, i] = T.cast(T.if_then_else(B[5] > c, B[5], A[3] + c), "int64")

    a, b = np.full(N, 2**31 + 3, np.uint32), np.full(N, 2**30 + 5, np.uint32)
    arrays = {"A": a, "B": b, "F": np.zeros((5, N), np.float32), "L": np.zeros((5, N), np.int64)}
    got = strict.run(tilelang.compile(kernel, target=chip), arrays, {"c": int(b[0])})
    x, y = a[0], b[0]
    with np.errstate(over="ignore"):
        want = np.array([x + y, x * y, x | y, max(x, y), x + y])[:, None]
    assert (got["F"] == want.astype(np.float32)).all()
    assert (got["L"] == want.astype(np.int64)).all()


@pytest.mark.parametrize("unsigned_first", [True, False])
def test_places_that_differ_by_a_sign_only_may_be_the_same(unsigned_first):
    """The load and the instruction that reads it take their rows from the same bits (of a float16; of a number that wraps)."""

    @T.prim_func
    def bits(X: T.Tensor((64,), "float32"), H: T.Tensor((16,), "float16"), K: T.Tensor((16,), "int32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(1):
            rows, y = T.alloc_shared((64, 64), "float32"), T.alloc_fragment((64,), "float32")
            h, k = T.alloc_shared((16,), "float16"), T.alloc_shared((16,), "int32")
            T.copy(H, h)
            T.copy(K, k)
            T.clear(rows)
            u, v = h[3], k[3]
            if unsigned_first:
                T.copy(X, rows[T.cast(T.reinterpret(u, "uint16"), "int32") - 49516, :])
                for i in T.Parallel(64):
                    y[i] = rows[T.cast(T.reinterpret(u, "int16"), "int32") + 16020, i] * 2
            else:
                T.copy(X, rows[T.cast((T.cast(v, "uint32") * T.uint32(2654435761)) % T.uint32(13), "int32"), :])
                for i in T.Parallel(64):
                    y[i] = rows[T.cast((T.cast(v, "int64") * T.int64(2654435761)) % T.int64(13), "int32") + 4, i] * 2
            T.copy(y, Y)

    x, h, k = np.arange(64, dtype=np.float32), np.zeros(16, np.float16), np.zeros(16, np.int32)
    h.view(np.int16)[3], k[3] = -16000, -39
    assert -39 * 2654435761 % 2**32 % 13 == -39 * 2654435761 % 13 + 4
    out = strict.run(tilelang.compile(bits), {"X": x, "H": h, "K": k, "Y": np.zeros(64, np.float32)})
    np.testing.assert_array_equal(out["Y"], 2 * x)
