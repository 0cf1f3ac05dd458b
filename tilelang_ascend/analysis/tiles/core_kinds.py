"""Which kind of core a statement needs."""

from __future__ import annotations

from ...ir import AllocBuffer, BufferStore, Stmt, scope_of, statements
from ...tile.uses import moved_regions, own_uses, uses_of

CUBE_SCOPES = ("local.l0c", "shared.l1", "local.l0a", "local.l0b")


_CROSSINGS = {("local.l0c", "shared.ub"): "cube", ("shared.ub", "shared.l1"): "vector"}


def crosses(stmt: Stmt) -> str:
    """The kind of core, "cube" or "vector", whose work a copy from a tile of the one to a tile of the other is: that of the core that has the value. ""
    for any other statement."""
    regions = moved_regions(stmt)
    scopes = tuple(scope_of(r.source) for r in regions) if regions is not None else ()
    return _CROSSINGS.get(scopes, "")


def works_on_cube(stmt: Stmt) -> bool:
    """True for a statement that is work of the cube core, or has some inside."""
    scopes = {scope_of(b) for b in uses_of(stmt).all}
    if scopes.isdisjoint(CUBE_SCOPES):
        return False
    if "shared.ub" not in scopes:
        return True
    mine = (s for s in statements(stmt) if crosses(s) != "vector")
    return any(scope_of(b) in CUBE_SCOPES for s in mine for b in own_uses(s).all)


def uses_cube(stmt: Stmt) -> bool:
    """True if any buffer below lives on the cube core."""
    return any(isinstance(s, AllocBuffer) and scope_of(s.buffer) in CUBE_SCOPES for s in statements(stmt))


def uses_vector(stmt: Stmt) -> bool:
    """True if any buffer below lives in UB, or an element of GM is stored, which goes there through UB."""
    return any(
        isinstance(s, AllocBuffer)
        and scope_of(s.buffer) == "shared.ub"
        or isinstance(s, BufferStore)
        and scope_of(s.buffer) in ("global", "")
        for s in statements(stmt)
    )
