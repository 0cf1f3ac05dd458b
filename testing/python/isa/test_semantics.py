"""Values: special cases of the vendor's tables, casts, reductions, layouts."""

import ml_dtypes
import numpy as np
import pytest

from tilelang_ascend.isa import TABLE, Space, rules
from tilelang_ascend.isa.semantics import Machine, execute, execute_stream
from tilelang_ascend.isa.semantics.memory import np_dtype
from tilelang_ascend.isa.semantics.number import to_float

INF, NAN = np.inf, np.nan
MAX16 = 65504.0


def run(name, inputs, args, out_dtype, attrs=None, out=None, size=None):
    """Execute a vector instruction with operands d, inputs… and return d."""
    ub = np.zeros(1 << 16, np.uint8)
    operands, offset = [], 1 << 15
    for values, dtype in inputs:
        raw = np.asarray(values).astype(np_dtype(dtype)).view(np.uint8)
        ub[offset : offset + raw.size] = raw
        operands.append(("UB", dtype, offset))
        offset += 4096
    if out is not None:
        raw = np.asarray(out).astype(np_dtype(out_dtype)).view(np.uint8)
        ub[: raw.size] = raw
    execute(name, {"UB": ub}, [("UB", out_dtype, 0), *operands], args, attrs or {})
    n = len(inputs[0][0]) if size is None else size
    return ub[: n * np_dtype(out_dtype).itemsize].view(np_dtype(out_dtype))


def same(actual, expected):
    """Equal values, equal signs of zero, NaN where NaN is expected."""
    actual, expected = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
    np.testing.assert_array_equal(actual, expected)
    np.testing.assert_array_equal(np.signbit(actual[expected == 0]), np.signbit(expected[expected == 0]))


BINARY_EDGES = [
    # op, dtype, s0, s1, result (vendor tables, INF/NAN mode)
    (
        "max",
        "float16",
        [0.0, -0.0, -0.0, NAN, 1.0, -MAX16],
        [-0.0, 0.0, -0.0, 1.0, NAN, -INF],
        [0.0, 0.0, -0.0, NAN, NAN, -MAX16],
    ),
    (
        "min",
        "float16",
        [0.0, -0.0, 0.0, NAN, 1.0, -MAX16],
        [-0.0, 0.0, 0.0, 1.0, NAN, -INF],
        [-0.0, -0.0, 0.0, NAN, NAN, -INF],
    ),
    ("add", "float16", [MAX16, INF, -0.0, MAX16], [MAX16, -INF, -0.0, -MAX16], [INF, NAN, -0.0, 0.0]),
    ("sub", "float32", [-0.0, -0.0, INF], [0.0, -0.0, INF], [-0.0, 0.0, NAN]),
    ("mul", "float16", [MAX16, 0.0, -MAX16], [MAX16, INF, 0.0], [INF, NAN, -0.0]),
    ("div", "float16", [0.0, 1.0, -1.0, INF], [0.0, 0.0, 0.0, INF], [NAN, INF, -INF, NAN]),
    ("add", "int16", [32767, -32768], [32767, -32768], [-2, 0]),
    ("sub", "int32", [-(2**31)], [2**31 - 1], [1]),
    ("mul", "int32", [2**31 - 1], [2**31 - 1], [1]),
]


@pytest.mark.parametrize("name, dtype, a, b, expected", BINARY_EDGES)
def test_binary_special_values(name, dtype, a, b, expected):
    same(run(name, [(a, dtype), (b, dtype)], [len(a)], dtype), expected)


UNARY_EDGES = [
    ("exp", "float16", [-MAX16, MAX16, -0.0, NAN, INF, -INF], [0.0, INF, 1.0, NAN, INF, 0.0]),
    ("ln", "float32", [-1.0, 0.0, -0.0, INF], [NAN, -INF, -INF, INF]),
    ("sqrt", "float16", [-1.0, -0.0, INF], [NAN, -0.0, INF]),
    ("rsqrt", "float32", [0.0, -0.0, INF, -1.0], [INF, -INF, 0.0, NAN]),
    ("reciprocal", "float16", [0.0, -0.0, -INF, INF], [INF, -INF, -0.0, 0.0]),
    ("abs", "float32", [-0.0, -INF, NAN], [0.0, INF, NAN]),
    ("relu", "float32", [-0.0, NAN, -INF, 2.0], [0.0, NAN, 0.0, 2.0]),
    ("relu", "int32", [-5, 7], [0, 7]),
    ("not", "int16", [0, -1], [-1, 0]),
]


