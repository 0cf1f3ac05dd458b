"""Scalars at the ends of their dtype: conditions that must not overflow where the kernel does not, unsigned numbers as signed ones,
constants that their dtype does not hold."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.analysis.index.data_names import DataNames
from tilelang_ascend.analysis.index.signs import Known
from tilelang_ascend.ir import seq, sym, tirx
from tilelang_ascend.sim import integers

N = 64
MOST = 2**31 - 1
LEAST = -(2**31)

CONDITIONS = {
    "i - n < m": (lambda i, n, m: i - n < m, [(5, MOST), (MOST, MOST), (3, 40)]),
    "i + n < m": (lambda i, n, m: i + n < m, [(-5, MOST), (7, LEAST), (LEAST, 7), (3, 40)]),
    "i + 1 < m": (lambda i, n, m: i + 1 < m, [(0, LEAST), (0, MOST), (0, 40)]),
    "i <= m": (lambda i, n, m: i <= m, [(0, LEAST), (0, MOST), (0, 40)]),
    "i - 1 >= n": (lambda i, n, m: i - 1 >= n, [(MOST, 0), (LEAST, 0), (40, 0)]),
    "m - i > n": (lambda i, n, m: m - i > n, [(-5, MOST), (2**30, -(2**30) - 2**29), (3, 40)]),
    "2 * i + n == m": (lambda i, n, m: 2 * i + n == m, [(-5, MOST), (LEAST, LEAST + 8)]),
}


def guarded(how, holds, dtype="int32"):
    number = getattr(T, dtype)

    @T.prim_func
    def main(n: number, m: number, A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32")):
        with T.Kernel(1):
            b = T.alloc_shared((N,), "int32")
            T.clear(b)
            if how == "chosen":
                for i in T.Parallel(N):
                    b[i] = T.if_then_else(holds(i, n, m), A[i], 0)
            elif how == "masked":
                for i in T.Parallel(N):
                    if holds(i, n, m):
                        b[i] = 1
            elif how == "two axes":
                for i, j in T.Parallel(8, 8):
                    if holds(i * 8 + j, n, m):
                        b[i * 8 + j] = A[i * 8 + j]
            if how == "stored":
                for i in T.Parallel(N):
                    if holds(i, n, m):
                        B[i] = A[i]
            else:
                T.copy(b, B)

    return main


@pytest.mark.parametrize("how", ("chosen", "masked", "two axes", "stored"))
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.one_in(4)
def test_a_condition_overflows_no_sooner_than_its_sides(condition, how):
    holds, pairs = CONDITIONS[condition]
    kernel = tilelang.compile(guarded(how, holds))
    for n, m in pairs:
        arrays = {"A": np.ones(N, np.int32), "B": np.zeros(N, np.int32)}
        out = strict.run(kernel, arrays, {"n": n, "m": m}, text=condition == "i - n < m" and (n, m) == (3, 40))
        np.testing.assert_array_equal(out["B"], [int(holds(i, n, m)) for i in range(N)])


LEAST64, MOST64 = -(2**63), 2**63 - 1
ENDS = [LEAST64, LEAST64 + 9, MOST64 - 9, MOST64, LEAST, MOST, -7, 0, 7, 40]
LONG_CONDITIONS = {
    "i + n < m": (lambda i, n, m: i + n < m, lambda n: n + N <= MOST64),
    "i - n <= m": (lambda i, n, m: i - n <= m, lambda n: n - N >= LEAST64),
    "n - i >= m": (lambda i, n, m: n - i >= m, lambda n: n - N >= LEAST64),
    "m < i": (lambda i, n, m: m < i, lambda n: n == 0),
    "i <= m": (lambda i, n, m: i <= m, lambda n: n == 0),
    "m > -i": (lambda i, n, m: m > -i, lambda n: n == 0),
    "2 * i + n == m": (lambda i, n, m: 2 * i + n == m, lambda n: n + 2 * N <= MOST64),
}


@pytest.mark.one_in(6)
@pytest.mark.parametrize("how", ("chosen", "masked", "stored"))
@pytest.mark.parametrize("condition", LONG_CONDITIONS)
def test_nor_does_one_of_int64(condition, how):
    """The difference between two of them is none."""
    holds, inside = LONG_CONDITIONS[condition]
    kernel = tilelang.compile(guarded(how, holds, "int64"))
    for k, (n, m) in enumerate((n, m) for n in ENDS for m in ENDS if inside(n)):
        arrays = {"A": np.ones(N, np.int32), "B": np.zeros(N, np.int32)}
        out = strict.run(kernel, arrays, {"n": n, "m": m}, text=k == 0)
        np.testing.assert_array_equal(out["B"], [int(holds(i, n, m)) for i in range(N)], err_msg=f"{n} {m}")


def test_elements_on_both_sides_wrap_on_one_of_them():
    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(N):
                x = A[i]
                B[i] = T.if_then_else(x + 5 < x + 9 + i, 1, 0)

    a = (MOST - np.arange(N)).astype(np.int32)
    out = strict.run(tilelang.compile(main), {"A": a, "B": np.zeros(N, np.int32)})["B"]
    np.testing.assert_array_equal(out, a + np.int32(5) < a + np.int32(9) + np.arange(N, dtype=np.int32))


def test_a_box_between_two_limits():
    @T.prim_func
    def main(n: T.int32, low: T.int32, A: T.Tensor((16, N), "int32"), B: T.Tensor((16, N), "int32")):
        with T.Kernel(1):
            for i, j in T.Parallel(16, N):
                if i >= low and i < n:
                    B[i, j] = A[i, j]

    kernel = tilelang.compile(main)
    for n, low in ((9, 5), (LEAST, 5), (LEAST, MOST), (MOST, LEAST), (LEAST + 3, 7)):
        out = strict.run(kernel, {"A": np.ones((16, N), np.int32), "B": np.zeros((16, N), np.int32)}, {"n": n, "low": low}, text=n == 9)[
            "B"
        ]
        np.testing.assert_array_equal(out, np.repeat([[int(low <= i < n)] for i in range(16)], N, 1))


@pytest.mark.parametrize("u", (2**32 - 5, 7))
def test_an_unsigned_number_may_be_a_negative_signed_one(u):
    @T.prim_func
    def main(u: T.uint32, B: T.Tensor((8,), "int32")):
        with T.Kernel(1):
            B[0] = T.cast(u, "int32") // 3
            B[1] = T.cast(u, "int32") % 7
            B[2] = T.truncdiv(T.cast(u, "int32"), 3)
            B[3] = T.truncmod(T.cast(u, "int32"), 3)
            for i in T.serial(4, 8):
                B[i] = (T.cast(u, "int32") + i) // 4

    out = strict.run(tilelang.compile(main), {"B": np.zeros(8, np.int32)}, {"u": u})["B"]
    s = int(np.uint32(u).astype(np.int32))
    np.testing.assert_array_equal(out, [s // 3, s % 7, int(s / 3), int(np.fmod(s, 3)), *((s + i) // 4 for i in range(4, 8))])


CASTS = [
    ("int32", "uint16", -1, 65535), ("int32", "int8", 300, 44), ("int32", "uint8", -1, 255), ("float32", "int32", "nan", 0),
    ("float32", "int32", "inf", MOST), ("float32", "int8", 300.7, 127), ("float32", "uint8", -3.5, 0), ("float32", "bool", 0.5, 1),
    ("float16", "float32", 0.1, float(np.float16(0.1))),
]  # fmt: skip


@pytest.mark.parametrize("source, target, number, want", CASTS)
def test_constants_are_converted_as_variables_are(source, target, number, want):
    number = float(number) if isinstance(number, str) else number

    @T.prim_func
    def main(B: T.Tensor((N,), target)):
        with T.Kernel(1):
            b = T.alloc_shared((N,), target)
            for i in T.Parallel(N):
                x = T.alloc_var(source)
                x = number
                b[i] = T.cast(x, target)
            T.copy(b, B)

    out = strict.run(tilelang.compile(main), {"B": np.zeros(N, target)})["B"]
    np.testing.assert_array_equal(out, np.full(N, want, target))


@pytest.mark.parametrize("divisor", (LEAST, MOST, -(2**30), 2**30 + 1))
def test_division_by_the_ends_of_int32(divisor):
    a = np.array([LEAST, LEAST + 1, -(2**30), -7, -1, 0, 1, 7, 2**30, 2**30 + 1, MOST - 1, MOST], np.int64)

    @T.prim_func
    def main(A: T.Tensor((12,), "int32"), B: T.Tensor((2, 12), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(12):
                B[0, i] = A[i] // divisor
                B[1, i] = A[i] % divisor

    out = strict.run(tilelang.compile(main), {"A": a.astype(np.int32), "B": np.zeros((2, 12), np.int32)})["B"]
    np.testing.assert_array_equal(out, [a // divisor, a % divisor])


@pytest.mark.parametrize("exponent", ("inf", "-inf", "nan", "1e30", "-1e30"))
def test_powers_with_extreme_exponents(exponent):
    exponent = float(exponent)
    x = np.array([0, 1, -1, 2, -2, 0.5, -0.5, np.inf, -np.inf, np.nan, 3e38, -3e38], np.float32)

    @T.prim_func
    def main(A: T.Tensor((12,), "float32"), B: T.Tensor((12,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(12):
                B[i] = T.pow(A[i], T.float32(exponent))

    out = strict.run(tilelang.compile(main), {"A": x, "B": np.zeros(12, np.float32)})["B"]
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out, np.power(x, np.float32(exponent)))


HASHES = {
    "remainder": lambda i: i * 1103515245 % 16,
    "quotient": lambda i: (i * 1103515245 + 12345) // 7,
    "power": lambda i: i * i * i * i * i * i // 3 % 7,
    "element": lambda i: (i * 1103515245 + (1 << 30)) % 1000,
}


@pytest.mark.parametrize("length", ["constant", "run time"])
@pytest.mark.parametrize("name", HASHES)
def test_products_of_a_loop_variable_wrap_before_they_are_divided(name, length):
    """Loop variables are not negative, a product with a factor of a hash may be: divisions still round down."""
    n = 40

    @T.prim_func
    def main(Y: T.Tensor((n,), "int32"), count: T.int32):
        with T.Kernel(1):
            for i in T.serial(n if length == "constant" else count):
                Y[i] = HASHES[name](i)

    want = np.zeros(n, np.int32)
    with np.errstate(over="ignore"):
        for i in range(n):
            want[i] = HASHES[name](np.int32(i))
    out = strict.run(tilelang.compile(main), {"Y": np.zeros(n, np.int32)}, {"count": n}, text=length == "constant")
    np.testing.assert_array_equal(out["Y"], want)


def test_sums_of_scalars_wrap():
    """int32 scalars have 32 bits wherever they are used: made longer, divided, or as the zero of another dtype."""
    x = np.array([0, 1, 5, -1, -7, 2**31 - 1, -(2**31)], np.int32)

    @T.prim_func
    def main(X: T.Tensor((len(x),), "int32"), Y: T.Tensor((4, len(x)), "int64"), s: T.int32):
        with T.Kernel(1):
            for i in T.serial(len(x)):
                Y[0, i] = T.cast(X[i] - T.int32(-(2**31)), "int64")
                Y[1, i] = T.cast(X[i] + T.int32(2**31 - 1), "int64") + T.int64(1)
                Y[2, i] = T.cast(T.truncmod(X[i] * T.int32(1103515245), s | T.int32(1)), "int64")
                Y[3, i] = T.cast(X[i] + T.reinterpret("int32", T.uint32(0)), "int64")

    wrap = lambda v: (np.asarray(v) + 2**31) % 2**32 - 2**31  # noqa: E731
    wide = x.astype(np.int64)
    want = [wrap(wide + 2**31), wrap(wide + 2**31 - 1) + 1, np.fmod(wrap(wide * 1103515245), 5), wide]
    out = strict.run(tilelang.compile(main), {"X": x, "Y": np.zeros((4, len(x)), np.int64)}, {"s": 5})
    np.testing.assert_array_equal(out["Y"], want)


def test_a_difference_that_is_zero():
    """Sums that wrap are made in 64 bits; TVM's simplifier finds that this one is 2**32 there, which it did not convert."""
    a = tirx.Var("a", "int32")
    sym.Analyzer().bind(tirx.Var("x", "int32"), integers.rewrite(tirx.Sub(a, a), Known(DataNames(seq())), wraps=True))


