"""Literals next to narrow floats, and whole quotients of narrow integers: all ways of writing a loop give the number that was written."""

import ml_dtypes
import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend import interpret
from tilelang_ascend.frontend.operators import number
from tilelang_ascend.isa.stream import round_to
from tilelang_ascend.sim import reference_numbers

N = 32
FLOATS = {
    "bfloat16": (257, [1.0, 3.0, -7.0, 256.0]),
    "float8_e4m3fn": (17, [1.0, 3.0, -7.0, 16.0]),
    "float8_e5m2": (300, [1.0, 3.0, -7.0, 320.0]),
    "float8_e8m0fnu": (0, [1.0, 2.0, 2.0**-127, 16.0]),
    "float4_e2m1fn": (5, [1.0, 3.0, -0.5, 4.0]),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", FLOATS)
def test_literals_a_narrow_float_does_not_hold_stay_what_they_are(dtype):
    literal, numbers = FLOATS[dtype]

    @T.prim_func
    def k(X: T.Tensor((N,), dtype), Y: T.Tensor((2, 5, N), "float32")):
        with T.Kernel(1):
            x, y = T.alloc_shared((N,), dtype), T.alloc_shared((2, 5, N), "float32")
            T.copy(X, x)
            for i in T.Parallel(N):
                y[0, 0, i] = T.if_then_else(x[i] >= literal, 1, 0)
                y[0, 1, i] = T.if_then_else(x[i] == literal, 1, 0)
                y[0, 2, i] = T.max(x[i], literal)
                y[0, 3, i] = T.if_then_else(x[i] > 1, x[i], literal)
                y[0, 4, i] = T.if_then_else(T.cast(x[i], "bool"), 1, 0)
            for i in T.serial(N):
                y[1, 0, i] = T.if_then_else(x[i] >= literal, 1, 0)
                y[1, 1, i] = T.if_then_else(x[i] == literal, 1, 0)
                y[1, 2, i] = T.max(x[i], literal)
                y[1, 3, i] = T.if_then_else(x[i] > 1, x[i], literal)
                y[1, 4, i] = T.if_then_else(T.cast(x[i], "bool"), 1, 0)
            T.copy(y, Y)

    held = np.resize(np.float32(numbers), N).astype(getattr(ml_dtypes, dtype))
    given = held
    if dtype == "float4_e2m1fn":
        codes = held.view(np.uint8)
        given = codes[::2] | codes[1::2] << 4
    arrays = {"X": given, "Y": np.zeros((2, 5, N), np.float32)}
    python = {name: a.copy() for name, a in arrays.items()}
    interpret.run(k, *python.values())
    x = held.astype(np.float32)
    want = np.stack([x >= literal, x == literal, np.maximum(x, literal), np.where(x > 1, x, literal), x != 0]).astype(np.float32)
    for found in (strict.run(tilelang.compile(k, target="a2"), arrays, text=False), python):
        np.testing.assert_array_equal(found["Y"], np.stack([want, want]))


@pytest.mark.parametrize("dtype", ["int8", "int16", "int4"])
def test_truncated_quotients_of_narrow_integers_are_whole(dtype):
    """The most negative number has a negative in int32."""

    @T.prim_func
    def k(X: T.Tensor((N,), dtype), Y: T.Tensor((2, 3, N), "int32")):
        with T.Kernel(1):
            x, y = T.alloc_shared((N,), dtype), T.alloc_shared((2, 3, N), "int32")
            T.copy(X, x)
            for i in T.Parallel(N):
                y[0, 0, i] = T.truncdiv(x[i], -1)
                y[0, 1, i] = T.truncmod(x[i], 3)
                y[0, 2, i] = T.fmod(x[i], -5)
            for i in T.serial(N):
                y[1, 0, i] = T.truncdiv(x[i], -1)
                y[1, 1, i] = T.truncmod(x[i], 3)
                y[1, 2, i] = T.fmod(x[i], -5)
            T.copy(y, Y)

    if dtype == "int4":
        codes = np.resize(np.arange(16, dtype=np.uint8), N)
        given, x = codes[::2] | codes[1::2] << 4, np.where(codes > 7, codes.astype(int) - 16, codes)
    else:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        given = np.resize(np.array([low, low + 1, high, -1, 0, 7], dtype), N)
        x = given.astype(int)
    arrays = {"X": given, "Y": np.zeros((2, 3, N), np.int32)}
    python = {name: a.copy() for name, a in arrays.items()}
    interpret.run(k, *python.values())
    want = np.stack([-x, np.fmod(x, 3), np.fmod(x, -5)])
    for found in (strict.run(tilelang.compile(k, target="a2"), arrays, text=False), python):
        np.testing.assert_array_equal(found["Y"], np.stack([want, want]))


def test_constants_are_rounded_as_numbers_are():
    """float8_e8m0fnu as torch does, NaN of float4_e2m1fn to the largest number."""
    torch = pytest.importorskip("torch")
    for x in (0.0, 3.0, 5.0, 17.0, 1e-45, 2.0**-127 * 1.5, 2.0**-126 * 1.5, 1.5 * 2.0**127, float("inf"), float("nan")):
        want = torch.tensor(x).to(torch.float8_e8m0fnu).float().item()
        np.testing.assert_equal(round_to(x, "float8_e8m0fnu"), want)
    assert number(float("nan"), "float4_e2m1fn").value == 6.0


@pytest.mark.parametrize("dtype", ["uint64", "int64"])
def test_the_interpreter_shifts_by_any_amount(dtype):
    kind = np.iinfo(dtype)
    for a in (kind.max, kind.min, kind.max // 2 + 1, 5):
        for n in (0, 1, 63, 64, kind.max, *((-1,) if kind.min else ())):
            want = a >> n if 0 <= n < 64 else -(a < 0)
            assert reference_numbers._shift_right(a, n) == want
            assert reference_numbers._shift_right(np.full(2, a, dtype), np.full(2, n, dtype)).tolist() == [want] * 2
