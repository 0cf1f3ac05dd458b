"""Products added to what vector statements made."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.ir import For, statements, structural_equal
from tilelang_ascend.tile import GEMM, is_op
from tilelang_ascend.transform.canonicalize.normalize_clears import normalize_clears
from tilelang_ascend.transform.canonicalize.separate_products import products_to_separate, separate_products

F16, F32 = "float16", "float32"
N = 32


def kernel(body):
    """A kernel with operands A, B (16-bit), a float32 tensor X, an output Y, a number n, and tiles for them."""

    @T.prim_func
    def k(A: T.Tensor((N, N), F16), B: T.Tensor((N, N), F16), X: T.Tensor((N, N), F32), n: T.int32, Y: T.Tensor((N, N), F32)):
        with T.Kernel(1):
            a, b = T.alloc_shared((N, N), F16), T.alloc_shared((N, N), F16)
            c = T.alloc_fragment((N, N), F32)
            T.copy(A, a)
            T.copy(B, b)
            body(a, b, c, X, n)
            T.copy(c, Y)

    return k


def scaled(a, b, c, X, n):
    T.clear(c)
    for k in T.serial(4):
        for i, j in T.Parallel(N, N):
            c[i, j] *= 0.5
        T.gemm(a, b, c)


def loaded(a, b, c, X, n):
    T.copy(X, c)
    T.gemm(a, b, c)


def loaded_then_a_loop(a, b, c, X, n):
    T.copy(X, c)
    for k in T.serial(n):
        T.gemm(a, b, c)


def two_products(a, b, c, X, n):
    T.copy(X, c)
    T.gemm(a, b, c)
    T.gemm(b, a, c)


def on_one_way(a, b, c, X, n):
    T.clear(c)
    if n > 1:
        T.copy(X, c)
    T.gemm(a, b, c)


def started_anew_at_run_time(a, b, c, X, n):
    T.copy(X, c)
    T.gemm(a, b, c, clear_accum=n > 1)


def part(a, b, c, X, n):
    T.copy(X, c)
    T.gemm(a[0:16, :], b, c[16:32, :])


def left_early(a, b, c, X, n):
    T.copy(X, c)
    for k in T.serial(4):
        if k == n:
            T.loop_break()
        T.gemm(a, b, c)


def left_between_products(a, b, c, X, n):
    T.copy(X, c)
    for k in T.serial(2):
        T.gemm(a, b, c)
        if k == n:
            T.loop_break()
        T.gemm(b, a, c)
        for i, j in T.Parallel(N, N):
            c[i, j] = c[i, j] * 2


def started_from_a_number(a, b, c, X, n):
    T.fill(c, 3.0)
    T.gemm(a, b, c)


def doubled(a, b, c, X, n):
    T.gemm(a, b, c, clear_accum=True)
    for _k in T.serial(2):
        T.gemm(a, b, c)
        for i, j in T.Parallel(N, N):
            c[i, j] = c[i, j] * 2


def masked(a, b, c, X, n):
    for i, j in T.Parallel(N, N):
        c[i, j] = T.if_then_else(i >= j, 0.0, -T.infinity(F32))
    T.gemm(a, b, c)


def never_apart(a, b, c, X, n):
    T.clear(c)
    for k in T.serial(3):
        T.gemm(a, b, c)
    for i, j in T.Parallel(N, N):
        c[i, j] += X[i, j]


def cleared_every_time(a, b, c, X, n):
    for k in T.serial(3):
        T.gemm(a, b, c, clear_accum=True)
        for i, j in T.Parallel(N, N):
            c[i, j] += X[i, j]


def loaded_or_multiplied(a, b, c, X, n):
    T.copy(X, c)
    for _k in T.serial(n):
        T.gemm(a, b, c, clear_accum=True)


def loaded_or_multiplied_in_a_branch(a, b, c, X, n):
    T.copy(X, c)
    if n > 1:
        T.gemm(a, b, c, clear_accum=True)


def part_zeroed_behind_a_look(a, b, c, X, n):
    T.clear(c)
    for _k in T.serial(3):
        T.clear(c[16:32, :])
        T.gemm(a, b, c)
        for i, j in T.Parallel(N, N):
            c[i, j] += 1


def part_zeroed_before_all_is(a, b, c, X, n):
    for _k in T.serial(2):
        T.clear(c[16:32, :])
        T.gemm(a, b, c, clear_accum=True)
        for i, j in T.Parallel(N, N):
            c[i, j] += X[i, j]


def expected(body, p, q, x, n):
    """What a body leaves in c; p = a @ b, q = b @ a."""
    cases = {
        scaled: p * (1 + 0.5 + 0.25 + 0.125), loaded: x + p, loaded_then_a_loop: x + n * p, two_products: x + p + q,
        on_one_way: (x if n > 1 else 0) + p, started_anew_at_run_time: (0 if n > 1 else x) + p,
        part: x + np.concatenate([np.zeros_like(p[:16]), p[:16]]), left_early: x + min(n, 4) * p if n >= 0 else x + 4 * p,
        left_between_products: x + p if n == 0 else (x + p + q) * 4 + (p + q) * 2, started_from_a_number: 3 + p, doubled: 10 * p,
        masked: np.where(np.tril(np.ones_like(p)) > 0, p, -np.inf), never_apart: 3 * p + x, cleared_every_time: p + x,
        part_zeroed_behind_a_look: np.concatenate([3 * p[:16] + 3, p[16:] + 1]), part_zeroed_before_all_is: p + x,
        loaded_or_multiplied: p if n > 0 else x, loaded_or_multiplied_in_a_branch: p if n > 1 else x,
    }  # fmt: skip
    return cases[body]


APART = (
    scaled,
    loaded,
    loaded_then_a_loop,
    two_products,
    on_one_way,
    started_anew_at_run_time,
    part,
    left_early,
    left_between_products,
    masked,
    started_from_a_number,
    doubled,
    part_zeroed_behind_a_look,
)
TOGETHER = (never_apart, cleared_every_time, part_zeroed_before_all_is, loaded_or_multiplied, loaded_or_multiplied_in_a_branch)


@pytest.mark.parametrize("n", [0, 3])
@pytest.mark.parametrize("body", [*APART, *TOGETHER], ids=lambda f: f.__name__)
@pytest.mark.one_in(6)
def test_values(body, n):
    compiled = tilelang.compile(kernel(body))
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((N, N)).astype(np.float16) for _ in range(2))
    x = rng.standard_normal((N, N)).astype(np.float32)
    given = {"A": a, "B": b, "X": x, "Y": np.zeros((N, N), np.float32)}
    y = strict.run(compiled, given, {"n": n}, text=body in (scaled, part))["Y"]
    p, q = a.astype(np.float64) @ b, b.astype(np.float64) @ a
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(y, expected(body, p, q, x, n), rtol=1e-5, atol=1e-4)


def separated(body):
    func = normalize_clears(kernel(body))
    return func, separate_products(func)


@pytest.mark.parametrize("body", APART, ids=lambda f: f.__name__)
def test_no_product_finds_the_work_of_a_vector_statement(body):
    before, after = separated(body)
    assert products_to_separate(before.body) and not products_to_separate(after.body)


@pytest.mark.parametrize("body", TOGETHER, ids=lambda f: f.__name__)
def test_what_the_cube_core_made_alone_stays(body):
    before, after = separated(body)
    assert structural_equal(after, before)


def test_products_without_a_look_in_between_share_a_tile():
    _, after = separated(two_products)
    targets = [s.value.args[2].source for s in statements(after.body) if is_op(s, GEMM)]
    assert len(targets) == 2 and targets[0].same_as(targets[1])
    assert targets[0].name == "c_product"


def test_the_products_of_a_loop_are_added_behind_it():
    _, after = separated(loaded_then_a_loop)
    (loop,) = [
        s
        for s in statements(after.body)
        if isinstance(s, For) and any(is_op(x, GEMM) for x in statements(s.body)) and "tl.grid" not in s.annotations
    ]
    assert all(is_op(x, GEMM) for x in statements(loop.body))
