"""chunk_nests: give `T.Parallel` loops over global memory whose extent is known only at run time a constant one.

Before:  Parallel(i < m): Y[i] = X[i] + 1
After:   for c in range(ceildiv(m, 4096)): Parallel(i < 4096): if c * 4096 + i < m: Y[c * 4096 + i] = X[c * 4096 + i] + 1

Requires: placed Tile IR. Ensures: a loop variable with an extent of run time indexes a tile, whose size bounds it.
"""

from __future__ import annotations

from functools import reduce

from ...ir import (
    BufferStore,
    For,
    PrimFunc,
    Stmt,
    StmtMutator,
    Var,
    const_int,
    dtype_of,
    exprs,
    free_vars,
    if_then,
    loop,
    statements,
    substitute,
    tirx,
)
from ...tile.nests import nest_of, rebuild_nest
from ...tile.uses import is_element_atomic, is_parallel, loads_in, on_chip

LANES = 4096
"""Iterations of one chunk: enough for whole instructions and transfers; tiles that do not fit are cut further."""
ROW = 512
"""Iterations of the innermost loop if several extents are known only at run time."""


class _Chunk(StmtMutator):
    def visit_For(self, s: For):
        if not is_parallel(s):
            return self.generic(s)
        loops, body = nest_of(s)
        bounded = _tile_indices(body)
        open_loops = [(v, e) for v, e in loops if const_int(e) is None and v not in bounded]
        lanes = LANES
        for _, e in loops:
            lanes //= max(1, const_int(e) or 1)
        sizes, chunks, conditions, places = {}, [], [], {}
        for v, e in reversed(open_loops):
            last = v.same_as(open_loops[0][0])
            sizes[v] = max(1, lanes if last else min(lanes, ROW))
            lanes //= sizes[v]
            chunk, inner = Var(f"{v.name}_chunk", "int32"), Var(v.name, "int32")
            extent = e if dtype_of(e) == "int32" else tirx.Cast("int32", e)
            chunks.append((chunk, tirx.floordiv(extent + (sizes[v] - 1), sizes[v])))
            places[v] = (inner, chunk * sizes[v] + inner)
            conditions.append(places[v][1] < extent)
        if not open_loops:
            return s
        inside = substitute(body, {v: place for v, (_, place) in places.items()})
        inside = if_then(reduce(tirx.And, reversed(conditions)), inside, span=s.span)
        out = rebuild_nest(s, [(places[v][0], sizes[v]) if v in places else (v, e) for v, e in loops], inside)
        for chunk, count in chunks:
            out = loop(chunk, count, out, span=s.span, num_stages=2)
        return out


def _tile_indices(body: Stmt) -> set:
    """Variables in indices of tiles."""
    found: set = set()
    for s in statements(body):
        accesses = [(s.buffer, s.indices)] if isinstance(s, BufferStore) else []
        accesses += [(x.source, x.indices) for e in exprs(s) for x in loads_in(e)]
        if is_element_atomic(s):
            target = s.value.args[0]
            accesses.append((target.source, [r.min for r in target.region]))
        found |= {v for buffer, indices in accesses if on_chip(buffer) for i in indices for v in free_vars(i)}
    return found


def chunk_nests(func: PrimFunc) -> PrimFunc:
    """Apply to a placed Tile IR function."""
    return func.with_body(_Chunk()(func.body))


__all__ = ["chunk_nests"]
