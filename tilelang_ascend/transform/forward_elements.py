"""forward_elements: elements of a tile that the cube core needs are read where the tile was loaded from.

Before:  copy(Mask[b, 0:8], m); for k: if m[k] != 0: gemm(…)
After:   copy(Mask[b, 0:8], m); for k: if Mask[b, k] != 0: gemm(…)

Tiles that elements are read from lie in the memory of the vector cores, which the cube core does not see. A tile that a kernel only loads
holds what lies in GM, and that all cores see.

Requires: Tile IR. Ensures: values are unchanged.
"""

from __future__ import annotations

from ..analysis.safe_values import safe_values
from ..analysis.tile_uses import (
    covers_whole,
    is_parallel,
    is_scalar_var,
    loads_in,
    moved_regions,
    on_chip,
    own_uses,
    uses_of,
)
from ..ir import (
    Bind,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    PrimFunc,
    Range,
    SeqStmt,
    StmtMutator,
    TensorLoad,
    While,
    attrs_of,
    call,
    const_int,
    dtype_of,
    exprs,
    free_vars,
    imm,
    map_children,
    op_name,
    statements,
    sym,
    tirx,
)


def cube_needs(func: PrimFunc) -> set:
    """Statements whose scalar expressions the cube core evaluates: around products and their operands, and what these are made of."""
    found = [s for s in statements(func.body)]
    products = [s for s in found if op_name(s) == "tl.gemm"]
    tiles = {r.source for s in products for r in s.value.args[:3]}

    def on_cube(s) -> bool:
        moved = moved_regions(s) if isinstance(s, Evaluate) else None
        return op_name(s) == "tl.gemm" or moved is not None and moved[1].source in tiles

    needed = {s for s in found if on_cube(s) or isinstance(s, (For, While, IfThenElse)) and not is_parallel(s) and any(map(on_cube, statements(s)))}
    while True:
        names = {v for s in needed for e in exprs(s) for v in free_vars(e)}
        more = {
            s for s in found
            if isinstance(s, Bind) and s.var in names or isinstance(s, BufferStore) and is_scalar_var(s.buffer) and s.buffer in names
        } - needed  # fmt: skip
        if not more:
            return needed
        needed |= more


class _Forward(StmtMutator):
    """`loaded` = region of GM each tile holds at the present place."""

    def __init__(self, func: PrimFunc, needed: set):
        self.needed, self.analyzer = needed, sym.Analyzer()
        self.outside, self.written = safe_values(func), uses_of(func.body).writes
        self.writers: dict = {}
        for s in statements(func.body):
            for b in own_uses(s).writes:
                self.writers[b] = self.writers.get(b, 0) + 1
        self.loaded: dict = {}

    def visit_SeqStmt(self, block: SeqStmt):
        before, out = dict(self.loaded), []
        for s in block.seq:
            out.append(self.visit(s))
            self.see(s)
        self.loaded = before
        return out

    def see(self, s) -> None:
        """Remember what a load leaves in a tile nothing else writes."""
        if op_name(s) != "tl.copy":
            return
        src, dst = s.value.args
        if on_chip(src.source) or is_scalar_var(src.source) or not on_chip(dst.source) or not covers_whole(dst):
            return
        kept = [r for r in src.region if const_int(r.extent) != 1]
        same = [const_int(r.extent) for r in kept] == [n for n in map(const_int, dst.source.ty.shape) if n != 1]
        if same and self.writers[dst.source] == 1 and src.source not in self.written and not any(loads_in(r.min) for r in src.region):
            self.loaded[dst.source] = src

    def expr(self, e):
        """`e` with elements of loaded tiles read in GM."""
        if isinstance(e, TensorLoad) and e.source in self.loaded:
            return self.element(e, [self.expr(i) for i in e.indices])
        return map_children(e, self.expr)

    def element(self, e: TensorLoad, indices):
        src, dtype = self.loaded[e.source], dtype_of(e)
        own = iter([i for i, n in zip(indices, e.source.ty.shape) if const_int(n) != 1])
        place = [r.min if const_int(r.extent) == 1 else r.min + next(own) for r in src.region]
        value, inside = BufferLoad(src.source, place), None
        for i, n in zip(place, src.source.ty.shape):
            for cond in (i >= 0, i < n):
                if not self.analyzer.can_prove(cond):
                    inside = cond if inside is None else tirx.And(inside, cond)
        if inside is not None:
            value = tirx.if_then_else(inside, value, imm(self.outside.get(src.source, 0), dtype_of(src.source)))
        return value if dtype_of(src.source) == dtype else tirx.Cast(dtype, value)

    def own(self, s, e):
        return self.expr(e) if s in self.needed else e

    def visit_For(self, s: For):
        extent = self.own(s, s.extent)
        self.analyzer.bind(s.loop_var, Range.from_min_extent(imm(0, dtype_of(s.loop_var)), extent))
        if is_parallel(s):
            return s
        return For(s.loop_var, s.min, extent, s.kind, self.block(s.body), annotations=dict(s.annotations), span=s.span)

    def visit_While(self, s: While):
        return While(self.own(s, s.condition), self.block(s.body), span=s.span)

    def visit_IfThenElse(self, s: IfThenElse):
        other = self.block(s.else_case) if s.else_case is not None else None
        return IfThenElse(self.own(s, s.condition), self.block(s.then_case), other, span=s.span)

    def visit_Bind(self, s: Bind):
        return Bind(s.var, self.own(s, s.value), span=s.span)

    def visit_BufferStore(self, s: BufferStore):
        return BufferStore(s.buffer, self.own(s, s.value), list(s.indices), span=s.span)

    def visit_Evaluate(self, s: Evaluate):
        if s not in self.needed:
            return s
        return Evaluate(call(op_name(s), [self.own(s, a) for a in s.value.args], attrs_of(s), span=s.span), span=s.span)


def forward_elements(func: PrimFunc) -> PrimFunc:
    """Apply to a Tile IR function; those whose cube work depends on no tile stay as they are."""
    needed = cube_needs(func)
    if not any(on_chip(x.source) for s in needed for e in exprs(s) for x in loads_in(e)):
        return func
    return func.with_body(_Forward(func, needed)(func.body))


__all__ = ["forward_elements"]
