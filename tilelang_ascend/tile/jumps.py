"""Statements that may leave the iteration they stand in."""

from __future__ import annotations

from ..ir import Break, Continue, For, Stmt, While, children


def may_leave(stmt: Stmt) -> bool:
    """True if `stmt` holds a `break` or `continue` of a loop around it: what stands behind it in the body may not be reached."""
    if isinstance(stmt, (Break, Continue)):
        return True
    return not isinstance(stmt, (For, While)) and any(may_leave(c) for c in children(stmt))


__all__ = ["may_leave"]
