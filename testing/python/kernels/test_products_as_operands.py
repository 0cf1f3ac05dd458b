"""A tile that gemm reads is computed by gemm: powers of a matrix, loops until something holds, parts that change."""

import ml_dtypes
import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

KINDS = ("once", "loop", "loop, product out", "first rows", "other rows", "corner", "skipped copy", "left early", "tiles swap")
N = 32


def build(kind, dtype, accum):
    @T.prim_func
    def main(A: T.Tensor((N, N), dtype), C: T.Tensor((N, N), dtype)):
        with T.Kernel(1) as _:
            a, p = T.alloc_shared((N, N), dtype), T.alloc_shared((N, N), dtype)
            c = T.alloc_fragment((N, N), accum)
            T.copy(A, a)
            T.copy(A, p)
            if kind == "once":
                T.gemm(p, a, c, clear_accum=True)
                T.copy(c, p)
                T.copy(p, C)
            elif kind in ("loop", "loop, product out"):
                for _k in T.serial(3):
                    T.gemm(p, a, c, clear_accum=True)
                    T.copy(c, p)
                T.copy(p if kind == "loop" else c, C)
            elif kind in ("first rows", "other rows", "corner"):
                T.gemm(p, a, c, clear_accum=True)
                if kind == "first rows":
                    T.copy(c[0:16, :], p[0:16, :])
                elif kind == "other rows":
                    T.copy(c[0:16, :], p[16:32, :])
                else:
                    T.copy(c[16:32, 16:32], p[0:16, 0:16])
                T.gemm(p, a, c, clear_accum=True)
                T.copy(c, C)
            elif kind == "skipped copy":
                for k in T.serial(3):
                    T.gemm(p, a, c, clear_accum=True)
                    if k == 1:
                        continue
                    T.copy(c, p)
                T.copy(p, C)
            elif kind == "left early":
                for k in T.serial(3):
                    T.gemm(p, a, c, clear_accum=True)
                    for i, j in T.Parallel(N, N):
                        c[i, j] = c[i, j] + 1
                    if k == 1:
                        break
                    T.copy(c, p)
                T.copy(p, C)
            else:
                for k in T.serial(3):
                    for i, j in T.Parallel(N, N):
                        p[i, j] = p[i, j] + 1
                    if k == 0:
                        continue
                    T.gemm(p, a, c, clear_accum=True)
                    T.copy(c, p)
                    T.copy(c, a)
                T.copy(p, C)

    return tilelang.compile(main)


def expected(kind, a):
    p = a.copy()
    if kind == "once":
        return p @ a
    if kind in ("loop", "loop, product out"):
        return p @ a @ a @ a
    if kind in ("first rows", "other rows", "corner"):
        c = p @ a
        if kind == "first rows":
            p[:16] = c[:16]
        elif kind == "other rows":
            p[16:] = c[:16]
        else:
            p[:16, :16] = c[16:, 16:]
        return p @ a
    if kind == "skipped copy":
        return p @ a @ a
    if kind == "left early":
        return p @ a + 1
    p = (p + 2) @ a
    return (p + 1) @ p


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype, accum, chip", [
    ("float16", "float32", "a2"), ("float32", "float32", "a5"), ("int8", "int32", "a2"), ("bfloat16", "bfloat16", "a5"),
])  # fmt: skip
@pytest.mark.one_in(9)
def test_powers(kind, dtype, accum, chip):
    rng = np.random.default_rng(0)
    a = np.zeros((N, N))
    a[np.arange(N), rng.permutation(N)] = 1
    a[0, 0] = -1
    storage = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    kernel = build(kind, dtype, accum).retarget(chip)
    out = strict.run(kernel, {"A": a.astype(storage), "C": np.full((N, N), 9, storage)}, text=dtype == "float16" and accum == "float32")
    want = expected(kind, a)
    if dtype == "int8":
        want = want.astype(np.int64).astype(np.int8)
    np.testing.assert_array_equal(out["C"].astype(np.float64), want.astype(np.float64))


@pytest.mark.parametrize("kind", ["added", "started", "started, of a product", "first iteration", "both"])
def test_a_gemm_multiplies_what_is_in_its_accumulator(kind):
    @T.prim_func
    def main(A: T.Tensor((N, N), "float16"), B: T.Tensor((N, N), "float16"), C: T.Tensor((N, N), "float16")):
        with T.Kernel(1) as _:
            b, c = T.alloc_shared((N, N), "float16"), T.alloc_fragment((N, N), "float16")
            T.copy(B, b)
            if kind == "started, of a product":
                T.gemm(b, b, c, clear_accum=True)
            else:
                T.copy(A, c)
            if kind == "first iteration":
                for k in T.serial(2):
                    T.gemm(c, b, c, clear_accum=k == 0)
            elif kind == "both":
                T.gemm(c, c, c)
            else:
                T.gemm(c, b, c, clear_accum=kind != "added")
            T.copy(c, C)

    rng = np.random.default_rng(3)
    a, b = (rng.integers(-1, 2, (N, N)) * (rng.random((N, N)) < 0.1) for _ in range(2))
    want = {
        "added": a + a @ b,
        "started": a @ b,
        "started, of a product": b @ b @ b,
        "first iteration": a @ b + a @ b @ b,
        "both": a + a @ a,
    }
    given = {"A": a.astype(np.float16), "B": b.astype(np.float16), "C": np.zeros((N, N), np.float16)}
    got = strict.run(tilelang.compile(main), given, text=kind == "both")["C"]
    np.testing.assert_array_equal(got, want[kind])
