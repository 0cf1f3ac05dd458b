"""Nests that change the last columns of a tile, from one on that run time tells, and leave the others: no comparison of every element."""

import itertools

import ml_dtypes
import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

NUMPY = {"float16": np.float16, "float32": np.float32, "bfloat16": ml_dtypes.bfloat16, "int32": np.int32, "int16": np.int16}
CHOICES = {
    "less": lambda j, end, x, c: T.if_then_else(j < end, x, c),
    "at most": lambda j, end, x, c: T.if_then_else(j <= end - 1, x, c),
    "greater": lambda j, end, x, c: T.if_then_else(end > j, x, c),
    "not less": lambda j, end, x, c: T.if_then_else(j >= end, c, x),
    "behind": lambda j, end, x, c: T.if_then_else(j + 1 > end, c, x),
    "sum": lambda j, end, x, c: x + T.if_then_else(j < end, 0, c),
    "sum of the others": lambda j, end, x, c: T.if_then_else(end <= j, c, 0) + x,
}


def kernel(form, rows, columns, unit, dtype, value):
    """Y is X, with `value` (added) in the columns from `n` units on."""
    choose = CHOICES[form]

    @T.prim_func
    def k(X: T.Tensor((rows, columns), dtype), Y: T.Tensor((rows, columns), dtype), n: T.int32):
        with T.Kernel(1, threads=128) as _:
            x = T.alloc_fragment((rows, columns), dtype)
            T.copy(X, x)
            for i, j in T.Parallel(rows, columns):
                x[i, j] = choose(j, T.max(T.min(n, 64), -3) * unit, x[i, j], T.cast(value, dtype))
            T.copy(x, Y)

    return k


def check(form, rows, columns, unit, dtype, value, ends, **how):
    compiled = tilelang.compile(kernel(form, rows, columns, unit, dtype, value), **how)
    x = np.random.default_rng(0).integers(-9, 9, (rows, columns)).astype(NUMPY[dtype])
    for k, n in enumerate(ends):
        got = strict.run(compiled, {"X": x, "Y": np.zeros_like(x)}, {"n": n}, text=k == 1)["Y"]
        behind = np.broadcast_to(np.arange(columns) >= n * unit, x.shape)
        changed = x + np.asarray(value, x.dtype) if "sum" in form else np.full_like(x, value)
        np.testing.assert_array_equal(got, np.where(behind, changed, x), f"{form}, {n} times {unit}")
    return compiled.artifact.kernel_source


@pytest.mark.parametrize("form", CHOICES)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.one_in(6)
def test_forms(form, dtype):
    """None, some, and all columns; ends in front of the tile and behind it."""
    text = check(form, 8, 256, 64, dtype, -np.inf, (-2, 1, 3, 4, 9, 0))
    assert "Compare" not in text and "Select" not in text


@pytest.mark.parametrize("dtype", ["int32", "int16", "bfloat16"])
def test_other_dtypes(dtype):
    check("less", 8, 128, 32, dtype, 7, (0, 1, 3, 4))


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "rows, columns, unit", [(1, 512, 128), (5, 96, 32), (20, 128, 16), (255, 64, 16), (300, 64, 16), (3, 64, 8), (4, 100, 20), (6, 64, 1)]
)
def test_shapes(rows, columns, unit):
    """Also those for which there is another way: odd ends, rows of a length that is no multiple, more rows than one instruction repeats."""
    check("less", rows, columns, unit, "float32", -1.5, (0, 1, 2, columns // unit))


@pytest.mark.parametrize("chip", ["a3", "a5"])
def test_chips(chip):
    for form, dtype in itertools.product(("less", "sum"), ("float16", "float32")):
        check(form, 16, 256, 64, dtype, -np.inf, (1, 4), target=chip)


@tilelang.jit
def by_rows(rows, columns):
    """The first column depends on the row: not one of these nests."""

    @T.prim_func
    def main(X: T.Tensor((rows, columns), "float32"), Y: T.Tensor((rows, columns), "float32")):
        with T.Kernel(1, threads=128) as _:
            x = T.alloc_fragment((rows, columns), "float32")
            T.copy(X, x)
            for i, j in T.Parallel(rows, columns):
                x[i, j] = T.if_then_else(j < i * 8, x[i, j], -1.0)
            T.copy(x, Y)

    return main


def test_columns_that_differ_between_rows():
    x = np.arange(8 * 64, dtype=np.float32).reshape(8, 64)
    got = strict.run(by_rows(8, 64), {"X": x, "Y": np.zeros_like(x)}, text=False)["Y"]
    np.testing.assert_array_equal(got, np.where(np.arange(64) < np.arange(8)[:, None] * 8, x, -1))
