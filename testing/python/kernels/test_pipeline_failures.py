"""What goes wrong in pipelines of cube and vector cores elsewhere, each as a kernel: none of it happens here.

A name says the failure. Races, reads of what nobody wrote, flags that are left over and cores that wait for ever end every strict run; where a
failure is one of order, no flag may be needless either. These need no kernel of their own here:

| failure | test |
|---|---|
| one address in several memories taken for one place | `unnoticed` here: tiles lie at address 0 of each; test_insert_sync.py, textbook flags |
| neighbours that touch wait: fractals, columns | test_barriers.py; test_insert_sync.py, interleaved pieces |
| one tile read both ways loses a transposition, other dtypes | test_transposed_operands.py |
| elements that only one vector core stores | test_two_vector_cores.py |
| accumulators of loops without trips | test_empty_gemm.py, test_left_early.py |
| results land in UB where a tile that shares its memory is in use; weights overtaken in L1 | test_direct_channels.py |
| windows, sinks, groups, pages in whole attention kernels | test_attention.py |
"""

import re
from functools import lru_cache

import attention_cases as cases
import numpy as np
import pytest
import strict
import torch

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.arch import get_chip
from tilelang_ascend.errors import OutOfMemory
from tilelang_ascend.sim.streams import records
from tilelang_ascend.transform import pipeline
from tilelang_ascend.transform.memory.version_buffers import MANY_VERSIONS

F16, F32 = "float16", "float32"
N = 16
TRIPS = 16


def whole(*shape, low=-2, high=3, dtype=np.float16, seed=0):
    """Whole numbers, of which products and their sums are exact."""
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def f32(*shape):
    return np.zeros(shape, np.float32)


def unnoticed(compiled, arrays, *counts):
    """Flags that can be removed without any launch, one for each n of `counts`, noticing.

    Barriers are for parts of tiles at the end of tensors, too, which no launch here has.
    """
    found = strict.surviving_mutants(compiled, arrays, *({"n": n} for n in counts))
    return [label for label in found if "flag" in label]


# ---- attention of one block of rows --------------------------------------------------------------------------------


@lru_cache(maxsize=None)
def attention(stages=2, rows=N, target=None, masked=False):
    """`rows` queries and n tiles of N keys: Y = sum of 2 ** (score - m) * value, L = sum of 2 ** (score - m), m the largest score.

    `masked`: query i sees the keys from i + low to i + high - 1.
    """

    @T.prim_func
    def main(
        Q: T.Tensor((rows, N), F16), K: T.Tensor((TRIPS * N, N), F16), V: T.Tensor((TRIPS * N, N), F16), n: T.int32, low: T.int32,
        high: T.int32, Y: T.Tensor((rows, N), F32), L: T.Tensor((rows,), F32),
    ):  # fmt: skip
        with T.Kernel(1):
            q, k, v = T.alloc_shared((rows, N), F16), T.alloc_shared((N, N), F16), T.alloc_shared((N, N), F16)
            s, p, o = T.alloc_fragment((rows, N), F32), T.alloc_fragment((rows, N), F16), T.alloc_fragment((rows, N), F32)
            most, before, total = T.alloc_fragment((rows,), F32), T.alloc_fragment((rows,), F32), T.alloc_fragment((rows,), F32)
            part = T.alloc_fragment((rows,), F32)
            T.copy(Q, q)
            T.clear(o)
            T.clear(total)
            T.fill(most, -T.infinity(F32))
            for t in T.Pipelined(n, num_stages=stages):
                T.copy(K[t * N, 0], k)
                if masked:
                    for i, j in T.Parallel(rows, N):
                        s[i, j] = T.if_then_else(t * N + j >= i + low and t * N + j < i + high, 0.0, -T.infinity(F32))
                else:
                    T.clear(s)
                T.gemm(q, k, s, transpose_B=True)
                T.copy(most, before)
                T.reduce_max(s, most, dim=1, clear=False)
                if masked:
                    for i in T.Parallel(rows):
                        before[i] = T.if_then_else(most[i] == -T.infinity(F32), 0.0, before[i])
                for i, j in T.Parallel(rows, N):
                    s[i, j] = T.exp2(s[i, j] - (T.if_then_else(most[i] == -T.infinity(F32), 0.0, most[i]) if masked else most[i]))
                for i in T.Parallel(rows):
                    before[i] = T.exp2(before[i] - (T.if_then_else(most[i] == -T.infinity(F32), 0.0, most[i]) if masked else most[i]))
                T.reduce_sum(s, part, dim=1)
                T.copy(s, p)
                for i in T.Parallel(rows):
                    total[i] = total[i] * before[i] + part[i]
                for i, j in T.Parallel(rows, N):
                    o[i, j] *= before[i]
                T.copy(V[t * N, 0], v)
                T.gemm(p, v, o)
            T.copy(o, Y)
            T.copy(total, L)

    return tilelang.compile(main, target=target)


