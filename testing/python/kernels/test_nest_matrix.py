"""Nests over GM whose statements depend on each other, against the same source run in plain Python."""

from __future__ import annotations

import inspect
import itertools
import random
import warnings

import nest_cases
import numpy as np
import pytest
import strict

import tilelang_ascend
import tilelang_ascend.language as T
from tilelang_ascend.errors import TilelangAscendError

DTYPES = ("float32", "float16", "bfloat16", "int32", "int64", "int8", "bool")
SHAPES = ((16, 16), (7, 13), (96, 160))
"""Of the last one tiles do not fit: nests are split."""
NO_ATOMICS_IN_GM = ("int64",)
GM_ATOMICS = (
    "atomic_then_read", "store_then_atomic", "histogram", "conditional_histogram", "lengths_of_updates",
              "updates_of_a_row_by_data", "updates_while")  # fmt: skip


def every() -> list:
    cases = []
    for name, function in nest_cases.CASES.items():
        indices = ("int32", "int64") if "index" in inspect.getsource(function).split("F):", 1)[1] else ("int32",)
        cases += itertools.product([name], DTYPES, SHAPES, indices)
    return cases


def sample(cases: list, count: int) -> list:
    """Every kernel at least once, dtypes and shapes as they come."""
    chosen = random.Random(9).sample(cases, len(cases))
    first = {c[0]: c for c in reversed(chosen) if c[2] != SHAPES[-1]}
    return list(dict.fromkeys([*first.values(), *chosen]))[:count]


def check(name: str, dtype: str, shape: tuple, index: str, text: bool = False, tiles: bool = False) -> None:
    """Strict run of one case."""
    (n, m), function = shape, nest_cases.CASES[name]
    traced = nest_cases.on_tiles(function) if tiles else function
    kernel = tilelang_ascend.compile(traced(n, m, dtype, index, nest_cases.small(dtype, True)))
    wanted = nest_cases.plain(function, n, m, dtype, index)
    given = nest_cases.arguments(n, m, dtype, index, seed=len(name) + n)
    names = list(inspect.signature(wanted).parameters)
    arrays, expected = ({k: given[k].copy() for k in names} for _ in range(2))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        wanted(*expected.values())
    out = strict.run(kernel, arrays, text=text)
    for k in names:
        np.testing.assert_array_equal(out[k].astype(np.float64), expected[k].astype(np.float64), err_msg=k)


def one(name, dtype, shape, index, text=False, tiles=False):
    if not tiles and dtype in NO_ATOMICS_IN_GM and name in GM_ATOMICS:
        with pytest.raises(TilelangAscendError, match="no atomic (sums|maxima|minima) of"):
            check(name, dtype, shape, index)
        return
    check(name, dtype, shape, index, text, tiles)


CASES = every()
ON_TILES = [c for c in CASES if c[2] != SHAPES[-1] and nest_cases.on_tiles(nest_cases.CASES[c[0]])]


@pytest.mark.parametrize("name, dtype, shape, index", sample(CASES, 60))
@pytest.mark.one_in(6)
def test_some_nests(name, dtype, shape, index):
    one(name, dtype, shape, index)


@pytest.mark.slow
@pytest.mark.parametrize("name, dtype, shape, index", CASES)
def test_every_nest(name, dtype, shape, index):
    one(name, dtype, shape, index)


@pytest.mark.parametrize("name, dtype, shape, index", [("guarded_rows", "float32", (7, 13), "int32"), *sample(ON_TILES, 60)])
@pytest.mark.one_in(6)
def test_some_nests_on_tiles(name, dtype, shape, index):
    one(name, dtype, shape, index, tiles=True)


@pytest.mark.slow
@pytest.mark.parametrize("name, dtype, shape, index", ON_TILES)
def test_every_nest_on_tiles(name, dtype, shape, index):
    one(name, dtype, shape, index, tiles=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", nest_cases.CASES)
def test_emitted_text(name):
    one(name, "float32", SHAPES[1], "int64", text=True)


@pytest.mark.parametrize("value", [0.0, 5.0], ids=["zero", "annotated"])
def test_what_an_iteration_stored_outside_of_a_tensor_it_does_not_read_back(value):
    """The tile of a nest may overhang the tensor, and holds there what the iteration stored."""
    n, m, rows = 16, 16, 29

    @T.prim_func
    def kernel(A: T.Tensor((2 * n, m), "float32"), C: T.Tensor((rows, m), "float32"), D: T.Tensor((2 * n, m + 1), "float32")):
        with T.Kernel(2) as bx:
            T.annotate_safe_value({C: value})
            for i in T.Parallel(n):
                for k in T.serial(m - 1):
                    C[bx * n + i, k + 2] = C[bx * n + i, k + 1] * 0.5 + A[bx * n + i, k + 1]
                    D[bx * n + i, k + 2] = C[bx * n + i, k + 2]
                D[bx * n + i, 0] = C[bx * n + i, m]
                D[bx * n + i, 1] = C[bx * n + i, m - 1]

    rng = np.random.default_rng(0)
    a, c = rng.integers(0, 8, (2 * n, m)).astype(np.float32), rng.integers(0, 8, (rows, m)).astype(np.float32)
    with_edges = np.full((2 * n, m + 1), value, np.float32)
    with_edges[:rows, :m] = c
    d = np.zeros((2 * n, m + 1), np.float32)
    for i in range(2 * n):
        for k in range(m - 1):
            if i < rows and k + 2 < m:
                with_edges[i, k + 2] = with_edges[i, k + 1] * 0.5 + a[i, k + 1]
            d[i, k + 2] = with_edges[i, k + 2]
        d[i, :2] = with_edges[i, m], with_edges[i, m - 1]
    out = strict.run(tilelang_ascend.compile(kernel), {"A": a, "C": c, "D": np.zeros_like(d)})
    np.testing.assert_array_equal(out["C"], with_edges[:rows, :m])
    np.testing.assert_array_equal(out["D"], d)
