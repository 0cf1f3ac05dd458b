"""Two tiles of a core side by side: recurrences by way of both kinds of core, chains of short vector work, any number of tiles, what must stay."""

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


def recurrence(heads, steps, rows=32, dim=32, wide=64, lengths=False):
    """A state for each head: v = u - w s, s += k^T v, in `steps` steps or, if asked for, in as many as a tensor says; all v and the last states leave."""
    size = steps if isinstance(steps, int) else 4

    @T.prim_func
    def kernel(
        W: T.Tensor((heads, size * rows, dim), F16),
        K: T.Tensor((heads, size * rows, dim), F16),
        U: T.Tensor((heads, size * rows, wide), F16),
        N: T.Tensor((heads,), "int32"),
        V: T.Tensor((heads, size * rows, wide), F16),
        S: T.Tensor((heads, dim, wide), F32),
    ):
        with T.Kernel(heads, threads=128) as h:
            w, k = T.alloc_shared((rows, dim), F16), T.alloc_shared((rows, dim), F16)
            u, v_shared = T.alloc_shared((rows, wide), F16), T.alloc_shared((rows, wide), F16)
            v, s = T.alloc_fragment((rows, wide), F32), T.alloc_fragment((dim, wide), F32)
            s_shared = T.alloc_shared((dim, wide), F16)
            T.fill(s, 0)
            T.fill(s_shared, 0)
            for i in T.Pipelined(N[h] if lengths else size, num_stages=1):
                T.copy(W[h, i * rows, 0], w)
                T.gemm(w, s_shared, v, clear_accum=True)
                T.copy(U[h, i * rows, 0], u)
                for x, y in T.Parallel(rows, wide):
                    v[x, y] = u[x, y] - v[x, y]
                T.copy(v, v_shared)
                T.copy(v_shared, V[h, i * rows, 0])
                T.copy(K[h, i * rows, 0], k)
                T.gemm(k, v_shared, s, transpose_A=True)
                T.copy(s, s_shared)
            T.copy(s, S[h, 0, 0])

    return kernel


def recurred(w, k, u, rows, steps):
    v, states = np.zeros_like(u), []
    for h in range(len(w)):
        s = np.zeros((w.shape[2], u.shape[2]), F32)
        for i in range(steps[h]):
            at = slice(i * rows, (i + 1) * rows)
            step = u[h, at].astype(F32) - w[h, at].astype(F32) @ s.astype(F16).astype(F32)
            v[h, at] = step
            s += k[h, at].astype(F32).T @ v[h, at].astype(F32)
        states.append(s)
    return v, np.stack(states)


def of_recurrence(heads, steps=4, rows=32, dim=32, wide=64, lengths=None):
    rng = np.random.default_rng(heads)
    w, k, u = (rng.uniform(-0.2, 0.2, (heads, steps * rows, n)).astype(F16) for n in (dim, dim, wide))
    n = np.array(lengths if lengths is not None else [steps] * heads, "int32")
    arrays = {"W": w, "K": k, "U": u, "N": n, "V": np.zeros_like(u), "S": np.zeros((heads, dim, wide), F32)}
    return arrays, recurred(w, k, u, rows, n)


def substitution(tiles, n=32, bounded=False, last=None):
    """Rows of a tile up to the `last` one, each of which takes all rows before it; of all of them or, if asked for, of as many as the tile has a number."""

    @T.prim_func
    def kernel(A: T.Tensor((tiles, n, n), F32), B: T.Tensor((tiles, n, n), F32)):
        with T.Kernel(tiles, threads=128) as bx:
            a, terms = T.alloc_shared((n, n), F32), T.alloc_fragment((n, n), F32)
            row, total = T.alloc_fragment((n,), F32), T.alloc_fragment((n,), F32)
            T.copy(A[bx, 0, 0], a)
            for i in T.serial(1, T.min(n, bx + 2) if bounded else last or n):
                for j in T.Parallel(n):
                    row[j] = a[i, j]
                for k, j in T.Parallel(n, n):
                    terms[k, j] = T.if_then_else(k < i, row[k] * a[k, j], 0)
                T.reduce_sum(terms, total, dim=0)
                for j in T.Parallel(n):
                    a[i, j] = row[j] + total[j]
            T.copy(a, B[bx, 0, 0])

    return kernel


