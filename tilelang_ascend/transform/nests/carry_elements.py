"""carry_elements: what vector work computes and the cube core has to know goes to it through a place in GM.

Before:  x = s_ub[0]; if x > 0.1: gemm(…)
After:   place[0] = s_ub[0]; x = place[0]; if x > 0.1: gemm(…)

Before:  for i in range(8): v = s_ub[i]; if v > best[0]: best[0] = v; at[0] = i            # `at` says where an operand lies
After:   own[0] = at[0]; for i in range(8): v = s_ub[i]; if v > best[0]: best[0] = v; own[0] = i
         place[0] = own[0]; at[0] = place[0]

No core sees the registers or the UB of another one. All cores of a block read the value where the vector core has stored it, so that all
decide alike. The place is used again in every iteration: as for every tile in GM, `insert_sync` lets nobody read it too early, nor write it
before it has been read.

Requires: mapped Tile IR before split_rows, which gives every vector core a place of its own. Ensures: no scalar of which the cube core needs
the value is computed from elements of tiles, or by functions the scalar unit does not have; values are unchanged.
"""

from __future__ import annotations

from ...analysis.tiles.carried_elements import carried_elements
from ...ir import AllocBuffer, Bind, BufferLoad, BufferStore, PrimFunc, Stmt, StmtMutator, decl_buffer, dtype_of, imm, seq, substitute
from ...tile.uses import CARRIED
from ...tileop.vector.nest.expressions import has_function

FIRST = [imm(0)]


class _Carry(StmtMutator):
    """`carried`: statement -> scalars. `places`: made for them in GM."""

    def __init__(self, carried: dict):
        self.carried, self.places = carried, []

    def visit(self, s: Stmt):
        scalars = self.carried.get(s)
        if scalars is None:
            return super().visit(s)
        if isinstance(s, Bind):
            return self.handed_over(s, s.var, s.value, lambda value: Bind(s.var, value, span=s.span))
        if isinstance(s, BufferStore):
            return self.handed_over(s, s.buffer, s.value, lambda value: BufferStore(s.buffer, value, FIRST, span=s.span))
        own = {v: decl_buffer((1,), dtype_of(v), v.name, scope="local.var") for v in scalars}
        out: list = []
        for v, mine in own.items():
            out += [AllocBuffer(mine), BufferStore(mine, BufferLoad(v, FIRST), FIRST, span=s.span)]
        out.append(substitute(s, own))
        for v, mine in own.items():
            out += self.handed_over(s, v, BufferLoad(mine, FIRST), lambda value, v=v: BufferStore(v, value, FIRST, span=s.span))
        return out

    def handed_over(self, s: Stmt, scalar, value, define) -> list:
        """`value` goes to a place; `define` makes the statement that gives it to the scalar."""
        place = decl_buffer((1,), dtype_of(scalar), f"{scalar.name}_place")
        self.places.append(AllocBuffer(place, annotations={"workspace": 1, CARRIED: 1}, span=s.span))
        return [BufferStore(place, value, FIRST, span=s.span), define(BufferLoad(place, FIRST))]


def carry_elements(func: PrimFunc) -> PrimFunc:
    """Apply to a mapped Tile IR function; those whose cube work depends on no element of a tile stay as they are."""
    carried = carried_elements(func.body, has_function)
    if not carried:
        return func
    walk = _Carry(carried)
    body = walk.block(func.body)
    return func.with_body(seq(walk.places, body))


__all__ = ["carry_elements"]
