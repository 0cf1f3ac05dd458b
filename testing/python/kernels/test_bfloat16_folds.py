"""Maxima and minima of bfloat16 are folded as such on chips that have lanes of it: no value changes, and whole tiles are not converted."""

import re

import ml_dtypes
import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

BF16 = np.dtype(ml_dtypes.bfloat16)
RNG = np.random.default_rng(21)


def reduction(kind, shape, dim, clear, result):
    out = tuple(n for d, n in enumerate(shape) if d != dim)

    @T.prim_func
    def k(X: T.Tensor(shape, "bfloat16"), Y: T.Tensor(out, result)):
        with T.Kernel(1):
            x = T.alloc_shared(shape, "bfloat16")
            y = T.alloc_shared(out, result)
            T.copy(X, x)
            T.copy(Y, y)
            getattr(T, f"reduce_{kind}")(x, y, dim=dim, clear=clear)
            T.copy(y, Y)

    return k


SHAPES = [
    ((16, 256), 1),
    ((5, 64), 1),
    ((3, 65), 1),
    ((7, 200), 1),
    ((2, 1000), 1),
    ((16, 40), 0),
    ((9, 130), 0),
    ((3, 5, 144), 2),
    ((3, 5, 48), 1),
]


@pytest.mark.parametrize("shape, dim", SHAPES)
@pytest.mark.parametrize("kind", ["max", "min", "absmax"])
@pytest.mark.parametrize("clear, result", [(True, "bfloat16"), (False, "bfloat16"), (False, "float32")])
@pytest.mark.one_in(24)
def test_values(kind, shape, dim, clear, result):
    x = RNG.standard_normal(shape).astype(BF16)
    flat = x.reshape(-1)
    flat[::37], flat[5::53], flat[7::61] = 0.0, -0.0, np.inf
    old = RNG.standard_normal([n for d, n in enumerate(shape) if d != dim]).astype(BF16 if result == "bfloat16" else np.float32)
    wide = np.abs(x.astype(np.float32)) if kind == "absmax" else x.astype(np.float32)
    want = wide.min(dim) if kind == "min" else wide.max(dim)
    if not clear:
        want = (np.minimum if kind == "min" else np.maximum)(want, old.astype(np.float32))
    out = strict.run(tilelang.compile(reduction(kind, shape, dim, clear, result), target="a5"), {"X": x, "Y": old.copy()})["Y"]
    np.testing.assert_array_equal(out.astype(np.float32), want)


@pytest.mark.parametrize("dim", [0, 1])
def test_nan_reaches_the_result(dim):
    x = RNG.standard_normal((20, 320)).astype(BF16)
    x[3, 17] = x[11, 300] = np.nan
    y = np.zeros(320 if dim == 0 else 20, BF16)
    out = strict.run(tilelang.compile(reduction("max", (20, 320), dim, True, "bfloat16"), target="a5"), {"X": x, "Y": y})["Y"]
    np.testing.assert_array_equal(np.isnan(out.astype(np.float32)), np.isnan(x.astype(np.float32)).any(dim))


@pytest.mark.parametrize("dim", [0, 1])
def test_tiles_are_not_converted(dim):
    text = tilelang.compile(reduction("max", (16, 2048), dim, True, "bfloat16"), target="a5").get_kernel_source()
    assert re.search(r"AscendC::Max\(", text)
    lanes = [int(n) for n in re.findall(r"AscendC::Cast\([^;]*?, (\d+)\);", text)]
    assert sum(lanes) <= 16 * 64 + 16 if dim else not re.search(r"AscendC::Cast\(", text)
