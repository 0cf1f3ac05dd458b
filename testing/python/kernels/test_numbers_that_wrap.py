"""What the analyzer of indices must not be believed about: floats are no real numbers, and conversions of integers may wrap."""

import ml_dtypes
import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

SPECIAL = np.array([0, -0.0, 1, -2, np.nan, np.inf, -np.inf, 3] * 8, np.float32)


def test_branches_on_nan():
    """`a != a` may hold, and where neither `a < b` nor `a >= b` does, one of both is NaN."""

    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32"), C: T.Tensor((4, 64), "int32")):
        with T.Kernel(1):
            for i in T.serial(64):
                a, b = A[i], B[i]
                if a != a:
                    C[0, i] = 1
                if a < b:
                    C[1, i] = 1
                elif a >= b:
                    C[1, i] = 2
                elif a != a:
                    C[1, i] = 3
                if a < b or a >= b:
                    C[2, i] = 1
                if a - a != 0:
                    C[3, i] = 1

    a, b = SPECIAL, np.repeat(SPECIAL[:8], 8)
    out = strict.run(tilelang.compile(main), {"A": a, "B": b, "C": np.zeros((4, 64), np.int32)})["C"]
    np.testing.assert_array_equal(out[0], np.isnan(a))
    np.testing.assert_array_equal(out[1], np.where(a < b, 1, np.where(a >= b, 2, np.where(np.isnan(a), 3, 0))))
    np.testing.assert_array_equal(out[2], (a < b) | (a >= b))
    np.testing.assert_array_equal(out[3], ~np.isfinite(a))