def attention_arguments(n, rows=N, low=0, high=0):
    """Every tile of keys has larger scores than the one before: what a row has so far is scaled down in every iteration."""
    k = whole(TRIPS * N, N, low=0, high=2) + np.repeat(np.arange(TRIPS), N)[:, None].astype(np.float16)
    q = whole(rows, N, low=0, high=2, seed=1)
    q[:, 0] = 1  # no row is zero
    q[:, 4:] = 0
    arrays = {"Q": q, "K": k, "V": whole(TRIPS * N, N, seed=2), "Y": f32(rows, N) + 7, "L": f32(rows) + 7}
    return arrays, {"n": n, "low": low, "high": high}


def attention_values(arrays, scalars, masked):
    count = scalars["n"] * N
    q, k, v = (arrays[name].astype(np.float64) for name in "QKV")
    s = q @ k[:count].T
    if masked:
        i, j = np.ogrid[: len(s), :count]
        s = np.where((j >= i + scalars["low"]) & (j < i + scalars["high"]), s, -np.inf)
    most = s.max(1, keepdims=True, initial=-np.inf)
    p = np.exp2(s - np.where(np.isinf(most), 0, most))
    return p @ v[:count], p.sum(1), p @ abs(v[:count])


def check_attention(n, stages=2, rows=N, target=None, masked=False, low=0, high=0, text=False, strictly=True):
    arrays, scalars = attention_arguments(n, rows, low, high)
    kernel = attention(stages, rows, target, masked)
    if strictly:
        out = strict.run(kernel, arrays, scalars, text=text)
    else:
        out, result = strict.launch(kernel.artifact, strict.entries_of(kernel.artifact), arrays, scalars)
        assert not result.hazards, "\n".join(h.text() for h in result.hazards[:3])
    y, total, magnitude = attention_values(arrays, scalars, masked)
    # Weights are rounded to float16.
    assert (abs(out["Y"] - y) <= 2.0**-11 * magnitude + 1e-6).all()
    np.testing.assert_allclose(out["L"], total, rtol=2.0**-17)


@pytest.mark.parametrize("stages", [1, 2, 3, 4, 6])
@pytest.mark.one_in(4)
def test_a_factor_is_overwritten_before_it_rescales(stages):
    """Look-ahead longer than the ring of factors: every step has another one."""
    check_attention(9, stages)


@pytest.mark.parametrize("n", [3, 4, 5, 9])
def test_look_ahead_of_four_stops_for_long_sequences(n):
    check_attention(n, 4)


@pytest.mark.parametrize("target", [None, "a5"])
def test_credits_left_at_the_end(target):
    """Any number of trips up to twice the depth and one more: no flag is up when the cores end (which the machine checks)."""
    for n in range(2 * MANY_VERSIONS + 2):
        check_attention(n, target=target, text=n == 0, strictly=n < 6 and not target)


def test_every_flag_of_attention_is_needed():
    """Four steps are worked on together: none, one, two and three of those, with and without steps that are left over."""
    launches = [attention_arguments(n)[1] for n in (0, 1, 2, 3, 4, 5, 8, 12)]
    found = strict.surviving_mutants(attention(), attention_arguments(0)[0], *launches)
    assert [label for label in found if "flag" in label] == []


def test_a_vector_core_without_rows():
    """One row: the second vector core has none, and its flags count all the same."""
    for n in (0, 1, 3):
        check_attention(n, rows=1)


@pytest.mark.parametrize("case, low, high", [
    ("no row sees a key", 64, 99), ("rows without a key", -8, 1), ("the first tiles are masked", 20, 30), ("all of them", -99, 99),
])  # fmt: skip
def test_rows_without_a_visible_key(case, low, high):
    check_attention(3, masked=True, low=low, high=high)


@pytest.mark.parametrize("stages", [2, 8])
def test_more_stages_than_weights_have_copies(stages):
    """A5: scores come to UB, and weights go to L1, while others are in use there."""
    for n in (0, 1, 9):
        check_attention(n, stages, target="a5")


# ---- loops ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=None)
def there_and_back(stages, start=None, stop=None, blocks=1):
    """Adds relu(A_k @ A_k) @ A_k to Y_k for all k of [start, stop); None is known at run time."""

    @T.prim_func
    def main(A: T.Tensor((blocks, 8, N, N), F16), first: T.int32, end: T.int32, Y: T.Tensor((blocks, 8, N, N), F32)):
        with T.Kernel(blocks) as bx:
            a, p = T.alloc_shared((N, N), F16), T.alloc_fragment((N, N), F16)
            s, o = T.alloc_fragment((N, N), F32), T.alloc_fragment((N, N), F32)
            for k in T.Pipelined(first if start is None else start, end if stop is None else stop, num_stages=stages):
                T.copy(A[bx, k, 0, 0], a)
                T.gemm(a, a, s, clear_accum=True)
                for i, j in T.Parallel(N, N):
                    p[i, j] = T.max(s[i, j], 0.0)
                T.gemm(p, a, o, clear_accum=True)
                T.atomic_add(Y[bx, k, 0, 0], o)

    return tilelang.compile(main)


