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
@pytest.mark.one_in(2)
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


def test_conditions_under_one_on_a_sum_that_wrapped():
    """`a + 5 < 0` says nothing about the sign of a: the branch where both hold was left out, and transfers under it counted as being inside."""

    @T.prim_func
    def main(
        n: T.int32,
        A: T.Tensor((4,), "int32"),
        D: T.Tensor((256,), "int32"),
        B: T.Tensor((4,), "int32"),
        C: T.Tensor((4, 64), "int32"),
    ):
        with T.Kernel(4) as bx:
            s = T.alloc_shared((64,), "int32")
            a = A[bx]
            T.clear(s)
            if a + 5 < 0:
                if a > 0:
                    T.copy(D[a - n], s)
                    B[bx] = 1
                else:
                    T.fill(s, 7)
                    B[bx] = 2
            T.copy(s, C[bx, 0])

    most = 2**31 - 1
    a, n = np.array([most, 3, -9, most - 3], np.int32), most - 230
    d = np.arange(256, dtype=np.int32) + 1000
    out = strict.run(tilelang.compile(main), {"A": a, "D": d, "B": np.zeros(4, np.int32), "C": np.zeros((4, 64), np.int32)}, {"n": n})
    behind = np.concatenate([d, np.zeros(64, np.int32)])
    np.testing.assert_array_equal(out["B"], [1, 0, 2, 1])
    np.testing.assert_array_equal(out["C"], np.stack([behind[230:294], np.zeros(64), np.full(64, 7), behind[227:291]]))


def test_names_of_sums_that_wrapped_are_indices_outside():
    """They have not the range of the sum: an element in front of the tensor was read."""

    @T.prim_func
    def main(X: T.Tensor((8,), "int32"), D: T.Tensor((64,), "int32"), Y: T.Tensor((8,), "int32")):
        with T.Kernel(1):
            for i in T.serial(8):
                s = T.max(X[i], 0) + 20
                Y[i] = D[s]

    x, d = np.array([0, 3, 43, 44, 2**31 - 1, 2**31 - 20, -5, 7], np.int32), np.arange(64, dtype=np.int32) + 100
    out = strict.run(tilelang.compile(main), {"X": x, "D": d, "Y": np.zeros(8, np.int32)})["Y"]
    np.testing.assert_array_equal(out, [120, 123, 163, 0, 0, 0, 120, 127])


def test_products_of_uint64_wrap_to_zero():
    """LLVM took a product of numbers that are not 0 for one that is not: TVM promises it that int64 products do not wrap."""

    @T.prim_func
    def main(n: T.int32, X: T.Tensor((4,), "uint64"), Y: T.Tensor((3, 4), "int32")):
        with T.Kernel(1):
            for i in T.serial(4):
                x, m = X[i], T.cast(n, "uint64")
                Y[0, i] = T.if_then_else(T.uint64(0) < m * x, 1, 2)
                Y[1, i] = T.if_then_else(m * x != T.uint64(0), 1, 2)
                Y[2, i] = T.if_then_else(x + x > x, 1, 2)

    x = np.array([2**62, 3, 0, 2**63], np.uint64)
    out = strict.run(tilelang.compile(main), {"X": x, "Y": np.zeros((3, 4), np.int32)}, {"n": -96})["Y"]
    np.testing.assert_array_equal(out, [[2, 1, 2, 2], [2, 1, 2, 2], [1, 1, 2, 2]])


def test_choices_of_literals_of_64_bits():
    """Literals of C++ are as narrow as they can be, and so was what the text computed of them."""

    @T.prim_func
    def main(X: T.Tensor((2,), "int32"), Y: T.Tensor((3, 2), "int64"), U: T.Tensor((3, 2), "uint64")):
        with T.Kernel(1):
            for i in T.serial(2):
                c = X[i] > 0
                Y[0, i] = T.if_then_else(c, T.int64(65536), T.int64(3)) * T.int64(65536)
                Y[1, i] = T.if_then_else(c, T.int64(1), T.int64(3)) << T.int64(40)
                Y[2, i] = -T.if_then_else(c, T.int64(-(2**31)), T.int64(3))
                U[0, i] = ~T.if_then_else(c, T.uint64(65536), T.uint64(3))
                U[1, i] = T.cast(X[i], "uint64") & ~T.uint64(5)
                U[2, i] = T.reinterpret(T.int64(-5), "uint64") + T.cast(X[i], "uint64")

    arrays = {"X": np.array([1, -1], np.int32), "Y": np.zeros((3, 2), np.int64), "U": np.zeros((3, 2), np.uint64)}
    out = strict.run(tilelang.compile(main), arrays)
    np.testing.assert_array_equal(out["Y"], [[2**32, 3 << 16], [1 << 40, 3 << 40], [2**31, -3]])
    top = 2**64
    np.testing.assert_array_equal(out["U"], np.array([[top - 65537, top - 4], [0, top - 6], [top - 4, top - 6]], np.uint64))


