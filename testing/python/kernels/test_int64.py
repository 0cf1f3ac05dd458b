"""int64 on the vector unit: pairs of 32-bit words, in every kind of access a nest may make."""

import logging
import re

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.sim import reference_numbers

RNG = np.random.default_rng(64)
I64 = "int64"


def values(*shape):
    wide = RNG.integers(-(2**63), 2**63 - 1, shape, endpoint=True)
    return np.where(RNG.random(shape) < 0.5, wide, RNG.integers(-(2**33), 2**33, shape))


def run(func, text=False, scalars=None, **arrays):
    return strict.run(tilelang.compile(func, pass_configs=strict.SERIAL), arrays, scalars, text=text)


@pytest.fixture
def no_scalar_loops(caplog):
    with caplog.at_level(logging.WARNING, logger="tilelang_ascend"):
        yield
    assert "scalar loops" not in caplog.text and "one element at a time" not in caplog.text


@pytest.mark.parametrize("m, n", [(5, 64), (7, 33), (1, 3)])
def test_rows_columns_and_constants(m, n, no_scalar_loops):
    @T.prim_func
    def main(X: T.Tensor((m, n), I64), R: T.Tensor((m,), I64), C: T.Tensor((n,), I64), Y: T.Tensor((m, n), I64)):
        with T.Kernel(1, threads=32):
            x, r, c = T.alloc_shared((m, n), I64), T.alloc_shared((m,), I64), T.alloc_shared((n,), I64)
            y = T.alloc_fragment((m, n), I64)
            T.copy(X, x)
            T.copy(R, r)
            T.copy(C, c)
            for i, j in T.Parallel(m, n):
                y[i, j] = T.max(x[i, j] * r[i] - c[j], -5_000_000_000) + (i * 3 + j)
            T.copy(y, Y)

    x, r, c = values(m, n), values(m), values(n)
    i, j = np.indices((m, n))
    with np.errstate(over="ignore"):
        want = np.maximum(x * r[:, None] - c, -5_000_000_000) + (i * 3 + j)
    np.testing.assert_array_equal(run(main, text=n == 33, X=x, R=r, C=c, Y=np.zeros_like(x))["Y"], want)


def test_strides_reversals_transposes_and_gathers(no_scalar_loops):
    n, m = 40, 9

    @T.prim_func
    def main(
        X: T.Tensor((2 * n + 1,), I64),
        M: T.Tensor((m, 16), I64),
        I: T.Tensor((n,), "int32"),
        Y: T.Tensor((4, n), I64),
        Z: T.Tensor((16, m), I64),
    ):
        with T.Kernel(1, threads=32):
            x, t, index = T.alloc_shared((2 * n + 1,), I64), T.alloc_shared((m, 16), I64), T.alloc_shared((n,), "int32")
            y, z = T.alloc_fragment((4, n), I64), T.alloc_fragment((16, m), I64)
            T.copy(X, x)
            T.copy(M, t)
            T.copy(I, index)
            for i in T.Parallel(n):
                y[0, i] = x[2 * i]
                y[1, i] = x[n - 1 - i] + 1
                y[2, i] = x[i + 1]
                y[3, i] = x[index[i]]
            for i, j in T.Parallel(16, m):
                z[i, j] = t[j, i]
            T.copy(y, Y)
            T.copy(z, Z)

    x, t = values(2 * n + 1), values(m, 16)
    index = RNG.integers(0, 2 * n + 1, n, dtype=np.int32)
    out = run(main, X=x, M=t, I=index, Y=np.zeros((4, n), np.int64), Z=np.zeros((16, m), np.int64))
    want = np.stack([x[: 2 * n : 2], x[n - 1 :: -1] + 1, x[1 : n + 1], x[index]])
    np.testing.assert_array_equal(out["Y"], want)
    np.testing.assert_array_equal(out["Z"], t.T)


