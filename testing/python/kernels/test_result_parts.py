"""Results of which L0C does not hold two are made and stored in parts; operands that something else needs whole stay whole."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.ir import For, statements
from tilelang_ascend.ir.functions import core_functions

F16, F32 = "float16", "float32"
D = 512
"""Columns of the result: 64 rows of them are all that L0C holds."""


def latent(steps, rows, keys, read_transposed):
    """Keys that are values, too, as in latent attention; `read_transposed`: values of which columns lie one behind the other."""

    @T.prim_func
    def k(
        Q: T.Tensor((rows, D), F16), K: T.Tensor((steps * keys, D), F16), V: T.Tensor((steps, D, keys), F16), O: T.Tensor((rows, D), F32)
    ):
        with T.Kernel(1):
            q, k_s = T.alloc_shared((rows, D), F16), T.alloc_shared((keys, D), F16)
            v_s = T.alloc_shared((D, keys), F16)
            s, p = T.alloc_fragment((rows, keys), F32), T.alloc_fragment((rows, keys), F16)
            o = T.alloc_fragment((rows, D), F32)
            T.copy(Q, q)
            T.clear(o)
            for step in T.Pipelined(steps, num_stages=2):
                T.copy(K[step * keys, 0], k_s)
                T.gemm(q, k_s, s, transpose_B=True, clear_accum=True)
                T.copy(s, p)
                for i, j in T.Parallel(rows, D):
                    o[i, j] *= 0.5
                if read_transposed:
                    T.copy(V[step, 0, 0], v_s)
                    T.gemm(p, v_s, o, transpose_B=True)
                else:
                    T.gemm(p, k_s, o)
            T.copy(o, O)

    return k


@pytest.mark.parametrize("steps, rows, read_transposed", [(3, 64, False), (4, 64, True), (3, 48, False)])
def test_latent_keys(steps, rows, read_transposed):
    keys, rng = 16, np.random.default_rng(steps)
    q, k, v = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((rows, D), (steps * keys, D), (steps, D, keys)))
    k *= np.float16(0.125)
    compiled = tilelang.compile(latent(steps, rows, keys, read_transposed))
    parts = [
        s for s in statements(core_functions(compiled.artifact.ascend_ir)["aic"].body) if isinstance(s, For) and s.loop_var.name == "part"
    ]
    assert parts
    given = {"Q": q, "K": k, "V": v, "O": np.zeros((rows, D), np.float32)}
    expected = np.zeros((rows, D), np.float32)
    for step in range(steps):
        here = k[step * keys : (step + 1) * keys].astype(np.float32)
        p = (q.astype(np.float32) @ here.T).astype(np.float16).astype(np.float32)
        expected = expected * 0.5 + p @ (v[step].astype(np.float32).T if read_transposed else here)
    np.testing.assert_allclose(strict.run(compiled, given)["O"], expected, rtol=1e-6, atol=1e-6)


def test_results_whose_stores_wait_for_each_other():
    """What makes one of them can stand together, what makes the other one not any more."""

    @T.prim_func
    def k(A: T.Tensor((192, 64), F16), B: T.Tensor((64, 256), F16), X: T.Tensor((192, 256), F32), Y: T.Tensor((192, 256), F32)):
        with T.Kernel(1):
            for step in T.serial(2):
                a, b = T.alloc_shared((96, 64), F16), T.alloc_shared((64, 256), F16)
                first, second = T.alloc_fragment((96, 256), F32), T.alloc_fragment((96, 256), F32)
                T.copy(A[step * 96, 0], a)
                T.copy(B, b)
                T.gemm(a, b, first, clear_accum=True)
                T.gemm(a, b, second, clear_accum=True)
                T.copy(first, X[step * 96, 0])
                T.copy(second, X[step * 96, 0])
                T.copy(second, Y[step * 96, 0])
                T.copy(first, Y[step * 96, 0])

    rng = np.random.default_rng(7)
    a, b = rng.integers(-2, 3, (192, 64)).astype(np.float16), rng.integers(-2, 3, (64, 256)).astype(np.float16)
    zero = np.zeros((192, 256), np.float32)
    out = strict.run(tilelang.compile(k, target="a2"), {"A": a, "B": b, "X": zero, "Y": zero.copy()}, text=False)
    product = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_array_equal(out["X"], product)
    np.testing.assert_array_equal(out["Y"], product)
