"""Loops in which products wait for results of the same iteration to leave L0C: such products run an iteration behind, or beside late ones."""

from functools import lru_cache

import numpy as np
import pytest
import strict
from test_chained_tiles import APART
from test_skew import half, skewed_loops

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

F16, F32 = "float16", "float32"
N = 16


@lru_cache(maxsize=None)
def chain(tiles, trips, how="constant"):
    """Y_t = sum of f16(Q_t @ A_k) @ B_k."""

    @T.prim_func
    def k(
        Q: T.Tensor((tiles * N, N), F16),
        A: T.Tensor((trips * N, N), F16),
        B: T.Tensor((trips * N, N), F16),
        n: T.int32,
        Y: T.Tensor((tiles * N, N), F32),
    ):
        with T.Kernel(tiles) as t:
            q, a, b, p = (T.alloc_shared((N, N), F16) for _ in range(4))
            s, o = T.alloc_fragment((N, N), F32), T.alloc_fragment((N, N), F32)
            T.copy(Q[t * N, 0], q)
            T.clear(o)
            for k in T.Pipelined(trips, num_stages=2) if how == "constant" else T.serial(n):
                if how == "left early":
                    if k * 3 > n * 2:
                        T.loop_break()
                T.copy(A[k * N, 0], a)
                T.gemm(q, a, s, clear_accum=True)
                T.copy(s, p)
                T.copy(B[k * N, 0], b)
                T.gemm(p, b, o)
                if how == "in front":
                    T.copy(p, q)
            T.copy(o, Y[t * N, 0])

    return k


def chain_data(tiles, trips):
    rng = np.random.default_rng(tiles + 10 * trips)
    return {x: (rng.standard_normal((m * N, N)) / 2).astype(np.float16) for x, m in (("Q", tiles), ("A", trips), ("B", trips))}


def check_chain(tiles, trips, n, how, text=False):
    x = chain_data(tiles, trips)
    compiled = tilelang.compile(chain(tiles, trips, how), pass_configs=APART)
    out = strict.run(compiled, {**x, "Y": np.zeros((tiles * N, N), np.float32)}, {"n": n}, text=text)
    q, y = x["Q"].astype(np.float64), np.zeros((tiles * N, N))
    for k in range(trips if how == "constant" else n):
        if how == "left early" and k * 3 > n * 2:
            break
        part = slice(k * N, k * N + N)
        p = half(q @ x["A"][part].astype(np.float64))
        y += p @ x["B"][part].astype(np.float64)
        if how == "in front":
            q = p
    # A product is rounded to float16 on either side of a tie, for each of N products of a step.
    np.testing.assert_allclose(out["Y"], y, rtol=0, atol=2.0**-10 * max(np.abs(y).max(), 1) * 4)
    return compiled


@pytest.mark.parametrize("tiles, trips", [(1, 2), (1, 5), (5, 3), (4, 4), (3, 1)])
def test_a_chain_of_two_products(two_cores, tiles, trips):
    compiled = check_chain(tiles, trips, 0, "constant", text=tiles == 5)
    assert skewed_loops(compiled)  # that over tiles, if these have one step


@pytest.mark.parametrize("how, late", [("run time", True), ("left early", False), ("in front", False)])
@pytest.mark.parametrize("n", [0, 1, 2, 6])
@pytest.mark.one_in(9)
def test_other_chains(two_cores, how, late, n):
    """Of a number of steps known at run time, left early, and whose result the next step begins with."""
    assert bool(skewed_loops(check_chain(3, 6, n, how))) == late


def test_flags_of_a_chain(two_cores, monkeypatch):
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    compiled = tilelang.compile(chain(3, 3), pass_configs=APART)
    arrays = {**chain_data(3, 3), "Y": np.zeros((3 * N, N), np.float32)}
    assert [x for x in strict.surviving_mutants(compiled, arrays, {"n": 0}) if "flag" in x] == []


