"""Elementwise nests: layouts, broadcasts, casts, conditions, over widths around every hardware limit."""

import numpy as np
import pytest
from harness import Lab, assign, parallel

from tilelang_ascend import ir
from tilelang_ascend.ir import tirx

WIDTHS = [1, 3, 8, 63, 64, 65, 100, 129]
RNG = np.random.default_rng(0)


def rand(*shape):
    return RNG.standard_normal(shape)


def close(got, want, dtype="float32"):
    tolerance = {"float32": 1e-6, "float16": 2e-3, "bfloat16": 1.6e-2}[dtype]
    np.testing.assert_allclose(np.asarray(got, np.float64), np.asarray(want, np.float64), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("n", WIDTHS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "int16"])
def test_add_1d(n, dtype):
    a, b = rand(n) * 10, rand(n) * 10
    lab = Lab(a=(dtype, a), b=(dtype, b), c=(dtype, np.zeros(n)))
    out = lab.run(parallel((n,), lambda i: assign(lab.c, lab.a[i] + lab.b[i], i)))
    want = out["a"].astype(np.float32) + out["b"].astype(np.float32)
    np.testing.assert_array_equal(out["c"].astype(np.float32), want.astype(out["c"].dtype).astype(np.float32))


@pytest.mark.parametrize("n", WIDTHS)
def test_2d_is_one_instruction(n):
    lab = Lab(a=("float32", rand(5, n)), b=("float32", rand(5, n)), c=("float32", np.zeros((5, n))))
    out = lab.run(parallel((5, n), lambda i, j: assign(lab.c, lab.a[i, j] * lab.b[i, j], i, j)))
    close(out["c"], out["a"] * out["b"])
    assert lab.instructions in (["mul"], ["mul_mask"])


@pytest.mark.parametrize("n", WIDTHS)
@pytest.mark.parametrize("rows", [1, 5, 70])
def test_row_column_and_scalar_broadcast(rows, n):
    lab = Lab(x=("float32", rand(rows, n)), r=("float32", rand(n)), c=("float32", rand(rows)), s=("float32", rand(1)),
              y=("float32", np.zeros((rows, n))))  # fmt: skip
    out = lab.run(parallel((rows, n), lambda i, j: assign(lab.y, (lab.x[i, j] + lab.r[j]) * lab.c[i] - lab.s[0], i, j)))
    close(out["y"], (out["x"] + out["r"]) * out["c"][:, None] - out["s"], "float32")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("n", [8, 63, 100])
def test_broadcast_of_16_bit(dtype, n):
    lab = Lab(x=(dtype, rand(9, n)), c=(dtype, rand(9)), r=(dtype, rand(n)), y=(dtype, np.zeros((9, n))))
    out = lab.run(parallel((9, n), lambda i, j: assign(lab.y, lab.x[i, j] * lab.c[i] + lab.r[j], i, j)))
    f = {k: v.astype(np.float32) for k, v in out.items()}
    close(f["y"], f["x"] * f["c"][:, None] + f["r"], dtype)


def test_sub_tile_leaves_the_rest_alone():
    lab = Lab(x=("float32", rand(6, 96)), y=("float32", np.full((6, 96), 7.0)))
    out = lab.run(parallel((4, 40), lambda i, j: assign(lab.y, lab.x[i + 1, j + 8] + 1.0, i + 2, j + 16)))
    want = np.full((6, 96), 7.0, np.float32)
    want[2:6, 16:56] = out["x"][1:5, 8:48] + 1
    np.testing.assert_array_equal(out["y"], want)


@pytest.mark.parametrize("shift", [1, 3, 8])
def test_shifted_reads(shift):
    n = 77
    lab = Lab(x=("float32", rand(n + shift)), y=("float32", np.zeros(n)))
    out = lab.run(parallel((n,), lambda i: assign(lab.y, lab.x[i + shift] - lab.x[i], i)))
    np.testing.assert_array_equal(out["y"], out["x"][shift:] - out["x"][:-shift])