def substituted(a, bounded=False, last=None):
    b = a.copy()
    for t in range(len(b)):
        for i in range(1, min(b.shape[1], t + 2) if bounded else last or b.shape[1]):
            b[t, i] = b[t, i] + b[t, i, :i] @ b[t, :i]
    return b


def matrices(tiles, n=32):
    return np.random.default_rng(tiles).uniform(-0.1, 0.1, (tiles, n, n)).astype(F32)


def lowered(func, chip="a2", cores=4, pair=True):
    """On so many vector cores, and half as many cube cores."""
    return pipeline.lower(func, few_cores(chip, cores), options=pipeline.Options(pair_tiles=pair, coarsen=False), keep_stages=True)


def paired(found) -> bool:
    """True if the pass changed anything."""
    texts = [str(ir) for _, ir in found.stages]
    return any(name == "pair_tiles" and text != before for (name, _), text, before in zip(found.stages[1:], texts[1:], texts))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("chip", ["a2", "a3", "a5"])
@pytest.mark.parametrize("heads", [2, 4, 7])
def test_recurrence(chip, heads):
    """Two cores with one to four heads each: an even number, an odd one, different ones."""
    arrays, (v, s) = of_recurrence(heads)
    found = lowered(recurrence(heads, 4), chip)
    assert paired(found) == (heads > 2)
    out, _ = strict.once(recurrence(heads, 4), chip, arrays, found)
    np.testing.assert_allclose(out["V"], v, rtol=4e-3, atol=4e-3)
    np.testing.assert_allclose(out["S"], s, rtol=4e-3, atol=4e-3)


