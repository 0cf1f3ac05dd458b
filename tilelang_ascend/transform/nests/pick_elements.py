"""pick_elements: elements of long tiles that are read one by one are picked from their rows by a nest over all of these.

Before:  copy(X[b, 0:65536], x); …; Loss[b] = log(total[0]) - x[Label[b]]
After:   copy(X[b, 0:65536], x); …; at = Label[b]; Parallel(j < 65536): r[j] = x[j] if j == at else -inf
         reduce(r, p, max); Loss[b] = log(total[0]) - p[0]

A row that is worked on in parts has no place from which one element can be read, but each part can tell whether it holds it. So do
nests that choose few elements (`Parallel(i < 4): y[i] = x[i, at[i]]`). Stores to one element (`x[Label[b]] -= 1`) are nests of which one iteration stores.

Requires: placed Tile IR. Ensures: values are unchanged; a tile that is long along one of its dimensions is read and stored to along this by nests only, unless
what chooses an element cannot be told in front of the statement, or there are many. Worth it only for rows that do not fit.
"""

from __future__ import annotations

import math
from functools import reduce

from ...ir import (
    AllocBuffer,
    Bind,
    BufferLoad,
    BufferStore,
    For,
    IfThenElse,
    PrimFunc,
    SeqStmt,
    Stmt,
    StmtMutator,
    TensorLoad,
    Var,
    While,
    as_dtype,
    choice_of,
    const_int,
    decl_buffer,
    dtype_of,
    free_vars,
    full_region,
    if_then,
    imm,
    map_children,
    parallel_nest,
    scope_of,
    seq,
    statements,
    substitute_expr,
    tirx,
)
from ...ir.grids import is_grid_axis
from ...isa.base import SCOPES, Space
from ...tile import tile_op
from ...tile.nests import inline_index_binds, nest_of, rebuild_nest
from ...tile.reductions import start
from ...tile.uses import is_atomic, is_output, is_parallel, loads_in, uses_of
from ...tileop.base.layout import tile_bytes

LONG_SHARE = 1 / 16
"""Share of UB from which on a tile is long."""
FEW = 64
"""Elements that a block may choose: for each it looks at all of a row."""


def _long_tiles(func: PrimFunc, chip) -> dict:
    """Tile in UB that is long -> its longest dimension."""
    room = LONG_SHARE * chip.capacity_bytes(Space.UB)
    found = {}
    for s in statements(func.body):
        if isinstance(s, AllocBuffer) and SCOPES.get(scope_of(s.buffer)) is Space.UB:
            sizes = [const_int(n) for n in s.buffer.ty.shape]
            if None not in sizes and tile_bytes(s.buffer) >= room:
                found[s.buffer] = max(range(len(sizes)), key=sizes.__getitem__)
    return found


class _Pick(StmtMutator):
    """`tiles`: tile -> the dimension along which its elements are picked. `runs`: how often the statements at the present place run in a block; infinity
    if that is not known."""

    def __init__(self, tiles: dict):
        self.tiles, self.runs = tiles, 1.0

    # -- the scalar unit ----------------------------------------------------------------------------------------
    def visit_Bind(self, s: Bind):
        before: list = []
        value = self.picked(s.value, before, s.span)
        return [*before, Bind(s.var, value, span=s.span)] if before else s

    def visit_BufferStore(self, s: BufferStore):
        before: list = []
        value = self.picked(s.value, before, s.span)
        if s.buffer in self.tiles and self.runs <= FEW:
            at = self.named(s.indices, before, s.span)
            return [*before, self.placed(s.buffer, at, value, s.span)]
        indices = [self.picked(i, before, s.span) for i in s.indices]
        return [*before, BufferStore(s.buffer, value, indices, span=s.span)] if before else s

    def placed(self, tile, at: list, value, span) -> For:
        """A nest that stores to one element of `tile`."""
        d, j = self.tiles[tile], Var("j", "int32")
        store = BufferStore(tile, value, [j if k == d else i for k, i in enumerate(at)], span=span)
        return parallel_nest([(j, tile.ty.shape[d])], if_then(_is(j, at[d]), store), span)

    def picked(self, e, before: list, span, certain: bool = True):
        """`e` with elements of the tiles from tiles of one element, which `before` fills. certain: `e` is evaluated whenever its statement runs; elsewhere
        what is loaded to choose an element may not be there."""
        if not isinstance(e, TensorLoad) or e.source not in self.tiles or self.runs > FEW:
            chosen = (choice_of(e) or ())[1:]
            return map_children(e, lambda x: self.picked(x, before, span, certain and not any(x.same_as(c) for c in chosen)))
        if not certain and any(map(loads_in, e.indices)):
            return e
        return self.pick(e.source, self.named(e.indices, before, span), [], [], before, span)

    def named(self, indices, before: list, span) -> list:
        """Indices whose values `before` gives names to."""
        at = []
        for i in indices:
            i = self.picked(i, before, span)
            if const_int(i) is None:
                var = Var("at", dtype_of(i))
                before.append(Bind(var, i, span=span))
                i = var
            at.append(i)
        return at

    def pick(self, tile, at: list, loops: list, conditions: list, before: list, span):
        """The element `at` of `tile` for each iteration of `loops` in which the `conditions` hold, in a tile with an element for each of them."""
        sizes, dtype, d = [n for _, n in loops], dtype_of(tile), self.tiles[tile]
        found = decl_buffer(sizes or [imm(1)], dtype, f"{tile.name}_picked", scope="shared.ub")
        row = decl_buffer([*sizes, tile.ty.shape[d]], dtype, f"{tile.name}_row", scope="shared.ub")
        own = {v: Var(v.name, dtype_of(v)) for v, _ in loops}
        at, conditions = ([substitute_expr(x, own) for x in xs] for xs in (at, conditions))
        j = Var("j", "int32")
        here = reduce(lambda there, cond: tirx.And(cond, there), reversed(conditions), _is(j, at[d]))
        value = tirx.if_then_else(here, BufferLoad(tile, [j if k == d else i for k, i in enumerate(at)]), start("max", dtype))
        axes = [*((own[v], n) for v, n in loops), (j, tile.ty.shape[d])]
        before += [
            AllocBuffer(row),
            AllocBuffer(found),
            parallel_nest(axes, BufferStore(row, value, [v for v, _ in axes], span=span), span),
            tile_op("reduce", full_region(row), full_region(found), span=span, kind="max", dim=len(loops), clear=1),
        ]
        return BufferLoad(found, [v for v, _ in loops] or [imm(0)])

    # -- nests --------------------------------------------------------------------------------------------------
    def visit_For(self, s: For):
        if not is_parallel(s):
            return self.repeated(s, 1 if is_grid_axis(s) else const_int(s.extent) or math.inf)
        nest = _Nest(self, s)
        body = nest.block(nest.body, [])
        return [*nest.before, rebuild_nest(s, nest.loops, body)] if nest.before else s

    def visit_While(self, s: While):
        return self.repeated(s, math.inf)

    def repeated(self, s: Stmt, times: float) -> Stmt:
        before, self.runs = self.runs, self.runs * times
        new, self.runs = self.generic(s), before
        return new


