"""float_integers: tiles of small int32 numbers whose rows are reduced to a maximum or minimum hold them as float32.

Before:  Parallel(i, j): where[i, j] = 128 - j if x[i, j] == best[i] else 0; reduce_max(where, place, dim=1)          # int32
After:   Parallel(i, j): where[i, j] = float32(128 - j) if x[i, j] == best[i] else 0.0; reduce_max(where, place, dim=1)  # float32

The vector unit reduces rows of floats by itself, those of int32 only after a transposition, and it compares floats by any relation, int32 for
equality alone. float32 holds every integer up to 2^24, so that numbers which surely stay below are the same either way; sums of them that
may leave that range, and everything else that reads such a tile, get int32 again.

Requires: placed Tile IR. Ensures: same values.
"""

from __future__ import annotations

from ...analysis.index.magnitude import loop_magnitude, magnitude
from ...ir import (
    AllocBuffer,
    Bind,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    PrimFunc,
    Stmt,
    StmtMutator,
    TensorLoad,
    TensorRegion,
    Var,
    const_int,
    decl_buffer,
    dtype_of,
    expr_children,
    imm,
    is_choice,
    map_children,
    region,
    scope_of,
    statements,
    sym,
    tirx,
)
from ...tile import COPY, FILL, REDUCE, is_op, with_args
from ...tile.uses import is_parallel, loads_in, on_chip, own_uses

MOST = 1 << 24
"""float32 holds every integer up to here."""
ROUNDS = 4
"""In which bounds of tiles that are made of each other have to settle."""
_LINEAR = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Min, tirx.Max)


def float_integers(func: PrimFunc) -> PrimFunc:
    """Apply to a placed Tile IR function."""
    every = statements(func.body)
    reduced = {b for s in every if _reduces_rows(s) for b in own_uses(s).all}
    if not any(_is_int32_tile(b) for b in reduced):
        return func
    numbers = _Numbers(func.body, every)
    chosen = {
        b: decl_buffer(list(b.ty.shape), "float32", b.name, scope=scope_of(b)) for b in numbers.small if numbers.together(b) & reduced
    }
    return func.with_body(_Float(chosen, numbers)(func.body)) if chosen else func


def _is_int32_tile(buffer) -> bool:
    return on_chip(buffer) and dtype_of(buffer) == "int32"


def _reduces_rows(s: Stmt) -> bool:
    if not is_op(s, REDUCE) or str(s.value.attrs["kind"]) not in ("max", "min"):
        return False
    source = s.value.args[0]
    return int(s.value.attrs["dim"]) == len(source.region) - 1 and all(_is_int32_tile(x.source) for x in s.value.args)


