"""State and addressing of the NumPy semantics: memories as byte arrays, operands as (space, dtype, offset)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Iterator, Mapping

import ml_dtypes
import numpy as np

from ..base import DTYPE_CODES, ITEMSIZE, Intrinsic, Space
from ..units import BLOCK_BYTES, REPEAT_BYTES

_ML = {name: np.dtype(getattr(ml_dtypes, name)) for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2")}
_NAMES = {code: name for name, code in DTYPE_CODES.items()}


def np_dtype(name: str) -> np.dtype:
    """NumPy dtype of a dtype name; `bool` is stored as one byte."""
    return _ML.get(name) or np.dtype("uint8" if name == "bool" else name)


def encode_operand(space: Space, dtype: str, offset: int) -> int:
    """The 64-bit operand word of docs/ir.md section 4."""
    return int(space) << 56 | DTYPE_CODES[dtype] << 48 | offset


def decode_operand(word: int) -> tuple[Space, str, int]:
    """Space, dtype and byte offset of an operand word."""
    word &= 2**64 - 1
    return Space(word >> 56), _NAMES[word >> 48 & 0xFF], word & (2**48 - 1)


@dataclass
class Machine:
    """What instructions act on.

    memories: `Space` -> its bytes (uint8). atomic: (op, dtype) of writes to GM. l0a_layout: order of fractals in L0A, a
    property of the chip (`ChipSpec.l0a_layout`).
    """

    memories: Mapping[Space, np.ndarray]
    atomic: tuple[str, str] = ("none", "float32")
    l0a_layout: str = "zZ"


@dataclass(frozen=True)
class Tensor:
    """An operand: elements of `dtype` from byte `offset` of a memory on. Every access is checked against its bounds."""

    name: str
    bytes: np.ndarray
    space: Space
    dtype: str
    offset: int

    @property
    def itemsize(self) -> int:
        return ITEMSIZE[self.dtype]

    def _index(self, offsets) -> np.ndarray:
        start = np.asarray(offsets, dtype=np.int64).reshape(-1, 1) + self.offset
        index = start + np.arange(self.itemsize)
        if index.size and (index.min() < 0 or index.max() >= self.bytes.size):
            raise IndexError(f"operand {self.name}: bytes {index.min()}..{index.max()} of {self.space.name} ({self.bytes.size} bytes)")
        return index

    def read(self, offsets) -> np.ndarray:
        """Elements at byte offsets (relative to the head), as a 1-D array of the operand's dtype."""
        return self.bytes[self._index(offsets)].reshape(-1).view(np_dtype(self.dtype)).copy()

    def write(self, offsets, values) -> None:
        """Store elements at byte offsets; later entries win."""
        raw = np.ascontiguousarray(np.asarray(values), dtype=np_dtype(self.dtype)).view(np.uint8)
        self.bytes[self._index(offsets)] = raw.reshape(-1, self.itemsize)

    def read_n(self, count: int, first_byte: int = 0) -> np.ndarray:
        """`count` consecutive elements."""
        return self.read(first_byte + np.arange(count) * self.itemsize)

    def write_n(self, values, first_byte: int = 0) -> None:
        """Store consecutive elements."""
        values = np.asarray(values).reshape(-1)
        self.write(first_byte + np.arange(values.size) * self.itemsize, values)


@dataclass
class Execution:
    """One call being executed: operands by name in `t`, scalar arguments by name in `a`, attributes in `attrs`."""

    intrin: Intrinsic
    machine: Machine
    t: dict[str, Tensor]
    a: dict[str, int | float]
    attrs: dict[str, str] = field(default_factory=dict)

    @property
    def operands(self) -> list[Tensor]:
        return list(self.t.values())

    def lanes(self) -> Iterator[tuple[np.ndarray, ...]]:
        """Byte offsets of the active lanes of every operand, one tuple per repeat, in execution order.

        The count form runs in repeats of 256 bytes of the widest operand, too.
        """
        per_repeat = REPEAT_BYTES // max(t.itemsize for t in self.operands)
        if "count" in self.a:
            for first in range(0, self.a["count"], per_repeat):
                lane = np.arange(first, min(first + per_repeat, self.a["count"]))
                yield tuple(lane * t.itemsize for t in self.operands)
            return
        lane = np.nonzero(self.mask(per_repeat))[0]
        for repeat in range(self.a["repeat"]):
            yield tuple(self.lane_offsets(name, lane, repeat) for name in self.t)

    def mask(self, per_repeat: int) -> np.ndarray:
        """Active lanes of a repeat as booleans."""
        word = (self.a["mask_hi"] & (2**64 - 1)) << 64 | (self.a["mask_lo"] & (2**64 - 1))
        return np.array([word >> i & 1 for i in range(min(per_repeat, 128))], dtype=bool)

    def lane_offsets(self, name: str, lane: np.ndarray, repeat: int) -> np.ndarray:
        """Byte offsets of lanes of one repeat in the high-dimension form."""
        size = self.t[name].itemsize
        per_block = BLOCK_BYTES // size
        base = repeat * self.a[name + "_rep"] * BLOCK_BYTES
        return base + lane // per_block * self.a[name + "_blk"] * BLOCK_BYTES + lane % per_block * size