def there_and_back_values(a, start, stop):
    x = a.astype(np.float64)
    y = np.maximum(x @ x, 0) @ x
    y[:, :start] = y[:, max(start, stop) :] = 0
    return y


@pytest.mark.parametrize("stages, start, stop, launches", [
    (2, 0, 3, [(0, 0)]), (3, 0, 2, [(0, 0)]), (2, 2, 6, [(0, 0)]), (2, 0, None, [(0, 0), (0, 1), (0, 5)]), (3, None, None, [(3, 2), (2, 7)]),
])  # fmt: skip
@pytest.mark.one_in(2)
def test_iterations_lost_by_stages(stages, start, stop, launches):
    """Trips that stages do not divide, fewer than stages, a start that is not zero, an end known at run time."""
    a = whole(1, 8, N, N)
    for first, end in launches:
        out = strict.run(there_and_back(stages, start, stop), {"A": a, "Y": f32(1, 8, N, N)}, {"first": first, "end": end}, text=False)
        bounds = (first if start is None else start, end if stop is None else stop)
        np.testing.assert_array_equal(out["Y"], there_and_back_values(a, *bounds))


@pytest.mark.one_in(2)
def test_many_blocks_share_a_workspace():
    """More blocks than cores, pipelined and serial: bit for bit."""
    blocks = 2 * get_chip("a2").num_aic + 1
    a = np.random.default_rng(0).standard_normal((blocks, 8, N, N)).astype(np.float16)
    given = {"A": a, "Y": f32(blocks, 8, N, N)}
    pipelined, serial = (
        strict.run(there_and_back(stages, blocks=blocks), given, {"first": 1, "end": 3}, text=False)["Y"] for stages in (2, 0)
    )
    assert pipelined.tobytes() == serial.tobytes()
    np.testing.assert_allclose(pipelined, there_and_back_values(a, 1, 3), rtol=2e-3, atol=0.2)


def test_an_operand_is_overwritten_by_the_next_task():
    """The last product of a task is long, and the next task loads its Q."""
    wide = 128

    @T.prim_func
    def main(
        Q: T.Tensor((2, N, N), F16), K: T.Tensor((2, N, N), F16), V: T.Tensor((2, N, wide), F16), n: T.int32, Y: T.Tensor((2, N, wide), F32)
    ):  # fmt: skip
        with T.Kernel(1):
            q, k, v = T.alloc_shared((N, N), F16), T.alloc_shared((N, N), F16), T.alloc_shared((N, wide), F16)
            s, p, o = T.alloc_fragment((N, N), F32), T.alloc_fragment((N, N), F16), T.alloc_fragment((N, wide), F32)
            for task in T.serial(2):
                T.copy(Q[task, 0, 0], q)
                T.clear(o)
                for t in T.Pipelined(n, num_stages=2):
                    T.copy(K[t, 0, 0], k)
                    T.copy(V[t, 0, 0], v)
                    T.gemm(q, k, s, clear_accum=True)
                    for i, j in T.Parallel(N, N):
                        p[i, j] = T.max(s[i, j], 0.0)
                    T.gemm(p, v, o)
                    T.gemm(q, v, o)
                T.copy(o, Y[task, 0, 0])

    compiled = tilelang.compile(main)
    q, k, v = whole(2, N, N), whole(2, N, N, seed=1), whole(2, N, wide, seed=2)
    given = {"Q": q, "K": k, "V": v, "Y": f32(2, N, wide) + 7}
    for n in (0, 2):
        want = sum((np.maximum(q.astype(F32) @ k[t], 0) + q) @ v[t] for t in range(n)) if n else f32(2, N, wide)
        np.testing.assert_array_equal(strict.run(compiled, given, {"n": n}, text=n == 2)["Y"], want)
    assert unnoticed(compiled, given, 0, 1, 2, 3) == []


@pytest.mark.parametrize("stages", [0, 1, 2, 4])
@pytest.mark.parametrize("cube", [False, True], ids=["vector", "cube"])
@pytest.mark.one_in(2)
def test_the_load_of_the_next_tile_overtakes_the_use_of_this_one(cube, stages):
    """A tile is read, then overwritten in the body of a pipelined loop."""

    @T.prim_func
    def main(A: T.Tensor((6, N, N), F16), n: T.int32, Y: T.Tensor((N, N), F32)):
        with T.Kernel(1):
            a, c = T.alloc_shared((N, N), F16), T.alloc_fragment((N, N), F32)
            T.clear(c)
            T.copy(A[0, 0, 0], a)
            for k in T.Pipelined(n, num_stages=stages):
                if cube:
                    T.gemm(a, a, c)
                else:
                    for i, j in T.Parallel(N, N):
                        c[i, j] += a[i, j]
                T.copy(A[k + 1, 0, 0], a)
            T.copy(c, Y)

    compiled, a = tilelang.compile(main), whole(6, N, N)
    given = {"A": a, "Y": f32(N, N) + 7}
    for n in (0, 1, 5, 7):
        x = a[:n].astype(np.float32)  # behind the end of A are zeros
        want = (x @ x if cube else x).sum(0)
        np.testing.assert_array_equal(strict.run(compiled, given, {"n": n}, text=False)["Y"], want)
    assert unnoticed(compiled, given, 0, 1, 5, 7) == []


