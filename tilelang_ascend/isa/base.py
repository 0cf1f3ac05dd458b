"""Vocabulary of the instruction table: memory spaces, dtypes, pipes and the frozen `Intrinsic` record.

Everything here is plain Python (no tvm, no numpy), so that the build can generate C++ from the table with nothing
installed.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Callable, Mapping, Sequence

from .text import render


class Space(enum.IntEnum):
    """Memory spaces; the values are the codes of operand words (docs/ir.md section 4)."""

    GM = 0
    L1 = 1
    L0A = 2
    L0B = 3
    L0C = 4
    UB = 5
    BT = 6
    FB = 7


class Pipe(enum.IntEnum):
    """Pipes of one core. Values as in instruction traces of the real headers (doc: facts, hardware section 3)."""

    S = 0
    V = 1
    M = 2
    MTE1 = 3
    MTE2 = 4
    MTE3 = 5
    ALL = 6
    FIX = 10


VECTOR_CORES_PER_BLOCK = 2
"""Vector cores beside each cube core of chips with both (doc: split architecture)."""

KERNEL_TYPES: Mapping[str, tuple[str, ...]] = {"aic_only": ("aic",), "aiv_only": ("aiv",), "mix_1_2": ("aic", "aiv")}
"""Kernel type -> the kinds of core it runs on."""

SCOPES: Mapping[str, Space] = {
    "global": Space.GM,
    "shared.l1": Space.L1,
    "local.l0a": Space.L0A,
    "local.l0b": Space.L0B,
    "local.l0c": Space.L0C,
    "shared.ub": Space.UB,
    "local.bt": Space.BT,
    "local.fb": Space.FB,
}
"""Storage scope of Ascend IR buffers -> memory space."""

DTYPE_CODES: Mapping[str, int] = {
    "int8": 1,
    "uint8": 2,
    "int16": 3,
    "uint16": 4,
    "int32": 5,
    "uint32": 6,
    "int64": 7,
    "uint64": 8,
    "float16": 9,
    "bfloat16": 10,
    "float32": 11,
    "float64": 12,
    "bool": 13,
    "float8_e4m3fn": 14,
    "float8_e5m2": 15,
}
"""dtype name -> code in operand words (docs/ir.md section 4)."""

ITEMSIZE: Mapping[str, int] = {
    "int8": 1, "uint8": 1, "bool": 1, "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e8m0fnu": 1,
    "int16": 2, "uint16": 2, "float16": 2, "bfloat16": 2,
    "int32": 4, "uint32": 4, "float32": 4,
    "int64": 8, "uint64": 8, "float64": 8,
}  # fmt: skip

TEXT: tuple[str, ...] = ()
"""Legal values of an attribute that takes any text. The stream carries its `text_code`."""


def text_code(text: str) -> int:
    """64-bit FNV-1a fingerprint of a text, as a signed number (`tla_text` in src/machine computes the same)."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


GENERATIONS = ("c220", "3510")
"""Chip generations a record can price and type: C220 (910B, 910_93) and 3510 (950)."""
NO_OPERANDS: Mapping[str, tuple] = {generation: ((),) for generation in GENERATIONS}
"""Signatures of an instruction without operands."""

SPACE_ALIGNMENT: Mapping[Space, int] = {
    Space.GM: 1, Space.L1: 32, Space.L0A: 512, Space.L0B: 512, Space.L0C: 64, Space.UB: 32, Space.BT: 64, Space.FB: 64,
}  # fmt: skip
"""Default start-address alignment in bytes (doc: SIMD API general constraints; hardware section 1.2). GM is free."""


@dataclass(frozen=True)
class Operand:
    """A memory operand: the head address of what the instruction reads or writes.

    direction: ``in``, ``out`` or ``inout``. ``align_elements`` replaces the default alignment of the space by that many
    elements of the operand's dtype (1 = natural alignment).
    """

    name: str
    direction: str
    spaces: tuple[Space, ...]
    align_elements: int | None = None

    def __post_init__(self):
        assert self.direction in ("in", "out", "inout"), self.direction

    @property
    def reads(self) -> bool:
        return self.direction != "out"

    @property
    def writes(self) -> bool:
        return self.direction != "in"

    def alignment(self, space: Space, dtype: str) -> int:
        """Required alignment in bytes of the head address when the operand lies in `space`."""
        if self.align_elements is not None:
            return self.align_elements * ITEMSIZE[dtype]
        return max(SPACE_ALIGNMENT[space], ITEMSIZE[dtype] if space is Space.GM else 1)


@dataclass(frozen=True)
class Arg:
    """A scalar argument. kind ``int`` (int64 in the stream, limits inclusive), ``float`` (scalar of the operand dtype,
    float64 bits in the stream) or ``value`` (either, by the dtype of the expression). `ctype` is the C++ type of the
    API parameter (``T`` = the element type, empty = whatever the expression has)."""

    name: str
    kind: str
    lo: int | None = None
    hi: int | None = None
    ctype: str = "int32_t"

    def __post_init__(self):
        assert self.kind in ("int", "float", "value"), self.kind


Signature = tuple[str, ...]
"""One legal combination of operand dtypes, in operand order."""

Span = tuple[int, str, "int | None", "int | None"]
"""Operand index, direction, first byte, one past the last byte; offsets relative to the operand's head address."""


