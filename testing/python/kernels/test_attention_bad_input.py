"""Attention-like kernels on input nobody hoped for: no queries, no keys, fewer keys than a tile, tables of pages, keys, slots and experts that lie.

A kernel ends, writes nothing outside of its tensors, and reads what lies outside of them as zero. Rows without a key are 0 / 0 where the kernel divides.
"""

from functools import lru_cache

import attention_cases as cases
import numpy as np
import pytest
import strict
import torch

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

CHIPS = pytest.mark.parametrize("chip", ["a2", pytest.param("a5", marks=pytest.mark.slow)])
TILES = {"bM": 16, "bN": 16}
F16, F32 = "float16", "float32"
N = 16
WRONG = [-1, 7, 9999, -(2**31), 2**31 - 1]
"""Numbers that are no rows of a table of 7."""


def arrays_of(case):
    return {name: cases.to_numpy(x).copy() for name, x in case[1].items()}


def launched(kernel, arrays, scalars=None):
    """Results, with all checks; `strict.run` validates every pass, too, for which one launch of a kernel is enough."""
    out, result = strict.launch(kernel.artifact, strict.entries_of(kernel.artifact), arrays, scalars or {})
    assert not result.hazards, "\n".join(h.text() for h in result.hazards[:3])
    return out


def close(got, expected):
    np.testing.assert_allclose(got, expected, rtol=2e-3, atol=2e-3)


# ---- lengths -------------------------------------------------------------------------------------------------------

LENGTHS = {
    "no queries": lambda: cases.forward(1, 1, 0, 32, seq_kv=40, **TILES),
    "no keys beside a sink": lambda: cases.forward(1, 1, 5, 32, seq_kv=0, causal=True, sinks=True, **TILES),
    "fewer keys than a tile": lambda: cases.forward(1, 1, 20, 32, seq_kv=5, **TILES),
    "fewer of both, causal": lambda: cases.forward(1, 1, 3, 32, seq_kv=5, causal=True, **TILES),
    "a window longer than the keys": lambda: cases.forward(1, 1, 3, 32, seq_kv=5, causal=True, window=64, sinks=True, **TILES),
    "no sequence has anything": lambda: cases.ragged([0, 0], [0, 0], 1, 32, **TILES),
    "queries without keys": lambda: cases.ragged([4, 5], [0, 3], 1, 32, **TILES),
    "fewer keys than a page": lambda: cases.paged([3, 17, 1], 2, 1, 32, 32, bN=16),
    "parts of one key": lambda: cases.split_kv(1, 2, 1, 3, 32, 3, bN=16),
    "no steps of a state": lambda: cases.linear_attention(1, 0, 1, 32, 16, chunk=16, bK=16, bV=16),
    "no tokens for experts": lambda: cases.expert_up([0, 0], 32, 32, block=16, bN=16, bK=16),
    "no rows of three products": lambda: cases.three_products(0, 16, 16, 16, bK=16, **TILES),
    "nothing to sum up": lambda: cases.three_products(5, 16, 0, 16, bK=16, **TILES),
}


@CHIPS
@pytest.mark.parametrize("name", LENGTHS)
@pytest.mark.one_in(6)
def test_short_lengths(name, chip):
    torch.manual_seed(0)
    cases.check(LENGTHS[name](), lambda kernel, arrays: launched(tilelang.compile(kernel, target=chip), arrays))


@lru_cache(maxsize=None)
def attention(chip):
    """Queries and keys of any number; rows without a key are zero."""
    n_q, n_kv = T.dynamic("n_q"), T.dynamic("n_kv")

    @T.prim_func
    def main(
        Q: T.Tensor((n_q, N), F16), K: T.Tensor((n_kv, N), F16), V: T.Tensor((n_kv, N), F16), Y: T.Tensor((n_q, N), F32)
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(n_q, N), threads=128) as bx:
            q, k, v = T.alloc_shared((N, N), F16), T.alloc_shared((N, N), F16), T.alloc_shared((N, N), F16)
            s, p, o = T.alloc_fragment((N, N), F32), T.alloc_fragment((N, N), F16), T.alloc_fragment((N, N), F32)
            most, before, total, part = (T.alloc_fragment((N,), F32) for _ in range(4))
            T.copy(Q[bx * N, 0], q)
            T.clear(o)
            T.clear(total)
            T.fill(most, -T.infinity(F32))
            for t in T.Pipelined(T.ceildiv(n_kv, N), num_stages=2):
                T.copy(K[t * N, 0], k)
                for i, j in T.Parallel(N, N):
                    s[i, j] = T.if_then_else(t * N + j < n_kv, 0.0, -T.infinity(F32))
                T.gemm(q, k, s, transpose_B=True)
                T.copy(most, before)
                T.reduce_max(s, most, dim=1, clear=False)
                for i, j in T.Parallel(N, N):
                    s[i, j] = T.exp2(s[i, j] - most[i])
                for i in T.Parallel(N):
                    before[i] = T.exp2(before[i] - most[i])
                T.reduce_sum(s, part, dim=1)
                T.copy(s, p)
                for i in T.Parallel(N):
                    total[i] = total[i] * before[i] + part[i]
                for i, j in T.Parallel(N, N):
                    o[i, j] *= before[i]
                T.copy(V[t * N, 0], v)
                T.gemm(p, v, o)
            for i, j in T.Parallel(N, N):
                o[i, j] = T.if_then_else(total[i] == 0, 0.0, o[i, j] / total[i])
            T.copy(o, Y[bx * N, 0])

    return tilelang.compile(main, target=chip)


