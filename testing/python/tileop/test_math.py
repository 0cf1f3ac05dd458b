"""Accuracy of the math sequences: dense sweeps of the very same code on NumPy float32, against float64."""

import math

import numpy as np
import pytest
from harness import Lab, assign, parallel

from tilelang_ascend.ir import tirx
from tilelang_ascend.tileop import elementwise_math, math_exponential, math_special, math_trigonometric

F = np.float32


class NumpyOps:
    """`VectorOps` on float32 arrays, one rounding for each instruction."""

    fast = False

    def __init__(self):
        self.g = self

    @staticmethod
    def _pair(a, b):
        dtype = (b if np.isscalar(a) else a).dtype
        return np.asarray(a, dtype), np.asarray(b, dtype)

    def add(self, a, b):
        a, b = self._pair(a, b)
        return a + b

    def sub(self, a, b):
        a, b = self._pair(a, b)
        return a - b

    def mul(self, a, b):
        a, b = self._pair(a, b)
        return a * b

    def div(self, a, b):
        a, b = self._pair(a, b)
        return a / b

    def maximum(self, a, b):
        return np.maximum(*self._pair(a, b))

    def minimum(self, a, b):
        return np.minimum(*self._pair(a, b))

    def unary(self, name, a):
        exact = {"exp": np.exp, "ln": np.log, "sqrt": np.sqrt, "abs": np.abs}[name](a.astype(np.float64))
        return exact.astype(F)

    def cast(self, a, dtype, round):
        rounded = {"rint": np.rint, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc}[round](a)
        return rounded.astype(np.int32 if dtype == "int32" else F)

    def shift_left(self, a, n):
        return a << n

    def shift_right(self, a, n):
        return a >> n

    def bits(self, a, dtype):
        return a.view(dtype)

    def cond(self, mode, a, b):
        return {"lt": np.less, "gt": np.greater, "eq": np.equal}[mode](a, F(b) if np.isscalar(b) else b)

    def where(self, m, a, b):
        return np.where(m, F(a) if np.isscalar(a) else a, F(b) if np.isscalar(b) else b).astype(F)

    def constant(self, a):
        return None

    def splat(self, value, like):
        return np.full_like(like, value)


def ulps(got, want):
    """Error in units in the last place of the float32 result (denormals count as the smallest normal)."""
    spacing = np.spacing(np.maximum(np.abs(want), np.finfo(F).tiny).astype(F)).astype(np.float64)
    return np.abs(got.astype(np.float64) - want) / spacing


def sweep(lo, hi, n=200_001):
    return np.linspace(lo, hi, n).astype(F)


def tiny(n=2001):
    positive = np.logspace(-30, 0, n).astype(F)
    return np.concatenate([positive, -positive])


def vectorised(f):
    return lambda x: np.array([f(v) for v in x.tolist()])


CASES = [
    ("exp2", math_exponential.exp2, np.exp2, [sweep(-125, 127.9), tiny()], 2),
    ("log2", math_exponential.log2, np.log2, [sweep(1e-3, 100), np.logspace(-37, 38, 5001).astype(F)], 3),
    ("log10", math_exponential.log10, np.log10, [sweep(1e-3, 100), np.logspace(-37, 38, 5001).astype(F)], 3),
    ("log1p", math_exponential.log1p, np.log1p, [sweep(-0.999, 50), tiny(), np.logspace(0, 38, 5001).astype(F)], 3),
    ("tanh", math_special.tanh, np.tanh, [sweep(-10, 10), tiny()], 2),
    ("erf", math_special.erf, vectorised(math.erf), [sweep(-6, 6, 60_001), tiny()], 6),
    ("sigmoid", math_special.sigmoid, lambda x: 1 / (1 + np.exp(-x)), [sweep(-87, 90)], 3),
    ("cosh", math_special.cosh, np.cosh, [sweep(-88, 88)], 4),
    ("sinh", math_special.sinh, np.sinh, [sweep(-88, 88), tiny()], 4),
    ("rsqrt", elementwise_math.rsqrt, lambda x: 1 / np.sqrt(x), [np.logspace(-37, 38, 50_001).astype(F)], 2),
]