@pytest.mark.parametrize("name, dtype, a, expected", UNARY_EDGES)
def test_unary_special_values(name, dtype, a, expected):
    same(run(name, [(a, dtype)], [len(a)], dtype), expected)


def test_leaky_relu_looks_at_the_sign_bit():
    a = [0.0, -0.0, -2.0, -INF, INF]
    same(run("leaky_relu", [(a, "float16")], [-1.0, 5], "float16"), [0.0, 0.0, 2.0, INF, INF])
    same(run("leaky_relu", [([0.0, -0.0], "float16")], [NAN, 2], "float16"), [0.0, NAN])


def test_multiply_add_rounds_the_product_first():
    a = [MAX16, 1 + 2**-10]
    same(run("axpy", [(a, "float16")], [MAX16, 1], "float16", out=[-INF])[:1], [NAN])
    product = np.float16((1 + 2**-10) ** 2)
    got = run("mul_add_dst", [([1 + 2**-10], "float16"), ([1 + 2**-10], "float16")], [1], "float16", out=[-1.0])
    same(got, [np.float16(product - np.float16(1.0))])


def test_shifts():
    same(run("shift_right", [([-8, 8], "int16")], [1, 2], "int16"), [-4, 4])
    same(run("shift_right", [([0xFFFF], "uint16")], [4, 1], "uint16"), [0x0FFF])
    same(run("shift_left", [([3], "int16")], [15, 1], "int16"), [-32768])


NEAREST = [2.5, -2.5, 3.5, 0.5, -0.5, 1.2, -1.2, 1.8]
CASTS = [
    ("rint", [2, -2, 4, 0, 0, 1, -1, 2]),
    ("floor", [2, -3, 3, 0, -1, 1, -2, 1]),
    ("ceil", [3, -2, 4, 1, 0, 2, -1, 2]),
    ("round", [3, -3, 4, 1, -1, 1, -1, 2]),
    ("trunc", [2, -2, 3, 0, 0, 1, -1, 1]),
]


@pytest.mark.parametrize("mode, expected", CASTS)
def test_round_modes(mode, expected):
    same(run("cast", [(NEAREST, "float32")], [8], "int32", {"round": mode}), expected)
    integral = np.where(np.asarray(expected) == 0, 0.0, expected)
    same(run("cast", [(NEAREST, "float32")], [8], "float32", {"round": mode}), integral)  # -0.5 -> +0


@pytest.mark.parametrize(
    "source, destination, mode, values, expected",
    [
        ("float32", "int32", "rint", [3e38, -3e38, NAN, INF, -INF], [2**31 - 1, -(2**31), 0, 2**31 - 1, -(2**31)]),
        ("float32", "int16", "trunc", [40000.0, -40000.0, NAN], [32767, -32768, 0]),
        ("float16", "int8", "rint", [300.0, -300.0, NAN], [127, -128, 0]),
        ("float16", "uint8", "none", [300.0, -1.0, 2.5], [255, 0, 2]),
        ("float32", "int64", "rint", [3e38, NAN], [2**63 - 1, 0]),
        ("int32", "int16", "none", [70000, -70000, 5], [32767, -32768, 5]),
        ("int64", "int32", "none", [2**40, -(2**40)], [2**31 - 1, -(2**31)]),
        ("int32", "float32", "rint", [2**24 + 1, 2**24 + 3], [2**24, 2**24 + 4]),
        ("int32", "float32", "floor", [2**24 + 3], [2**24 + 2]),
        ("float32", "float16", "rint", [1e6, 1 + 2**-11, 6e-8, -0.0], [INF, 1.0, 2**-24, -0.0]),
        ("float32", "float16", "odd", [1 + 2**-12], [1 + 2**-10]),
        ("float32", "float16", "trunc", [1 + 2**-10 + 2**-11], [1 + 2**-10]),
        ("float32", "bfloat16", "rint", [1 + 2**-8, 3.4e38], [1.0, INF]),
        ("float32", "bfloat16", "ceil", [1 + 2**-9], [1 + 2**-7]),
        ("bfloat16", "float32", "none", [1.5, -0.0, NAN], [1.5, -0.0, NAN]),
        ("bfloat16", "int32", "round", [2.5, -2.5], [3, -3]),
        ("float16", "float32", "none", [6e-8, -INF], [2**-24, -INF]),
    ],
)
def test_cast_values(source, destination, mode, values, expected):
    call = TABLE["cast"].bind((destination, source), (1,), {"round": mode})
    assert rules.check(call) is None
    same(run("cast", [(values, source)], [len(values)], destination, {"round": mode}), expected)


