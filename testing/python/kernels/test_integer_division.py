"""Division by a zero of run time, the one quotient that overflows, and shifts beyond the width."""

import numpy as np
import pytest
import torch
from strict import run

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.errors import SimulationError

N = 32


def serial(op, dtype):
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(1):
            for i in T.serial(N):
                C[i] = op(A[i], B[i])

    return main


def name(op, dtype):
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(1):
            x = op(A[0], B[0])
            for i in T.Parallel(N):
                C[i] = x

    return main


def condition(op, dtype):
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(1):
            for i in T.Parallel(N):
                C[i] = 0
            if op(A[0], B[0]) > 3:
                C[0] = 1

    return main


def index(op, dtype):
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(1):
            for i in T.Parallel(N):
                C[i] = 0
            C[op(A[0], B[0])] = 1

    return main


def extent(op, dtype):
    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32"), C: T.Tensor((N,), dtype)):
        with T.Kernel(1):
            for i in T.Parallel(N):
                C[i] = 0
            for i in T.serial(op(A[0], B[0])):
                C[i] = 1

    return main


def lanes(op, dtype):
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(1):
            for i in T.Parallel(N):
                C[i] = op(A[i], B[i])

    return main


DIVISIONS = {"//": lambda a, b: a // b, "%": lambda a, b: a % b, "truncdiv": T.truncdiv, "truncmod": T.truncmod}


def tensors(dtype, a, b):
    kind = getattr(torch, dtype)
    return torch.full((N,), a, dtype=kind), torch.full((N,), b, dtype=kind)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64"])
@pytest.mark.parametrize(
    "build, op",
    [
        (serial, "//"),
        (serial, "%"),
        (serial, "truncdiv"),
        (serial, "truncmod"),
        (name, "//"),
        (condition, "%"),
        (index, "//"),
        (extent, "//"),
    ],
)
@pytest.mark.one_in(2)
def test_a_zero_is_told_with_its_line(build, op, dtype):
    if build is extent and dtype != "int32":
        pytest.skip("extents are int32 here")
    kernel = tilelang.compile(build(DIVISIONS[op], dtype), out_idx=[-1])
    with pytest.raises(SimulationError, match="divided by zero") as caught:
        kernel(*tensors(dtype, 7, 0))
    assert caught.value.location.file == __file__ and caught.value.location.line > 1


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("build", [serial, lanes])
def test_a_guard_is_enough(build, dtype):
    kernel = tilelang.compile(build(lambda a, b: T.if_then_else(b != 0, a // b, -1), dtype), out_idx=[-1])
    a, b = tensors(dtype, 7, 2)
    b[::3] = 0
    assert torch.equal(kernel(a, b), torch.where(b == 0, -1, 3).to(a.dtype))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_the_most_negative_number_by_minus_one(dtype):
    least = np.iinfo(dtype).min
    for op, expected in zip(DIVISIONS.values(), (least, 0, least, 0)):
        out = tilelang.compile(serial(op, dtype), out_idx=[-1])(*tensors(dtype, least, -1))
        assert out.tolist() == [expected] * N


@pytest.mark.parametrize("build", [serial, lanes])
@pytest.mark.parametrize("dtype", ["int32", "uint32", "int8", "int64"])
@pytest.mark.one_in(6)
def test_amounts_beyond_the_width(build, dtype):
    """On the simulator and in the emitted text."""
    kind = np.dtype(dtype)
    amounts = np.array([0, 1, 7, 8, 31, 32, 33, 63, 64, 100, -1, -32, -33]).astype(kind)
    b = np.resize(amounts, N)
    a = np.where(np.arange(N) % 2, 5, -5).astype(kind)
    for op, past in ((lambda x, y: x << y, 0), (lambda x, y: x >> y, -1)):
        width = 8 * kind.itemsize if past or kind.itemsize > 2 else 32
        wide = [0 if past == 0 or x >= 0 else -1 for x in a.tolist()]
        shifted = [x >> y if past else x << y for x, y in zip(a.tolist(), (b.astype(object) % 64).tolist())]
        expected = [s if 0 <= y < width else w for s, y, w in zip(shifted, b.tolist(), wide)]
        out = run(tilelang.compile(build(op, dtype)), {"A": a, "B": b, "C": np.zeros(N, kind)})["C"]
        low = np.array([e % (1 << 8 * kind.itemsize) for e in expected], dtype=object)
        np.testing.assert_array_equal(out, low.astype(f"u{kind.itemsize}").view(kind))


@pytest.mark.parametrize("divisor", [(1 << 31) + 1, 3000000000, (1 << 32) - 1])
def test_unsigned_constants_beyond_int32(divisor):
    """They go in once or not at all."""

    @T.prim_func
    def main(A: T.Tensor((N,), "uint32"), C: T.Tensor((2, N), "uint32")):
        with T.Kernel(1):
            for i in T.Parallel(N):
                C[0, i] = A[i] // T.uint32(divisor)
                C[1, i] = A[i] % T.uint32(divisor)

    near = [0, 1, divisor - 1, divisor, (divisor + 1) % (1 << 32), (1 << 32) - 1, (1 << 31) - 1, 1 << 31]
    a = np.array(near * 4, np.uint32)
    out = run(tilelang.compile(main), {"A": a, "C": np.zeros((2, N), np.uint32)}, text=False)["C"]
    np.testing.assert_array_equal(out, np.stack([a // np.uint32(divisor), a % np.uint32(divisor)]))


def test_constants_that_are_shifted_beyond_the_sign():
    @T.prim_func
    def main(C: T.Tensor((N,), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(N):
                C[i] = T.int32(3) << 31

    out = run(tilelang.compile(main), {"C": np.zeros(N, np.int32)}, text=False)["C"]
    np.testing.assert_array_equal(out, np.full(N, -(2**31), np.int32))


@pytest.mark.parametrize("nest", [False, True])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_sums_of_data_that_are_not_negative_may_wrap(dtype, nest):
    """Then their quotients are rounded down, as those of other negative numbers."""
    number, ends = getattr(T, dtype), np.iinfo(dtype)

    @T.prim_func
    def main(X: T.Tensor((64,), dtype), Z: T.Tensor((64,), "uint8"), Y: T.Tensor((4, 64), dtype)):
        with T.Kernel(1):
            for i in T.Parallel(64) if nest else T.serial(64):
                x, z = T.max(X[i], number(0)), T.cast(Z[i], dtype)
                y = x + x
                Y[0, i] = y // number(3)
                Y[1, i] = (x + x + number(7)) % number(7)
                Y[2, i] = (x + z * number(1000)) // number(16)
                Y[3, i] = (x * z + number(5)) // number(8)

    rng = np.random.default_rng(0)
    given, z = rng.integers(-99, ends.max, 64, dtype, endpoint=True), rng.integers(0, 256, 64).astype(np.uint8)
    given[:3], kind = (ends.max, ends.max // 2 + 1, 3), given.dtype.type
    x, wide = np.maximum(given, 0), z.astype(dtype)
    with np.errstate(over="ignore"):
        want = (x + x) // kind(3), (x + x + kind(7)) % kind(7), (x + wide * kind(1000)) // kind(16), (x * wide + kind(5)) // kind(8)
    out = run(tilelang.compile(main), {"X": given, "Z": z, "Y": np.zeros((4, 64), dtype)})["Y"]
    np.testing.assert_array_equal(out, np.stack(want))


def test_sums_of_what_variables_hold_may_wrap():
    """A variable that was given an element holds data, too."""

    @T.prim_func
    def main(X: T.Tensor((64,), "int32"), Y: T.Tensor((3, 64), "int32")):
        with T.Kernel(1):
            v = T.alloc_var("int32")
            for i in T.serial(64):
                v = X[i]
                w = T.max(v, 0)
                Y[0, i] = (w + w) // 3
                Y[1, i] = (T.max(v, 0) + T.max(v, 0)) // 3
                Y[2, i] = (w + w) % 7

    x = np.random.default_rng(0).integers(-99, 2**31, 64).astype(np.int32)
    x[:3] = 2**31 - 1, 2**30, 3
    with np.errstate(over="ignore"):
        twice = np.maximum(x, 0) * np.int32(2)
    out = run(tilelang.compile(main), {"X": x, "Y": np.zeros((3, 64), np.int32)})["Y"]
    np.testing.assert_array_equal(out, np.stack([twice // 3, twice // 3, twice % 7]))


@pytest.mark.parametrize("target", ["a2", "a5"])
def test_remainders_by_numbers_of_run_time_may_be_negative(target):
    """A name of `x % d` was taken for a number from 0 to d, and conditions on it were decided so."""

    @T.prim_func
    def main(X: T.Tensor((16,), "int32"), D: T.Tensor((16,), "int32"), Y: T.Tensor((4, 16), "int32"), m: T.int32):
        with T.Kernel(1, threads=32):
            for i in T.serial(16):
                r, d = X[i] % D[i], i % m
                if r < 0:
                    Y[0, i] = 1
                if r != 0 and r > D[i]:
                    Y[1, i] = r
                Y[2, i] = T.if_then_else(d < 0, 3, 4)
                if (i + 1) % m <= 0:
                    Y[3, i] = 1

    x, d, i = np.arange(16, dtype=np.int32) * 7 - 50, np.array([3, -3, 5, -7, 2, -1, -16, 9] * 2, np.int32), np.arange(16)
    kernel, r = tilelang.compile(main, target=target), x % d
    for m in (-5, 5):
        out = run(kernel, {"X": x, "D": d, "Y": np.zeros((4, 16), np.int32)}, {"m": m}, text=m < 0)["Y"]
        rows = [r < 0, np.where((r != 0) & (r > d), r, 0), np.where(i % m < 0, 3, 4), (i + 1) % m <= 0]
        np.testing.assert_array_equal(out, np.stack(rows))
