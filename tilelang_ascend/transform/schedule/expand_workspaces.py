"""expand_workspaces: what goes to the other kind of core in a loop inside of one with late statements has a place for each iteration of both.

Before:  for t [skew "0 0 1"]: for k in range(n[t]): copy(p, ws); copy(ws, P); …
After:   for t [skew "0 0 1"]: for k in range(n[t]): copy(p, ws[t % 2, k]); copy(ws[t % 2, k], P); …

Versions that an inner loop numbers begin with 0 in every iteration of the loop around it. How many of them the iteration before has used only run time tells:
the sender would wait until all of that one has been read, and with it everything else its core does. Workspaces are in GM, where there is room.

Requires: mapped Tile IR with the annotations of `skew_stages`. Ensures: workspaces used in inner loops of few iterations alone are not versioned by these.
"""

from __future__ import annotations

from ...analysis.tiles.home_loops import KnownUses, core_number, home_loops, versioned_buffers
from ...ir import (
    Bind,
    For,
    PrimFunc,
    Range,
    Stmt,
    StmtMutator,
    TensorRegion,
    const_int,
    decl_buffer,
    dtype_of,
    exprs,
    imm,
    map_children,
    redeclared,
    statements,
    stmts_of,
    sym,
    tirx,
)
from ...tile.uses import is_parallel, lateness, loads_in, on_chip

MOST_PLACES = 16
"""Of one workspace: as many versions as synchronisation tells apart."""


class _Find(StmtMutator):
    def __init__(self, body: Stmt):
        uses, core = KnownUses(), core_number(body)
        self.known = sym.Analyzer()
        by_element = {x.source for s in statements(body) for e in exprs(s) for x in loads_in(e)}
        self.homes = {b: home_loops(body, b, uses, core) for b in versioned_buffers(body) if not on_chip(b) and b not in by_element}
        self.new: dict = {}
        """Workspace -> the one with more places, and its numbers."""

    def visit_Bind(self, s: Bind):
        if dtype_of(s.var) in ("int32", "int64") and not loads_in(s.value):
            self.known.bind(s.var, s.value)
        return s

    def visit_For(self, s: For):
        self.generic(s)  # What lets in it are worth.
        if any(late := lateness(s)):
            for loop in stmts_of(s.body):
                if isinstance(loop, For) and not is_parallel(loop) and const_int(loop.min) == 0:
                    self._places(s, loop, max(late) + 1)
        return s

    def _places(self, around: For, loop: For, rounds: int) -> None:
        most = const_int(loop.extent) or self.known.const_int_bound(loop.extent).max_value
        if not 1 < most * rounds <= MOST_PLACES:
            return
        for b, homes in self.homes.items():
            if len(homes) == 1 and homes[0].same_as(loop):
                more = decl_buffer([rounds, most, *b.ty.shape], dtype_of(b), b.name, scope="global")
                self.new[b] = more, (tirx.floormod(around.loop_var, imm(rounds, dtype_of(around.loop_var))), loop.loop_var)


class _Expand(StmtMutator):
    def __init__(self, new: dict):
        self.new = new

    def expr(self, e):
        if isinstance(e, TensorRegion) and e.source in self.new:
            more, numbers = self.new[e.source]
            return tirx.BufferRegion(more, [*(Range.from_min_extent(n, imm(1, dtype_of(n))) for n in numbers), *e.region])
        return map_children(e, self.expr)


def expand_workspaces(func: PrimFunc) -> PrimFunc:
    """Apply to a mapped Tile IR function."""
    find = _Find(func.body)
    find(func.body)
    if not find.new:
        return func
    return func.with_body(redeclared(_Expand(find.new)(func.body), {b: more for b, (more, _) in find.new.items()}))


__all__ = ["expand_workspaces"]
