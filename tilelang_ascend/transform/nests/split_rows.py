"""split_rows: let the two vector cores of a block share the vector work of a kernel that also has cube work.

Before:  copy(ws[0:128, 0:256], C_ub[0:128, 0:256]); Parallel(i < 128, j < 256): C_ub[i, j] = f(C_ub[i, j], i)
After:   copy(ws[vid * 64 : +64, 0:256], C_ub[0:64, 0:256]); Parallel(i < 64, j < 256): C_ub[i, j] = f(C_ub[i, j], i + vid * 64)

The axis is proven independent (analysis/tiles/split_axis.py). Odd sizes are exact: the first core takes the larger half, transfers of
the second are clipped, and loops in which it works on a row too many say so (`tl.count`). Without such an axis the first vector core does all the work.

Requires: placed Tile IR after map_grid. Ensures: vector statements of mixed kernels depend on `get_sub_block_idx` where they differ.
"""

from __future__ import annotations

from ...analysis.tiles.core_kinds import CUBE_SCOPES, uses_cube, uses_vector
from ...analysis.tiles.split_axis import SplitPlan, copy_dims, find_split, is_ub
from ...analysis.tiles.split_globals import is_global
from ...errors import location_of
from ...ir import (
    AllocBuffer,
    Bind,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    PrimFunc,
    Stmt,
    StmtMutator,
    TensorLoad,
    TensorRegion,
    Var,
    While,
    call,
    children,
    const_int,
    decl_buffer,
    dtype_of,
    exprs,
    free_vars,
    imm,
    map_children,
    op_name,
    region,
    scope_of,
    seq,
    statements,
    stmts_of,
    tirx,
)
from ...isa.base import VECTOR_CORES_PER_BLOCK
from ...tile import with_args
from ...tile.division import Share
from ...tile.uses import COUNT, is_output, is_parallel, is_scalar_var, moved_regions, own_uses, uses_of


class _Split(StmtMutator):
    def __init__(self, plan: SplitPlan, sub_block):
        self.plan, self.sub, self.in_nest = plan, sub_block, False
        self.buffers = {}
        for b, d in plan.dims.items():
            shape = [const_int(n) for n in b.ty.shape]
            shape[d] = self.part(shape[d]).size
            self.buffers[b] = decl_buffer(shape, dtype_of(b), b.name, scope="shared.ub")

    def part(self, extent: int) -> Share:
        """What this core has of rows or iterations."""
        return Share(extent, self.sub, VECTOR_CORES_PER_BLOCK)

    def visit_AllocBuffer(self, s: AllocBuffer):
        new = self.buffers.get(s.buffer)
        return s if new is None else AllocBuffer(new, annotations=dict(s.annotations), span=s.span)

    def visit_For(self, s: For):
        if not is_parallel(s):
            return self.generic(s)
        outer, self.in_nest = self.in_nest, True
        new = self.generic(s) if s.loop_var not in self.plan.nest_vars else self.share(s)
        self.in_nest = outer
        divided = any(is_parallel(x) and x.loop_var in self.plan.nest_vars for x in statements(s))
        return new if outer or divided else guard_replicated(new, self.sub)

    def share(self, s: For) -> For:
        """This core's iterations."""
        part, notes = self.part(self.plan.nest_vars[s.loop_var]), dict(s.annotations)
        if not part.even:
            notes[COUNT] = part.count
        return For(s.loop_var, s.min, imm(part.size), s.kind, self.block(s.body), annotations=notes, span=s.span)

    def indices(self, buffer, indices):
        """Indices of a UB access: the divided dimension counts locally, everything else globally."""
        split = self.plan.dims.get(buffer)
        return [i if d == split else self.expr(i) for d, i in enumerate(indices)]

    def expr(self, e):
        if isinstance(e, TensorLoad) and e.source in self.plan.dims:
            return BufferLoad(self.buffers[e.source], self.indices(e.source, e.indices))
        if isinstance(e, Var) and e in self.plan.nest_vars:
            return e + self.part(self.plan.nest_vars[e]).first
        return map_children(e, self.expr)

    def visit_BufferStore(self, s: BufferStore):
        buffer = self.buffers.get(s.buffer, s.buffer)
        new = BufferStore(buffer, self.expr(s.value), self.indices(s.buffer, s.indices), span=s.span)
        return new if self.in_nest else guard_replicated(new, self.sub)

    def visit_Evaluate(self, s: Evaluate):
        args = list(s.value.args) if op_name(s) else []
        if not any(isinstance(a, TensorRegion) and a.source in self.plan.dims for a in args):
            return guard_replicated(s, self.sub)
        new = [self.region(a) if isinstance(a, TensorRegion) and a.source in self.plan.dims else a for a in args]
        if moved_regions(s) is not None:
            new = self.match_other_side(args, new)
        return with_args(s, new)

    def region(self, r: TensorRegion) -> TensorRegion:
        d = self.plan.dims[r.source]
        extents = [x.extent for x in r.region]
        extents[d] = self.part(const_int(r.source.ty.shape[d])).count
        return region(self.buffers[r.source], [x.min for x in r.region], extents)

    def match_other_side(self, old, new):
        """Shift and clip the side of a copy that is not divided itself (GM or a workspace)."""
        ub = 0 if old[0].source in self.plan.dims else 1
        if old[1 - ub].source in self.plan.dims:
            return new
        d = self.plan.dims[old[ub].source]
        part = self.part(const_int(old[ub].source.ty.shape[d]))
        other = old[1 - ub]
        pairs = copy_dims(old[0], old[1])
        g = next(p[1 - ub] for p in pairs if p[ub] == d)
        mins, extents = [x.min for x in other.region], [x.extent for x in other.region]
        mins[g] = mins[g] + part.first
        extents[g] = part.count
        new[1 - ub] = region(other.source, mins, extents)
        return new


