"""check_bounds: accesses that are outside of a tile whenever the kernel runs are errors with their line.

    b = T.alloc_shared((16,), "float32"); for i in T.Parallel(80): b[i] = 0      # elements 16 to 79 are another tile's

The program does not change. Only what is certain is refused: the statement runs in every block, the loops around it have constant lengths,
and the index is affine in their variables. Behind conditions, in loops that `break` or `continue`, and where data chooses the element, memcheck
looks when the kernel runs.

Requires: Tile IR of the front end. Ensures: nothing.
"""

from __future__ import annotations

from ...analysis.index.affine import affine_limits
from ...errors import OutOfTile
from ...ir import (
    AllocBuffer,
    Bind,
    BufferStore,
    For,
    PrimFunc,
    SeqStmt,
    Stmt,
    TensorLoad,
    TensorRegion,
    const_int,
    dtype_of,
    expr_children,
    exprs,
    is_if_then_else,
    statements,
    substitute_expr,
    tirx,
    written_out,
)
from ...ir.grids import is_grid_axis
from ...tile.jumps import may_leave
from ...tile.uses import on_chip


def check_bounds(func: PrimFunc) -> PrimFunc:
    """Apply; returns `func`. Raises `OutOfTile` at the user's line."""
    _Checker({s.buffer: s.span for s in statements(func.body) if isinstance(s, AllocBuffer)}).visit(func.body)
    return func


class _Checker:
    """Walks over what surely runs: not into branches and `while`. `extents`: loop variables around with their lengths."""

    def __init__(self, declared: dict):
        self.declared = declared
        self.extents: dict = {}
        self.lets: dict = {}

    def visit(self, s: Stmt) -> None:
        if isinstance(s, SeqStmt):
            for x in s.seq:
                self.visit(x)
            return
        for e in exprs(s):
            self.see(e, s)
        if isinstance(s, BufferStore):
            self.access(s.buffer, [(i, 1) for i in s.indices], s)
        elif isinstance(s, Bind):
            self.lets[s.var] = written_out(s, self.lets)
        elif isinstance(s, For):
            self.loop(s)

    def loop(self, s: For) -> None:
        length, first = const_int(s.extent), const_int(s.min)
        if is_grid_axis(s):
            self.visit(s.body)  # There is no kernel without blocks.
        elif length is not None and length > 0 and first == 0 and not may_leave(s.body):
            self.extents[s.loop_var] = length
            self.visit(s.body)
            del self.extents[s.loop_var]

    def see(self, e, s: Stmt) -> None:
        """Look at the accesses of an expression, except for what is evaluated only under a condition."""
        if isinstance(e, TensorLoad):
            self.access(e.source, [(i, 1) for i in e.indices], s)
        elif isinstance(e, TensorRegion):
            self.access(e.source, [(r.min, const_int(r.extent)) for r in e.region], s)
        lazy = isinstance(e, (tirx.And, tirx.Or, tirx.Select)) or is_if_then_else(e)
        for child in expr_children(e)[:1] if lazy else expr_children(e):
            self.see(child, s)

    def access(self, buffer, place: list, s: Stmt) -> None:
        if not on_chip(buffer):
            return
        for axis, ((index, count), size) in enumerate(zip(place, buffer.ty.shape)):
            size = const_int(size)
            found = None if size is None or count is None else self.range_of(index)
            if found is not None and (found[0] < 0 or found[1] + count > size):
                self.refuse(buffer, axis, found[0], found[1] + count - 1, size, s)

    def range_of(self, index) -> tuple[int, int] | None:
        """The lowest and highest value of an index, None if they are not known."""
        if isinstance(index, int):
            return index, index
        if not dtype_of(index).startswith("int"):
            return None
        return affine_limits(substitute_expr(index, self.lets), self.extents)

    def refuse(self, buffer, axis: int, first: int, last: int, size: int, s: Stmt) -> None:
        place = f"index {first}" if first == last else f"indices {first} to {last}"
        raise OutOfTile(
            name=buffer.name, axis=axis, place=place, size=size, at=s.span,
            notes=[(f"'{buffer.name}' is declared here", self.declared[buffer])] if buffer in self.declared else [],
        )  # fmt: skip


__all__ = ["check_bounds"]
