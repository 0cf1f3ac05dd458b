"""The table: every record of every family, in stream order (the index of a record is its opcode)."""

from __future__ import annotations

import functools
import hashlib

from . import cube, debug, dma, fixpipe, scalar, sync, vector_convert, vector_elementwise, vector_shuffle
from .base import Intrinsic

_FAMILIES = (dma, cube, fixpipe, vector_elementwise, vector_convert, vector_shuffle, scalar, sync, debug)

TABLE: dict[str, Intrinsic] = {record.name: record for family in _FAMILIES for record in family.RECORDS}
assert len(TABLE) == sum(len(family.RECORDS) for family in _FAMILIES), "two records have one name"

_OPCODES = {name: index for index, name in enumerate(TABLE)}


def opcode(name: str) -> int:
    """Index of the record in the table: the `op` of the stream. Raises KeyError for an unknown name."""
    return _OPCODES[name]


def lookup(name: str) -> Intrinsic:
    """The record called `name`, with or without the ``ascend.`` prefix. Raises KeyError listing close matches."""
    short = name.removeprefix("ascend.")
    if short not in TABLE:
        import difflib

        close = difflib.get_close_matches(short, TABLE, n=3)
        raise KeyError(f"no intrinsic {short!r}" + (f"; close: {', '.join(close)}" if close else ""))
    return TABLE[short]


@functools.cache
def instructions_of(dtype: str, generation: str) -> frozenset[str]:
    """Names of the records all of whose operands, but for bit masks of lanes, may have this dtype on a generation."""
    masked = {"compare": ("uint8",), "compare_scalar": ("uint8",), "select": (dtype, "uint8"), "select_scalar": (dtype, "uint8")}

    def operands(name: str, count: int) -> tuple:
        first = masked.get(name, ())
        return (*first, *(dtype,) * (count - len(first)))

    return frozenset(name for name, r in TABLE.items() if operands(name, len(r.operands)) in r.signatures.get(generation, ()))


@functools.cache
def ordered_on(generation: str) -> frozenset[str]:
    """dtypes that Compare takes in every mode on a generation."""
    return frozenset(dtypes[1] for dtypes in TABLE["compare"].signatures[generation]) - vector_convert.EQUALITY_ONLY[generation]


def shape_text(record: Intrinsic) -> str:
    """One line that says what a stream of this record looks like; two tables with equal lines are compatible."""
    attrs = ",".join(f"{name}={'|'.join(values)}" for name, values in record.attrs.items())
    operands = ",".join(f"{o.name}:{o.direction}" for o in record.operands)
    args = ",".join(f"{a.name}:{a.kind}" for a in record.args)
    return f"{record.name}/{record.pipe.name}/{attrs}/{operands}/{args}"


def table_hash() -> int:
    """64-bit fingerprint of names, pipes, attributes and argument order."""
    text = "\n".join(shape_text(record) for record in TABLE.values())
    return int(hashlib.sha256(text.encode()).hexdigest()[:16], 16)
