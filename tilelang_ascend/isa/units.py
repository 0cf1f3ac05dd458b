"""Units of addresses, instructions and matrices that all chips share."""

from __future__ import annotations

BLOCK_BYTES = 32
"""Unit of UB addresses and of vector strides (doc: SIMD API general constraints)."""

REPEAT_BLOCKS = 8
"""Blocks one repeat of a vector instruction handles (doc: SIMD API general constraints)."""

REPEAT_BYTES = REPEAT_BLOCKS * BLOCK_BYTES

MAX_REPEAT = 255
"""Repeats of one instruction: its counter has eight bits."""

FRACTAL_ROWS = 16
"""Rows of the piece of a matrix the cube core works on; a row is one block."""

FRACTAL_BYTES = FRACTAL_ROWS * BLOCK_BYTES

CACHE_LINE_BYTES = 64
"""What the cache of the scalar unit reads and drops at a time (doc: DataCacheCleanAndInvalid)."""


def round_up(n: int, unit: int) -> int:
    """Smallest multiple of `unit` that is at least `n`."""
    return -(-n // unit) * unit


def ceil_div(a: int, b: int) -> int:
    """Integer division rounded up."""
    return -(-a // b)
