"""Data movement between GM, UB, L1 and L0 (pipes MTE1, MTE2, MTE3; UB to UB on V)."""

from __future__ import annotations

from .base import Arg, Call, Intrinsic, Operand, Pipe, Space
from .footprints import bursts, is_nothing, scaled, total
from .units import BLOCK_BYTES, FRACTAL_BYTES, round_up

U16 = 65535
ALL_DTYPES = (
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "bfloat16",
    "float32",
)
FP8 = ("float8_e4m3fn", "float8_e5m2")


def same(dtypes, operands: int = 2) -> tuple:
    """Signatures in which all operands have one dtype."""
    return tuple((d,) * operands for d in dtypes)


MOVES = {"c220": same((*ALL_DTYPES, "bool")), "3510": same((*ALL_DTYPES, "bool", *FP8))}
ELEMENT = {"c220": same((*ALL_DTYPES, "bool"), 1), "3510": same((*ALL_DTYPES, "bool", *FP8), 1)}
"""Signatures of an instruction with one operand that knows every dtype."""
CUBE_DTYPES = {
    "c220": ("float16", "bfloat16", "float32", "int8"),
    "3510": ("float16", "bfloat16", "float32", "int8", *FP8),
}
CUBE_MOVES = {generation: same(dtypes) for generation, dtypes in CUBE_DTYPES.items()}


# ---- GM <-> UB -----------------------------------------------------------------------------------------------------


def _pad_bytes(call: Call) -> int:
    """Upper bound of the bytes padding adds to one row in UB."""
    if call["is_pad"] == 0:
        return 0
    most = BLOCK_BYTES // call.itemsize()
    return sum(call[side] if call.known(side) else most for side in ("left_pad", "right_pad")) * call.itemsize()


def _gm_to_ub(call: Call):
    if is_nothing(call, "block_count", "block_len"):
        return []
    length = call["block_len"]
    padded = None if length is None else round_up(length + _pad_bytes(call), BLOCK_BYTES)
    return [
        (0, "out", 0, bursts(call["block_count"], padded, scaled(call["dst_stride"], BLOCK_BYTES))),
        (1, "in", 0, bursts(call["block_count"], length, call["src_stride"])),
    ]


def _ub_to_gm(call: Call):
    if is_nothing(call, "block_count", "block_len"):
        return []
    length = call["block_len"]
    padded = None if length is None else round_up(length, BLOCK_BYTES)
    src = bursts(call["block_count"], padded, scaled(call["src_stride"], BLOCK_BYTES))
    return [
        (0, "out", 0, bursts(call["block_count"], length, call["dst_stride"])),
        (1, "in", 0, src if src is None else src - (padded - length)),
    ]


def _moved(call: Call):
    return scaled(call["block_count"], call["block_len"])


def _check_pad(call: Call):
    size = call.itemsize()
    for side in ("left_pad", "right_pad"):
        if call.known(side) and call[side] * size > BLOCK_BYTES:
            return f"{side}={call[side]} elements is more than 32 bytes of {call.dtypes[0]}"
    if call.known("block_len") and call["block_len"] % size:
        return f"block_len={call['block_len']} bytes is not a whole number of {call.dtypes[0]} elements"
    if size == 8 and call.known("pad_value") and call["pad_value"] != 0:
        return "pad_value must be 0 for 64-bit dtypes"
    return None


def _check_whole_elements(call: Call):
    if call.known("block_len") and call["block_len"] % call.itemsize():
        return f"block_len={call['block_len']} bytes is not a whole number of {call.dtypes[0]} elements"
    return None


COPY_GM_TO_UB = Intrinsic(
    name="copy_gm_to_ub",
    pipe=Pipe.MTE2,
    api="DataCopyPad",
    cores=("aiv",),
    operands=(Operand("d", "out", (Space.UB,)), Operand("s", "in", (Space.GM,))),
    args=(
        Arg("block_count", "int", 0, 4095, "uint16_t"),
        Arg("block_len", "int", 0, 2097151, "uint32_t"),
        Arg("src_stride", "int", 0, 2**32 - 1, "uint32_t"),
        Arg("dst_stride", "int", 0, 2**32 - 1, "uint32_t"),
        Arg("is_pad", "int", 0, 1, "bool"),
        Arg("left_pad", "int", 0, 255, "uint8_t"),
        Arg("right_pad", "int", 0, 255, "uint8_t"),
        Arg("pad_value", "float", ctype="T"),
    ),
    signatures=MOVES,
    text="AscendC::DataCopyPad({d}, {s}, AscendC::DataCopyExtParams{{{block_count}, {block_len}, {src_stride}, "
    "{dst_stride}, 0}}, "
    "AscendC::DataCopyPadExtParams<{d.ctype}>{{{is_pad}, {left_pad}, {right_pad}, {pad_value}}})",
    cost_class="gm_to_ub",
    work_fn=_moved,
    check_fn=_check_pad,
    footprint_fn=_gm_to_ub,
    doc="Copy `block_count` rows of `block_len` bytes from GM to UB; every row starts on a 32-byte block of UB. With "
    "`is_pad` the row is extended by `left_pad` and `right_pad` elements of `pad_value`; bytes up to the end of "
    "the last block are undefined.",
    reference="DataCopyPad, DataCopyExtParams/DataCopyPadExtParams (hardware section 4)",
)

