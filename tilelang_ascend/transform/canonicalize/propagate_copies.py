"""propagate_copies: who reads a copy of a tile reads the tile itself, where both hold the same.

Before:  copy(ds, ds_shared); gemm(ds, q, dk); gemm(ds_shared, k, dq, transpose_A)
After:   gemm(ds, q, dk); gemm(ds, k, dq, transpose_A)

On a GPU a copy brings a tile to where an instruction takes it from; here every tile is brought to where it is needed, and each copy of it would be, too. The copy has
to be all that is ever written to its tile, of the same shape and dtype, and all readers have to stand behind it in the same statement list, in front of
what changes the tile it is a copy of.

Requires: Tile IR without views of tiles. Ensures: values are unchanged.
"""

from __future__ import annotations

from ...ir import PrimFunc, Stmt, StmtMutator, const_int, dtype_of, statements, substitute
from ...ir.visit import until_none_is_removed
from ...tile import COPY, is_op
from ...tile.uses import covers_whole, is_output, on_chip, uses_of, writers_and_readers


class _Propagate(StmtMutator):
    """removed: tiles that are read no more."""

    def __init__(self, body: Stmt):
        self.writers, self.readers = writers_and_readers(body)
        self.removed: set = set()

    def visit_SeqStmt(self, block):
        stmts = list(block.seq)
        for i, s in enumerate(stmts):
            tiles = self.same_values(s, stmts[i + 1 :])
            if tiles is not None:
                source, copy = tiles
                self.removed.add(copy)
                return [self.visit(x) for x in stmts[:i]] + [substitute(x, {copy: source}) for x in stmts[i + 1 :]]
        return [self.visit(x) for x in stmts]

    def same_values(self, s: Stmt, rest: list[Stmt]) -> tuple | None:
        """(tile, its copy that `s` makes) if the copy holds what the tile holds wherever it is read, in `rest`; None if not."""
        if not is_op(s, COPY) or len(s.value.args) != 2 or not all(map(covers_whole, s.value.args)):
            return None
        source, copy = (r.source for r in s.value.args)
        shapes = [[const_int(n) for n in b.ty.shape] for b in (source, copy)]
        if source.same_as(copy) or not on_chip(source) or not on_chip(copy) or dtype_of(source) != dtype_of(copy) or shapes[0] != shapes[1]:
            return None
        pending = {x for x in self.readers[copy]}
        if len(self.writers[copy]) != 1 or not pending or any(map(is_output, pending)):  # Output tells the name of the tile.
            return None
        for x in rest:
            pending -= set(statements(x))
            if source in uses_of(x).writes:
                return None
            if not pending:
                return source, copy
        return None


def propagate_copies(func: PrimFunc) -> PrimFunc:
    """Apply to a Tile IR function, until nothing changes."""
    return func.with_body(until_none_is_removed(func.body, _Propagate))


__all__ = ["propagate_copies"]