def test_a_later_read_hides_an_unfinished_one():
    """A tile is stored, then read by a loop of 0, 1 or many trips, then loaded anew: the load waits for both."""

    @T.prim_func
    def main(X: T.Tensor((3, 512), F32), n: T.int32, Y: T.Tensor((3, 512), F32), Z: T.Tensor((512,), F32)):
        with T.Kernel(1):
            x, z = T.alloc_shared((512,), F32), T.alloc_shared((512,), F32)
            T.clear(z)
            for o in T.serial(3):
                T.copy(X[o, 0], x)
                T.copy(x, Y[o, 0])
                for _ in T.serial(n):
                    for i in T.Parallel(512):
                        z[i] += x[i]
            T.copy(z, Z)

    compiled, x = tilelang.compile(main), whole(3, 512, dtype=np.float32)
    given = {"X": x, "Y": f32(3, 512), "Z": f32(512) + 7}
    for n in (0, 1, 4):
        out = strict.run(compiled, given, {"n": n}, text=n == 4)
        np.testing.assert_array_equal(out["Y"], x)
        np.testing.assert_array_equal(out["Z"], n * x.sum(0))
    assert unnoticed(compiled, given, 0, 1, 4) == []


def test_a_branch_that_is_not_taken_orders_nothing():
    """Between a product and what becomes of it stands a branch that would have waited."""

    @T.prim_func
    def main(A: T.Tensor((N, N), F16), n: T.int32, Y: T.Tensor((2, N, N), F32)):
        with T.Kernel(1):
            a, p = T.alloc_shared((N, N), F16), T.alloc_fragment((N, N), F16)
            s, o = T.alloc_fragment((N, N), F32), T.alloc_fragment((N, N), F32)
            for t in T.serial(2):
                T.copy(A, a)
                T.gemm(a, a, s, clear_accum=True)
                if n > t:
                    for i, j in T.Parallel(N, N):
                        s[i, j] = s[i, j] * 2.0
                for i, j in T.Parallel(N, N):
                    p[i, j] = s[i, j] + 1.0
                T.gemm(p, a, o, clear_accum=True)
                T.copy(o, Y[t, 0, 0])

    compiled, a = tilelang.compile(main), whole(N, N)
    given = {"A": a, "Y": f32(2, N, N)}
    for n in (0, 1, 2):
        want = [(a.astype(F32) @ a * (2 if n > t else 1) + 1) @ a for t in range(2)]
        np.testing.assert_array_equal(strict.run(compiled, given, {"n": n}, text=n == 1)["Y"], want)
    assert unnoticed(compiled, given, 0, 1, 2, 3) == []


# ---- flags ---------------------------------------------------------------------------------------------------------


def three_hand_overs(one_name):
    """Three values cross between the cores, made and used in unequal nests of loops, in tiles that share a name or not."""

    @T.prim_func
    def main(A: T.Tensor((2, 2, N, N), F16), n: T.int32, Y: T.Tensor((2, N, N), F32), Z: T.Tensor((N, N), F32)):
        with T.Kernel(1):
            a, b = T.alloc_shared((N, N), F16), T.alloc_shared((N, N), F16)
            if one_name:
                workspace = T.alloc_fragment((N, N), F32)
                first = workspace
                workspace = T.alloc_fragment((N, N), F16)
                second = workspace
                workspace = T.alloc_fragment((N, N), F32)
                third = workspace
            else:
                first, second, third = (T.alloc_fragment((N, N), dtype) for dtype in (F32, F16, F32))
            T.copy(A[0, 0, 0, 0], b)
            for i in T.serial(2):
                T.clear(first)
                for k in T.serial(n):
                    T.copy(A[i, k, 0, 0], a)
                    T.gemm(a, a, first)
                for r, c in T.Parallel(N, N):
                    second[r, c] = first[r, c] + 1.0
                T.gemm(second, b, third, clear_accum=True)
                T.copy(first, Y[i, 0, 0])
            for r, c in T.Parallel(N, N):
                third[r, c] = T.max(third[r, c], 0.0)
            T.copy(third, Z)

    return tilelang.compile(main)


def synchronisation(compiled):
    return list(strict.numbered(compiled.artifact.ascend_ir)[1].values())


