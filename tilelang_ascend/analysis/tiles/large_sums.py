"""Accumulators that L0C has no room for."""

from __future__ import annotations

from math import prod
from typing import Iterable

from ...ir import Evaluate, For, SeqStmt, Stmt, TensorRegion, children, const_int, dtype_of, itemsize, op_name, scope_of, statements
from ...ir.base import elements
from ...isa.base import SCOPES, Space
from ...isa.units import FRACTAL_ROWS, round_up
from ...tile import GEMM, is_op
from ...tile.products import ACCUMULATED_IN
from ...tile.uses import uses_of


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


def uses_of_sums(stmt: Stmt) -> tuple:
    """What a program does with tiles in L0C, in the loops and branches in which it does: where this is the same they take as much room, whatever else
    there is."""
    if not any(_in_l0c(b) for b in uses_of(stmt).all):
        return ()
    inside = tuple(found for s in children(stmt) if (found := uses_of_sums(s)))
    if isinstance(stmt, SeqStmt):
        return inside
    if isinstance(stmt, Evaluate):
        sums = tuple(
            (k, a.source, str(a)) for k, a in enumerate(elements(stmt.value.args)) if isinstance(a, TensorRegion) and _in_l0c(a.source)
        )
        return op_name(stmt), sums, str(stmt.value.args[3]) if is_op(stmt, GEMM) else None
    own = const_int(stmt.extent) if isinstance(stmt, For) else stmt
    return type(stmt).__name__, own, inside


def _in_l0c(buffer) -> bool:
    return SCOPES.get(scope_of(buffer)) is Space.L0C


__all__ = ["accumulators", "large_sums", "sum_bytes", "uses_of_sums"]
