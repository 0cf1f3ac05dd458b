"""Tensors of which no element is moved twice by a launch."""

from __future__ import annotations

from typing import Any

from ...ir import Bind, For, PrimFunc, Stmt, children, const_int, free_vars, is_buffer_var, substitute_expr, written_out
from ...tile import COPY, is_op
from ...tile.uses import is_load, loads_in, moved_regions, on_chip, own_uses
from ..index.affine import affine


def used_once(func: PrimFunc) -> tuple[set, set]:
    """(tensors that are only loaded, tensors that are only stored) of those parameters of a function of placed Tile IR which a single copy moves, in every iteration
    of the loops around it another part."""
    walk = _Walk()
    walk.go(func.body, {})
    loaded, stored = set(), set()
    for b in func.params:
        found = walk.users.get(b, []) if is_buffer_var(b) else []
        if len(found) == 1 and is_op(found[0][0], COPY) and _elsewhere(b, *found[0], walk.lets):
            (loaded if is_load(found[0][0]) else stored).add(b)
    return loaded, stored


class _Walk:
    """users: buffer -> (statement, loops around it: variable -> iterations, None if unknown). lets: what names stand for."""

    def __init__(self):
        self.users: dict[Any, list] = {}
        self.lets: dict = {}

    def go(self, s: Stmt, loops: dict) -> None:
        if isinstance(s, Bind):
            self.lets[s.var] = written_out(s, self.lets)
        for b in own_uses(s).all:
            self.users.setdefault(b, []).append((s, loops))
        inside = {**loops, s.loop_var: const_int(s.extent)} if isinstance(s, For) else loops
        for x in children(s):
            self.go(x, inside)


def _elsewhere(tensor, copy: Stmt, loops: dict, lets: dict) -> bool:
    """True if a copy moves another part of `tensor` in each iteration of `loops`: every variable steps through a dimension, over all that those of smaller steps
    reach there."""
    ends = moved_regions(copy)
    r = next((x for x in ends if x.source.same_as(tensor)), None)
    if r is None or on_chip(ends[0].source) == on_chip(ends[1].source):
        return False
    left = {v for v, n in loops.items() if n != 1}
    for x in r.region:
        index, extent = substitute_expr(x.min, lets), const_int(x.extent)
        form = affine(index, list(loops))
        if form is None or extent is None or loads_in(form.base) or free_vars(form.base) & lets.keys():
            continue
        reach: int | None = extent
        for v, c in sorted(form.coeffs.items(), key=lambda item: abs(item[1])):
            if reach is None or abs(c) < reach:
                break
            left.discard(v)
            reach = None if loops[v] is None else reach + abs(c) * (loops[v] - 1)
    return not left


__all__ = ["used_once"]
