"""`tl.enable_fast_math`: shorter sequences of element functions, and scores that cross between the cores as float16."""

import ml_dtypes
import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T


def exp2_kernel(pass_configs):
    @tilelang.jit(pass_configs=pass_configs)
    def build(N):
        @T.prim_func
        def main(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32")):
            with T.Kernel(1, threads=128) as _:
                x = T.alloc_fragment((N,), "float32")
                T.copy(X, x)
                for i in T.Parallel(N):
                    x[i] = T.exp2(x[i])
                T.copy(x, Y)

        return main

    return build(256)


def vector_calls(kernel) -> list[str]:
    """Names of the arithmetic instructions of a kernel."""
    return [n for n in ("Muls", "Exp", "ShiftLeft", "Mins") if f"::{n}" in kernel.artifact.kernel_source]


def test_exp2_is_two_instructions():
    precise, fast = exp2_kernel({}), exp2_kernel({tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
    assert vector_calls(precise) == ["Muls", "Exp", "ShiftLeft", "Mins"] and vector_calls(fast) == ["Muls", "Exp"]
    x = np.linspace(-10, 10, 256, dtype=np.float32)
    for kernel, ulps in ((precise, 2), (fast, 12)):
        out = strict.run(kernel, {"X": x, "Y": np.zeros_like(x)}, text=False)
        np.testing.assert_allclose(out["Y"], np.exp2(x.astype(np.float64)), rtol=ulps * 2.0**-23)


def test_false_means_precise():
    precise = exp2_kernel({"tl.enable_fast_math": False})
    assert "ShiftLeft" in vector_calls(precise)


FAST = {"tl.enable_fast_math": True}
M = N = D = 64


def scores_kernel(use: str, dtype: str = "float16", configs=FAST):
    """S = Q @ K^T, which `use` says what becomes of."""

    @tilelang.jit(pass_configs=configs)
    def build():
        @T.prim_func
        def main(
            Q: T.Tensor((M, D), dtype), K: T.Tensor((N, D), dtype), P: T.Tensor((M, N), "float32"), R: T.Tensor((M,), "float32"),
            S: T.Tensor((M, N), "float32"),
        ):  # fmt: skip
            with T.Kernel(1) as _:
                q, k = T.alloc_shared((M, D), dtype), T.alloc_shared((N, D), dtype)
                s, p, top = T.alloc_fragment((M, N), "float32"), T.alloc_fragment((M, N), "float32"), T.alloc_fragment((M,), "float32")
                row = T.alloc_fragment((M,), "float32")
                T.copy(Q, q)
                T.copy(K, k)
                if use == "mask first":
                    for i, j in T.Parallel(M, N):
                        s[i, j] = T.if_then_else(i >= j, 0.0, -T.infinity("float32"))
                    T.gemm(q, k, s, transpose_B=True)
                else:
                    T.gemm(q, k, s, transpose_B=True, clear_accum=True)
                T.reduce_max(s, top, dim=1)
                if use == "stored":
                    for i, j in T.Parallel(M, N):
                        S[i, j] = s[i, j]
                if use == "compared":
                    for i, j in T.Parallel(M, N):
                        p[i, j] = T.if_then_else(s[i, j] > 0, T.exp(s[i, j]), 0.0)
                elif use == "product":
                    for i, j in T.Parallel(M, N):
                        p[i, j] = s[i, j] * 2.0
                elif use == "both":
                    for i, j in T.Parallel(M, N):
                        p[i, j] = s[i, j] * T.exp(s[i, j] - top[i])
                else:
                    for i, j in T.Parallel(M, N):
                        p[i, j] = T.exp(s[i, j] * 0.5 - top[i] * 0.5)
                if use == "maximum compared":
                    for i in T.Parallel(M):
                        top[i] = T.if_then_else(top[i] > 20.0, 1.0, 0.0)
                elif use != "maximum stored":
                    T.reduce_sum(s if use == "summed" else p, row, dim=1)
                T.copy(p, P)
                T.copy(top if use.startswith("maximum") else row, R)

        return main

    return build()


def narrowed(kernel) -> bool:
    """Does a float32 product leave L0C as float16?"""
    return "F322F16" in kernel.artifact.kernel_source


def score_tensors(dtype):
    rng = np.random.default_rng(3)
    q, k = (rng.normal(size=s).astype(dtype) for s in ((M, D), (N, D)))
    s = q.astype(np.float64) @ k.astype(np.float64).T
    zeros = np.zeros((M, N), np.float32)
    return {"Q": q, "K": k, "P": zeros, "R": np.zeros(M, np.float32), "S": zeros.copy()}, s


@pytest.mark.parametrize("use", ["softmax", "mask first"])
def test_scores_cross_as_float16(use):
    kernel = scores_kernel(use)
    assert narrowed(kernel) and not narrowed(scores_kernel(use, configs={}))
    arrays, s = score_tensors(np.float16)
    if use == "mask first":
        s = np.where(np.tri(M, dtype=bool), s, -np.inf)
    out = strict.run(kernel, arrays)
    top = s.max(1, keepdims=True)
    # Half a step of float16 for the score and for the maximum, at half the scale.
    step = np.spacing(np.abs(np.where(np.isinf(s), 0, s)).max().astype(np.float16)).astype(np.float64)
    np.testing.assert_allclose(out["P"], np.exp((s - top) / 2), rtol=np.expm1(step / 2) + 1e-5, atol=0)
    np.testing.assert_allclose(out["R"], np.exp((s - top) / 2).sum(1), rtol=np.expm1(step / 2) + 1e-5)


@pytest.mark.parametrize("use, dtype", [
    ("stored", "float16"), ("summed", "float16"), ("compared", "float16"), ("product", "float16"), ("both", "float16"),
    ("maximum stored", "float16"), ("maximum compared", "float16"), ("softmax", "bfloat16"), ("softmax", "float32"),
])  # fmt: skip
def test_what_is_more_than_a_score_stays_float32(use, dtype):
    """Its rounding might matter more than that of an exponential's argument, or float16 may be too small for it."""
    kernel = scores_kernel(use, dtype)
    assert not narrowed(kernel)
    arrays, s = score_tensors({"bfloat16": ml_dtypes.bfloat16}.get(dtype, dtype))
    out = strict.run(kernel, arrays, text=False)
    if use == "product":
        np.testing.assert_allclose(out["P"], 2 * s, rtol=1e-5, atol=1e-4)
    if use == "maximum stored":
        np.testing.assert_allclose(out["R"], s.max(1), rtol=1e-5, atol=1e-4)


def test_loops_that_use_a_tile_for_both():
    """What one iteration leaves in a tile is read by the next one."""

    @tilelang.jit(pass_configs=FAST)
    def build(carried):
        @T.prim_func
        def main(Q: T.Tensor((M, D), "float16"), K: T.Tensor((N, D), "float16"), P: T.Tensor((M, N), "float32")):
            with T.Kernel(1) as _:
                q, k = T.alloc_shared((M, D), "float16"), T.alloc_shared((N, D), "float16")
                s, p = T.alloc_fragment((M, N), "float32"), T.alloc_fragment((M, N), "float32")
                T.copy(Q, q)
                T.copy(K, k)
                T.clear(s)
                T.clear(p)
                for step in T.serial(3):
                    if carried:  # of the iteration before: scores that do not go into an exponential
                        for i, j in T.Parallel(M, N):
                            p[i, j] += s[i, j]
                    T.gemm(q, k, s, transpose_B=True, clear_accum=True)
                    for i, j in T.Parallel(M, N):
                        p[i, j] += T.exp(s[i, j] * 0.125)
                T.copy(p, P)

        return main

    arrays, s = score_tensors(np.float16)
    arrays = {name: arrays[name] for name in "QKP"}
    assert narrowed(build(False)) and not narrowed(build(True))
    out = strict.run(build(True), arrays)
    np.testing.assert_allclose(out["P"], 2 * s + 3 * np.exp(s / 8), rtol=1e-4, atol=1e-4)