def test_strided_reversed_and_transposed_reads():
    n = 50
    lab = Lab(
        x=("float32", rand(2 * n)),
        y=("float32", np.zeros(n)),
        m=("float32", rand(20, 33)),
        t=("float32", np.zeros((33, 20))),
    )
    out = lab.run(parallel((n,), lambda i: assign(lab.y, lab.x[2 * i] + lab.x[n - 1 - i], i)))
    np.testing.assert_array_equal(out["y"], out["x"][::2] + out["x"][n - 1 :: -1][:n])
    out = lab.run(parallel((33, 20), lambda i, j: assign(lab.t, lab.m[j, i], i, j)))
    np.testing.assert_array_equal(out["t"], out["m"].T)


@pytest.mark.parametrize("start", [0, 1, 5, 8, 9])
@pytest.mark.parametrize("step", [1, 2, 3])
def test_unaligned_and_strided_stores(start, step):
    n = 70
    lab = Lab(x=("float32", rand(n)), y=("float32", np.full(start + n * step + 3, 9.0)))
    out = lab.run(parallel((n,), lambda i: assign(lab.y, lab.x[i] * 2.0, start + step * i)))
    want = np.full_like(out["y"], 9.0)
    want[start : start + n * step : step] = out["x"] * 2
    np.testing.assert_array_equal(out["y"], want)


def test_unaligned_store_of_rows_and_of_a_column():
    lab = Lab(x=("float32", rand(5, 20)), y=("float32", np.full((5, 40), 9.0)), v=("float32", rand(5)))
    out = lab.run(parallel((5, 20), lambda i, j: assign(lab.y, lab.x[i, j], i, j + 3)))
    want = np.full((5, 40), 9.0, np.float32)
    want[:, 3:23] = out["x"]
    np.testing.assert_array_equal(out["y"], want)
    out = lab.run(parallel((5,), lambda i: assign(lab.y, lab.v[i], i, 3)))
    want = np.full((5, 40), 9.0, np.float32)
    want[:, 3] = out["v"]
    np.testing.assert_array_equal(out["y"], want)


@pytest.mark.parametrize("src", ["float32", "float16", "bfloat16", "int32", "int16", "int8", "uint8", "bool"])
@pytest.mark.parametrize("dst", ["float32", "float16", "bfloat16", "int32", "int16", "int8", "uint8", "bool", "int64"])
@pytest.mark.one_in(3)
def test_casts(src, dst):
    values = np.array([0, 1, 2, 3, 100, 127, 5, 64, 17], np.float64)
    if src == "bool":
        values = values % 2
    elif src != "uint8" and not (dst == "uint8" and "float" in src):  # float to unsigned of a negative number is undefined
        values = np.concatenate([values, -values])
    lab = Lab(x=(src, values), y=(dst, np.zeros(len(values))))
    out = lab.run(parallel((len(values),), lambda i: assign(lab.y, lab.x[i], i)))
    want = (values != 0) if dst == "bool" else values.astype(np.int64) % 256 if dst == "uint8" else values
    np.testing.assert_array_equal(out["y"].astype(np.float64), np.asarray(want, np.float64))


_ROUNDINGS = {
    "trunc": (lambda x: x, np.trunc), "floor": (tirx.floor, np.floor), "ceil": (tirx.ceil, np.ceil), "rint": (tirx.nearbyint, np.rint),
    "round": (tirx.round, lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x)),
}  # fmt: skip


