"""forward_elements: elements of a tile that the cube core needs are read where the tile was loaded from.

Before:  copy(Mask[b, 0:8], m); for k: if m[k] != 0: gemm(…)
After:   copy(Mask[b, 0:8], m); for k: if Mask[b, k] != 0: gemm(…)

Tiles that elements are read from lie in the memory of the vector cores, which the cube core does not see: what is computed there has to be
carried to it (`carry_elements`). A tile that a kernel only loads holds what lies in GM, and that all cores see.

Requires: Tile IR. Ensures: values are unchanged.
"""

from __future__ import annotations

from ...analysis.index.data_names import DataNames
from ...analysis.index.safe_values import safe_values
from ...ir import (
    Bind,
    Break,
    BufferLoad,
    BufferStore,
    Continue,
    Evaluate,
    For,
    IfThenElse,
    PrimFunc,
    Range,
    SeqStmt,
    StmtMutator,
    TensorLoad,
    While,
    const_int,
    dtype_of,
    exprs,
    free_vars,
    imm,
    map_children,
    statements,
    substitute_expr,
    sym,
    tirx,
)
from ...ir.grids import is_grid_axis
from ...tile import COPY, GEMM, VIEW, is_op, with_args
from ...tile.uses import covers_whole, is_parallel, is_scalar_var, loads_in, moved_regions, on_chip, own_uses, uses_of


def cube_needs(func: PrimFunc) -> set:
    """Statements whose scalar expressions the cube core evaluates: around products and their operands, and what these are made of."""
    found = [s for s in statements(func.body)]
    on_cube = _products_and_loads(found)
    if not on_cube:
        return set()
    controls = [s for s in found if isinstance(s, (For, While, IfThenElse)) and not is_parallel(s)]
    needed = on_cube | {s for s in controls if any(x in on_cube for x in statements(s))}
    jumps = {s for s in found if isinstance(s, (Break, Continue))}
    while True:
        names = {v for s in needed for e in exprs(s) for v in free_vars(e)}
        # Whether or how often something needed happens; leaving a loop is needed, wherever it happens.
        decide = {s for s in controls if any(x in needed or x in jumps for x in statements(s) if x is not s)}
        more = ({s for s in found if _scalar_set(s) in names} | decide) - needed
        if not more:
            return needed
        needed |= more


def _products_and_loads(found: list) -> set:
    """The products among the statements `found` and the copies into their tiles."""
    products = {s for s in found if is_op(s, GEMM)}
    tiles = {r.source for s in products for r in s.value.args[:3]}
    moves = {s: moved_regions(s) for s in found if isinstance(s, Evaluate)}
    return products | {s for s, moved in moves.items() if moved is not None and moved[1].source in tiles}


def _scalar_set(s):
    """The name or the scalar variable to which `s` gives a value, None if to none."""
    if isinstance(s, Bind):
        return s.var
    return s.buffer if isinstance(s, BufferStore) and is_scalar_var(s.buffer) else None


def _storage(func: PrimFunc) -> dict:
    """The tile behind each view."""
    found: dict = {}
    for s in statements(func.body):
        if is_op(s, VIEW):
            view, source = (r.source for r in s.value.args)
            found[view] = found.get(source, source)
    return found


