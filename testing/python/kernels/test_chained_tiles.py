"""Tiles of one core follow each other without a pause: late statements of one beside early ones of the next."""

from functools import lru_cache

import numpy as np
import pytest
import strict
from test_skew import half

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.arch import get_chip
from tilelang_ascend.ir import For, statements
from tilelang_ascend.tile.uses import CHAINED
from tilelang_ascend.transform import pipeline

F16, F32 = "float16", "float32"
LOG2E = 1.44269504
N = 16
CHIP = "Ascend910B1"
APART = {"tl.coarsen_blocks": False}
"""These blocks load the same: two of them would be one."""

OWN = ("run time", "of its own", "few of its own")


def steps(t, trips, n, variant):
    """The number of steps of a tile where it has a variable one."""
    return n[0] if variant == "run time" else (t * 3) % trips + (2 if variant == "of its own" else 1)


@lru_cache(maxsize=None)
def kernel(tiles, trips, variant=""):
    """Y_t = o / (1 + l): of tile t and each k, s = max(Q_t @ A_k^T, 0) / 8 + m, o = o / 2 + f16(s) @ B_k, l the sum over all s, and m what a row of s
    was at most, a sixteenth of it. Q is wanted early only, l on both sides, o late only."""

    @T.prim_func
    def k(
        Q: T.Tensor((tiles * N, N), F16),
        A: T.Tensor(((trips + 2 * (variant in OWN)) * N, N), F16),
        B: T.Tensor(((trips + 2 * (variant in OWN)) * N, N), F16),
        n: T.Tensor((1,), "int32"),
        Y: T.Tensor((tiles * N, N), F32),
        L: T.Tensor((tiles * N,), F32),
    ):
        with T.Kernel(tiles) as t:
            q, a, b = T.alloc_shared((N, N), F16), T.alloc_shared((N, N), F16), T.alloc_shared((N, N), F16)
            p, s, o = T.alloc_fragment((N, N), F16), T.alloc_fragment((N, N), F32), T.alloc_fragment((N, N), F32)
            m, l, total = T.alloc_fragment((N,), F32), T.alloc_fragment((N,), F32), T.alloc_fragment((N,), F32)
            T.copy(Q[t * N, 0], q)
            T.fill(o, 0.0)
            T.fill(m, 0.0)
            T.fill(l, 0.0)
            for k in T.serial(steps(t, trips, n, variant)) if variant in OWN else T.Pipelined(trips, num_stages=2):
                T.copy(A[k * N, 0], a)
                T.clear(s)
                T.gemm(q, a, s, transpose_B=True)
                for i, j in T.Parallel(N, N):
                    s[i, j] = T.max(s[i, j], 0.0) * 0.125 + m[i]
                T.reduce_max(s, m, dim=1)
                T.reduce_sum(s, total, dim=1)
                for i in T.Parallel(N):
                    m[i] = m[i] * 0.0625
                    l[i] = l[i] + total[i]
                T.copy(s, p)
                if variant != "sums":
                    for i, j in T.Parallel(N, N):
                        o[i, j] *= 0.5
                T.copy(B[k * N, 0], b)
                T.gemm(p, b, o)
                if variant == "queries twice":
                    T.gemm(q, b, o)
            for i, j in T.Parallel(N, N):
                o[i, j] = o[i, j] / (1 + l[i])
            T.copy(o, Y[t * N, 0])
            if variant == "one more product":
                T.copy(o, p)
                T.gemm(p, q, s, clear_accum=True)
                T.copy(s, Y[t * N, 0])
            T.copy(l, L[t * N])

    return k


def expected(q, a, b, trips, variant=""):
    """(Y, L) in float64. trips: of all tiles, or of each."""
    tiles = len(q) // N
    if not isinstance(trips, int):
        parts = [expected(q[t * N : t * N + N], a, b, n, variant) for t, n in enumerate(trips)]
        return tuple(map(np.concatenate, zip(*parts)))
    q = q.astype(np.float64).reshape(tiles, N, N)
    o, m, length = np.zeros((tiles, N, N)), np.zeros((tiles, N)), np.zeros((tiles, N))
    for k in range(trips):
        s = np.maximum(q @ a[k * N : k * N + N].astype(np.float64).T, 0) * 0.125 + m[:, :, None]
        m, length = s.max(axis=2) * 0.0625, length + s.sum(axis=2)
        values = b[k * N : k * N + N].astype(np.float64)
        o = o * (1 if variant == "sums" else 0.5) + half(s) @ values + (q @ values if variant == "queries twice" else 0)
    y = o / (1 + length[:, :, None])
    if variant == "one more product":
        y = half(y) @ q
    return y.reshape(-1, N), length.reshape(-1)