def test_flags_are_matched_by_names_of_tiles():
    compiled, a = three_hand_overs(True), whole(2, 2, N, N)
    assert all(f"workspace{number}_ws_addr" in compiled.artifact.kernel_source for number in ("", "_1", "_2"))
    assert synchronisation(compiled) == synchronisation(three_hand_overs(False))
    given = {"A": a, "Y": f32(2, N, N), "Z": f32(N, N)}
    for n in (0, 2):
        out = strict.run(compiled, given, {"n": n}, text=n == 2)
        x = a[:, :n].astype(np.float32)
        y = (x @ x).sum(1)
        np.testing.assert_array_equal(out["Y"], y)
        np.testing.assert_array_equal(out["Z"], np.maximum((y[1] + 1) @ a[0, 0], 0))
    assert unnoticed(compiled, given, 0, 1, 2) == []


def test_neighbours_that_touch_do_not_wait_for_each_other():
    """Halves of one tile need as few barriers as tiles of their own."""

    def kernel(apart):
        @T.prim_func
        def main(X: T.Tensor((512,), F32), Y: T.Tensor((512,), F32)):
            with T.Kernel(1):
                x = T.alloc_shared((256,), F32)
                y = T.alloc_shared((256,), F32) if apart else x
                at = 0 if apart else 128
                T.copy(X[0:128], x[0:128])
                T.copy(X[128:256], y[at : at + 128])
                for i in T.Parallel(128):
                    x[i] = x[i] + 1.0
                for i in T.Parallel(128):
                    y[at + i] = y[at + i] * 2.0
                T.copy(x[0:128], Y[0:128])
                T.copy(y[at : at + 128], Y[128:256])

        return tilelang.compile(main)

    x = whole(512, dtype=np.float32)
    counts = []
    for apart in (True, False):
        compiled = kernel(apart)
        out = strict.run(compiled, {"X": x, "Y": f32(512)}, text=False)["Y"]
        np.testing.assert_array_equal(out[:256], np.concatenate([x[:128] + 1, x[128:256] * 2]))
        counts.append([label.split(": ")[1].split(" ")[0] for label in synchronisation(compiled)])
    assert sorted(counts[0]) == sorted(counts[1]) and "ascend.pipe_barrier" not in counts[1]


def crossings(compiled, arrays, scalars, core):
    """("set" or "wait", id) of all flags between the cores that the first core of that kind issues, in order."""
    _, result = strict.launch(compiled.artifact, strict.entries_of(compiled.artifact), arrays, scalars)
    stream = next(s for name, s in zip(result.core_names, result.streams) if name.lower().startswith(core))
    words = [record.text().split(" ")[0] for record in records(stream)]
    return [word.split("_")[2] for word in words if word.startswith("cross_core")]


def test_a_producer_waits_although_a_slot_is_free():
    """The cube core hands over as many tiles as the workspace has slots before it waits for the vector core the first time."""

    @T.prim_func
    def main(A: T.Tensor((TRIPS, N, N), F16), Y: T.Tensor((N, N), F32)):
        with T.Kernel(1):
            a, c, y = T.alloc_shared((N, N), F16), T.alloc_fragment((N, N), F32), T.alloc_fragment((N, N), F32)
            T.clear(y)
            for k in T.Pipelined(TRIPS, num_stages=2):
                T.copy(A[k, 0, 0], a)
                T.gemm(a, a, c, clear_accum=True)
                for i, j in T.Parallel(N, N):
                    y[i, j] = y[i, j] * 0.5 + T.max(c[i, j], 0.0)
            T.copy(y, Y)

    compiled, a = tilelang.compile(main), whole(TRIPS, N, N)
    given, want = {"A": a, "Y": f32(N, N)}, 0
    for x in a.astype(np.float32):
        want = want * 0.5 + np.maximum(x @ x, 0)
    np.testing.assert_array_equal(strict.run(compiled, given)["Y"], want)
    slots = MANY_VERSIONS
    assert crossings(compiled, given, {}, "aiv")[: slots + 1] == ["set"] * slots + ["wait"]
    assert strict.surviving_mutants(compiled, given) == []