@pytest.mark.parametrize("mode", _ROUNDINGS)
@pytest.mark.parametrize("dst", ["int8", "uint8", "int16", "int32"])
@pytest.mark.parametrize("src", ["float32", "float16", "bfloat16"])
def test_rounded_floats_become_integers_by_one_rounding(src, dst, mode):
    """Numbers next to whole and half ones, beyond every range, tiny ones; two casts from float32 to a byte, one to other integers."""
    near = np.array([0, 0.5, 1, 1.5, 2.5, 63.5, 64.5, 126.5, 127, 127.5, 128, 128.5, 254.5, 255.5, 2047.5, 2049, 32767, 40000], np.float32)
    beside = [np.nextafter(near, np.float32(side)) for side in (-np.inf, np.inf)]
    small = np.array([1e-3, 2.0**-25, 1e-30, 2.0**-126, 7e4, 1e9, np.inf], np.float32)
    x = np.concatenate([near, *beside, small])
    with np.errstate(over="ignore"):
        lab = Lab(x=(src, np.concatenate([x, -x, [np.nan]])), y=(dst, np.zeros(2 * len(x) + 1)))
    how, numpy = _ROUNDINGS[mode]
    out = lab.run(parallel((2 * len(x) + 1,), lambda i: assign(lab.y, how(lab.x[i]), i)))
    exact = numpy(lab.arrays["x"].astype(np.float64))
    want = np.clip(np.where(np.isnan(exact), 0, exact), np.iinfo(dst).min, np.iinfo(dst).max)
    np.testing.assert_array_equal(out["y"].astype(np.float64), want)
    widened = src == "bfloat16" and (dst != "int32" or mode != "trunc")
    assert lab.instructions == ["cast"] * (1 + widened + (src != "float16" and dst in ("int8", "uint8")))


def _products():
    """Statement, NumPy, instructions."""
    c = 1.7
    yield "axpy", lambda lab, i: lab.a[i] + lab.x[i] * c, lambda a, x, y: a + x * np.float32(c), ["axpy"]
    yield "product first", lambda lab, i: lab.x[i] * c + lab.a[i], lambda a, x, y: x * np.float32(c) + a, ["axpy"]
    yield "difference", lambda lab, i: lab.a[i] - lab.x[i] * c, lambda a, x, y: a - x * np.float32(c), ["axpy"]
    yield "of itself", lambda lab, i: lab.a[i] * c + lab.a[i], lambda a, x, y: a * np.float32(c) + a, ["axpy"]
    yield "square", lambda lab, i: lab.a[i] + lab.x[i] * lab.x[i], lambda a, x, y: a + x * x, ["mul_add_dst"]
    yield "two tiles", lambda lab, i: lab.a[i] + lab.x[i] * lab.y[i], lambda a, x, y: a + x * y, ["mul", "add"]
    yield (
        "used twice",
        lambda lab, i: lab.a[i] * (lab.a[i] + lab.x[i] * c),
        lambda a, x, y: a * (a + x * np.float32(c)),
        ["muls", "add", "mul"],
    )
    yield "elsewhere", lambda lab, i: lab.y[i] + lab.x[i] * c, lambda a, x, y: y + x * np.float32(c), ["muls", "add"]
    horner = lambda z: ((z * 0.5 + 1.5) * z + 2.5) * z + 3.5  # noqa: E731
    yield "Horner", lambda lab, i: horner(lab.x[i]), lambda a, x, y: horner(x), ["muls", "adds", *["duplicate", "fused_mul_add_mask"] * 2]


@pytest.mark.parametrize("name, value, numpy, instructions", list(_products()), ids=[p[0].replace(" ", "_") for p in _products()])
def test_sums_with_products(name, value, numpy, instructions):
    """One instruction where the place of the sum has one of its terms, with the same roundings."""
    n = 4096
    lab = Lab(a=("float32", rand(n)), x=("float32", rand(n)), y=("float32", rand(n)))
    out = lab.run(parallel((n,), lambda i: assign(lab.a, value(lab, i), i)))
    np.testing.assert_array_equal(out["a"], numpy(*(lab.arrays[k].astype(np.float32) for k in "axy")))
    assert lab.instructions == instructions


@pytest.mark.parametrize("n", [40, 64, 100])
def test_sums_with_products_of_rows_and_short_tiles(n):
    """Where the product is with a row, or the tile is short, the third source costs nothing."""
    lab = Lab(a=("float32", rand(6, n)), x=("float32", rand(6, n)), r=("float32", rand(6)), y=("float32", rand(6, n)))
    out = lab.run(parallel((6, n), lambda i, j: assign(lab.a, lab.a[i, j] + lab.x[i, j] * lab.r[i], i, j)))
    want = lab.arrays["a"] + lab.arrays["x"] * lab.arrays["r"][:, None]
    np.testing.assert_array_equal(out["a"], want)
    assert "add" not in lab.instructions and any(i.startswith("mul_add_dst") for i in lab.instructions)


