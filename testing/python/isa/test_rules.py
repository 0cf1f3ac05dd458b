"""Every guard of the table, shown to let a legal call pass and to stop an illegal one."""

import pytest

from tilelang_ascend.isa import TABLE, rules

F32, F16, I32, BF16 = "float32", "float16", "int32", "bfloat16"


def bind(name, dtypes, args, generation="c220", **attrs):
    record = TABLE[name]
    return record.bind(dtypes, args, attrs, generation)


def gm_to_ub(dtype=F32, block_count=1, block_len=64, left=0, right=0, value=0.0):
    return bind("copy_gm_to_ub", (dtype, dtype), (block_count, block_len, 0, 0, 1, left, right, value))


GOOD_MASK = (0, 2**64 - 1, 1, 1, 1, 1, 8, 8, 8)

CASES = [
    # legal call, illegal call, words of the message
    (bind("add", (F32,) * 3, (64,)), bind("add", (BF16,) * 3, (64,)), "not supported on c220"),
    (bind("add", (BF16,) * 3, (64,), "3510"), bind("add", (F32, F32, F16), (64,), "3510"), "not supported on 3510"),
    (
        bind("load_l0a", (F16, F16), (0, 1, 1, 0, 0)),
        bind("load_l0a", (F16, F16), (0, 1, 1, 0, 0), "3510"),
        "does not exist",
    ),
    (
        bind("add_mask", (F32,) * 3, GOOD_MASK),
        bind("add_mask", (F32,) * 3, (0, 1, 256, *GOOD_MASK[3:])),
        "outside 0..255",
    ),
    (
        bind("add_mask", (F16,) * 3, (1, 0, *GOOD_MASK[2:])),
        bind("add_mask", (F32,) * 3, (1, 0, *GOOD_MASK[2:])),
        "lane 64",
    ),
    (bind("add_mask", (F32,) * 3, GOOD_MASK), bind("add_mask", (F32,) * 3, (0, 0, *GOOD_MASK[2:])), "mask is empty"),
    (gm_to_ub(block_count=4095), gm_to_ub(block_count=4096), "block_count=4096 is outside 0..4095"),
    (gm_to_ub(block_len=2097148), gm_to_ub(block_len=2097152), "outside 0..2097151"),
    (gm_to_ub(right=8), gm_to_ub(right=9), "more than 32 bytes"),
    (gm_to_ub(left=8), gm_to_ub(left=9), "more than 32 bytes"),
    (gm_to_ub(block_len=8), gm_to_ub(block_len=6), "whole number"),
    (gm_to_ub("int64", value=0), gm_to_ub("int64", value=1), "pad_value must be 0"),
    (bind("copy_ub_to_gm", (F32, F32), (1, 8, 0, 0)), bind("copy_ub_to_gm", (F32, F32), (1, 6, 0, 0)), "whole number"),
    (bind("load_l0b", (F16, F16), (0, 1, 1, 0, 1)), bind("load_l0b", ("int8", "int8"), (0, 1, 1, 0, 1)), "16-bit"),
    (
        bind("mmad", (F32, F16, F16), (16, 16, 16, 0, 0, 1)),
        bind("mmad", (F32, F16, BF16), (16, 16, 16, 0, 0, 1)),
        "not supported",
    ),
    (
        bind("mmad", (F32, F16, F16), (16, 16, 4095, 2, 0, 1)),
        bind("mmad", (F32, F16, F16), (16, 16, 16, 1, 0, 1)),
        "unit_flag",
    ),
    (
        bind("mmad", (F32, F16, F16), (16, 16, 16, 3, 0, 1)),
        bind("mmad", (F32, F16, F16), (16, 16, 16, 3, 1, 1)),
        "cmatrix_source",
    ),
    (
        bind("mmad", (F32, F16, F16), (16, 16, 16, 3, 0, 1)),
        bind("mmad", (F32, F16, F16), (16, 4096, 16, 3, 0, 1)),
        "n=4096",
    ),
    (
        bind("mmad", (F32, F16, F16), (2, 16, 16, 3, 0, 1)),
        bind("mmad", (F32, F16, F16), (1, 16, 16, 3, 0, 1)),
        "vector mode",
    ),
    (
        bind("fixpipe_to_gm", (F16, F32), (16, 16, 16, 16, 0), quant="f32_f16"),
        bind("fixpipe_to_gm", (F16, F32), (16, 16, 16, 16, 0), quant="none"),
        "does not convert",
    ),
    (
        bind("fixpipe_to_gm", (F32, F32), (16, 16, 16, 16, 0), quant="none"),
        bind("fixpipe_to_gm", (F32, F32), (16, 17, 16, 16, 0), quant="none"),
        "less than m_size",
    ),
    (
        bind("fixpipe_to_l1", (F16, F32), (16, 16, 16, 16, 0), quant="f32_f16"),
        bind("fixpipe_to_l1", (F16, F32), (17, 16, 16, 16, 0), quant="f32_f16"),
        "multiple of 16",
    ),
    (
        bind("load_l0b_v2", (F16, F16), (0, 0, 2, 2, 8, 2, 1), "3510"),
        bind("load_l0b_v2", ("int8", "int8"), (0, 0, 2, 2, 8, 2, 1), "3510"),
        "16-bit dtypes only",
    ),
    (
        bind("load_l0b_transpose", ("int8", "int8"), (0, 2, 1, 1, 0), "3510"),
        bind("load_l0b_transpose", ("float8_e4m3fn",) * 2, (0, 2, 1, 1, 0), "3510"),
        "not supported on 3510",
    ),
    (bind("printf_1", (), (7,), format="%5d%%"), bind("printf_1", (), (7,), format="%s"), "conversion %s is none of"),
    (bind("printf_2", (), (7, 8), format="%d %x"), bind("printf_2", (), (7, 8), format="%d"), "takes 1 values, the call has 2"),
    (bind("cast", (F16, F32), (64,), round="odd"), bind("cast", (F32, F16), (64,), round="rint"), "no round mode"),
    (bind("cast", (I32, F32), (64,), round="rint"), bind("cast", (I32, F32), (64,), round="none"), "no round mode"),
    (bind("cast", (F32, BF16), (64,), round="none"), bind("cast", (BF16, F16), (64,), round="rint"), "not supported"),
    (bind("cast", (F32, F16), (64,), round="none"), bind("cast", (F32, F16), (64,), round="nearest"), "none of"),
    (bind("cast", (F32, F16), (64,), round="none"), bind("cast", (F32, F16), (64,)), "is missing"),
    (bind("add", (F32,) * 3, (64,)), bind("add", (F32,) * 3, (64,), round="rint"), "unknown attribute"),
    (
        bind("compare", ("uint8", F32, F32), (64,), mode="ne"),
        bind("compare", ("uint8", F32, F32), (32,), mode="ne"),
        "256 bytes",
    ),
    (
        bind("compare", ("uint8", I32, I32), (64,), mode="eq"),
        bind("compare", ("uint8", I32, I32), (64,), mode="lt"),
        "eq only",
    ),
    (
        bind("compare_scalar", ("uint8", I32), (5, 64), "3510", mode="lt"),
        bind("compare_scalar", ("uint8", I32), (5, 64), mode="lt"),
        "eq only",
    ),
    (
        bind("select", (F32, "uint8", F32, F32), (64,), mode="tensor_tensor"),
        bind("select", (F32, "uint8", F32, F32), (64,), mode="tensor_scalar"),
        "does not fit",
    ),
    (bind("mrg_sort", (F32,) * 5, (8, 8, 4, 0, 7, 1)), bind("mrg_sort", (F32,) * 5, (8, 8, 4, 0, 5, 1)), "valid_bit=5"),
    (bind("mrg_sort", (F32,) * 5, (8, 8, 8, 8, 15, 2)), bind("mrg_sort", (F32,) * 5, (8, 8, 8, 4, 15, 2)), "equal length"),
    (bind("mrg_sort", (F32,) * 5, (8, 8, 8, 8, 7, 1)), bind("mrg_sort", (F32,) * 5, (8, 8, 8, 8, 7, 2)), "equal length"),
    (
        bind("whole_reduce_max", (F32, F32), (64, 1, 1, 1, 8)),
        bind("whole_reduce_max", (F32, F32), (65, 1, 1, 1, 8)),
        "more than the 64",
    ),
    (bind("set_flag", (), (7,), event="MTE2_V"), bind("set_flag", (), (8,), event="MTE2_V"), "outside 0..7"),
    (bind("set_flag", (), (0,), event="MTE2_V"), bind("set_flag", (), (0,), event="V_M"), "none of"),
    (bind("pipe_barrier", (), (), pipe="V"), bind("pipe_barrier", (), (), pipe="S"), "none of"),
    (bind("cross_core_wait_flag", (), (15,)), bind("cross_core_wait_flag", (), (16,)), "outside 0..15"),
]


@pytest.mark.parametrize("good, bad, message", CASES, ids=[f"{bad.intrin.name}: {message}" for _, bad, message in CASES])
def test_guard(good, bad, message):
    assert rules.check(good) is None
    problem = rules.check(bad)
    assert problem is not None and message in problem and problem.startswith(bad.intrin.name)


def test_unknown_values_are_not_judged():
    unknown = bind("copy_gm_to_ub", (F32, F32), (None,) * 8)
    assert rules.check(unknown) is None


def test_attr_codes():
    record = TABLE["cast"]
    assert [record.attr_code("round", r) for r in record.attrs["round"]] == list(range(7))
    with pytest.raises(ValueError, match="none of"):
        record.attr_code("round", "up")