@pytest.mark.parametrize("rows", [1, 3])
def test_a_vector_core_without_work_speaks_for_the_other(rows):
    """Rows that only one vector core has, and a step that only one of them does, on the way from product to product."""

    @T.prim_func
    def main(A: T.Tensor((3, rows, N), F16), B: T.Tensor((N, N), F16), Y: T.Tensor((3, rows, N), F32)):
        with T.Kernel(1):
            a, b, p = T.alloc_shared((rows, N), F16), T.alloc_shared((N, N), F16), T.alloc_fragment((rows, N), F16)
            s, total = T.alloc_fragment((rows, N), F32), T.alloc_fragment((N,), F32)
            T.copy(B, b)
            for k in T.serial(3):
                T.copy(A[k, 0, 0], a)
                T.gemm(a, b, s, clear_accum=True)
                T.reduce_sum(s, total, dim=0)
                for i, j in T.Parallel(rows, N):
                    p[i, j] = s[i, j] + total[0]
                T.gemm(p, b, s, clear_accum=True)
                T.copy(s, Y[k, 0, 0])

    compiled = tilelang.compile(main)
    a, b = whole(3, rows, N), whole(N, N, seed=1)
    given = {"A": a, "B": b, "Y": f32(3, rows, N)}
    s = a.astype(np.float32) @ b
    np.testing.assert_array_equal(strict.run(compiled, given, text=rows == 3)["Y"], (s + s.sum(1, keepdims=True)[:, :, :1]) @ b)
    assert strict.surviving_mutants(compiled, given) == []


# ---- memory --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stages", [2, 3, 8])
def test_every_temporary_gets_a_copy_for_every_stage(stages):
    """Tiles that fill UB: only those of transfers may have copies, and only as many as there is room for."""
    n = 9000

    @T.prim_func
    def main(X: T.Tensor((4, n), F32), Y: T.Tensor((4, n), F32)):
        with T.Kernel(1):
            x, u, v = T.alloc_shared((n,), F32), T.alloc_fragment((n,), F32), T.alloc_fragment((n,), F32)
            w = T.alloc_fragment((n,), F32)
            for k in T.Pipelined(4, num_stages=stages):
                T.copy(X[k, 0], x)
                for i in T.Parallel(n):
                    u[i] = x[i] + 1.0
                for i in T.Parallel(n):
                    v[i] = u[i] * x[i]
                for i in T.Parallel(n):
                    w[i] = v[i] * v[i] - u[i]
                T.copy(w, Y[k, 0])

    compiled, x = tilelang.compile(main), whole(4, n, dtype=np.float32)
    out = strict.run(compiled, {"X": x, "Y": f32(4, n)}, text=False)["Y"]
    np.testing.assert_array_equal(out, ((x + 1) * x) ** 2 - (x + 1))
    versions = dict(re.findall(r"^  (\w+) +\d+ +(\d+) x \d+ ", compiled.artifact.memory_map, re.MULTILINE))
    assert versions["u"] == versions["v"] == "1", versions


