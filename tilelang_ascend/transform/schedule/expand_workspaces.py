"""expand_workspaces: what goes to the other kind of core in a loop inside of one with late statements has a place for each iteration of both.

Before:  for t [skew "0 0 1"]: for k in range(n[t]): copy(p, ws); copy(ws, P); …
After:   for t [skew "0 0 1"]: for k in range(n[t]): copy(p, ws[t % 2, k]); copy(ws[t % 2, k], P); …

Versions that an inner loop numbers begin with 0 in every iteration of the loop around it. How many of them the iteration before has used only run time tells:
the sender would wait until all of that one has been read, and with it everything else its core does. Workspaces are in GM, where there is room.

Requires: mapped Tile IR with the annotations of `skew_stages`. Ensures: workspaces used in inner loops of few iterations alone are not versioned by these.
"""

from __future__ import annotations

from ...analysis.index.known_lets import known_lets
from ...analysis.tiles.home_loops import core_number, home_loops, versioned_buffers
from ...ir import (
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
    tirx,
)
from ...tile.uses import is_parallel, lateness, loads_in, on_chip

MOST_PLACES = 16
"""Of one workspace: as many versions as synchronisation tells apart."""


def _places(body: Stmt) -> dict:
    """Workspace -> the one with more places, and its numbers."""
    core, known = core_number(body), known_lets(body)
    by_element = {x.source for s in statements(body) for e in exprs(s) for x in loads_in(e)}
    homes = {b: home_loops(body, b, core) for b in versioned_buffers(body) if not on_chip(b) and b not in by_element}
    found: dict = {}
    for around in (s for s in statements(body) if isinstance(s, For) and any(lateness(s))):
        rounds = max(lateness(around)) + 1
        for loop in stmts_of(around.body):
            if not isinstance(loop, For) or is_parallel(loop) or const_int(loop.min) != 0:
                continue
            most = const_int(loop.extent) or known.const_int_bound(loop.extent).max_value
            if not 1 < most * rounds <= MOST_PLACES:
                continue
            for b, (home, *others) in ((b, h) for b, h in homes.items() if h):
                if not others and home.same_as(loop):
                    more = decl_buffer([rounds, most, *b.ty.shape], dtype_of(b), b.name, scope="global")
                    found[b] = more, (tirx.floormod(around.loop_var, imm(rounds, dtype_of(around.loop_var))), loop.loop_var)
    return found


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
    new = _places(func.body)
    return func.with_body(redeclared(_Expand(new)(func.body), {b: more for b, (more, _) in new.items()})) if new else func


__all__ = ["expand_workspaces"]
