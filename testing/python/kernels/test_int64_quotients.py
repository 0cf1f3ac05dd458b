"""Division of int64 elements: on lanes where the chip has them (3510), element by element elsewhere, with the same values."""

import re

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

LOW, HIGH = -(2**63), 2**63 - 1
EDGES = [
    0,
    1,
    -1,
    2,
    -2,
    3,
    -3,
    7,
    -7,
    10**9,
    -(10**9),
    2**31,
    -(2**31),
    2**32,
    2**32 - 1,
    -(2**32),
    2**53 + 1,
    HIGH,
    HIGH - 1,
    LOW,
    LOW + 1,
]


def quotient_and_rest(a, b, floor):
    """By Python's integers, wrapped."""
    q, r = [], []
    for x, y in zip(map(int, a), map(int, b)):
        d, m = divmod(x, y)
        if not floor and m and (x < 0) != (y < 0):
            d, m = d + 1, m - y
        q.append((d - LOW) % 2**64 + LOW)
        r.append(m)
    return np.array(q, np.int64), np.array(r, np.int64)


def kernel(n, quotient, rest, divisor=None):
    @T.prim_func
    def k(A: T.Tensor((n,), "int64"), B: T.Tensor((n,), "int64"), Q: T.Tensor((n,), "int64"), R: T.Tensor((n,), "int64")):
        with T.Kernel(1):
            a, b = T.alloc_shared((n,), "int64"), T.alloc_shared((n,), "int64")
            q, r = T.alloc_shared((n,), "int64"), T.alloc_shared((n,), "int64")
            T.copy(A, a)
            T.copy(B, b)
            for i in T.Parallel(n):
                q[i] = quotient(a[i], b[i] if divisor is None else divisor)
            for i in T.Parallel(n):
                r[i] = rest(a[i], b[i] if divisor is None else divisor)
            T.copy(q, Q)
            T.copy(r, R)

    return k


