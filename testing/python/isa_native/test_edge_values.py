"""Special values, as the vendor's tables of edge values state them (INF/NAN mode). One row: inputs, result."""

import math

import ml_dtypes
import numpy as np
import pytest
from probe import Probe
from random_calls import numpy_dtype

INF, NAN = math.inf, math.nan
MAX16, MAX32 = 65504.0, float(np.finfo(np.float32).max)


def run(name, dtypes, inputs, scalar=None, attrs=None, masked=False, initial=None):
    """First element of the result; operands: one destination, then one element per input."""
    ub = np.zeros(1024, np.uint8)
    operands = [("UB", dtype, 256 * i) for i, dtype in enumerate(dtypes)]
    with np.errstate(over="ignore"):
        for i, value in enumerate(([initial] if initial is not None else [0]) + list(inputs)):
            cell = np.array([value]).astype(numpy_dtype(dtypes[i]))
            ub[256 * i : 256 * i + cell.nbytes] = cell.view(np.uint8)
    probe = Probe({"UB": ub})
    probe.execute(name, operands, ([] if scalar is None else [scalar]) + [1], attrs)
    assert not probe.reports, probe.reports
    return ub[: numpy_dtype(dtypes[0]).itemsize].view(numpy_dtype(dtypes[0]))[0]


def assert_is(value, expected):
    """Equal, with the sign of zero, NaN equal to NaN."""
    value, expected = float(value), float(expected)
    if math.isnan(expected):
        assert math.isnan(value), f"expected NaN, got {value}"
    else:
        assert value == expected and math.copysign(1, value) == math.copysign(1, expected), f"expected {expected}, got {value}"


BOTH = [("float16", MAX16), ("float32", MAX32)]

BINARY = [
    ("add", -INF, INF, NAN),
    ("add", "max", "max", INF),
    ("add", -0.0, -0.0, -0.0),
    ("add", 0.0, -0.0, 0.0),
    ("sub", -0.0, 0.0, -0.0),
    ("sub", INF, INF, NAN),
    ("mul", 0.0, INF, NAN),
    ("mul", "-max", "max", -INF),
    ("mul", "max", -0.0, -0.0),
    ("div", 1.0, 0.0, INF),
    ("div", "-max", -0.0, INF),
    ("div", 0.0, -0.0, NAN),
    ("div", "max", -INF, -0.0),
    ("max", 0.0, -0.0, 0.0),
    ("max", -0.0, 0.0, 0.0),
    ("max", -0.0, -0.0, -0.0),
    ("max", NAN, 1.0, NAN),
    ("max", INF, NAN, NAN),
    ("max", "-max", -INF, "-max"),
    ("min", 0.0, -0.0, -0.0),
    ("min", -0.0, 0.0, -0.0),
    ("min", 1.0, NAN, NAN),
    ("min", "-max", NAN, NAN),
    ("min", 0.0, INF, 0.0),
]
UNARY = [
    ("exp", -INF, 0.0),
    ("exp", "max", INF),
    ("exp", "-max", 0.0),
    ("exp", -0.0, 1.0),
    ("exp", NAN, NAN),
    ("exp", INF, INF),
    ("ln", 0.0, -INF),
    ("ln", -0.0, -INF),
    ("ln", -1.0, NAN),
    ("ln", -INF, NAN),
    ("ln", INF, INF),
    ("ln", 1.0, 0.0),
    ("ln", NAN, NAN),
    ("abs", -0.0, 0.0),
    ("abs", -INF, INF),
    ("abs", NAN, NAN),
    ("reciprocal", 0.0, INF),
    ("reciprocal", -0.0, -INF),
    ("reciprocal", -INF, -0.0),
    ("sqrt", -0.0, -0.0),
    ("sqrt", -1.0, NAN),
    ("sqrt", INF, INF),
    ("rsqrt", 0.0, INF),
    ("rsqrt", INF, 0.0),
    ("rsqrt", -INF, NAN),
    ("rsqrt", 4.0, 0.5),
    ("relu", -0.0, 0.0),
    ("relu", NAN, NAN),
    ("relu", "-max", 0.0),
    ("relu", "max", "max"),
]


def number(value, largest):
    return {"max": largest, "-max": -largest}.get(value, value)


@pytest.mark.parametrize("dtype, largest", BOTH)
@pytest.mark.parametrize("name, a, b, expected", BINARY)
def test_binary(name, a, b, expected, dtype, largest):
    assert_is(run(name, [dtype] * 3, [number(a, largest), number(b, largest)]), number(expected, largest))


@pytest.mark.parametrize("dtype, largest", BOTH)
@pytest.mark.parametrize("name, a, expected", UNARY)
def test_unary(name, a, expected, dtype, largest):
    assert_is(run(name, [dtype] * 2, [number(a, largest)]), number(expected, largest))


@pytest.mark.parametrize(
    "a, slope, expected",
    [
        (0.0, NAN, 0.0),
        (-0.0, 2.0, -0.0),
        (-0.0, -1.0, 0.0),
        (-0.0, INF, NAN),
        (-INF, 0.0, NAN),
        (3.0, NAN, 3.0),
        (-2.0, 0.5, -1.0),
        (NAN, 1.0, NAN),
    ],
)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_leaky_relu(a, slope, expected, dtype):
    assert_is(run("leaky_relu", [dtype] * 2, [a], slope), expected)