def test_casts_are_those_of_the_probe():
    """22 pairs on C220: those the headers accept, less int4 and int32 -> half, which needs a scale register."""
    pairs = {(s, d) for d, s in TABLE["cast"].signatures["c220"]}
    assert len(pairs) == 22
    assert ("float16", "bfloat16") not in pairs and ("int32", "float16") not in pairs and ("int8", "int32") not in pairs


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_rounding_to_nearest_agrees_with_numpy(dtype):
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.standard_normal(4000) * 10.0 ** rng.integers(-9, 4, 4000), [0.0, -0.0, NAN, 1e-7, 440.0]])
    values = values.astype(np.float32)  # ml_dtypes rounds doubles twice, floats once
    values = values[np.abs(values) < 400] if dtype == "float8_e4m3fn" else values
    expected = values.astype(np_dtype(dtype)).astype(np.float64)
    same(to_float(values.astype(np.float64), dtype, "rint").astype(np.float64), expected)


@pytest.mark.parametrize("mode", ["lt", "gt", "eq", "le", "ge", "ne"])
def test_comparison_with_nan_is_false_in_every_mode(mode):
    a = [NAN, 1.0, NAN] + [0.0] * 61
    b = [1.0, NAN, NAN] + [0.0] * 61
    bits = np.unpackbits(run("compare", [(a, "float32"), (b, "float32")], [64], "uint8", {"mode": mode}, size=8), bitorder="little")
    assert not bits[:3].any()
    assert bits[3:].all() == (mode in ("eq", "le", "ge"))


def test_select_takes_bits_from_the_low_end():
    mask = np.array([0b00000101, 0, 0, 0, 0, 0, 0, 0x80], np.uint8)
    a, b = np.arange(64.0), -np.arange(64.0)
    got = run("select", [(mask, "uint8"), (a, "float32"), (b, "float32")], [64], "float32", {"mode": "tensor_tensor"}, size=64)
    expected = b.copy()
    expected[[0, 2, 63]] = a[[0, 2, 63]]
    np.testing.assert_array_equal(got, expected)


def test_masked_lanes_keep_the_destination():
    out = np.full(64, 7.0)
    args = [0, 0b1010, 1, 1, 1, 8, 8]
    got = run("exp_mask", [(np.zeros(64), "float32")], args, "float32", out=out)
    expected = out.copy()
    expected[[1, 3]] = 1.0
    np.testing.assert_array_equal(got, expected)


def test_repeats_see_the_results_of_earlier_ones():
    """dst = src1 with repeat stride 0 accumulates: the idiom for sums over repeats."""
    ub = np.zeros(8192, np.uint8)
    data = np.arange(256, dtype=np.float32)
    ub[4096 : 4096 + 1024] = data.view(np.uint8)
    args = [0, -1, 4, 1, 1, 1, 0, 8, 0]
    execute("add_mask", {"UB": ub}, [("UB", "float32", 0), ("UB", "float32", 4096), ("UB", "float32", 0)], args)
    np.testing.assert_array_equal(ub[:256].view(np.float32), data.reshape(4, 64).sum(0))


def test_whole_reduce_is_a_tree_of_neighbours():
    values = np.random.default_rng(1).standard_normal(64).astype(np.float16)
    got = run("whole_reduce_sum", [(values, "float16")], [64, 1, 1, 1, 8], "float16", size=1)
    level = values
    while level.size > 1:
        level = (level[0::2].astype(np.float64) + level[1::2]).astype(np.float16)
    same(got, level)
    assert np.isnan(run("whole_reduce_max", [([1.0, NAN, 3.0], "float32")], [3, 1, 1, 1, 8], "float32", size=1)[0])
    same(run("whole_reduce_min", [([1.0, -4.0, 3.0, -9.0], "float32")], [3, 1, 1, 1, 8], "float32", size=1), [-4.0])


def test_block_reduce_writes_only_blocks_with_active_lanes():
    got = run("block_reduce_max", [(np.arange(64.0), "float32")], [1, 20, 1, 1, 8], "float32", out=np.full(8, -1.0), size=8)
    same(got, [7, 15, 19, -1, -1, -1, -1, -1])


def test_sort_is_descending_and_stable():
    scores = np.array([1, 3, 2, 3] + [0] * 28, np.float32)
    index = np.arange(32, dtype=np.uint32)
    ub = np.zeros(4096, np.uint8)
    ub[1024:1152], ub[2048:2176] = scores.view(np.uint8), index.view(np.uint8)
    execute("sort32", {"UB": ub}, [("UB", "float32", 0), ("UB", "float32", 1024), ("UB", "uint32", 2048)], [1])
    pairs = ub[:256].reshape(32, 8)
    assert pairs[:, 4:].copy().view(np.uint32).ravel()[:4].tolist() == [1, 3, 2, 0]


