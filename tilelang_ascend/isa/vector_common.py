"""Building blocks of the vector records: dtype groups, argument lists of the two forms, templates, work."""

from __future__ import annotations

from typing import Mapping, Sequence

from .base import Arg, Call, Intrinsic, Operand, Pipe, Space
from .footprints import count_form, lanes_of_mask, lanes_per_repeat, mask_form, scaled

FLOATS = ("float16", "float32")
A2_ARITHMETIC = ("int16", "int32", *FLOATS)
A5_ARITHMETIC = ("int16", "uint16", "int32", "uint32", *FLOATS, "bfloat16", "int8", "uint8", "int64", "uint64")
"""3510 arithmetic in the count form; the high-dimension form is emulated and leaves out 8- and 64-bit types."""
B16_B32 = ("int16", "uint16", "int32", "uint32", *FLOATS, "bfloat16")
ALL_INTS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")

Dtypes = Mapping[str, Sequence[str]]
"""generation -> dtypes."""

UB = (Space.UB,)
COUNT = Arg("count", "int", 0, 2**31 - 1, "int32_t")
COUNT_U32 = Arg("count", "int", 0, 2**31 - 1, "uint32_t")
MASK = (Arg("mask_hi", "int", None, None, "uint64_t"), Arg("mask_lo", "int", None, None, "uint64_t"))
REPEAT = Arg("repeat", "int", 0, 255, "uint8_t")
SCALAR = Arg("scalar", "float", ctype="T")


def dst(name: str = "d", direction: str = "out", align_elements: int | None = None) -> Operand:
    """A destination in UB."""
    return Operand(name, direction, UB, align_elements)


def src(name: str = "s", align_elements: int | None = None) -> Operand:
    """A source in UB."""
    return Operand(name, "in", UB, align_elements)


def strides(operands: Sequence[Operand], blk_type: str = "uint16_t", rep_type: str = "uint16_t") -> tuple[Arg, ...]:
    """Block strides of all operands, then repeat strides of all operands (32-byte blocks)."""
    blocks = tuple(Arg(o.name + "_blk", "int", 0, 65535 if blk_type == "uint16_t" else 255, blk_type) for o in operands)
    repeats = tuple(Arg(o.name + "_rep", "int", 0, 65535 if rep_type == "uint16_t" else 255, rep_type) for o in operands)
    return blocks + repeats


def uniform(dtypes: Dtypes, operands: int) -> dict:
    """Signatures in which every operand has the same dtype."""
    return {generation: tuple((d,) * operands for d in names) for generation, names in dtypes.items()}


def same_dtypes(c220: Sequence[str], a5: Sequence[str] | None = None) -> Dtypes:
    """dtypes of the two generations (3510 defaults to the same list)."""
    return {"c220": tuple(c220), "3510": tuple(a5 if a5 is not None else c220)}


def wide(dtypes: Dtypes) -> Dtypes:
    """The dtypes the high-dimension form has: on 3510 no 8- and 64-bit types."""
    narrow = ("int8", "uint8", "int64", "uint64")
    return {"c220": dtypes["c220"], "3510": tuple(d for d in dtypes["3510"] if d not in narrow)}


def count_work(call: Call):
    """Elements processed."""
    return call["count"]


def repeat_lanes(call: Call):
    """Lanes that pass through the pipe: repeats x lanes of a repeat (masked lanes cost time, too)."""
    return scaled(call["repeat"], lanes_per_repeat(call))


def check_mask(call: Call):
    """The mask must not name lanes that do not exist and must not be empty."""
    lanes = lanes_of_mask(call)
    if lanes is not None and lanes > lanes_per_repeat(call):
        return f"the mask names lane {lanes - 1}, a repeat of {call.dtypes[0]} has {lanes_per_repeat(call)} lanes"
    if lanes == 0:
        return "the mask is empty"
    return None


def vector(name: str, api: str, operands, args, text, doc: str, cost_class: str, signatures, **fields) -> Intrinsic:
    """A record of pipe V on a vector core."""
    fields.setdefault("reference", f"{api} (hardware section 5)")
    return Intrinsic(
        name=name, pipe=Pipe.V, api=api, cores=("aiv",), operands=tuple(operands), args=tuple(args), text=text, doc=doc,
        cost_class=cost_class, signatures=signatures, **fields,
    )  # fmt: skip


def count_record(name, api, operands, scalars, text, doc, cost_class, signatures, **fields) -> Intrinsic:
    """Count form: consecutive elements."""
    count = fields.pop("count", COUNT)
    fields.setdefault("footprint_fn", count_form)
    fields.setdefault("work_fn", count_work)
    fields.setdefault("ascending", True)
    return vector(name, api, operands, (*scalars, count), text, doc + " Count form.", cost_class, signatures, **fields)


def mask_record(name, api, operands, scalars, text, doc, cost_class, signatures, **fields) -> Intrinsic:
    """High-dimension form: 64-bit mask words, repeat, block and repeat strides."""
    rep_type = fields.pop("rep_type", "uint8_t")
    blk_type = fields.pop("blk_type", "uint8_t" if len(operands) == 3 else "uint16_t")
    strided = fields.pop("strided", operands)
    args = (*scalars, *MASK, REPEAT, *strides(strided, blk_type, rep_type))
    inner = fields.pop("check_fn", None)
    fields.setdefault("footprint_fn", mask_form)
    fields.setdefault("work_fn", repeat_lanes)
    check = (lambda call: check_mask(call) or inner(call)) if inner else check_mask
    fields.setdefault("ascending", True)
    return vector(
        name + "_mask",
        api,
        operands,
        args,
        text,
        doc + " High-dimension form.",
        cost_class,
        signatures,
        check_fn=check,
        **fields,
    )


def both_forms(name, api, operands, scalars, count_text, mask_text, doc, cost_class, dtypes: Dtypes, mask_dtypes=None, **fields):
    """The count record and the mask record of one instruction."""
    n = len(operands)
    mask_dtypes = wide(mask_dtypes or dtypes)
    return (
        count_record(name, api, operands, scalars, count_text, doc, cost_class, uniform(dtypes, n), **fields),
        mask_record(name, api, operands, scalars, mask_text, doc, cost_class, uniform(mask_dtypes, n), **fields),
    )
