"""Two neighbouring blocks side by side: short vector work that makes operands of products, loops of any length, axes that may not be divided."""

from __future__ import annotations

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from testing.fuzz.few_cores import few_cores
from tilelang_ascend.jit import measure
from tilelang_ascend.transform import pipeline

F16, F32 = "float16", "float32"


def decayed(heads, rows, block=32, wide=32, by_head=False, lengths=False):
    """out[h] = sum over k <= m of (a * exp(g[m] - g[k])) @ x[h], in tiles; as many steps as a block of rows has keys, as a head has a number (`by_head`), or
    as a tensor says (`lengths`)."""
    blocks = rows // block

    @T.prim_func
    def kernel(
        A: T.Tensor((rows, rows), F16),
        G: T.Tensor((heads, rows), F16),
        X: T.Tensor((heads, rows, wide), F16),
        N: T.Tensor((blocks,), "int32"),
        Out: T.Tensor((heads, rows, wide), F32),
    ):
        with T.Kernel(heads, blocks, threads=128) as (h, m):
            a, p = T.alloc_shared((block, block), F16), T.alloc_fragment((block, block), F16)
            x, acc = T.alloc_shared((block, wide), F16), T.alloc_fragment((block, wide), F32)
            gm, gk = T.alloc_fragment((block,), F32), T.alloc_fragment((block,), F32)
            T.copy(G[h, m * block], gm)
            T.clear(acc)
            found = N[m] - 1 if lengths else m
            steps = T.min(h + 1, m + 1) if by_head else found + 1
            for k in T.Pipelined(steps, num_stages=2):
                T.copy(A[m * block, k * block], a)
                T.copy(G[h, k * block], gk)
                for i, j in T.Parallel(block, block):
                    p[i, j] = a[i, j] * T.exp(gm[i] - gk[j])
                for i, j in T.Parallel(block, block):
                    p[i, j] = T.if_then_else(m * block + i >= k * block + j, p[i, j], 0)
                T.copy(X[h, k * block, 0], x)
                T.gemm(p, x, acc)
            T.copy(acc, Out[h, m * block, 0])

    return kernel


def of_decayed(heads, rows, block=32, wide=32, by_head=False, lengths=None):
    rng = np.random.default_rng(heads)
    a, x = rng.uniform(-1, 1, (rows, rows)).astype(F16), rng.uniform(-1, 1, (heads, rows, wide)).astype(F16)
    g = rng.uniform(-1, 1, (heads, rows)).astype(F16)
    n = np.array(lengths if lengths is not None else range(1, rows // block + 1), "int32")
    out = np.zeros((heads, rows, wide), F32)
    for h in range(heads):
        for m in range(rows):
            keys = min(h + 1, m // block + 1) * block if by_head else int(n[m // block]) * block
            k = np.arange(min(keys, m + 1))
            weights = (a[m, k].astype(F32) * np.exp(g[h, m].astype(F32) - g[h, k].astype(F32))).astype(F16)
            out[h, m] = weights.astype(F32) @ x[h, k].astype(F32)
    return {"A": a, "G": g, "X": x, "N": n, "Out": np.zeros_like(out)}, out


def lowered(func, chip="a2", cores=2, pair=True):
    """On so many vector cores, and half as many cube cores."""
    return pipeline.lower(func, few_cores(chip, cores), options=pipeline.Options(pair_blocks=pair, coarsen=False), keep_stages=True)


def paired(found) -> bool:
    """True if the pass changed anything."""
    texts = [str(ir) for _, ir in found.stages]
    return any(name == "pair_blocks" and text != before for (name, _), text, before in zip(found.stages[1:], texts[1:], texts))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("chip", ["a2", "a3", "a5"])
@pytest.mark.parametrize("heads, rows", [(8, 64), (4, 128), (2, 160)])
def test_values(chip, heads, rows):
    arrays, expected = of_decayed(heads, rows)
    found = lowered(decayed(heads, rows), chip)
    assert paired(found)
    out, _ = strict.once(decayed(heads, rows), chip, arrays, found)
    np.testing.assert_allclose(out["Out"], expected, rtol=1e-2, atol=1e-2)


def test_loops_that_data_ends():
    lengths = (0, 2, 1, 4)
    arrays, expected = of_decayed(4, 128, lengths=lengths)
    func = decayed(4, 128, lengths=True)
    found = lowered(func)
    assert paired(found)
    out, _ = strict.once(func, "a2", arrays, found)
    np.testing.assert_allclose(out["Out"], expected, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("heads, rows, by_head", [(5, 128, False), (4, 128, True)])
def test_blocks_that_stay(heads, rows, by_head):
    """An odd number of heads beside rows that decide how many steps there are; heads that do."""
    arrays, expected = of_decayed(heads, rows, by_head=by_head)
    func = decayed(heads, rows, by_head=by_head)
    found = lowered(func)
    assert not paired(found)
    out, _ = strict.once(func, "a2", arrays, found)
    np.testing.assert_allclose(out["Out"], expected, rtol=1e-2, atol=1e-2)


def test_one_barrier_for_both():
    """Steps of two blocks have little more barriers than those of one."""
    apart, beside = (str(lowered(decayed(8, 64), pair=pair).ascend_ir).count("pipe_barrier") for pair in (False, True))
    assert beside <= apart + 4


def test_every_flag_is_needed():
    """The text does the same, and fails without any one flag or barrier, but for the barrier that only loops without any step need."""
    heads, rows = 4 * 24, 64
    kernel = tilelang.compile(decayed(heads, rows), pass_configs={"tl.pair_blocks": True, "tl.coarsen_blocks": False})
    arrays, expected = of_decayed(heads, rows)
    out = strict.run(kernel, arrays)
    np.testing.assert_allclose(out["Out"], expected, rtol=1e-2, atol=1e-2)
    superfluous = strict.surviving_mutants(kernel, arrays)
    assert len(superfluous) <= 1 and all("pipe_barrier () {'pipe': 'V'}" in flag for flag in superfluous)


def test_the_machine_model_decides():
    """Blocks of short rows are faster so; where data says how many steps there are, nobody can tell."""
    chip = few_cores("a2", 2)
    func = decayed(32, 128, block=64, wide=64)
    ways = [pipeline.lower(func, chip, options=pipeline.Options(pair_blocks=w), keep_stages=True) for w in (False, True)]
    apart, beside = (measure.cycles(way.ascend_ir, chip) for way in ways)
    decided = pipeline.lower(func, chip, keep_stages=True, measure=measure.cycles)
    assert beside < apart and paired(decided)
    assert measure.cycles(decided.ascend_ir, chip) == beside
    assert any("side by side" in note for note in decided.notes)
    unknown = decayed(32, 128, block=64, wide=64, lengths=True)
    assert not paired(pipeline.lower(unknown, chip, keep_stages=True, measure=measure.cycles))