def test_variables_that_loops_make_larger_wrap():
    """int64 ones, too: LLVM was told that they do not, and names of them were decided about as indices are."""

    @T.prim_func
    def main(p: T.int64, q: T.int32, Y: T.Tensor((4, 64), "int64"), Z: T.Tensor((2, 64), "int32")):
        with T.Kernel(1):
            v, u = T.alloc_var("int64", init=1), T.alloc_var("int32", init=1)
            for i in T.serial(64):
                v = v * 31 + p
                u = u * 31 + q
                w, t = v, u
                if v * 2 < v:
                    Y[0, i] = 1
                if w + (1 << 62) < w:
                    Y[1, i] = 1
                Y[2, i] = v
                Y[3, i] = (T.max(v, T.int64(0)) + T.max(v, T.int64(0))) // T.int64(3)
                if t + (1 << 30) < t:
                    Z[0, i] = 1
                Z[1, i] = (T.max(u, 0) + T.max(u, 0)) // 3

    def wrapped(x, bits):
        return (x + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)

    y, z, v, u = np.zeros((4, 64), np.int64), np.zeros((2, 64), np.int32), 1, 1
    out = strict.run(tilelang.compile(main), {"Y": y.copy(), "Z": z.copy()}, {"p": 77, "q": 5})
    for i in range(64):
        v, u = wrapped(v * 31 + 77, 64), wrapped(u * 31 + 5, 32)
        y[:, i] = wrapped(v * 2, 64) < v, wrapped(v + 2**62, 64) < v, v, wrapped(max(v, 0) * 2, 64) // 3
        z[:, i] = wrapped(u + 2**30, 32) < u, wrapped(max(u, 0) * 2, 32) // 3
    np.testing.assert_array_equal(out["Y"], y)
    np.testing.assert_array_equal(out["Z"], z)


def test_constants_that_tvm_does_not_convert():
    """It found that the minimum is -1, and has no uint32 for that; nor an int64 for the end of uint64."""

    @T.prim_func
    def main(X: T.Tensor((4,), "uint64"), Y: T.Tensor((2, 4), "int32")):
        with T.Kernel(1):
            for i in T.serial(4):
                x = X[i]
                h = (T.min(T.int32(-(2**31) + 1), i) >> 31) - T.cast(x, "uint8")
                Y[0, i] = T.cast(T.min(h, h), "uint16")
                if x > T.uint64(2**64 - 18):
                    Y[1, i] = 1

    x = np.array([0, 7, 2**64 - 17, 2**64 - 18], np.uint64)
    out = strict.run(tilelang.compile(main), {"X": x, "Y": np.zeros((2, 4), np.int32)})["Y"]
    np.testing.assert_array_equal(out, [[65535, 65528, 65535 - 239, 65535 - 238], [0, 0, 1, 0]])


def test_products_of_data_that_wrapped_before_a_nest_compares_them():
    """`a * 64` is the same number in the condition and in the index beside it: with more bits, the row was loaded and not stored."""

    @T.prim_func
    def main(
        B: T.Tensor((8,), "int32"),
        X: T.Tensor((6400,), "int32"),
        Y: T.Tensor((8, 64), "int32"),
        Z: T.Tensor((8, 64), "int32"),
    ):
        with T.Kernel(8) as bx:
            a = B[bx]
            for i in T.Parallel(64):
                Y[bx, i] = T.if_then_else(a * 64 + i < 6400, 1, 2)
            for i in T.Parallel(64):
                if a * 64 + i < 6400:
                    Z[bx, i] = X[a * 64 + i]

    b, x, i = np.array([3, 1 << 30, 7, 99, (1 << 26) + 50, 100, 0, -1], np.int32), np.arange(6400, dtype=np.int32) + 1, np.arange(64)
    with np.errstate(over="ignore"):
        place = (b * np.int32(64))[:, None] + i
    inside = (place >= 0) & (place < 6400)
    zeros = np.zeros((8, 64), np.int32)
    out = strict.run(tilelang.compile(main), {"B": b, "X": x, "Y": zeros, "Z": zeros})
    np.testing.assert_array_equal(out["Y"], np.where(place < 6400, 1, 2))
    np.testing.assert_array_equal(out["Z"], np.where(inside, x[place * inside], 0))


