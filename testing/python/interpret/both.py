"""Run a kernel as plain Python and compiled, on copies of the same arrays, and compare both with what is right."""

import sys
from pathlib import Path

import ml_dtypes
import numpy as np

import tilelang_ascend as tilelang
from tilelang_ascend import interpret

sys.path.insert(0, str(Path(__file__).parents[1] / "kernels"))

import strict  # noqa: E402

TOLERANCE = {"float16": 2**-9, "bfloat16": 2**-6, "float32": 2e-6, "float8_e4m3fn": 2**-3, "float8_e5m2": 2**-2}


def rng(*seed):
    return np.random.default_rng(seed)


def array(shape, dtype="float32", seed=0, low=-2.0, high=2.0):
    """Random elements; integers between -9 and 9 (unsigned: up to 9)."""
    if "int" in dtype:
        return rng(seed).integers(0 if dtype.startswith("u") else -9, 10, shape).astype(dtype)
    if dtype == "bool":
        return rng(seed).integers(0, 2, shape).astype(bool)
    kind = getattr(ml_dtypes, dtype) if dtype.startswith(("bfloat", "float8")) else dtype
    return rng(seed).uniform(low, high, shape).astype(np.float32).astype(kind)


def equal(name, got, want, factor=1.0):
    """Equal up to the rounding of the dtype; NaN where NaN is wanted."""
    tolerance = TOLERANCE.get(str(got.dtype), 0) * factor
    wide = np.float64 if got.dtype.kind in "fV" else got.dtype
    a, b = got.astype(wide), np.asarray(want).astype(wide)
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=name)


def check(func, arrays: dict, want: dict, scalars: dict | None = None, factor: float = 1.0, compiled: bool = True):
    """`arrays` holds every tensor in the order of the parameters; `want` what some of them hold afterwards."""
    scalars = scalars or {}
    names = [p.name for p in func.params]
    for seed in (0, 1):
        mine = {n: a.copy() for n, a in arrays.items()}
        interpret.run(func, *[mine[n] if n in mine else scalars[n] for n in names], seed=seed)
        for n, w in want.items():
            equal(f"{n} of the interpreter", mine[n], w, factor)
    if compiled:
        out = strict.run(tilelang.compile(func), arrays, scalars, text=False)
        for n, w in want.items():
            equal(f"{n} of the compiler", out[n], w, factor)
