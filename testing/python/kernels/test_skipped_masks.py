"""Masks that products are added to: steps that need none do without, and nothing else changes."""

from functools import lru_cache

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.arch import get_chip
from tilelang_ascend.ir import IfThenElse, statements
from tilelang_ascend.transform import pipeline

F16, F32 = "float16", "float32"
M, N, D, STEPS = 32, 48, 32, 5
INF = -float("inf")
RNG = np.random.default_rng(0)

# What a step starts from: (element of a tile at row r, column c of all keys) -> value, and whether the steps may differ.
MASKS = {
    "at least": (lambda r, c: T.if_then_else(r >= c, 0.0, INF), lambda r, c: np.where(r >= c, 0, INF), True),
    "more": (lambda r, c: T.if_then_else(r > c, 0.0, INF), lambda r, c: np.where(r > c, 0, INF), True),
    "at most": (lambda r, c: T.if_then_else(c <= r, 0.0, INF), lambda r, c: np.where(c <= r, 0, INF), True),
    "less": (lambda r, c: T.if_then_else(c < r, 0.0, INF), lambda r, c: np.where(c < r, 0, INF), True),
    "otherwise zero": (lambda r, c: T.if_then_else(c > r, INF, 0.0), lambda r, c: np.where(c > r, INF, 0), True),
    "window": (
        lambda r, c: T.if_then_else(T.And(r >= c, r - c < 40), 0.0, INF),
        lambda r, c: np.where((r >= c) & (r - c < 40), 0, INF),
        True,
    ),
    "outside": (
        lambda r, c: T.if_then_else(T.Or(r < c, c < r - 40), INF, 0.0),
        lambda r, c: np.where((r < c) | (c < r - 40), INF, 0),
        True,
    ),
    "rows end": (
        lambda r, c: T.if_then_else(T.And(r >= c, r < 80), 0.0, INF),
        lambda r, c: np.where((r >= c) & (r < 80), 0, INF),
        True,
    ),
    "rows and columns end": (
        lambda r, c: T.if_then_else(T.Or(T.Or(r < c, r >= 80), c >= 90), -4.0, 0.0),
        lambda r, c: np.where((r < c) | (r >= 80) | (c >= 90), -4.0, 0),
        True,
    ),
    "rows that are all there": (
        lambda r, c: T.if_then_else(T.And(r >= c, r < 96), 0.0, INF),
        lambda r, c: np.where(r >= c, 0, INF),
        True,
    ),
    "strides": (lambda r, c: T.if_then_else(3 * r - 2 * c >= 7, 0.0, -4.0), lambda r, c: np.where(3 * r - 2 * c >= 7, 0, -4.0), True),
    "int64": (
        lambda r, c: T.if_then_else(T.cast(r, "int64") >= T.cast(c, "int64") + 1, 0.0, INF),
        lambda r, c: np.where(r >= c + 1, 0, INF),
        None,
    ),
    "neither zero": (lambda r, c: T.if_then_else(r >= c, 1.0, INF), lambda r, c: np.where(r >= c, 1, INF), False),
    "any of two": (
        lambda r, c: T.if_then_else(T.Or(r >= c, c < 60), 0.0, INF),
        lambda r, c: np.where((r >= c) | (c < 60), 0, INF),
        True,
    ),
    "halves": (lambda r, c: T.if_then_else(r // 2 >= c, 0.0, INF), lambda r, c: np.where(r // 2 >= c, 0, INF), False),
}


@lru_cache(maxsize=None)
def scores(mask, parts=1, looped=False, between="", first=64):
    """Y = A @ B_k^T + mask for all k, row 0 at row `first` of the mask."""
    at = MASKS[mask][0]

    @T.prim_func
    def k(A: T.Tensor((M, D), F16), B: T.Tensor((N * STEPS, D), F16), Y: T.Tensor((M, N * STEPS), F32)):
        with T.Kernel(1):
            a, b, s = T.alloc_shared((M, D), F16), T.alloc_shared((N, D), F16), T.alloc_fragment((M, N), F32)
            T.copy(A, a)
            for k in T.serial(STEPS):
                T.copy(B[k * N, 0], b)
                for i, j in T.Parallel(M, N):
                    s[i, j] = at(first + i, k * N + j)
                if between == "seen":
                    for i, j in T.Parallel(M, N):
                        s[i, j] = T.max(s[i, j], -1e30)
                if between == "left":
                    if k == 3:
                        T.loop_break()
                if looped:
                    for _q in T.serial(parts):
                        T.gemm(a, b, s, transpose_B=True)
                else:
                    T.gemm(a, b, s, transpose_B=True)
                    if parts > 1:
                        T.gemm(a, b, s, transpose_B=True)
                T.copy(s, Y[0, k * N])

    return k


def expected(given, mask, parts=1, first=64):
    r, c = np.arange(M)[:, None] + first, np.arange(N * STEPS)[None, :]
    return parts * (given["A"].astype(np.float64) @ given["B"].astype(np.float64).T) + MASKS[mask][1](r, c)


def tensors():
    return {
        "A": RNG.standard_normal((M, D)).astype(np.float16),
        "B": RNG.standard_normal((N * STEPS, D)).astype(np.float16),
        "Y": np.zeros((M, N * STEPS), np.float32),
    }


def skipped(func, chip="a2") -> bool:
    """Does the kernel ask in every step whether it needs the mask?"""
    stages = dict(pipeline.lower(tilelang.compile(func).artifact.tile_ir, get_chip(chip), keep_stages=True).stages)
    branches = [[x for x in statements(stages[name].body) if isinstance(x, IfThenElse)] for name in ("merge_steps", "skip_masks")]
    return len(branches[1]) > len(branches[0])


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.one_in(6)
def test_masks(mask):
    given, func = tensors(), scores(mask)
    got = strict.run(tilelang.compile(func), given)["Y"]
    np.testing.assert_allclose(got, expected(given, mask), rtol=1e-5, atol=1e-5)
    if MASKS[mask][2] is not None:
        assert skipped(func) == MASKS[mask][2]


@pytest.mark.parametrize("first", [0, 1, 47, 48, 49, 95, 144, 207, 208, 240])
@pytest.mark.one_in(4)
def test_steps_at_the_edge(first):
    """The last row and column that need the mask, and the first that do not, are those of the tile."""
    given = tensors()
    got = strict.run(tilelang.compile(scores("at least", first=first)), given)["Y"]
    np.testing.assert_allclose(got, expected(given, "at least", first=first), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("parts, looped", [(2, False), (2, True), (3, True)])
def test_several_products_are_added(parts, looped):
    given, func = tensors(), scores("at least", parts, looped)
    assert skipped(func)
    got = strict.run(tilelang.compile(func), given)["Y"]
    np.testing.assert_allclose(got, expected(given, "at least", parts), rtol=1e-5, atol=1e-5)


def test_no_product_at_all():
    given, func = tensors(), scores("at least", 0, True)
    got = strict.run(tilelang.compile(func), given)["Y"]
    np.testing.assert_array_equal(got, expected(given, "at least", 0))


@pytest.mark.parametrize("between", ["seen", "left"])
def test_a_mask_that_is_seen_stays(between):
    given, func = tensors(), scores("at least", between=between)
    assert not skipped(func)
    got, wanted = strict.run(tilelang.compile(func), given)["Y"], expected(given, "at least")
    if between == "left":
        wanted[:, 3 * N :] = 0
    np.testing.assert_allclose(got, np.maximum(wanted, -1e30 if between == "seen" else INF), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("chip", ["a3", "a5"])
def test_chips(chip):
    given = tensors()
    got = strict.run(tilelang.compile(scores("window"), target=chip), given)["Y"]
    np.testing.assert_allclose(got, expected(given, "window"), rtol=1e-5, atol=1e-5)


# What becomes of a product x at row r, column c, y the element beside it; the same for NumPy; may steps do without?
BEHIND = {
    "kept": (lambda r, c, x, y: T.if_then_else(r >= c, x, INF), lambda r, c, x, y: np.where(r >= c, x, INF), True),
    "otherwise kept": (
        lambda r, c, x, y: T.if_then_else(T.Or(r < c, r - c > 70), -1.0, x),
        lambda r, c, x, y: np.where((r < c) | (r - c > 70), -1, x),
        True,
    ),
    "from beside": (lambda r, c, x, y: T.if_then_else(r >= c, x, y), lambda r, c, x, y: np.where(r >= c, x, y), None),
    "kept beside": (lambda r, c, x, y: T.if_then_else(r >= c, y, INF), lambda r, c, x, y: np.where(r >= c, y, INF), False),
    "changed": (lambda r, c, x, y: T.if_then_else(r >= c, x * 2, INF), lambda r, c, x, y: np.where(r >= c, x * 2, INF), False),
    "data": (lambda r, c, x, y: T.if_then_else(x > 0, x, -1.0), lambda r, c, x, y: np.where(x > 0, x, -1), False),
    "zero": (lambda r, c, x, y: T.if_then_else(r >= c, 0.0, x), lambda r, c, x, y: np.where(r >= c, 0, x), True),
}


@pytest.mark.parametrize("between", ["", "seen"])
@pytest.mark.parametrize("mask", BEHIND)
@pytest.mark.one_in(6)
def test_masks_behind_products(mask, between):
    at, reference, known = BEHIND[mask]

    @T.prim_func
    def k(A: T.Tensor((M, D), F16), B: T.Tensor((N * STEPS, D), F16), Y: T.Tensor((M, N * STEPS), F32)):
        with T.Kernel(1):
            a, b, s = T.alloc_shared((M, D), F16), T.alloc_shared((N, D), F16), T.alloc_fragment((M, N), F32)
            other = T.alloc_fragment((M, N), F32)
            T.copy(A, a)
            for k in T.serial(STEPS):
                T.copy(B[k * N, 0], b)
                T.gemm(a, b, s, transpose_B=True, clear_accum=True)
                T.copy(s, other)
                T.gemm(a, b, s, transpose_B=True, clear_accum=True)
                if between == "seen":
                    for i, j in T.Parallel(M, N):
                        s[i, j] = s[i, j] + 1.0
                for i, j in T.Parallel(M, N):
                    s[i, j] = at(64 + i, k * N + j, s[i, j], other[i, j])
                T.copy(s, Y[0, k * N])

    given = tensors()
    x = given["A"].astype(np.float64) @ given["B"].astype(np.float64).T
    wanted = reference(np.arange(M)[:, None] + 64, np.arange(N * STEPS)[None, :], x + (between == "seen"), x)
    got = strict.run(tilelang.compile(k), given)["Y"]
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
    if known is not None:
        assert skipped(k) == (known and not between)
