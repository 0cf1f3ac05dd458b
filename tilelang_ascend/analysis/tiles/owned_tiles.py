"""Tensors of which a nest may write back what it has read: no other block touches these elements, and no other statement does if that is not known."""

from __future__ import annotations

from ...ir import (
    Bind,
    BufferStore,
    For,
    PrimFunc,
    Stmt,
    const_int,
    exprs,
    free_vars,
    scope_of,
    statements,
    structural_equal,
    substitute_expr,
    written_out,
)
from ...tile.uses import loads_in, own_uses, workspaces
from ..index.affine import affine


class OwnedTiles:
    """Which elements of GM belong to one block of the grid of `func`."""

    def __init__(self, func: PrimFunc):
        everything = list(statements(func.body))
        loops = [s for s in everything if isinstance(s, For)]
        self.grid = [s.loop_var for s in loops if "tl.grid" in s.annotations and const_int(s.extent) != 1]
        # Loops of a block, by variable; the extent is None where it is known at run time only.
        self.loops = {s.loop_var: const_int(s.extent) for s in loops if "tl.grid" not in s.annotations}
        self.lets: dict = {}
        for s in everything:
            if isinstance(s, Bind):
                self.lets[s.var] = written_out(s, self.lets)
        self.private = workspaces(func.body)
        self.users: dict = {}
        for s in everything:
            for buffer in own_uses(s).all:
                self.users[buffer] = self.users.get(buffer, 0) + 1

    def of_nest(self, nest: Stmt) -> set:
        """Buffers that only this nest uses, or only its block, each iteration at one place, blocks at places of their own."""
        inside = list(statements(nest))
        stored = {s.buffer for s in inside if isinstance(s, BufferStore) and scope_of(s.buffer) in ("global", "")}
        owned = set()
        for buffer in stored:
            places = [list(s.indices) for s in inside if isinstance(s, BufferStore) and s.buffer.same_as(buffer)]
            places += [list(x.indices) for s in inside for e in exprs(s) for x in loads_in(e) if x.source.same_as(buffer)]
            same = all(all(map(structural_equal, places[0], p)) for p in places[1:])
            if same and (buffer in self.private or self.alone(buffer, inside) and self.apart(places[0])):
                owned.add(buffer)
        return owned

    def of_boxes(self, nest: Stmt, boxes: dict) -> set:
        """Buffers that only this nest uses, or only its block, all of it inside of one box: `boxes` is {buffer: [(minimums, extents)]}."""
        inside = list(statements(nest))
        single = {b: found[0] for b, found in boxes.items() if len(found) == 1}
        return {b for b, box in single.items() if b in self.private or self.alone(b, inside) and self.apart(*box)}

    def alone(self, buffer, inside: list) -> bool:
        """True if no statement but those `inside` use a buffer."""
        return sum(buffer in own_uses(s).all for s in inside) == self.users[buffer]

    def apart(self, indices: list, extents: list | None = None) -> bool:
        """True if different blocks use different elements: each axis of the grid steps through a dimension of its own, over all that
        a block uses of it. `extents`: elements used from an index on, one if not given."""
        axes = set()
        for index, extent in zip(indices, extents or [1] * len(indices)):
            index = substitute_expr(index, self.lets)
            form = affine(index, [*self.grid, *(v for v, n in self.loops.items() if n)])
            if form is None or loads_in(form.base) or free_vars(form.base) & (self.loops.keys() | self.lets.keys()):
                continue
            found = [v for v in form.coeffs if v in self.grid]
            reach = sum(abs(c) * (self.loops[v] - 1) for v, c in form.coeffs.items() if v not in found) + extent - 1
            if len(found) == 1 and abs(form.coeffs[found[0]]) > reach:
                axes.add(found[0])
        return len(axes) == len(self.grid)


__all__ = ["OwnedTiles"]
