"""split_dynamic_nests: give `T.Parallel` loops over global memory whose extent is known only at run time a constant one.

Before:  Parallel(i < m): Y[i] = X[i] + 1
After:   for p in range(ceildiv(m, 4096)): Parallel(i < 4096): if p * 4096 + i < m: Y[p * 4096 + i] = X[p * 4096 + i] + 1

Parts of an inner loop come in front of iterations of those around it, unless a variable goes from one iteration to the next: then these
stand around the parts.

Requires: placed Tile IR. Ensures: a loop variable with an extent of run time indexes a tile, whose size bounds it.
"""

from __future__ import annotations

from math import prod

from ...analysis.tiles.carried_scalars import carried_scalars
from ...ir import BufferStore, For, PrimFunc, Stmt, StmtMutator, const_int, exprs, free_vars, seq, statements
from ...tile.division import split_nest
from ...tile.nests import nest_of
from ...tile.uses import is_element_atomic, is_parallel, loads_in, on_chip, uses_of

LANES = 4096
"""Iterations of one part: enough for whole instructions and transfers; tiles that do not fit are split further."""
ROW = 512
"""Iterations of the innermost loop if several extents are known only at run time."""


class _Split(StmtMutator):
    def __init__(self, carried: set):
        self.carried = carried

    def visit_For(self, s: For):
        if not is_parallel(s):
            return self.generic(s)
        loops, body = nest_of(s)
        bounded = _tile_indices(body)
        open_loops = [(v, e) for v, e in loops if const_int(e) is None and v not in bounded]
        if not open_loops:
            return s
        in_order = not self.carried.isdisjoint(uses_of(s).writes)
        sizes = _sizes_in_order(loops, open_loops[-1][0]) if in_order else _sizes(loops, open_loops)
        return seq(split_nest(s, sizes, num_stages=2))


def _sizes(loops: list, open_loops: list) -> dict:
    """Iterations of one part of each of the `open_loops` of a nest."""
    lanes, sizes = LANES // prod(max(1, const_int(e) or 1) for _, e in loops), {}
    for v, _ in reversed(open_loops):
        sizes[v] = max(1, lanes if v.same_as(open_loops[0][0]) else min(lanes, ROW))
        lanes //= sizes[v]
    return sizes


def _sizes_in_order(loops: list, last) -> dict:
    """The same where parts run in the order of the nest, whose loops are open up to that of `last`."""
    k = next(k for k, (v, _) in enumerate(loops) if v.same_as(last))
    inside = prod(const_int(e) or 1 for _, e in loops[k + 1 :])
    return {v: 1 for v, _ in loops[:k]} | {last: max(1, LANES // max(1, inside))}


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


def split_dynamic_nests(func: PrimFunc) -> PrimFunc:
    """Apply to a placed Tile IR function."""
    return func.with_body(_Split(carried_scalars(func.body))(func.body))


__all__ = ["split_dynamic_nests"]
