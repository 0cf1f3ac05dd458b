"""Conditions that the ranges of loops decide, beside those that look alike and are not decided."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.arch import get_chip
from tilelang_ascend.ir import (
    BufferLoad,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    PrimFunc,
    Var,
    decl_buffer,
    exprs,
    imm,
    is_if_then_else,
    seq,
    statements,
    tirx,
    walk_expr,
)
from tilelang_ascend.tile import FILL, is_op
from tilelang_ascend.tile.uses import SKEW
from tilelang_ascend.transform import pipeline
from tilelang_ascend.transform.canonicalize.fold_conditions import fold_conditions

F16, F32 = "float16", "float32"
N, STEPS = 64, 4
RNG = np.random.default_rng(0)

# (value of element i of step k, the same for NumPy, choices that are left). `n` is a number known at run time, `x` the element read.
CHOICES = {
    "inside": (lambda k, i, n, x: T.if_then_else(k * N + i < N * STEPS, x, -1.0), lambda k, i, n, x: x, 0),
    "outside": (lambda k, i, n, x: T.if_then_else(k * N + i >= N * STEPS, -1.0, x), lambda k, i, n, x: x, 0),
    "last": (
        lambda k, i, n, x: T.if_then_else(k * N + i < N * STEPS - 1, x, -1.0),
        lambda k, i, n, x: np.where(k * N + i < N * STEPS - 1, x, -1),
        1,
    ),
    "one of two": (
        lambda k, i, n, x: T.if_then_else(T.And(i >= 0, i < n), x, -1.0),
        lambda k, i, n, x: np.where(i < n, x, -1),
        1,
    ),
    "never both": (lambda k, i, n, x: T.if_then_else(T.And(i < n, k > 3), -1.0, x), lambda k, i, n, x: x, 0),
    "always one": (lambda k, i, n, x: T.if_then_else(T.Or(i > n, k < 4), x, -1.0), lambda k, i, n, x: x, 0),
    "not": (lambda k, i, n, x: T.if_then_else(T.Not(k * N + i > 300), x, -1.0), lambda k, i, n, x: x, 0),
    "remainder": (lambda k, i, n, x: T.if_then_else(i % 8 < 8, x, -1.0), lambda k, i, n, x: x, 0),
    "nested": (
        lambda k, i, n, x: T.if_then_else(k >= 0, T.if_then_else(i >= n, -2.0, x), -1.0),
        lambda k, i, n, x: np.where(i >= n, -2, x),
        1,
    ),
    "run time": (lambda k, i, n, x: T.if_then_else(i < n, x, -1.0), lambda k, i, n, x: np.where(i < n, x, -1), 1),
    "data": (lambda k, i, n, x: T.if_then_else(x < 0.5, x, -1.0), lambda k, i, n, x: np.where(x < 0.5, x, -1), 1),
    "float": (
        lambda k, i, n, x: T.if_then_else(x <= x, x, -1.0),
        lambda k, i, n, x: np.where(np.isnan(x), -1, x),
        1,
    ),
    "wrapped": (
        lambda k, i, n, x: T.if_then_else(T.cast(k * N + i, "int8") >= 0, x, -1.0),
        lambda k, i, n, x: np.where((k * N + i).astype(np.int8) >= 0, x, -1),
        1,
    ),
    "shifted": (lambda k, i, n, x: T.if_then_else((1 << k) + i > 0, x, -1.0), lambda k, i, n, x: x, 0),
    "shifted out": (
        lambda k, i, n, x: T.if_then_else((k * N + i) << 25 >= 0, x, -1.0),
        lambda k, i, n, x: np.where(((k * N + i) & 64) != 0, -1, x),
        1,
    ),
    "unsigned": (
        lambda k, i, n, x: T.if_then_else(T.cast(i - 1, "uint32") >= T.uint32(63), -1.0, x),
        lambda k, i, n, x: np.where(i == 0, -1, x),
        1,
    ),
}


def lowered(func, name="fold_conditions"):
    return dict(pipeline.lower(tilelang.compile(func).artifact.tile_ir, get_chip("a2"), keep_stages=True).stages)[name]


def choices(func) -> int:
    found: list = []
    for s in statements(lowered(func).body):
        for e in exprs(s):
            walk_expr(e, lambda x: found.append(x) if is_if_then_else(x) else None)
    return len(found)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("choice", CHOICES)
def test_choices(choice):
    value, reference, left = CHOICES[choice]

    @T.prim_func
    def k(X: T.Tensor((N * STEPS,), F32), n: T.int32, Y: T.Tensor((N * STEPS,), F32)):
        with T.Kernel(1):
            x, y = T.alloc_shared((N,), F32), T.alloc_shared((N,), F32)
            for k in T.serial(STEPS):
                T.copy(X[k * N], x)
                for i in T.Parallel(N):
                    y[i] = value(k, i, n, x[i])
                T.copy(y, Y[k * N])

    given = {"X": RNG.uniform(0, 1, N * STEPS).astype(np.float32), "Y": np.zeros(N * STEPS, np.float32)}
    given["X"][[3, 100]] = np.nan
    at = np.arange(N * STEPS)
    for n in (0, 1, 17, 64):
        got = strict.run(tilelang.compile(k), dict(given), {"n": n}, text=False)["Y"]
        np.testing.assert_array_equal(got, reference(at // N, at % N, n, given["X"]).astype(np.float32))
    assert choices(k) == left


@pytest.mark.parametrize("limit", [3, 4, 5])
def test_jumps(limit):
    """What stands behind a jump that is always taken is still there, and never reached."""

    @T.prim_func
    def k(X: T.Tensor((4, N), F32), Y: T.Tensor((4, N), F32)):
        with T.Kernel(1):
            x = T.alloc_shared((N,), F32)
            for k in T.serial(4):
                T.copy(X[k, 0], x)
                if k < limit:
                    T.copy(x, Y[k, 0])
                if k >= limit - 1:
                    T.loop_break()
                if k >= 0:
                    T.copy(x, Y[k, 0])
                if k > 3:
                    T.fill(x, 7.0)
                    T.copy(x, Y[k, 0])

    given = {"X": RNG.uniform(0, 1, (4, N)).astype(np.float32), "Y": np.zeros((4, N), np.float32)}
    got = strict.run(tilelang.compile(k), given)["Y"]
    wanted = given["X"].copy()
    wanted[limit:] = 0
    np.testing.assert_array_equal(got, wanted)


def test_loops_that_never_run():
    @T.prim_func
    def k(X: T.Tensor((N,), F32), n: T.int32, Y: T.Tensor((N,), F32)):
        with T.Kernel(1):
            x = T.alloc_shared((N,), F32)
            T.copy(X, x)
            for k in T.serial(n):
                for i in T.Parallel(N):
                    x[i] = T.if_then_else(k >= n, 5.0, x[i] + T.if_then_else(n >= 1, 1.0, 9.0))
            T.copy(x, Y)

    given = {"X": RNG.uniform(0, 1, N).astype(np.float32), "Y": np.zeros(N, np.float32)}
    for n in (-1, 0, 1, 3):
        got = strict.run(tilelang.compile(k), dict(given), {"n": n}, text=False)["Y"]
        np.testing.assert_allclose(got, given["X"] + max(n, 0), rtol=1e-6)


def test_a_nest_that_stores_one_number_starts_a_product():
    @T.prim_func
    def k(A: T.Tensor((32, 32), F16), Y: T.Tensor((32, 32), F32)):
        with T.Kernel(1):
            a, c = T.alloc_shared((32, 32), F16), T.alloc_fragment((32, 32), F32)
            T.copy(A, a)
            for k in T.serial(2):
                for i, j in T.Parallel(32, 32):
                    c[i, j] = T.if_then_else(k * 32 + j < 64, 0, -T.infinity(F32))
                T.gemm(a, a, c)
            T.copy(c, Y)

    given = {"A": RNG.standard_normal((32, 32)).astype(np.float16), "Y": np.zeros((32, 32), np.float32)}
    got = strict.run(tilelang.compile(k), given)["Y"]
    a = given["A"].astype(np.float64)
    np.testing.assert_allclose(got, a @ a, rtol=1e-5, atol=1e-5)
    assert any(is_op(s, FILL) for s in statements(lowered(k, "normalize_clears").body))


@pytest.mark.parametrize("both", [False, True])
def test_branches_that_need_a_product_do_not_fetch_it_themselves(both):
    """A branch for vector statements is no affair of the cube core, and the loop is skewed as without it."""

    @T.prim_func
    def k(A: T.Tensor((STEPS * N, N), F16), Y: T.Tensor((N, N), F32)):
        with T.Kernel(2) as bx:
            a, p = T.alloc_shared((N, N), F16), T.alloc_fragment((N, N), F16)
            s, o = T.alloc_fragment((N, N), F32), T.alloc_fragment((N, N), F32)
            T.fill(o, 0)
            for k in T.serial(STEPS):
                T.copy(A[k * N, 0], a)
                T.gemm(a, a, s, transpose_B=True, clear_accum=True)
                if bx < k:
                    for i, j in T.Parallel(N, N):
                        s[i, j] = s[i, j] * 0.5
                elif both:
                    for i, j in T.Parallel(N, N):
                        s[i, j] = s[i, j] + 1.0
                for i, j in T.Parallel(N, N):
                    p[i, j] = s[i, j] * 0.125
                for i, j in T.Parallel(N, N):
                    o[i, j] *= 0.5
                T.gemm(p, a, o)
            if bx == 1:
                T.copy(o, Y)

    given = {"A": RNG.uniform(-1, 1, (STEPS * N, N)).astype(np.float16), "Y": np.zeros((N, N), np.float32)}
    got, o = strict.run(tilelang.compile(k), given)["Y"], np.zeros((N, N))
    for step in range(STEPS):
        a = given["A"][step * N : step * N + N].astype(np.float64)
        s = a @ a.T
        s = s * 0.5 if step > 1 else s + both
        o = o * 0.5 + (s * 0.125).astype(np.float16) @ a
    np.testing.assert_allclose(got, o, rtol=2e-3, atol=2e-2)
    skewed = lowered(k, "skew_stages").body
    assert any(isinstance(s, For) and SKEW in s.annotations for s in statements(skewed))


def once(leaves):
    @T.prim_func
    def k(X: T.Tensor((N,), F32), n: T.int32, Y: T.Tensor((N,), F32)):
        with T.Kernel(1):
            x = T.alloc_shared((N,), F32)
            T.copy(X, x)
            for step in T.Pipelined(1, num_stages=2):
                if leaves:
                    if n > 0:
                        T.loop_break()
                for i in T.Parallel(N):
                    x[i] = x[i] + 1.0 + step
            for step in T.serial(2, 3):
                for i in T.Parallel(N):
                    x[i] = x[i] * step
            T.copy(x, Y)

    return tilelang.compile(k)


@pytest.mark.parametrize("leaves", [False, True])
def test_a_loop_of_one_iteration_is_its_body(leaves):
    """Unless it may be left: what leaves it must not leave what is around it."""
    compiled = once(leaves)
    lowered = pipeline.lower(compiled.artifact.tile_ir, get_chip(compiled.artifact.chip), keep_stages=True)
    (stage,) = [ir for name, ir in lowered.stages if name == "fold_conditions"]
    assert sum(isinstance(s, For) and s.loop_var.name == "step" for s in statements(stage.body)) == leaves
    x = np.arange(N, dtype=np.float32)
    y = strict.run(compiled, {"X": x, "Y": np.zeros(N, np.float32)}, {"n": 1}, text=False)["Y"]
    np.testing.assert_array_equal(y, (x + (not leaves)) * 2)


OPERATORS = (lambda a, b: a < b, lambda a, b: a <= b, lambda a, b: a > b, lambda a, b: a >= b, lambda a, b: a == b, lambda a, b: a != b)


@pytest.mark.parametrize("chip", ["a2", "a5"])
@pytest.mark.parametrize("dtype", ["uint8", "uint32", "int16", "int32", "int64", "float32"])
@pytest.mark.one_in(6)
def test_comparisons_with_itself(dtype, chip):
    """Of an argument, a variable, an element, what is computed of them, in branches, choices, numbers and jumps: the text of none is a tautology.
    NaN is not itself."""

    @T.prim_func
    def kernel(c: getattr(T, dtype), E: T.Tensor((8,), dtype), Y: T.Tensor((6, 8), F32)):
        with T.Kernel(1):
            y, e, v = T.alloc_shared((6, 8), F32), T.alloc_shared((8,), dtype), T.alloc_var(dtype, init=c)
            T.copy(E, e)
            T.clear(y)
            for k, op in enumerate(OPERATORS):
                if op(c, c):
                    y[k, 0] = 1
                if op(v, v):
                    y[k, 1] = 1
                else:
                    v = v + T.cast(1, dtype)
                y[k, 2] = T.cast(op(c + v, c + v), F32)
                for i in T.serial(3, 5):
                    y[k, i] = T.if_then_else(op(e[i], e[i]), 1.0, 0.0)
                for i in T.Parallel(2):
                    y[k, 5 + i] = T.if_then_else(op(c * e[i], c * e[i]), 1.0, y[k, 5 + i])
                for i in T.serial(3):
                    if op(c, c):
                        break
                    y[k, 7] = y[k, 7] + 1
            T.copy(y, Y)

    def wanted(number):
        with np.errstate(invalid="ignore"):
            return np.array([float(op(number, number)) for op in OPERATORS], np.float32)

    cases = [np.float32(3), np.float32("nan")] if dtype == F32 else [np.dtype(dtype).type(3)]
    compiled = tilelang.compile(kernel, target=chip)
    for number in cases:
        e = np.full(8, number)
        out = strict.run(compiled, {"E": e, "Y": np.zeros((6, 8), np.float32)}, {"c": number})["Y"]
        np.testing.assert_array_equal(out, np.stack([*[wanted(number)] * 7, 3 * (1 - wanted(number))], 1))


def test_loops_of_one_iteration_that_begin_at_what_is_read():
    """Both begin at A[0], which is another number for the second one."""
    a, y = (decl_buffer((4,), "int32", name, scope="global") for name in "AY")
    i, j = Var("i", "int32"), Var("j", "int32")
    start = BufferLoad(a, [imm(0)])
    inner = For(j, start, imm(1), ForKind.SERIAL, IfThenElse(tirx.EQ(i, j), BufferStore(y, imm(1), [imm(0)]), None))
    outer = For(i, start, imm(1), ForKind.SERIAL, seq([BufferStore(a, start + imm(1), [imm(0)]), inner]))
    folded = fold_conditions(PrimFunc([], outer))
    assert any(isinstance(s, IfThenElse) for s in statements(folded.body))