@pytest.mark.one_in(3)
@CHIPS
@pytest.mark.parametrize("n_q, n_kv", [(0, 0), (0, 20), (20, 0), (1, 1), (5, 3), (17, 50)])
def test_lengths_of_the_launch(n_q, n_kv, chip):
    rng = np.random.default_rng(n_q + n_kv)
    q, k, v = (rng.standard_normal((n, N)).astype(np.float16) for n in (n_q, n_kv, n_kv))
    arrays = {"Q": q, "K": k, "V": v, "Y": np.full((n_q, N), 7, np.float32)}
    out = (strict.run if n_q == 17 else launched)(attention(chip), arrays, {"n_q": n_q, "n_kv": n_kv})["Y"]
    weights = np.exp2(q.astype(np.float64) @ k.T.astype(np.float64))
    weights = weights / weights.sum(1, keepdims=True) if n_kv else weights
    wrong = abs(out - weights @ v)
    assert (wrong <= 2.0**-10 * (weights @ abs(v)) + 1e-6).all()


# ---- tables --------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=None)
def paged(chip):
    torch.manual_seed(0)
    case = cases.paged([40, 17], 2, 1, 16, 32, bN=16)
    assert len(case[1]["K"]) == 9
    return case, tilelang.compile(case[0], target=chip)


def paged_values(x):
    """Attention where pages that are none are zero."""
    expected = np.zeros(x["Q"].shape)
    pages, page = x["K"].shape[:2]
    for i, n in enumerate(x["cache_seqlens"]):
        at = np.arange(max(n, 0))
        number = np.where(
            at // page < x["block_table"].shape[1], x["block_table"][i][np.minimum(at // page, x["block_table"].shape[1] - 1)], 0
        )
        there = (number >= 0) & (number < pages)
        k, v = (np.where(there[:, None], x[c][np.where(there, number, 0), at % page, 0].astype(np.float64), 0) for c in "KV")
        weights = np.exp(x["Q"][i].astype(np.float64) @ k.T / np.sqrt(k.shape[1]))
        expected[i] = weights / weights.sum(1, keepdims=True) @ v
    return expected


@CHIPS
def test_a_page_that_is_none(chip):
    """Its keys and values are zero."""
    case, kernel = paged(chip)
    for number in (-1, 9, 9999, -(2**31), 2**31 - 1):
        arrays = arrays_of(case)
        arrays["block_table"][0, 1] = number
        out = (strict.run if number == -1 else launched)(kernel, arrays)["Output"]
        close(out, paged_values(arrays))


@CHIPS
def test_a_length_beyond_the_table(chip):
    """Pages that the table does not list have number 0."""
    case, kernel = paged(chip)
    arrays = arrays_of(case)
    arrays["cache_seqlens"][:] = 70, 90
    close(launched(kernel, arrays)["Output"], paged_values(arrays))


@CHIPS
@pytest.mark.parametrize("length", [0, -1, -(2**31)])
def test_a_sequence_of_pages_without_keys(length, chip):
    """The kernel divides by the sum of its weights, of which there are none: no number. The other sequence is right."""
    case, kernel = paged(chip)
    arrays = arrays_of(case)
    arrays["cache_seqlens"][0] = length
    out = launched(kernel, arrays)["Output"]
    assert np.isnan(out[0]).all()
    close(out[1], case[2]["Output"][0][1])


@lru_cache(maxsize=None)
def ragged(chip):
    torch.manual_seed(0)
    case = cases.ragged([5, 4], [8, 12], 1, 32, **TILES)
    return case, tilelang.compile(case[0], target=chip)


@pytest.mark.one_in(2)
@CHIPS
@pytest.mark.parametrize("where, value", [("cu_q", (0, 5, 99)), ("cu_q", (3, 1, 9)), ("cu_kv", (0, 8, 77)), ("cu_kv", (-9, 8, 3))])
def test_ends_of_sequences_that_are_none(where, value, chip):
    """What is stored is of the sequences as they are told; the keys outside of the tensor are zero."""
    case, kernel = ragged(chip)
    arrays = arrays_of(case)
    arrays[where][:] = value
    q, k, v, (cu_q, cu_kv) = *(arrays[x].astype(np.float64)[:, 0] for x in "QKV"), (arrays[x] for x in ("cu_q", "cu_kv"))
    out = (strict.run if value == (0, 5, 99) else launched)(kernel, arrays)["Output"][:, 0]
    expected = arrays["Output"].astype(np.float64)[:, 0]
    for i in range(2):
        keys = np.arange(cu_kv[i], max(cu_kv[i + 1], cu_kv[i]))
        there = (keys >= 0) & (keys < len(k))
        key, val = (np.where(there[:, None], x[np.where(there, keys, 0)], 0) for x in (k, v))
        for row in range(max(cu_q[i], 0), min(cu_q[i + 1], cu_q[i] + 16, len(q))):
            weights = np.exp(key @ q[row] / np.sqrt(q.shape[1]))
            expected[row] = weights @ val / weights.sum() if len(keys) else 0
    close(out, expected)