def test_conditions_fills_and_runtime_scalars(no_scalar_loops):
    n = 77

    @T.prim_func
    def main(X: T.Tensor((n,), I64), Y: T.Tensor((n,), I64), F: T.Tensor((n,), I64), s: T.int64):
        with T.Kernel(1, threads=32):
            x, y, f = T.alloc_shared((n,), I64), T.alloc_fragment((n,), I64), T.alloc_fragment((n,), I64)
            T.copy(X, x)
            T.fill(y, -(2**40) - 3)
            T.fill(f, s)
            for i in T.Parallel(n):
                if x[i] > s:
                    y[i] = x[i] - s
            T.copy(y, Y)
            T.copy(f, F)

    x, s = values(n), 2**35 + 7
    out = run(main, X=x, Y=np.zeros_like(x), F=np.zeros_like(x), scalars={"s": s})
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(out["Y"], np.where(x > s, x - s, -(2**40) - 3))
    assert (out["F"] == s).all()


def test_part_of_a_tile(no_scalar_loops):
    @T.prim_func
    def main(X: T.Tensor((6, 32), I64), Y: T.Tensor((6, 32), I64)):
        with T.Kernel(1, threads=32):
            x, y = T.alloc_shared((6, 32), I64), T.alloc_shared((6, 32), I64)
            T.copy(X, x)
            T.copy(X, y)
            for i, j in T.Parallel(6, 8):
                y[i, j + 16] = x[i, j] + 1
            T.copy(y, Y)

    x = values(6, 32)
    want = x.copy()
    want[:, 16:24] = x[:, :8] + 1
    np.testing.assert_array_equal(run(main, X=x, Y=np.zeros_like(x))["Y"], want)


def test_index_sums_beyond_32_bits():
    n = 33

    @T.prim_func
    def main(Y: T.Tensor((2, n), I64), s: T.int64):
        with T.Kernel(1, threads=32):
            y = T.alloc_fragment((2, n), I64)
            for i in T.Parallel(n):
                y[0, i] = s + i
                y[1, i] = T.cast(i, I64) * 3_000_000_000
            T.copy(y, Y)

    out = run(main, Y=np.zeros((2, n), np.int64), scalars={"s": 2**40})
    np.testing.assert_array_equal(out["Y"], np.stack([2**40 + np.arange(n), np.arange(n) * 3_000_000_000]))


def test_blocks_of_one_element():
    """Seed 1851 of the fuzzer."""

    @T.prim_func
    def kernel(Y: T.Tensor((5,), "int64"), X: T.Tensor((15,), "int64")):
        with T.Kernel(5) as bx:
            for i in T.Parallel(1):
                Y[bx + i] = X[(bx + i) * 3]

    x = RNG.integers(-(2**60), 2**60, 15)
    out = strict.run(tilelang.compile(kernel), {"X": x, "Y": np.zeros(5, np.int64)})
    np.testing.assert_array_equal(out["Y"], x[::3])