FLOOR = (lambda a, b: a // b, lambda a, b: a % b)
TRUNC = (lambda a, b: T.truncdiv(a, b), lambda a, b: T.truncmod(a, b))


def run(k, target, a, b):
    compiled = tilelang.compile(k, target=target)
    zero = np.zeros(len(a), np.int64)
    return compiled.get_kernel_source(), strict.run(compiled, {"A": a, "B": b, "Q": zero, "R": zero.copy()})


@pytest.mark.parametrize("target", ["a2", "a5"])
@pytest.mark.parametrize("floor", [True, False])
def test_quotients_and_remainders(floor, target):
    pairs = [(x, y) for x in EDGES for y in EDGES if y]
    rng = np.random.default_rng(3)
    extra = 512 - len(pairs) if len(pairs) < 512 else 64
    a = np.array([p[0] for p in pairs] + list(rng.integers(LOW, HIGH, extra)), np.int64)
    b = np.array(
        [p[1] for p in pairs] + [int(x) >> int(s) or 1 for x, s in zip(rng.integers(LOW, HIGH, extra), rng.integers(0, 62, extra))],
        np.int64,
    )
    text, out = run(kernel(len(a), *(FLOOR if floor else TRUNC)), target, a, b)
    want = quotient_and_rest(a, b, floor)
    np.testing.assert_array_equal(out["Q"], want[0])
    np.testing.assert_array_equal(out["R"], want[1])
    assert bool(re.search(r"AscendC::Div\(", text)) == (target == "a5")


@pytest.mark.parametrize("divisor", [7, -7, 10**10, HIGH, LOW, -1, 1, 16, -16])
@pytest.mark.parametrize("floor", [True, False])
@pytest.mark.one_in(6)
def test_divisors_that_are_constants(floor, divisor):
    a = np.array(EDGES * 2 + [5, 6, 8, 9, 15, 17], np.int64)
    _, out = run(kernel(len(a), *(FLOOR if floor else TRUNC), T.int64(divisor) if abs(divisor) > 2**31 else divisor), "a5", a, a.copy())
    want = quotient_and_rest(a, [divisor] * len(a), floor)
    np.testing.assert_array_equal(out["Q"], want[0])
    np.testing.assert_array_equal(out["R"], want[1])


@pytest.mark.parametrize("floor", [True, False])
def test_a_divisor_of_zero_leaves_the_dividend(floor):
    a = np.array(EDGES, np.int64)
    b = np.zeros_like(a)
    compiled = tilelang.compile(kernel(len(a), *(FLOOR if floor else TRUNC)), target="a5")
    q, r = np.zeros_like(a), np.zeros_like(a)
    compiled(a, b, q, r)
    np.testing.assert_array_equal(r, a)


def test_rows_are_divided_by_columns_and_numbers_of_run_time():
    @T.prim_func
    def k(
        A: T.Tensor((8, 16), "int64"), B: T.Tensor((8,), "int64"), n: T.int64, Q: T.Tensor((8, 16), "int64"), R: T.Tensor((8, 16), "int64")
    ):
        with T.Kernel(1):
            a, b = T.alloc_shared((8, 16), "int64"), T.alloc_shared((8,), "int64")
            q, r = T.alloc_shared((8, 16), "int64"), T.alloc_shared((8, 16), "int64")
            T.copy(A, a)
            T.copy(B, b)
            for i, j in T.Parallel(8, 16):
                q[i, j] = a[i, j] // b[i]
                r[i, j] = (a[i, j] + 1) % n
            T.copy(q, Q)
            T.copy(r, R)

    rng = np.random.default_rng(4)
    a, b = rng.integers(LOW, HIGH, (8, 16)), rng.integers(1, 2**40, 8) * rng.choice([-1, 1], 8)
    arrays = {"A": a, "B": b, "Q": np.zeros_like(a), "R": np.zeros_like(a)}
    out = strict.run(tilelang.compile(k, target="a5"), arrays, {"n": -12345678901})
    np.testing.assert_array_equal(out["Q"], a // b[:, None])
    np.testing.assert_array_equal(out["R"], (a + 1) % -12345678901)


BROADCAST = {
    "a row by its number": lambda a, r, c, i, j: a[i, j] // r[i],
    "a number of a row by the row": lambda a, r, c, i, j: T.truncmod(r[i], a[i, j]),
    "rows by columns": lambda a, r, c, i, j: T.truncdiv(r[i], c[j]),
    "columns by rows": lambda a, r, c, i, j: c[j] % r[i],
}


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("name", BROADCAST)
@pytest.mark.one_in(2)
def test_one_operand_varies_along_fewer_axes(name, rows, caplog):
    quotient = BROADCAST[name]

    @T.prim_func
    def k(A: T.Tensor((rows, 16), "int64"), R: T.Tensor((rows,), "int64"), C: T.Tensor((16,), "int64"), Q: T.Tensor((rows, 16), "int64")):
        with T.Kernel(1):
            a, r = T.alloc_shared((rows, 16), "int64"), T.alloc_shared((rows,), "int64")
            c, q = T.alloc_shared((16,), "int64"), T.alloc_fragment((rows, 16), "int64")
            T.copy(A, a)
            T.copy(R, r)
            T.copy(C, c)
            for i, j in T.Parallel(rows, 16):
                q[i, j] = quotient(a, r, c, i, j)
            T.copy(q, Q)

    rng = np.random.default_rng(5)
    a, r, c = (rng.integers(1, 2**40, s) * rng.choice([-1, 1], s) >> rng.integers(0, 39, s) | 1 for s in ((rows, 16), rows, 16))
    row = r[:, None]
    want = {
        "a row by its number": a // row,
        "a number of a row by the row": np.fmod(row, a),
        "rows by columns": np.sign(row) * np.sign(c) * (abs(row) // abs(c)),
        "columns by rows": c % row,
    }
    compiled = tilelang.compile(k, target="a5")
    assert "scalar loops" not in caplog.text and "AscendC::Div(" in compiled.get_kernel_source()
    out = strict.run(compiled, {"A": a, "R": r, "C": c, "Q": np.zeros_like(a)})
    np.testing.assert_array_equal(out["Q"], want[name])


@pytest.mark.parametrize("target", ["a2", "a5"])
def test_sums_and_products_that_are_divided_wrap_in_vector_code(target):
    @T.prim_func
    def k(
        A: T.Tensor((4, 40), "int64"), B: T.Tensor((40,), "int32"), n: T.int64, Y: T.Tensor((4, 40), "int64"), Z: T.Tensor((4, 40), "int64")
    ):
        with T.Kernel(1):
            a, b = T.alloc_shared((4, 40), "int64"), T.alloc_shared((40,), "int32")
            y, z = T.alloc_fragment((4, 40), "int64"), T.alloc_fragment((4, 40), "int64")
            T.copy(A, a)
            T.copy(B, b)
            for i, j in T.Parallel(4, 40):
                y[i, j] = (a[i, j] + T.int64(HIGH)) // 8
                z[i, j] = (a[i, j] * n - b[j]) % 1024
            T.copy(y, Y)
            T.copy(z, Z)

    a = np.array((EDGES * 160)[:160], np.int64).reshape(4, 40)
    b = np.random.default_rng(6).integers(-(2**31), 2**31, 40).astype(np.int32)
    compiled = tilelang.compile(k, target=target)
    assert "SetValue(" not in compiled.get_kernel_source()
    out = strict.run(compiled, {"A": a, "B": b, "Y": np.zeros_like(a), "Z": np.zeros_like(a)}, {"n": -12345678901})
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(out["Y"], (a + np.int64(HIGH)) // 8)
        np.testing.assert_array_equal(out["Z"], (a * np.int64(-12345678901) - b) % 1024)