@pytest.mark.parametrize("dtype, largest", BOTH)
def test_multiply_add_rounds_the_product_first(dtype, largest):
    """MAX * MAX is infinity before -inf is added."""
    assert_is(run("axpy", [dtype] * 2, [largest], largest, initial=-INF), NAN)
    assert_is(run("mul_add_dst", [dtype] * 3, [largest, largest], initial=-INF), NAN)
    assert_is(run("fused_mul_add", [dtype] * 3, [largest, -INF], initial=largest), NAN)


@pytest.mark.parametrize(
    "name, a, b, expected",
    [
        ("add", -32768, -32768, 0),
        ("add", 32767, 32767, -2),
        ("sub", -32768, 32767, 1),
        ("mul", -32768, -32768, 0),
        ("mul", 32767, 32767, 1),
    ],
)
def test_integers_wrap(name, a, b, expected):
    assert run(name, ["int16"] * 3, [a, b]) == expected


@pytest.mark.parametrize("mode, expected", [("lt", 0), ("gt", 0), ("eq", 0), ("le", 0), ("ge", 0), ("ne", 0)])
def test_comparison_with_nan_is_false(mode, expected):
    ub = np.zeros(2048, np.uint8)
    ub[512:1024].view(np.float32)[::2] = NAN
    ub[1024:1536].view(np.float32)[1::2] = NAN
    Probe({"UB": ub}).execute("compare", [("UB", "uint8", 0), ("UB", "float32", 512), ("UB", "float32", 1024)], [64], {"mode": mode})
    assert ub[:8].tolist() == [expected] * 8


CASTS = [
    ("float16", "int8", 300.0, "rint", 127),
    ("float16", "int8", -300.0, "rint", -128),
    ("float16", "uint8", -1.0, "rint", 0),
    ("float16", "uint8", NAN, "rint", 0),
    ("float16", "uint8", INF, "rint", 255),
    ("float16", "int16", INF, "trunc", 32767),
    ("float16", "int32", -INF, "trunc", -(2**31)),
    ("float16", "int32", NAN, "trunc", 0),
    ("float16", "int16", 2.5, "rint", 2),
    ("float16", "int16", 3.5, "rint", 4),
    ("float16", "int16", 2.5, "round", 3),
    ("float16", "int16", -2.5, "round", -3),
    ("float16", "int16", -2.5, "floor", -3),
    ("float16", "int16", -2.5, "ceil", -2),
    ("float16", "int16", -2.5, "trunc", -2),
    ("float32", "int32", 3e9, "rint", 2**31 - 1),
    ("float32", "int32", NAN, "round", 0),
    ("float32", "int32", 2147483520.0, "trunc", 2147483520),
    ("float32", "int64", 1e30, "rint", 2**63 - 1),
    ("float32", "int64", -1e30, "rint", -(2**63)),
    ("float32", "int16", 1e9, "floor", 32767),
    ("float32", "float32", -0.0, "rint", 0.0),
    ("float32", "float32", -0.4, "rint", 0.0),
    ("float32", "float32", -1.5, "floor", -2.0),
    ("float32", "float32", NAN, "trunc", NAN),
    ("float32", "float32", 2.5, "rint", 2.0),
    ("float32", "float32", 2.5, "round", 3.0),
    ("float32", "float16", 65520.0, "rint", INF),
    ("float32", "float16", 65519.0, "rint", 65504.0),
    ("float32", "float16", MAX32, "rint", INF),
    ("float32", "float16", -0.0, "rint", -0.0),
    ("float32", "float16", 1 + 2**-11, "rint", 1.0),
    ("float32", "float16", 1 + 2**-11, "ceil", 1 + 2**-10),
    ("float32", "float16", 1 + 2**-12, "odd", 1 + 2**-10),
    ("float32", "float16", 1 + 2**-11, "round", 1 + 2**-10),
    ("float32", "float16", 2**-25, "rint", 0.0),
    ("float32", "float16", 1.5 * 2**-25, "rint", 2**-24),
    ("float32", "float16", NAN, "none", NAN),
    ("float32", "bfloat16", 1 + 2**-8, "rint", 1.0),
    ("float32", "bfloat16", 1 + 3 * 2**-8, "rint", 1 + 2**-6),
    ("float32", "bfloat16", MAX32, "rint", INF),
    ("float32", "bfloat16", -0.0, "rint", -0.0),
    ("float32", "bfloat16", NAN, "rint", NAN),
    ("bfloat16", "int32", 3e38, "trunc", 2**31 - 1),
    ("int32", "int16", 2**31 - 1, "none", 32767),
    ("int32", "int16", -(2**31), "none", -32768),
    ("int64", "int32", 2**63 - 1, "none", 2**31 - 1),
    ("int32", "float32", 2**31 - 1, "trunc", 2147483520.0),
    ("int32", "float32", 2**24 + 1, "rint", float(2**24)),
    ("int32", "float32", 2**24 + 1, "ceil", float(2**24 + 2)),
    ("int64", "float32", 2**63 - 1, "rint", 2.0**63),
]