COPY_UB_TO_GM = Intrinsic(
    name="copy_ub_to_gm",
    pipe=Pipe.MTE3,
    api="DataCopyPad",
    cores=("aiv",),
    operands=(Operand("d", "out", (Space.GM,)), Operand("s", "in", (Space.UB,))),
    args=(
        Arg("block_count", "int", 0, 4095, "uint16_t"),
        Arg("block_len", "int", 0, 2097151, "uint32_t"),
        Arg("src_stride", "int", 0, 2**32 - 1, "uint32_t"),
        Arg("dst_stride", "int", 0, 2**32 - 1, "uint32_t"),
    ),
    signatures=MOVES,
    text="AscendC::DataCopyPad({d}, {s}, AscendC::DataCopyExtParams{{{block_count}, {block_len}, {src_stride}, {dst_stride}, 0}})",
    cost_class="ub_to_gm",
    work_fn=_moved,
    check_fn=_check_whole_elements,
    footprint_fn=_ub_to_gm,
    doc="Copy `block_count` rows of `block_len` bytes from UB to GM; every row starts on a 32-byte block of UB. Honours `set_atomic`.",
    reference="DataCopyPad, DataCopyExtParams (hardware section 4)",
)


# ---- GM -> L1 ------------------------------------------------------------------------------------------------------