def test_a_sum_in_the_place_of_shifted_lanes():
    """The product reads other lanes of the tile the sum goes to."""
    lab = Lab(a=("float32", rand(8, 64)), x=("float32", rand(8, 64)))
    out = lab.run(parallel((7, 64), lambda i, j: assign(lab.a, lab.a[i, j] + lab.a[i + 1, j] * 2.5, i, j)))
    want = lab.arrays["a"].copy()
    want[:7] += lab.arrays["a"][1:] * np.float32(2.5)
    np.testing.assert_array_equal(out["a"], want)


def test_integers_wrap_when_narrowed():
    values = np.array([300, -300, 70000, -70000, 2**31 - 1, -(2**31), 128, -129])
    lab = Lab(x=("int32", values), a=("int8", np.zeros(8)), b=("uint8", np.zeros(8)), c=("int16", np.zeros(8)))
    out = lab.run(parallel((8,), lambda i: [assign(lab.a, lab.x[i], i), assign(lab.b, lab.x[i], i), assign(lab.c, lab.x[i], i)]))
    for name, dtype in (("a", np.int8), ("b", np.uint8), ("c", np.int16)):
        np.testing.assert_array_equal(out[name], values.astype(np.int64).astype(dtype))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "int16", "int8", "uint8"])
@pytest.mark.parametrize("op", ["LT", "LE", "GT", "GE", "EQ", "NE"])
def test_compare_and_select(dtype, op):
    n = 70
    a, b = RNG.integers(0, 4, n), RNG.integers(0, 4, n)
    lab = Lab(a=(dtype, a), b=(dtype, b), y=(dtype, np.zeros(n)))
    node = getattr(tirx, op)
    out = lab.run(parallel((n,), lambda i: assign(lab.y, tirx.if_then_else(node(lab.a[i], lab.b[i]), lab.a[i], lab.b[i] + lab.b[i]), i)))
    numpy = {
        "LT": np.less,
        "LE": np.less_equal,
        "GT": np.greater,
        "GE": np.greater_equal,
        "EQ": np.equal,
        "NE": np.not_equal,
    }[op]
    np.testing.assert_array_equal(out["y"].astype(np.int64), np.where(numpy(a, b), a, b + b))


@pytest.mark.parametrize("n", [7, 64, 100])
def test_masks_combine_and_broadcast(n):
    rows = 12
    lab = Lab(x=("float32", rand(rows, n)), c=("float32", rand(rows)), y=("float32", np.zeros((rows, n))))

    def body(i, j):
        cond = tirx.Or(tirx.And(lab.x[i, j] > 0.0, lab.c[i] > 0.0), tirx.Not(lab.x[i, j] < 1.0))
        return assign(lab.y, tirx.if_then_else(cond, lab.x[i, j], -1.0), i, j)

    out = lab.run(parallel((rows, n), body))
    x, c = out["x"], out["c"][:, None]
    np.testing.assert_array_equal(out["y"], np.where(((x > 0) & (c > 0)) | ~(x < 1), x, -1).astype(np.float32))


def test_causal_mask():
    lab = Lab(x=("float32", rand(33, 40)), y=("float32", np.zeros((33, 40))))
    out = lab.run(parallel((33, 40), lambda i, j: assign(lab.y, tirx.if_then_else(i + 5 >= j, lab.x[i, j], float("-inf")), i, j)))
    i, j = np.indices((33, 40))
    np.testing.assert_array_equal(out["y"], np.where(i + 5 >= j, out["x"], -np.inf).astype(np.float32))