@pytest.mark.parametrize("source, destination, value, mode, expected", CASTS)
def test_cast(source, destination, value, mode, expected):
    if source == "int64" or destination == "int64":
        got = run(
            "cast",
            [destination, source],
            [np.array(value, dtype=source) if source == "int64" else value],
            attrs={"round": mode},
        )
        assert got == expected
        return
    assert_is(run("cast", [destination, source], [value], attrs={"round": mode}), expected)


def test_every_half_survives_the_way_through_float():
    bits = np.arange(65536, dtype=np.uint16)
    ub = np.zeros(65536 * 8, np.uint8)
    ub[: 65536 * 2] = bits.view(np.uint8)
    probe = Probe({"UB": ub})
    probe.execute("cast", [("UB", "float32", 131072), ("UB", "float16", 0)], [65536], {"round": "none"})
    assert np.array_equal(ub[131072:393216].view(np.float32), bits.view(np.float16).astype(np.float32), equal_nan=True)
    probe.execute("cast", [("UB", "float16", 393216), ("UB", "float32", 131072)], [65536], {"round": "rint"})
    assert np.array_equal(ub[393216:].view(np.float16), bits.view(np.float16), equal_nan=True)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_every_float8(dtype):
    bits = np.arange(256, dtype=np.uint8)
    ub = np.zeros(4096, np.uint8)
    ub[:256] = bits
    probe = Probe({"UB": ub}, chip="a5")
    probe.execute("cast", [("UB", "float32", 1024), ("UB", dtype, 0)], [256], {"round": "none"})
    values = bits.view(getattr(ml_dtypes, dtype)).astype(np.float32)
    assert np.array_equal(ub[1024:2048].view(np.float32), values, equal_nan=True)
    probe.execute("cast", [("UB", dtype, 2048), ("UB", "float32", 1024)], [256], {"round": "rint"})
    assert np.array_equal(ub[2048:2304].view(getattr(ml_dtypes, dtype)).astype(np.float32), values, equal_nan=True)


def ulps(got, exact, dtype):
    """Distance from the exact result in units of the last place of the dtype."""
    spacing = np.spacing(np.abs(exact.astype(dtype))).astype(np.float64)
    return np.max(np.abs(got.astype(np.float64) - exact) / spacing)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize(
    "name, function, low, high",
    [
        ("exp", np.exp, -9, 9),
        ("ln", np.log, 1e-3, 100),
        ("rsqrt", lambda x: 1 / np.sqrt(x), 1e-3, 100),
        ("sqrt", np.sqrt, 1e-3, 100),
        ("reciprocal", lambda x: 1 / x, 1e-3, 100),
    ],
)
def test_error_bound(name, function, low, high, dtype):
    """At most half a unit in the last place and a trifle (documented in src/isa/math.h)."""
    values = np.random.default_rng(7).uniform(low, high, 8192).astype(dtype)
    ub = np.zeros(4 * values.nbytes, np.uint8)
    ub[: values.nbytes] = values.view(np.uint8)
    operands = [("UB", values.dtype.name, 2 * values.nbytes), ("UB", values.dtype.name, 0)]
    Probe({"UB": ub}).execute(name, operands, [values.size])
    got = ub[2 * values.nbytes : 3 * values.nbytes].view(dtype)
    assert ulps(got, function(values.astype(np.float64)), dtype) <= 0.5001


def test_reductions_are_trees_of_neighbours():
    """In halves 2048 + 1 is 2048: a running sum would stay there, a tree adds the ones first."""
    values = np.ones(128, np.float16)
    values[0] = 2048
    ub = np.zeros(1024, np.uint8)
    ub[:256] = values.view(np.uint8)
    Probe({"UB": ub}).execute("whole_reduce_sum", [("UB", "float16", 512), ("UB", "float16", 0)], [128, 1, 1, 1, 8])
    assert ub[512:514].view(np.float16)[0] == 2174  # 2048 + 126 + (the lone neighbour of 2048 is lost)


@pytest.mark.parametrize(
    "kind, values, expected",
    [
        ("max", [1.0, NAN, 2.0], NAN),
        ("min", [1.0, INF, -INF], -INF),
        ("sum", [INF, -INF], NAN),
        ("sum", [-0.0, -0.0, -0.0], -0.0),
        ("max", [-0.0, 0.0], 0.0),
    ],
)
def test_reduction_of_special_values(kind, values, expected):
    ub = np.zeros(1024, np.uint8)
    ub[:256].view(np.float32)[:] = NAN  # lanes beyond the mask take no part
    ub[: 4 * len(values)] = np.array(values, np.float32).view(np.uint8)
    Probe({"UB": ub}).execute(f"whole_reduce_{kind}", [("UB", "float32", 512), ("UB", "float32", 0)], [len(values), 1, 1, 1, 8])
    assert_is(ub[512:516].view(np.float32)[0], expected)
