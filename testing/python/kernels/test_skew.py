"""Loops whose values go from one kind of core to the other and back: late statements beside the early ones of the next iteration."""

from functools import lru_cache

import attention_cases as cases
import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.analysis.dependence.trace import traces
from tilelang_ascend.arch import get_chip
from tilelang_ascend.ir import For, IfThenElse, statements, stmts_of, tirx
from tilelang_ascend.tile import GEMM, is_op
from tilelang_ascend.tile.uses import SKEW, lateness
from tilelang_ascend.tileop.base.layout import row_major
from tilelang_ascend.transform import pipeline
from tilelang_ascend.transform.lower import lower_tile_ops
from tilelang_ascend.transform.sync import executions

F16, F32 = "float16", "float32"
N = 32


@lru_cache(maxsize=None)
def kernel(body, trips=4, chip=None):
    """A kernel with 16-bit operands A (trips blocks of N rows) and B, a float32 output Y, a number n, and tiles for them."""
    rows = N * max(trips, 1)

    @T.prim_func
    def k(A: T.Tensor((rows, N), F16), B: T.Tensor((rows, N), F16), n: T.int32, Y: T.Tensor((N, N), F32)):
        with T.Kernel(1):
            a, b, p = T.alloc_shared((N, N), F16), T.alloc_shared((N, N), F16), T.alloc_fragment((N, N), F16)
            s, o, m = T.alloc_fragment((N, N), F32), T.alloc_fragment((N, N), F32), T.alloc_fragment((N,), F32)
            T.fill(o, 0.0)
            T.fill(m, 0.0)
            body(A, B, a, b, p, s, o, m, trips, n)
            T.copy(o, Y)

    return tilelang.compile(k, target=chip)


def step(A, B, a, b, p, s, o, m, k):
    """o = o * 0.5 + f16(max(A_k @ A_k^T, 0) / 8) @ B_k, and what a row of A_k @ A_k^T was at most goes into the next step."""
    T.copy(A[k * N, 0], a)
    T.clear(s)
    T.gemm(a, a, s, transpose_B=True)
    for i, j in T.Parallel(N, N):
        s[i, j] = T.max(s[i, j], 0.0) * 0.125 + m[i]
    T.reduce_max(s, m, dim=1)
    T.copy(s, p)
    for i, j in T.Parallel(N, N):
        o[i, j] *= 0.5
    T.copy(B[k * N, 0], b)
    T.gemm(p, b, o)
    for i in T.Parallel(N):
        m[i] = m[i] * 0.0625


def constant(A, B, a, b, p, s, o, m, trips, n):
    for k in T.Pipelined(trips, num_stages=2):
        step(A, B, a, b, p, s, o, m, k)


def run_time(A, B, a, b, p, s, o, m, trips, n):
    for k in T.serial(n):
        step(A, B, a, b, p, s, o, m, k)


def from_one(A, B, a, b, p, s, o, m, trips, n):
    for k in T.serial(1, trips):
        step(A, B, a, b, p, s, o, m, k)


