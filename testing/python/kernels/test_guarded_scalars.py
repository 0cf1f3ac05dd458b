"""Scalar code computes what its guards let through and nothing else: elements, quotients, statements behind a jump."""

import numpy as np
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

N = 6


def test_what_a_guard_leaves_out_is_not_computed():
    """Elements of a tile at places a tile chooses (an extent, the index of an element that all lanes read), and quotients behind `and`
    and `or`."""

    @T.prim_func
    def main(
        I: T.Tensor((N,), "int32"), A: T.Tensor((9,), "int32"), C: T.Tensor((N,), "int32"), E: T.Tensor((N,), "int32"),  # noqa: E741
        Q: T.Tensor((N,), "int32"), m: T.int32,
    ):  # fmt: skip
        with T.Kernel(1) as _:
            t, count, e = T.alloc_shared((N,), "int32"), T.alloc_var("int32"), T.alloc_shared((N,), "int32")
            T.copy(I, t)
            for i in T.serial(N):
                count = 0
                for _ in T.serial(T.if_then_else(t[i] >= 0 and t[i] < N, t[t[i]], 3)):
                    count += 1
                C[i] = count
                Q[i] = 0
                if t[i] != 0 and 20 // t[i] > 4:
                    Q[i] = 1
                if m == 0 or t[i] % m == 1:
                    Q[i] = Q[i] + 2
                for j in T.Parallel(N):
                    e[j] = A[T.if_then_else(t[i] >= 0 and t[i] < N, t[t[i]], 8) % 9]
                E[i] = e[2]

    at, a = np.array([5, -40_000, 0, 2, 70_000, 1], np.int32), np.arange(9, dtype=np.int32) * 3 + 1
    inside = [int(at[k]) if 0 <= k < N else None for k in at]
    want = {
        "C": [3 if k is None else max(k, 0) for k in inside],
        "E": [a[8 if k is None else k % 9] for k in inside],
        "Q": [int(k != 0 and 20 // k > 4) + 2 for k in at.tolist()],
    }
    arrays = {"I": at, "A": a, **{name: np.full(N, 9, np.int32) for name in "CEQ"}}
    out = strict.run(tilelang.compile(main), arrays, {"m": 0}, text=False)
    for name, value in want.items():
        np.testing.assert_array_equal(out[name], value, err_msg=name)


def test_behind_a_jump_that_always_leaves():
    """Nothing waits for what stands there: a flag between the two was an internal error."""
    skip = True

    @T.prim_func
    def main(A: T.Tensor((N, 8), "int32"), C: T.Tensor((8,), "int32")):
        with T.Kernel(1) as _:
            t = T.alloc_shared((8,), "int32")
            T.fill(t, 0)
            for k in T.serial(N):
                if A[k, 0] < 0:
                    t[1] = 1
                else:
                    T.copy(A[k, 0], t)
                    if skip:
                        continue
                    t[2] = t[3]
            T.copy(t, C)

    a = np.arange(8 * N, dtype=np.int32).reshape(N, 8)
    a[N - 1, 0] = -1
    out = strict.run(tilelang.compile(main), {"A": a, "C": np.zeros(8, np.int32)}, text=False)
    np.testing.assert_array_equal(out["C"], [32, 1, *a[N - 2, 2:]])


def test_a_read_nobody_uses_under_a_condition_of_a_tile():
    """It asks nothing of the cube core, which does not know the condition."""

    @T.prim_func
    def main(X: T.Tensor((16, 16), "float16"), A: T.Tensor((8,), "int32"), C: T.Tensor((8,), "int32"), Y: T.Tensor((16, 16), "float32")):
        with T.Kernel(1) as _:
            x, y, t = T.alloc_shared((16, 16), "float16"), T.alloc_fragment((16, 16), "float32"), T.alloc_shared((8,), "int32")
            T.copy(A, t)
            T.copy(X, x)
            T.gemm(x, x, y, clear_accum=True)
            T.copy(y, Y)
            A[0] = 1
            if t[2] != 0:
                unused = A[3]  # noqa: F841
                t[0] = 5
            T.copy(t, C)

    a, x = np.arange(8, dtype=np.int32), np.eye(16, dtype=np.float16)
    arrays = {"X": x, "A": a, "C": a.copy(), "Y": np.zeros((16, 16), np.float32)}
    out = strict.run(tilelang.compile(main), arrays, text=False)
    np.testing.assert_array_equal(out["C"], [5, *a[1:]])