@pytest.mark.parametrize("direct", [False, True], ids=["through a tile", "from one load"])
def test_a_transposition_gets_lost_on_the_way(direct):
    """One square tile is K of the scores (transposed) and V of the output: nothing but values would show it."""

    @T.prim_func
    def main(Q: T.Tensor((N, N), F16), KV: T.Tensor((2, N, N), F16), Y: T.Tensor((N, N), F32)):
        with T.Kernel(1):
            q, kv, k = T.alloc_shared((N, N), F16), T.alloc_shared((N, N), F16), T.alloc_shared((N, N), F16)
            s, p, o = T.alloc_fragment((N, N), F32), T.alloc_fragment((N, N), F16), T.alloc_fragment((N, N), F32)
            T.copy(Q, q)
            T.clear(o)
            for t in T.Pipelined(2, num_stages=2):
                T.copy(KV[t, 0, 0], kv)
                if direct:
                    T.gemm(q, kv, s, transpose_B=True, clear_accum=True)
                else:
                    T.copy(kv, k)
                    T.gemm(q, k, s, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(N, N):
                    p[i, j] = T.max(s[i, j], 0.0)
                T.gemm(p, kv, o)
                T.gemm(p, kv, o, transpose_A=True)
            T.copy(o, Y)

    q, kv = whole(N, N), whole(2, N, N, seed=1)
    out = strict.run(tilelang.compile(main), {"Q": q, "KV": kv, "Y": f32(N, N)}, text=False)["Y"]
    p = [np.maximum(q.astype(np.float32) @ x.T, 0) for x in kv]
    np.testing.assert_array_equal(out, sum((w + w.T) @ x for w, x in zip(p, kv)))


def test_a_tile_of_both_cores_is_left_out():
    """Weights that the vector cores write are read by two products, and written anew while the second may still run."""

    @T.prim_func
    def main(A: T.Tensor((3, N, N), F16), B: T.Tensor((N, 128), F16), Y: T.Tensor((N, N), F32), Z: T.Tensor((N, 128), F32)):
        with T.Kernel(1):
            a, b, p = T.alloc_shared((N, N), F16), T.alloc_shared((N, 128), F16), T.alloc_shared((N, N), F16)
            s, y, z = T.alloc_fragment((N, N), F32), T.alloc_fragment((N, N), F32), T.alloc_fragment((N, 128), F32)
            T.copy(B, b)
            T.clear(y)
            T.clear(z)
            for k in T.serial(3):
                T.copy(A[k, 0, 0], a)
                T.gemm(a, a, s, clear_accum=True)
                for i, j in T.Parallel(N, N):
                    p[i, j] = T.max(s[i, j], 0.0)
                T.gemm(p, a, y)
                T.gemm(p, b, z)
            T.copy(y, Y)
            T.copy(z, Z)

    compiled = tilelang.compile(main)
    a, b = whole(3, N, N), whole(N, 128, seed=1)
    given = {"A": a, "B": b, "Y": f32(N, N), "Z": f32(N, 128)}
    out = strict.run(compiled, given)
    x = a.astype(np.float32)
    p = np.maximum(x @ x, 0)
    np.testing.assert_array_equal(out["Y"], (p @ x).sum(0))
    np.testing.assert_array_equal(out["Z"], (p @ b.astype(np.float32)).sum(0))
    assert strict.surviving_mutants(compiled, given) == []


def test_atomics_of_a_loop_with_copies():
    """Two blocks add three tiles in turn to one place."""

    @T.prim_func
    def main(X: T.Tensor((2, 8, 512), F32), n: T.int32, Y: T.Tensor((2, 512), F32)):
        with T.Kernel(2) as bx:
            x, y = T.alloc_shared((512,), F32), T.alloc_fragment((512,), F32)
            for k in T.Pipelined(n, num_stages=3):
                T.copy(X[bx, k, 0], x)
                for i in T.Parallel(512):
                    y[i] = x[i] * 2.0
                T.atomic_add(Y[k % 2, 0], y)

    compiled, x = tilelang.compile(main), whole(2, 8, 512, dtype=np.float32)
    given = {"X": x, "Y": f32(2, 512) + 1}
    for n in (0, 1, 8):
        want = 1 + 2 * np.stack([x[:, k:n:2].sum((0, 1)) for k in range(2)])
        np.testing.assert_array_equal(strict.run(compiled, given, {"n": n}, text=n == 8)["Y"], want)
    assert strict.surviving_mutants(compiled, given, *({"n": n} for n in (0, 1, 8, 12))) == []


def reductions(rows, columns, dims, scans=False, places=False):
    @T.prim_func
    def main(X: T.Tensor((rows, columns), F32), Y: T.Tensor((rows,), F32), Z: T.Tensor((columns,), F32)):
        with T.Kernel(1):
            x = T.alloc_shared((rows, columns), F32)
            y, z = T.alloc_fragment((rows,), F32), T.alloc_fragment((columns,), F32)
            T.copy(X, x)
            if 0 in dims:
                T.reduce_sum(x, z, dim=0)
                T.copy(z, Z)
            if 1 in dims:
                T.reduce_max(x, y, dim=1)
                T.copy(y, Y)
            for dim in (0, 1) if scans else ():
                T.cumsum(x, x, dim=dim)
            if places:
                for i in T.serial(rows):
                    for j in T.Parallel(columns):
                        x[T.cast(x[i, 0], "int32") % rows, j] = x[i, j] + 1.0
            T.copy(x, X)

    return main


@pytest.mark.parametrize(
    "rows, columns, dims", [(40, 1024, (1,)), (1, 40960, (1,)), (40, 1024, (0,)), (160, 256, (0,)), (22, 1024, (0, 1)), (40, 1024, (0, 1))]
)
def test_a_reduction_takes_memory_behind_the_planner(rows, columns, dims):
    """The tile leaves little of UB to the reductions of its rows and columns."""
    compiled, x = tilelang.compile(reductions(rows, columns, dims)), whole(rows, columns, low=-99, high=99, dtype=np.float32)
    out = strict.run(compiled, {"X": x.copy(), "Y": f32(rows), "Z": f32(columns)}, text=False)
    np.testing.assert_array_equal(out["X"], x)
    np.testing.assert_array_equal(out["Y"], x.max(1) if 1 in dims else f32(rows))
    np.testing.assert_array_equal(out["Z"], x.sum(0) if 0 in dims else f32(columns))


def test_scans_both_ways_behind_reductions():
    """Each of them goes from part to part."""
    compiled, x = tilelang.compile(reductions(40, 1024, (0, 1), scans=True)), whole(40, 1024, low=-9, high=9, dtype=np.float32)
    out = strict.run(compiled, {"X": x.copy(), "Y": f32(40), "Z": f32(1024)}, text=False)
    for name, expected in (("X", x.cumsum(0).cumsum(1)), ("Y", x.max(1)), ("Z", x.sum(0))):
        np.testing.assert_array_equal(out[name], expected)


def test_what_a_reduction_takes_is_in_the_message(monkeypatch):
    """Data says which rows change: all of the tile is wanted at once, and there is no room. The error names the temporary and its line."""
    monkeypatch.setattr(pipeline, "SPILLED_ROOM", ())  # The tile could go to GM.
    with pytest.raises(OutOfMemory) as caught:
        tilelang.compile(reductions(40, 1024, (0, 1), places=True))
    line = reductions.__code__.co_firstlineno + 8
    assert re.search(rf"fold +{line} +1 x 81920", str(caught.value)), str(caught.value)


@pytest.mark.parametrize("m, n", [(256, 128), (128, 256), pytest.param(256, 256, marks=pytest.mark.slow)])
@pytest.mark.parametrize("tile, k", [(192, 200), (256, 256), (576, 576)])
def test_a_long_k_overflows_l0(m, n, tile, k):
    @T.prim_func
    def main(A: T.Tensor((m, k), F16), B: T.Tensor((n, k), F16), Y: T.Tensor((m, n), F32)):
        with T.Kernel(1):
            a, b, c = T.alloc_shared((m, tile), F16), T.alloc_shared((n, tile), F16), T.alloc_fragment((m, n), F32)
            T.clear(c)
            for t in T.Pipelined(T.ceildiv(k, tile), num_stages=2):
                T.copy(A[0, t * tile], a)
                T.copy(B[0, t * tile], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, Y)

    a, b = whole(m, k), whole(n, k, seed=1)
    out = strict.run(tilelang.compile(main), {"A": a, "B": b, "Y": f32(m, n)}, text=False)["Y"]
    np.testing.assert_array_equal(out, a.astype(np.float32) @ b.T.astype(np.float32))


# ---- whole kernels -------------------------------------------------------------------------------------------------


def run_case(case):
    cases.check(case, lambda kernel, arrays: strict.run(tilelang.compile(kernel), arrays, text=False))


def test_without_a_mask_all_keys_weigh_the_same():
    """Sequences one below the other, not causal: the result is not the average of the values."""
    torch.manual_seed(0)
    kernel, arguments, outputs = cases.ragged([17, 1], [40, 5], 1, 32)
    average = arguments["V"][:40].float().mean(0)
    assert (outputs["Output"][0][:17] - average).abs().max() > 0.5
    run_case((kernel, arguments, outputs))


def test_gradients_of_a_length_that_is_no_multiple_of_the_tile():
    torch.manual_seed(0)
    run_case(cases.backward(1, 1, 40, 96))


@pytest.mark.parametrize("chip", ["a2", "a5"])
@pytest.mark.parametrize("window, sinks", [(8, True), (24, True), (8, False)])
@pytest.mark.one_in(3)
def test_more_queries_than_keys(window, sinks, chip):
    """The first queries stand in front of the first key, and the window of others begins within a tile: rows without a key are zero beside a sink,
    and 0 / 0 without."""
    torch.manual_seed(0)
    kernel, arguments, outputs = cases.forward(1, 1, 40, 32, seq_kv=21, causal=True, window=window, sinks=sinks, bM=16, bN=16)
    arrays = {name: cases.to_numpy(x).copy() for name, x in arguments.items()}
    out = strict.run(tilelang.compile(kernel, target=chip), arrays, text=False)["Output"][0, 0].astype(np.float32)
    expected, magnitude = (x[0, 0].numpy() for x in outputs["Output"][:2])
    assert np.isnan(expected[:19]).all() == (not sinks) and np.isfinite(expected[19:]).all()
    np.testing.assert_array_equal(np.isnan(out), np.isnan(expected))
    there = ~np.isnan(expected)
    assert (abs(out - expected)[there] <= (2.0**-10 * magnitude + 1e-6)[there]).all()


@pytest.mark.parametrize("count", [5, 24])
def test_numbers_behind_the_end_of_a_list_repeat_the_first_key(count):
    """A list of keys that is no multiple of the tile."""
    keys = 40

    @T.prim_func
    def main(
        Q: T.Tensor((N, N), F16), K: T.Tensor((keys, N), F16), List: T.Tensor((count,), "int32"), Y: T.Tensor((N, N), F32)
    ):  # fmt: skip
        with T.Kernel(1):
            q, k = T.alloc_shared((N, N), F16), T.alloc_shared((N, N), F16)
            s, p, o = T.alloc_fragment((N, N), F32), T.alloc_fragment((N, N), F16), T.alloc_fragment((N, N), F32)
            T.copy(Q, q)
            T.clear(o)
            for t in T.Pipelined(T.ceildiv(count, N), num_stages=2):
                for i, j in T.Parallel(N, N):
                    k[i, j] = K[List[t * N + i], j]
                T.gemm(q, k, s, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(N, N):
                    p[i, j] = T.if_then_else(t * N + j < count, s[i, j] + 1.0, 0.0)
                T.gemm(p, k, o)
            T.copy(o, Y)

    q, k = whole(N, N), whole(keys, N, seed=1)
    numbers = np.random.default_rng(2).permutation(keys)[:count].astype(np.int32)
    out = strict.run(tilelang.compile(main), {"Q": q, "K": k, "List": numbers, "Y": f32(N, N)}, text=False)["Y"]
    x = k[numbers].astype(np.float32)
    np.testing.assert_array_equal(out, (q @ x.T + 1) @ x)
