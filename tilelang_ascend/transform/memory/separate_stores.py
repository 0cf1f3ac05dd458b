"""separate_stores: small tiles that are loaded, changed and stored again are stored from a tile of their own.

Before:  for k: copy(X[k], a); for i in parallel: a[i] = f(a[i]); copy(a, Y[k])
After:   for k: copy(X[k], a); for i in parallel: b[i] = f(a[i]); copy(b, Y[k])

A version of `a` is in use from the start of its load to the end of its store. For a small tile that is mostly the way to memory and back,
twice, and there are no more versions than flags to follow them: with two tiles each has its way once, and as many versions. Large tiles keep
their pipes busy meanwhile, and are worth their room.

Requires: mapped Tile IR, tiles without versions. Ensures: nothing else reads what is stored.
"""

from __future__ import annotations

from ...analysis.index.coverage import whole_store
from ...analysis.tiles.core_kinds import crosses
from ...analysis.tiles.home_loops import core_number, home_loops, versioned_buffers
from ...ir import (
    BufferStore,
    For,
    PrimFunc,
    Stmt,
    StmtMutator,
    decl_buffer,
    dtype_of,
    exprs,
    redeclared,
    scope_of,
    seq,
    statements,
    stmts_of,
    structural_equal,
    substitute,
)
from ...tile.uses import COUNT, IN_ORDER, loads_in, moved_regions, uses_of
from ...tileop.base.layout import tile_bytes

MOST_BYTES = 4096
"""Of a tile. As many versions as there are flags, each on its way to memory and back twice, move no more than the memories do."""


def separate_stores(func: PrimFunc) -> PrimFunc:
    """Apply to a mapped Tile IR function."""
    core = core_number(func.body)
    moves: dict[For, dict] = {}
    new: dict = {}
    for b in versioned_buffers(func.body):
        if scope_of(b) != "shared.ub" or tile_bytes(b) > MOST_BYTES:
            continue
        for home in home_loops(func.body, b, core):
            change = _change_of(stmts_of(home.body), b)
            if change is not None:
                new.setdefault(b, decl_buffer(list(b.ty.shape), dtype_of(b), f"{b.name}_out", scope="shared.ub"))
                moves.setdefault(home, {})[b] = change
    return func.with_body(redeclared(_Separate(moves, new)(func.body), {b: [b, own] for b, own in new.items()})) if moves else func


def _change_of(body: list[Stmt], b) -> int | None:
    """Position of the last statement that writes to `b`, if it makes each element from the one in its place, and `b` goes from GM to it and
    from it to GM."""
    users = [k for k, s in enumerate(body) if b in uses_of(s).all]
    last = max(k for k in users if b in uses_of(body[k]).writes)
    behind = [k for k in users if k > last]
    loaded = any(_moves(body[k], b, 1) for k in users if k < last)
    stored = bool(behind) and all(_moves(body[k], b, 0) for k in behind)
    return last if loaded and stored and _in_place(body[last], b) else None


def _moves(s: Stmt, b, side: int) -> bool:
    """Is the statement a transfer between GM, or the other kind of core, and `b`, its source (0) or destination (1)?"""
    ends = moved_regions(s)
    return ends is not None and ends[side].source.same_as(b) and (scope_of(ends[1 - side].source) in ("global", "") or bool(crosses(s)))


def _in_place(s: Stmt, b) -> bool:
    """Is the statement a nest that does nothing but write all of `b`, each element once and from the one in its place?"""
    store = whole_store(s)
    loops = [x for x in statements(s) if isinstance(x, For)]
    if store is None or not store.buffer.same_as(b) or any(note in x.annotations for x in loops for note in (COUNT, IN_ORDER)):
        return False
    found = [e for x in statements(s) for v in exprs(x) for e in loads_in(v) if e.source.same_as(b)]
    return bool(found) and all(structural_equal(i, j) for e in found for i, j in zip(e.indices, store.indices))


class _Rename(StmtMutator):
    """Stores to other buffers; what is read stays."""

    def __init__(self, mapping: dict):
        self.mapping = mapping

    def visit_BufferStore(self, s: BufferStore):
        return BufferStore(self.mapping.get(s.buffer, s.buffer), s.value, list(s.indices), span=s.span)


class _Separate(StmtMutator):
    def __init__(self, moves: dict, new: dict):
        self.moves, self.new = moves, new

    def visit_For(self, s: For):
        changes = self.moves.get(s)
        if changes is None:
            return self.generic(s)
        body = stmts_of(s.body)
        for b, last in changes.items():
            body[last] = _Rename({b: self.new[b]})(body[last])
            body[last + 1 :] = [substitute(x, {b: self.new[b]}) for x in body[last + 1 :]]
        return For(s.loop_var, s.min, s.extent, s.kind, self(seq(body)), annotations=dict(s.annotations), span=s.span)


__all__ = ["separate_stores"]
