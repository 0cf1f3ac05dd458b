"""hoist_loads: move loads that bring the same data in every iteration in front of the persistent loop.

Before:  for t: bx = …; copy(G[0:4096], gain); copy(X[bx, 0:4096], x); …
After:   copy(G[0:4096], gain); for t: bx = …; copy(X[bx, 0:4096], x); …

GPU kernels load weights and biases once for each tile, because a tile is a thread block; here a core runs many tiles.

Requires: placed Tile IR after map_grid. Ensures: values are unchanged; a loop that runs no iteration loads in vain.
"""

from __future__ import annotations

from ...ir import (
    AllocBuffer,
    Bind,
    For,
    PrimFunc,
    Stmt,
    StmtMutator,
    exprs,
    free_vars,
    scope_of,
    seq,
    statements,
    stmts_of,
)
from ...tile.jumps import may_leave
from ...tile.uses import is_parallel, moved_regions, on_chip, uses_of


def hoistable(body: Stmt) -> list[Stmt]:
    """Leading statements of each tile's life in `body` that do the same in every iteration: loads from GM nobody writes, and
    element-wise work on such tiles alone (conversions)."""
    variable = _defined(body)
    top = stmts_of(body)
    writers: dict = {}
    written_gm: set = set()
    for s in top:
        for b in uses_of(s).writes:
            writers.setdefault(b, []).append(s)
            if not on_chip(b):
                written_gm.add(b)
    fixed: set = set()
    out = []
    for s in top:
        if may_leave(s):
            break  # What stands behind may never run, and may not be allowed to.
        uses = uses_of(s)
        if len(uses.writes) != 1 or any(isinstance(x, AllocBuffer) for x in statements(s)):
            continue
        (target,) = uses.writes
        if not on_chip(target) or len(writers[target]) != 1 or target in uses.reads:
            continue
        if moved_regions(s) is None and not is_parallel(s):
            continue
        if any(b not in fixed if on_chip(b) else (b in written_gm or scope_of(b) == "local.var") for b in uses.reads):
            continue
        used = {v for x in statements(s) for e in exprs(x) for v in free_vars(e)}
        if used & (variable - _defined(s)):
            continue
        fixed.add(target)
        out.append(s)
    return out


def _defined(stmt: Stmt) -> set:
    """Loop variables and lets below `stmt`."""
    loops = {s.loop_var for s in statements(stmt) if isinstance(s, For)}
    return loops | {s.var for s in statements(stmt) if isinstance(s, Bind)}


class _Hoist(StmtMutator):
    def visit_For(self, s: For):
        if "tl.persistent" not in s.annotations:
            return self.generic(s)
        moved = [x for x in hoistable(s.body) if not _uses(x, s.loop_var)]
        if not moved:
            return s
        rest = [x for x in stmts_of(s.body) if not any(x.same_as(m) for m in moved)]
        return [*moved, For(s.loop_var, s.min, s.extent, s.kind, seq(rest), annotations=dict(s.annotations), span=s.span)]


def _uses(stmt: Stmt, var) -> bool:
    return any(var in free_vars(e) for x in statements(stmt) for e in exprs(x))


def hoist_loads(func: PrimFunc) -> PrimFunc:
    """Apply to a placed Tile IR function."""
    return func.with_body(_Hoist()(func.body))


__all__ = ["hoist_loads"]
