"""Rendering of Ascend C text from the templates of the table.

A template is a format string over the names of operands, arguments and attributes of the record; for example
``"Adds({d}, {s}, {scalar}, {count})"``. `{d.ctype}` is the C++ element type of an operand, `{scalar}` is wrapped in a
cast to the parameter's type unless it is a literal, `{round_upper}` is the value of attribute `round` in capitals,
`{mask}` stands for the two mask words. A template may also be a function of the same names (a `TextCall`) where the
shape of the text depends on values.
"""

from __future__ import annotations

import re
from typing import Mapping, Sequence

CTYPES: Mapping[str, str] = {
    "int8": "int8_t",
    "uint8": "uint8_t",
    "int16": "int16_t",
    "uint16": "uint16_t",
    "int32": "int32_t",
    "uint32": "uint32_t",
    "int64": "int64_t",
    "uint64": "uint64_t",
    "float16": "half",
    "bfloat16": "bfloat16_t",
    "float32": "float",
    "float64": "double",
    "bool": "uint8_t",
    "float8_e4m3fn": "fp8_e4m3fn_t",
    "float8_e5m2": "fp8_e5m2_t",
}
"""dtype name -> Ascend C element type."""

_FLOAT_LITERAL = re.compile(r"-?\d+(\.\d*)?([eE][-+]?\d+)?[fF]")
_LITERAL = re.compile(r"-?(0[xX][0-9a-fA-F]+|\d+)([uU]?[lL]{0,2})")


class OperandText(str):
    """C++ expression of an operand with its element type in `ctype`."""

    ctype: str

    def __new__(cls, expr: str, dtype: str):
        self = super().__new__(cls, expr)
        self.ctype = CTYPES[dtype]
        return self


class TextCall(dict):
    """Rendered operands, arguments and attributes by name, plus the CANN release and chip generation they are for."""

    def __init__(self, values: Mapping[str, str], cann: str, generation: str):
        super().__init__(values)
        self.cann = cann
        self.generation = generation


def literal(text: str) -> int | None:
    """The value of an integer literal, else None."""
    text = text.strip()
    if not _LITERAL.fullmatch(text):
        return None
    return int(text.rstrip("uUlL"), 0)


def cast(text: str, ctype: str) -> str:
    """`text` as an expression of type `ctype`; integer literals need no cast in integer parameters.

    A text with an attribute `ctype` says what type it has already.
    """
    if getattr(text, "ctype", None) == ctype:
        return text
    if ctype == "bool":
        value = literal(text)
        return f"(({text}) != 0)" if value is None else ("true" if value else "false")
    return text if literal(text) is not None else exact_cast(text, ctype)


def exact_cast(text: str, ctype: str) -> str:
    """`text` as an expression whose type is exactly `ctype`: the API deduces a template parameter from it."""
    # An int64_t may be a long, which no sum with a literal that ends with LL is.
    if getattr(text, "ctype", None) == ctype and not (ctype == "int64_t" and "LL" in text):
        return text
    value = literal(text)
    # The lowest int32 has no literal of its own: it is a minus sign in front of a long.
    has_type = {"int32_t": value is not None and abs(value) < 1 << 31, "float": bool(_FLOAT_LITERAL.fullmatch(text.strip()))}
    if has_type.get(ctype, False) or _is_cast(text, ctype):
        return text
    return f"static_cast<{ctype}>({text})"


def _is_cast(text: str, ctype: str) -> bool:
    """True for a cast to `ctype` and nothing behind it."""
    if not text.startswith(f"static_cast<{ctype}>("):
        return False
    depth = 0
    for k, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if c == ")" and not depth:
            return k == len(text) - 1
    return False


def mask_prefix(hi: str, lo: str) -> int | None:
    """Number of lanes when the two mask words are literals with the low `n` bits set, else None."""
    high, low = literal(hi), literal(lo)
    if high is None or low is None:
        return None
    bits = (high & (2**64 - 1)) << 64 | (low & (2**64 - 1))
    count = bits.bit_length()
    return count if count and bits == (1 << count) - 1 else None


def fill(values: Mapping[str, str], template: str) -> str:
    """Format `template`. `{mask}` is a lane count where the mask is a prefix, else a two-word array in a block."""
    if "{mask}" not in template or "mask_hi" not in values:
        return template.format_map(values)
    lanes = mask_prefix(values["mask_hi"], values["mask_lo"])
    if lanes is not None:
        return template.format_map({**values, "mask": str(lanes)})
    low, high = (_mask_word(values[name]) for name in ("mask_lo", "mask_hi"))
    return f"{{ uint64_t mask[2] = {{{low}, {high}}}; {template.format_map({**values, 'mask': 'mask'})}; }}"


def _mask_word(text: str) -> str:
    value = literal(text)
    return cast(text, "uint64_t") if value is None else f"{value & (2**64 - 1):#x}ULL"


def render(
    intrin,
    operands: Sequence[tuple[str, str]],
    args: Sequence[str],
    attrs: Mapping[str, str],
    cann: str,
    generation: str,
) -> str:
    """Ascend C statement (or expression, for instructions that return a value) of one call; see `Intrinsic.render`."""
    assert not intrin.expanded_by, f"{intrin.name} has no text: {intrin.expanded_by} replaces it"
    assert len(operands) == len(intrin.operands) and len(args) == len(intrin.args), f"{intrin.name}: arity"
    # Scalars have the element type of the data they meet: the last operand (the first may be a bit mask).
    scalar_type = CTYPES[operands[-1][1]] if operands else "int32_t"
    values: dict[str, str] = {}
    for operand, (expr, dtype) in zip(intrin.operands, operands):
        values[operand.name] = OperandText(expr, dtype)
    for arg, expr in zip(intrin.args, args):
        if arg.ctype:
            expr = exact_cast(expr, scalar_type) if arg.ctype == "T" else cast(expr, arg.ctype)
        values[arg.name] = expr
    for name in intrin.attrs:
        values[name] = str(attrs[name])
        values[name + "_upper"] = str(attrs[name]).upper()
    if callable(intrin.text):
        text = intrin.text(TextCall(values, cann, generation))
    else:
        text = fill(values, intrin.text)
    if intrin.returns or text.endswith(("}", ";")):
        return text
    return text + ";"