class _Forward(StmtMutator):
    """`loaded` = what each tile holds at the present place: a region of GM, or (variables, dimensions they walk
    along, tensor, its element at these variables)."""

    def __init__(self, func: PrimFunc, needed: set):
        self.needed, self.analyzer = needed, sym.Analyzer(DataNames(func.body, variables=True))
        self.outside, self.written = safe_values(func), uses_of(func.body).writes
        self.storage = _storage(func)
        self.writers: dict = {}
        for s in statements(func.body):
            for b in {self.storage.get(b, b) for b in own_uses(s).writes}:
                self.writers[b] = self.writers.get(b, 0) + 1
        self.loaded: dict = {}
        self.inside_loop = False

    def visit_SeqStmt(self, block: SeqStmt):
        before, out = dict(self.loaded), []
        for s in block.seq:
            out.append(self.visit(s))
            self.see(s)
        self.loaded = before
        return out

    def see(self, s) -> None:
        """Remember what a load leaves in a tile nothing else writes."""
        if isinstance(s, (For, BufferStore)):
            self.see_stores(s)
        if not is_op(s, COPY):
            return
        src, dst = s.value.args
        if on_chip(src.source) or is_scalar_var(src.source) or not on_chip(dst.source) or not covers_whole(dst):
            return
        kept = [r for r in src.region if const_int(r.extent) != 1]
        same = [const_int(r.extent) for r in kept] == [n for n in map(const_int, dst.source.ty.shape) if n != 1]
        if same and self.written_once(dst.source) and src.source not in self.written and not any(loads_in(r.min) for r in src.region):
            self.loaded[dst.source] = src

    def written_once(self, tile) -> bool:
        """True if one statement writes the storage of a tile, under whatever name."""
        return self.writers[self.storage.get(tile, tile)] == 1

    def see_stores(self, s) -> None:
        """A tile of one element that is stored, and loops that load a whole tile element by element.

        Where a condition lets elements out, they have no value, and may have any: unless an iteration before gave them one.
        """
        loops = []
        while isinstance(s, For) and const_int(s.min) == 0:
            loops.append(s)
            s = s.body
        if isinstance(s, IfThenElse) and s.else_case is None and not self.inside_loop:
            s = s.then_case
        if not isinstance(s, BufferStore) or not on_chip(s.buffer) or not self.written_once(s.buffer) or not self.loads(s):
            return
        tile, src, places = s.buffer, s.value.source, list(s.value.indices)
        variables, sizes = [x.loop_var for x in loops], [const_int(n) for n in tile.ty.shape]
        walked = [i for i, n in zip(s.indices, sizes) if n != 1 or const_int(i) != 0]
        whole = [const_int(x.extent) for x in loops] == [n for i, n in zip(s.indices, sizes) if n != 1 or const_int(i) != 0]
        if whole and all(i.same_as(v) for i, v in zip(walked, variables)):
            indices = [next((d for d, i in enumerate(s.indices) if i.same_as(v))) for v in variables]
            self.loaded[tile] = variables, indices, src, places

    def loads(self, s: BufferStore) -> bool:
        """True if a store takes an element of a tensor in GM, which nothing writes, as it is."""
        if not isinstance(s.value, TensorLoad):
            return False
        src = s.value.source
        unknown = on_chip(src) or is_scalar_var(src) or src in self.written
        return not unknown and dtype_of(src) == dtype_of(s.buffer) and not any(loads_in(i) for i in s.value.indices)

    def expr(self, e):
        """`e` with elements of loaded tiles read in GM."""
        if isinstance(e, TensorLoad) and e.source in self.loaded:
            return self.element(e, [self.expr(i) for i in e.indices])
        return map_children(e, self.expr)

    def element(self, e: TensorLoad, indices):
        loaded, dtype = self.loaded[e.source], dtype_of(e)
        if isinstance(loaded, tuple):
            variables, walked, source, places = loaded
            place = [substitute_expr(i, {v: indices[d] for v, d in zip(variables, walked)}) for i in places]
        else:
            source = loaded.source
            own = iter([i for i, n in zip(indices, e.source.ty.shape) if const_int(n) != 1])
            place = [r.min if const_int(r.extent) == 1 else r.min + next(own) for r in loaded.region]
        value, inside = BufferLoad(source, place), None
        for i, n in zip(place, source.ty.shape):
            for cond in (i >= 0, i < n):
                if not self.analyzer.can_prove(cond):
                    inside = cond if inside is None else tirx.And(inside, cond)
        if inside is not None:
            value = tirx.if_then_else(inside, value, imm(self.outside.get(source, 0), dtype_of(source)))
        return value if dtype_of(source) == dtype else tirx.Cast(dtype, value)

    def own(self, s, e):
        return self.expr(e) if s in self.needed else e

    def visit_For(self, s: For):
        extent = self.own(s, s.extent)
        self.analyzer.bind(s.loop_var, Range.from_min_extent(imm(0, dtype_of(s.loop_var)), extent))
        if is_parallel(s):
            return s
        return For(s.loop_var, s.min, extent, s.kind, self.repeated(s, s.body), annotations=dict(s.annotations), span=s.span)

    def visit_While(self, s: While):
        return While(self.own(s, s.condition), self.repeated(s, s.body), span=s.span)

    def repeated(self, s, body):
        """The body of a loop; every iteration of the grid has tiles of its own."""
        before, self.inside_loop = self.inside_loop, self.inside_loop or not is_grid_axis(s)
        body, self.inside_loop = self.block(body), before
        return body

    def visit_IfThenElse(self, s: IfThenElse):
        other = self.block(s.else_case) if s.else_case is not None else None
        return IfThenElse(self.own(s, s.condition), self.block(s.then_case), other, span=s.span)

    def visit_Bind(self, s: Bind):
        value = self.own(s, s.value)
        if dtype_of(s.var).startswith("int") and not loads_in(value):
            self.analyzer.bind(s.var, value)
        return Bind(s.var, value, span=s.span)

    def visit_BufferStore(self, s: BufferStore):
        return BufferStore(s.buffer, self.own(s, s.value), list(s.indices), span=s.span)

    def visit_Evaluate(self, s: Evaluate):
        if s not in self.needed:
            return s
        return with_args(s, [self.own(s, a) for a in s.value.args])


def forward_elements(func: PrimFunc) -> PrimFunc:
    """Apply to a Tile IR function; those whose cube work depends on no tile stay as they are."""
    needed = cube_needs(func)
    if not any(on_chip(x.source) for s in needed for e in exprs(s) for x in loads_in(e)):
        return func
    return func.with_body(_Forward(func, needed)(func.body))


__all__ = ["forward_elements"]