@pytest.mark.parametrize("name, build, exact, points, bound", CASES, ids=[c[0] for c in CASES])
def test_bound_in_ulps(name, build, exact, points, bound):
    for x in points:
        with np.errstate(all="ignore"):
            error = ulps(build(NumpyOps(), x), exact(x.astype(np.float64)))
        worst = int(np.nanargmax(error))
        assert error[worst] <= bound, f"{name}({x[worst]!r}) is {error[worst]:.2f} ulp off"


@pytest.mark.parametrize("name, exact", [("sin", np.sin), ("cos", np.cos)])
@pytest.mark.parametrize("limit", [3.5, 100.0, 25000.0])
def test_sine_and_cosine(name, exact, limit):
    x = sweep(-limit, limit)
    got, want = math_trigonometric.FUNCTIONS[name](NumpyOps(), x), exact(x.astype(np.float64))
    large = np.abs(want) > 2.0**-10
    assert ulps(got, want)[large].max() <= 3
    assert np.abs(got - want)[~large].max() <= 1e-9


def test_power():
    rng = np.random.default_rng(0)
    a, b = rng.uniform(0.01, 20, 20000).astype(F), rng.uniform(-5, 5, 20000).astype(F)
    got, want = math_exponential.power(NumpyOps(), a, b), a.astype(np.float64) ** b.astype(np.float64)
    bound = 3 + np.abs(b.astype(np.float64) * np.log(a.astype(np.float64))) * 1.5
    assert (ulps(got, want) <= bound).all()
    signs = math_exponential.power(NumpyOps(), F([-2, -2, -2, 0, 5]), F([3, 2, 0.5, 2, 0]))
    np.testing.assert_allclose(signs, [-8, 4, np.nan, 0, 1], rtol=1e-6)


@pytest.mark.parametrize("name", ["exp2", "log1p", "tanh", "erf", "sigmoid", "log2"])
def test_limits(name):
    inf = F([np.inf, -np.inf, 0.0, np.nan])
    want = {"exp2": [np.inf, 0, 1, np.nan], "log1p": [np.inf, np.nan, 0, np.nan], "tanh": [1, -1, 0, np.nan], "erf": [1, -1, 0, np.nan],
            "sigmoid": [1, 0, 0.5, np.nan], "log2": [np.inf, np.nan, -np.inf, np.nan]}[name]  # fmt: skip
    build = {**math_exponential.FUNCTIONS, **math_special.FUNCTIONS, **math_special.NATIVE}[name]
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(build(NumpyOps(), inf), F(want))


FUNCTIONS = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "tanh": np.tanh, "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "erf": vectorised(math.erf), "sin": np.sin,
    "cos": np.cos, "tan": np.tan, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "sinh": np.sinh, "cosh": np.cosh,
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_functions_of_tiles(name, dtype):
    """The sequences as instructions."""
    x = np.random.default_rng(3).uniform(0.1, 3.0, 70)
    lab = Lab(x=(dtype, x), y=(dtype, np.zeros(70)))
    out = lab.run(parallel((70,), lambda i: assign(lab.y, getattr(tirx, name)(lab.x[i]), i)))
    tolerance = {"float32": 1e-6, "float16": 4e-3, "bfloat16": 1e-2}[dtype]
    want = FUNCTIONS[name](out["x"].astype(np.float64))
    np.testing.assert_allclose(out["y"].astype(np.float64), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 2.0, 3.0, 4.0, -1.0, 1.7, 7.0])
def test_constant_powers(exponent):
    x = np.random.default_rng(3).uniform(0.1, 3.0, 70)
    lab = Lab(x=("float32", x), y=("float32", np.zeros(70)))
    out = lab.run(parallel((70,), lambda i: assign(lab.y, tirx.pow(lab.x[i], tirx.const(exponent, "float32")), i)))
    np.testing.assert_allclose(out["y"], out["x"].astype(np.float64) ** exponent, rtol=3e-6)


def test_fast_math_shortens_exp2():
    from tilelang_ascend.tileop.vector_graph import Graph
    from tilelang_ascend.tileop.vector_ops import VectorOps

    g = Graph()
    x = g.node("load", "float32", attrs=("x",))
    assert elementwise_math.function(VectorOps(g, fast=True), "exp2", [x]).op == "exp"
    assert elementwise_math.function(VectorOps(g), "exp2", [x]).op == "mul"
