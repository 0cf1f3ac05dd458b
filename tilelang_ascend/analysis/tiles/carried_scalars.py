"""Which scalar variables leave an iteration of a `Parallel` nest: what stores to them cannot be divided, each part would know its own value.

for i in T.Parallel(n): s = s + r[i]                  # from one iteration to the next, and out of the nest
for i in T.Parallel(n): v = r[i] * 2; y[i] = v        # `v` does not: every iteration stores it before it reads it
"""

from __future__ import annotations

from ...ir import AllocBuffer, BufferStore, For, IfThenElse, SeqStmt, Stmt, While
from ...tile.uses import is_parallel, is_scalar_var, own_uses


def carried_scalars(body: Stmt) -> set:
    """The variables some nest stores to whose value is read where the same iteration has not surely stored it."""
    walk = _Walk()
    walk.visit(body, None)
    return walk.exposed & walk.stored


class _Walk:
    """`stored`: variables that nests store to. `exposed`: those that are read outside of nests, or before their iteration has stored them."""

    def __init__(self):
        self.stored: set = set()
        self.exposed: set = set()

    def visit(self, s: Stmt, own: frozenset | None) -> frozenset | None:
        """Walk `s`; `own`: variables the present iteration surely has stored, None outside of nests. Returns those behind `s`."""
        if isinstance(s, SeqStmt):
            for x in s.seq:
                own = self.visit(x, own)
            return own
        self.exposed |= {b for b in own_uses(s).reads if is_scalar_var(b) and b not in (own or ())}
        if isinstance(s, IfThenElse):
            ways = [own if arm is None else self.visit(arm, own) for arm in (s.then_case, s.else_case)]
            return None if own is None else ways[0] & ways[1]
        if isinstance(s, (For, While)):
            # It may run zero times.
            self.visit(s.body, frozenset() if own is None and is_parallel(s) else own)
        elif own is not None and isinstance(s, (AllocBuffer, BufferStore)) and is_scalar_var(s.buffer):
            if isinstance(s, BufferStore):
                self.stored.add(s.buffer)
            return own | {s.buffer}
        return own


__all__ = ["carried_scalars"]
