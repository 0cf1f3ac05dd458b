"""Vector instructions that change the dtype or the kind of a value: cast, duplicate, compare, select, copy, index."""

from __future__ import annotations

from .base import Arg, Call
from .footprints import count_form, is_nothing, mask_form
from .vector_common import (
    B16_B32,
    COUNT_U32,
    FLOATS,
    SCALAR,
    both_forms,
    count_record,
    dst,
    mask_record,
    same_dtypes,
    src,
    uniform,
)

# ---- cast ----------------------------------------------------------------------------------------------------------

ROUNDS = ("none", "rint", "floor", "ceil", "round", "trunc", "odd")
_NONE = ("none",)
_FIVE = ("rint", "floor", "ceil", "round", "trunc")
_SIX = ("none", *_FIVE)

CASTS_C220 = {
    ("float16", "int8"): _SIX,
    ("float16", "uint8"): _SIX,
    ("int8", "float16"): _NONE,
    ("uint8", "float16"): _NONE,
    ("float16", "int16"): _FIVE,
    ("int16", "float16"): _SIX,
    ("float16", "int32"): _FIVE,
    ("float16", "float32"): _NONE,
    ("float32", "float16"): (*_SIX, "odd"),
    ("float32", "int16"): _FIVE,
    ("float32", "int32"): _FIVE,
    ("float32", "int64"): _FIVE,
    ("float32", "bfloat16"): _FIVE,
    ("float32", "float32"): _FIVE,
    ("bfloat16", "float32"): _NONE,
    ("bfloat16", "int32"): _FIVE,
    ("int16", "float32"): _NONE,
    ("int32", "float32"): _SIX,
    ("int32", "int16"): _NONE,
    ("int32", "int64"): _NONE,
    ("int64", "int32"): _NONE,
    ("int64", "float32"): _FIVE,
}
"""(source, destination) -> legal round modes on C220 (doc: cast probe of the 8.1 headers)."""

CASTS_3510 = {
    **CASTS_C220,
    ("float16", "bfloat16"): _FIVE,
    ("bfloat16", "float16"): _FIVE,
    ("int8", "int16"): _NONE,
    ("int8", "int32"): _NONE,
    ("uint8", "uint16"): _NONE,
    ("uint8", "uint32"): _NONE,
    ("int16", "int32"): _NONE,
    ("float32", "float8_e4m3fn"): ("rint",),
    ("float32", "float8_e5m2"): ("rint",),
    ("float8_e4m3fn", "float32"): _NONE,
    ("float8_e5m2", "float32"): _NONE,
}
"""Pairs that 3510 adds (doc: emit API, documented dtypes)."""
CASTS = {"c220": CASTS_C220, "3510": CASTS_3510}


def cast_rounds(generation: str, source: str, destination: str) -> tuple[str, ...]:
    """Legal round modes of a cast; empty when the hardware has no such conversion."""
    return CASTS[generation].get((source, destination), ())


def _cast_signatures() -> dict:
    return {generation: tuple((d, s) for s, d in pairs) for generation, pairs in CASTS.items()}


def _check_cast(call: Call):
    mode = call.attrs.get("round")
    rounds = cast_rounds(call.generation, call.dtypes[1], call.dtypes[0])
    if mode is not None and mode not in rounds:
        return f"cast {call.dtypes[1]} -> {call.dtypes[0]} has no round mode {mode}; it has {', '.join(rounds)}"
    return None


def _cast_records():
    fields = dict(attrs={"round": ROUNDS}, check_fn=_check_cast)
    doc = (
        "d = s converted. Float to integer saturates, NaN becomes 0; integer to a narrower integer saturates; float32 "
        "to float32 rounds to an integral value and makes -0 +0. A repeat holds 256 bytes of the wider dtype."
    )
    return (
        count_record(
            "cast", "Cast", (dst(), src()), (),
            "AscendC::Cast({d}, {s}, AscendC::RoundMode::CAST_{round_upper}, {count})",
            doc, "cast", _cast_signatures(), **fields,
        ),
        mask_record(
            "cast", "Cast", (dst(), src()), (),
            "AscendC::Cast({d}, {s}, AscendC::RoundMode::CAST_{round_upper}, {mask}, {repeat}, "
            "AscendC::UnaryRepeatParams{{{d_blk}, {s_blk}, {d_rep}, {s_rep}}})",
            doc, "cast", _cast_signatures(), **fields,
        ),
    )  # fmt: skip