def test_guarded_store_and_else():
    n = 75
    lab = Lab(x=("float32", rand(n)), y=("float32", rand(n)))
    from tilelang_ascend.ir import if_then

    before = lab.arrays["y"].copy()
    out = lab.run(
        parallel(
            (n,),
            lambda i: if_then(lab.x[i] > 0.0, assign(lab.y, lab.x[i] * 2.0, i), if_then(lab.x[i] < -1.0, assign(lab.y, 5.0, i))),
        )
    )
    x = out["x"]
    np.testing.assert_array_equal(out["y"], np.where(x > 0, x * 2, np.where(x < -1, np.float32(5), before)))


def test_guarded_load_stays_inside():
    n = 40
    lab = Lab(x=("float32", rand(n)), y=("float32", np.zeros(n)))
    out = lab.run(parallel((n,), lambda i: assign(lab.y, tirx.if_then_else(i > 0, lab.x[i - 1], 0.0), i)))
    np.testing.assert_array_equal(out["y"], np.concatenate([[0], out["x"][:-1]]).astype(np.float32))


def test_gather_by_index():
    n = 60
    index = RNG.integers(0, 200, n)
    lab = Lab(x=("float32", rand(200)), k=("int32", index), y=("float32", np.zeros(n)))
    out = lab.run(parallel((n,), lambda i: assign(lab.y, lab.x[lab.k[i]] + 1.0, i)))
    np.testing.assert_array_equal(out["y"], out["x"][index] + 1)