def test_condition_of_a_nest_on_nan():
    @T.prim_func
    def main(x: T.float32, C: T.Tensor((64,), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(64):
                if x == x:
                    C[i] = 1

    kernel = tilelang.compile(main)
    for x in (1.0, float("nan")):
        out = strict.run(kernel, {"C": np.zeros(64, np.int32)}, {"x": x}, text=False)["C"]
        np.testing.assert_array_equal(out, np.full(64, x == x, np.int32))


@pytest.mark.parametrize("nest", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_products_with_zero(dtype, nest):
    """They are NaN for infinite numbers and NaN, as zero divided by zero is. The sum of -0 and 0 is 0."""

    @T.prim_func
    def main(A: T.Tensor((64,), dtype), C: T.Tensor((5, 64), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(64) if nest else T.serial(64):
                x = A[i] * 2
                C[0, i] = A[i] * 0
                C[1, i] = 0 / A[i]
                C[2, i] = x - x
                C[3, i] = 1 / (x * 0.5)
                C[4, i] = T.reinterpret(T.cast(A[i] + 0.0, "float32"), "int32") < 0

    a = SPECIAL.astype(getattr(ml_dtypes, dtype, dtype))
    out = strict.run(tilelang.compile(main), {"A": a, "C": np.zeros((5, 64), np.float32)}, text=not nest)["C"]
    with np.errstate(all="ignore"):
        want = np.stack([SPECIAL * 0, 0 / SPECIAL, SPECIAL - SPECIAL, 1 / SPECIAL, SPECIAL < 0])
    np.testing.assert_allclose(out, want, rtol=2**-8)


def test_branches_on_conversions_that_wrap():
    @T.prim_func
    def main(C: T.Tensor((5, 100), "int32")):
        with T.Kernel(1):
            for i in T.serial(100):
                if T.cast(i * 2, "int8") < 0:
                    C[0, i] = 1
                if T.cast(i - 5, "uint32") > 1000:
                    C[1, i] = 1
                x = T.cast(i, "int64") * 100000000
                if T.cast(x, "int32") < 0:
                    C[2, i] = 1
                if T.cast(i * 4, "uint8") < 100:
                    C[3, i] = 1
                if T.cast(T.cast(i, "uint32") * T.uint32(100000000), "int32") < 0:
                    C[4, i] = 1

    out = strict.run(tilelang.compile(main), {"C": np.zeros((5, 100), np.int32)})["C"]
    i = np.arange(100)
    x = (i * 100000000).astype(np.int32)
    np.testing.assert_array_equal(out[0], (i * 2).astype(np.int8) < 0)
    np.testing.assert_array_equal(out[1], i < 5)
    np.testing.assert_array_equal(out[2], x < 0)
    np.testing.assert_array_equal(out[3], (i * 4).astype(np.uint8) < 100)
    np.testing.assert_array_equal(out[4], x < 0)


@pytest.mark.parametrize("n", [5, (1 << 31) + 50, (1 << 32) + 50, -(1 << 31) - 20])
def test_low_bits_of_an_int64_in_a_nest(n):
    @T.prim_func
    def main(n: T.int64, C: T.Tensor((64,), "int32"), D: T.Tensor((64,), "int64")):
        with T.Kernel(1):
            for i in T.Parallel(64):
                C[i] = T.if_then_else(T.cast(n, "int32") > i, 1, 0)
                D[i] = T.cast(T.cast(n, "int32"), "int64") + i

    kernel = tilelang.compile(main)
    out = strict.run(kernel, {"C": np.zeros(64, np.int32), "D": np.zeros(64, np.int64)}, {"n": n}, text=False)
    i, low = np.arange(64), np.int64(n).astype(np.int32)
    np.testing.assert_array_equal(out["C"], low > i)
    np.testing.assert_array_equal(out["D"], i + np.int64(low))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
def test_names_of_conversions_that_wrap(dtype):
    """No number of the dtype is as large as what is converted."""

    @T.prim_func
    def main(C: T.Tensor((2, 100), "int64")):
        with T.Kernel(1):
            for i in T.serial(100):
                x = T.cast((T.cast(i, "int64") - 3) * 100000007, dtype)
                C[0, i] = x
                C[1, i] = x // 3

    out = strict.run(tilelang.compile(main), {"C": np.zeros((2, 100), np.int64)}, text=False)["C"]
    x = ((np.arange(100) - 3) * 100000007).astype(dtype)
    np.testing.assert_array_equal(out, np.stack([x, x // np.array(3, dtype)]).astype(np.int64))


@pytest.mark.parametrize("nest", [False, True])
def test_conditions_on_unsigned_numbers(nest):
    """TVM cannot subtract an unsigned constant from a smaller one, and takes half of the numbers of an uint64 for all of them."""

    @T.prim_func
    def main(X: T.Tensor((64,), "uint64"), Y: T.Tensor((5, 64), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(64) if nest else T.serial(64):
                x, u, w = X[i], T.cast(i, "uint32"), T.cast(i, "uint64")
                Y[0, i] = T.if_then_else(T.cast(x, "int64") < 0, 1, 0)
                Y[1, i] = T.if_then_else(x + T.uint64(1) > x, 1, 0)
                Y[2, i] = T.if_then_else(u + T.uint32(1) > u, 1, 0)
                Y[3, i] = T.if_then_else(w + T.uint64(7) <= T.min(w, T.uint64(7)), 1, 0)
                Y[4, i] = T.if_then_else(u - T.uint32(3) > u, 1, 0)

    x = np.random.default_rng(0).integers(0, 2**64, 64, np.uint64)
    x[:3] = 2**64 - 1, 2**63, 5
    out = strict.run(tilelang.compile(main), {"X": x, "Y": np.zeros((5, 64), np.int32)}, text=False)["Y"]
    i, ones = np.arange(64), np.ones(64)
    np.testing.assert_array_equal(out, np.stack([x >= 2**63, x < 2**64 - 1, ones, i * 0, i < 3]))


@pytest.mark.parametrize("nest", [False, True])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_sums_of_data_are_asked_whether_they_wrapped(dtype, nest):
    """Of indices such questions would be decided: those of data are how programs find an overflow."""
    number, ends = getattr(T, dtype), np.iinfo(dtype)

    @T.prim_func
    def main(A: T.Tensor((64,), dtype), B: T.Tensor((64,), dtype), C: T.Tensor((5, 64), dtype)):
        with T.Kernel(1):
            for i in T.Parallel(64) if nest else T.serial(64):
                a, b = A[i], B[i]
                s, more = a + b, a + number(100)
                C[0, i] = s
                if a > number(0):
                    if b > number(0):
                        if a + b < number(0):
                            C[0, i] = ends.max
                C[1, i] = T.if_then_else(T.And(a < number(0), b < number(0)), T.if_then_else(s >= number(0), number(ends.min), s), s)
                C[2, i] = T.if_then_else(more < a, number(ends.max), more)
                C[3, i] = T.if_then_else(A[i] + A[i] + A[i] > number(0), number(1), number(2))
                if a >= number(0):
                    if a * number(2) >= number(0):
                        C[4, i] = 1
                    else:
                        C[4, i] = 2

    a, b = np.random.default_rng(0).integers(ends.min, ends.max, (2, 64), dtype, endpoint=True)
    a[:4], kind = (ends.max, ends.max - 50, 0, 1), a.dtype.type
    with np.errstate(over="ignore"):
        s, more, thrice, twice = a + b, a + kind(100), a * kind(3), a * kind(2)
    want = [
        np.where((a > 0) & (b > 0) & (s < 0), ends.max, s),
        np.where((a < 0) & (b < 0) & (s >= 0), ends.min, s),
        np.where(more < a, ends.max, more),
        np.where(thrice > 0, 1, 2),
        np.where(a < 0, 0, np.where(twice >= 0, 1, 2)),
    ]
    out = strict.run(tilelang.compile(main), {"A": a, "B": b, "C": np.zeros((5, 64), dtype)}, text=nest)["C"]
    np.testing.assert_array_equal(out, np.stack(want))
