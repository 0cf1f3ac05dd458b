"""Element functions as kernels keep the promises of docs/numbers.md: float16 and bfloat16 for every argument, float32 for all exponents."""

import math
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

sys.path.insert(0, str(Path(__file__).parents[1] / "tileop"))

from test_math import EXACT, table  # noqa: E402

FUNCTIONS = {**EXACT, "exp": np.exp, "log": np.log, "sqrt": np.sqrt}
DTYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
TILE = 2048


def kernel_of(functions, n, dtype):
    """Y[k] = functions[k](X)."""

    @T.prim_func
    def k(X: T.Tensor((n,), dtype), Y: T.Tensor((len(functions), n), dtype)):
        with T.Kernel(T.ceildiv(n, TILE)) as bx:
            x, y = T.alloc_shared((TILE,), dtype), T.alloc_shared((TILE,), dtype)
            T.copy(X[bx * TILE], x)
            for row, f in enumerate(functions):
                for i in T.Parallel(TILE):
                    y[i] = f(x[i])
                T.copy(y, Y[row, bx * TILE])

    return tilelang.compile(k)


def arguments(dtype):
    if dtype != "float32":
        return np.arange(65536, dtype=np.uint16).view(DTYPES[dtype])
    bits = np.linspace(0, 0x7FFFFFFF, 2000).astype(np.uint32)
    special = np.float32([0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 1e-45, -1e-45])
    return np.concatenate(
        [bits.view(np.float32), (bits | 0x80000000).view(np.float32), np.linspace(-10, 10, 2001, dtype=np.float32), special]
    )


def distance(got, want, dtype):
    """Errors in ulp; 0 where overflow, infinity or NaN is right, infinite where it is wrong."""
    info = ml_dtypes.finfo(DTYPES[dtype])
    with np.errstate(all="ignore"):
        got, rounded = got.astype(np.float64), want.astype(DTYPES[dtype]).astype(np.float64)
    size = np.clip(np.abs(np.nan_to_num(want)), float(info.tiny), float(info.max))
    error = np.abs(got - want) / (2.0 ** np.floor(np.log2(size)) * float(info.eps))
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    return np.where(same & ~np.isfinite(got), 0, np.where(np.isnan(error), np.inf, error))


@pytest.mark.parametrize("dtype", list(DTYPES))
def test_functions_keep_their_bounds(dtype):
    x = arguments(dtype)
    with np.errstate(invalid="ignore"):
        wide = x.astype(np.float64)
    names = [n for n in FUNCTIONS if table()[n][0 if dtype == "float32" else 3]]
    y = np.zeros((len(names), x.size), DTYPES[dtype])
    kernel_of([getattr(T, n) for n in names], x.size, dtype)(x, y)
    for name, got in zip(names, y):
        with np.errstate(all="ignore"):
            want = FUNCTIONS[name](wide)
            error = distance(got, want, dtype)
        if name in ("sin", "cos", "tan"):
            error[np.isfinite(wide) & (np.abs(wide) > 65504)] = 0
            if dtype == "float32":
                error[(np.abs(want) < 2.0**-12) | (np.abs(want) > 2.0**12)] = 0
        if name == "sigmoid":
            error[wide < -88] = 0
        worst = int(np.argmax(error))
        assert error[worst] <= int(table()[name][0 if dtype == "float32" else 3]), (name, x[worst], got[worst], want[worst])


def test_values_are_the_same_on_both_roads():
    x = np.linspace(0.01, 3, 300, dtype=np.float32)
    names = ["exp10", "tan", "erf", "sigmoid"]
    kernel = kernel_of([getattr(T, n) for n in names], x.size, "float32")
    out = strict.run(kernel, {"X": x, "Y": np.zeros((len(names), x.size), np.float32)})["Y"]
    for name, got in zip(names, out):
        np.testing.assert_allclose(got, FUNCTIONS[name](x.astype(np.float64)), rtol=4e-7)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_powers(dtype):
    rng = np.random.default_rng(3)
    n = 4000
    a, b = rng.uniform(0.01, 20, n).astype(DTYPES[dtype]), rng.uniform(-5, 5, n).astype(DTYPES[dtype])

    @T.prim_func
    def k(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), Y: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, 1000)) as bx:
            for i in T.Parallel(1000):
                Y[bx * 1000 + i] = T.pow(A[bx * 1000 + i], B[bx * 1000 + i])

    y = np.zeros(n, DTYPES[dtype])
    tilelang.compile(k)(a, b, y)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    error = distance(y, wide_a**wide_b, dtype)
    assert (error <= (3 + 2 * np.abs(wide_b * np.log(wide_a)) if dtype == "float32" else 1)).all()


def test_a_wrong_value_is_noticed():
    want = np.array([1.0, 1e300, math.nan, 0.0])
    assert (distance(np.float32([1.0, np.inf, np.nan, 0.0]), want, "float32") == 0).all()
    assert (distance(np.float32([1.000001, 3e38, 1.0, 1e-37]), want, "float32") > 2).all()