@lru_cache(maxsize=None)
def states(tiles, trips, steps="constant"):
    """Linear attention: Y = f16(max(Q @ K^T, 0)) @ V + Q @ f16(H), H += K^T @ V, step by step."""

    @T.prim_func
    def k(
        Q: T.Tensor((tiles, trips * N, N), F16),
        K: T.Tensor((tiles, trips * N, N), F16),
        V: T.Tensor((tiles, trips * N, N), F16),
        n: T.int32,
        Y: T.Tensor((tiles, trips * N, N), F32),
        H: T.Tensor((tiles, N, N), F32),
    ):
        with T.Kernel(tiles) as t:
            q, a, v, p, h16 = (T.alloc_shared((N, N), F16) for _ in range(5))
            s, o, h = (T.alloc_fragment((N, N), F32) for _ in range(3))
            T.clear(h)
            for k in T.Pipelined(trips if steps == "constant" else n, num_stages=2):
                T.copy(Q[t, k * N, 0], q)
                T.copy(K[t, k * N, 0], a)
                T.copy(V[t, k * N, 0], v)
                T.gemm(q, a, s, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(N, N):
                    p[i, j] = T.max(s[i, j], 0.0)
                T.gemm(p, v, o, clear_accum=True)
                T.copy(h, h16)
                T.gemm(a, v, h, transpose_A=True)
                T.gemm(q, h16, o)
                T.copy(o, Y[t, k * N, 0])
            T.copy(h, H[t, 0, 0])

    return k


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "tiles, trips, steps, n",
    [(1, 5, "constant", 0), (5, 4, "constant", 0), (3, 5, "run time", 0), (3, 5, "run time", 1), (3, 5, "run time", 5)],
)
def test_states_between_products(two_cores, tiles, trips, steps, n):
    rng = np.random.default_rng(trips)
    x = {name: (rng.standard_normal((tiles, trips * N, N)) / 2).astype(np.float16) for name in "QKV"}
    zeros = {"Y": np.zeros((tiles, trips * N, N), np.float32), "H": np.zeros((tiles, N, N), np.float32)}
    compiled = tilelang.compile(states(tiles, trips, steps))
    out = strict.run(compiled, {**x, **zeros}, {"n": n}, text=steps == "constant" and tiles == 5)
    q, k, v = (x[name].astype(np.float64) for name in "QKV")
    y, h = np.zeros(q.shape), np.zeros((tiles, N, N))
    for i in range(trips if steps == "constant" else n):
        part = slice(i * N, i * N + N)
        scores = half(np.maximum(q[:, part] @ k[:, part].transpose(0, 2, 1), 0))
        y[:, part] = scores @ v[:, part] + q[:, part] @ half(h)
        h += k[:, part].transpose(0, 2, 1) @ v[:, part]
    np.testing.assert_allclose(out["Y"], y, rtol=0, atol=2.0**-10 * max(np.abs(y).max(), 1) * 4)
    np.testing.assert_allclose(out["H"], h, rtol=1e-5, atol=1e-4)
    assert skewed_loops(compiled)


@lru_cache(maxsize=None)
def last_of(tiles, trips):
    """Y_t = f16(max(Q_t @ A_k, 0)) @ B_k of the last step of tile t; 0 if it has none."""

    @T.prim_func
    def k(
        Q: T.Tensor((tiles * N, N), F16),
        A: T.Tensor((trips * N, N), F16),
        B: T.Tensor((trips * N, N), F16),
        n: T.Tensor((tiles,), "int32"),
        Z: T.Tensor((tiles, trips * N, N), F32),
        V: T.Tensor((tiles * N,), F32),
        Y: T.Tensor((tiles * N, N), F32),
    ):
        with T.Kernel(tiles) as t:
            q, a, p = T.alloc_shared((N, N), F16), T.alloc_shared((N, N), F16), T.alloc_shared((N, N), F16)
            s, o = T.alloc_fragment((N, N), F32), T.alloc_fragment((N, N), F32)
            b, v = T.alloc_shared((N, N), F16), T.alloc_fragment((N,), F32)
            T.copy(Q[t * N, 0], q)
            T.fill(v, 0.0)
            T.clear(o)
            for k in T.serial(n[t]):
                T.copy(A[k * N, 0], a)
                T.gemm(q, a, s, clear_accum=True)
                for i, j in T.Parallel(N, N):
                    s[i, j] = T.max(s[i, j], 0.0)
                T.copy(s, p)
                T.copy(B[k * N, 0], b)
                T.gemm(p, b, o, clear_accum=True)
                T.copy(o, Z[t, k * N, 0])
                T.reduce_max(s, v, dim=1, clear=False)
            T.copy(o, Y[t * N, 0])
            T.copy(v, V[t * N])

    return k


@pytest.mark.parametrize("steps", [[0, 2, 1, 0, 0, 3, 1], [1, 1, 0, 0, 2]])
def test_zeros_by_agreement(two_cores, steps):
    """Whether an accumulator has been cleared and nothing added since is known of one tile, not of two."""
    tiles, trips = len(steps), 3
    x = chain_data(tiles, trips)
    zeros = {
        "Z": np.zeros((tiles, trips * N, N), np.float32),
        "V": np.zeros(tiles * N, np.float32),
        "Y": np.ones((tiles * N, N), np.float32),
    }
    out = strict.run(tilelang.compile(last_of(tiles, trips)), {**x, **zeros, "n": np.array(steps, np.int32)}, text=False)
    y = np.zeros((tiles * N, N))
    for t, n in enumerate(steps):
        rows, part = slice(t * N, t * N + N), slice((n - 1) * N, n * N)
        if n:
            y[rows] = half(np.maximum(x["Q"][rows].astype(np.float64) @ x["A"][part].astype(np.float64), 0)) @ x["B"][part].astype(
                np.float64
            )
    np.testing.assert_allclose(out["Y"], y, rtol=0, atol=2.0**-10 * max(np.abs(y).max(), 1) * 4)
