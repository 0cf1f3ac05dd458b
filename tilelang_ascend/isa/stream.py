"""The 64-bit words of the instruction stream as compile-time values: dtype codes, rounding of float arguments."""

from __future__ import annotations

import math
import struct

import ml_dtypes
import numpy as np

from . import DTYPE_CODES, Intrinsic, Space

_SMALL_FLOATS = {
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float32": np.float32,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "float4_e2m1fn": ml_dtypes.float4_e2m1fn,
}


def is_float(dtype: str) -> bool:
    """True for floating-point dtype names."""
    return "float" in dtype


def word_dtype(dtype: str) -> str:
    """dtype an operand word names: Ascend C has no bool tensors, their bytes are uint8."""
    return "uint8" if dtype == "bool" else dtype


TILE_BIAS = 1 << 31
"""In words with the number of a tile: what index arithmetic adds or takes away does not reach the number."""


def operand_base(space: Space, dtype: str, offset: int = 0, tile: int = 0) -> int:
    """Operand word (docs/ir.md section 4) as a signed 64-bit integer; `offset` is in bytes, `tile` the number of a declared tile."""
    assert 0 <= offset < (TILE_BIAS if tile else 1 << 48), f"byte offset {offset} does not fit an operand word"
    assert 0 <= tile < 1 << 16, f"tile number {tile} does not fit an operand word"
    place = tile << 32 | TILE_BIAS + offset if tile else offset
    return int(space) << 56 | DTYPE_CODES[word_dtype(dtype)] << 48 | place


def exponent_code(value: float) -> int:
    """Code of a number as a float8_e8m0fnu: its size, halfway up; below the smallest normal float32 the bits count (docs/numbers.md)."""
    size = min(int(np.array(value, np.float32).view(np.int32)) & 0x7FFFFFFF, 0x7F800000)
    return size + (0x400000 if size >= 0x800000 else 0x3FFFFF) >> 23


def round_to(value: float, dtype: str) -> float:
    """`value` rounded to a dtype (to nearest even; overflow gives infinity, or what the dtype has for it), as a Python float."""
    if dtype == "float8_e8m0fnu":
        code = exponent_code(value)
        return math.nan if code == 255 else 2.0 ** (code - 127)
    if dtype == "float4_e2m1fn" and value != value:
        return float(ml_dtypes.finfo(dtype).max)
    kind = _SMALL_FLOATS.get(dtype)
    if kind is None:
        return float(value)
    with np.errstate(over="ignore"):
        return float(kind(value))


def float_bits(value: float) -> int:
    """Bits of a float64 as a signed 64-bit integer."""
    return struct.unpack("<q", struct.pack("<d", value))[0]


def scalar_dtype(record: Intrinsic, dtypes: list[str]) -> str:
    """dtype of the float arguments of a call: that of the last operand, which the scalar is combined with or fills."""
    assert dtypes, f"{record.name} has a float argument but no operand"
    return dtypes[-1]
