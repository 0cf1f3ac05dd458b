"""forward_copies: remove staging buffers that only pass a tile on.

Before:  copy(C_local, C_shared); copy(C_shared, C[...])
After:   copy(C_local, C[...])

GPU kernels stage accumulators through shared memory to coalesce stores; the fix-pipe and the DMA engines need no such step.

Requires: Tile IR. Ensures: values of all remaining buffers and of GM are unchanged.
"""

from __future__ import annotations

from ...ir import PrimFunc, Stmt, StmtMutator, TensorRegion, const_int, dtype_of
from ...ir.visit import until_none_is_removed
from ...tile import COPY, is_op
from ...tile.uses import covers_whole, loads_in, moved_regions, on_chip, region_buffer, uses_of, with_regions, writers_and_readers


def _copy_args(stmt: Stmt):
    if is_op(stmt, COPY):
        return tuple(stmt.value.args)
    return None


class _Forward(StmtMutator):
    def __init__(self, body: Stmt):
        self.writers, self.readers = writers_and_readers(body)
        self.removed: set = set()

    def staging_source(self, stmt: Stmt):
        """The region a staging buffer is filled from by `stmt`, with that buffer; None if `stmt` fills no staging buffer."""
        args = _copy_args(stmt)
        if args is None or not covers_whole(args[1]):
            return None
        source, stage = args[0], args[1].source
        if not on_chip(stage) or region_buffer(source) is None or len(self.writers[stage]) != 1 or not self.readers[stage]:
            return None
        for reader in self.readers[stage]:
            out = moved_regions(reader)
            if out is None or not covers_whole(out[0]) or out[0].source is not stage and not out[0].source.same_as(stage):
                return None
            source_on_chip, target_on_chip = on_chip(source.source), on_chip(out[1].source)
            if not source_on_chip and not target_on_chip:
                return None
            if dtype_of(stage) not in (dtype_of(source.source), dtype_of(out[1].source)):
                return None
            sizes = _sizes(source)
            if sizes != _sizes(out[1]) or len(source.region) != len(out[1].region) and None in sizes:
                return None
            # Through the stage regions may overlap, and what it holds may choose where it goes.
            if out[1].source.same_as(source.source) or any(x.source.same_as(stage) for x in _loads(out[1])):
                return None
        return source, stage

    def visit_SeqStmt(self, block):
        stmts = list(block.seq)
        forwarded = {}
        for i, s in enumerate(stmts):
            found = self.staging_source(s)
            # Of a chain, one link at a time: the source of the next link is on its way out.
            if found and found[0].source not in forwarded and self.all_readers_follow(found, stmts[i + 1 :]):
                forwarded[found[1]] = found[0]
        out = []
        for s in stmts:
            args, moved = _copy_args(s), moved_regions(s)
            if args is not None and region_buffer(args[1]) in forwarded and covers_whole(args[1]):
                self.removed.add(args[1].source)
            elif moved is not None and region_buffer(moved[0]) in forwarded:
                out.append(with_regions(s, forwarded[moved[0].source], moved[1]))
            else:
                out.append(self.visit(s))
        return out

    def all_readers_follow(self, found, rest: list[Stmt]) -> bool:
        """Every reader stands in the same block, and neither the source nor what says where it begins changes before the last of them."""
        source, stage = found
        pending = list(self.readers[stage])
        needed = {source.source, *(x.source for x in _loads(source))}
        for s in rest:
            pending = [r for r in pending if not s.same_as(r)]
            if not pending:
                return True
            if not needed.isdisjoint(uses_of(s).writes):
                return False
        return False


def _loads(r: TensorRegion) -> list:
    """Elements and variables that the bounds of a region read."""
    return [x for bound in r.region for e in (bound.min, bound.extent) for x in loads_in(e)]


def _sizes(r: TensorRegion) -> list:
    """Extents that are not one; those of run time as None."""
    return [const_int(x.extent) for x in r.region if const_int(x.extent) != 1]


def forward_copies(func: PrimFunc) -> PrimFunc:
    """Apply to a Tile IR function until nothing changes (chains of staging buffers are rare and short)."""
    return func.with_body(until_none_is_removed(func.body, _Forward))


__all__ = ["forward_copies"]
