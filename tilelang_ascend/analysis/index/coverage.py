"""Does a statement write every element of a buffer?"""

from __future__ import annotations

from ...ir import (
    Bind,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    SeqStmt,
    Stmt,
    TensorRegion,
    Var,
    const_int,
    imm,
    statements,
    stmts_of,
    substitute_expr,
    sym,
)
from ...isa.base import VECTOR_CORES_PER_BLOCK
from ...tile.uses import covers_whole, is_parallel, on_chip, work_of


def writes_whole(stmt: Stmt, buffer) -> bool:
    """True if `stmt` surely overwrites all of the static `buffer` without reading its old value being needed for coverage.

    Tile ops cover their destination region; a `Parallel` nest covers a buffer it stores to unconditionally with distinct loop
    variables as indices whose extents equal the shape.
    """
    if isinstance(stmt, Evaluate):
        record = work_of(stmt)
        if record is None:
            return False
        return any(
            getattr(arg, "source", None) is not None and arg.source.same_as(buffer) and covers_whole(arg)
            for i, arg in enumerate(stmt.value.args)
            if i in record.writes
        )
    if isinstance(stmt, For) and stmt.kind == ForKind.PARALLEL:
        return _nest_covers(stmt, buffer, {})
    if isinstance(stmt, SeqStmt):
        return any(writes_whole(s, buffer) for s in stmt.seq)
    return False


def whole_store(nest: Stmt) -> BufferStore | None:
    """The store that a `Parallel` nest is: to all of a tile on chip, beside nothing but names for values. None for other statements."""
    rest = [s for s in statements(nest) if not isinstance(s, (For, SeqStmt, Bind))] if is_parallel(nest) else []
    if len(rest) != 1 or not isinstance(rest[0], BufferStore):
        return None
    (s,) = rest
    return s if on_chip(s.buffer) and writes_whole(nest, s.buffer) else None


def written_boxes(stmt: Stmt, buffer, core=None) -> list[list[tuple[int, int]]]:
    """Boxes of `buffer`, (first, end) for each dimension, that a statement surely overwrites; only what has constant bounds. `core`: the
    variable with the number of the vector core, all of which run the statement."""
    if writes_whole(stmt, buffer):
        return [[(0, const_int(n)) for n in buffer.ty.shape]]
    record = work_of(stmt)
    if record is None:
        return []
    regions = [a for i, a in enumerate(stmt.value.args) if i in record.writes and isinstance(a, TensorRegion)]
    boxes = [
        [(_on_core(r.min, core, number), _on_core(r.extent, core, number)) for r in a.region]
        for a in regions
        if a.source.same_as(buffer)
        for number in range(VECTOR_CORES_PER_BLOCK if core is not None else 1)
    ]
    return [[(low, low + n) for low, n in box] for box in boxes if all(None not in side for side in box)]


def _on_core(e, core, number: int) -> int | None:
    """The number an expression is on a vector core, None if it is none."""
    return const_int(e if core is None else sym.Analyzer().simplify(substitute_expr(e, {core: imm(number)})))


def fill_together(boxes: list[list[tuple[int, int]]], shape) -> bool:
    """True if boxes that differ along one dimension only cover a whole static buffer."""
    whole = [(0, const_int(n)) for n in shape]
    if whole in boxes:
        return True
    for d in range(len(whole)):
        end = 0
        for low, high in sorted(b[d] for b in boxes if b[:d] + b[d + 1 :] == whole[:d] + whole[d + 1 :]):
            end = max(end, high) if low <= end else end
        if end >= whole[d][1]:
            return True
    return False


def _nest_covers(stmt: Stmt, buffer, extents: dict) -> bool:
    if isinstance(stmt, For):
        if stmt.kind != ForKind.PARALLEL:
            return False
        return any(_nest_covers(s, buffer, {**extents, stmt.loop_var: const_int(stmt.extent)}) for s in stmts_of(stmt.body))
    if isinstance(stmt, BufferStore) and stmt.buffer.same_as(buffer):
        used = set()
        for index, n in zip(stmt.indices, buffer.ty.shape):
            if const_int(n) == 1 and const_int(index) == 0:
                continue
            if not isinstance(index, Var) or index in used or extents.get(index) != const_int(n):
                return False
            used.add(index)
        return True
    return False


__all__ = ["fill_together", "whole_store", "writes_whole", "written_boxes"]
