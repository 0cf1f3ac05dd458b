"""`tl.enable_fast_math`: shorter sequences of element functions."""

import numpy as np
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
    return [n for n in ("Muls", "Exp", "Cast", "ShiftRight", "Mins") if f"::{n}" in kernel.artifact.kernel_source]


def test_exp2_is_two_instructions():
    precise, fast = exp2_kernel({}), exp2_kernel({tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
    assert set(vector_calls(precise)) > {"Muls", "Exp", "Cast"} and vector_calls(fast) == ["Muls", "Exp"]
    x = np.linspace(-10, 10, 256, dtype=np.float32)
    for kernel, ulps in ((precise, 2), (fast, 12)):
        out = strict.run(kernel, {"X": x, "Y": np.zeros_like(x)}, text=False)
        np.testing.assert_allclose(out["Y"], np.exp2(x.astype(np.float64)), rtol=ulps * 2.0**-23)


def test_false_means_precise():
    precise = exp2_kernel({"tl.enable_fast_math": False})
    assert "Cast" in vector_calls(precise)