# ---- duplicate -----------------------------------------------------------------------------------------------------


def _duplicate_records():
    return both_forms(
        "duplicate", "Duplicate", (dst(),), (SCALAR,),
        "AscendC::Duplicate({d}, {scalar}, {count})",
        "AscendC::Duplicate({d}, {scalar}, {mask}, {repeat}, {d_blk}, {d_rep})",
        "d = scalar in every lane.", "simple", same_dtypes(B16_B32, (*B16_B32, "int8", "uint8", "int64", "uint64")),
    )  # fmt: skip


# ---- compare and select --------------------------------------------------------------------------------------------

MODES = ("lt", "gt", "eq", "le", "ge", "ne")
_COMPARE_C220 = (*FLOATS, "int32")
_COMPARE_3510 = (*B16_B32, "int8", "uint8", "int64", "uint64")
EQUALITY_ONLY = {"c220": frozenset(("int32",)), "3510": frozenset()}
"""dtypes that Compare takes with one mode only."""


def _bit_signatures(operands: int) -> dict:
    return {
        "c220": tuple(("uint8",) + (d,) * operands for d in _COMPARE_C220),
        "3510": tuple(("uint8",) + (d,) * operands for d in _COMPARE_3510),
    }


def _bits_of(elements):
    return None if elements is None else -(-elements // 8)


def _compare_count(call: Call):
    spans = count_form(call)
    return [(i, d, lo, _bits_of(call["count"]) if i == 0 else hi) for i, d, lo, hi in spans]


def _compare_mask_footprint(call: Call):
    """Sources as in the high-dimension form; the result bits are packed without gaps."""
    if is_nothing(call, "repeat"):
        return []
    lanes = 256 // call.itemsize(1)
    hidden = {**call.args, "d_blk": 1, "d_rep": 8}
    spans = mask_form(Call(call.intrin, call.dtypes, hidden, call.attrs))
    repeat = call["repeat"]
    return [(i, d, lo, (None if repeat is None else repeat * lanes // 8) if i == 0 else hi) for i, d, lo, hi in spans]


def _check_compare(call: Call):
    if call.known("count") and call["count"] * call.itemsize(1) % 256:
        return f"count={call['count']} x {call.itemsize(1)} bytes is not a multiple of 256 bytes"
    return _check_int32_mode(call)


def _check_int32_mode(call: Call):
    mode = call.attrs.get("mode", "eq")
    if call.dtypes[1] in EQUALITY_ONLY[call.generation] and mode != "eq":
        return f"{call.generation.upper()} compares {call.dtypes[1]} for eq only, not {mode}"
    return None


def _compare_records():
    operands = (dst(), src("s0"), src("s1"))
    doc = "Bit i of d = s0[i] <mode> s1[i]. A comparison with NaN is false in every mode, ne included."
    fields = dict(attrs={"mode": MODES}, ascending=False)
    return (
        count_record(
            "compare", "Compare", operands, (),
            "AscendC::Compare({d}, {s0}, {s1}, AscendC::CMPMODE::{mode_upper}, {count})",
            doc, "simple", _bit_signatures(2), check_fn=_check_compare, footprint_fn=_compare_count, count=COUNT_U32,
            **fields,
        ),
        mask_record(
            "compare", "Compare", operands, (),
            "AscendC::Compare({d}, {s0}, {s1}, AscendC::CMPMODE::{mode_upper}, {mask}, {repeat}, "
            "AscendC::BinaryRepeatParams{{1, {s0_blk}, {s1_blk}, 8, {s0_rep}, {s1_rep}}})",
            doc + " Result bits of consecutive repeats are packed.", "simple", _bit_signatures(2),
            check_fn=_check_int32_mode, footprint_fn=_compare_mask_footprint, strided=operands[1:], blk_type="uint8_t",
            **fields,
        ),
        count_record(
            "compare_scalar", "CompareScalar", (dst(), src()), (SCALAR,),
            "AscendC::CompareScalar({d}, {s}, {scalar}, AscendC::CMPMODE::{mode_upper}, {count})",
            "Bit i of d = s[i] <mode> scalar.", "simple", _bit_signatures(1),
            check_fn=_check_compare, footprint_fn=_compare_count, count=COUNT_U32, **fields,
        ),
    )  # fmt: skip


_SELECT_MODES = ("tensor_scalar", "tensor_tensor")
_SELECT_TEXT = {"tensor_scalar": "VSEL_TENSOR_SCALAR_MODE", "tensor_tensor": "VSEL_TENSOR_TENSOR_MODE"}
_SELECT_DTYPES = {"c220": FLOATS, "3510": B16_B32}


def _select_count(call: Call):
    return [(i, d, lo, _bits_of(call["count"]) if i == 1 else hi) for i, d, lo, hi in count_form(call)]


def _select_text(call) -> str:
    other = "{s1}" if "s1" in call else "{scalar}"
    mode = "AscendC::SELMODE::" + _SELECT_TEXT[call["mode"]]
    return f"AscendC::Select({{d}}, {{mask}}, {{s0}}, {other}, {mode}, {{count}})".format_map(call)


def _check_select(call: Call):
    wanted = "tensor_tensor" if "s1" in call.intrin.arg_names else "tensor_scalar"
    mode = call.attrs.get("mode", wanted)
    return None if mode == wanted else f"mode={mode} does not fit {call.intrin.name}, which is {wanted}"


def _select_records():
    fields = dict(
        attrs={"mode": _SELECT_MODES},
        check_fn=_check_select,
        footprint_fn=_select_count,
        ascending=False,
        uses_reserved_ub=True,
        count=COUNT_U32,
    )
    mask = src("mask")
    doc = "d[i] = bit i of mask ? s0[i] : "
    reference = "Select, SELMODE; uses the 8 KiB of reserved UB (hardware section 1.2)"
    return (
        count_record(
            "select", "Select", (dst(), mask, src("s0"), src("s1")), (), _select_text, doc + "s1[i].", "simple",
            {g: tuple((d, "uint8", d, d) for d in names) for g, names in _SELECT_DTYPES.items()}, reference=reference,
            **fields,
        ),
        count_record(
            "select_scalar", "Select", (dst(), mask, src("s0")), (SCALAR,), _select_text, doc + "scalar.", "simple",
            {g: tuple((d, "uint8", d) for d in names) for g, names in _SELECT_DTYPES.items()}, reference=reference,
            **fields,
        ),
    )  # fmt: skip


# ---- copy and index ------------------------------------------------------------------------------------------------

_COPY = mask_record(
    "copy", "Copy", (dst(), src()), (),
    "AscendC::Copy({d}, {s}, {mask}, {repeat}, AscendC::CopyRepeatParams{{{d_blk}, {s_blk}, {d_rep}, {s_rep}}})",
    "d = s, b16 and b32.", "ub_copy_lanes", uniform(same_dtypes(B16_B32), 2), rep_type="uint16_t",
)  # fmt: skip

_CREATE_VEC_INDEX = count_record(
    "create_vec_index", "lane numbers", (dst(),), (Arg("first_value", "float", ctype="T"),), "",
    "d[i] = first_value + i.", "simple",
    uniform(same_dtypes(("int16", "int32", *FLOATS)), 1), count=COUNT_U32, expanded_by="expand_lane_numbers",
)  # fmt: skip

RECORDS = (*_cast_records(), *_duplicate_records(), *_compare_records(), *_select_records(), _COPY, _CREATE_VEC_INDEX)