U64 = "uint64"
UNSIGNED = {
    "the opposite": (lambda a, b, s: -a, lambda a, b, s: -a),
    "less than a constant": (lambda a, b, s: 5 - a, lambda a, b, s: 5 - a),
    "a sum beyond the end": (lambda a, b, s: T.if_then_else(a + 7 < a, a, b), lambda a, b, s: np.where(a + 7 < a, a, b)),
    "the quotient by an element": (lambda a, b, s: a // s, lambda a, b, s: a // s),
    "the rest of an element": (lambda a, b, s: a % s, lambda a, b, s: a % s),
    "shifts by an element": (lambda a, b, s: (a << (s & 7)) ^ (b >> (s & 7)), lambda a, b, s: (a << (s & 7)) ^ (b >> (s & 7))),
}


@pytest.mark.parametrize("loop", [T.Parallel, T.serial])
@pytest.mark.parametrize("name", UNSIGNED)
@pytest.mark.one_in(2)
def test_unsigned_numbers_wrap(name, loop):
    n = 33
    kernel_of, numpy_of = UNSIGNED[name]

    @T.prim_func
    def main(X: T.Tensor((n,), U64), Y: T.Tensor((n,), U64), Z: T.Tensor((n,), U64)):
        with T.Kernel(1, threads=32):
            x, y, z = T.alloc_shared((n,), U64), T.alloc_shared((n,), U64), T.alloc_shared((n,), U64)
            T.copy(X, x)
            T.copy(Y, y)
            for i in loop(n):
                z[i] = kernel_of(x[i], y[i], Y[0])
            T.copy(z, Z)

    x, y = values(n).astype(np.uint64), values(n).astype(np.uint64)
    x[:4], y[0] = [0, 1, 2**64 - 1, 2**63], 2**61 + 3
    with np.errstate(over="ignore"):
        want = numpy_of(x, y, y[0])
    np.testing.assert_array_equal(run(main, text=True, X=x, Y=y, Z=np.zeros_like(x))["Z"], want)


@pytest.mark.parametrize("target", ["a2", "a5"])
def test_unsigned_numbers_are_chosen(target):
    m, n = 5, 33

    @T.prim_func
    def main(X: T.Tensor((m, n), U64), Y: T.Tensor((m, n), U64), Z: T.Tensor((m, n), U64)):
        with T.Kernel(1, threads=32):
            x, y, z = T.alloc_shared((m, n), U64), T.alloc_shared((m, n), U64), T.alloc_shared((m, n), U64)
            T.copy(X, x)
            T.copy(Y, y)
            for i, j in T.Parallel(m, n):
                z[i, j] = T.if_then_else((i + j) % 3 == 0, x[i, j], y[i, j])
            for i, j in T.Parallel(m, n):
                if j > i:
                    z[i, j] = T.cast(2, U64)
            T.copy(z, Z)

    x, y = values(m, n).astype(np.uint64), values(m, n).astype(np.uint64)
    i, j = np.indices((m, n))
    want = np.where(j > i, 2, np.where((i + j) % 3 == 0, x, y)).astype(np.uint64)
    out = strict.run(tilelang.compile(main, target=target, pass_configs=strict.SERIAL), {"X": x, "Y": y, "Z": np.zeros_like(x)})["Z"]
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("source", ["float32", "float16"])
@pytest.mark.parametrize("loop", [T.Parallel, T.serial])
def test_floats_stop_at_the_ends_of_unsigned_numbers(source, loop):
    given = np.array([-1.5, -0.5, -0.0, 3e9, 9.5e18, 1.5e19, 3e19, -1e10, np.nan, np.inf, -np.inf, 7.9], np.float32)
    given = given[~np.isfinite(given) | (np.abs(given) < 65504)].astype(source) if source == "float16" else given
    n = given.size

    @T.prim_func
    def main(X: T.Tensor((n,), source), Y: T.Tensor((n,), U64), Z: T.Tensor((n,), U64)):
        with T.Kernel(1, threads=32):
            x, y = T.alloc_shared((n,), source), T.alloc_shared((n,), U64)
            T.copy(X, x)
            for i in loop(n):
                y[i] = T.cast(x[i], U64)
            T.copy(y, Y)
            for i in T.Parallel(n):
                Z[i] = T.cast(x[0], U64)

    def number(x):
        return 0 if np.isnan(x) or x <= 0 else 2**64 - 1 if x >= 2**64 else int(x)

    out = run(main, text=True, X=given, Y=np.zeros(n, U64), Z=np.zeros(n, U64))
    np.testing.assert_array_equal(out["Y"], np.array([number(float(x)) for x in given], U64))
    np.testing.assert_array_equal(out["Z"], np.zeros(n, U64))


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "bfloat16"])
def test_large_unsigned_sums_become_small_floats(dtype):
    convert, kind = reference_numbers.convert, reference_numbers.numpy_dtype(dtype)
    want = np.array([2**63 + 2**40]).astype(np.uint64).astype(np.float32).astype(kind)
    assert convert(2**63 + 2**40, kind).tobytes() == want.tobytes()


