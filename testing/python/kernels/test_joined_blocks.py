"""Blocks that load the same operands are one with taller tiles, if that means the same: whatever else a block does with its rows."""

from functools import lru_cache

import attention_cases as cases
import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

F16, F32, I32 = "float16", "float32", "int32"
N, D = 16, 16
"""Rows of a tile and of a step; columns of a row."""
HEADS = 2


@lru_cache(maxsize=None)
def kernel(tiles, trips, variant=""):
    """o = the sum over k of f16(max(Q_t @ K_k^T, 0) / 8) @ V_k for each tile t of a head, and what `variant` adds to it."""
    length, keys = tiles * N - 3 * (variant == "not whole"), trips * N * (tiles if variant == "own keys" else 1)

    @T.prim_func
    def k(
        Q: T.Tensor((HEADS, length, D), F16),
        K: T.Tensor((HEADS, keys, D), F16),
        V: T.Tensor((HEADS, keys, D), F16),
        M: T.Tensor((tiles + 1,), I32),
        Y: T.Tensor((HEADS, length, D), F32),
        L: T.Tensor((HEADS, tiles * N), F32),
        W: T.Tensor((HEADS, tiles * N, D), F32),
    ):
        with T.Kernel(tiles, HEADS) as (t, h):
            q, a, b = T.alloc_shared((N, D), F16), T.alloc_shared((N, D), F16), T.alloc_shared((N, D), F16)
            s, p, o = T.alloc_fragment((N, N), F32), T.alloc_fragment((N, N), F16), T.alloc_fragment((N, D), F32)
            rows, columns, most = T.alloc_fragment((N,), F32), T.alloc_fragment((N,), F32), T.alloc_fragment((1,), F32)
            T.clear(o)
            T.clear(rows)
            T.clear(columns)
            if variant == "chosen":
                T.copy(Q[h, M[t] * N, 0], q)
            elif variant == "a name":
                first = t * N
                row = first + 0
                T.copy(Q[h, row, 0], q)
            else:
                T.copy(Q[h, t * N, 0], q)
            for k in T.Pipelined(t + 1 if variant == "causal" else M[tiles] if variant == "run time" else trips, num_stages=2):
                T.copy(K[h, ((t * trips if variant == "own keys" else 0) + k) * N, 0], a)
                T.gemm(q, a, s, transpose_B=True, clear_accum=True)
                if variant == "left early":
                    if k > M[0]:
                        break
                if variant == "masked":
                    for i, j in T.Parallel(N, N):
                        s[i, j] = T.if_then_else(t * N + i >= k * N + j, s[i, j], 0)
                if variant == "numbered":
                    for i, j in T.Parallel(N, N):
                        s[i, j] += t
                if variant == "quantised":
                    T.reduce_absmax(s, rows, dim=1)
                    T.reduce_max(rows, most, dim=0)
                    for i, j in T.Parallel(N, N):
                        s[i, j] = T.round(s[i, j] * 8 / most[0])
                for i, j in T.Parallel(N, N):
                    p[i, j] = T.max(s[i, j], 0.0) * 0.125
                if variant == "sums of rows":
                    T.reduce_sum(s, rows, dim=1, clear=False)
                if variant == "sums of columns":
                    T.reduce_sum(s, columns, dim=0, clear=False)
                T.copy(V[h, k * N, 0], b)
                T.gemm(p, b, o)
                if variant == "through memory":
                    T.copy(o, W[h, t * N, 0])
                    T.copy(W[h, t * N, 0], o)
            if variant == "upside down":
                for i, j in T.Parallel(N, D):
                    Y[h, t * N + N - 1 - i, j] = o[i, j]
            elif variant == "neighbours":
                for i, j in T.Parallel(N, D):
                    Y[h, t * N + i, j] = o[(i + 1) % N, j]
            elif variant == "added":
                T.atomic_add(Y[h, t * N, 0], o)
            elif variant == "rows behind":
                for i, j in T.Parallel(N, D):
                    if t * N + i < M[0]:
                        Y[h, t * N + i, j] = o[i, j]
            elif variant == "one of its own":
                T.copy(o, Y[h, t * N, 0])
                L[h, t * N] = o[0, 0]
            else:
                T.copy(o, Y[h, t * N, 0])
            if variant == "sums of rows":
                for i in T.Parallel(N):
                    L[h, t * N + i] = rows[i]
            if variant == "sums of columns":
                T.copy(columns, L[h, t * N])

    return k