def test_pad_and_row_strides_of_gm_to_ub():
    gm, ub = np.arange(64, dtype=np.float32), np.zeros(1024, np.uint8)
    execute(
        "copy_gm_to_ub",
        {"GM": gm.view(np.uint8), "UB": ub},
        [("UB", "float32", 0), ("GM", "float32", 4)],
        [2, 12, 28, 1, 1, 2, 3, 9.0],
    )
    rows = ub.view(np.float32).reshape(-1, 8)
    assert rows[0].tolist() == [9, 9, 1, 2, 3, 9, 9, 9] and rows[2].tolist() == [9, 9, 11, 12, 13, 9, 9, 9]
    assert not rows[1].any(), "one block of gap between the rows"


def test_atomics_combine_with_memory():
    gm, ub = np.array([1, 5, NAN, 0], np.float32), np.array([2, 3, 1, -0.0], np.float32)
    machine = Machine({Space.GM: gm.view(np.uint8), Space.UB: np.concatenate([ub.view(np.uint8), np.zeros(64, np.uint8)])})
    copy = ([("GM", "float32", 0), ("UB", "float32", 0)], [1, 16, 0, 0])
    execute("set_atomic", {}, attrs={"op": "max", "dtype": "float32"}, machine=machine)
    execute("copy_ub_to_gm", {}, *copy, machine=machine)
    same(gm, [2, 5, NAN, 0.0])
    execute("set_atomic", {}, attrs={"op": "none", "dtype": "float32"}, machine=machine)
    execute("copy_ub_to_gm", {}, *copy, machine=machine)
    same(gm, [2, 3, 1, -0.0])


def test_out_of_bounds_raises():
    with pytest.raises(IndexError, match="operand s1"):
        execute(
            "add",
            {"UB": np.zeros(64, np.uint8)},
            [("UB", "float32", 0), ("UB", "float32", 0), ("UB", "float32", 32)],
            [9],
        )


def test_stream_form_is_the_same_call():
    from isa_samples import memories, sample

    rng = np.random.default_rng(5)
    for name in ("adds_mask", "cast", "copy_gm_to_ub", "select_scalar", "mmad"):
        for _ in range(5):
            case, state = sample(TABLE[name], rng), memories(rng)
            other = {space: m.copy() for space, m in state.items()}
            execute(name, state, case.operands, case.args, case.attrs)
            execute_stream(list(TABLE).index(name), case.words, Machine(other))
            assert all(np.array_equal(state[s], other[s]) for s in state), case


# ---- the way of a matrix: GM -> L1 -> L0 -> cube -> GM ------------------------------------------------------------


