"""Tiles of one core whose values go from vector to cube cores and back: what the vector cores do at the end of one runs behind the beginning of the next."""

from functools import lru_cache

import numpy as np
import pytest
import strict
from test_chained_tiles import CHIP, lower
from test_skew import half

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.ir import AllocBuffer, For, const_int, statements
from tilelang_ascend.tile.uses import INDEPENDENT, lateness

F16, F32 = "float16", "float32"
N = 16
STEPS = ("constant", "of its own", "none for some", "data")


@lru_cache(maxsize=None)
def kernel(tiles, trips, steps="constant", variant=""):
    """Y_t = w_t * (Q_t @ S) + sum of f16(A_k * w_t / 4) @ B_k over the steps of tile t + d_t * R_t, w_t a number for each row."""

    @T.prim_func
    def k(
        Q: T.Tensor((tiles * N, N), F16),
        S: T.Tensor((N, N), F16),
        A: T.Tensor((trips * N, N), F16),
        B: T.Tensor((trips * N, N), F16),
        R: T.Tensor((tiles * N, N), F16),
        W: T.Tensor((tiles * N,), F32),
        D: T.Tensor((tiles,), F32),
        n: T.Tensor((tiles,), "int32"),
        Y: T.Tensor((tiles * N, N), F32),
    ):
        with T.Kernel(tiles) as t:
            q, s, b = T.alloc_shared((N, N), F16), T.alloc_shared((N, N), F16), T.alloc_shared((N, N), F16)
            a, a_local, r = T.alloc_shared((N, N), F16), T.alloc_fragment((N, N), F16), T.alloc_fragment((N, N), F16)
            o, w, d = T.alloc_fragment((N, N), F32), T.alloc_fragment((N,), F32), T.alloc_fragment((1,), F32)
            T.copy(W[t * N], w)
            T.clear(o)
            T.copy(Q[t * N, 0], q)
            T.copy(S, s)
            if variant != "no first product":
                T.gemm(q, s, o)
                for i, j in T.Parallel(N, N):
                    o[i, j] *= w[i]
            for k in T.Pipelined(number(t, trips, n, steps), num_stages=2):
                if variant == "left early":
                    if k >= n[t]:
                        T.loop_break()
                T.copy(A[k * N, 0], a)
                T.copy(a, a_local)
                for i, j in T.Parallel(N, N):
                    a_local[i, j] = a_local[i, j] * w[i] * 0.25
                T.copy(B[k * N, 0], b)
                T.gemm(a_local, b, o)
            d[0] = D[t]
            T.copy(R[t * N, 0], r)
            for i, j in T.Parallel(N, N):
                o[i, j] += r[i, j] * d[0]
            T.copy(o, Y[t * N, 0])
            if variant == "stored and read again":
                T.copy(Y[t * N, 0], o)
                for i, j in T.Parallel(N, N):
                    o[i, j] = o[i, j] + 1
                T.copy(o, Y[t * N, 0])

    return k


def number(t, trips, n, steps):
    """The number of steps of a tile."""
    if steps == "constant":
        return trips
    if steps == "data":
        return n[t]
    return (t * 3) % trips + 1 if steps == "of its own" else (t * 2) % trips


def arrays_of(tiles, trips):
    rng = np.random.default_rng(tiles + 100 * trips)
    out = {
        name: (rng.standard_normal((m * N, N)) / 2).astype(np.float16)
        for name, m in (("Q", tiles), ("S", 1), ("A", trips), ("B", trips), ("R", tiles))
    }
    out["W"], out["D"] = rng.standard_normal(tiles * N).astype(np.float32), rng.standard_normal(tiles).astype(np.float32)
    out["n"] = np.array([(t * 5 + 2) % (trips + 1) for t in range(tiles)], np.int32)
    out["Y"] = np.zeros((tiles * N, N), np.float32)
    return out


def expected(x, tiles, trips, steps, variant):
    """Y in float64, but for the rounding of the operands."""
    y = np.zeros((tiles, N, N))
    for t in range(tiles):
        rows = slice(t * N, t * N + N)
        w = x["W"][rows].astype(np.float64)[:, None]
        if variant != "no first product":
            y[t] = x["Q"][rows].astype(np.float64) @ x["S"].astype(np.float64) * w
        for k in range(int(number(t, trips, x["n"], steps))):
            if variant == "left early" and k >= x["n"][t]:
                break
            part = slice(k * N, k * N + N)
            y[t] += half(x["A"][part].astype(np.float32) * w.astype(np.float32) * np.float32(0.25)) @ x["B"][part].astype(np.float64)
        y[t] += x["R"][rows].astype(np.float64) * x["D"][t] + (variant == "stored and read again")
    return y.reshape(-1, N)


def late_tiles(lowered) -> bool:
    """Are some statements of the loop over tiles late?"""
    (stage,) = [ir for name, ir in lowered.stages if name == "skew_stages"]
    return any(isinstance(s, For) and INDEPENDENT in s.annotations and any(lateness(s)) for s in statements(stage.body))


def check(out, tiles, trips, steps="constant", variant=""):
    y = expected(arrays_of(tiles, trips), tiles, trips, steps, variant)
    # One unit of the last place of float16 where a product of two numbers is rounded on either side of a tie, for each of N products of a step.
    np.testing.assert_allclose(out["Y"], y, rtol=0, atol=2.0**-10 * max(np.abs(y).max(), 1) * 4)


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("tiles, trips", [(2, 3), (3, 2), (4, 4), (7, 3), (6, 6)])
@pytest.mark.one_in(12)
def test_tiles_of_a_core(two_cores, tiles, trips, steps):
    """One to four tiles a core, of any number of steps, none among them."""
    func = kernel(tiles, trips, steps)
    lowered = lower(func)
    out, _ = strict.once(func, CHIP, arrays_of(tiles, trips), lowered)
    check(out, tiles, trips, steps)
    assert late_tiles(lowered) == (tiles > 2)


@pytest.mark.parametrize("variant, late", [("no first product", True), ("left early", True), ("stored and read again", True)])
def test_other_tiles(two_cores, variant, late):
    func = kernel(5, 4, "of its own", variant)
    lowered = lower(func)
    out, _ = strict.once(func, CHIP, arrays_of(5, 4), lowered)
    check(out, 5, 4, "of its own", variant)
    assert late_tiles(lowered) == late


@pytest.mark.parametrize("steps, places", [("constant", 4), ("of its own", 4), ("data", None)])
def test_places_for_all_iterations_of_two_tiles(two_cores, steps, places):
    """Where few iterations are known to run, the workspace of the loop inside has a place for each."""
    (stage,) = [ir for name, ir in lower(kernel(5, 4, steps)).stages if name == "expand_workspaces"]
    shapes = [[const_int(n) for n in s.buffer.ty.shape] for s in statements(stage.body) if isinstance(s, AllocBuffer)]
    assert ([2, places, N, N] in shapes) == (places is not None)


def test_text_and_flags(two_cores, monkeypatch):
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    compiled, arrays = tilelang.compile(kernel(5, 3, "of its own")), arrays_of(5, 3)
    check(strict.run(compiled, arrays), 5, 3, "of its own")
    assert [x for x in strict.surviving_mutants(compiled, arrays) if "flag" in x] == []


@pytest.mark.parametrize("chip", ["Ascend910_9382", "Ascend950PR_957x"])
def test_chips(chip):
    func = kernel(3, 3, "of its own")
    out, _ = strict.once(func, chip, arrays_of(3, 3), lower(func, chip))
    check(out, 3, 3, "of its own")
