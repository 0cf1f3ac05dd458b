"""Write the C++ header with opcodes, pipes and shapes of the table: ``python -m tilelang_ascend.isa.gen_cpp OUT.h``.

Running the file itself (``python tilelang_ascend/isa/gen_cpp.py OUT.h``) does the same without importing the parent
package.
"""

from __future__ import annotations

import sys
from pathlib import Path

if not __package__:  # run as a plain script by a build that must not import the whole package
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    __package__ = "isa"

from .base import DTYPE_CODES, Intrinsic, Pipe, Space
from .sync import EVENTS, split_event
from .table import TABLE, table_hash

_HEAD = """\
// SPDX-License-Identifier: Apache-2.0
// Generated from the instruction table (tilelang_ascend/isa) by tilelang_ascend.isa.gen_cpp. Do not edit.
#pragma once

#include <cstdint>

namespace tla {
"""


def _enum(head: str, rows) -> list[str]:
    return [head + " {", *(f"  {name} = {value}," for name, value in rows), "};", ""]


def _array(ctype: str, name: str, values) -> list[str]:
    values = list(values)
    lines, line = [], " "
    for value in values:
        if len(line) + len(str(value)) > 116:
            lines.append(line)
            line = " "
        line += f" {value},"
    return [f"inline {ctype} {name}[kNumOps] = {{", *lines, line, "};", ""]


def _cost_classes() -> list[str]:
    return list(dict.fromkeys(record.cost_class for record in TABLE.values()))


def _positions(record: Intrinsic) -> list[str]:
    """Positions of attrs, operands and args in the stream, as `ARG_<op>_<name>`."""
    names = [*record.attrs, *record.arg_names]
    body = ", ".join(f"ARG_{record.name}_{name} = {i}" for i, name in enumerate(names))
    return [f"enum : int32_t {{ {body} }};"] if names else []


def _attr_values(record: Intrinsic) -> list[str]:
    return [
        "enum : int64_t { " + ", ".join(f"ATTR_{record.name}_{attr}_{v} = {i}" for i, v in enumerate(values)) + " };"
        for attr, values in record.attrs.items()
        if values
    ]


def generate() -> str:
    """The text of the header."""
    records = list(TABLE.values())
    classes = _cost_classes()
    out = [_HEAD]
    out += _enum("enum Op : int32_t", ((f"OP_{r.name}", i) for i, r in enumerate(records)))
    out += [f"constexpr int kNumOps = {len(records)};", f"constexpr uint64_t kTableHash = {table_hash():#018x}ULL;", ""]
    out += _enum("enum Pipe : int8_t", ((f"PIPE_CODE_{p.name}", int(p)) for p in Pipe))
    out += _enum("enum Space : int32_t", ((f"SPACE_{s.name}", int(s)) for s in Space))
    out += _enum("enum DType : int32_t", ((f"DT_{name}", code) for name, code in DTYPE_CODES.items()))
    out += _enum("enum CostClass : int16_t", ((f"COST_{name}", i) for i, name in enumerate(classes)))
    out += [f"constexpr int kNumCostClasses = {len(classes)};"]
    names = ", ".join(f'"{name}"' for name in classes)
    out += [f"inline const char* const kCostClassNames[kNumCostClasses] = {{{names}}};", ""]
    out += _array("const char* const", "kOpNames", (f'"{r.name}"' for r in records))
    out += _array("const int8_t", "kOpPipe", (f"PIPE_CODE_{r.pipe.name}" for r in records))
    out += _array("const int16_t", "kOpCostClass", (f"COST_{r.cost_class}" for r in records))
    out += _array("const int8_t", "kOpNumAttrs", (len(r.attrs) for r in records))
    out += _array("const int8_t", "kOpNumOperands", (len(r.operands) for r in records))
    out += _array("const int8_t", "kOpNumArgs", (len(r.args) for r in records))
    out += _array("const int8_t", "kOpReturns", (int(r.returns is not None) for r in records))
    out += ["// Bit i is set when scalar argument i (after the operands) is a float word.", ""]
    out += _array(
        "const uint32_t",
        "kOpFloatArgs",
        (sum(1 << i for i, a in enumerate(r.args) if a.kind == "float") for r in records),
    )
    out += ["// Bit i is set when operand i may be read / written.", ""]
    out += _array("const uint32_t", "kOpReads", (sum(1 << i for i, o in enumerate(r.operands) if o.reads) for r in records))
    out += _array("const uint32_t", "kOpWrites", (sum(1 << i for i, o in enumerate(r.operands) if o.writes) for r in records))
    out += ["// Pipes of flag events by attr code: source, destination.", ""]
    pairs = ", ".join("{" + ", ".join(f"PIPE_CODE_{p}" for p in split_event(e)) + "}" for e in EVENTS)
    out += [
        f"constexpr int kNumEvents = {len(EVENTS)};",
        f"inline const int8_t kEventPipes[kNumEvents][2] = {{{pairs}}};",
    ]
    out += ["inline const char* const kEventNames[kNumEvents] = {" + ", ".join(f'"{e}"' for e in EVENTS) + "};", ""]
    out += ["// X(name) for every opcode, in opcode order.", "#define TLA_FOR_EACH_OP(X) \\"]
    out += [f"  X({record.name}) \\" for record in records] + [""]
    out += ["// Position of every attr, operand and argument in the stream."]
    for record in records:
        out += _positions(record)
    out += ["", "// Codes of attribute values."]
    for record in records:
        out += _attr_values(record)
    out += ["", "}  // namespace tla", ""]
    return "\n".join(out)


def main(argv: list[str]) -> int:
    """Write the header to the path given, only when its text changed (keeps incremental builds quiet)."""
    if len(argv) != 1:
        print("usage: python -m tilelang_ascend.isa.gen_cpp OUT.h", file=sys.stderr)
        return 2
    path, text = Path(argv[0]), generate()
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
