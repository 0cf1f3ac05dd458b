"""Accuracy of the math sequences: dense sweeps of the very same code on NumPy float32, against float64."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from harness import Lab, assign, parallel

from tilelang_ascend.ir import seq, tirx
from tilelang_ascend.tileop.vector.math import exponential as math_exponential
from tilelang_ascend.tileop.vector.math import functions as elementwise_math
from tilelang_ascend.tileop.vector.math import special as math_special
from tilelang_ascend.tileop.vector.math import trigonometric as math_trigonometric

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

    def product_in_factors(self, a, factor):
        """Arrays are values, no sums of products."""

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
        return float(a) if np.isscalar(a) else None

    def splat(self, value, like):
        return np.full_like(like, value)


def ulps(got, want):
    """Error in units in the last place of the float32 result (denormals count as the smallest normal)."""
    spacing = np.spacing(np.maximum(np.abs(want), np.finfo(F).tiny).astype(F)).astype(np.float64)
    return np.abs(got.astype(np.float64) - want) / spacing


def vectorised(f):
    return lambda x: np.array([f(v) for v in x.tolist()])


def _sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


EXACT = {
    "exp2": np.exp2, "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "rsqrt": lambda x: 1 / np.sqrt(x), "sin": np.sin, "cos": np.cos,
    "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "sigmoid": _sigmoid, "erf": vectorised(math.erf),
    "exp10": lambda x: np.power(10.0, x),
}  # fmt: skip
BUILD = {**math_exponential.FUNCTIONS, **math_special.FUNCTIONS, **math_trigonometric.FUNCTIONS, "rsqrt": elementwise_math.rsqrt}


class DeviceOps(NumpyOps):
    """Exp, Ln, Sqrt and Div give one of the two neighbours of the exact value: the 1 ulp their documentation allows."""

    def __init__(self):
        super().__init__()
        self.rng = np.random.default_rng(0)

    def _neighbour(self, exact):
        nearest = exact.astype(F)
        other = np.nextafter(nearest, np.where(exact > nearest, np.inf, -np.inf).astype(F))
        choose = (self.rng.random(exact.shape) < 0.5) & (exact != nearest) & np.isfinite(nearest) & np.isfinite(other)
        return np.where(choose, other, nearest)

    def unary(self, name, a):
        if name == "abs":
            return np.abs(a)
        return self._neighbour({"exp": np.exp, "ln": np.log, "sqrt": np.sqrt}[name](a.astype(np.float64)))

    def div(self, a, b):
        a, b = self._pair(a, b)
        return self._neighbour(a.astype(np.float64) / b.astype(np.float64))


class FastOps(NumpyOps):
    fast = True


def points(name):
    """All exponents with both signs, and densely where functions change their shape or range."""
    bits = np.linspace(0, 0x7F7FFFFF, 20_001).astype(np.uint32)
    parts = [
        bits.view(F),
        (bits | 0x80000000).view(F),
        np.linspace(-10, 10, 20_001),
        np.linspace(-87.3, 89, 20_001),
        np.linspace(0.4, 2, 20_001),
    ]
    x = np.concatenate(parts).astype(F)
    if name in ("sin", "cos", "tan"):
        poles = np.arange(1, 41_700) * (math.pi / 2)
        close = [np.nextafter(poles.astype(F), F(toward)) for toward in (-np.inf, np.inf)]
        x = np.concatenate(
            [x, np.linspace(-25000, 25000, 40_001).astype(F), np.linspace(-65504, 65504, 40_001).astype(F), poles.astype(F), *close]
        )
    return np.concatenate([x, WORST.get(name, F([]))])


WORST = {
    "tan": F([59402.805, 15668.693, -20.404661]),
    "rsqrt": F([4.0250535, 1024.0071]),
    "sinh": F([-1.4266181, 1.4254475]),
    "sigmoid": F([-16.68414, -16.659376]),
    "log1p": F([-8.941248e-08, -3.7849318e-06]),
    "log10": F([0.10003094, 0.010220754]),
    "erf": F([0.95236003, -3.8049328]),
}
"""Arguments of the largest errors found in searches over hundreds of millions of values."""


def errors(name, ops, limit=65504.0):
    """(argument, error in ulp) where the table makes a promise."""
    x = points(name)
    if name in ("sin", "cos", "tan"):
        x = x[np.abs(x) <= limit]
    if name == "sigmoid":
        x = x[x > -87.0]
    if ops.fast and name in ("exp2", "exp10"):  # denormal results are left to the hardware
        x = x[x > {"exp2": -126, "exp10": -37.9}[name]]
    with np.errstate(all="ignore"):
        got, want = BUILD[name](ops, x), EXACT[name](x.astype(np.float64))
        largest = np.finfo(F).max
        nearest = want.astype(F)
    same = (got == nearest) | (np.isnan(got) & np.isnan(nearest))
    inside = np.isfinite(got) & (np.abs(want) <= largest)
    assert (same | inside).all(), f"{name}({x[~(same | inside)][0]!r}) is {got[~(same | inside)][0]!r}"
    error = ulps(got[inside], want[inside])
    if name in ("sin", "cos", "tan"):
        smallest, absolute = (2.0**-12, 1e-10) if limit > 25000 else (2.0**-10, 1e-9)
        size = np.abs(want[inside])
        reduced = (size < smallest) | ((size > 1 / smallest) if name == "tan" else False)
        # Near its poles tan is as wrong as its denominator near a zero.
        allowed = absolute * np.maximum(1, size**2 if name == "tan" else 1)
        assert (np.abs(got[inside] - want[inside]) <= allowed)[reduced].all()
        error[reduced] = 0
    return x[inside], error


def bound(text, name, x):
    """The promise of one cell of the table for arguments `x`."""
    numbers = re.fullmatch(r"(?:(\d*)x \+ )?(\d+)", text)
    assert numbers, f"{name}: '{text}'"
    slope = 0 if "x" not in text else int(numbers[1] or 1)
    return slope * np.abs(x) + int(numbers[2])


def table():
    """{function: (float32, device, fast, half)} of docs/numbers.md."""
    text = (Path(__file__).parents[3] / "docs" / "numbers.md").read_text()
    rows = [[c.strip() for c in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")]
    return {r[0]: r[1:5] for r in rows[1:]}


@pytest.mark.parametrize("column", ["float32", "device", "fast"])
@pytest.mark.parametrize("name", list(EXACT))
@pytest.mark.one_in(2)
def test_promised_bound(name, column):
    index = ["float32", "device", "fast"].index(column)
    text = table()[name][index]
    if not text:
        return
    x, error = errors(name, [NumpyOps, DeviceOps, FastOps][index](), 25000.0 if column == "fast" else 65504.0)
    excess = error - bound(text, name, x)
    worst = int(np.argmax(excess))
    assert excess[worst] <= 0, f"{name}({x[worst]!r}) is {error[worst]:.2f} ulp off"
    assert error.max() > 0.2 * bound(text, name, x[np.argmax(error)]) - 0.5, "the promise is far too modest"


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_huge_arguments_stay_in_range(name):
    x = np.logspace(5, 38, 5001).astype(F)
    with np.errstate(all="ignore"):
        got = BUILD[name](NumpyOps(), np.concatenate([x, -x]))
        assert np.isnan(BUILD[name](NumpyOps(), F([np.inf, -np.inf, np.nan]))).all()
    assert (np.abs(got) <= 1).all()


def test_power():
    rng = np.random.default_rng(0)
    a, b = rng.uniform(0.01, 20, 20000).astype(F), rng.uniform(-5, 5, 20000).astype(F)
    got, want = math_exponential.power(NumpyOps(), a, b), a.astype(np.float64) ** b.astype(np.float64)
    scale = np.abs(b.astype(np.float64) * np.log(a.astype(np.float64)))
    assert table()["pow"][:2] == ["2 y + 3", "3 y + 4"]
    assert (ulps(got, want) <= 3 + 2 * scale).all()
    assert (ulps(math_exponential.power(DeviceOps(), a, b), want) <= 4 + 3 * scale).all()
    special = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 1e-45, 3e38]
    a, b = (v.ravel().astype(F) for v in np.meshgrid(special, special))
    with np.errstate(all="ignore"):
        got, want = math_exponential.power(NumpyOps(), a, b), np.float_power(a, b).astype(F)
        np.testing.assert_allclose(got, want, rtol=3e-5)
        np.testing.assert_array_equal(np.signbit(got)[want == want], np.signbit(want)[want == want])


@pytest.mark.parametrize("exponent", [0.5, 1, 2, 3, 4])
def test_constant_powers_over_all_magnitudes(exponent):
    x = np.concatenate(
        [np.linspace(0, 0x7F7FFFFF, 2_000_001).astype(np.uint32).view(F), F([6.9815695e12, 4.2952274e9, 1.844805e19, 0.00038768764])]
    )
    for ops, limit in ((NumpyOps(), 3), (DeviceOps(), 4)):
        for e in (float(exponent), -float(exponent)):
            with np.errstate(all="ignore"):
                got, want = math_exponential.power(ops, x, e), x.astype(np.float64) ** e
                fits = np.abs(want) <= np.finfo(F).max
                assert np.isinf(got[~fits]).all()
                assert (ulps(got[fits], want[fits]) <= limit).all(), x[fits][np.argmax(ulps(got[fits], want[fits]))]


@pytest.mark.parametrize("name", ["exp2", "log1p", "tanh", "erf", "sigmoid", "log2"])
def test_limits(name):
    inf = F([np.inf, -np.inf, 0.0, np.nan])
    want = {"exp2": [np.inf, 0, 1, np.nan], "log1p": [np.inf, np.nan, 0, np.nan], "tanh": [1, -1, 0, np.nan], "erf": [1, -1, 0, np.nan],
            "sigmoid": [1, 0, 0.5, np.nan], "log2": [np.inf, np.nan, -np.inf, np.nan]}[name]  # fmt: skip
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(BUILD[name](NumpyOps(), inf), F(want))


@pytest.mark.parametrize("name", list(math_special.ONE_PLUS))
def test_sums_with_one(name):
    """1 + f(x) within the promise of docs/numbers.md, over all exponents; exact where f is 1 or -1."""
    build, x = (
        math_special.ONE_PLUS[name],
        np.concatenate([points(name), np.linspace(-3, 3, 100_001).astype(F), F([2.650275, 6.486, 0.397285])]),
    )
    with np.errstate(all="ignore"):
        want = 1 + EXACT[name](x.astype(np.float64))
        for ops, promise in ((NumpyOps(), 1.5), (DeviceOps(), 2)):
            error = np.abs(build(ops, x) - want) / np.finfo(F).eps
            assert promise / 2 < error.max() <= promise, x[np.argmax(error)]
        special = build(NumpyOps(), F([np.inf, 1e30, 20, 0, -0.0, -200, -1e30, -np.inf, np.nan]))
    np.testing.assert_array_equal(special, F([2, 2, 2, 1, 1, 0, 0, 0, np.nan]))


SUMS = {"1 + f": lambda f, x: 1 + f(x), "f + 1": lambda f, x: f(x) + 1, "1 - f": lambda f, x: 1 - f(x), "f - 1": lambda f, x: f(x) - 1}


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", list(math_special.ONE_PLUS))
@pytest.mark.parametrize("how", list(SUMS))
def test_sums_with_one_of_tiles(how, name, dtype):
    """The sums as instructions; the function itself beside them keeps its own bound."""
    x = np.concatenate([np.random.default_rng(3).uniform(-3.0, 3.0, 68), [0, 60.0]])
    lab = Lab(x=(dtype, x), y=(dtype, np.zeros(70)), z=(dtype, np.zeros(70)))
    f = lambda v: getattr(tirx, name)(v)
    out = lab.run(parallel((70,), lambda i: seq([assign(lab.y, SUMS[how](f, lab.x[i]), i), assign(lab.z, f(lab.x[i]), i)])))
    wide = out["x"].astype(np.float64)
    tolerance = {"float32": 2.5e-7, "float16": 2e-3, "bfloat16": 1.6e-2}[dtype]
    np.testing.assert_allclose(out["y"].astype(np.float64), SUMS[how](EXACT[name], wide), rtol=0, atol=tolerance)
    np.testing.assert_allclose(out["z"].astype(np.float64), EXACT[name](wide), rtol=0, atol=tolerance)


def test_a_sum_with_one_is_shorter_than_the_function():
    from tilelang_ascend.tileop.vector.graph.graph import Graph
    from tilelang_ascend.tileop.vector.graph.operations import VectorOps

    def length(build):
        g = Graph()
        seen = set()
        todo = [build(VectorOps(g), g.node("load", "float32", attrs=("x",)))]
        while todo:
            n = todo.pop()
            if n not in seen and not n.is_scalar:
                seen.add(n)
                todo += n.args
        return len(seen)

    for name, sum_ in math_special.ONE_PLUS.items():
        assert length(sum_) < length(math_special.FUNCTIONS[name])


FUNCTIONS = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "tanh": np.tanh, "sigmoid": _sigmoid, "erf": vectorised(math.erf), "sin": np.sin,
    "cos": np.cos, "tan": np.tan, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "sinh": np.sinh, "cosh": np.cosh,
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", list(FUNCTIONS))
@pytest.mark.one_in(3)
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
    from tilelang_ascend.tileop.vector.graph.graph import Graph
    from tilelang_ascend.tileop.vector.graph.operations import VectorOps

    g = Graph()
    x = g.node("load", "float32", attrs=("x",))
    assert elementwise_math.function(VectorOps(g, fast=True), "exp2", [x]).op == "exp"
    assert elementwise_math.function(VectorOps(g), "exp2", [x]).op == "mul"
