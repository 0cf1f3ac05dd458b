"""Execute, inspect and price single instructions of the native library, outside any machine."""

from __future__ import annotations

import ctypes
import functools
import struct
from dataclasses import dataclass

import numpy as np

from tilelang_ascend import native
from tilelang_ascend.arch import get_chip
from tilelang_ascend.isa import DTYPE_CODES, Space, lookup, opcode

NUM_SPACES = 8
_I64P = ctypes.POINTER(ctypes.c_int64)
_BYTES_PP = ctypes.POINTER(ctypes.POINTER(ctypes.c_uint8))


@dataclass(frozen=True)
class Access:
    """One strided access as the machine sees it; `base` is a byte offset in its memory (GM: in the GM array)."""

    space: Space
    write: bool
    atomic: bool
    align: int
    base: int
    len: int
    count: int
    stride: int
    outer_count: int
    outer_stride: int

    def mark(self, flags: np.ndarray) -> None:
        """Set the flag of every byte of the access."""
        for j in range(self.outer_count):
            for i in range(self.count):
                lo = self.base + j * self.outer_stride + i * self.stride
                assert 0 <= lo and lo + self.len <= flags.size, f"{self} leaves its memory"
                flags[lo : lo + self.len] = True


@dataclass(frozen=True)
class Cost:
    busy: float
    latency: float
    gm_rate: float
    assumed: float


def words(name: str, operands, args, attrs=None, gm_base: int = 0) -> list[int]:
    """The stream arguments of one call: attr codes, operand words, scalar arguments."""
    record = lookup(name)
    out = [record.attr_code(key, (attrs or {})[key]) for key in record.attrs]
    dtype = None
    for space, dtype, offset in operands:
        space = Space[space] if isinstance(space, str) else Space(space)
        out.append(int(space) << 56 | DTYPE_CODES[dtype] << 48 | (offset + (gm_base if space == Space.GM else 0)))
    is_float = dtype is not None and dtype.startswith(("float", "bfloat"))
    for arg, value in zip(record.args, args):
        if arg.kind == "float" and is_float:
            value = struct.unpack("<q", struct.pack("<d", float(value)))[0]
        out.append(((int(value) + 2**63) % 2**64) - 2**63)
    return out


@functools.cache
def _library() -> ctypes.CDLL:
    library = native.load()
    library.tla_probe_chip.restype = ctypes.c_void_p
    library.tla_probe_exec.restype = ctypes.c_int64
    library.tla_probe_accesses.restype = ctypes.c_int64
    return library


@functools.cache
def _chip(target: str) -> ctypes.c_void_p:
    chip = _library().tla_probe_chip(get_chip(target).to_json().encode())
    assert chip, f"the native library does not accept the chip data of {target}"
    return ctypes.c_void_p(chip)


def _pointers(arrays: dict) -> ctypes.Array:
    table = (ctypes.POINTER(ctypes.c_uint8) * NUM_SPACES)()
    for space, array in (arrays or {}).items():
        table[int(space)] = array.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
    return table


class Probe:
    """Memories (`Space` -> uint8 array), optional shadows of the same sizes, one chip."""

    def __init__(self, memories: dict, shadows: dict | None = None, chip: str = "a2"):
        self.memories = {Space[k] if isinstance(k, str) else Space(k): v for k, v in memories.items()}
        self.shadows = {Space[k] if isinstance(k, str) else Space(k): v for k, v in (shadows or {}).items()}
        self.chip = _chip(chip)
        self.reports: list[str] = []

    def _words(self, name, operands, args, attrs):
        gm = self.memories.get(Space.GM)
        values = words(name, operands, args, attrs, gm.ctypes.data if gm is not None else 0)
        return (ctypes.c_int64 * len(values))(*values), len(values)

    def _sizes(self):
        return (ctypes.c_int64 * NUM_SPACES)(*(self.memories[s].size if s in self.memories else 0 for s in range(NUM_SPACES)))

    def execute(self, name, operands=(), args=(), attrs=None, atomic=(0, 0)):
        """Execute one instruction in place; returns its 64-bit result. Reports are left in `self.reports`."""
        array, n = self._words(name, operands, args, attrs)
        text = ctypes.create_string_buffer(4096)
        shadow = _pointers(self.shadows) if self.shadows else None
        result = _library().tla_probe_exec(
            self.chip,
            opcode(name),
            n,
            array,
            _pointers(self.memories),
            shadow,
            self._sizes(),
            atomic[0],
            atomic[1],
            text,
            ctypes.c_int64(4096),
        )
        self.reports = text.value.decode().splitlines()
        return result

    def accesses(self, name, operands=(), args=(), attrs=None, with_data: bool = True) -> list[Access]:
        """The accesses of one instruction."""
        array, n = self._words(name, operands, args, attrs)
        rows = (ctypes.c_int64 * (10 * 100000))()
        data = _pointers(self.memories) if with_data else None
        found = _library().tla_probe_accesses(
            self.chip, opcode(name), n, array, data, self._sizes() if with_data else None, rows, ctypes.c_int64(100000)
        )
        gm = self.memories.get(Space.GM)
        out = []
        for i in range(found):
            space, write, atomic, align, base, *rest = rows[10 * i : 10 * i + 10]
            base -= gm.ctypes.data if space == Space.GM and gm is not None else 0
            out.append(Access(Space(space), bool(write), bool(atomic), align, base, *rest))
        return out

    def cost(self, name, operands=(), args=(), attrs=None) -> Cost:
        """Price of one instruction in cycles."""
        array, n = self._words(name, operands, args, attrs)
        out = (ctypes.c_double * 4)()
        _library().tla_probe_cost(self.chip, opcode(name), n, array, out)
        return Cost(*out)


def has_implementation(name: str) -> bool:
    """True when src/isa implements the instruction."""
    return bool(_library().tla_probe_has(opcode(name)))