def arrays_of(tiles, trips, variant):
    rng = np.random.default_rng(tiles + 10 * trips)
    length, keys = tiles * N - 3 * (variant == "not whole"), trips * N * (tiles if variant == "own keys" else 1)
    q, a, b = ((rng.standard_normal((HEADS, n, D)) / 2).astype(np.float16) for n in (length, keys, keys))
    out = {"Y": (HEADS, length, D), "L": (HEADS, tiles * N), "W": (HEADS, tiles * N, D)}
    table = np.append(rng.permutation(tiles), min(3, trips)).astype(np.int32)
    return {"Q": q, "K": a, "V": b, "M": table, **{name: np.zeros(shape, np.float32) for name, shape in out.items()}}


def joined(compiled) -> bool:
    return any("neighbouring blocks" in note for note in compiled.artifact.notes)


JOINED = ("", "not whole", "run time", "left early", "masked", "sums of rows", "added", "rows behind", "through memory", "a name")
APART = ("own keys", "causal", "chosen", "numbered", "quantised", "sums of columns", "upside down", "neighbours", "one of its own")


@pytest.mark.parametrize("variant", JOINED + APART)
@pytest.mark.one_in(6)
def test_what_else_blocks_do(two_cores, variant):
    """Every stage means what the source says; what cannot be divided again is not joined."""
    tiles, trips = 6, 6
    compiled = tilelang.compile(kernel(tiles, trips, variant))
    assert joined(compiled) == (variant in JOINED)
    strict.run(compiled, arrays_of(tiles, trips, variant), text=variant in ("", "masked"))


@pytest.mark.parametrize("tiles, trips", [(4, 3), (5, 2), (7, 4), (3, 1)])
@pytest.mark.parametrize("variant", ["", "not whole"])
@pytest.mark.one_in(2)
def test_numbers_of_blocks(two_cores, tiles, trips, variant):
    """The last block of an odd number has rows that nobody stores."""
    compiled, arrays = tilelang.compile(kernel(tiles, trips, variant)), arrays_of(tiles, trips, variant)
    assert joined(compiled) or trips == 1
    out = strict.run(compiled, arrays, text=False)
    q, a, b = (arrays[x].astype(np.float64) for x in ("Q", "K", "V"))
    p = (np.maximum(q @ a.transpose(0, 2, 1), 0) / 8).astype(np.float16)
    # A product is rounded to float16 on either side of a tie, for each of its keys.
    np.testing.assert_allclose(out["Y"], p.astype(np.float64) @ b, rtol=0, atol=2.0**-10 * 4)


@pytest.mark.parametrize("chip", ["a3", "a5"])
def test_other_chips(two_cores, chip):
    """The fixture is about A2: the grid is large enough for all cores of these."""
    tiles = 96
    compiled = tilelang.compile(kernel(tiles, 3), target=chip)
    assert joined(compiled)
    strict.run(compiled, arrays_of(tiles, 3, ""), text=False)


def test_no_flag_can_be_left_out(two_cores, monkeypatch):
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    compiled, arrays = tilelang.compile(kernel(8, 3)), arrays_of(8, 3, "")
    assert joined(compiled)
    assert strict.surviving_mutants(compiled, arrays) == []


def test_one_block_a_core_stays():
    """Half of the cores would have nothing to do."""
    assert not joined(tilelang.compile(kernel(4, 5)))


def test_it_can_be_switched_off(two_cores):
    assert not joined(tilelang.compile(kernel(6, 5), pass_configs={"tl.coarsen_blocks": False}))


@pytest.mark.parametrize("batch, pages, waits", [(24, False, True), (24, True, True), (1, False, False)])
def test_cores_wait_for_memory_together(batch, pages, waits):
    """Keys that L2 does not hold come from HBM for all cores at the same time, whatever each takes of them: of latent attention on A5, which multiplies longer than it loads
    otherwise, blocks are only worked on together where that is so. Of pages, data says how many each takes."""
    if pages:
        func = cases.kernel_of("mla/paged.py", "mla_paged")(batch, 128, batch * 128, 64, 128, bN=64, bH=64)
    else:
        func = cases.kernel_of("mla/decode.py", "mla_decode")(batch, 128, 8192, bN=64, bH=64)
    compiled = tilelang.compile(func, target="a5")
    assert any("load the same operands" in note for note in compiled.artifact.notes) == waits