@dataclass(frozen=True)
class Call:
    """The values of one call, as `check`, `work` and `footprint` see them.

    `dtypes` has one dtype name per operand; `args` holds ints and floats, or None where the value is not known.
    """

    intrin: "Intrinsic"
    dtypes: tuple[str, ...]
    args: Mapping[str, object]
    attrs: Mapping[str, str] = field(default_factory=dict)
    generation: str = "c220"

    def __getitem__(self, name: str):
        return self.args[name]

    def known(self, *names: str) -> bool:
        """True when every named argument has a value."""
        return all(self.args[n] is not None for n in names)

    def itemsize(self, operand: int = 0) -> int:
        """Bytes of one element of an operand."""
        return ITEMSIZE[self.dtypes[operand]]


@dataclass(frozen=True)
class Intrinsic:
    """One Ascend C instruction, one syntax shape. See docs/isa.md for the generated page of all records.

    Argument order in Ascend IR: operands, then args. In the stream: attr codes first, then operands, then args.
    """

    name: str
    pipe: Pipe
    api: str
    operands: tuple[Operand, ...]
    args: tuple[Arg, ...]
    text: "str | Callable"
    doc: str
    reference: str
    cost_class: str
    cores: tuple[str, ...] = ("aic", "aiv")
    attrs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    signatures: Mapping[str, tuple[Signature, ...]] = field(default_factory=dict)
    work_fn: "Callable[[Call], int | None] | None" = None
    check_fn: "Callable[[Call], str | None] | None" = None
    footprint_fn: "Callable[[Call], Sequence[Span]] | None" = None
    returns: str | None = None
    uses_reserved_ub: bool = False
    """True when the API uses the part of UB the kernel header reserves."""
    expanded_by: str = ""
    """Pass that writes other instructions for it; it has no text. Empty for what the hardware has."""
    once: bool = False
    """True when the effect leaves the memories (output, the end of the kernel): one core of a block executes it."""
    shows: bool = False
    """True when it gives the user something to read, for which a launch must provide memory."""
    anew_if: str = ""
    """The argument that, if it is 1, makes the first operand one that is written only. Empty if there is none."""
    ascending: bool = False
    """True when the footprint is the whole story of the order of accesses inside one instruction (element i only
    touches element i of every operand), so that exact overlap of source and destination is legal."""

    def __post_init__(self):
        names = [*self.attrs, *(o.name for o in self.operands), *(a.name for a in self.args)]
        assert len(set(names)) == len(names), f"{self.name}: argument names repeat: {names}"
        for generation, rows in self.signatures.items():
            assert generation in GENERATIONS, f"{self.name}: unknown generation {generation}"
            for row in rows:
                assert len(row) == len(self.operands), f"{self.name}: signature {row} has wrong length"
                assert all(d in DTYPE_CODES for d in row), f"{self.name}: unknown dtype in {row}"

    @property
    def arg_names(self) -> tuple[str, ...]:
        """Names in the order of the call: operands, then scalar arguments."""
        return tuple(o.name for o in self.operands) + tuple(a.name for a in self.args)

    @property
    def num_stream_args(self) -> int:
        """Number of 64-bit arguments in the stream: attrs, operands, args."""
        return len(self.attrs) + len(self.operands) + len(self.args)

    def runs_on(self, generation: str) -> bool:
        """True when the instruction exists on a chip generation."""
        return generation in self.signatures

    def dtypes(self, generation: str, operand: int = 0) -> tuple[str, ...]:
        """Legal dtypes of one operand on a generation, in table order, without repetition."""
        return tuple(dict.fromkeys(row[operand] for row in self.signatures.get(generation, ())))

    def attr_code(self, name: str, value) -> int:
        """Stream code of an attribute value. Raises KeyError/ValueError text for values the table does not know."""
        legal = self.attrs[name]
        if legal is TEXT:
            return text_code(str(value))
        if str(value) not in legal:
            raise ValueError(f"{self.name}: {name}={value!r} is none of {', '.join(legal)}")
        return legal.index(str(value))

    def bind(self, dtypes: Sequence[str], args: Sequence, attrs: Mapping[str, str] | None = None, generation: str = "c220") -> Call:
        """Pack the values of one call. `args` follows `Intrinsic.args`, None = not known at compile time."""
        assert len(dtypes) == len(self.operands) and len(args) == len(self.args), f"{self.name}: arity"
        return Call(self, tuple(dtypes), dict(zip((a.name for a in self.args), args)), dict(attrs or {}), generation)

    def work(self, call: Call) -> int | None:
        """Amount of work in the unit of the cost class (see docs/isa.md), None when it depends on unknown values."""
        return self.work_fn(call) if self.work_fn else 0

    def footprint(self, call: Call) -> list[Span]:
        """Conservative byte span of every operand, relative to its head address.

        An upper end of None means "unknown, assume the rest of the buffer". Empty when the instruction does nothing
        (count or repeat 0). Each entry is (operand index, direction, low byte, one past the high byte).
        """
        if self.footprint_fn is None:
            assert not self.operands, f"{self.name}: no footprint rule"
            return []
        return list(self.footprint_fn(call))

    def render(
        self,
        operands: Sequence[tuple[str, str]],
        args: Sequence[str],
        attrs: Mapping[str, str] | None = None,
        cann: str = "8.1",
        generation: str = "c220",
    ) -> str:
        """Ascend C text of one call for a CANN release and a chip generation.

        `operands` are (C++ expression, dtype) pairs, `args` C++ expressions.
        """
        return render(self, operands, args, attrs or {}, cann, generation)