def test_a_difference_that_may_be_anything_has_no_upper_end():
    """Its range has more numbers than an int32 can count; cut to what could be counted, `k % 2` was taken for `k`."""

    @T.prim_func
    def kernel(ends: T.Tensor((2,), "int32"), X: T.Tensor((2, 32), "float32"), Y: T.Tensor((2, 8, 32), "float32")):
        with T.Kernel(2) as bx:
            tile = T.alloc_shared((32,), "float32")
            difference = ends[1] - ends[0]
            last = difference + (bx + 1) * 32
            for k in T.serial(T.ceildiv(last, 32)):
                T.copy(X[k % 2, :], tile)
                T.copy(tile, Y[bx, k, :])

    x = np.arange(64, dtype=np.float32).reshape(2, 32)
    arrays = {"ends": np.array([7, 80], np.int32), "X": x, "Y": np.full((2, 8, 32), 7, np.float32)}
    expected = arrays["Y"].copy()
    for bx, trips in enumerate((4, 5)):
        expected[bx, :trips] = x[np.arange(trips) % 2]
    np.testing.assert_array_equal(strict.run(tilelang.compile(kernel), arrays)["Y"], expected)


@pytest.mark.parametrize("target", ["a2", "a5"])
def test_bools_are_ordered(target):
    """`b > True` is never true: nothing is added to the constant."""

    @T.prim_func
    def main(B: T.Tensor((8,), "bool"), C: T.Tensor((8,), "int32")):
        with T.Kernel(1):
            for k in T.serial(8):
                if B[k] > T.cast(1, "bool"):
                    C[k] = 1
                else:
                    if B[k] < T.cast(1, "bool"):
                        C[k] = 2
                    else:
                        C[k] = 3

    flags = np.arange(8) % 3 == 0
    out = strict.run(tilelang.compile(main, target=target), {"B": flags, "C": np.zeros(8, np.int32)}, text=False)
    np.testing.assert_array_equal(out["C"], np.where(flags, 3, 2))
