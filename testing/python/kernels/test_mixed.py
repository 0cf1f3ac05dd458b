"""Cube to vector: accumulators that element-wise code reads, on both vector cores of a block."""

import numpy as np
import programs
import pytest
import roads


def inputs(m, n, k, scale=0.25, seed=3):
    rng = np.random.default_rng(seed)
    a = ((rng.random((m, k)) * 2 - 1) * scale).astype(np.float16)
    b = ((rng.random((k, n)) * 2 - 1) * scale).astype(np.float16)
    return a, b, a.astype(np.float64) @ b.astype(np.float64)


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("m,n,k,bm,bn", [(1024, 1024, 512, 128, 256), (100, 129, 48, 32, 64), (33, 17, 16, 33, 32)])
def test_minicv(m, n, k, bm, bn, parallel):
    a, b, expected = inputs(m, n, k)
    empty = np.full((m, n), 7, np.float32)
    kernel = programs.minicv(m, n, k, bm, bn, parallel)
    out = roads.run(kernel, {"A": a, "B": b, "C": empty, "D": empty.copy()})
    limits = roads.tolerance("float32", k)
    assert np.isfinite(np.exp(expected)).all()
    np.testing.assert_allclose(out["C"], expected, **limits)
    # Relative error of exp(c) = absolute error of c, plus two units in the last place of exp itself.
    np.testing.assert_allclose(out["D"], np.exp(expected), rtol=limits["atol"] + limits["rtol"] * abs(expected).max() + 2**-22)


@pytest.mark.parametrize("m,n,k", [(1024, 640, 256), (100, 129, 65)])
def test_gemm_bias_leaky(m, n, k):
    a, b, product = inputs(m, n, k, scale=1.0)
    bias = np.random.default_rng(5).standard_normal(n).astype(np.float32)
    kernel = programs.gemm_bias_leaky(m, n, k)
    out = roads.run(kernel, {"A": a, "B": b, "bias": bias, "C": np.full((m, n), 7, np.float32)})
    x = product + bias
    np.testing.assert_allclose(out["C"], np.where(x >= 0, x, x * 0.001), **roads.tolerance("float32", k))


def test_minicv_every_flag_is_needed():
    a, b, _ = inputs(200, 200, 64)
    empty = np.zeros((200, 200), np.float32)
    assert roads.surviving_mutants(programs.minicv(200, 200, 64, 32, 32), {"A": a, "B": b, "C": empty, "D": empty.copy()}) == []


def test_epilogue_every_flag_is_needed():
    a, b, _ = inputs(200, 200, 64)
    arrays = {"A": a, "B": b, "bias": np.ones(200, np.float32), "C": np.zeros((200, 200), np.float32)}
    assert roads.surviving_mutants(programs.gemm_bias_leaky(200, 200, 64, 32, 32, 32), arrays) == []
