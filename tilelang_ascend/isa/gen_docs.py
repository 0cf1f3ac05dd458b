"""Write the reference page of the table: ``python -m tilelang_ascend.isa.gen_docs docs/isa.md``."""

from __future__ import annotations

import sys
from pathlib import Path

from . import cube, debug, dma, fixpipe, scalar, sync, vector_convert, vector_elementwise, vector_shuffle
from .base import GENERATIONS, Intrinsic, Pipe
from .table import TABLE, opcode

_SECTIONS = (
    ("Data movement", dma),
    ("Cube", cube),
    ("Fixpipe", fixpipe),
    ("Vector: element-wise", vector_elementwise),
    ("Vector: conversion, comparison, selection", vector_convert),
    ("Vector: reduction, rearrangement, sorting", vector_shuffle),
    ("Scalar", scalar),
    ("Synchronisation", sync),
    ("Output", debug),
)

_HEAD = """\
# Instruction table

Generated from `tilelang_ascend/isa` by `python -m tilelang_ascend.isa.gen_docs docs/isa.md`. Do not edit.

One entry is one Ascend C call. In Ascend IR it is `ascend.<name>(operands…, arguments…)` with the attributes as
strings; in the instruction stream the attribute codes come first (docs/ir.md). `blk` and `rep` strides are in 32-byte
blocks, `count` in elements. Ranges are inclusive. Work is what the cost class charges for: bytes of data movement,
lanes of vector instructions (a repeat is 256 bytes of the widest operand), fractal products of 16 x 16 x 32 bytes for
`mmad`; prices are in `tilelang_ascend/arch/*.toml`.
"""


def _limits(arg) -> str:
    if arg.kind == "float":
        return "scalar of the element type"
    if arg.kind == "value":
        return "any number"
    if arg.lo is None:
        return "64-bit word"
    return f"{arg.lo}..{arg.hi}"


def _dtypes(record: Intrinsic, generation: str) -> str:
    rows = record.signatures[generation]
    if not record.operands:
        return "yes"
    if all(len(set(row)) == 1 for row in rows):
        return ", ".join(f"`{row[0]}`" for row in rows)
    return "; ".join("(" + ", ".join(f"`{d}`" for d in row) + ")" for row in rows)


def entry(record: Intrinsic) -> str:
    """One record as Markdown."""
    lines = [f"### `{record.name}` — {record.api}", "", record.doc, ""]
    facts = [
        f"opcode {opcode(record.name)}",
        f"pipe {record.pipe.name}",
        "cores " + " ".join(c.upper() for c in record.cores),
    ]
    facts += [f"cost class `{record.cost_class}`"]
    facts += [f"returns {record.returns}"] if record.returns else []
    facts += [f"no instruction of the hardware: `{record.expanded_by}` writes others for it"] if record.expanded_by else []
    facts += ["uses the reserved part of UB"] if record.uses_reserved_ub else []
    lines += ["* " + ", ".join(facts)]
    for operand in record.operands:
        where = "/".join(space.name for space in operand.spaces)
        align = "" if operand.align_elements is None else f", aligned to {operand.align_elements} element(s)"
        lines.append(f"* operand `{operand.name}` ({operand.direction}): {where}{align}")
    lines += [f"* argument `{arg.name}`: {_limits(arg)}" for arg in record.args]
    lines += [f"* attribute `{name}`: " + (", ".join(f"`{v}`" for v in values) or "any text") for name, values in record.attrs.items()]
    for generation in GENERATIONS:
        lines.append(f"* {generation}: " + (_dtypes(record, generation) if record.runs_on(generation) else "not available"))
    lines += [] if record.expanded_by else [f"* reference: {record.reference}"]
    return "\n".join([*lines, ""])


def generate() -> str:
    """The text of the page."""
    parts = [_HEAD]
    for pipe in Pipe:
        names = [record.name for record in TABLE.values() if record.pipe is pipe]
        if names:
            parts.append(f"**Pipe {pipe.name}**: " + ", ".join(f"`{n}`" for n in names) + "\n")
    for title, family in _SECTIONS:
        parts.append(f"## {title}\n")
        parts += [entry(record) for record in family.RECORDS]
    return "\n".join(parts)


def main(argv: list[str]) -> int:
    """Write the page to the path given."""
    if len(argv) != 1:
        print("usage: python -m tilelang_ascend.isa.gen_docs OUT.md", file=sys.stderr)
        return 2
    Path(argv[0]).write_text(generate(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