@pytest.mark.parametrize("nest", [False, True])
def test_comparisons_with_the_least_int32(nest):
    """TVM is sure that no variable is that number, and that none is another one: its negative wraps."""

    @T.prim_func
    def main(n: T.int32, X: T.Tensor((64,), "int32"), Y: T.Tensor((6, 64), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(64) if nest else T.serial(64):
                a = X[i]
                Y[0, i] = T.if_then_else(a == -(2**31), 1, 2)
                Y[1, i] = T.if_then_else(a != -(2**31), 1, 2)
                Y[2, i] = T.if_then_else(a > -(2**31), 1, 2)
                Y[3, i] = T.if_then_else(n != -(2**31), 1, 2)
                Y[4, i] = T.if_then_else((~i) > -(2**31), 1, 2)
                if a <= -(2**31):
                    Y[5, i] = 1

    x = np.resize(np.array([0, -(2**31), -1, 1 - 2**31, 2**31 - 1], np.int32), 64)
    out = strict.run(tilelang.compile(main), {"X": x, "Y": np.zeros((6, 64), np.int32)}, {"n": 5}, text=not nest)["Y"]
    least, ones = x == -(2**31), np.ones(64)
    np.testing.assert_array_equal(out, np.stack([2 - least, 1 + least, 1 + least, ones, ones, least]))


@pytest.mark.parametrize("nest", [False, True])
def test_scalars_of_uint64_may_be_negative_as_int64(nest):
    """TVM's bounds end where int64 does: it was sure that half of these numbers do not exist."""

    @T.prim_func
    def main(n: T.uint64, m: T.uint64, Y: T.Tensor((6, 64), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(64) if nest else T.serial(64):
                Y[0, i] = T.if_then_else(T.cast(n, "int64") < T.int64(0), 1, 2)
                if T.cast(n, "int64") < T.int64(0):
                    Y[1, i] = 1
                if n <= T.uint64(2**63 - 1):
                    Y[2, i] = 1
                if T.max(n, m) <= T.uint64(2**63 - 1):
                    Y[3, i] = 1
                if T.reinterpret(n, "int64") >= T.int64(0):
                    Y[4, i] = 1
                if n >= T.uint64(0):
                    Y[5, i] = 1

    kernel, half = tilelang.compile(main), 2**63
    for n, m in ((2**64 - 1, 5), (5, 2**64 - 1), (half, 0), (half - 1, 3)):
        out = strict.run(kernel, {"Y": np.zeros((6, 64), np.int32)}, {"n": n, "m": m}, text=n == half and not nest)["Y"]
        want = [1 if n >= half else 2, n >= half, n < half, max(n, m) < half, n < half, 1]
        np.testing.assert_array_equal(out, np.repeat(np.array(want, np.int32)[:, None], 64, 1))


@pytest.mark.parametrize("nest", [False, True])
def test_constants_at_the_ends_of_their_dtype_on_both_sides(nest):
    """TVM brings them to one side, where they wrapped (conditions were true or false whatever n was), or ended with an error."""

    @T.prim_func
    def main(n: T.int32, m: T.int64, Y: T.Tensor((7, 64), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(64) if nest else T.serial(64):
                if -1 - n >= 2**31 - 1:
                    Y[0, i] = 1
                if n + 1 <= -(2**31 - 1):
                    Y[1, i] = 1
                if n + 1 > -(2**31 - 1):
                    Y[2, i] = 1
                if n + 2 <= -(2**31 - 1):
                    Y[3, i] = 1
                if i - n // 2 > 2**30:
                    Y[4, i] = 1
                if T.cast(i, "int64") // T.int64(3) <= T.int64(2**62):
                    Y[5, i] = 1
            if T.int64(-(2**63)) + m >= T.int64(0):
                Y[6, 0] = 1

    kernel, i = tilelang.compile(main), np.arange(64)
    for n, m in ((5, 2**63 - 1), (-(2**31), 3), (1 - 2**31, 0), (-1, 0)):
        out = strict.run(kernel, {"Y": np.zeros((7, 64), np.int32)}, {"n": n, "m": m}, text=n == 5 and not nest)["Y"]
        low = 1 - 2**31
        rows = [-1 - n >= 2**31 - 1, n + 1 <= low, n + 1 > low, n + 2 <= low, i - n // 2 > 2**30, True, m >= 2**63]
        np.testing.assert_array_equal(out, np.stack([np.broadcast_to(r, 64) for r in rows]).astype(np.int32))


def test_stores_under_conditions_on_the_ends_of_int32_and_int64():
    """Whether the bounds of a tensor say the same as such a condition is a difference of constants, which no int64 holds."""

    @T.prim_func
    def main(W: T.Tensor((16,), "int16"), X: T.Tensor((16,), "int32"), Y: T.Tensor((4, 16), "int32"), p: T.int32):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                if p + i >= T.int32(-(2**31)):
                    Y[0, i] = X[i]
                if W[i] > T.int64(2**63 - 2) or i > 3:
                    Y[1, i] = X[i]
            for i in T.Parallel(16):
                if W[i] > T.int64(2**63 - 2):
                    Y[2, i] = X[i]
                if T.cast(i, "int64") >= T.int64(1 - 2**63):
                    Y[3, i] = X[i]

    x = np.arange(16, dtype=np.int32) + 1
    out = strict.run(tilelang.compile(main), {"W": x.astype(np.int16), "X": x, "Y": np.zeros((4, 16), np.int32)}, {"p": 2})["Y"]
    np.testing.assert_array_equal(out, np.stack([x, np.where(x > 4, x, 0), x * 0, x]))


@pytest.mark.parametrize("target", ["a2", "a5"])
def test_sums_of_data_wrap_before_they_are_divided(target):
    """`(h + 10) % 10` was `h % 10` as an index of a nest over memory, and `(m + m) // 2` was `m`."""

    @T.prim_func
    def main(A: T.Tensor((8,), "int32"), X: T.Tensor((64,), "float32"), Y: T.Tensor((8,), "float32"), W: T.Tensor((2, 8, 16), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                Y[i] = X[(A[i] + 10) % 10]
            for k in T.serial(8):
                m = T.max(A[k], 0)
                for j in T.Parallel(16):
                    W[0, k, j] = X[(A[k] + 10) % 10 + j]
                    W[1, k, j] = X[(m + m) // 2 % 40 + j]

    a = np.array([3, 60, 2**31 - 1, 2**31 - 4, 2**31 - 9, -(2**31), -5, 2**30 + 11], np.int32)
    x, j = np.arange(64, dtype=np.float32) + 1, np.arange(16)
    with np.errstate(over="ignore"):
        first, m = (a + np.int32(10)) % 10, np.maximum(a, 0)
        second = (m + m) // 2 % 40
    out = strict.run(tilelang.compile(main, target=target), {"A": a, "X": x, "Y": x[:8] * 0, "W": np.zeros((2, 8, 16), np.float32)})
    np.testing.assert_array_equal(out["Y"], x[first])
    np.testing.assert_array_equal(out["W"], np.stack([x[first[:, None] + j], x[second[:, None] + j]]))


@pytest.mark.parametrize("n", [3, 2**31, 2**32 - 3])
def test_indices_from_int64_are_outside_where_these_are_large(n):
    """An int64 that is not negative may be any number: a variable was no larger than an int32, and the low bits of one no negative number."""

    @T.prim_func
    def main(
        n: T.int64, X: T.Tensor((8,), "int64"), D: T.Tensor((32,), "int32"), Y: T.Tensor((4, 8), "int32"), Z: T.Tensor((4, 8, 64), "int32")
    ):
        with T.Kernel(1):
            s, unit = T.alloc_shared((64,), "int32"), 2**26
            v, low = T.alloc_var("int64"), T.alloc_var("int32")
            for i in T.serial(8):
                x = T.max(X[i], T.int64(0))
                y = T.cast(x, "int32")
                v = x
                low = y
                Y[0, i] = D[v // T.int64(unit)]
                Y[1, i] = D[v >> T.int64(26)]
                Y[2, i] = D[low // unit]
                T.copy(D[v // T.int64(unit)], s)
                T.copy(s, Z[0, i, 0])
                T.copy(D[y // unit], s)
                T.copy(s, Z[1, i, 0])
                T.copy(D[T.cast(v, "int32") // unit], s)
                T.copy(s, Z[2, i, 0])
                if n >= T.int64(0):
                    Y[3, i] = D[T.cast(n, "int32")]
                    T.copy(D[T.cast(n, "int32")], s)
                    T.copy(s, Z[3, i, 0])

    x = np.array([5, 2**26, 2**31 - 1, 2**31, 2**33, 2**40, -5, 3 * 2**26], np.int64)
    d = np.arange(32, dtype=np.int32) + 100
    arrays = {"X": x, "D": d, "Y": np.zeros((4, 8), np.int32), "Z": np.zeros((4, 8, 64), np.int32)}
    out = strict.run(tilelang.compile(main), arrays, {"n": n}, text=n == 3)
    whole, low, last = np.maximum(x, 0) >> 26, np.maximum(x, 0).astype(np.int32) >> 26, np.int64(n).astype(np.int32)

    def at(place):
        return np.where((place >= 0) & (place < 32), d[np.clip(place, 0, 31)], 0)

    np.testing.assert_array_equal(out["Y"], np.stack([at(p) for p in (whole, whole, low, np.full(8, last))]))
    rows = [np.asarray(p, np.int64)[:, None] + np.arange(64) for p in (whole, low, low, np.full(8, last))]
    np.testing.assert_array_equal(out["Z"], np.stack([at(p) for p in rows]))


OUTSIDE = {
    "sum": lambda a, b, n: T.max(a, 0) + T.max(b, 0),
    "product": lambda a, b, n: T.max(a, 0) * T.max(b, 0),
    "quotient": lambda a, b, n: (T.max(a, 0) + T.max(b, 0)) // 2**26,
    "rounded up": lambda a, b, n: T.ceildiv(T.max(a, 0), 2**26),
    "size": lambda a, b, n: T.abs(a) // 2**27,
    "bits": lambda a, b, n: T.max(a, 0) | (T.max(b, 0) * 2),
    "choice": lambda a, b, n: T.if_then_else(a > 0, a + 5, 0),
    "behind n": lambda a, b, n: T.max(a, 0) + n,
}


@pytest.mark.parametrize("how", ["inline", "name", "variable"])
@pytest.mark.parametrize("form", OUTSIDE)
@pytest.mark.one_in(9)
def test_sums_that_wrapped_are_outside_of_tensors(form, how):
    """They counted as numbers without end, so that whatever was in front of a tensor was read, and stored to. The maximum of 0 and the least int32 is 0,
    whose negative is not the least of the negatives."""
    index = OUTSIDE[form]

    @T.prim_func
    def main(
        n: T.int32,
        A: T.Tensor((16,), "int32"),
        B: T.Tensor((16,), "int32"),
        D: T.Tensor((256,), "int32"),
        R: T.Tensor((64, 64), "int32"),
        W: T.Tensor((256,), "int32"),
        Y: T.Tensor((16,), "int32"),
        Z: T.Tensor((3, 16, 64), "int32"),
    ):
        with T.Kernel(1):
            s, v = T.alloc_shared((64,), "int32"), T.alloc_var("int32")
            for i in T.serial(16):
                a, b = A[i], B[i]
                p = index(a, b, n)
                v = p

                def place(a=a, b=b, p=p):
                    return index(a, b, n) if how == "inline" else p if how == "name" else v

                Y[i] = D[place()]
                T.copy(D[place()], s)
                T.copy(s, Z[0, i, 0])
                T.copy(R[place(), 0:64], s)
                T.copy(s, Z[1, i, 0])
                for j in T.Parallel(64):
                    Z[2, i, j] = R[place(), j]
                W[place()] = i + 1

    most, least, n = 2**31 - 1, -(2**31), 17
    a = np.array([0, 5, 40, most, most - 10, most - 19, -1, least, 1 - 2**31, -40, 2**30, 2**30 + 7, 63, 2**29, -(2**30), 100], np.int32)
    b = np.array([3, most, 0, 1, most, 20, 5, 5, least, 9, 2**30, 2**30, 0, 4, 2, -1], np.int32)
    d, r = np.arange(256, dtype=np.int32) + 100, np.arange(64 * 64, dtype=np.int32).reshape(64, 64) + 1
    zeros = {"W": np.zeros(256, np.int32), "Y": np.zeros(16, np.int32), "Z": np.zeros((3, 16, 64), np.int32)}
    out = strict.run(tilelang.compile(main), {"A": a, "B": b, "D": d, "R": r, **zeros}, {"n": n}, text=form == "sum")
    x, y, five, unit = np.maximum(a, 0), np.maximum(b, 0), np.int32(5), np.int32(2**26)
    with np.errstate(over="ignore"):
        p = {
            "sum": x + y, "product": x * y, "quotient": (x + y) // unit, "rounded up": (x + (unit - np.int32(1))) // unit,
            "size": np.abs(a) // (unit + unit), "bits": x | (y + y), "choice": np.where(a > 0, a + five, 0), "behind n": x + np.int32(n),
        }[form].astype(np.int64)  # fmt: skip
    inside, row, j = (p >= 0) & (p < 256), (p >= 0) & (p < 64), p[:, None] + np.arange(64)
    stored = np.zeros(256)
    stored[p[inside]] = np.flatnonzero(inside) + 1
    rows = np.where(row[:, None], r[p * row], 0)
    np.testing.assert_array_equal(out["Y"], np.where(inside, d[p * inside], 0))
    np.testing.assert_array_equal(out["Z"], np.stack([np.where((j >= 0) & (j < 256), d[np.clip(j, 0, 255)], 0), rows, rows]))
    np.testing.assert_array_equal(out["W"], stored)


@pytest.mark.parametrize("n", [-3, 7])
def test_remainders_of_negative_divisors_are_outside(n):
    """They lie above the divisor, not below it: what is in front of a tensor was read."""

    @T.prim_func
    def main(
        n: T.int32, X: T.Tensor((8,), "int32"), D: T.Tensor((64,), "int32"), Y: T.Tensor((2, 8), "int32"), Z: T.Tensor((8, 64), "int32")
    ):
        with T.Kernel(1):
            s = T.alloc_shared((64,), "int32")
            for i in T.serial(8):
                p, q = 5 % X[i], T.max(n, 5) % n
                Y[0, i] = D[p]
                Y[1, i] = D[q]
                T.copy(D[p], s)
                T.copy(s, Z[i, 0])

    x, d = np.array([1, -1, 7, -7, -(2**31), 3, 64, -100], np.int32), np.arange(64, dtype=np.int32) + 100
    arrays = {"X": x, "D": d, "Y": np.zeros((2, 8), np.int32), "Z": np.zeros((8, 64), np.int32)}
    out = strict.run(tilelang.compile(main), arrays, {"n": n})
    p, q = 5 % x.astype(np.int64), np.full(8, max(n, 5) % n)

    def at(place):
        return np.where((place >= 0) & (place < 64), d[np.clip(place, 0, 63)], 0)

    np.testing.assert_array_equal(out["Y"], [at(p), at(q)])
    np.testing.assert_array_equal(out["Z"], at(p[:, None] + np.arange(64)))


def test_transfers_that_begin_next_to_the_least_int32():
    """How far it is to the end of the tensor is more than an int32 counts, and less what is in front of it was a large number again."""
    least, most = -(2**31), 2**31 - 1
    x = np.array([least, least + 1, least + 63, least + 64, least + 127, least + 200, -64, -63, 0, 5, 64, most - 63, most], np.int32)

    @T.prim_func
    def main(X: T.Tensor((13,), "int32"), D: T.Tensor((64,), "int32"), Z: T.Tensor((2, 13, 64), "int32"), W: T.Tensor((13, 64), "int32")):
        with T.Kernel(13) as bx:
            s, a = T.alloc_shared((64,), "int32"), X[bx]
            T.copy(D[a], s)
            T.copy(s, Z[0, bx, 0])
            for j in T.Parallel(64):
                Z[1, bx, j] = D[a + j]
            for j in T.Parallel(64):
                s[j] = j + 1
            T.copy(s, W[bx, a])

    d, j = np.arange(64, dtype=np.int32) + 100, np.arange(64)
    arrays = {"X": x, "D": d, "Z": np.zeros((2, 13, 64), np.int32), "W": np.zeros((13, 64), np.int32)}
    out = strict.run(tilelang.compile(main), arrays)
    place = x.astype(np.int64)[:, None] + j
    rows = np.where((place >= 0) & (place < 64), d[np.clip(place, 0, 63)], 0)
    np.testing.assert_array_equal(out["Z"], [rows, rows])
    np.testing.assert_array_equal(out["W"], [[k - v + 1 if 0 <= k - v < 64 else 0 for k in range(64)] for v in x.astype(np.int64)])


def test_loops_between_numbers_further_apart_than_an_int32():
    """From the largest number, as a minimum of nothing is, to the least there is no iteration: there was one, or millions."""
    least, most = -(2**31), 2**31 - 1
    a = np.array([most, most, 5, least, 2**30, -(2**30) - 5, most - 3, 3, 7], np.int32)
    b = np.array([least, least + 5, least, most, -(2**30) - 5, 2**30 + 5, most, 30, 7], np.int32)

    @T.prim_func
    def main(A: T.Tensor((9,), "int32"), B: T.Tensor((9,), "int32"), Y: T.Tensor((9, 5), "int32")):
        with T.Kernel(9) as bx:
            a, b = A[bx], B[bx]
            v, count = T.alloc_var("int32"), T.alloc_var("int32")
            v = a
            for k, loop in enumerate((range(a, b), T.serial(a, b, 3), range(b, a, -2), T.Pipelined(v, b, num_stages=2), range(1, b))):
                count = 0
                for _ in loop:
                    count = count + 1
                    if count >= 9:
                        break
                Y[bx, k] = count

    out = strict.run(tilelang.compile(main), {"A": a, "B": b, "Y": np.zeros((9, 5), np.int32)})
    want = [
        [min(len(r), 9) for r in (range(x, y), range(x, y, 3), range(y, x, -2), range(x, y), range(1, y))]
        for x, y in zip(a.tolist(), b.tolist())
    ]
    np.testing.assert_array_equal(out["Y"], want)


def test_transfers_of_slices_that_end_before_they_begin():
    """They move nothing: beyond the end of a tensor, and in front of it, all of a negative number of bytes was moved."""
    a = np.array([3, 10, 64, 5, 0, -3, -5, 2**31 - 1], np.int32)
    b = np.array([10, 3, 0, 5, 64, 4, -20, -(2**31)], np.int32)

    @T.prim_func
    def main(
        A: T.Tensor((8,), "int32"),
        B: T.Tensor((8,), "int32"),
        D: T.Tensor((64,), "int32"),
        Y: T.Tensor((8, 64), "int32"),
        Z: T.Tensor((8, 64), "int32"),
    ):
        with T.Kernel(8) as bx:
            s, t = T.alloc_shared((64,), "int32"), T.alloc_shared((64,), "int32")
            T.copy(D, t)
            T.fill(s, -1)
            T.copy(D[A[bx] : B[bx]], s)
            T.copy(s, Y[bx, 0])
            T.copy(t, Z[bx, A[bx] : B[bx]])

    d = np.arange(64, dtype=np.int32) + 100
    out = strict.run(tilelang.compile(main), {"A": a, "B": b, "D": d, "Y": np.zeros((8, 64), np.int32), "Z": np.zeros((8, 64), np.int32)})
    y, z = np.full((8, 64), -1), np.zeros((8, 64))
    for k, (first, last) in enumerate(zip(a.tolist(), b.tolist())):
        for i in range(min(last - first, 64)):
            y[k, i] = d[first + i] if 0 <= first + i < 64 else 0
            if 0 <= first + i < 64:
                z[k, first + i] = d[i]
    np.testing.assert_array_equal(out["Z"], z)
    np.testing.assert_array_equal(out["Y"][:7], y[:7])


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint64", "float32"])
def test_magnitudes_of_large_uint64(dtype):
    """Their sum in the bits of the result: as int64, half of them were negative."""

    @T.prim_func
    def main(X: T.Tensor((3, 8), "uint64"), Y: T.Tensor((3,), dtype)):
        with T.Kernel(1, threads=32):
            x, y = T.alloc_shared((3, 8), "uint64"), T.alloc_fragment((3,), dtype)
            T.copy(X, x)
            T.reduce_abssum(x, y, dim=1)
            T.copy(y, Y)

    x = (-np.arange(1, 25)).astype(np.uint64).reshape(3, 8)
    out = strict.run(tilelang.compile(main), {"X": x, "Y": np.zeros(3, dtype)})["Y"]
    if dtype == "float32":
        np.testing.assert_allclose(out, x.astype(np.float64).sum(1), rtol=1e-6)
    else:
        np.testing.assert_array_equal(out, x.sum(1).astype(dtype))


def _fibonacci(a, b, t, i, n):
    return b, a + b


def _steps(a, b, t, i, n):
    return a, b + 1640531527


def _named(a, b, t, i, n):
    return t, b + 1 + t


def _halves(a, b, t, i, n):
    return b, T.max(a, b) * 3 // 2


def _growing(step, written_out=False):
    rounds = tuple(range(60))

    @T.prim_func
    def main(n: T.int32, X: T.Tensor((64,), "int32"), Y: T.Tensor((64, 16), "int32"), Z: T.Tensor((64, 2), "int32")):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((16,), "int32")
            a = T.alloc_var("int32", 0)
            b = T.alloc_var("int32", 1)
            for i in rounds if written_out else T.serial(n):
                t = b
                new_a, new_b = step(a, b, t, i, n)
                b = new_b
                a = new_a
                T.copy(X[b // 2**27], s)
                T.copy(s, Y[i, :])
                if b < 0:
                    Z[i, 0] = 1
                Z[i, 1] = (b + 1000) // 1000

    return main


@pytest.mark.parametrize(
    "step, target, written_out",
    [*((step, target, False) for step in (_fibonacci, _steps, _named, _halves) for target in ("a2", "a5")), (_fibonacci, "a2", True)],
)
@pytest.mark.one_in(6)
def test_variables_that_grow_until_they_wrap(step, target, written_out):
    """Sums of several variables double, as one that is added to itself does, and a large step is a hash: none of them stays positive. Transfers at such
    places began in front of their tensor."""
    x = np.arange(64, dtype=np.int32) + 1
    y, z, a, b = np.zeros((64, 16), np.int32), np.zeros((64, 2), np.int32), np.int32(0), np.int32(1)
    with np.errstate(over="ignore"):
        for i in range(60):
            larger = max(a, b)
            a, b = {
                _fibonacci: lambda: (b, a + b),
                _steps: lambda: (a, b + np.int32(1640531527)),
                _named: lambda: (b, b + np.int32(1) + b),
                _halves: lambda: (b, larger * np.int32(3) // np.int32(2)),
            }[step]()
            first = int(b) // 2**27
            y[i] = [x[first + k] if 0 <= first + k < 64 else 0 for k in range(16)]
            z[i] = b < 0, (b + np.int32(1000)) // np.int32(1000)
    out = strict.run(
        tilelang.compile(_growing(step, written_out), target=target), {"X": x, "Y": y * 0, "Z": z * 0}, {"n": 60}, text=not written_out
    )
    np.testing.assert_array_equal(out["Y"], y)
    np.testing.assert_array_equal(out["Z"], z)


@pytest.mark.parametrize("product", [lambda a: a * a, lambda a: a * (a + 1), lambda a: a * 16777619], ids=["square", "name", "hash"])
def test_products_of_variables_wrap(product):
    """So do products with the factor of a hash; those of loop variables and parameters are indices."""

    @T.prim_func
    def main(X: T.Tensor((64,), "int32"), Y: T.Tensor((16,), "int32")):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((16,), "int32")
            a = T.alloc_var("int32", 0)
            b = T.alloc_var("int32", 0)
            a = 50000
            b = product(a)
            T.copy(X[b // 2**27], s)
            T.copy(s, Y)

    x = np.arange(64, dtype=np.int32) + 1
    first = ((product(50000) + 2**31) % 2**32 - 2**31) // 2**27
    out = strict.run(tilelang.compile(main), {"X": x, "Y": np.zeros(16, np.int32)})["Y"]
    np.testing.assert_array_equal(out, [x[first + k] if 0 <= first + k < 64 else 0 for k in range(16)])
