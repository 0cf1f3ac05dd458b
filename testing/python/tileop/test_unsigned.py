"""uint16 and uint32 arithmetic, and shifts by a different amount in every lane."""

import numpy as np
import pytest
from harness import Lab, assign, parallel

from tilelang_ascend.ir import imm, tirx

RNG = np.random.default_rng(4)
N = 70
UNSIGNED = ["uint16", "uint32"]
BINARY = {
    "add": (tirx.Add, np.add), "sub": (tirx.Sub, np.subtract), "mul": (tirx.Mul, np.multiply), "max": (tirx.Max, np.maximum),
    "min": (tirx.Min, np.minimum), "and": (tirx.bitwise_and, np.bitwise_and), "or": (tirx.bitwise_or, np.bitwise_or),
    "xor": (tirx.bitwise_xor, np.bitwise_xor),
}  # fmt: skip
COMPARE = {"lt": (tirx.LT, np.less), "le": (tirx.LE, np.less_equal), "gt": (tirx.GT, np.greater), "ge": (tirx.GE, np.greater_equal),
           "eq": (tirx.EQ, np.equal), "ne": (tirx.NE, np.not_equal)}  # fmt: skip


def integers(dtype):
    info = np.iinfo(dtype)
    edges = [info.min, info.max, info.max // 2, info.max // 2 + 1]
    return np.concatenate([np.array(edges, dtype), RNG.integers(info.min, info.max, N - 4, dtype=dtype, endpoint=True)])


def lab_of(dtype, out):
    return Lab(x=(dtype, integers(dtype)), z=(dtype, RNG.permutation(integers(dtype))), y=(out, np.zeros(N)))


@pytest.mark.parametrize("dtype", UNSIGNED)
@pytest.mark.parametrize("name", list(BINARY))
def test_binary(dtype, name):
    build, numpy = BINARY[name]
    lab = lab_of(dtype, dtype)
    got = lab.run(parallel((N,), lambda i: assign(lab.y, build(lab.x[i], lab.z[i]), i)))
    np.testing.assert_array_equal(got["y"], numpy(got["x"], got["z"]))


@pytest.mark.parametrize("dtype", UNSIGNED)
@pytest.mark.parametrize("name", list(COMPARE))
def test_compare(dtype, name):
    build, numpy = COMPARE[name]
    lab = lab_of(dtype, "int32")
    one, zero = imm(1), imm(0)
    got = lab.run(parallel((N,), lambda i: assign(lab.y, tirx.Select(build(lab.x[i], lab.z[i]), one, zero), i)))
    np.testing.assert_array_equal(got["y"], numpy(got["x"], got["z"]))


@pytest.mark.parametrize("dtype", UNSIGNED)
@pytest.mark.parametrize("constant", [1, 3, 40000])
def test_constants_with_the_top_bit(dtype, constant):
    value = constant if dtype == "uint16" else constant * 65537 % 2**32
    lab = lab_of(dtype, dtype)
    number = tirx.const(value, dtype)
    got = lab.run(parallel((N,), lambda i: assign(lab.y, tirx.Max(lab.x[i], number) + number, i)))
    np.testing.assert_array_equal(got["y"], np.maximum(got["x"], lab.arrays["x"].dtype.type(value)) + lab.arrays["x"].dtype.type(value))


@pytest.mark.parametrize("source, target", [(d, t) for d in UNSIGNED for t in ("float32", "int32", "int16", "int8", "uint8")]
                         + [("uint16", "uint32"), ("uint32", "uint16"), ("int32", "uint32"), ("int32", "uint16"), ("int8", "uint32")])  # fmt: skip
def test_conversions(source, target):
    lab = lab_of(source, target)
    got = lab.run(parallel((N,), lambda i: assign(lab.y, lab.x[i], i)))
    np.testing.assert_array_equal(got["y"], got["x"].astype(target))


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_conversion_from_float(dtype):
    x = np.array([0, 0.9, 1.5, 30000.7, 40000, 65535, *((2.0**31, 2.0**31 - 128, 4e9) if dtype == "uint32" else ())], np.float32)
    lab = Lab(x=("float32", x), y=(dtype, np.zeros(len(x))))
    got = lab.run(parallel((len(x),), lambda i: assign(lab.y, lab.x[i], i)))
    np.testing.assert_array_equal(got["y"], x.astype(np.int64).astype(dtype))


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_division_by_powers_of_two_and_right_shift(dtype):
    lab = lab_of(dtype, dtype)
    eight = tirx.const(8, dtype)
    value = lambda i: tirx.FloorDiv(lab.x[i], eight) + tirx.FloorMod(lab.x[i], eight) + tirx.shift_right(lab.x[i], tirx.const(5, dtype))
    got = lab.run(parallel((N,), lambda i: assign(lab.y, value(i), i)))
    x = got["x"]
    np.testing.assert_array_equal(got["y"], x // 8 + x % 8 + (x >> 5))


@pytest.mark.parametrize("dtype", ["int16", "int32", "uint16", "uint32", "uint8"])
@pytest.mark.parametrize("build, numpy", [(tirx.shift_left, np.left_shift), (tirx.shift_right, np.right_shift)], ids=["left", "right"])
def test_shift_by_a_different_amount_in_every_lane(dtype, build, numpy):
    lab = lab_of(dtype, dtype)
    lab.arrays["z"] = (np.arange(N) % (8 * np.dtype(dtype).itemsize)).astype(dtype)
    got = lab.run(parallel((N,), lambda i: assign(lab.y, build(lab.x[i], lab.z[i]), i)))
    np.testing.assert_array_equal(got["y"], numpy(got["x"], lab.arrays["z"]))
