"""Comparisons of booleans and of NaN by the scalar unit, from Ascend IR and from the text."""

import math

import numpy as np
import pytest
from ascend_ir_samples import Builder, Sample, at, gm, module
from ir_and_text import run_ir, run_text

from tilelang_ascend.ir import Bind, Var, call, intrin, seq, tirx

ORDERS = (tirx.EQ, tirx.NE, tirx.LT, tirx.LE, tirx.GT, tirx.GE)
INTS = [-1, 0, 2, 7]
FLOATS = [0.5, -1.0, math.nan, math.inf]


def program():
    """Y = every order of (x > 0, x < 5) and their minimum and maximum; Z = every order of two floats."""
    X, F = gm("X", "int32", len(INTS)), gm("F", "float32", len(FLOATS))
    Y, Z = gm("Y", "int32", 8 * len(INTS)), gm("Z", "int32", 6 * len(FLOATS) ** 2)
    out, b = [], Builder()
    for i in range(len(INTS)):
        x, p, q = Var(f"x{i}", "int32"), Var(f"p{i}", "bool"), Var(f"q{i}", "bool")
        out += [Bind(x, call("ascend.get_value", [at(X, i)], dtype="int32")), Bind(p, x > 0), Bind(q, x < 5)]
        for k, order in enumerate((*ORDERS, tirx.Min, tirx.Max)):
            out.append(intrin("set_value", at(Y, 8 * i + k), tirx.Cast("int32", order(p, q))))
    f = [Var(f"f{i}", "float32") for i in range(len(FLOATS))]
    out += [Bind(v, call("ascend.get_value", [at(F, i)], dtype="float32")) for i, v in enumerate(f)]
    for i, a in enumerate(f):
        for j, c in enumerate(f):
            for k, order in enumerate(ORDERS):
                value = tirx.Cast("int32", order(a, c + tirx.const(0, "float32")))
                out.append(intrin("set_value", at(Z, 6 * (len(f) * i + j) + k), value))
    func = b.function("compares", "aiv", "aiv_only", [X, F, Y, Z], seq(out))
    arrays = [np.array(INTS, np.int32), np.array(FLOATS, np.float32), np.zeros(8 * len(INTS), np.int32),
              np.zeros(6 * len(FLOATS) ** 2, np.int32)]  # fmt: skip
    return Sample("compares", module(func), 1, [], arrays, {})


NUMPY = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)


@pytest.mark.parametrize("way", [run_ir, run_text])
def test_comparisons(way):
    (x, f, y, z), _ = way(program())
    p, q = x > 0, x < 5
    want = np.stack([*(compare(p, q) for compare in NUMPY), p & q, p | q], 1)
    np.testing.assert_array_equal(y.reshape(-1, 8), want)
    want = np.stack([compare(*np.meshgrid(f, f, indexing="ij")) for compare in NUMPY], -1)
    np.testing.assert_array_equal(z.reshape(want.shape), want)
