"""Ascend C text of calls."""

import pytest

from tilelang_ascend.isa import TABLE
from tilelang_ascend.isa.text import cast, exact_cast, mask_prefix


def render(name, operands, args, **attrs):
    return TABLE[name].render(operands, args, attrs)


@pytest.mark.parametrize(
    "text, expected",
    [
        (
            render("add", [("c[0]", "float32"), ("a[0]", "float32"), ("b[8]", "float32")], ["64"]),
            "AscendC::Add(c[0], a[0], b[8], 64);",
        ),
        (
            render("add", [("c", "float32")] * 3, ["n * 2"]),
            "AscendC::Add(c, c, c, static_cast<int32_t>(n * 2));",
        ),
        (
            render("adds", [("d", "float16"), ("s", "float16")], ["1.5f", "64"]),
            "AscendC::Adds(d, s, static_cast<half>(1.5f), 64);",
        ),
        (render("adds", [("d", "float32"), ("s", "float32")], ["1.5f", "64"]), "AscendC::Adds(d, s, 1.5f, 64);"),
        (
            render("shift_left", [("d", "int16"), ("s", "int16")], ["3", "64"]),
            "AscendC::ShiftLeft(d, s, static_cast<int16_t>(3), 64);",
        ),
        (
            render("add_mask", [("d", "float32")] * 3, ["0", "-1", "4", "1", "1", "1", "8", "8", "8"]),
            "AscendC::Add(d, d, d, 64, 4, AscendC::BinaryRepeatParams{1, 1, 1, 8, 8, 8});",
        ),
        (
            render("exp_mask", [("d", "float32")] * 2, ["0", "0x5", "n", "1", "1", "8", "8"]),
            "{ uint64_t mask[2] = {0x5ULL, 0x0ULL}; AscendC::Exp(d, d, mask, static_cast<uint8_t>(n), "
            "AscendC::UnaryRepeatParams{1, 1, 8, 8}); }",
        ),
        (
            render("cast", [("d", "float16"), ("s", "float32")], ["64"], round="rint"),
            "AscendC::Cast(d, s, AscendC::RoundMode::CAST_RINT, 64);",
        ),
        (
            render("compare_scalar", [("m", "uint8"), ("s", "float16")], ["0.5f", "128"], mode="ge"),
            "AscendC::CompareScalar(m, s, static_cast<half>(0.5f), AscendC::CMPMODE::GE, 128);",
        ),
        (
            render(
                "select_scalar",
                [("d", "float32"), ("m", "uint8"), ("s", "float32")],
                ["0.0f", "64"],
                mode="tensor_scalar",
            ),
            "AscendC::Select(d, m, s, 0.0f, AscendC::SELMODE::VSEL_TENSOR_SCALAR_MODE, 64);",
        ),
        (
            render("copy_gm_to_ub", [("u", "float16"), ("g", "float16")], ["1", "len", "0", "0", "1", "0", "pad", "0"]),
            "AscendC::DataCopyPad(u, g, AscendC::DataCopyExtParams{1, static_cast<uint32_t>(len), 0, 0, 0}, "
            "AscendC::DataCopyPadExtParams<half>{true, 0, static_cast<uint8_t>(pad), static_cast<half>(0)});",
        ),
        (
            render("mmad", [("c", "float32"), ("a", "float16"), ("b", "float16")], ["16", "16", "16", "0", "0", "k == 0"]),
            "AscendC::Mmad(c, a, b, AscendC::MmadParams{16, 16, 16, 0, false, ((k == 0) != 0)});",
        ),
        (
            render("fixpipe_to_gm", [("g", "float16"), ("c", "float32")], ["32", "16", "16", "64", "0"], quant="f32_f16"),
            "{ AscendC::FixpipeParamsV220 p; p.nSize = 32; p.mSize = 16; p.srcStride = 16; p.dstStride = 64; "
            "p.reluEn = false; p.quantPre = QuantMode_t::F322F16; "
            "AscendC::Fixpipe<half, float, AscendC::CFG_ROW_MAJOR>(g, c, p); }",
        ),
        (render("set_flag", [], ["1"], event="MTE2_V"), "AscendC::SetFlag<AscendC::HardEvent::MTE2_V>(1);"),
        (render("pipe_barrier", [], [], pipe="V"), "AscendC::PipeBarrier<PIPE_V>();"),
        (render("cross_core_set_flag", [], ["3"], mode="2", pipe="FIX"), "AscendC::CrossCoreSetFlag<2, PIPE_FIX>(3);"),
        (render("set_atomic", [], [], op="add", dtype="float16"), "AscendC::SetAtomicAdd<half>();"),
        (render("set_atomic", [], [], op="none", dtype="float16"), "AscendC::SetAtomicNone();"),
        (render("get_value", [("u[4]", "float32")], []), "u[4].GetValue(0)"),
        (render("get_block_idx", [], []), "static_cast<int32_t>(AscendC::GetBlockIdx())"),
    ],
)
def test_text(text, expected):
    assert text == expected


@pytest.mark.parametrize("record", [pytest.param(r, id=n) for n, r in TABLE.items() if not r.expanded_by])
def test_every_template_renders(record):
    generation = next(iter(record.signatures))
    dtypes = record.signatures[generation][0]
    attrs = {name: values[0] if values else "%d" * len(record.args) for name, values in record.attrs.items()}
    text = record.render([(o.name, d) for o, d in zip(record.operands, dtypes)], ["1"] * len(record.args), attrs)
    assert text.count("{") == text.count("}") and text.count("(") == text.count(")")
    assert text.endswith((";", "}")) or record.returns


def test_the_parameter_struct_of_fixpipe_depends_on_the_generation():
    operands, args = [("l", "float16"), ("c", "float32")], ["32", "16", "16", "64", "0"]
    text = TABLE["fixpipe_to_l1"].render(operands, args, {"quant": "f32_f16"}, generation="3510")
    assert text.startswith("{ AscendC::FixpipeParamsArch3510<AscendC::CO2Layout::NZ> p; ")


def test_mask_prefix():
    assert mask_prefix("0", "-1") == 64
    assert mask_prefix("-1", "-1") == 128
    assert mask_prefix("0", "7") == 3
    assert mask_prefix("1", "-1") == 65
    assert mask_prefix("0", "5") is None, "a hole"
    assert mask_prefix("0", "0") is None, "empty"
    assert mask_prefix("0", "m") is None, "not known"


def test_casts():
    assert cast("7", "uint16_t") == "7"
    assert cast("n", "uint16_t") == "static_cast<uint16_t>(n)"
    assert cast("static_cast<uint16_t>(n)", "uint16_t") == "static_cast<uint16_t>(n)"
    assert cast("0", "bool") == "false" and cast("2", "bool") == "true"
    assert exact_cast("7", "int32_t") == "7" and exact_cast("7", "int16_t") == "static_cast<int16_t>(7)"
    assert exact_cast("1.0f", "float") == "1.0f" and exact_cast("1", "float") == "static_cast<float>(1)"
