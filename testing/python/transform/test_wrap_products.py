"""Products that leave int32 are hashes, which wrap; products that are indices stay what passes can reason about."""

import sys
from pathlib import Path

import numpy as np
import pytest

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.transform.canonicalize.wrap_products import wrap_products

sys.path.insert(0, str(Path(__file__).parents[1] / "kernels"))

import strict  # noqa: E402

FACTOR = 1103515245


def text(index, count=40):
    @T.prim_func
    def main(X: T.Tensor((1 << 20,), "int32"), n: T.int32):
        with T.Kernel(count):
            for i in T.serial(n):
                X[index(i)] = 1

    return wrap_products(main).script()


@pytest.mark.parametrize("index", [lambda i: i * FACTOR % 10, lambda i: (i * 73856093 + 5) // 7, lambda i: (i + 3) * -1640531527])
def test_products_with_factors_of_hashes_wrap(index):
    assert "uint32" in text(index)


@pytest.mark.parametrize(
    "index", [lambda i: i * 4096 % 10, lambda i: (i * 32 + 7) * 8192 * 128 + 3, lambda i: (i << 24) + 1, lambda i: i * (1 << 24)]
)
def test_indices_stay(index):
    assert "uint32" not in text(index)


def places(kind):
    size = 10

    @T.prim_func
    def main(X: T.Tensor((size,), "int32"), Y: T.Tensor((40,), "int32"), Z: T.Tensor((size,), "int32")):
        with T.Kernel(2) as b:
            if kind == "index":
                for i in T.Parallel(20):
                    Y[b * 20 + i] = X[(b * 20 + i) * FACTOR % size]
            elif kind == "scalar":
                for i in T.serial(20):
                    Y[b * 20 + i] = X[(b * 20 + i) * FACTOR % size]
            elif kind == "condition":
                for i in T.Parallel(20):
                    if (b * 20 + i) * FACTOR % size < 3:
                        Y[b * 20 + i] = 1
                    else:
                        Y[b * 20 + i] = (b * 20 + i) * FACTOR * 2 // size
            else:
                for i in T.Parallel(20):
                    h = (b * 20 + i) * FACTOR % size
                    Y[b * 20 + i] = h
                    T.atomic_add(Z[h], 1)

    return main


@pytest.mark.parametrize("kind", ["index", "scalar", "condition", "histogram"])
def test_remainders_are_those_of_numbers_that_wrapped(kind):
    x = np.arange(100, 110, dtype=np.int32)
    with np.errstate(over="ignore"):
        hashed = np.arange(40, dtype=np.int32) * np.int32(FACTOR)
        doubled = hashed * np.int32(2)
    place = hashed % 10
    want = {"condition": np.where(place < 3, 1, doubled // 10), "histogram": place}.get(kind, x[place])
    arrays = {"X": x, "Y": np.zeros(40, np.int32), "Z": np.zeros(10, np.int32)}
    out = strict.run(tilelang.compile(places(kind)), arrays, text=kind == "scalar")
    np.testing.assert_array_equal(out["Y"], want)
    np.testing.assert_array_equal(out["Z"], np.bincount(place, minlength=10) if kind == "histogram" else 0)


@pytest.mark.parametrize("loop", ["parallel", "serial"])
def test_products_of_data_wrap_before_they_choose_an_element(loop):
    size = 100

    @T.prim_func
    def main(K: T.Tensor((40,), "int32"), X: T.Tensor((size,), "int32"), Y: T.Tensor((40,), "int32"), Z: T.Tensor((40,), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(40) if loop == "parallel" else T.serial(40):
                Y[i] = X[(K[i] * 40503 + 7) % size]
                Z[i] = K[i] * 6 // 3

    keys, x = np.random.default_rng(0).integers(-(2**31), 2**31, 40).astype(np.int32), np.arange(size, dtype=np.int32)
    with np.errstate(over="ignore"):
        want = (keys * np.int32(40503) + np.int32(7)) % size, keys * np.int32(6) // 3
    out = strict.run(
        tilelang.compile(main, pass_configs=strict.SERIAL),
        {"K": keys, "X": x, "Y": np.zeros(40, np.int32), "Z": np.zeros(40, np.int32)},
        text=False,
    )
    np.testing.assert_array_equal(out["Y"], want[0])
    np.testing.assert_array_equal(out["Z"], want[1])


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint64"])
@pytest.mark.parametrize("loop", ["parallel", "serial"])
def test_names_of_data_wrap_before_they_are_divided(loop, dtype):
    """Also where a name, or a scalar variable, stands for the element or for its product."""
    number = getattr(T, dtype)

    @T.prim_func
    def main(X: T.Tensor((64,), dtype), Y: T.Tensor((4, 64), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(64) if loop == "parallel" else T.serial(64):
                x = X[i]
                h = x * number(6)
                Y[0, i] = T.if_then_else(h % number(3) == number(0), 1, 0)
                Y[1, i] = T.if_then_else((x * number(10)) // number(10) == x, 1, 0)
            v = T.alloc_var(dtype)
            for i in T.serial(64):
                v = X[i]
                if (v * number(6)) % number(3) == number(0):
                    Y[2, i] = 1
                w = v * number(12)
                v = v + number(1)
                if w // number(12) == v - number(1):
                    Y[3, i] = 1

    ends = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(ends.min, ends.max, 64, dtype, endpoint=True)
    x[:4] = 0, 1, 5, ends.max
    kind = x.dtype.type
    with np.errstate(over="ignore"):
        third, tenth, dozen = x * kind(6) % kind(3) == 0, x * kind(10) // kind(10) == x, x * kind(12) // kind(12) == x
    out = strict.run(tilelang.compile(main, pass_configs=strict.SERIAL), {"X": x, "Y": np.zeros((4, 64), np.int32)}, text=False)["Y"]
    np.testing.assert_array_equal(out, np.stack([third, tenth, third, dozen]))
