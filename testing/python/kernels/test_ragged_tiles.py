"""Tiles of sequences of different lengths, which are data, follow each other on a core without a pause."""

import re
from functools import lru_cache

import attention_cases as cases
import numpy as np
import pytest
import strict
import torch
from test_attention_bad_input import arrays_of, launched

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.arch import get_chip
from tilelang_ascend.ir import For, IfThenElse, statements, stmts_of
from tilelang_ascend.tile.uses import BEHIND, CHAINED
from tilelang_ascend.transform import pipeline

TILES = {"bM": 16, "bN": 16}
LENGTHS = {
    "mixed": ((40, 5, 90, 16), (40, 5, 90, 16)),
    "nothing in between": ((33, 0, 0, 50), (33, 0, 0, 50)),
    "the last are short": ((90, 1, 1, 1), (90, 1, 1, 1)),
    "the first are empty": ((0, 0, 0, 70), (0, 0, 0, 70)),
    "all are empty": ((0, 0, 0, 0), (0, 0, 0, 0)),
    "more keys": ((20, 33, 1, 16), (150, 70, 300, 16)),
    "queries without keys": ((40, 20, 33, 5), (0, 200, 0, 0)),
    "keys without queries": ((40, 0, 33, 0), (40, 200, 33, 90)),
}

SQUARE = [name for name, (queries, keys) in LENGTHS.items() if all(n <= m for n, m in zip(queries, keys))]
"""Under a causal mask the first rows of others have no key."""


def chained(kernel, **options) -> list[For]:
    """Loops over tiles that follow each other, as the passes make them with these `options`."""
    chip = get_chip(kernel.artifact.chip)
    lowered = pipeline.lower(kernel.artifact.tile_ir, chip, options=pipeline.Options(**options), keep_stages=True)
    (stage,) = [ir for name, ir in lowered.stages if name == "chain_tiles"]
    return [s for s in statements(stage.body) if isinstance(s, For) and CHAINED in s.annotations]


@pytest.mark.parametrize("name, causal", [(name, causal) for name in LENGTHS for causal in (False, True) if not causal or name in SQUARE])
@pytest.mark.one_in(9)
def test_lengths(two_cores, monkeypatch, name, causal):
    """Blocks behind the end of a sequence are passed over; one without any key still stores its zeros."""
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    torch.manual_seed(1)
    cases.check(
        cases.ragged(*LENGTHS[name], 2, 32, causal=causal, **TILES), lambda kernel, arrays: launched(tilelang.compile(kernel), arrays)
    )


@pytest.mark.parametrize("chip", ["a2", "a3", pytest.param("a5", marks=pytest.mark.slow)])
def test_every_stage_and_the_text(chip):
    torch.manual_seed(2)
    case = cases.ragged((30, 0, 75), (60, 20, 75), 1, 32, causal=True, **TILES)
    cases.check(case, lambda kernel, arrays: strict.run(tilelang.compile(kernel, target=chip), arrays))


def test_a_condition_stays_around_the_tile(two_cores, monkeypatch):
    """More than two tiles may be under way, as one may have a single step."""
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    kernel = tilelang.compile(cases.ragged((64, 64), (64, 64), 2, 32, **TILES)[0])
    (loop,) = chained(kernel)
    assert int(loop.annotations[BEHIND]) > 1
    assert isinstance(stmts_of(loop.body)[-1], IfThenElse)


def test_no_flag_is_needless(two_cores, monkeypatch):
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    torch.manual_seed(3)
    case = cases.ragged((40, 0, 20, 33), (90, 0, 70, 33), 1, 32, **TILES)
    kernel = tilelang.compile(case[0])
    assert chained(kernel)
    left = strict.surviving_mutants(kernel, arrays_of(case))
    assert [x for x in left if "flag" in x] == []