def test_any_number_of_heads():
    """How many there are is known at run time: none, one, an odd number."""
    heads = T.dynamic("heads")
    func = recurrence(heads, 4)
    found = lowered(func)
    assert paired(found)
    for count in (1, 3, 6):
        arrays, (v, s) = of_recurrence(count)
        out, _ = strict.once(func, "a2", arrays, found, {"heads": count})
        np.testing.assert_allclose(out["V"], v, rtol=4e-3, atol=4e-3)
        np.testing.assert_allclose(out["S"], s, rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize("lengths", [(0, 1, 2, 3, 4), (4, 4, 0, 0, 1, 2), (3, 3, 3, 3)])
def test_heads_with_steps_of_their_own(lengths):
    """Loops that end at different times are not one."""
    arrays, (v, s) = of_recurrence(len(lengths), lengths=lengths)
    func = recurrence(len(lengths), 4, lengths=True)
    out, _ = strict.once(func, "a2", arrays, lowered(func))
    np.testing.assert_allclose(out["V"], v, rtol=4e-3, atol=4e-3)
    np.testing.assert_allclose(out["S"], s, rtol=4e-3, atol=4e-3)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("chip", ["a2", "a5"])
@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("tiles", [8, 13])
def test_chains_of_vector_work(chip, tiles, bounded):
    a = matrices(tiles)
    found = lowered(substitution(tiles, bounded=bounded), chip)
    out, _ = strict.once(substitution(tiles, bounded=bounded), chip, {"A": a, "B": np.zeros_like(a)}, found)
    np.testing.assert_allclose(out["B"], substituted(a, bounded), rtol=1e-5, atol=1e-6)


def test_one_barrier_for_both():
    """Steps of two tiles have little more barriers than those of one."""
    apart, beside = (str(lowered(substitution(64), pair=pair).ascend_ir).count("pipe_barrier") for pair in (False, True))
    assert beside <= apart + 4


@pytest.mark.parametrize("name", ["recurrence", "substitution"])
def test_every_flag_is_needed(name):
    """The text does the same, and fails without any one flag or barrier, but for those between stores of two tiles to one tensor: where each of them lies,
    numbers of blocks say that nobody can compare."""
    if name == "recurrence":
        kernel = tilelang.compile(recurrence(50, 2), pass_configs={"tl.pair_tiles": True})
        arrays, (v, s) = of_recurrence(50, 2)
        expected = {"V": v, "S": s}
    else:
        a = matrices(48 * 4, 64)
        kernel = tilelang.compile(substitution(len(a), 64, last=3), pass_configs={"tl.pair_tiles": True, "tl.coarsen_blocks": False})
        arrays, expected = {"A": a, "B": np.zeros_like(a)}, {"B": substituted(a, last=3)}
    out = strict.run(kernel, arrays)
    for key, value in expected.items():
        np.testing.assert_allclose(out[key], value, rtol=4e-3, atol=4e-3)
    assert all("'MTE3'" in flag for flag in strict.surviving_mutants(kernel, arrays))


def talking(tiles):
    """Says something about every tile: their order can be seen."""

    @T.prim_func
    def kernel(A: T.Tensor((tiles, 16, 64), F32), B: T.Tensor((tiles, 64), F32)):
        with T.Kernel(tiles, threads=128) as bx:
            a, total = T.alloc_fragment((16, 64), F32), T.alloc_fragment((64,), F32)
            T.copy(A[bx, 0, 0], a)
            T.fill(total, 0)
            for i in T.serial(16):
                for j in T.Parallel(64):
                    total[j] = total[j] * 0.5 + a[i, j]
            T.print(total[0])
            T.copy(total, B[bx, 0])

    return kernel


def searching(tiles):
    """Goes on for as long as what it finds says."""

    @T.prim_func
    def kernel(A: T.Tensor((tiles, 16, 64), F32), B: T.Tensor((tiles, 64), F32)):
        with T.Kernel(tiles, threads=128) as bx:
            a, total = T.alloc_shared((16, 64), F32), T.alloc_shared((64,), F32)
            T.copy(A[bx, 0, 0], a)
            T.fill(total, 0)
            for i in T.serial(16):
                if total[0] > 1.5:
                    T.loop_break()
                for j in T.Parallel(64):
                    total[j] = total[j] * 0.5 + a[i, j]
            T.copy(total, B[bx, 0])

    return kernel


def test_tiles_that_talk_stay():
    assert not paired(lowered(talking(6)))


def test_tiles_that_end_early_stay():
    a = np.random.default_rng(0).uniform(0, 1, (6, 16, 64)).astype(F32)
    found = lowered(searching(6))
    assert not paired(found)
    expected = np.zeros((6, 64), F32)
    for t in range(6):
        for i in range(16):
            if expected[t, 0] > 1.5:
                break
            expected[t] = expected[t] * 0.5 + a[t, i]
    out, _ = strict.once(searching(6), "a2", {"A": a, "B": np.zeros((6, 64), F32)}, found)
    np.testing.assert_allclose(out["B"], expected, rtol=1e-5, atol=1e-6)


def test_the_machine_model_decides():
    """Recurrences are faster so; attention, which runs ahead by itself, is not asked."""
    chip = few_cores("a2", 4)
    func = recurrence(4, 16, rows=64, dim=128, wide=128)
    ways = [pipeline.lower(func, chip, options=pipeline.Options(pair_tiles=w), keep_stages=True) for w in (False, True)]
    apart, beside = (measure.cycles(way.ascend_ir, chip) for way in ways)
    decided = pipeline.lower(func, chip, keep_stages=True, measure=measure.cycles)
    assert beside < 0.8 * apart and paired(decided)
    assert measure.cycles(decided.ascend_ir, chip) == beside
    assert any("side by side" in note for note in decided.notes)
    assert not paired(pipeline.lower(func, chip, keep_stages=True))
