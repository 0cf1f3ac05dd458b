"""Streams of issued instructions: reading, printing and comparing them.

A stream is an int64 array of records ``op, line, n, argument 0 … argument n-1`` (docs/ir.md section 4) in which GM
addresses are written as tensor index and offset, so that streams of two runs on different arrays can be compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..isa.base import DTYPE_CODES, Space
from ..isa.table import TABLE

_DTYPE_NAMES = {code: name for name, code in DTYPE_CODES.items()}
_OFFSET_BITS = 40  # of a normalised GM operand; the tensor index is above


class Issued(NamedTuple):
    """One record of a stream."""

    op: int
    line: int
    args: tuple[int, ...]

    def text(self) -> str:
        """Readable form: ``add UB[0]:float32 UB[256]:float32 …``."""
        record = list(TABLE.values())[self.op]
        words = [*record.attrs, *(o.name for o in record.operands), *(a.name for a in record.args)]
        first, count = len(record.attrs), len(record.operands)
        parts = []
        for i, (name, word) in enumerate(zip(words, self.args)):
            is_attr, is_operand = i < first, first <= i < first + count
            legal = record.attrs[name] if is_attr else ()
            value = (legal[word] if legal else word) if is_attr else _operand(word) if is_operand else _scalar(record, i, word)
            parts.append(f"{name}={value}")
        return f"{record.name} {' '.join(parts)}"


def _operand(word: int) -> str:
    space, dtype, offset = (word >> 56) & 0xFF, (word >> 48) & 0xFF, word & ((1 << 48) - 1)
    if space == Space.GM:
        return f"GM{offset >> _OFFSET_BITS}[{offset & ((1 << _OFFSET_BITS) - 1)}]:{_DTYPE_NAMES.get(dtype, dtype)}"
    return f"{Space(space).name}[{offset}]:{_DTYPE_NAMES.get(dtype, dtype)}"


def _scalar(record, position: int, word: int) -> str:
    arg = record.args[position - len(record.attrs) - len(record.operands)]
    return str(np.int64(word).view(np.float64)) if arg.kind == "float" else str(word)


def records(stream: np.ndarray) -> Iterator[Issued]:
    """The records of one stream, in order."""
    words = stream.tolist()
    i = 0
    while i < len(words):
        n = words[i + 2]
        yield Issued(words[i], words[i + 1], tuple(words[i + 3 : i + 3 + n]))
        i += 3 + n


class Recorded:
    """A recorded stream that can be issued again, on tensors at other addresses."""

    def __init__(self, stream: np.ndarray):
        table = list(TABLE.values())
        self.words = stream
        self.lines = np.empty(len(stream), np.int64)
        """Of every word: the source line of its record."""
        operands, i = [], 0
        while i < len(stream):
            record, end = table[stream[i]], i + 3 + int(stream[i + 2])
            self.lines[i:end] = stream[i + 1]
            first = i + 3 + len(record.attrs)
            operands += range(first, min(end, first + len(record.operands)))
            i = end
        places = np.array(operands, np.int64)
        self._gm = places[stream[places] >> 56 & 0xFF == Space.GM]

    def issued(self, addresses: Sequence[int], without: int | None = None) -> bytes:
        """The stream for tensors at `addresses` (in the order of the launch), but for the records of source line `without`."""
        words, place = self.words.copy(), self.words[self._gm] & (1 << 48) - 1
        base = np.array(addresses, np.int64)[place >> _OFFSET_BITS]
        words[self._gm] += base + (place & (1 << _OFFSET_BITS) - 1) - place
        return (words if without is None else words[self.lines != without]).tobytes()


def first_difference(a: Sequence[np.ndarray], b: Sequence[np.ndarray], names: Sequence[str] = ()) -> str | None:
    """None when two runs issued the same instructions on every core, else a text that shows the first difference.

    Source lines are not compared. `names` are core names for the text.
    """
    if len(a) != len(b):
        return f"{len(a)} cores against {len(b)} cores"
    for core, (left, right) in enumerate(zip(a, b)):
        if np.array_equal(left, right):
            continue
        where = names[core] if core < len(names) else f"core {core}"
        text = _first_difference(list(records(left)), list(records(right)))
        if text:
            return f"{where}: {text}"
    return None


def _first_difference(left: list[Issued], right: list[Issued]) -> str | None:
    for i, (x, y) in enumerate(zip(left, right)):
        if (x.op, x.args) != (y.op, y.args):
            return f"instruction {i}:\n  {x.text()} (line {x.line})\n  {y.text()} (line {y.line})"
    if len(left) == len(right):
        return None
    longer, common = max(left, right, key=len), min(len(left), len(right))
    return f"{len(left)} against {len(right)} instructions; the first one missing is {longer[common].text()}"