def test_index_values():
    lab = Lab(y=("int32", np.zeros((5, 20))), z=("float32", np.zeros((5, 20))))
    out = lab.run(parallel((5, 20), lambda i, j: [assign(lab.y, i * 100 + j * 3 + 7, i, j), assign(lab.z, (i + j) // 3 * 2, i, j)]))
    i, j = np.indices((5, 20))
    np.testing.assert_array_equal(out["y"], i * 100 + j * 3 + 7)
    np.testing.assert_array_equal(out["z"], (i + j) // 3 * 2)


def test_leaky_relu_is_one_instruction():
    lab = Lab(x=("float32", rand(4, 64)), y=("float32", np.zeros((4, 64))))
    out = lab.run(
        parallel(
            (4, 64),
            lambda i, j: assign(lab.y, tirx.if_then_else(lab.x[i, j] > 0.0, lab.x[i, j], lab.x[i, j] * 0.25), i, j),
        )
    )
    close(out["y"], np.where(out["x"] > 0, out["x"], out["x"] * 0.25))
    assert lab.instructions == ["leaky_relu"]


def test_chain_works_in_place_without_temporaries():
    lab = Lab(x=("float32", rand(8, 64)), m=("float32", rand(8, 64)), y=("float32", np.zeros((8, 64))))
    out = lab.run(parallel((8, 64), lambda i, j: assign(lab.y, tirx.exp(lab.x[i, j] - lab.m[i, j]) * 2.0, i, j)))
    close(out["y"], np.exp(out["x"] - out["m"]) * 2)
    assert lab.instructions == ["sub", "exp", "muls"] and not lab.temps


def test_common_subexpressions_are_computed_once():
    lab = Lab(x=("float32", rand(64)), y=("float32", np.zeros(64)), z=("float32", np.zeros(64)))
    out = lab.run(parallel((64,), lambda i: [assign(lab.y, tirx.exp(lab.x[i]) + 1.0, i), assign(lab.z, tirx.exp(lab.x[i]) * 2.0, i)]))
    close(out["z"], np.exp(out["x"]) * 2)
    close(out["y"], np.exp(out["x"]) + 1)
    assert lab.instructions.count("exp") == 1


def test_swap_keeps_old_values():
    from tilelang_ascend.ir import Bind, Var

    a, b = rand(100), rand(100)
    lab = Lab(a=("float32", a), b=("float32", b))
    t = Var("t", "float32")
    out = lab.run(parallel((100,), lambda i: [Bind(t, lab.a[i]), assign(lab.a, lab.b[i], i), assign(lab.b, t, i)]))
    close(out["a"], b)
    close(out["b"], a)


def test_fills():
    lab = Lab(a=("float32", rand(5, 33)), b=("int8", np.ones(45)), c=("bool", np.zeros(20)), d=("int64", np.zeros(9)))
    close(lab.run(parallel((5, 33), lambda i, j: assign(lab.a, 2.5, i, j)))["a"], np.full((5, 33), 2.5))
    assert (lab.run(parallel((45,), lambda i: assign(lab.b, -3, i)))["b"] == -3).all()
    assert (lab.run(parallel((20,), lambda i: assign(lab.c, True, i)))["c"] == 1).all()
    assert (lab.run(parallel((9,), lambda i: assign(lab.d, -7, i)))["d"] == -7).all()


@pytest.mark.parametrize("n", [0, 1, 40, 64])
def test_extentknown_at_run_time(n):
    """The tile bounds the nest, a mask keeps the rest."""
    from tilelang_ascend.ir import Var

    count = Var("n", "int32")
    lab = Lab(x=("float32", rand(64)), y=("float32", np.full(64, 9.0)))
    out = lab.run(parallel((count,), lambda i: assign(lab.y, lab.x[i] * 2.0, i)), {"n": n})
    np.testing.assert_array_equal(out["y"], np.where(np.arange(64) < n, out["x"] * 2, np.float32(9)))


def test_what_has_no_vector_form_is_a_warned_scalar_loop():
    lab = Lab(x=("float32", rand(20)), k=("int32", np.arange(20)[::-1]), y=("float32", np.zeros(20)))
    out = lab.run(parallel((20,), lambda i: assign(lab.y, lab.x[i] + 1.0, lab.k[i])), expect_scalar=True)
    np.testing.assert_array_equal(out["y"], out["x"][::-1] + 1)
    assert len(lab.warnings) == 1 and "index of the store to `y` is data" in lab.warnings[0]


def test_scattered_values_are_computed_on_vectors():
    order = np.random.default_rng(1).permutation(40)
    lab = Lab(x=("float32", rand(40)), k=("int32", order), y=("float32", np.zeros(40)))
    out = lab.run(parallel((40,), lambda i: assign(lab.y, tirx.exp(lab.x[i]), lab.k[i])), expect_scalar=True)
    want = np.zeros(40)
    want[order] = np.exp(out["x"])
    np.testing.assert_allclose(out["y"], want, rtol=1e-5)
    assert lab.instructions.count("exp") == 1


def test_functions_in_scalar_loops_are_computed_lane_by_lane():
    """A conditional scatter has no vector form; the function runs on one lane of the vector unit."""
    lab = Lab(x=("float32", rand(20)), k=("int32", np.arange(20)[::-1]), y=("float32", np.zeros(20)))
    body = lambda i: ir.IfThenElse(i < 7, assign(lab.y, tirx.exp(lab.x[i]) + 1.0, lab.k[i]), None)
    out = lab.run(parallel((20,), body), expect_scalar=True)
    want = np.zeros(20)
    want[::-1][:7] = np.exp(out["x"][:7]) + 1
    np.testing.assert_allclose(out["y"], want, rtol=1e-5)
    assert len(lab.warnings) == 1 and "scalar loops" in lab.warnings[0]


@pytest.mark.parametrize("dtype", ["int32", "int16", "int8"])
@pytest.mark.parametrize("divisor", [1, 2, 7, -3, 1000])
def test_integer_division_is_exact(dtype, divisor):
    top = np.iinfo(dtype).max
    if abs(divisor) > top:
        return
    values = np.concatenate([RNG.integers(-top - 1, top, 60), [top, -top - 1, 0, -1, 1, divisor, -divisor]])
    lab = Lab(x=(dtype, values), q=(dtype, np.zeros(len(values))), r=(dtype, np.zeros(len(values))))
    d = tirx.const(divisor, dtype)
    out = lab.run(
        parallel(
            (len(values),),
            lambda i: [assign(lab.q, tirx.FloorDiv(lab.x[i], d), i), assign(lab.r, tirx.FloorMod(lab.x[i], d), i)],
        )
    )
    np.testing.assert_array_equal(out["q"], (values // divisor).astype(dtype))
    np.testing.assert_array_equal(out["r"], values % divisor)


def test_serial_loop_and_lane_variable_inside():
    """acc = 0; for k in range(3): acc = acc * 2 + x[k, i]; y[i] = acc"""
    from tilelang_ascend.ir import AllocBuffer, BufferLoad, BufferStore, Var, decl_buffer, imm, loop

    acc, k = decl_buffer((1,), "float32", "acc", scope="local.var"), Var("k", "int32")
    lab = Lab(x=("float32", rand(3, 50)), y=("float32", np.zeros(50)))

    def body(i):
        here = BufferLoad(acc, [imm(0)])
        return [
            AllocBuffer(acc),
            BufferStore(acc, tirx.const(0.0, "float32"), [imm(0)]),
            loop(k, 3, BufferStore(acc, here * 2.0 + lab.x[k, i], [imm(0)])),
            assign(lab.y, here, i),
        ]

    out = lab.run(parallel((50,), body))
    x = out["x"]
    close(out["y"], (x[0] * 2 + x[1]) * 2 + x[2])


def test_scalar_branch_inside():
    from tilelang_ascend.ir import Var, if_then

    flag = Var("flag", "int32")
    lab = Lab(x=("float32", rand(50)), y=("float32", np.zeros(50)))
    nest = parallel((50,), lambda i: if_then(flag > 0, assign(lab.y, lab.x[i] + 1.0, i), assign(lab.y, lab.x[i] - 1.0, i)))
    for value in (0, 1):
        out = lab.run(nest, {"flag": value})
        close(out["y"], out["x"] + (1 if value else -1))


def test_scalar_loops_select_lazily():
    """Element -1 must not be read in the lane where the condition is false."""
    lab = Lab(x=("float32", rand(20)), k=("int32", np.arange(20)[::-1]), y=("float32", np.zeros(20)))
    value = lambda i: tirx.if_then_else(i > 0, lab.x[i - 1], tirx.const(0.0, "float32"))
    out = lab.run(parallel((20,), lambda i: assign(lab.y, value(i), lab.k[i])), expect_scalar=True)
    np.testing.assert_array_equal(out["y"][::-1], np.concatenate([[0], out["x"][:-1]]).astype(np.float32))


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_subtracted_zeros_have_a_sign(zero):
    x = np.array([0.0, -0.0, 3.0, np.nan], np.float32)
    lab = Lab(x=("float32", x), y=("float32", np.ones(4)))
    got = lab.run(parallel((4,), lambda i: assign(lab.y, tirx.Sub(lab.x[i], tirx.const(zero, "float32")), i)))["y"]
    np.testing.assert_array_equal(np.signbit(got[:3]), np.signbit(x[:3] - np.float32(zero)))


def test_a_slope_that_does_not_keep_zeros_is_a_product():
    x = np.array([0.0, -0.0, 3.0, -3.0, np.nan], np.float32)
    for compare, slope in ((tirx.GE, -2.0), (tirx.GT, -2.0), (tirx.GT, np.inf)):
        lab = Lab(x=("float32", x), y=("float32", np.ones(5)))
        zero = tirx.const(0.0, "float32")
        got = lab.run(
            parallel(
                (5,), lambda i: assign(lab.y, tirx.Select(compare(lab.x[i], zero), lab.x[i], lab.x[i] * tirx.const(slope, "float32")), i)
            )
        )["y"]
        with np.errstate(invalid="ignore"):
            want = np.where(x >= 0 if compare is tirx.GE else x > 0, x, x * np.float32(slope))
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got[:4]), np.signbit(want[:4]))


@pytest.mark.parametrize("first, second", [(4.0, 0.25), (0.25, 4.0), (3.0, 2.0**-14)])
def test_products_are_rounded_one_after_the_other(first, second):
    x = np.array([3e38, -1e38, 1.0, 1e-38, 1e-45], np.float32)
    lab = Lab(x=("float32", x), y=("float32", np.zeros(5)))
    factors = [tirx.const(f, "float32") for f in (first, second)]
    got = lab.run(parallel((5,), lambda i: assign(lab.y, lab.x[i] * factors[0] * factors[1], i)))["y"]
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(got, x * np.float32(first) * np.float32(second))