def gemm(dtype, m, n, k, trans_a, trans_b, generation, out="float32"):
    """C of one tile through the real sequence of instructions."""
    size, c0 = np_dtype(dtype).itemsize, 32 // np_dtype(dtype).itemsize
    rng = np.random.default_rng(0)
    make = lambda *shape: (rng.integers(-8, 8, shape) / (1 if dtype == "int8" else 4)).astype(np_dtype(dtype))  # noqa: E731
    a, b = make(*((k, m) if trans_a else (m, k))), make(*((n, k) if trans_b else (k, n)))
    up = lambda x, unit: -(-x // unit) * unit  # noqa: E731
    gm = np.concatenate([a.reshape(-1).view(np.uint8), b.reshape(-1).view(np.uint8)])
    acc = "int32" if dtype == "int8" else "float32"
    mem = {s: np.zeros(1 << 17, np.uint8) for s in Space}
    mem[Space.GM] = np.concatenate([gm, np.zeros(m * n * 4, np.uint8)])
    machine = Machine(mem, l0a_layout="zZ" if generation == "c220" else "nZ")
    b_l1 = 1 << 16
    for at, head, matrix in ((0, 0, a), (a.nbytes, b_l1, b)):
        rows, cols = matrix.shape
        args = [1, rows, cols, 0, cols, up(rows, 32), 1, 0]
        execute("copy_gm_to_l1_nd2nz", {}, [("L1", dtype, head), ("GM", dtype, at)], args, machine=machine)
    load = _load_c220 if generation == "c220" else _load_3510
    load("a", dtype, m, k, not trans_a, 0, c0, size, machine)
    load("b", dtype, n, k, trans_b, b_l1, c0, size, machine)
    operands = [("L0C", acc, 0), ("L0A", dtype, 0), ("L0B", dtype, 0)]
    execute("mmad", {}, operands, [m, n, k, 0, 0, 1], machine=machine)
    c_at = gm.size
    execute(
        "fixpipe_to_gm",
        {},
        [("GM", acc, c_at), ("L0C", acc, 0)],
        [n, m, up(m, 16), n, 0],
        {"quant": "none"},
        machine=machine,
    )
    wide = np.float64 if dtype != "int8" else np.int64
    left, right = (a.T if trans_a else a).astype(wide), (b.T if trans_b else b).astype(wide)
    return mem[Space.GM][c_at:].view(np_dtype(acc)).reshape(m, n), left @ right


def _load_c220(side, dtype, rows, k, rows_first, head, c0, size, machine):
    """L0A: Zz, fractals of one row block next to each other; L0B: Zn, fractals of one k block next to each other."""
    row_blocks, k_blocks = -(-rows // 16), -(-k // c0)
    pitch = -(-(rows if rows_first else k) // 32) * 2  # fractals between column groups in L1
    to, space = f"load_l0{side}", f"L0{side.upper()}"
    if rows_first:
        for r in range(row_blocks):
            for j in range(k_blocks):
                at = r * k_blocks + j if side == "a" else j * row_blocks + r
                args = [j * pitch + r, 1, 1, 0, 0]
                execute(to, {}, [(space, dtype, at * 512), ("L1", dtype, head)], args, machine=machine)
        return
    if size == 2:  # L1 holds k x rows: fractal (k block j, row block r) is turned on the way
        for r in range(row_blocks):
            for j in range(k_blocks):
                at = r * k_blocks + j if side == "a" else j * row_blocks + r
                args = [r * pitch + j, 1, 1, 0, 1]
                execute(to, {}, [(space, dtype, at * 512), ("L1", dtype, head)], args, machine=machine)
        return
    assert size == 1 and side == "b"
    for j in range(k_blocks):  # squares of 32 x 32: two fractals below each other in L1, two n blocks in L0B
        for r in range(-(-rows // 32)):
            at = j * row_blocks + 2 * r
            args = [0, 1, 1, 0, 0]
            source = head + (r * pitch + 2 * j) * 512
            execute("load_l0b_transpose", {}, [(space, dtype, at * 512), ("L1", dtype, source)], args, machine=machine)


def _load_3510(side, dtype, rows, k, rows_first, head, c0, size, machine):
    """L0A is Nz (fractals of one k block next to each other), as L0B on both generations."""
    assert rows_first
    row_blocks, k_blocks = -(-rows // 16), -(-k // c0)
    pitch = -(-rows // 32) * 2
    args = [0, 0, row_blocks, k_blocks, pitch, row_blocks, 0]
    execute(f"load_l0{side}_v2", {}, [(f"L0{side.upper()}", dtype, 0), ("L1", dtype, head)], args, machine=machine)


@pytest.mark.parametrize("m, n, k", [(16, 16, 16), (33, 48, 40), (1, 17, 65)])
@pytest.mark.parametrize("trans_a, trans_b", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gemm_c220(dtype, m, n, k, trans_a, trans_b):
    got, expected = gemm(dtype, m, n, k, trans_a, trans_b, "c220")
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype, trans_b", [("int8", 0), ("int8", 1), ("float32", 1)])
def test_gemm_c220_other_dtypes(dtype, trans_b):
    got, expected = gemm(dtype, 33, 64, 64, 0, trans_b, "c220")
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float16", "int8", "float8_e4m3fn"])
def test_gemm_3510(dtype):
    got, expected = gemm(dtype, 33, 48, 70, 0, 1, "3510")
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-4)


def test_fixpipe_converts_and_clamps():
    l0c = np.zeros(1024, np.uint8)
    l0c.view(np.float32)[:4] = [-1.0, 1 + 2**-11, 1e6, NAN]
    gm = np.zeros(64, np.uint8)
    execute(
        "fixpipe_to_gm",
        {"L0C": l0c, "GM": gm},
        [("GM", "float16", 0), ("L0C", "float32", 0)],
        [4, 1, 16, 4, 1],
        {"quant": "f32_f16"},
    )
    same(gm[:8].view(np.float16), [0.0, 1.0, INF, NAN])
    execute(
        "fixpipe_to_gm",
        {"L0C": l0c, "GM": gm},
        [("GM", "bfloat16", 0), ("L0C", "float32", 0)],
        [4, 1, 16, 4, 0],
        {"quant": "f32_bf16"},
    )
    same(gm[:8].view(ml_dtypes.bfloat16).astype(np.float32), [-1.0, 1.0, 999424.0, NAN])
