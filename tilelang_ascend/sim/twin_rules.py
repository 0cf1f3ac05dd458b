"""Headers of the host twin that follow from the instruction table: opcodes, and the rules for one chip generation."""

from __future__ import annotations

from ..isa import DTYPE_CODES, EVENTS, TABLE, Intrinsic
from ..isa.gen_cpp import generate as isa_table_header
from ..isa.stream import word_dtype

__all__ = ["isa_table_header", "rules_header"]

_I64 = (-(1 << 63), (1 << 63) - 1)


def rules_header(generation: str) -> str:
    """Text of ``twin_rules.h``: for every record the dtypes the generation accepts and the limits of its arguments.

    Records a generation does not have keep their place with no legal dtypes, so that using them fails to compile.
    """
    out = [
        "// Generated from the instruction table (tilelang_ascend/isa). Do not edit.",
        f'#define TLA_GENERATION "{generation}"',
        f"#define TLA_IS_C220 {int(generation == 'c220')}",
        "namespace tla {",
        "namespace twin {",
        "// Flag events in the order of their attribute codes.",
        "constexpr const char* kEvents[] = {" + ", ".join(f'"{event}"' for event in EVENTS) + "};",
        *(_rule(record, generation) for record in TABLE.values()),
        "}  // namespace twin",
        "}  // namespace tla",
        "",
    ]
    return "\n".join(out)


def _rule(record: Intrinsic, generation: str) -> str:
    rows = {_key(row) for row in record.signatures.get(generation, ())} or {0}
    signatures = ", ".join(f"{row:#x}ull" for row in sorted(rows))
    limits = ", ".join(_limit(arg) for arg in record.args) or "{nullptr, 0, 0}"
    return (
        f"template <> struct Rule<tla::OP_{record.name}> {{ "
        f'static constexpr const char* api = "{record.api}"; '
        f"static constexpr int num_args = {record.num_stream_args}, "
        f"first_arg = {len(record.attrs) + len(record.operands)}; "
        f"static constexpr uint64_t signatures[] = {{{signatures}}}; "
        f"static constexpr Limit limits[] = {{{limits}}}; }};"
    )


def _key(row: tuple[str, ...]) -> int:
    """dtype codes of a signature, one byte each, first operand highest; bool has the code of its bytes."""
    key = 0
    for dtype in row:
        key = key << 8 | DTYPE_CODES[word_dtype(dtype)]
    return key


def _limit(arg) -> str:
    checked = arg.kind == "int" and (arg.lo is not None or arg.hi is not None)
    if not checked:
        return "{nullptr, 0, 0}"
    lo, hi = (default if bound is None else bound for bound, default in zip((arg.lo, arg.hi), _I64))
    return f'{{"{arg.name}", {lo}, {hi}}}'
