"""Does a statement write every element of a buffer?"""

from __future__ import annotations

from ..ir import BufferStore, Evaluate, For, ForKind, SeqStmt, Stmt, Var, const_int, op_name, stmts_of
from .tile_uses import TILE_OP_OPERANDS, covers_whole


def writes_whole(stmt: Stmt, buffer) -> bool:
    """True if `stmt` surely overwrites all of the static `buffer` without reading its old value being needed for coverage.

    Tile ops cover their destination region; a `Parallel` nest covers a buffer it stores to unconditionally with distinct loop
    variables as indices whose extents equal the shape.
    """
    if isinstance(stmt, Evaluate):
        name = op_name(stmt)
        if name not in TILE_OP_OPERANDS:
            return False
        return any(
            getattr(arg, "source", None) is not None and arg.source.same_as(buffer) and covers_whole(arg)
            for i, arg in enumerate(stmt.value.args)
            if i in TILE_OP_OPERANDS[name][1]
        )
    if isinstance(stmt, For) and stmt.kind == ForKind.PARALLEL:
        return _nest_covers(stmt, buffer, {})
    if isinstance(stmt, SeqStmt):
        return any(writes_whole(s, buffer) for s in stmt.seq)
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


__all__ = ["writes_whole"]