@CHIPS
def test_a_key_that_is_none(chip):
    """Sparse attention: the mask of the kernel hides keys behind the token, and a key in front of the first is zero."""
    torch.manual_seed(0)
    case = cases.sparse_mla(3, 16, 16, 32, 16, 16, BI=16)
    kernel = tilelang.compile(case[0], target=chip)
    for number in (-1, 9999, -(2**31), 2**31 - 1):
        arrays = arrays_of(case)
        arrays["Indices"][:] = 0
        arrays["Indices"][0, 1, 0, 3] = number
        out = (strict.run if number == -1 else launched)(kernel, arrays)["Output"][0]
        q, kv = arrays["Q"][0].astype(np.float64), arrays["KV"][0, :, 0].astype(np.float64)
        for t in range(3):
            listed = arrays["Indices"][0, t, 0]
            listed = listed[listed <= t]
            keys = np.where((listed >= 0)[:, None], kv[np.maximum(listed, 0)], 0)
            weights = np.exp(q[t] @ keys.T / np.sqrt(kv.shape[1]))
            close(out[t], weights / weights.sum(1, keepdims=True) @ keys[:, :32])


@CHIPS
def test_slots_that_are_none_are_not_stored(chip):
    """New keys, made by a product, go to the rows of a cache that a table lists."""
    rows, tokens = 7, 20

    @T.prim_func
    def main(
        X: T.Tensor((tokens, N), F16), W: T.Tensor((N, N), F16), Slots: T.Tensor((tokens,), "int32"), Cache: T.Tensor((rows, N), F16)
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(tokens, N), threads=128) as bx:
            x, w = T.alloc_shared((N, N), F16), T.alloc_shared((N, N), F16)
            y, h = T.alloc_fragment((N, N), F32), T.alloc_shared((N, N), F16)
            T.copy(X[bx * N, 0], x)
            T.copy(W, w)
            T.gemm(x, w, y, clear_accum=True)
            T.copy(y, h)
            for i, j in T.Parallel(N, N):
                if bx * N + i < tokens:
                    Cache[Slots[bx * N + i], j] = h[i, j]

    rng = np.random.default_rng(0)
    x, w = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((tokens, N), (N, N)))
    slots = np.array((WRONG * 4)[:tokens], np.int32)
    slots[[2, 9, 17, 19]] = 5, 0, 6, 2
    cache = np.full((rows, N), 7, np.float16)
    out = strict.run(tilelang.compile(main, target=chip), {"X": x, "W": w, "Slots": slots, "Cache": cache})["Cache"]
    expected = cache.copy()
    expected[[5, 0, 6, 2]] = (x.astype(np.float32) @ w)[[2, 9, 17, 19]]
    np.testing.assert_array_equal(out, expected)


@CHIPS
def test_an_expert_that_is_none(chip):
    """It has no rows."""
    torch.manual_seed(0)
    case = cases.expert_down([17, 0, 5], 32, 32, block=16, bN=16, bK=16)
    kernel, expected = tilelang.compile(case[0], target=chip), case[2]["output"][0].numpy().copy()
    expected[16] = 0
    for number in (-1, 3, 2**31 - 1):
        arrays = arrays_of(case)
        arrays["group_idx_for_bx"][1] = number
        close((strict.run if number == -1 else launched)(kernel, arrays)["output"], expected)


@CHIPS
def test_a_block_that_is_none(chip):
    """Native sparse attention leaves out blocks in front of the first key and behind the token, also those whose first key is a number that wraps."""
    torch.manual_seed(0)
    case = cases.native_sparse(16, 20, 32, 1, block=16)
    kernel = tilelang.compile(case[0], target=chip)
    for number in (-9, 40, 2**31 - 1, -(2**31), 2**28 + 1):
        arrays = arrays_of(case)
        arrays["BlockIndices"][0, 19, 0, 0] = number
        out = launched(kernel, arrays)["Output"][0]
        close(out[:19], case[2]["Output"][0][0, :19])
        first = (number * 16 + 2**31) % 2**32 - 2**31
        keys = np.arange(first, min(first + 16, 20)) if 0 <= first <= 19 else None
        if keys is None:
            assert np.isnan(out[19]).all()
            continue
        q, k, v = (arrays[x][0].astype(np.float64) for x in "QKV")
        weights = np.exp(q[19] @ k[keys, 0].T / np.sqrt(k.shape[-1]))
        close(out[19], weights / weights.sum(1, keepdims=True) @ v[keys, 0])
