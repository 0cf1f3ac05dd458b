"""Which kind of core a statement needs."""

from __future__ import annotations

from ...ir import AllocBuffer, BufferStore, Stmt, scope_of, statements
from ...tile.uses import uses_of

CUBE_SCOPES = ("local.l0c", "shared.l1", "local.l0a", "local.l0b")


def works_on_cube(stmt: Stmt) -> bool:
    """True for a statement that reads or writes a tile of the cube core."""
    return any(scope_of(b) in CUBE_SCOPES for b in uses_of(stmt).all)


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