def _is(j, at):
    """The condition that an iteration is the one `at` tells."""
    return tirx.EQ(as_dtype(j, dtype_of(at)), at)


class _Nest:
    """What a nest reads of the tiles, picked in front of it."""

    def __init__(self, pick: _Pick, s: For):
        self.pick, self.before = pick, []
        self.loops, body = nest_of(s)
        self.body, self.writes = inline_index_binds(body), uses_of(s).writes
        inner = [x for x in statements(self.body) if isinstance(x, (Bind, For))]
        self.inside = {x.var if isinstance(x, Bind) else x.loop_var for x in inner}
        self.whole = any(is_atomic(x) or is_output(x) for x in statements(self.body))

    def block(self, s: Stmt, conditions: list) -> Stmt:
        """`s`, which runs where the `conditions` hold."""
        if self.whole:
            return s
        if isinstance(s, SeqStmt):
            return seq([self.block(x, conditions) for x in s.seq])
        if isinstance(s, IfThenElse):
            cond = self.expr(s.condition, conditions, s.span)
            other = None if s.else_case is None else self.block(s.else_case, [*conditions, tirx.Not(s.condition)])
            return IfThenElse(cond, self.block(s.then_case, [*conditions, s.condition]), other, span=s.span)
        if isinstance(s, Bind):
            return Bind(s.var, self.expr(s.value, conditions, s.span), span=s.span)
        if isinstance(s, BufferStore):
            return BufferStore(s.buffer, self.expr(s.value, conditions, s.span), list(s.indices), span=s.span)
        return s

    def expr(self, e, conditions: list, span):
        if (choice := choice_of(e)) is not None:
            if not any(x.source in self.pick.tiles for x in loads_in(e)):
                return e
            cond, yes, no = choice
            new = self.expr(cond, conditions, span)
            yes, no = self.expr(yes, [*conditions, cond], span), self.expr(no, [*conditions, tirx.Not(cond)], span)
            return tirx.if_then_else(new, yes, no)
        if isinstance(e, TensorLoad) and e.source in self.pick.tiles and (loops := self.chosen(e, conditions)) is not None:
            return self.pick.pick(e.source, list(e.indices), loops, conditions, self.before, span)
        return map_children(e, lambda x: self.expr(x, conditions, span))

    def chosen(self, e: TensorLoad, conditions: list) -> list | None:
        """The loops of the nest along which it chooses an element of a tile; None if these are not few, or known inside of the nest only."""
        wanted = [*e.indices, *conditions]
        names = {v for x in wanted for v in free_vars(x)}
        loops = [(v, n) for v, n in self.loops if v in names]
        sizes = [const_int(n) for _, n in loops]
        known = not names & self.inside and not any(x.source in self.writes for w in wanted for x in loads_in(w))
        if not known or e.source in self.writes or None in sizes or self.pick.runs * math.prod(sizes) > FEW:
            return None
        return loops


def pick_elements(func: PrimFunc, chip) -> PrimFunc:
    """Apply to a placed Tile IR function; one without long tiles stays as it is."""
    tiles = _long_tiles(func, chip)
    return func.with_body(_Pick(tiles)(func.body)) if tiles else func


__all__ = ["pick_elements"]