def _nd2nz(call: Call):
    if is_nothing(call, "nd_num", "n_value", "d_value"):
        return []
    size = call.itemsize()
    c0 = BLOCK_BYTES // size
    last = lambda count, stride: None if None in (count, stride) else (count - 1) * stride  # noqa: E731
    columns = None if call["d_value"] is None else -(-call["d_value"] // c0)
    dst = total(
        scaled(last(call["nd_num"], call["dst_nz_matrix_stride"]), size),
        scaled(last(columns, call["dst_nz_c0_stride"]), BLOCK_BYTES),
        scaled(last(call["n_value"], call["dst_nz_n_stride"]), BLOCK_BYTES),
        BLOCK_BYTES,
    )
    src = total(
        scaled(last(call["nd_num"], call["src_nd_matrix_stride"]), size),
        scaled(last(call["n_value"], call["src_d_value"]), size),
        scaled(call["d_value"], size),
    )
    return [(0, "out", 0, dst), (1, "in", 0, src)]


def _nd2nz_bytes(call: Call):
    return scaled(call["nd_num"], call["n_value"], call["d_value"], call.itemsize())


COPY_GM_TO_L1_ND2NZ = Intrinsic(
    name="copy_gm_to_l1_nd2nz",
    pipe=Pipe.MTE2,
    api="DataCopy",
    cores=("aic",),
    operands=(Operand("d", "out", (Space.L1,)), Operand("s", "in", (Space.GM,))),
    args=(
        Arg("nd_num", "int", 0, 4095, "uint16_t"),
        Arg("n_value", "int", 0, 16384, "uint16_t"),
        Arg("d_value", "int", 0, U16, "uint16_t"),
        Arg("src_nd_matrix_stride", "int", 0, U16, "uint16_t"),
        Arg("src_d_value", "int", 1, U16, "uint16_t"),
        Arg("dst_nz_c0_stride", "int", 1, 16384, "uint16_t"),
        Arg("dst_nz_n_stride", "int", 1, 16384, "uint16_t"),
        Arg("dst_nz_matrix_stride", "int", 1, U16, "uint16_t"),
    ),
    signatures={
        "c220": same(("int8", "int16", "uint16", "int32", "uint32", "float16", "bfloat16", "float32")),
        "3510": same(("int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "bfloat16", "float32", *FP8)),
    },
    text="AscendC::DataCopy({d}, {s}, AscendC::Nd2NzParams{{{nd_num}, {n_value}, {d_value}, {src_nd_matrix_stride}, "
    "{src_d_value}, {dst_nz_c0_stride}, {dst_nz_n_stride}, {dst_nz_matrix_stride}}})",
    cost_class="gm_to_l1",
    work_fn=_nd2nz_bytes,
    footprint_fn=_nd2nz,
    doc="Copy `nd_num` row-major matrices of `n_value` rows and `d_value` columns from GM to L1 in NZ order: columns "
    "in groups of C0 = 32 bytes, `dst_nz_c0_stride` blocks of 32 bytes apart, rows `dst_nz_n_stride` blocks "
    "apart. The last group is filled with zeros. Source strides are in elements.",
    reference="DataCopy, Nd2NzParams (hardware section 4)",
)


def _fill_l1(call: Call):
    if is_nothing(call, "repeat_times", "block_num"):
        return []
    return [(0, "out", 0, bursts(call["repeat_times"], scaled(call["block_num"], BLOCK_BYTES), scaled(call["dst_gap"], BLOCK_BYTES)))]


FILL_L1 = Intrinsic(
    name="fill_l1",
    pipe=Pipe.MTE2,
    api="InitConstValue",
    cores=("aic",),
    operands=(Operand("d", "out", (Space.L1,)),),
    args=(
        Arg("repeat_times", "int", 0, 32767, "uint16_t"),
        Arg("block_num", "int", 0, 32767, "uint16_t"),
        Arg("dst_gap", "int", 0, 32767, "uint16_t"),
        Arg("value", "float", ctype="T"),
    ),
    signatures={
        "c220": same(("float16", "int16", "uint16", "bfloat16", "float32", "int32", "uint32"), 1),
        "3510": same(("float16", "int16", "uint16", "bfloat16", "float32", "int32", "uint32"), 1),
    },
    text="AscendC::InitConstValue({d}, AscendC::InitConstValueParams<{d.ctype}>{{{repeat_times}, {block_num}, {dst_gap}, {value}}})",
    cost_class="fill_l1",
    work_fn=lambda call: scaled(call["repeat_times"], call["block_num"], BLOCK_BYTES),
    footprint_fn=_fill_l1,
    doc="Fill L1: `repeat_times` runs of `block_num` blocks of 32 bytes, `dst_gap` blocks between runs.",
    reference="InitConstValue, InitConstValueParams",
)


# ---- UB -> UB ------------------------------------------------------------------------------------------------------


def _ub_to_ub(call: Call):
    if is_nothing(call, "block_count", "block_len"):
        return []
    length = scaled(call["block_len"], BLOCK_BYTES)
    return [
        (0, "out", 0, bursts(call["block_count"], length, scaled(call["dst_gap"], BLOCK_BYTES))),
        (1, "in", 0, bursts(call["block_count"], length, scaled(call["src_gap"], BLOCK_BYTES))),
    ]


COPY_UB_TO_UB = Intrinsic(
    name="copy_ub_to_ub",
    pipe=Pipe.V,
    api="DataCopy",
    cores=("aiv",),
    operands=(Operand("d", "out", (Space.UB,)), Operand("s", "in", (Space.UB,))),
    args=(
        Arg("block_count", "int", 0, 4095, "uint16_t"),
        Arg("block_len", "int", 0, U16, "uint16_t"),
        Arg("src_gap", "int", 0, U16, "uint16_t"),
        Arg("dst_gap", "int", 0, U16, "uint16_t"),
    ),
    signatures=MOVES,
    text="AscendC::DataCopy({d}, {s}, AscendC::DataCopyParams{{{block_count}, {block_len}, {src_gap}, {dst_gap}}})",
    cost_class="ub_copy",
    work_fn=lambda call: scaled(call["block_count"], call["block_len"], BLOCK_BYTES),
    footprint_fn=_ub_to_ub,
    doc="Copy `block_count` runs of `block_len` blocks of 32 bytes inside UB; gaps in 32-byte blocks.",
    reference="DataCopy, DataCopyParams (hardware section 4)",
)


# ---- UB -> L1 ------------------------------------------------------------------------------------------------------

COPY_UB_TO_L1 = Intrinsic(
    name="copy_ub_to_l1",
    pipe=Pipe.MTE3,
    api="DataCopy",
    cores=("aiv",),
    operands=(Operand("d", "out", (Space.L1,)), Operand("s", "in", (Space.UB,))),
    args=COPY_UB_TO_UB.args,
    signatures={"3510": CUBE_MOVES["3510"]},
    text=COPY_UB_TO_UB.text,
    cost_class="ub_to_l1",
    work_fn=COPY_UB_TO_UB.work_fn,
    footprint_fn=_ub_to_ub,
    doc="Copy `block_count` runs of `block_len` blocks of 32 bytes from UB to L1 of the cube core of the same block; gaps in 32-byte blocks.",
    reference="DataCopy, DataCopyParams (hardware section 4), path UB to L1 (hardware section 1.3)",
)


# ---- L1 -> L0 ------------------------------------------------------------------------------------------------------


def _load_2d(call: Call):
    if is_nothing(call, "repeat_times"):
        return []
    start, repeat = call["start_index"], call["repeat_times"]
    reach = None if None in (start, repeat, call["src_stride"]) else start + (repeat - 1) * call["src_stride"] + 1
    step = total(call["dst_gap"], 1)
    dst = None if None in (repeat, step) else (repeat - 1) * step + 1
    return [
        (0, "out", 0, scaled(dst, FRACTAL_BYTES)),
        (1, "in", scaled(start or 0, FRACTAL_BYTES), scaled(reach, FRACTAL_BYTES)),
    ]


def _check_load_2d(call: Call):
    if call.known("if_transpose") and call["if_transpose"] and call.itemsize() != 2:
        return f"if_transpose works on 16-bit dtypes only, not on {call.dtypes[0]}: use the load with transpose"
    return None


def _load_2d_record(side: str) -> Intrinsic:
    space = Space.L0A if side == "a" else Space.L0B
    return Intrinsic(
        name=f"load_l0{side}",
        pipe=Pipe.MTE1,
        api="LoadData",
        cores=("aic",),
        operands=(Operand("d", "out", (space,)), Operand("s", "in", (Space.L1,))),
        args=(
            Arg("start_index", "int", 0, U16, "uint16_t"),
            Arg("repeat_times", "int", 0, 255, "uint8_t"),
            Arg("src_stride", "int", 0, U16, "uint16_t"),
            Arg("dst_gap", "int", 0, U16, "uint16_t"),
            Arg("if_transpose", "int", 0, 1, "bool"),
        ),
        signatures={"c220": CUBE_MOVES["c220"]},
        text="AscendC::LoadData({d}, {s}, AscendC::LoadData2DParams{{{start_index}, {repeat_times}, {src_stride}, 0, "
        "{dst_gap}, {if_transpose}, 0}})",
        cost_class=f"l1_to_l0{side}",
        work_fn=lambda call: scaled(call["repeat_times"], FRACTAL_BYTES),
        check_fn=_check_load_2d,
        footprint_fn=_load_2d,
        doc=f"Copy `repeat_times` fractals of 512 bytes from L1 to L0{side.upper()}: source fractal `start_index + i * "
        f"src_stride`, "
        "destination fractal `i * (1 + dst_gap)`; `if_transpose` transposes each 16x16 fractal (b16).",
        reference="LoadData, LoadData2DParams (hardware section 4)",
    )


def square_side(itemsize: int) -> int:
    """Elements along one side of the square block that LoadDataWithTranspose handles: b8 32, b16 and b32 16."""
    return 32 if itemsize == 1 else 16


def square_fractals(itemsize: int) -> int:
    """512-byte fractals of one square block: b8 2, b16 1, b32 2."""
    return square_side(itemsize) ** 2 * itemsize // FRACTAL_BYTES


def _load_transpose(call: Call):
    if is_nothing(call, "repeat_times"):
        return []
    fractals = square_fractals(call.itemsize())
    start, repeat = call["start_index"], call["repeat_times"]
    known = None not in (start, repeat, call["src_stride"])
    reach = (start + (repeat - 1) * call["src_stride"] + 1) * fractals if known else None
    known = None not in (repeat, call["dst_gap"], call["dst_frac_gap"])
    frac_step = (call["dst_frac_gap"] or 0) + 1
    dst = (repeat - 1) * (1 + call["dst_gap"]) + (fractals - 1) * frac_step + 1 if known else None
    return [
        (0, "out", 0, scaled(dst, FRACTAL_BYTES)),
        (1, "in", scaled(start or 0, fractals, FRACTAL_BYTES), scaled(reach, FRACTAL_BYTES)),
    ]


def _load_transpose_record(side: str) -> Intrinsic:
    space = Space.L0A if side == "a" else Space.L0B
    wide = ("float16", "bfloat16", "float32")
    signatures = {"c220": same(("int8", *wide)), "3510": same(("int8", "uint8", *wide))} if side == "b" else {"c220": same(wide)}
    return Intrinsic(
        name=f"load_l0{side}_transpose",
        pipe=Pipe.MTE1,
        api="LoadDataWithTranspose",
        cores=("aic",),
        operands=(Operand("d", "out", (space,)), Operand("s", "in", (Space.L1,))),
        args=(
            Arg("start_index", "int", 0, U16, "uint16_t"),
            Arg("repeat_times", "int", 0, 255, "uint8_t"),
            Arg("src_stride", "int", 0, U16, "uint16_t"),
            Arg("dst_gap", "int", 0, U16, "uint16_t"),
            Arg("dst_frac_gap", "int", 0, U16, "uint16_t"),
        ),
        signatures=signatures,
        text="AscendC::LoadDataWithTranspose({d}, {s}, AscendC::LoadData2dTransposeParams{{{start_index}, "
        "{repeat_times}, "
        "{src_stride}, {dst_gap}, {dst_frac_gap}}})",
        cost_class=f"l1_to_l0{side}",
        work_fn=lambda call: scaled(call["repeat_times"], square_fractals(call.itemsize()), FRACTAL_BYTES),
        footprint_fn=_load_transpose,
        doc=f"Copy `repeat_times` square blocks (b8 32x32, b16 16x16, b32 16x16) from L1 to L0{side.upper()} and "
        f"transpose each. A "
        "square of b8 or b32 is two fractals; source steps `src_stride` squares, destination squares start "
        "`dst_gap + 1` fractals apart, the fractals of one square `dst_frac_gap + 1` apart.",
        reference="LoadDataWithTranspose, LoadData2dTransposeParams (hardware section 4)",
    )


def _load_v2(call: Call):
    if is_nothing(call, "m_step", "k_step"):
        return []
    names = ("m_start", "k_start", "m_step", "k_step", "src_stride", "dst_stride")
    if not call.known(*names):
        return [(0, "out", 0, None), (1, "in", 0, None)]
    m0, k0, m, k, src, dst = (call[n] for n in names)
    reach = (k0 + k - 1) * src + m0 + m
    outer = (m if call["if_transpose"] else k) - 1
    inner = k if call["if_transpose"] else m
    dst_reach = (max(outer, 0) * dst + inner) if call["if_transpose"] is not None else None
    return [
        (0, "out", 0, scaled(dst_reach, FRACTAL_BYTES)),
        (1, "in", (k0 * src + m0) * FRACTAL_BYTES, reach * FRACTAL_BYTES),
    ]


def _load_v2_record(side: str) -> Intrinsic:
    space = Space.L0A if side == "a" else Space.L0B
    return Intrinsic(
        name=f"load_l0{side}_v2",
        pipe=Pipe.MTE1,
        api="LoadData",
        cores=("aic",),
        operands=(Operand("d", "out", (space,)), Operand("s", "in", (Space.L1,))),
        args=(
            Arg("m_start", "int", 0, U16, "uint32_t"),
            Arg("k_start", "int", 0, U16, "uint32_t"),
            Arg("m_step", "int", 0, 255, "uint16_t"),
            Arg("k_step", "int", 0, 255, "uint16_t"),
            Arg("src_stride", "int", 0, U16, "int32_t"),
            Arg("dst_stride", "int", 0, U16, "uint16_t"),
            Arg("if_transpose", "int", 0, 1, "bool"),
        ),
        signatures={"3510": CUBE_MOVES["3510"]},
        check_fn=_check_load_2d,
        text="AscendC::LoadData({d}, {s}, AscendC::LoadData2DParamsV2{{{m_start}, {k_start}, {m_step}, {k_step}, "
        "{src_stride}, {dst_stride}, {if_transpose}, 0}})",
        cost_class=f"l1_to_l0{side}",
        work_fn=lambda call: scaled(call["m_step"], call["k_step"], FRACTAL_BYTES),
        footprint_fn=_load_v2,
        doc=f"Copy a rectangle of fractals from an NZ matrix in L1 to L0{side.upper()}: fractal (row `m_start + i`, "
        f"column "
        "`k_start + j`) lies at `(k_start + j) * src_stride + m_start + i`; it goes to fractal `j * dst_stride + i`, "
        "or transposed to `i * dst_stride + j`.",
        reference="LoadData, LoadData2DParamsV2 (hardware section 4)",
    )


RECORDS = (
    COPY_GM_TO_UB,
    COPY_UB_TO_GM,
    COPY_GM_TO_L1_ND2NZ,
    COPY_UB_TO_UB,
    COPY_UB_TO_L1,
    FILL_L1,
    _load_2d_record("a"),
    _load_2d_record("b"),
    _load_transpose_record("a"),
    _load_transpose_record("b"),
    _load_v2_record("a"),
    _load_v2_record("b"),
)