class _Numbers:
    """Bounds of the integers of a function. variables: of loops and names. small: those of tiles whose elements float32 holds, and which nothing
    uses but element-wise work, fills, maxima and minima of rows, and copies among them."""

    def __init__(self, body: Stmt, every: list[Stmt]):
        self.variables: dict = {}
        for s in every:
            if isinstance(s, For) and (bound := loop_magnitude(s, self.variables)) is not None:
                self.variables[s.loop_var] = bound
            elif isinstance(s, Bind) and "int" in dtype_of(s.var) and (bound := magnitude(s.value, self.variables)) is not None:
                self.variables[s.var] = bound
        self.edges: dict = {}
        self.small = dict.fromkeys((s.buffer for s in every if isinstance(s, AllocBuffer) and _is_int32_tile(s.buffer)), 0)
        in_nests = {x for s in every if is_parallel(s) for x in statements(s)}
        for s in every:
            for b in self._refused(s, s in in_nests):
                self.small.pop(b, None)
        writes = [(b, s) for s in every for b in own_uses(s).writes]
        for _ in range(ROUNDS):
            found = {b: max((self._written(s) for t, s in writes if t.same_as(b)), default=0) for b in self.small}
            settled = found == self.small
            self.small = {b: n for b, n in found.items() if n <= MOST}
            if settled and len(found) == len(self.small):
                return
        self.small = {}

    def _refused(self, s: Stmt, in_nest: bool) -> set:
        """Tiles that have to stay as they are because of a statement."""
        uses = own_uses(s).all
        if isinstance(s, Evaluate) and (is_op(s, FILL, COPY) or _reduces_rows(s)):
            regions = [a for a in s.value.args if isinstance(a, TensorRegion)]
            alike = all(_is_int32_tile(r.source) for r in regions)
            for r in regions:
                self.edges.setdefault(r.source, set()).update(x.source for x in regions)
            return {x for x in uses if not alike or x not in {r.source for r in regions}}
        if not in_nest or not isinstance(s, BufferStore):
            return uses
        return {x.source for i in s.indices for x in loads_in(i)} | {
            y.source for x in loads_in(s.value) for i in x.indices for y in loads_in(i)
        }

    def together(self, tile) -> set:
        """Tiles that are copies, maxima or minima of each other: all of them are small, or none."""
        found, new = {tile}, {tile}
        while new:
            new = {x for b in new for x in self.edges.get(b, ())} - found
            found |= new
        return found if found <= self.small.keys() else set()

    def _written(self, s: Stmt) -> int:
        if isinstance(s, BufferStore):
            return self.of(s.value)
        if is_op(s, FILL):
            return self.of(s.value.args[1])
        source = s.value.args[0]
        if is_op(s, REDUCE) and not const_int(source.region[-1].extent):
            return MOST + 1  # Of no element it is the lowest or highest number.
        return self.small.get(source.source, MOST + 1)

    def of(self, e) -> int:
        """A bound of the absolute value of an integer expression, more than `MOST` if there is none."""
        names: dict = {}

        def named(x):
            if isinstance(x, TensorLoad) and x.source in self.small:
                name = Var("element", "int32")
                names[name] = self.small[x.source]
                return name
            return map_children(x, named)

        plain = named(e)
        found = magnitude(plain, {**self.variables, **names})
        return MOST + 1 if found is None else found


class _Float(StmtMutator):
    """`tiles` as their float32 twins."""

    def __init__(self, tiles: dict, numbers: _Numbers):
        self.tiles, self.numbers = tiles, numbers

    def visit_AllocBuffer(self, s: AllocBuffer):
        new = self.tiles.get(s.buffer)
        return s if new is None else AllocBuffer(new, annotations=dict(s.annotations), span=s.span)

    def visit_Evaluate(self, s: Evaluate):
        if not any(isinstance(a, TensorRegion) and a.source in self.tiles for a in s.value.args):
            return s
        args = [self.moved(a) if isinstance(a, TensorRegion) else self.as_float(a) for a in s.value.args]
        return with_args(s, args)

    def moved(self, r: TensorRegion) -> TensorRegion:
        return region(self.tiles.get(r.source, r.source), [x.min for x in r.region], [x.extent for x in r.region])

    def visit_BufferStore(self, s: BufferStore):
        new = self.tiles.get(s.buffer)
        if new is None:
            return BufferStore(s.buffer, self.expr(s.value), list(s.indices), span=s.span)
        return BufferStore(new, self.as_float(s.value), list(s.indices), span=s.span)

    def expr(self, e):
        if isinstance(e, TensorLoad) and e.source in self.tiles:
            return tirx.Cast("int32", BufferLoad(self.tiles[e.source], list(e.indices)))
        if isinstance(e, sym.COMPARISONS) and self.concerns(e) and all(self.fits(x) for x in (e.a, e.b)):
            return type(e)(self.as_float(e.a), self.as_float(e.b))
        return map_children(e, self.expr)

    def fits(self, e) -> bool:
        return dtype_of(e) == "int32" and self.numbers.of(e) <= MOST

    def concerns(self, e) -> bool:
        return any(x.source in self.tiles for x in loads_in(e))

    def as_float(self, e):
        """An integer expression that float32 holds, as float32."""
        if const_int(e) is not None:
            return imm(float(const_int(e)), "float32")
        if isinstance(e, TensorLoad) and e.source in self.tiles:
            return BufferLoad(self.tiles[e.source], list(e.indices))
        if is_choice(e):
            condition, *values = expr_children(e)
            choose = tirx.Select if isinstance(e, tirx.Select) else tirx.if_then_else
            return choose(self.expr(condition), *map(self.as_float, values))
        if isinstance(e, _LINEAR) and self.concerns(e) and all(self.fits(x) for x in (e, e.a, e.b)):
            return type(e)(self.as_float(e.a), self.as_float(e.b))
        return tirx.Cast("float32", self.expr(e))


__all__ = ["float_integers"]