def guard_replicated(s: Stmt, sub) -> Stmt:
    """Work both cores would repeat: harmless in UB, but GM is written and output is made by the first core only."""
    if is_output(s) or writes_globals(s):
        return IfThenElse(tirx.EQ(sub, imm(0)), s, None, span=s.span)
    return s


def writes_globals(s: Stmt) -> bool:
    """True for vector or scalar work that stores to GM."""
    uses = uses_of(s)
    return any(is_global(b) for b in uses.writes) and not any(scope_of(b) in CUBE_SCOPES for b in uses.all)


def reads_ub(s: Stmt) -> bool:
    """True if the condition or extent of `s` is read from a tile: only a core that has computed it can tell."""
    return any(is_ub(b) for b in own_uses(s).reads)


def from_ub(body: Stmt) -> set:
    """Lets and scalar variables whose value depends on an element of a tile, directly or by the branches that set them."""
    found: set = set()

    def depends(s: Stmt) -> bool:
        return reads_ub(s) or any(v in found for e in exprs(s) for v in free_vars(e))

    def see(s: Stmt, decided: bool) -> None:
        inner = decided or isinstance(s, (For, While, IfThenElse)) and not is_parallel(s) and depends(s)
        if isinstance(s, Bind) and depends(s):
            found.add(s.var)
        if isinstance(s, BufferStore) and is_scalar_var(s.buffer) and (decided or depends(s)):
            found.add(s.buffer)
        for x in children(s):
            see(x, inner)

    while True:
        before = len(found)
        see(body, False)
        if len(found) == before:
            return found


class _FirstCoreOnly(StmtMutator):
    """Guard all vector statements with `sub_block == 0`. `tiles_decide`: scalars that only the core that has the tiles knows."""

    def __init__(self, sub, tiles_decide: set):
        self.sub, self.tiles_decide = sub, tiles_decide

    def control(self, s):
        if reads_ub(s) or any(v in self.tiles_decide for e in exprs(s) for v in free_vars(e)):
            return IfThenElse(tirx.EQ(self.sub, imm(0)), s, None, span=s.span)
        return self.generic(s)

    def visit_For(self, s: For):
        return self.guard(s) if is_parallel(s) else self.control(s)

    def visit_IfThenElse(self, s: IfThenElse):
        return self.control(s)

    def visit_While(self, s: While):
        return self.control(s)

    def visit_Evaluate(self, s: Evaluate):
        return self.guard(s)

    def visit_BufferStore(self, s: BufferStore):
        return self.guard(s)

    def visit_Bind(self, s: Bind):
        """The second core, which has no such tile, sees zero, and no statement of it depends on that."""
        if not reads_ub(s):
            return s
        place = decl_buffer((1,), dtype_of(s.var), s.var.name, scope="local.var")
        zero, index = BufferStore(place, tirx.const(0, dtype_of(s.var)), [imm(0)], span=s.span), [imm(0)]
        read = IfThenElse(tirx.EQ(self.sub, imm(0)), BufferStore(place, s.value, index, span=s.span), None, span=s.span)
        return [AllocBuffer(place), zero, read, Bind(s.var, BufferLoad(place, index), span=s.span)]

    def guard(self, s: Stmt):
        if any(is_ub(b) for b in uses_of(s).all) or is_output(s) or writes_globals(s):
            return IfThenElse(tirx.EQ(self.sub, imm(0)), s, None, span=s.span)
        return s


def split_rows(func: PrimFunc, notes: list | None = None) -> PrimFunc:
    """Apply to a placed Tile IR function; functions without cube or without vector work stay as they are. What forbids a division is added
    to `notes`."""
    body = func.body
    if not (uses_cube(body) and uses_vector(body)):
        return func
    sub = tirx.Var("sub_block", "int32")
    plan = find_split(body)
    split = _FirstCoreOnly(sub, from_ub(body))(body) if plan.refusal else _Split(plan, sub)(body)
    if plan.refusal and notes is not None:
        where = location_of(plan.refusal.span)
        notes.append(f"one of the two vector cores does all vector work: {plan.refusal.reason}" + (f" ({where})" if where else ""))
    allocs = [s for s in stmts_of(split) if isinstance(s, AllocBuffer)]
    rest = [s for s in stmts_of(split) if not isinstance(s, AllocBuffer)]
    return func.with_body(seq(allocs, Bind(sub, call("ascend.get_sub_block_idx", [], dtype="int32")), rest))


__all__ = ["split_rows"]
