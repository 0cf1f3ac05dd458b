"""Output of a running kernel: formatted text, contents of tensors, and the end of a kernel that found a mistake.

A format is a C string constant with the conversions `CONVERSIONS`. The stream carries a 64-bit fingerprint of it
(`text_code`); the machine keeps the texts.
"""

from __future__ import annotations

import re

from .base import NO_OPERANDS, TEXT, Arg, Intrinsic, Operand, Pipe, Space
from .dma import ELEMENT
from .footprints import count_form

MAX_VALUES = 4
"""Values one `printf` record takes; longer formats are cut in pieces."""

SILENT = "TILELANG_ASCEND_SILENT"
"""Macro that takes printing out of an emitted text. On a device it needs memory that whoever launches provides and reads; how, in a launch by
``<<<>>>``, depends on the release (``InitDump``, a hidden argument) and is not documented, and printing without it is an exception (assumed)."""

INTEGER_CONVERSIONS = "diuxX"
FLOAT_CONVERSIONS = "fF"
CONVERSION = re.compile(r"%(?P<flags>[-+ #0]*)(?P<width>\d*)(?P<precision>(?:\.\d+)?)(?P<long>l*)(?P<kind>[a-zA-Z%])")


def conversions(text: str) -> list[str]:
    """The conversion of every value a format takes, in order: ``["d", "f"]`` for ``"%5d of %.2f %%"``."""
    return [m["kind"] for m in CONVERSION.finditer(text) if m["kind"] != "%"]


def pieces(text: str) -> list[str]:
    """`text` cut so that no piece takes more than `MAX_VALUES` values."""
    out, start, count = [], 0, 0
    for m in CONVERSION.finditer(text):
        if m["kind"] == "%":
            continue
        if count == MAX_VALUES:
            out.append(text[start : m.start()])
            start, count = m.start(), 0
        count += 1
    return [*out, text[start:]]


def _check_format(call) -> str | None:
    kinds = conversions(call.attrs["format"])
    unknown = [k for k in kinds if k not in INTEGER_CONVERSIONS + FLOAT_CONVERSIONS]
    if unknown:
        return f"conversion %{unknown[0]} is none of " + ", ".join("%" + c for c in INTEGER_CONVERSIONS + FLOAT_CONVERSIONS)
    if len(kinds) != len(call.intrin.args):
        return f"the format takes {len(kinds)} values, the call has {len(call.intrin.args)}"
    return None


def c_string(text: str) -> str:
    """A C string literal. Characters outside of ASCII are written as UTF-8 bytes in octal; two question marks might begin a trigraph."""
    escapes = {10: "\\n", 9: "\\t", 13: "\\r", 34: '\\"', 63: "\\?", 92: "\\\\"}
    return '"' + "".join(escapes.get(b) or (chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in text.encode()) + '"'


def _printf_text(call) -> str:
    values = [call[name] for name in (f"v{i}" for i in range(MAX_VALUES)) if name in call]
    return f"AscendC::printf({', '.join([c_string(call['format']), *values])})"


def _printf(count: int) -> Intrinsic:
    return Intrinsic(
        name=f"printf_{count}", pipe=Pipe.S, api="printf", operands=(),
        args=tuple(Arg(f"v{i}", "value", ctype="") for i in range(count)), attrs={"format": TEXT}, once=True, shows=True,
        text=_printf_text, check_fn=_check_format, signatures=NO_OPERANDS, cost_class="scalar", reference="printf",
        doc=f"Print {count or 'no'} value{'s' if count != 1 else ''}: integers as they are, floats as float. One core of a block "
        "prints.",
    )  # fmt: skip


RECORDS = (
    *(_printf(count) for count in range(MAX_VALUES + 1)),
    Intrinsic(
        name="dump_tensor",
        pipe=Pipe.S,
        api="DumpTensor",
        operands=(Operand("s", "in", (Space.GM, Space.UB, Space.L1, Space.L0C)),),
        args=(Arg("desc", "int", 0, 2**32 - 1, "uint32_t"), Arg("count", "int", 0, 2**32 - 1, "uint32_t")),
        signatures=ELEMENT,
        text="AscendC::DumpTensor({s}, {desc}, {count})",
        once=True,
        shows=True,
        cost_class="scalar_load",
        footprint_fn=count_form,
        doc="Print `count` elements; `desc` is a number of the user that tells dumps apart. Waits for no other pipe.",
        reference="DumpTensor",
    ),
    Intrinsic(
        name="trap", pipe=Pipe.S, api="Trap", operands=(), args=(), text="AscendC::Trap()", once=True, signatures=NO_OPERANDS,
        cost_class="scalar", doc="Stop the kernel with an error; what was printed before says which.", reference="Trap",
    ),
)  # fmt: skip
