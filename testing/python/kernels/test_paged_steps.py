"""Steps of an attention loop whose keys lie in pages, which go from the last to the first, or mask in one of them only, are worked on together, too."""

from functools import lru_cache

import numpy as np
import pytest
import strict
from test_merge_steps import merged

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

F16, F32, I32 = "float16", "float32", "int32"
ROWS, BLOCK, DIM, MORE, BATCH, COLUMNS = 16, 16, 32, 16, 2, 16
"""Heads, keys of a step, elements of a key that are its value, others, sequences, and pages a sequence may have."""
C = 0.25
RNG = np.random.default_rng(0)


@lru_cache(maxsize=None)
def latent(page=BLOCK, backwards=False, masks="all", target="a2", dtype=F16, around=False, safe=0.0):
    """O = softmax(Q K^T + R S^T) K of the first `lengths` keys, those of a sequence in pages somewhere in K (and S). masks: the keys behind the last one
    are masked in "all" steps, in the "last" one, or in steps that "hold" some of them. around: the number of a step is a remainder by how many there are.
    safe: what the outside of K reads as."""
    pages = BATCH * COLUMNS * BLOCK // page

    @T.prim_func
    def kernel(
        Q: T.Tensor((BATCH, ROWS, DIM), dtype),
        R: T.Tensor((BATCH, ROWS, MORE), dtype),
        K: T.Tensor((pages * page, DIM), dtype),
        S: T.Tensor((pages * page, MORE), dtype),
        table: T.Tensor((BATCH, COLUMNS * BLOCK // page), I32),
        lengths: T.Tensor((BATCH,), I32),
        O: T.Tensor((BATCH, ROWS, DIM), F32),
    ):
        with T.Kernel(BATCH, threads=128) as b:
            q, r = T.alloc_shared((ROWS, DIM), dtype), T.alloc_shared((ROWS, MORE), dtype)
            k_s, s_s = T.alloc_shared((BLOCK, DIM), dtype), T.alloc_shared((BLOCK, MORE), dtype)
            s, p = T.alloc_fragment((ROWS, BLOCK), F32), T.alloc_shared((ROWS, BLOCK), dtype)
            o, m, before = T.alloc_fragment((ROWS, DIM), F32), T.alloc_fragment((ROWS,), F32), T.alloc_fragment((ROWS,), F32)
            scale, total, weight = T.alloc_fragment((ROWS,), F32), T.alloc_fragment((ROWS,), F32), T.alloc_fragment((ROWS,), F32)
            T.annotate_safe_value({K: safe})
            T.copy(Q[b, 0, 0], q)
            T.copy(R[b, 0, 0], r)
            T.clear(o)
            T.clear(weight)
            T.fill(m, -T.infinity(F32))
            steps = T.ceildiv(lengths[b], BLOCK)
            for n in T.Pipelined(steps, num_stages=2):
                k = steps - 1 - n if backwards else n
                x = k % steps if around else k
                first = table[b, x * BLOCK // page] * page + x * BLOCK % page
                T.copy(K[first : first + BLOCK, :], k_s)
                T.copy(S[first : first + BLOCK, :], s_s)
                T.clear(s)
                T.gemm(q, k_s, s, transpose_B=True)
                T.gemm(r, s_s, s, transpose_B=True)
                T.copy(m, before)
                if masks == "all":
                    for i, j in T.Parallel(ROWS, BLOCK):
                        s[i, j] = T.if_then_else(k * BLOCK + j < lengths[b], s[i, j], -T.infinity(F32))
                elif masks == "last":
                    if n == (0 if backwards else steps - 1):
                        for i, j in T.Parallel(ROWS, BLOCK):
                            s[i, j] = T.if_then_else(k * BLOCK + j >= lengths[b], -T.infinity(F32), s[i, j])
                else:
                    if (k + 1) * BLOCK > lengths[b]:
                        for i, j in T.Parallel(ROWS, BLOCK):
                            if k * BLOCK + j >= lengths[b]:
                                s[i, j] = -T.infinity(F32)
                T.reduce_max(s, m, dim=1, clear=False)
                for i in T.Parallel(ROWS):
                    scale[i] = T.exp2((before[i] - m[i]) * C)
                for i, j in T.Parallel(ROWS, BLOCK):
                    s[i, j] = T.exp2((s[i, j] - m[i]) * C)
                T.reduce_sum(s, total, dim=1)
                T.copy(s, p)
                for i in T.Parallel(ROWS):
                    weight[i] = weight[i] * scale[i] + total[i]
                for i, j in T.Parallel(ROWS, DIM):
                    o[i, j] *= scale[i]
                T.gemm(p, k_s, o)
            for i, j in T.Parallel(ROWS, DIM):
                o[i, j] /= weight[i]
            T.copy(o, O[b, 0, 0])

    return tilelang.compile(kernel, target=target)


def check(compiled, lengths, page=BLOCK, dtype=F16, text=False, bad=10**6) -> None:
    """Pages that no sequence has are NaN, and what a table has behind the last page lies nowhere."""
    keys, narrow = BATCH * COLUMNS * BLOCK, np.dtype(np.float16)
    q, r, k, s = (RNG.standard_normal(x).astype(narrow) for x in ((BATCH, ROWS, DIM), (BATCH, ROWS, MORE), (keys, DIM), (keys, MORE)))
    table = RNG.permutation(keys // page).reshape(BATCH, -1).astype(np.int32)
    pages = [-(-(-(-n // BLOCK) * BLOCK) // page) for n in lengths]
    places = [(table[b, :n, None] * page + np.arange(page)).reshape(-1) for b, n in enumerate(pages)]
    unused = np.setdiff1d(np.arange(keys), np.concatenate(places))
    k[unused], s[unused] = np.nan, np.nan
    for b, n in enumerate(pages):
        table[b, n:] = bad
    given = {
        "Q": q,
        "R": r,
        "K": k,
        "S": s,
        "table": table,
        "lengths": np.array(lengths, np.int32),
        "O": np.zeros((BATCH, ROWS, DIM), np.float32),
    }
    got = strict.run(compiled, given, text=text)["O"]
    for b, n in enumerate(lengths):
        if n == 0:
            assert np.isnan(got[b]).all()  # 0 / 0
            continue
        mine = places[b][:n]
        scores = (q[b].astype(np.float64) @ k[mine].T.astype(np.float64) + r[b].astype(np.float64) @ s[mine].T.astype(np.float64)) * C
        weights = 2 ** (scores - scores.max(1, keepdims=True))
        weights /= weights.sum(1, keepdims=True)
        size = weights @ abs(k[mine].astype(np.float64))
        assert (abs(got[b] - weights @ k[mine].astype(np.float64)) <= (2**-11 + 2**-15) * size + 1e-6).all(), (b, n)


@pytest.mark.parametrize("masks", ["all", "last", "holds"])
@pytest.mark.parametrize("backwards", [False, True])
def test_pages(backwards, masks):
    """Also sequences of one key, of a multiple of the long step, and of none."""
    compiled = latent(backwards=backwards, masks=masks)
    assert merged(compiled)
    for lengths in ((256, 1), (100, 64), (0, 129), (17, 16)):
        check(compiled, lengths, text=lengths[0] == 100)


@pytest.mark.parametrize("page", [32, 128])
@pytest.mark.parametrize("backwards", [False, True])
def test_pages_of_several_steps(page, backwards):
    compiled = latent(page, backwards, "last")
    assert merged(compiled)
    for lengths in ((256, 1), (100, 65)):
        check(compiled, lengths, page)


@pytest.mark.parametrize("target", ["a3", "a5"])
def test_other_chips(target):
    compiled = latent(backwards=True, masks="last", target=target)
    assert merged(compiled)
    check(compiled, (200, 47))


def test_tables_that_lie():
    """What is no page of the cache reads as zeros, as in single steps."""
    compiled = latent(masks="all")
    for bad in (-1, 10**6, 2**31 - 1):
        check(compiled, (100, 31), bad=bad)


def test_outsides_that_are_not_zero():
    """What a step has no page for is as the outside of the tensor: no weight of 0 makes a number of it."""
    compiled = latent(masks="all", safe=float("inf"))
    assert merged(compiled)
    check(compiled, (100, 17))


def test_indices_divided_by_what_run_time_tells():
    compiled = latent(masks="all", around=True)
    assert merged(compiled)
    check(compiled, (100, 17))


def test_pieces_do_not_wait_for_each_other():
    """Pages that lie in a tile beside each other are on their way at the same time."""
    source = latent(backwards=True, masks="last").get_kernel_source()
    pieces = source.split("for (int32_t piece")[1:]
    assert pieces
    for text in pieces:
        loop, depth = "", 0
        for line in text.splitlines():
            loop, depth = loop + line, depth + line.count("{") - line.count("}")
            if depth <= 0:
                break
        # One fills what a page has not got, and waits for that.
        assert "PIPE_MTE2" not in loop.split("InitConstValue")[0]