def three_behind_each_other(A, B, a, b, p, s, o, m, trips, n):
    """Of n, n // 2 and n // 3 trips."""
    for d in (1, 2, 3):
        for k in T.serial(n // d):
            step(A, B, a, b, p, s, o, m, k)


def left_early(A, B, a, b, p, s, o, m, trips, n):
    for k in T.serial(trips):
        if k == n:
            T.loop_break()
        step(A, B, a, b, p, s, o, m, k)


def twice(A, B, a, b, p, s, o, m, trips, n):
    for _r in T.serial(2):
        for k in T.serial(trips):
            step(A, B, a, b, p, s, o, m, k)


def round_trip(A, B, a, b, p, s, o, m, trips, n):
    """The second product of an iteration decides what the first one of the next multiplies: nothing may overlap."""
    for k in T.serial(trips):
        for i, j in T.Parallel(N, N):
            p[i, j] = o[i, j] * 0.25 + 0.0625
        T.copy(A[k * N, 0], a)
        T.gemm(p, a, s, clear_accum=True)
        for i, j in T.Parallel(N, N):
            p[i, j] = T.max(s[i, j], 0.0)
        T.copy(B[k * N, 0], b)
        T.gemm(p, b, o, clear_accum=True)


def alternating(A, B, a, b, p, s, o, m, trips, n):
    """An iteration multiplies what the one before has made of a product."""
    for k in T.serial(trips):
        T.copy(A[k * N, 0], a)
        T.gemm(p, a, s, clear_accum=True)
        for i, j in T.Parallel(N, N):
            p[i, j] = T.max(s[i, j], 0.0)


def one_of_two(A, B, a, b, p, s, o, m, trips, n):
    """The second product of an iteration takes part in the next, but only behind its first one."""
    for k in T.serial(trips):
        T.copy(A[k * N, 0], a)
        T.gemm(a, a, s, transpose_B=True, clear_accum=True)
        for i, j in T.Parallel(N, N):
            p[i, j] = s[i, j] * 0.0625 + o[i, j] * 0.25
        T.copy(B[k * N, 0], b)
        T.gemm(p, b, o, clear_accum=True)


def some(A, B, a, b, p, s, o, m, trips, n):
    """A block in three is left out."""
    for k in T.Pipelined(trips, num_stages=2):
        if k % 3 != n:
            step(A, B, a, b, p, s, o, m, k)


def expected(blocks, a, b):
    o, m = np.zeros((N, N)), np.zeros(N)
    for k in blocks:
        x = a[k * N : k * N + N].astype(np.float64)
        s = np.maximum(x @ x.T, 0) * 0.125 + m[:, None]
        o = o * 0.5 + s.astype(np.float16).astype(np.float64) @ b[k * N : k * N + N]
        m = s.max(axis=1) * 0.0625
    return o


def data(trips):
    rng = np.random.default_rng(trips)
    return [(rng.standard_normal((N * max(trips, 1), N)) / 2).astype(np.float16) for _ in range(2)]


def check(compiled, a, b, n, want, text=False):
    y = strict.run(compiled, {"A": a, "B": b, "Y": np.zeros((N, N), np.float32)}, {"n": n}, text=text)["Y"]
    # p is rounded to float16 on either side of a tie: one unit of its last place, for each of N products.
    np.testing.assert_allclose(y, want, rtol=0, atol=2.0**-10 * np.abs(want).max() * 4)


def skewed_loops(compiled) -> list:
    """Of blocks as the source has them."""
    options = pipeline.Options(coarsen=False)
    lowered = pipeline.lower(compiled.artifact.tile_ir, get_chip(compiled.artifact.chip), options=options, keep_stages=True)
    (stage,) = [ir for name, ir in lowered.stages if name == "skew_stages"]
    return [s for s in statements(stage.body) if isinstance(s, For) and SKEW in s.annotations]


def skewed(compiled) -> bool:
    return bool(skewed_loops(compiled))


def taking_turns(compiled) -> list[str]:
    """Notes that say why cube and vector cores do not overlap."""
    return [note for note in compiled.artifact.notes if "take turns" in note]


@pytest.mark.parametrize("body, reason, line", [
    (left_early, "'k': an iteration may be left early", 2), (round_trip, "'k': 'o_l0c' goes from iteration to iteration", 10),
    (alternating, "'k': 'p_ub' goes from iteration to iteration", 5),
    (three_behind_each_other, "too many ways", None),
], ids=lambda x: getattr(x, "__name__", ""))  # fmt: skip
def test_a_note_says_what_keeps_the_cores_in_step(body, reason, line):
    (note,) = taking_turns(kernel(body))
    where = f"{__file__}:{body.__code__.co_firstlineno + line}:" if line is not None else ""
    assert reason in note and where in note, note


def test_no_note_where_the_cores_overlap():
    for body in (constant, run_time, from_one, twice, one_of_two):
        assert not taking_turns(kernel(body))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("trips", [1, 2, 3, 5])
def test_a_constant_number_of_trips(trips):
    compiled = kernel(constant, trips)
    assert skewed(compiled) == (trips > 1)
    check(compiled, *data(trips), 0, expected(range(trips), *data(trips)), text=trips == 3)


@pytest.mark.parametrize("n", [0, 1, 2, 4])
@pytest.mark.one_in(2)
def test_a_number_of_trips_known_at_run_time(n):
    compiled = kernel(run_time)
    assert skewed(compiled)
    check(compiled, *data(4), n, expected(range(n), *data(4)), text=n == 4)


@pytest.mark.parametrize(
    "body, blocks", [(from_one, [1, 2, 3]), (twice, [0, 1, 2, 3] * 2), (left_early, [0, 1])], ids=lambda x: getattr(x, "__name__", "")
)
def test_other_loops(body, blocks):
    compiled = kernel(body)
    assert skewed(compiled) == (body is not left_early)
    check(compiled, *data(4), 2, expected(blocks, *data(4)))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("n", [0, 1, 7])
def test_blocks_that_are_left_out(n):
    """Early and late statements of an iteration ask the same condition, each in an iteration of its own."""
    compiled = kernel(some, 7)
    assert skewed(compiled)
    check(compiled, *data(7), n, expected([k for k in range(7) if k % 3 != n], *data(7)), text=n == 1)


@T.macro
def chosen_step(chosen_by, A, B, M, held, a, b, p, s, o, m, bx, k):
    """A block of keys that row `bx` of M has for step `k`, if it has one. held: the same row in a tile."""
    if chosen_by == "place":
        block = M[bx, k]
        if block >= 0 and block < 4:
            step(A, B, a, b, p, s, o, m, block)
    elif chosen_by == "place where there is one":
        if k < 4:
            block = M[bx, k + 2]
            if block >= 0 and block < 4:
                step(A, B, a, b, p, s, o, m, block)
    elif chosen_by == "name inside":
        if M[bx, k] >= 0 and M[bx, k] < 4:
            block = M[M[bx, k], 5]
            step(A, B, a, b, p, s, o, m, block)
    elif chosen_by == "copied":
        if held[k] >= 2:
            step(A, B, a, b, p, s, o, m, k % 4)
    elif chosen_by == "jump":
        if M[bx, k] < 2:
            T.continue_loop()
        step(A, B, a, b, p, s, o, m, k % 4)
    elif chosen_by == "jumps":
        if M[bx, k] < 1:
            T.continue_loop()
        if M[bx, k] == 1:
            T.continue_loop()
        step(A, B, a, b, p, s, o, m, k % 4)
    elif chosen_by == "either":
        if M[bx, k] < 2:
            step(A, B, a, b, p, s, o, m, 1)
        else:
            step(A, B, a, b, p, s, o, m, k % 4)
    else:
        if M[bx, k] >= 2:
            step(A, B, a, b, p, s, o, m, k % 4)


CHOICES = {
    "place": lambda M, bx, k: M[bx, k],
    "place where there is one": lambda M, bx, k: M[bx, k + 2] if k < 4 else -1,
    "name inside": lambda M, bx, k: M[M[bx, k], 5] if 0 <= M[bx, k] < 4 else -1,
    "either": lambda M, bx, k: 1 if M[bx, k] < 2 else k % 4,
    **{how: lambda M, bx, k: k % 4 if M[bx, k] >= 2 else -1 for how in ("mask", "copied", "jump", "jumps")},
}
"""How a block of keys is chosen -> which one it is; others than the first four are none."""


@lru_cache(maxsize=None)
def gathered(topk=2048, BI=64):
    """Keys that vector cores bring from where a table says: both early and late work of theirs begins an iteration."""
    kernel = cases.kernel_of("sparse_attention/gathered.py", "sparse_mla")(
        1, 96, 4096, 128, 512, 64, topk, dtype="bfloat16", BI=BI, block_H=64
    )
    return tilelang.compile(kernel)


def test_gathered_keys_come_while_the_cube_core_is_at_late_work():
    compiled = gathered()
    lowered = pipeline.lower(compiled.artifact.tile_ir, get_chip(compiled.artifact.chip), keep_stages=True)
    stages = [ir for name, ir in lowered.stages if name == "rotate_loops"]
    (loop,) = [
        s for s in statements(stages[-1].body) if isinstance(s, For) and sum(isinstance(x, IfThenElse) for x in stmts_of(s.body)) > 1
    ]
    windows = [s for s in stmts_of(loop.body) if isinstance(s, IfThenElse)]
    assert [isinstance(s.condition, tirx.GE) for s in windows] == [True, False, True, False]  # late, early, late, early
    assert [any(is_op(x, GEMM) for x in statements(s)) for s in windows] == [False, False, True, True]


def test_gathered_keys_are_worked_on_in_long_steps():
    """Products take them from GM each for itself, and masks are made when they are needed: L1 and UB have no room for those of three steps."""
    compiled = gathered()
    assert any("256 keys in one" in note for note in compiled.artifact.notes)
    assert any("is made with it" in note for note in compiled.artifact.notes)
    assert not taking_turns(compiled)


@lru_cache(maxsize=None)
def by_mask(chosen_by, tiles):
    """Blocks of queries, each with the blocks of keys that a mask has for it."""

    @T.prim_func
    def k(
        A: T.Tensor((4 * N, N), F16),
        B: T.Tensor((4 * N, N), F16),
        M: T.Tensor((tiles, 6), "int32"),
        Y: T.Tensor((tiles, N, N), F32),
    ):
        with T.Kernel(tiles) as bx:
            a, b, p = T.alloc_shared((N, N), F16), T.alloc_shared((N, N), F16), T.alloc_fragment((N, N), F16)
            s, o, m = T.alloc_fragment((N, N), F32), T.alloc_fragment((N, N), F32), T.alloc_fragment((N,), F32)
            held = T.alloc_local((6,), "int32")
            T.fill(o, 0.0)
            T.fill(m, 0.0)
            for k in T.serial(6):
                held[k] = M[bx, k]
            end = T.min(6, T.ceildiv((bx + 6) * 32, 32))
            for k in T.Pipelined(end, num_stages=2):
                chosen_step(chosen_by, A, B, M, held, a, b, p, s, o, m, bx, k)
            T.copy(o, Y[bx, 0, 0])

    return tilelang.compile(k)


@pytest.mark.parametrize("chosen_by", CHOICES)
@pytest.mark.one_in(6)
def test_blocks_that_data_chooses(chosen_by):
    """More tiles than cores, some without any block."""
    tiles = 60
    compiled = by_mask(chosen_by, tiles)
    assert skewed(compiled)
    (a, b), rng = data(4), np.random.default_rng(0)
    masks = rng.integers(-2, 5, (tiles, 6)).astype(np.int32)
    if chosen_by == "name inside":
        masks[:4, 5] = rng.integers(0, 4, 4)
    masks[5, :5] = -1
    blocks = [[x for x in (CHOICES[chosen_by](masks, bx, k) for k in range(6)) if 0 <= x < 4] for bx in range(tiles)]
    want = np.stack([expected(x, a, b) for x in blocks])
    y = strict.run(
        compiled,
        {"A": a, "B": b, "M": masks, "Y": np.zeros((tiles, N, N), np.float32)},
        text=chosen_by in ("mask", "name inside", "either"),
    )["Y"]
    np.testing.assert_allclose(y, want, rtol=0, atol=2.0**-10 * np.abs(want).max() * 4)


@lru_cache(maxsize=None)
def told(unless):
    """Branches with products tell whether there was one, which one was last, and how many keys. unless: whether others tell something, too."""

    @T.prim_func
    def k(
        A: T.Tensor((4 * N, N), F16),
        B: T.Tensor((4 * N, N), F16),
        M: T.Tensor((4, 6), "int32"),
        Y: T.Tensor((4, N, N), F32),
    ):
        with T.Kernel(4) as bx:
            a, b, p = T.alloc_shared((N, N), F16), T.alloc_shared((N, N), F16), T.alloc_fragment((N, N), F16)
            s, o, m = T.alloc_fragment((N, N), F32), T.alloc_fragment((N, N), F32), T.alloc_fragment((N,), F32)
            found, last, count = T.alloc_var("bool"), T.alloc_var("int32"), T.alloc_var("int32")
            T.fill(o, 0.0)
            T.fill(m, 0.0)
            found = False
            last = -1
            count = 0
            for k in T.Pipelined(6, num_stages=2):
                if M[bx, k] >= 0:
                    found = True
                    count = count + M[bx, k] + 1
                    if M[bx, k] >= 2:
                        last = k
                    step(A, B, a, b, p, s, o, m, M[bx, k])
                else:
                    if unless:
                        last = -2
            if found:
                for i, j in T.Parallel(N, N):
                    o[i, j] = o[i, j] + T.cast(last + count * 16, F32)
            T.copy(o, Y[bx, 0, 0])

    return tilelang.compile(k)


@pytest.mark.parametrize("unless", [False, True])
def test_branches_that_set_variables(unless):
    compiled = told(unless)
    assert skewed(compiled)
    (a, b), masks = data(4), np.array([[-1] * 6, [3, -1, 0, -1, 1, -1], [-1, -1, -1, -1, -1, 1], [2, 0, 1, 3, 3, 2]], np.int32)
    want = np.stack([expected([x for x in row if x >= 0], a, b) for row in masks])
    for row, y in zip(masks, want):
        told_last = [k if x >= 2 else -2 for k, x in enumerate(row) if x >= 2 or unless and x < 0]
        y += (row >= 0).any() * ([-1] + told_last)[-1] + 16 * (row + 1).sum()
    y = strict.run(compiled, {"A": a, "B": b, "M": masks, "Y": np.zeros((4, N, N), np.float32)}, text=unless)["Y"]
    np.testing.assert_allclose(y, want, rtol=0, atol=2.0**-10 * np.abs(want).max() * 4)


@pytest.mark.one_in(2)
def test_loops_of_unknown_trips_behind_each_other(monkeypatch):
    """Each number of trips of one would meet each of the others, a thousand in all, if all were skewed."""
    seen = []
    monkeypatch.setattr(executions, "traces", lambda *args, **kwargs: seen.append(traces(*args, **kwargs)) or seen[-1])
    compiled = kernel(three_behind_each_other)
    assert skewed(compiled) and max(map(len, seen)) <= pipeline.MOST_TRACES
    for n in (0, 1, 4):
        check(compiled, *data(4), n, expected([k for d in (1, 2, 3) for k in range(n // d)], *data(4)))


@lru_cache(maxsize=None)
def by_table(promised):
    """The end of the loop and the blocks it works on are data. `promised`: that blocks exist."""

    @T.prim_func
    def k(
        A: T.Tensor((4 * N, N), F16),
        B: T.Tensor((4 * N, N), F16),
        length: T.Tensor((1,), "int32"),
        table: T.Tensor((6,), "int32"),
        Y: T.Tensor((N, N), F32),
    ):
        with T.Kernel(1):
            a, b, p = T.alloc_shared((N, N), F16), T.alloc_shared((N, N), F16), T.alloc_fragment((N, N), F16)
            s, o, m = T.alloc_fragment((N, N), F32), T.alloc_fragment((N, N), F32), T.alloc_fragment((N,), F32)
            T.fill(o, 0.0)
            T.fill(m, 0.0)
            for j in T.serial(T.ceildiv(length[0], N)):
                block = table[j]
                if promised:
                    T.assume(block >= 0)
                    T.assume(block < 4)
                step(A, B, a, b, p, s, o, m, block)
            T.copy(o, Y)

    return tilelang.compile(k)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("promised, blocks", [(True, [2, 0, 3, 3, 1]), (False, [1, 2, 0]), (True, [])])
def test_lengths_and_tables_are_data(promised, blocks):
    compiled = by_table(promised)
    assert skewed(compiled)
    a, b = data(4)
    table = np.zeros(6, np.int32)
    table[: len(blocks)] = blocks
    length = np.array([len(blocks) * N - (len(blocks) > 0)], np.int32)
    arrays = {"A": a, "B": b, "length": length, "table": table, "Y": np.zeros((N, N), np.float32)}
    y = strict.run(compiled, arrays, text=False)["Y"]
    want = expected(blocks, a, b)
    np.testing.assert_allclose(y, want, rtol=0, atol=2.0**-10 * np.abs(want).max() * 4)


def test_weights_that_one_vector_core_stores_stay_with_their_scores():
    """Half of sixteen rows are wanted, so the vector cores do not share them, and one stores the weights: a round later, nothing would overlap."""
    (loop,) = skewed_loops(tilelang.compile(cases.paged([70, 33], 16, 2, 64, 64)[0]))
    late = [n for s, n in zip(stmts_of(loop.body), lateness(loop)) if isinstance(s, IfThenElse)]
    assert set(late) == {0}  # The last step has a mask, too.


@lru_cache(maxsize=None)
def by_pages(pages):
    """Both products of a step are made of parts, of which a table says where they are: names of loops that stand beside each other."""

    @T.prim_func
    def k(
        A: T.Tensor((8, N, N), F16),
        B: T.Tensor((8, N, N), F16),
        table: T.Tensor((2 * pages,), "int32"),
        Y: T.Tensor((N, N), F32),
    ):
        with T.Kernel(1):
            a, b, q = T.alloc_shared((N, N), F16), T.alloc_shared((N, N), F16), T.alloc_shared((N, N), F16)
            s, o = T.alloc_fragment((N, 2 * N), F32), T.alloc_fragment((N, N), F32)
            p = T.alloc_fragment((N, 2 * N), F16)
            T.copy(A[0, 0, 0], q)
            T.clear(o)
            for k in T.Pipelined(pages, num_stages=2):
                for part in T.serial(2):
                    page = table[k * 2 + part]
                    T.copy(A[page, 0, 0], a)
                    T.gemm(q, a, s[:, part * N : part * N + N], transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(N, 2 * N):
                    p[i, j] = T.max(s[i, j], 0.0) * 0.125
                for i, j in T.Parallel(N, N):
                    o[i, j] *= 0.5
                for part in T.serial(2):
                    page = table[k * 2 + part]
                    T.copy(B[page, 0, 0], b)
                    T.gemm(p[:, part * N : part * N + N], b, o)
            T.copy(o, Y)

    return tilelang.compile(k)


def test_names_in_parts_of_both_products():
    rng = np.random.default_rng(3)
    a, b = ((rng.standard_normal((8, N, N)) / 2).astype(np.float16) for _ in range(2))
    table = np.array([3, 5, 0, 7, 2, 2, 6, 1], np.int32)
    compiled = by_pages(len(table) // 2)
    assert skewed(compiled)
    y = strict.run(compiled, {"A": a, "B": b, "table": table, "Y": np.zeros((N, N), np.float32)}, text=False)["Y"]
    want = np.zeros((N, N))
    for first, second in table.reshape(-1, 2):
        pages = [half(np.maximum(half(a[0]) @ half(a[n]).T, 0) * 0.125) @ half(b[n]) for n in (first, second)]
        want = want * 0.5 + sum(pages)
    np.testing.assert_allclose(y, want, rtol=0, atol=2.0**-10 * np.abs(want).max() * 4)


def half(x):
    return x.astype(np.float16).astype(np.float64)


@pytest.mark.parametrize("body", [round_trip, one_of_two], ids=lambda f: f.__name__)
def test_values_that_make_the_round(body):
    compiled = kernel(body)
    assert skewed(compiled) == (body is one_of_two)
    a, b = data(4)
    o = np.zeros((N, N))
    for k in range(4):
        x, y = (t[k * N : k * N + N].astype(np.float64) for t in (a, b))
        p = half(np.maximum(half(o * 0.25 + 0.0625) @ x, 0)) if body is round_trip else half(x @ x.T * 0.0625 + o * 0.25)
        o = p @ y
    check(compiled, a, b, 0, o)


@pytest.mark.parametrize("chip", ["Ascend950PR_957x"])
def test_chips(chip):
    check(kernel(constant, 3, chip), *data(3), 0, expected(range(3), *data(3)))


def attention_rows(rows, steps=5):
    @T.prim_func
    def k(Q: T.Tensor((rows, N), F16), K: T.Tensor((steps * N, N), F16), Y: T.Tensor((rows, N), F32)):
        with T.Kernel(1):
            q, b, p = T.alloc_shared((rows, N), F16), T.alloc_shared((N, N), F16), T.alloc_fragment((rows, N), F16)
            s, o, m = T.alloc_fragment((rows, N), F32), T.alloc_fragment((rows, N), F32), T.alloc_fragment((rows,), F32)
            T.copy(Q, q)
            T.clear(o)
            for k in T.Pipelined(steps, num_stages=2):
                T.copy(K[k * N, 0], b)
                T.gemm(q, b, s, transpose_B=True, clear_accum=True)
                T.reduce_max(s, m, dim=1)
                for i, j in T.Parallel(rows, N):
                    p[i, j] = s[i, j] - m[i]
                for i, j in T.Parallel(rows, N):
                    o[i, j] *= 0.5
                T.gemm(p, b, o)
            T.copy(o, Y)

    return k


@pytest.mark.parametrize("told_apart", [True, False])
def test_odd_rows(monkeypatch, told_apart):
    """The two vector cores have a share of nine rows each: the last one is no row of the version behind, which would have to wait. If it was, the loop
    would be slower, not impossible."""
    if not told_apart:
        monkeypatch.setattr(lower_tile_ops, "_apart", row_major)
    rng = np.random.default_rng(3)
    q, k = (rng.integers(-2, 3, shape).astype(F16) for shape in ((17, N), (5 * N, N)))
    func, want = attention_rows(17), np.zeros((17, N), np.float32)
    for b in k.astype(np.float32).reshape(5, N, N):
        s = q.astype(np.float32) @ b.T
        want = want * 0.5 + (s - s.max(1, keepdims=True)) @ b
    np.testing.assert_array_equal(strict.once(func, "a2", {"Q": q, "K": k, "Y": np.zeros((17, N), np.float32)})[0]["Y"], want)


def test_odd_rows_take_as_long_as_even_ones():
    times = []
    for rows in (17, 18):
        q, k = np.zeros((rows, N), F16), np.zeros((5 * N, N), F16)
        compiled = tilelang.compile(attention_rows(rows))
        times.append(compiled.simulate(q, k, np.zeros((rows, N), F32), values=False, checks=False).simulated_us)
    assert times[0] < 1.1 * times[1]


def test_as_many_steps_as_versions():
    """Where a loop of three iterations begins, `k % 3` is k, and still the number of a version: cores wait for it alone."""

    def simulated(trips) -> float:
        a, b = data(trips)
        return kernel(constant, trips).simulate(a, b, 0, np.zeros((N, N), np.float32), values=False, checks=False).simulated_us

    assert simulated(3) < simulated(5)


def test_no_flag_could_be_left_out():
    a, b = data(5)
    survivors = strict.surviving_mutants(kernel(constant, 5), {"A": a, "B": b, "Y": np.zeros((N, N), np.float32)}, {"n": 0})
    assert not [label for label in survivors if "flag" in label], survivors


@pytest.mark.parametrize("trips, parts", [(5, 4), (2, 2)])
def test_slices_of_a_tile_that_late_products_share(trips, parts):
    """Keys that are values as well, loaded in as many slices as the loop would need versions: a slice is no version of the tile."""
    width, rows = 16 * parts, 16 * trips

    @T.prim_func
    def main(A: T.Tensor((16, width), F16), B: T.Tensor((rows, width), F16), Y: T.Tensor((16, width), F32)):
        with T.Kernel(1):
            a, b, p = T.alloc_shared((16, width), F16), T.alloc_shared((16, width), F16), T.alloc_shared((16, 16), F16)
            s, o = T.alloc_fragment((16, 16), F32), T.alloc_fragment((16, width), F32)
            T.copy(A, a)
            T.clear(o)
            for k in T.Pipelined(trips, num_stages=2):
                T.clear(s)
                for j in T.serial(parts):
                    T.copy(B[k * 16, j * 16], b[:, j * 16 : j * 16 + 16])
                    T.gemm(a[:, j * 16 : j * 16 + 16], b[:, j * 16 : j * 16 + 16], s, transpose_B=True)
                for i, j in T.Parallel(16, 16):
                    s[i, j] = T.max(T.min(s[i, j], 2.0), -2.0)
                T.copy(s, p)
                for j in T.serial(parts):
                    T.gemm(p, b[:, j * 16 : j * 16 + 16], o[:, j * 16 : j * 16 + 16])
            T.copy(o, Y)

    rng = np.random.default_rng(trips)
    a, b = ((rng.integers(-2, 3, shape) / 2).astype(F16) for shape in ((16, width), (rows, width)))
    compiled = tilelang.compile(main)
    assert skewed(compiled)
    y = strict.run(compiled, {"A": a, "B": b, "Y": np.zeros((16, width), F32)}, text=False)["Y"]
    steps = [x.astype(np.float32) for x in np.split(b, trips)]
    np.testing.assert_array_equal(y, sum(np.clip(a.astype(np.float32) @ x.T, -2, 2) @ x for x in steps))


def under_a_guard(guarded):
    """Blocks of rows of A A^T B behind the end of which there is nothing to do are left out as a whole, or not."""

    @T.prim_func
    def k(A: T.Tensor((4 * N, N), F16), L: T.Tensor((1,), "int32"), Y: T.Tensor((4 * N, N), F32)):
        with T.Kernel(4) as bx:
            q, a, p = T.alloc_shared((N, N), F16), T.alloc_shared((N, N), F16), T.alloc_fragment((N, N), F16)
            s, o = T.alloc_fragment((N, N), F32), T.alloc_fragment((N, N), F32)
            length = T.alloc_var("int32")
            length = L[0]
            if bx * N < length if guarded else True:
                T.copy(A[bx * N, 0], q)
                T.clear(o)
                for k in T.Pipelined(T.ceildiv(length, N), num_stages=2):
                    T.copy(A[k * N, 0], a)
                    T.gemm(q, a, s, transpose_B=True, clear_accum=True)
                    for i, j in T.Parallel(N, N):
                        p[i, j] = T.if_then_else(k * N + j < length, T.max(s[i, j], 0.0), 0.0)
                    T.gemm(p, a, o)
                for i, j in T.Parallel(N, N):
                    if bx * N + i < length:
                        Y[bx * N + i, j] = o[i, j]

    return tilelang.compile(k)


@pytest.mark.parametrize("guarded", [False, True])
def test_loops_under_a_condition(guarded):
    """What nobody but the loop uses has a version for each iteration, whatever the loop stands under."""
    compiled = under_a_guard(guarded)
    assert any(s.loop_var.name == "k" for s in skewed_loops(compiled))
    a = np.random.default_rng(0).integers(-2, 3, (4 * N, N)).astype(np.float16)
    for length in (0, 1, N - 1, N + 1, 2 * N, 4 * N):
        x = a[:length].astype(np.float32)
        want = np.full((4 * N, N), 7, np.float32)
        want[:length] = np.maximum(x @ x.T, 0).astype(np.float16).astype(np.float32) @ x
        given = {"A": a, "L": np.array([length], np.int32), "Y": np.full((4 * N, N), 7, np.float32)}
        out = strict.run(compiled, given, text=length == N + 1)
        np.testing.assert_array_equal(out["Y"], want, err_msg=str(length))