def data(tiles, trips):
    rng = np.random.default_rng(tiles + 100 * trips)
    return [(rng.standard_normal((n * N, N)) / 2).astype(np.float16) for n in (tiles, trips, trips)]


def arrays_of(tiles, trips, variant=""):
    q, a, b = data(tiles, trips + 2 * (variant in OWN))
    return {
        "Q": q,
        "A": a,
        "B": b,
        "n": np.array([3], np.int32),
        "Y": np.zeros((tiles * N, N), np.float32),
        "L": np.zeros(tiles * N, np.float32),
    }


def lower(func, chip=CHIP):
    return pipeline.lower(func, get_chip(chip), options=pipeline.Options(coarsen=False), keep_stages=True)


def chained(lowered) -> bool:
    (stage,) = [ir for name, ir in lowered.stages if name == "chain_tiles"]
    return any(isinstance(s, For) and CHAINED in s.annotations for s in statements(stage.body))


def check(out, tiles, trips, variant=""):
    number = trips if variant not in OWN else [int(steps(t, trips, out["n"], variant)) for t in range(tiles)]
    y, length = expected(*data(tiles, trips + 2 * (variant in OWN)), number, variant)
    # s is rounded to float16 on either side of a tie: one unit of its last place, for each of N products.
    np.testing.assert_allclose(out["Y"], y, rtol=0, atol=2.0**-10 * max(np.abs(y).max(), 1) * 4)
    np.testing.assert_allclose(out["L"], length, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("tiles, trips", [(3, 2), (4, 3), (7, 4), (6, 5), (3, 6), (4, 7), (4, 1), (2, 4)])
@pytest.mark.one_in(6)
def test_tiles_of_a_core(two_cores, tiles, trips):
    """One to four tiles a core, as many on both of them or not, of any number of iterations."""
    func = kernel(tiles, trips)
    lowered = lower(func)
    out, _ = strict.once(func, CHIP, arrays_of(tiles, trips), lowered)
    check(out, tiles, trips)
    assert chained(lowered) == (tiles > 2 and trips > 1)


@pytest.mark.parametrize(
    "variant, fits", [("sums", False), ("queries twice", True), ("one more product", False), ("run time", False), ("few of its own", True)]
)
@pytest.mark.one_in(2)
def test_what_is_in_the_way(two_cores, variant, fits):
    """What both halves read has a version for each tile under way. Products that end behind the loop, and loops without any iteration, are in the way."""
    func = kernel(5, 4, variant)
    lowered = lower(func)
    out, _ = strict.once(func, CHIP, arrays_of(5, 4, variant), lowered)
    check(out, 5, 4, variant)
    assert chained(lowered) == fits


@pytest.mark.parametrize("tiles, trips", [(7, 5), (6, 7), (3, 4)])
def test_numbers_of_steps_of_their_own(two_cores, tiles, trips):
    """Tiles need not have as many steps as the one before, only two or more, so that never more than two are under way."""
    func = kernel(tiles, trips, "of its own")
    lowered = lower(func)
    out, _ = strict.once(func, CHIP, arrays_of(tiles, trips, "of its own"), lowered)
    check(out, tiles, trips, "of its own")
    assert chained(lowered)


def test_flags_of_numbers_of_steps_of_their_own(two_cores, monkeypatch):
    """Loads of one tile and the next wait for each other: which of two places a tile has is known at run time only."""
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    variant, tiles, trips = "of its own", 5, 4
    compiled, arrays = tilelang.compile(kernel(tiles, trips, variant), pass_configs=APART), arrays_of(tiles, trips, variant)
    check(strict.run(compiled, arrays), tiles, trips, variant)
    assert [x for x in strict.surviving_mutants(compiled, arrays) if "flag" in x] == []


@lru_cache(maxsize=None)
def in_turn(tiles, trips):
    """Steps of all tiles take turns with two blocks of a tensor, of whose number the compiler knows nothing: Y_t = sum max(Q_t @ A_k%2^T, 0) @ A_k%2."""
    blocks = T.dynamic("blocks")

    @T.prim_func
    def k(Q: T.Tensor((tiles * N, N), F16), A: T.Tensor((blocks, N, N), F16), Y: T.Tensor((tiles * N, N), F32)):
        with T.Kernel(tiles) as t:
            q, a, b = T.alloc_shared((N, N), F16), T.alloc_shared((N, N), F16), T.alloc_shared((N, N), F16)
            p, s, o = T.alloc_fragment((N, N), F16), T.alloc_fragment((N, N), F32), T.alloc_fragment((N, N), F32)
            T.copy(Q[t * N, 0], q)
            T.fill(o, 0.0)
            for k in T.serial(trips):
                T.copy(A[k % 2, 0, 0], a)
                T.gemm(q, a, s, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(N, N):
                    p[i, j] = T.max(s[i, j], 0.0) * 0.125
                for i, j in T.Parallel(N, N):
                    o[i, j] *= 0.5
                T.copy(A[k % 2, 0, 0], b)
                T.gemm(p, b, o)
            T.copy(o, Y[t * N, 0])

    return k


def test_remainders_that_number_blocks_of_a_tensor(two_cores):
    """They are no versions of it."""
    tiles, trips = 5, 6
    func = in_turn(tiles, trips)
    assert chained(lower(func))
    rng = np.random.default_rng(5)
    q, a = ((rng.standard_normal(shape) / 2).astype(np.float16) for shape in ((tiles * N, N), (2, N, N)))
    out = strict.run(
        tilelang.compile(func, pass_configs=APART), {"Q": q, "A": a, "Y": np.zeros((tiles * N, N), np.float32)}, {"blocks": 2}, text=False
    )
    y = np.zeros((tiles * N, N))
    for k in range(trips):
        y = y * 0.5 + half(np.maximum(q.astype(np.float64) @ a[k % 2].astype(np.float64).T, 0) * 0.125) @ a[k % 2].astype(np.float64)
    np.testing.assert_allclose(out["Y"], y, rtol=0, atol=2.0**-10 * np.abs(y).max() * 4)


@lru_cache(maxsize=None)
def of_own_length(tiles, rows, most):
    """Tiles whose numbers of steps are data; q is read by two products of a step, p by one of a later iteration."""

    @T.prim_func
    def k(
        Q: T.Tensor((tiles * rows, 32), F16), A: T.Tensor((most * 32, 32), F16), B: T.Tensor((most * 32, 32), F16),
        n: T.Tensor((tiles,), "int32"), Y: T.Tensor((tiles * rows, 32), F32), Z: T.Tensor((tiles * rows, 32), F32),
    ):  # fmt: skip
        with T.Kernel(tiles) as t:
            q, a, b = T.alloc_shared((rows, 32), F16), T.alloc_shared((32, 32), F16), T.alloc_shared((32, 32), F16)
            p, s = T.alloc_shared((rows, 32), F16), T.alloc_fragment((rows, 32), F32)
            e, o = T.alloc_fragment((rows, 32), F32), T.alloc_fragment((rows, 32), F32)
            T.copy(Q[t * rows, 0], q)
            T.fill(e, 1.0)
            T.fill(o, -1.0)
            T.fill(s, 0.0)
            for k in T.serial(n[t]):
                T.copy(A[k * 32, 0], a)
                T.gemm(q, a, s, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(rows, 32):
                    s[i, j] = T.max(T.min(s[i, j] * 0.0625, 4.0), -4.0)
                for i, j in T.Parallel(rows, 32):
                    p[i, j] = T.cast(e[i, j] * 0.5, F16)
                T.copy(B[k * 32, 0], b)
                T.copy(A[(k + 1) % most * 32, 0], a)
                T.gemm(q, a, s, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(rows, 32):
                    s[i, j] = T.max(T.min(s[i, j] * 0.0625, 4.0), -4.0)
                T.gemm(p, b, o, clear_accum=True)
                for i, j in T.Parallel(rows, 32):
                    o[i, j] = T.max(T.min(o[i, j] * 0.25, 4.0), -4.0)
            T.copy(o, Y[t * rows, 0])
            T.copy(s, Z[t * rows, 0])

    return k


@pytest.mark.parametrize("lengths", [(2, 0, 3, 0, 4), (1, 1, 0, 0, 6)])
def test_tiles_without_steps_between_others(two_cores, lengths):
    """What the steps of one tile wait for orders nothing of a tile without any: a load into `q` has to wait for products of the tile before that."""
    rng, rows, most = np.random.default_rng(3), 16, 7
    q, a, b = (rng.standard_normal((n, 32)).astype(np.float16) for n in (len(lengths) * rows, most * 32, most * 32))
    arrays = {
        "Q": q,
        "A": a,
        "B": b,
        "n": np.array(lengths, np.int32),
        "Y": np.zeros(q.shape, np.float32),
        "Z": np.zeros(q.shape, np.float32),
    }
    out, _ = strict.once(of_own_length(len(lengths), rows, most), CHIP, arrays)
    for t, steps in enumerate(lengths):
        here = slice(t * rows, (t + 1) * rows)
        last = np.full((rows, 32), 0.5) @ b[(steps - 1) * 32 : steps * 32].astype(np.float64) if steps else None
        want = np.full((rows, 32), -1.0) if last is None else np.clip(last * 0.25, -4, 4)
        np.testing.assert_allclose(out["Y"][here], want, rtol=0, atol=1e-5)


def test_text_and_flags(two_cores, monkeypatch):
    """The emitted text does the same, and no flag may be left out. One core has a tile more than the other."""
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    tiles, trips = 5, 4
    compiled, arrays = tilelang.compile(kernel(tiles, trips), pass_configs=APART), arrays_of(tiles, trips)
    check(strict.run(compiled, arrays), tiles, trips)
    assert strict.surviving_mutants(compiled, arrays) == []


def simulated(tiles, trips) -> float:
    """us without launch overhead, time only."""
    arrays = arrays_of(tiles, trips)
    report = tilelang.compile(kernel(tiles, trips), pass_configs=APART).simulate(*arrays.values(), values=False, checks=False)
    return report.simulated_us - report.run.launch_us


@pytest.mark.parametrize("trips", [4, 7])
def test_the_next_tile_does_not_wait_for_the_one_before(trips):
    """Of three tiles, only the first has to wait for most of its way there and back, however many versions their steps share."""
    cores = get_chip(CHIP).num_aic
    one, three = simulated(cores, trips), simulated(3 * cores, trips)
    way = one - (simulated(cores, 2 * trips) - one)
    assert way > 0
    assert three < 3 * one - way, (one, three, way)


def causal(chip, fast, length=512, dim=32, block=32):
    """(compiled causal attention, of one head, its inputs and outputs, the result in float64)."""
    scale = LOG2E / np.sqrt(dim)

    @T.prim_func
    def k(
        Q: T.Tensor((length, dim), F16), K: T.Tensor((length, dim), F16), V: T.Tensor((length, dim), F16), O: T.Tensor((length, dim), F32)
    ):  # fmt: skip
        with T.Kernel(length // block) as t:
            q, k_s, v_s = T.alloc_shared((block, dim), F16), T.alloc_shared((block, dim), F16), T.alloc_shared((block, dim), F16)
            s, p = T.alloc_fragment((block, block), F32), T.alloc_fragment((block, block), F16)
            o, m, before = T.alloc_fragment((block, dim), F32), T.alloc_fragment((block,), F32), T.alloc_fragment((block,), F32)
            total, weights = T.alloc_fragment((block,), F32), T.alloc_fragment((block,), F32)
            T.copy(Q[t * block, 0], q)
            T.clear(o)
            T.clear(weights)
            T.fill(m, -T.infinity(F32))
            for k in T.Pipelined(t + 1, num_stages=2):
                T.copy(K[k * block, 0], k_s)
                for i, j in T.Parallel(block, block):
                    s[i, j] = T.if_then_else(t * block + i >= k * block + j, 0, -T.infinity(F32))
                T.gemm(q, k_s, s, transpose_B=True)
                T.copy(m, before)
                T.reduce_max(s, m, dim=1, clear=False)
                for i, j in T.Parallel(block, block):
                    s[i, j] = T.exp2(s[i, j] * scale - m[i] * scale)
                T.reduce_sum(s, total, dim=1)
                for i in T.Parallel(block):
                    weights[i] = weights[i] * T.exp2(before[i] * scale - m[i] * scale) + total[i]
                T.copy(s, p)
                for i, j in T.Parallel(block, dim):
                    o[i, j] *= T.exp2(before[i] * scale - m[i] * scale)
                T.copy(V[k * block, 0], v_s)
                T.gemm(p, v_s, o)
            for i, j in T.Parallel(block, dim):
                o[i, j] /= weights[i]
            T.copy(o, O[t * block, 0])

    rng = np.random.default_rng(1)
    q, keys, v = (rng.standard_normal((length, dim)).astype(np.float16) for _ in range(3))
    scores = np.where(np.tri(length, dtype=bool), q.astype(np.float64) @ keys.astype(np.float64).T * scale, -np.inf)
    p = np.exp2(scores - scores.max(1, keepdims=True))
    compiled = tilelang.compile(k, target=chip, pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: fast})
    arrays = {"Q": q, "K": keys, "V": v, "O": np.zeros((length, dim), np.float32)}
    return compiled, arrays, p @ v.astype(np.float64) / p.sum(1, keepdims=True)


@pytest.mark.parametrize("chip, fast", [(CHIP, False), ("a5", True)])
@pytest.mark.one_in(2)
def test_causal_attention(chip, fast, monkeypatch):
    """Long steps, of which the last one of a tile may have fewer keys; a tile has three of them or more, some of which may have none."""
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    spec = get_chip(chip)
    cores = spec.num_aic
    object.__setattr__(spec, "num_aic", 3)
    try:
        compiled, arrays, expected = causal(chip, fast, length=512)
        lowered = pipeline.lower(compiled.artifact.tile_ir, spec, keep_stages=True)
        assert chained(lowered) and any("worked on together" in note for note in compiled.artifact.notes)
        got = strict.run(compiled, arrays, text=not fast)["O"]
        np.testing.assert_allclose(got, expected, rtol=0, atol=4e-3 if fast else 2e-3)
    finally:
        object.__setattr__(spec, "num_aic", cores)
