"""`T.cast(x, dtype, round, sat)`, and what has no mode of rounding."""

import math

import ml_dtypes
import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend import interpret
from tilelang_ascend.errors import InvalidArgument

MODES = ("rn", "rz", "ru", "rd", "rna")
N = 256


def numpy_dtype(name):
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def neighbours(v, dtype):
    """The numbers of `dtype` next to v on both sides, v itself if it is one."""
    near = np.float32(v).astype(dtype)
    word = near.view(f"u{dtype.itemsize}")
    if float(near) == v:
        return v, v
    away = abs(float(near)) < abs(v)
    other = float((word + word.dtype.type(1) if away else word - word.dtype.type(1)).view(dtype))
    return tuple(sorted((float(near), other)))


def expected(v, name, mode):
    if name.startswith(("int", "uint")):
        whole = {"rn": np.rint, "rz": np.trunc, "ru": np.ceil, "rd": np.floor, "rna": lambda x: math.copysign(np.floor(abs(x) + 0.5), x)}[
            mode
        ](v)
        return min(max(int(whole), np.iinfo(name).min), np.iinfo(name).max)
    low, high = neighbours(v, numpy_dtype(name))
    if mode in ("rn", "rna"):
        if v - low == high - v and low != high:
            return float(np.float32(v).astype(numpy_dtype(name))) if mode == "rn" else max(low, high, key=abs)
        return low if v - low < high - v else high
    return high if mode == "ru" or (mode == "rz" and v < 0) else low


def values(name):
    rng = np.random.default_rng(1)
    x = (rng.standard_normal(N) * 2.0 ** rng.integers(-12, 7, N)).astype(np.float32)
    x[:16] = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0, 1, 3.25, 0.49999997, -0.49999997, 1e-3, -1e-3, 100.7, -100.2, 64]
    if not name.startswith("int"):
        x[16:20] = [1 + 2.0**-8, 1 + 3 * 2.0**-8, -(1 + 2.0**-11), 1 + 2.0**-4]
        if name in ("float16", "float8_e5m2", "float8_e4m3fn"):
            x[20:24] = np.float32([2.0**-26, -(2.0**-26), 3 * 2.0**-26, -3 * 2.0**-24])
    return x


@pytest.mark.parametrize("name", ["int32", "int8", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.one_in(2)
def test_casts_in_a_direction(name):
    @T.prim_func
    def main(X: T.Tensor((N,), "float32"), Y: T.Tensor((len(MODES), N), name)):
        with T.Kernel(1):
            x, y = T.alloc_fragment((N,), "float32"), T.alloc_fragment((N,), name)
            T.copy(X, x)
            for k, mode in enumerate(MODES):
                if k % 2:
                    T.cast(x, y, mode)
                else:
                    for i in T.Parallel(N):
                        y[i] = T.cast(x[i], name, round=mode)
                T.copy(y, Y[k, 0])

    x = values(name)
    want = np.array([[expected(float(v), name, m) for v in x] for m in MODES]).astype(numpy_dtype(name))
    out = strict.run(tilelang.compile(main), {"X": x, "Y": np.zeros_like(want)})["Y"]
    np.testing.assert_array_equal(out, want)
    y = np.zeros_like(want)
    interpret.run(main, x.copy(), y)
    np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_directions_that_lead_back_to_the_numbers(name):
    """Beyond the largest number, where e4m3 has no infinity to step back from."""

    @T.prim_func
    def main(X: T.Tensor((32,), "float32"), Y: T.Tensor((3, 32), name)):
        with T.Kernel(1):
            for i in T.Parallel(32):
                Y[0, i] = T.cast(X[i], name, "rz")
                Y[1, i] = T.cast(X[i], name, "ru")
                Y[2, i] = T.cast(X[i], name, "rd")

    most = float(ml_dtypes.finfo(numpy_dtype(name)).max)
    beyond = np.nan if name == "float8_e4m3fn" else np.inf
    x = np.resize(np.float32([1, 1.01, 1.06, 1.3, 1e4, 1e30]) * np.float32(most), 32) * np.resize(np.float32([1] * 6 + [-1] * 6), 32)
    x[-4:] = np.inf, -np.inf, np.nan, 0
    inside, finite = np.clip(x, -most, most), np.isfinite(x)
    want = np.stack([np.where(finite, inside, x), np.where(finite & (x < most), inside, x), np.where(finite & (x > -most), inside, x)])
    want = np.where(np.abs(want) > most, np.copysign(beyond, want), want).astype(np.float32)
    out = strict.run(tilelang.compile(main), {"X": x, "Y": np.zeros((3, 32), numpy_dtype(name))})["Y"]
    y = np.zeros_like(out)
    interpret.run(main, x.copy(), y)
    for got in (out, y):
        np.testing.assert_array_equal(got.astype(np.float32), want)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_saturation(name):
    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), Y: T.Tensor((3, 64), name)):
        with T.Kernel(1):
            for i in T.Parallel(64):
                Y[0, i] = T.cast(X[i], name, sat=True)
                Y[1, i] = T.cast(X[i], name, "rd", True)
                Y[2, i] = T.cast(X[i], name, sat=False)

    most = float(ml_dtypes.finfo(numpy_dtype(name)).max)
    x = np.linspace(-2 * most, 2 * most, 64).astype(np.float32)
    x[:3] = np.inf, -np.inf, np.nan
    cut = np.clip(x, -most, most)
    down = np.array([v if np.isnan(v) else expected(float(v), name, "rd") for v in cut])
    want = np.stack([cut.astype(numpy_dtype(name)), down.astype(numpy_dtype(name)), x.astype(numpy_dtype(name))])
    out = strict.run(tilelang.compile(main), {"X": x, "Y": np.zeros_like(want)})["Y"]
    y = np.zeros_like(want)
    interpret.run(main, x.copy(), y)
    for got in (out, y):
        np.testing.assert_array_equal(got.astype(np.float32), want.astype(np.float32))


