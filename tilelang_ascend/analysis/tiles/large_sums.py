"""Accumulators that L0C has no room for."""

from __future__ import annotations

from math import prod
from typing import Iterable

from ...ir import Stmt, const_int, dtype_of, itemsize, statements
from ...isa.units import FRACTAL_ROWS, round_up
from ...tile import GEMM, is_op
from ...tile.products import ACCUMULATED_IN


def sum_bytes(buffer) -> int:
    """Bytes of an accumulator in L0C, whole fractals."""
    *planes, rows, columns = [1, *map(const_int, buffer.ty.shape)]
    dtype = ACCUMULATED_IN.get(dtype_of(buffer), dtype_of(buffer))
    return prod(planes) * round_up(rows, FRACTAL_ROWS) * round_up(columns, FRACTAL_ROWS) * itemsize(dtype)


def accumulators(body: Stmt) -> set:
    """What products are added to."""
    return {s.value.args[2].source for s in statements(body) if is_op(s, GEMM)}


def large_sums(sums: Iterable, room: int) -> list:
    """The largest of accumulators, the largest first, without which the others take half of `room` or less; none if there is room for all."""
    left = sorted(sums, key=lambda b: (sum_bytes(b), b.name))
    large: list = []
    if sum(map(sum_bytes, left)) <= room:
        return large
    while sum(map(sum_bytes, left)) > room // 2:
        large.append(left.pop())
    return large


__all__ = ["accumulators", "large_sums", "sum_bytes"]
