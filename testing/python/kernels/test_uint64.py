"""uint64 on the vector unit: lanes of int64 with the same bits; orders, right shifts and conversions are those of unsigned numbers."""

import logging
import operator

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.isa.semantics.memory import np_dtype

U64 = "uint64"
EDGES = [0, 1, 2, 7, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**63 + 5, 2**64 - 2, 2**64 - 1]
RNG = np.random.default_rng(640)
ROWS, COLUMNS = 7, 40


def values(*shape):
    wide = RNG.integers(0, 2**64 - 1, shape, dtype=np.uint64, endpoint=True)
    return np.where(RNG.random(shape) < 0.5, wide, RNG.choice(np.array(EDGES, np.uint64), shape))


def chosen(compare):
    return lambda a, b: T.if_then_else(compare(a, b), a, b + T.cast(1, U64))


OPERATIONS = {
    "add": (operator.add, operator.add),
    "sub": (operator.sub, operator.sub),
    "mul": (operator.mul, operator.mul),
    "max": (T.max, np.maximum),
    "min": (T.min, np.minimum),
    "and": (operator.and_, operator.and_),
    "or": (operator.or_, operator.or_),
    "xor": (operator.xor, operator.xor),
    **{
        name: (chosen(compare), lambda a, b, compare=compare: np.where(compare(a, b), a, b + np.uint64(1)))
        for name, compare in (
            ("lt", operator.lt),
            ("le", operator.le),
            ("gt", operator.gt),
            ("ge", operator.ge),
            ("eq", operator.eq),
            ("ne", operator.ne),
        )
    },
}
NUMBERS = (3, 2**63 - 1, 2**63 + 3, 2**64 - 1)


@pytest.fixture
def no_scalar_loops(caplog):
    with caplog.at_level(logging.WARNING, logger="tilelang_ascend"):
        yield
    assert "scalar loops" not in caplog.text and "one element at a time" not in caplog.text


def binary(operation, kind, number):
    @T.prim_func
    def main(
        X: T.Tensor((ROWS, COLUMNS), U64),
        Z: T.Tensor((ROWS, COLUMNS), U64),
        R: T.Tensor((ROWS,), U64),
        n: T.uint64,
        Y: T.Tensor((ROWS, COLUMNS), U64),
    ):
        with T.Kernel(1, threads=32):
            x, z, r = T.alloc_shared((ROWS, COLUMNS), U64), T.alloc_shared((ROWS, COLUMNS), U64), T.alloc_shared((ROWS,), U64)
            y = T.alloc_fragment((ROWS, COLUMNS), U64)
            T.copy(X, x)
            T.copy(Z, z)
            T.copy(R, r)
            for i, j in T.Parallel(ROWS, COLUMNS):
                if kind == "tiles":
                    y[i, j] = operation(x[i, j], z[i, j])
                elif kind == "rows":
                    y[i, j] = operation(r[i], x[i, j])
                elif kind == "number":
                    y[i, j] = operation(x[i, j], T.cast(number, U64))
                elif kind == "parameter":
                    y[i, j] = operation(x[i, j], n)
                else:
                    y[i, j] = operation(T.cast(i * 3 + j, U64), x[i, j])
            T.copy(y, Y)

    return main


@pytest.mark.parametrize("target", ["a2", "a5"])
@pytest.mark.parametrize("kind", ["tiles", "rows", "number", "parameter", "lanes"])
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.one_in(24)
def test_operations(target, kind, name, no_scalar_loops):
    build, expected = OPERATIONS[name]
    number = NUMBERS[list(OPERATIONS).index(name) % len(NUMBERS)]
    x, z, r = values(ROWS, COLUMNS), values(ROWS, COLUMNS), values(ROWS)
    z[::2, ::3] = x[::2, ::3]
    compiled = tilelang.compile(binary(build, kind, number), target=target, pass_configs=strict.SERIAL)
    arrays = {"X": x, "Z": z, "R": r, "Y": np.zeros_like(x)}
    out = strict.run(compiled, arrays, {"n": number}, text=kind in ("number", "parameter"))["Y"]
    lanes = (np.arange(ROWS)[:, None] * 3 + np.arange(COLUMNS)).astype(np.uint64)
    a, b = {
        "tiles": (x, z),
        "rows": (r[:, None], x),
        "number": (x, np.uint64(number)),
        "parameter": (x, np.uint64(number)),
        "lanes": (lanes, x),
    }[kind]
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(out, np.broadcast_to(expected(a, b), out.shape))