LONG_OPERATIONS = {
    "add": (lambda a, b, s: a + b, "Add"),
    "sub": (lambda a, b, s: a - b, "Sub"),
    "mul": (lambda a, b, s: a * b, "Mul"),
    "max": (lambda a, b, s: T.max(a, b), "Max"),
    "min": (lambda a, b, s: T.min(a, b), "Min"),
    "numbers": (lambda a, b, s: s - T.min(T.max(a * s, -(2**62) - 1) + (2**62 + 1), s), "Muls"),
    "shifts": (lambda a, b, s: ((a >> 33) << 7) + b, "ShiftRight"),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", LONG_OPERATIONS)
def test_a5_has_instructions_for_lanes_of_64_bits(name, no_scalar_loops):
    """In tiles, in rows that start anywhere, with parts that are broadcast, and next to conditions."""
    m, n = 5, 37
    operation, api = LONG_OPERATIONS[name]

    @T.prim_func
    def main(
        A: T.Tensor((m, n), I64),
        B: T.Tensor((m, n), I64),
        Y: T.Tensor((m, n), I64),
        Z: T.Tensor((m, n), I64),
        W: T.Tensor((n,), I64),
        s: T.int64,
    ):
        with T.Kernel(1, threads=32):
            a, b, w = T.alloc_shared((m, n), I64), T.alloc_shared((m, n), I64), T.alloc_shared((n,), I64)
            y, z = T.alloc_fragment((m, n), I64), T.alloc_fragment((m, n), I64)
            T.copy(A, a)
            T.copy(B, b)
            for i, j in T.Parallel(m, n):
                y[i, j] = operation(a[i, j], b[i, j], s)
                z[i, j] = T.if_then_else(y[i, j] > b[i, j], operation(b[i, 0], a[i, j], s), operation(a[i, j], a[0, j], s) + i)
            for j in T.Parallel(n - 1):
                w[j + 1] = operation(a[0, j], b[0, j + 1], s)
            w[0] = 0
            T.copy(y, Y)
            T.copy(z, Z)
            T.copy(w, W)

    def numpy_of(a, b, s):
        with np.errstate(over="ignore"):
            return {
                "add": a + b, "sub": a - b, "mul": a * b, "max": np.maximum(a, b), "min": np.minimum(a, b), "shifts": ((a >> 33) << 7) + b,
                "numbers": s - np.minimum(np.maximum(a * s, -(2**62) - 1) + (2**62 + 1), s),
            }[name]  # fmt: skip

    a, b, s = values(m, n), values(m, n), np.int64(2**61 + 12345)
    kernel = tilelang.compile(main, target="a5")
    text = kernel.get_kernel_source()
    longs = "|".join(re.findall(r"LocalTensor<int64_t> (\w+)", text))
    assert re.search(rf"AscendC::{api}\(({longs})(\[[^\]]*\])?, ", text), "no instruction on lanes of 64 bits"
    zeros = {"Y": np.zeros_like(a), "Z": np.zeros_like(a), "W": np.zeros(n, np.int64)}
    out = strict.run(kernel, {"A": a, "B": b, **zeros}, {"s": int(s)})
    want = numpy_of(a, b, s)
    with np.errstate(over="ignore"):
        other = np.where(want > b, numpy_of(b[:, :1], a, s), numpy_of(a, a[:1], s) + np.arange(m)[:, None])
    np.testing.assert_array_equal(out["Y"], want)
    np.testing.assert_array_equal(out["Z"], other)
    np.testing.assert_array_equal(out["W"], np.concatenate(([0], numpy_of(a[0, :-1], b[0, 1:], s))))


@pytest.mark.parametrize("target", ["a2", "a5"])
def test_bits_and_orders_of_64_bit_lanes(target, no_scalar_loops):
    """Bits of lanes of any size are one instruction, on A5 comparisons, too."""
    m, n = 5, 37

    @T.prim_func
    def main(
        A: T.Tensor((m, n), I64), B: T.Tensor((m, n), I64), Y: T.Tensor((4, m, n), I64), Z: T.Tensor((6, m, n), "int32"), W: T.Tensor((6, m, n), "int32"), s: T.int64,
    ):  # fmt: skip
        with T.Kernel(1, threads=32):
            a, b = T.alloc_shared((m, n), I64), T.alloc_shared((m, n), I64)
            y, z, w = T.alloc_fragment((4, m, n), I64), T.alloc_fragment((6, m, n), "int32"), T.alloc_fragment((6, m, n), "int32")
            T.copy(A, a)
            T.copy(B, b)
            for i, j in T.Parallel(m, n):
                y[0, i, j] = a[i, j] & b[i, j]
                y[1, i, j] = a[i, j] | b[i, 0]
                y[2, i, j] = a[i, j] ^ (b[i, j] >> 5)
                y[3, i, j] = ~a[i, j] ^ b[i, j]
                for k, (x, v) in enumerate(((a[i, j], b[i, j]), (a[i, j], s))):
                    out = (z, w)[k]
                    out[0, i, j] = T.if_then_else(x < v, 1, 0)
                    out[1, i, j] = T.if_then_else(x <= v, 1, 0)
                    out[2, i, j] = T.if_then_else(x > v, 1, 0)
                    out[3, i, j] = T.if_then_else(x >= v, 1, 0)
                    out[4, i, j] = T.if_then_else(x == v, 1, 0)
                    out[5, i, j] = T.if_then_else(x != v, 1, 0)
            T.copy(y, Y)
            T.copy(z, Z)
            T.copy(w, W)

    a, b = values(m, n), values(m, n)
    b[:, ::3] = a[:, ::3]
    b[:, 1::3] = a[:, 1::3] + 1
    s = np.int64(a[2, 5])
    kernel = tilelang.compile(main, target=target)
    text = kernel.get_kernel_source()
    longs = "|".join(re.findall(r"LocalTensor<int64_t> (\w+)", text))
    found = re.search(rf"AscendC::Compare\(\w+(\[[^\]]*\])?, ({longs})(\[[^\]]*\])?, .*CMPMODE::LT", text)
    assert bool(found) == (target == "a5"), "comparisons of lanes of 64 bits"
    zeros = {"Y": np.zeros((4, m, n), np.int64), "Z": np.zeros((6, m, n), np.int32), "W": np.zeros((6, m, n), np.int32)}
    out = strict.run(kernel, {"A": a, "B": b, **zeros}, {"s": int(s)})
    np.testing.assert_array_equal(out["Y"], np.stack([a & b, a | b[:, :1], a ^ (b >> 5), ~a ^ b]))
    for name, v in (("Z", b), ("W", s)):
        np.testing.assert_array_equal(out[name], np.stack([a < v, a <= v, a > v, a >= v, a == v, a != v]))


@pytest.mark.parametrize("dtype", ["int32", "int16"])
def test_a5_compares_integers_in_every_order(dtype, no_scalar_loops):
    n = 200

    @T.prim_func
    def main(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), Y: T.Tensor((6, n), dtype), s: T.int32):
        with T.Kernel(1, threads=32):
            a, b, y = T.alloc_shared((n,), dtype), T.alloc_shared((n,), dtype), T.alloc_fragment((6, n), dtype)
            T.copy(A, a)
            T.copy(B, b)
            for i in T.Parallel(n):
                y[0, i] = T.if_then_else(a[i] < b[i], a[i], 7)
                y[1, i] = T.if_then_else(a[i] <= b[i], a[i], 7)
                y[2, i] = T.if_then_else(a[i] > b[i], a[i], 7)
                y[3, i] = T.if_then_else(a[i] >= b[i], a[i], 7)
                y[4, i] = T.if_then_else(a[i] > T.cast(s, dtype), a[i], 7)
                y[5, i] = T.if_then_else(3 >= a[i], a[i], 7)
            T.copy(y, Y)

    ends = np.iinfo(dtype)
    a, b = (np.concatenate([[ends.min, ends.max, ends.min, 0], RNG.integers(-5, 6, n - 4)]).astype(dtype) for _ in range(2))
    b[:4] = ends.max, ends.min, ends.min, -1
    kernel = tilelang.compile(main, target="a5")
    text = kernel.get_kernel_source()
    assert {"LT", "LE", "GT", "GE"} <= set(re.findall(r"CMPMODE::(\w+)", text)) and "AscendC::Max(" not in text
    out = strict.run(kernel, {"A": a, "B": b, "Y": np.zeros((6, n), dtype)}, {"s": -2})
    np.testing.assert_array_equal(out["Y"], np.stack([np.where(c, a, 7) for c in (a < b, a <= b, a > b, a >= b, a > -2, a <= 3)]))
