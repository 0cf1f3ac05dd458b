"""Nests in which several iterations update one element."""

import numpy as np
import pytest
from harness import Lab, assign, parallel

from tilelang_ascend.ir import IfThenElse, seq, tirx

RNG = np.random.default_rng(3)
TOLERANCE = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2}


def data(dtype, shape):
    return RNG.integers(-4, 5, shape) if dtype.startswith("int") else RNG.standard_normal(shape)


def update(lab, join, i, value):
    """`acc[i] = join(acc[i], value)`"""
    i = i if isinstance(i, tuple) else (i,)
    return assign(lab.acc, join(lab.acc[i], value), *i)


ADD, SUB = (lambda a, b: a + b), (lambda a, b: a - b)
MAX, MIN = tirx.Max, tirx.Min


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "int16", "int8"])
@pytest.mark.parametrize(
    "join, numpy", [(ADD, np.sum), (SUB, lambda x, a: -np.sum(x, a)), (MAX, np.max), (MIN, np.min)], ids=["add", "sub", "max", "min"]
)
@pytest.mark.parametrize("axis", [0, 1])
def test_dtypes_operations_and_axes(dtype, join, numpy, axis):
    x, start = data(dtype, (6, 21)), data(dtype, (21, 6)[axis])
    lab = Lab(x=(dtype, x), acc=(dtype, start))
    got = lab.run(parallel((6, 21), lambda i, j: update(lab, join, (j, i)[axis], lab.x[i, j])))
    x, start = lab.arrays["x"].astype(np.float64), lab.arrays["acc"].astype(np.float64)
    part = numpy(x, axis)
    want = start + part if join in (ADD, SUB) else (np.maximum if join is MAX else np.minimum)(start, part)
    tolerance = TOLERANCE.get(dtype, 0)
    np.testing.assert_allclose(got["acc"].astype(np.float64), want, rtol=tolerance, atol=10 * tolerance)


@pytest.mark.parametrize("width", [1, 7, 8, 63, 64, 65, 100, 129])
def test_widths(width):
    x = data("float32", (5, width))
    lab = Lab(x=("float32", x), acc=("float32", np.zeros(5)))
    got = lab.run(parallel((5, width), lambda i, j: update(lab, ADD, i, lab.x[i, j] * 2.0)))
    np.testing.assert_allclose(got["acc"], 2 * lab.arrays["x"].sum(1), rtol=1e-5, atol=1e-5)


def test_everything_into_one_element():
    lab = Lab(x=("float32", data("float32", (3, 5, 20))), acc=("float32", np.ones(1)))
    got = lab.run(parallel((3, 5, 20), lambda i, j, k: update(lab, ADD, 0, lab.x[i, j, k])))
    np.testing.assert_allclose(got["acc"][0], 1 + lab.arrays["x"].sum(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_two_of_three_axes(kept):
    shape = (3, 5, 20)
    lab = Lab(x=("float32", data("float32", shape)), acc=("float32", np.ones(shape[kept])))
    got = lab.run(parallel(shape, lambda *i: update(lab, MAX, i[kept], lab.x[i])))
    want = np.maximum(1, lab.arrays["x"].max(tuple(a for a in range(3) if a != kept)))
    np.testing.assert_array_equal(got["acc"], want)


def test_lanes_outside_of_the_condition_do_not_count():
    lab = Lab(x=("float32", data("float32", (6, 30))), acc=("float32", np.zeros(6)), top=("float32", np.full(6, -9.0)))
    body = lambda i, j: IfThenElse(
        j < i * 4, seq(update(lab, ADD, i, lab.x[i, j]), assign(lab.top, tirx.Max(lab.top[i], lab.x[i, j]), i)), None
    )
    got = lab.run(parallel((6, 30), body))
    x = lab.arrays["x"]
    np.testing.assert_allclose(got["acc"], [x[i, : i * 4].sum() for i in range(6)], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(got["top"], [x[i, : i * 4].max(initial=-9.0) for i in range(6)])


def test_values_that_do_not_vary_count_once_for_each_iteration():
    lab = Lab(x=("float32", data("float32", (6,))), acc=("float32", np.zeros(6)), count=("int32", np.zeros(6)))
    nest = parallel((6, 20), lambda i, j: [update(lab, ADD, i, lab.x[i]), assign(lab.count, lab.count[i] + 1, i)])
    got = lab.run(nest)
    np.testing.assert_allclose(got["acc"], 20 * lab.arrays["x"], rtol=1e-5)
    np.testing.assert_array_equal(got["count"], np.full(6, 20))


def test_sums_of_several_terms_and_later_reads():
    lab = Lab(x=("float32", data("float32", (6, 20))), acc=("float32", np.zeros(6)))
    nest = parallel((6, 20), lambda i, j: assign(lab.acc, lab.acc[i] + lab.x[i, j] + 1.0, i))
    np.testing.assert_allclose(lab.run(nest)["acc"], 20 + lab.arrays["x"].sum(1), rtol=1e-5, atol=1e-5)


def test_a_row_sum_is_few_instructions():
    lab = Lab(x=("float32", data("float32", (64, 64))), acc=("float32", np.zeros(64)))
    lab.run(parallel((64, 64), lambda i, j: update(lab, ADD, i, lab.x[i, j])))
    assert lab.instructions.count("block_reduce_sum") == 2 and len(lab.instructions) <= 4, lab.instructions


def test_products():
    lab = Lab(x=("float32", data("float32", (3, 20))), acc=("float32", np.full(3, 2.0)))
    got = lab.run(parallel((3, 20), lambda i, j: update(lab, lambda a, b: a * b, i, lab.x[i, j])))
    np.testing.assert_allclose(got["acc"], 2 * lab.arrays["x"].astype(np.float64).prod(1), rtol=1e-5)


def test_what_is_no_update_runs_as_scalar_loops():
    lab = Lab(x=("float32", data("float32", (3, 4))), acc=("float32", np.ones(3)))
    lab.run(parallel((3, 4), lambda i, j: update(lab, lambda a, b: b - a, i, lab.x[i, j])), expect_scalar=True)
    assert "several iterations store to the same element" in lab.warnings[0]
