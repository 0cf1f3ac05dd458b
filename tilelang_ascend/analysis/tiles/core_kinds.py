"""Which kind of core a statement needs."""

from __future__ import annotations

from ...ir import AllocBuffer, BufferStore, Stmt, scope_of, statements

CUBE_SCOPES = ("local.l0c", "shared.l1", "local.l0a", "local.l0b")


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