@pytest.mark.parametrize("target", ["a2", "a5"])
@pytest.mark.parametrize("amount", [0, 1, 31, 32, 33, 63])
@pytest.mark.one_in(2)
def test_shifts_and_powers_of_two(target, amount, no_scalar_loops):
    divisor = 2**amount

    @T.prim_func
    def main(X: T.Tensor((COLUMNS,), U64), Y: T.Tensor((5, COLUMNS), U64)):
        with T.Kernel(1, threads=32):
            x, y = T.alloc_shared((COLUMNS,), U64), T.alloc_fragment((5, COLUMNS), U64)
            T.copy(X, x)
            for i in T.Parallel(COLUMNS):
                y[0, i] = x[i] << T.cast(amount, U64)
                y[1, i] = x[i] >> T.cast(amount, U64)
                y[2, i] = x[i] // T.cast(divisor, U64)
                y[3, i] = x[i] % T.cast(divisor, U64)
                y[4, i] = ~x[i]
            T.copy(y, Y)

    x, n = values(COLUMNS), np.uint64(amount)
    out = strict.run(tilelang.compile(main, target=target, pass_configs=strict.SERIAL), {"X": x, "Y": np.zeros((5, COLUMNS), np.uint64)})[
        "Y"
    ]
    np.testing.assert_array_equal(out, [x << n, x >> n, x // np.uint64(divisor), x % np.uint64(divisor), ~x])


@pytest.mark.parametrize("target", ["a2", "a5"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "bool"])
@pytest.mark.one_in(6)
def test_conversions(target, dtype, no_scalar_loops):
    """Narrower numbers have the low bits; signed ones go round."""

    @T.prim_func
    def main(X: T.Tensor((COLUMNS,), U64), S: T.Tensor((COLUMNS,), dtype), Y: T.Tensor((COLUMNS,), dtype), Z: T.Tensor((COLUMNS,), U64)):
        with T.Kernel(1, threads=32):
            x, s = T.alloc_shared((COLUMNS,), U64), T.alloc_shared((COLUMNS,), dtype)
            y, z = T.alloc_fragment((COLUMNS,), dtype), T.alloc_fragment((COLUMNS,), U64)
            T.copy(X, x)
            T.copy(S, s)
            for i in T.Parallel(COLUMNS):
                y[i] = T.cast(x[i], dtype)
            for i in T.Parallel(COLUMNS):
                z[i] = T.cast(s[i], U64) * T.cast(3, U64)
            T.copy(y, Y)
            T.copy(z, Z)

    x = values(COLUMNS)
    s = (values(COLUMNS) % np.uint64(2)).astype(bool) if dtype == "bool" else values(COLUMNS).astype(dtype)
    arrays = {"X": x, "S": s, "Y": np.zeros(COLUMNS, dtype), "Z": np.zeros(COLUMNS, np.uint64)}
    out = strict.run(tilelang.compile(main, target=target, pass_configs=strict.SERIAL), arrays)
    np.testing.assert_array_equal(out["Y"], x.astype(dtype))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(out["Z"], s.astype(np.uint64) * np.uint64(3))


@pytest.mark.parametrize("target", ["a2", "a5"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_floats_take_the_scalar_unit(target, dtype):
    @T.prim_func
    def main(X: T.Tensor((16,), U64), Y: T.Tensor((16,), "float32"), Z: T.Tensor((16,), U64)):
        with T.Kernel(1, threads=32):
            x, y, z = T.alloc_shared((16,), U64), T.alloc_fragment((16,), "float32"), T.alloc_fragment((16,), U64)
            T.copy(X, x)
            for i in T.Parallel(16):
                y[i] = T.cast(x[i], "float32")
            for i in T.Parallel(16):
                z[i] = T.cast(T.cast(i, dtype) * 2.5, U64)
            T.copy(y, Y)
            T.copy(z, Z)

    x = values(16)
    out = strict.run(
        tilelang.compile(main, target=target, pass_configs=strict.SERIAL),
        {"X": x, "Y": np.zeros(16, np.float32), "Z": np.zeros(16, np.uint64)},
    )
    np.testing.assert_array_equal(out["Y"], x.astype(np.float32))
    np.testing.assert_array_equal(out["Z"], (np.arange(16) * 2.5).astype(np.uint64))


@pytest.mark.parametrize("target", ["a2", "a5"])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("kind", ["sum", "max", "min", "bitand", "bitor", "bitxor"])
@pytest.mark.parametrize("clear", [True, False])
@pytest.mark.one_in(12)
def test_reductions(target, dim, kind, clear, no_scalar_loops):
    size = COLUMNS if dim == 0 else ROWS

    @T.prim_func
    def main(X: T.Tensor((ROWS, COLUMNS), U64), Y: T.Tensor((size,), U64)):
        with T.Kernel(1, threads=32):
            x, y = T.alloc_shared((ROWS, COLUMNS), U64), T.alloc_fragment((size,), U64)
            T.copy(X, x)
            T.copy(Y, y)
            getattr(T, f"reduce_{kind}")(x, y, dim=dim, clear=clear)
            T.copy(y, Y)

    x, y = values(ROWS, COLUMNS), values(size)
    out = strict.run(tilelang.compile(main, target=target, pass_configs=strict.SERIAL), {"X": x, "Y": y})["Y"]
    ufunc = {
        "sum": np.add,
        "max": np.maximum,
        "min": np.minimum,
        "bitand": np.bitwise_and,
        "bitor": np.bitwise_or,
        "bitxor": np.bitwise_xor,
    }[kind]
    with np.errstate(over="ignore"):
        expected = ufunc.reduce(x, axis=dim)
        np.testing.assert_array_equal(out, expected if clear else ufunc(expected, y))


@pytest.mark.parametrize("target", ["a2", "a5"])
def test_variables_masks_gathers_and_updates(target, no_scalar_loops):
    """A random generator's step, kept in a variable of each lane; lanes left out by a condition; elements chosen by data; sums of all lanes."""

    @T.prim_func
    def main(X: T.Tensor((COLUMNS,), U64), I: T.Tensor((COLUMNS,), "int32"), Y: T.Tensor((3, COLUMNS), U64), S: T.Tensor((1,), U64)):
        with T.Kernel(1, threads=32):
            x, index = T.alloc_shared((COLUMNS,), U64), T.alloc_shared((COLUMNS,), "int32")
            y, s = T.alloc_fragment((3, COLUMNS), U64), T.alloc_fragment((1,), U64)
            T.copy(X, x)
            T.copy(I, index)
            T.clear(y)
            T.clear(s)
            for i in T.Parallel(COLUMNS):
                z = T.alloc_var(U64)
                z = x[i] + T.cast(0x9E3779B97F4A7C15, U64)
                for _ in T.serial(2):
                    z = (z ^ (z >> T.cast(30, U64))) * T.cast(0xBF58476D1CE4E5B9, U64)
                y[0, i] = z ^ (z >> T.cast(31, U64))
            for i in T.Parallel(COLUMNS):
                if x[i] > T.cast(2**63, U64):
                    y[1, i] = x[i]
            for i in T.Parallel(COLUMNS):
                y[2, i] = x[index[i]]
            for i in T.Parallel(COLUMNS):
                s[0] += x[i]
            T.copy(y, Y)
            T.copy(s, S)

    x, index = values(COLUMNS), RNG.integers(0, COLUMNS, COLUMNS).astype(np.int32)
    arrays = {"X": x, "I": index, "Y": np.zeros((3, COLUMNS), np.uint64), "S": np.zeros(1, np.uint64)}
    out = strict.run(tilelang.compile(main, target=target, pass_configs=strict.SERIAL), arrays)
    with np.errstate(over="ignore"):
        z = x + np.uint64(0x9E3779B97F4A7C15)
        for _ in range(2):
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        np.testing.assert_array_equal(out["Y"], [z ^ (z >> np.uint64(31)), np.where(x > np.uint64(2**63), x, 0), x[index]])
        assert out["S"][0] == x.sum()


MIXED = ["int8", "uint16", "int32", "uint32", "int64", "float32", "bfloat16", "bool"]


@pytest.mark.parametrize("target", ["a2", "a5"])
@pytest.mark.parametrize("other", MIXED)
@pytest.mark.parametrize("way", ["from", "to"])
@pytest.mark.one_in(24)
def test_other_dtypes(target, other, way):
    """Copies, reductions and updates from uint64 to other dtypes and back mean what the interpreter of the source says, on whatever unit."""
    src, dst = (U64, other) if way == "from" else (other, U64)

    @T.prim_func
    def main(
        X: T.Tensor((ROWS, COLUMNS), src), Y: T.Tensor((ROWS, COLUMNS), dst), R: T.Tensor((4, ROWS), dst), S: T.Tensor((COLUMNS,), dst)
    ):
        with T.Kernel(1, threads=32):
            x, y = T.alloc_shared((ROWS, COLUMNS), src), T.alloc_fragment((ROWS, COLUMNS), dst)
            a, b, c, d = (T.alloc_fragment((ROWS,), dst) for _ in range(4))
            s = T.alloc_fragment((COLUMNS,), dst)
            T.copy(X, x)
            T.copy(x, y)
            T.copy(y, Y)
            T.clear(c)
            T.clear(d)
            T.clear(s)
            T.reduce_max(x, a, dim=1)
            T.reduce_min(x, b, dim=1)
            if other not in ("bool", "bfloat16", "float32"):
                T.reduce_sum(x, c, dim=1, clear=False)
                T.reduce_max(x, d, dim=1, clear=False)
                for i, j in T.Parallel(ROWS, COLUMNS):
                    s[j] += T.cast(x[i, j], dst)
            T.copy(a, R[0, 0])
            T.copy(b, R[1, 0])
            T.copy(c, R[2, 0])
            T.copy(d, R[3, 0])
            T.copy(s, S)

    def given(dtype):
        if dtype == U64:
            return values(ROWS, COLUMNS)
        bits = values(ROWS, COLUMNS)
        if dtype in ("float32", "bfloat16"):
            return RNG.integers(0, 200, (ROWS, COLUMNS)).astype(np.float32).astype(np_dtype(dtype))
        return bits.astype(bool) if dtype == "bool" else bits.astype(dtype)

    kind = np_dtype(dst)
    arrays = {"X": given(src), "Y": np.zeros((ROWS, COLUMNS), kind), "R": np.zeros((4, ROWS), kind), "S": np.zeros(COLUMNS, kind)}
    out = strict.run(tilelang.compile(main, target=target, pass_configs=strict.SERIAL), arrays, text=True)
    if src != U64 and dst == U64 and other not in ("float32", "bfloat16"):
        np.testing.assert_array_equal(out["Y"], arrays["X"].astype(np.uint64))


def test_the_interpreter_chooses_between_numbers():
    """2^64 - 1 and 3 are no float64 together."""

    @T.prim_func
    def main(X: T.Tensor((8,), U64), Y: T.Tensor((8,), U64)):
        with T.Kernel(1, threads=32):
            x, y = T.alloc_shared((8,), U64), T.alloc_fragment((8,), U64)
            T.copy(X, x)
            for i in T.Parallel(8):
                y[i] = T.if_then_else(x[0] > x[i], x[0], T.cast(3, U64)) ^ x[i]
            T.copy(y, Y)

    x = np.array([2**64 - 1, 5, 2**63 + 1, 2**64 - 1, 0, 7, 2**53 + 1, 2**64 - 2], np.uint64)
    out = strict.run(tilelang.compile(main), {"X": x, "Y": np.zeros_like(x)})["Y"]
    np.testing.assert_array_equal(out, np.where(x[0] > x, x[0], np.uint64(3)) ^ x)
