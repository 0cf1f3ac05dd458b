"""Which loops and branches elements of tiles steer: only the core that holds the tile can tell what happens there."""

from __future__ import annotations

from ...ir import Bind, BufferStore, For, IfThenElse, Stmt, TensorLoad, Var, While, children, expr_children, exprs
from ...tile.jumps import may_leave
from ...tile.uses import is_parallel, on_chip


def steered_by_tiles(body: Stmt) -> set:
    """The loops and branches of `body` (`Parallel` nests aside) in which an element of a tile decides, itself or through scalars, whether
    something runs."""
    found = _Steered()
    while found.grows(body):
        pass
    return found.stmts


class _Steered:
    """`scalars`: variables that depend on elements of tiles. `deciding`: statements whose own condition or extent does. `stmts`: these and
    all around them."""

    def __init__(self):
        self.scalars: set = set()
        self.deciding: set = set()
        self.stmts: set = set()

    def grows(self, body: Stmt) -> bool:
        before = len(self.scalars), len(self.stmts)
        self.visit(body, False)
        return before != (len(self.scalars), len(self.stmts))

    def visit(self, s: Stmt, uncertain: bool) -> bool:
        """True if something in `s` is steered. `uncertain`: an element decides whether `s` runs."""
        if isinstance(s, Bind) and self.depends(s.value):
            self.scalars.add(s.var)
        if isinstance(s, BufferStore) and not on_chip(s.buffer) and (uncertain or self.depends(s.value)):
            self.scalars.add(s.buffer)
        if is_parallel(s):
            return False
        control = isinstance(s, (For, While, IfThenElse))
        if control and any(map(self.depends, exprs(s))):
            self.deciding.add(s)
        uncertain = uncertain or s in self.deciding or (isinstance(s, (For, While)) and self.left_early(s.body))
        steered = s in self.deciding
        for child in children(s):
            steered = self.visit(child, uncertain) or steered
        if control and steered:
            self.stmts.add(s)
        return steered

    def left_early(self, s: Stmt) -> bool:
        """True if an element decides about a `break` or `continue` in the body `s` of a loop."""
        if isinstance(s, (For, While)):
            return False
        return s in self.deciding and may_leave(s) or any(map(self.left_early, children(s)))

    def depends(self, e) -> bool:
        if isinstance(e, Var):
            return e in self.scalars
        if isinstance(e, TensorLoad) and (e.source in self.scalars or on_chip(e.source)):
            return True
        return any(map(self.depends, expr_children(e)))


__all__ = ["steered_by_tiles"]