def test_cores_get_equal_work_where_rows_of_blocks_end_early():
    """As many blocks of queries as cores: the same core had the last ones of every head, which short sequences leave out."""
    lengths = (1000, 3072, 500, 2000, 1692)
    total, ends = sum(lengths), np.cumsum([0, *lengths]).astype(np.int32)
    make = cases.kernel_of("flash_attention/varlen.py", "flash_attention_varlen")
    kernel = tilelang.compile(make(len(lengths), 4, 64, total, total, max(lengths), causal=True, bM=128, bN=128), out_idx=[5])
    q = torch.zeros(total, 4, 64, dtype=torch.float16)
    report = kernel.simulate(q, q, q, torch.from_numpy(ends), torch.from_numpy(ends), values=False, checks=False)
    ends = [c.end_cycles for c in report.run.per_core if re.match("AIC", c.name)]
    assert max(ends) < 1.25 * sum(ends) / len(ends)


N = 16


@lru_cache(maxsize=None)
def with_a_table(tiles, most, inside):
    """Softmax of tile t over the n[t] blocks of keys from block Start[At[t]] on, which the loop, or what is in front of it, looks up."""

    @T.prim_func
    def k(
        Q: T.Tensor((tiles * N, N), "float16"), K: T.Tensor((most * N, N), "float16"), At: T.Tensor((tiles,), "int32"),
        Start: T.Tensor((tiles,), "int32"), n: T.Tensor((tiles,), "int32"), Y: T.Tensor((tiles * N, N), "float32"),
    ):  # fmt: skip
        with T.Kernel(tiles) as t:
            q, x, p = T.alloc_shared((N, N), "float16"), T.alloc_shared((N, N), "float16"), T.alloc_shared((N, N), "float16")
            s, o = T.alloc_fragment((N, N), "float32"), T.alloc_fragment((N, N), "float32")
            m, old, r, now, total = (T.alloc_fragment((N,), "float32") for _ in range(5))
            T.copy(Q[t * N, 0], q)
            T.fill(o, 0.0)
            T.fill(total, 0.0)
            T.fill(m, -T.infinity("float32"))
            first = 0 if inside else At[t]
            for k in T.serial(n[t]):
                begin = Start[At[t]] if inside else first
                T.copy(K[(begin + k) * N, 0], x)
                T.gemm(q, x, s, transpose_B=True, clear_accum=True)
                T.copy(m, old)
                T.reduce_max(s, m, dim=1, clear=False)
                for i in T.Parallel(N):
                    r[i] = T.exp(old[i] - m[i])
                for i, j in T.Parallel(N, N):
                    s[i, j] = T.exp(s[i, j] - m[i])
                T.reduce_sum(s, now, dim=1)
                for i in T.Parallel(N):
                    total[i] = total[i] * r[i] + now[i]
                T.copy(s, p)
                for i, j in T.Parallel(N, N):
                    o[i, j] *= r[i]
                T.gemm(p, x, o)
            for i, j in T.Parallel(N, N):
                o[i, j] = T.if_then_else(total[i] == 0, 5.0, o[i, j] / total[i])
            T.copy(o, Y[t * N, 0])

    return k


@pytest.mark.parametrize("inside", [False, True])
def test_what_a_step_without_keys_looks_up_may_lie_outside(inside):
    """The places of tiles without steps lie outside of the table."""
    steps, most = (2, 0, 9, 0, 5), 20
    rng = np.random.default_rng(0)
    q, keys = ((rng.standard_normal((rows * N, N)) / 4).astype(np.float16) for rows in (len(steps), most))
    at = np.array([1, 10**9, 3, -5, 2], np.int32) if inside else np.array([0, 0, 4, 0, 9], np.int32)
    start = np.array([7, 0, 9, 4, 1], np.int32)
    arrays = {"Q": q, "K": keys, "At": at, "Start": start, "n": np.array(steps, np.int32), "Y": np.zeros((len(steps) * N, N), np.float32)}
    out = strict.run(tilelang.compile(with_a_table(len(steps), most, inside)), arrays)["Y"]
    for t, n in enumerate(steps):
        begin = int(start[at[t]] if inside else at[t]) if n else 0
        x = keys[begin * N : (begin + n) * N].astype(np.float64)
        p = np.exp(q[t * N : (t + 1) * N].astype(np.float64) @ x.T)
        want = p @ x / p.sum(axis=1, keepdims=True) if n else np.full((N, N), 5.0)
        np.testing.assert_allclose(out[t * N : (t + 1) * N], want, rtol=0, atol=4e-3)