@pytest.mark.parametrize(
    "call", [lambda x: T.cast(x, "float16", "rs"), lambda x: T.cast(x, "int8", "up"), lambda x: T.cast(x, "float16", rbits=3)]
)
def test_modes_no_instruction_has(call):
    with pytest.raises(InvalidArgument, match="does not round with|random bits"):

        @T.prim_func
        def main(X: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                for i in T.Parallel(8):
                    X[i] = call(X[i])


def test_rounding_to_nearest_is_what_every_function_does():
    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), Y: T.Tensor((6, 64), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(64):
                Y[0, i] = T.ieee_add(X[i], X[63 - i], "rn")
                Y[1, i] = T.ieee_sub(X[i], X[63 - i], rounding_mode="rn")
                Y[2, i] = T.ieee_mul(X[i], X[63 - i], "rn")
                Y[3, i] = T.ieee_fdiv(X[i], X[63 - i], "rn")
                Y[4, i] = T.ieee_fsqrt(X[i], "rn")
                Y[5, i] = T.ieee_fmaf(X[i], X[63 - i], X[i], "rn")

    x = np.random.default_rng(0).uniform(1, 2, 64).astype(np.float32)
    r = x[::-1]
    fused = (x.astype(np.float64) * r + x).astype(np.float32)  # float64 holds the product and, of numbers in [1, 2), the sum
    want = np.stack([x + r, x - r, x * r, x / r, np.sqrt(x), fused])
    out = strict.run(tilelang.compile(main), {"X": x, "Y": np.zeros_like(want)})["Y"]
    np.testing.assert_array_equal(out, want)
    y = np.zeros_like(want)
    interpret.run(main, x.copy(), y)
    np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("name, word", [("float8_e4m3fn", "int8"), ("float16", "int16"), ("float32", "int32")])
def test_computed_bits_seen_as_a_float(name, word):
    """The sum of narrow integers is an int32 until it is cast: its bits are those of the narrow one."""

    @T.prim_func
    def main(X: T.Tensor((64,), word), Y: T.Tensor((64,), name)):
        with T.Kernel(1):
            x, y = T.alloc_fragment((64,), word), T.alloc_fragment((64,), name)
            T.copy(X, x)
            for i in T.Parallel(64):
                y[i] = T.reinterpret(T.cast(x[i] + 1, word), name)
            T.copy(y, Y)

    x = np.arange(64).astype(word)
    out = strict.run(tilelang.compile(main), {"X": x, "Y": np.zeros(64, numpy_dtype(name))})["Y"]
    np.testing.assert_array_equal(out.view(word), x + 1)
