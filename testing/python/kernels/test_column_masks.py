"""Conditions of columns whose bounds differ from row to row: random ones, on rows of all kinds of lengths, against NumPy."""

from __future__ import annotations

import operator
import random

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.ir import tirx

COMPARE = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)
EXPRS = {"and": tirx.And, "or": tirx.Or, "not": tirx.Not}
ARRAYS = {"and": np.logical_and, "or": np.logical_or, "not": np.logical_not}


def random_condition(dice: random.Random, rows: int, columns: int):
    """A function (names of and, or, not; row, column, number of run time, number of the row) -> condition."""

    def comparison():
        compare, far = dice.choice(COMPARE[:4] * 3 + COMPARE), dice.random() < 0.2
        a, b = dice.choice([(0, 1), (1, 1), (-1, 1), (1, -1), (-1, -1), (0, -1), (1, 0), (2, 1), (1, 2), (0, 0)])
        c, d = dice.randint(-columns, columns) * (50 if far else 1), dice.choice([0, 0, 1, -1, 3])
        own = dice.random() < 0.15
        if own:
            return lambda ops, i, j, n, m: compare(m(i), n * d + c % 5)
        return lambda ops, i, j, n, m: compare(i * a + j * b + n * d, c)

    def condition(depth: int):
        kind = dice.choice(("and", "or", "not", "leaf", "leaf")) if depth else "leaf"
        if kind == "leaf":
            return comparison()
        x = condition(depth - 1)
        if kind == "not":
            return lambda ops, *at: ops["not"](x(ops, *at))
        y = condition(depth - 1)
        return lambda ops, *at: ops[kind](x(ops, *at), y(ops, *at))

    return condition(3)


def chosen(rows, columns, dtype, build, other):
    """Twice the elements a condition holds for, `other` elsewhere."""

    @T.prim_func
    def kernel(
        X: T.Tensor((rows, columns), dtype), M: T.Tensor((rows,), "int32"), N: T.Tensor((1,), "int32"), Y: T.Tensor((rows, columns), dtype)
    ):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((rows, columns), dtype)
            m = T.alloc_fragment((rows,), "int32")
            T.copy(X, x)
            T.copy(M, m)
            n = N[0]
            for i, j in T.Parallel(rows, columns):
                x[i, j] = T.if_then_else(build(EXPRS, i, j, n, lambda row: m[row]), x[i, j] + x[i, j], other)
            T.copy(x, Y)

    return kernel


def check(seed: int, target: str) -> None:
    dice = random.Random(seed)
    columns = dice.choice([64, 64, 128, 128, 256, 512, 768, 96, 40, 192, 2048, 2304])
    rows = dice.choice([n for n in (1, 2, 5, 16, 17, 33, 64, 100, 257) if n * columns <= 18000])
    dtype = dice.choice(["float32", "float16", "int32"])
    build, other = random_condition(dice, rows, columns), dice.choice([0, -3])
    rng = np.random.default_rng(seed)
    x, m = rng.integers(-50, 50, (rows, columns)).astype(dtype), rng.integers(-3, 4, rows).astype("int32")
    kernel = tilelang.compile(chosen(rows, columns, dtype, build, other), target=target)
    i, j = np.arange(rows)[:, None], np.arange(columns)[None, :]
    most = (2**31 - 1 - 2 * (rows + columns)) // 3  # Sums of indices are meant not to wrap (docs/numbers.md).
    for n in (0, dice.randint(-columns, columns), dice.choice([most, -most])):
        out = strict.run(kernel, {"X": x, "M": m, "N": np.array([n], "int32"), "Y": np.zeros_like(x)})
        holds = build(ARRAYS, i, j, np.int64(n), lambda row: m[row])
        np.testing.assert_array_equal(out["Y"], np.where(holds, x + x, np.array(other, dtype)), err_msg=f"seed {seed}, n {n}")


@pytest.mark.parametrize("target", ["a2", "a3", "a5"])
@pytest.mark.parametrize("seed", range(24))
@pytest.mark.one_in(18)
def test_random_conditions(seed, target):
    check(seed, target)
