"""What integer lets of a program are worth, to ask for bounds of what is said with them."""

from __future__ import annotations

from ...ir import Bind, Stmt, dtype_of, statements, sym
from ...tile.uses import loads_in


def known_lets(body: Stmt) -> sym.Analyzer:
    """An analyzer that knows the lets of `body`, but for those that read memory."""
    known = sym.Analyzer()
    for s in statements(body):
        if isinstance(s, Bind) and dtype_of(s.var) in ("int32", "int64") and not loads_in(s.value):
            known.bind(s.var, s.value)
    return known


__all__ = ["known_lets"]
