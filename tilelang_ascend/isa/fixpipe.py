"""The way out of L0C: Fixpipe to GM and UB (row-major) and to L1 (NZ), with conversion and ReLU (pipe FIX)."""

from __future__ import annotations

from .base import Arg, Call, Intrinsic, Operand, Pipe, Space
from .footprints import is_nothing, scaled
from .units import BLOCK_BYTES

QUANT = ("none", "f32_f16", "f32_bf16")
QUANT_MODES = {"none": "NoQuant", "f32_f16": "F322F16", "f32_bf16": "F322BF16"}
QUANT_DTYPES = {
    "none": (("float32", "float32"), ("int32", "int32")),
    "f32_f16": (("float16", "float32"),),
    "f32_bf16": (("bfloat16", "float32"),),
}
"""quant -> (destination dtype, source dtype) that go with it; `none` keeps the dtype."""


def _source_span(call: Call):
    """L0C is NZ: columns of 16 elements, `src_stride` rows of 16 elements apart."""
    n, m, stride = call["n_size"], call["m_size"], call["src_stride"]
    if None in (n, m, stride):
        return (1, "in", 0, None)
    return (1, "in", 0, ((-(-n // 16) - 1) * stride + m) * 16 * 4)


def _to_gm(call: Call):
    if is_nothing(call, "n_size", "m_size"):
        return []
    n, m, stride = call["n_size"], call["m_size"], call["dst_stride"]
    hi = None if None in (n, m, stride) else ((m - 1) * stride + n) * call.itemsize()
    return [(0, "out", 0, hi), _source_span(call)]


def _to_l1(call: Call):
    if is_nothing(call, "n_size", "m_size"):
        return []
    n, m, stride = call["n_size"], call["m_size"], call["dst_stride"]
    if None in (n, m, stride):
        return [(0, "out", 0, None), _source_span(call)]
    # C0 of the destination is 32 bytes; 16 columns of a 4-byte dtype are two such groups.
    groups = -(-n * call.itemsize() // BLOCK_BYTES) if call.itemsize() != 2 else -(-n // 16)
    return [(0, "out", 0, (groups - 1) * stride * BLOCK_BYTES + m * BLOCK_BYTES), _source_span(call)]


SPLITS = {"none": 0, "rows": 1, "columns": 2}
"""Which halves of a matrix go to the two vector cores -> the dual destination control; with "none" one core gets it whole."""


def _to_ub(call: Call):
    if is_nothing(call, "n_size", "m_size"):
        return []
    n, m, stride, dual = call["n_size"], call["m_size"], call["dst_stride"], call["dual"]
    if None in (n, m, stride, dual):
        return [(0, "out", 0, None), _source_span(call)]
    rows, columns = m // 2 if dual == SPLITS["rows"] else m, n // 2 if dual == SPLITS["columns"] else n
    return [(0, "out", 0, ((rows - 1) * stride + columns) * call.itemsize()), _source_span(call)]


def _check_quant(call: Call):
    quant = call.attrs.get("quant")
    if quant is not None and call.dtypes not in QUANT_DTYPES[quant]:
        return f"quant={quant} does not convert {call.dtypes[1]} to {call.dtypes[0]}"
    if call.known("src_stride", "m_size") and call["src_stride"] < call["m_size"]:
        return f"src_stride={call['src_stride']} is less than m_size={call['m_size']}"
    return None


def _check_gm(call: Call):
    return _check_quant(call)


def _check_l1(call: Call):
    if call.known("n_size") and call["n_size"] % 16:
        return f"n_size={call['n_size']} is not a multiple of 16"
    return _check_quant(call)


def _check_ub(call: Call):
    size, dual = call.itemsize(), call["dual"]
    halves = {name: 2 if dual == SPLITS[half] else 1 for name, half in (("m_size", "rows"), ("n_size", "columns"))}
    for name, unit in (("n_size", 16 * halves["n_size"]), ("m_size", halves["m_size"])):
        if call.known(name) and call[name] % unit:
            return f"{name}={call[name]} is not a multiple of {unit}"
    if call.known("dst_stride") and call["dst_stride"] * size % BLOCK_BYTES:
        return f"rows that are dst_stride={call['dst_stride']} elements apart do not start at multiples of {BLOCK_BYTES} bytes"
    if call.known("dst_stride", "n_size") and call["dst_stride"] < call["n_size"] // halves["n_size"]:
        return f"dst_stride={call['dst_stride']} is less than the length of a row"
    if dual and call.known("sub_block") and call["sub_block"]:
        return f"with dual={dual} both vector cores get a half, and sub_block={call['sub_block']} says nothing"
    return _check_quant(call)


# The parameter struct has a name of its own on each generation; its fields are the same.
_PARAMS = {"c220": "AscendC::FixpipeParamsV220", "3510": "AscendC::FixpipeParamsArch3510<AscendC::CO2Layout::{layout}>"}
_FIELDS = "p.nSize = {n_size}; p.mSize = {m_size}; p.srcStride = {src_stride}; p.dstStride = {dst_stride}; "


def _text(layout: str):
    def text(call) -> str:
        params = _PARAMS[call.generation].format(layout=layout)
        fields = (_FIELDS + "p.reluEn = {relu_en}; ").format_map(call)
        quant = f"p.quantPre = QuantMode_t::{QUANT_MODES[call['quant']]};"
        element = call["d"].ctype + ", " + call["s"].ctype
        call_text = f"AscendC::Fixpipe<{element}, AscendC::CFG_{layout}>({call['d']}, {call['s']}, p);"
        return f"{{ {params} p; {fields}{quant} {call_text} }}"

    return text


def _ub_text(call) -> str:
    fields = (_FIELDS + "p.reluEn = {relu_en}; p.subBlockId = {sub_block}; ").format_map(call)
    halves = f"p.dualDstCtl = {call['dual']}; p.quantPre = QuantMode_t::{QUANT_MODES[call['quant']]};"
    call_text = f"AscendC::Fixpipe<{call['d'].ctype}, {call['s'].ctype}, AscendC::CFG_ROW_MAJOR>({call['d']}, {call['s']}, p);"
    return f"{{ {_PARAMS['3510'].format(layout='ROW_MAJOR')} p; {fields}{halves} {call_text} }}"


def _args(dst_limit: int) -> tuple[Arg, ...]:
    return (
        Arg("n_size", "int", 0, 4095, "uint16_t"),
        Arg("m_size", "int", 0, 8192, "uint16_t"),
        Arg("src_stride", "int", 0, 65535, "uint16_t"),
        Arg("dst_stride", "int", 0, dst_limit, "uint32_t"),
        Arg("relu_en", "int", 0, 1, "bool"),
    )


_SIGNATURES = tuple(row for rows in QUANT_DTYPES.values() for row in rows)
_L1_SIGNATURES = tuple(row for row in _SIGNATURES if row[0] in ("float16", "bfloat16"))

FIXPIPE_TO_GM = Intrinsic(
    name="fixpipe_to_gm",
    pipe=Pipe.FIX,
    api="Fixpipe",
    cores=("aic",),
    operands=(Operand("d", "out", (Space.GM,)), Operand("s", "in", (Space.L0C,))),
    args=_args(2**32 - 1),
    attrs={"quant": QUANT},
    signatures={"c220": _SIGNATURES, "3510": _SIGNATURES},
    text=_text("ROW_MAJOR"),
    cost_class="l0c_to_gm",
    work_fn=lambda call: scaled(call["n_size"], call["m_size"], call.itemsize()),
    check_fn=_check_gm,
    footprint_fn=_to_gm,
    doc="Write m_size x n_size elements of the NZ matrix in L0C to GM, row-major with rows `dst_stride` elements "
    "apart; converts f32 to f16/bf16 (round to nearest even, saturation off) and honours `set_atomic`. "
    "`src_stride` counts rows of 16 elements.",
    reference="Fixpipe, FixpipeParamsV220, CFG_ROW_MAJOR (hardware section 4)",
)

FIXPIPE_TO_L1 = Intrinsic(
    name="fixpipe_to_l1",
    pipe=Pipe.FIX,
    api="Fixpipe",
    cores=("aic",),
    operands=(Operand("d", "out", (Space.L1,)), Operand("s", "in", (Space.L0C,))),
    args=_args(65535),
    attrs={"quant": QUANT},
    signatures={"c220": _L1_SIGNATURES, "3510": _SIGNATURES},
    text=_text("NZ"),
    cost_class="l0c_to_l1",
    work_fn=lambda call: scaled(call["n_size"], call["m_size"], call.itemsize()),
    check_fn=_check_l1,
    footprint_fn=_to_l1,
    doc="Write m_size x n_size elements of L0C to L1 in NZ order: column groups of 32 bytes, `dst_stride` blocks of 32 bytes apart.",
    reference="Fixpipe, FixpipeParamsV220, CFG_NZ (hardware section 4)",
)

FIXPIPE_TO_UB = Intrinsic(
    name="fixpipe_to_ub",
    pipe=Pipe.FIX,
    api="Fixpipe",
    cores=("aic",),
    operands=(Operand("d", "out", (Space.UB,)), Operand("s", "in", (Space.L0C,))),
    args=(*_args(65535), Arg("dual", "int", 0, 2, "uint8_t"), Arg("sub_block", "int", 0, 1, "bool")),
    attrs={"quant": QUANT},
    signatures={"3510": _SIGNATURES},
    text=_ub_text,
    cost_class="l0c_to_ub",
    work_fn=lambda call: scaled(call["n_size"], call["m_size"], call.itemsize()),
    check_fn=_check_ub,
    footprint_fn=_to_ub,
    doc="Write m_size x n_size elements of L0C to UB of the vector cores of the same block, row-major with rows `dst_stride` elements apart: all "
    "to core `sub_block` (`dual` 0), or the first half of the rows (1) or columns (2) to core 0 and the second one to core 1, at the same address.",
    reference="Fixpipe, FixpipeParamsArch3510, dualDstCtl, subBlockId (hardware sections 1.3 and 4)",
)

RECORDS = (FIXPIPE_TO_GM, FIXPIPE_TO_L1, FIXPIPE_TO_UB)
