"""The body of a kernel, of whose tiles and nests one part is worked on: by one of several cores, or in one round of a loop.

What is divided is chosen and proven in analysis/tiles/split_axis.py; what is not is done by every part, but for what can be seen from
outside: that is the first one's.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from types import MappingProxyType

from ...analysis.tiles.core_kinds import CUBE_SCOPES
from ...analysis.tiles.piece_loads import PieceLoad
from ...analysis.tiles.split_axis import SplitPlan, copy_dims
from ...analysis.tiles.split_globals import is_global
from ...ir import (
    AllocBuffer,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    Stmt,
    StmtMutator,
    TensorLoad,
    TensorRegion,
    Var,
    const_int,
    decl_buffer,
    dtype_of,
    imm,
    map_children,
    op_name,
    region,
    renew,
    scope_of,
    seq,
    statements,
    tirx,
)
from ...tile import COPY, is_op, with_args
from ...tile.division import Share, Slice
from ...tile.uses import (
    COUNT,
    covers_whole,
    is_atomic,
    is_output,
    is_parallel,
    moved_regions,
    on_chip,
    own_uses,
    uses_of,
    work_of,
    workspaces,
)


class DividedBody(StmtMutator):
    """Part number `which` (an expression) of `parts`. `with_cube`: undivided transfers of the cube core to GM are the
    first part's alone, too; it is there once for both vector cores. `own`: buffers in GM of which every part has its own. `spaces`: workspaces
    that have room for a part alone, with the dimension that is divided (`divided_spaces`)."""

    def __init__(
        self, plan: SplitPlan, which, parts: int, with_cube: bool = False, own: Set = frozenset(), spaces: Mapping = MappingProxyType({})
    ):
        self.own_globals, self.spaces = own, spaces
        self.plan, self.which, self.parts, self.in_nest, self.with_cube = plan, which, parts, False, with_cube
        self.buffers = {}
        for b, d in {**plan.dims, **spaces}.items():
            shape = [const_int(n) for n in b.ty.shape]
            shape[d] = self.part(shape[d]).size
            self.buffers[b] = decl_buffer(shape, dtype_of(b), b.name, scope=scope_of(b))

    def part(self, extent: int) -> Share | Slice:
        """What this part has of rows or iterations."""
        return Share(extent, self.which, self.parts)

    def visit_AllocBuffer(self, s: AllocBuffer):
        new = self.buffers.get(s.buffer)
        return s if new is None else AllocBuffer(new, annotations=dict(s.annotations), span=s.span)

    def visit_For(self, s: For):
        if not is_parallel(s):
            load = PieceLoad.of(s)
            return self.pieces(load) if load is not None and self.plan.dims.get(load.tile) == load.dim else self.generic(s)
        outer, self.in_nest = self.in_nest, True
        new = self.generic(s) if s.loop_var not in self.plan.nest_vars else self.share(s)
        self.in_nest = outer
        divided = any(is_parallel(x) and x.loop_var in self.plan.nest_vars for x in statements(s))
        return new if outer or divided else self.guarded(new)

    def pieces(self, load: PieceLoad) -> Stmt:
        """What loads this part of a tile that is loaded in pieces."""
        part = self.part(const_int(load.tile.ty.shape[load.dim]))
        assert part.even and load.divides(part.size), f"parts of {part.size} of '{load.tile.name}', which has pieces of {load.size}"
        return load.part(self.buffers[load.tile], part.first, part.size)

    def share(self, s: For) -> For:
        """The iterations of this part."""
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
        return new if self.in_nest else self.guarded(new)

    def visit_Evaluate(self, s: Evaluate):
        args = list(s.value.args) if op_name(s) else []
        if not any(isinstance(a, TensorRegion) and a.source in self.plan.dims for a in args):
            added = is_atomic(s) and any(isinstance(a, TensorRegion) and a.source in self.plan.summands for a in args)
            return s if added else self.guarded(s)
        if work_of(s).whole is not None and (sizes := self.two_sizes(s)) is not None:
            first, last = (with_args(s, self.regions(args, size)) for size in sizes)
            return IfThenElse(tirx.EQ(self.which, imm(0)), first, last, span=s.span)
        new = self.regions(args)
        if moved_regions(s) is not None:
            new = self.match_other_side(args, new)
        return with_args(s, new)

    def regions(self, args: list, count=None) -> list:
        """Arguments of a tile op for this part, of which `count` rows or iterations are worked on; what it has, unless that is told."""
        return [self.region(a, count) if isinstance(a, TensorRegion) and a.source in self.plan.dims else a for a in args]

    def two_sizes(self, s: Evaluate) -> tuple[int, int] | None:
        """What the first and the last of two parts have, where that is not the same. Work on a number of rows that only run time tells would be done
        element by element."""
        divided = [a for a in s.value.args if isinstance(a, TensorRegion) and a.source in self.plan.dims]
        parts = [self.part(const_int(r.source.ty.shape[self.plan.dims[r.source]])) for r in divided]
        if self.parts != 2 or all(part.even for part in parts):
            return None
        return parts[0].size, parts[0].extent - parts[0].size

    def guarded(self, s: Stmt) -> Stmt:
        """Work that every part would repeat: harmless on the chip, but GM is written and output is made by the first one only."""
        if any(is_output(x) for x in statements(s)) or writes_globals(s, self.with_cube, self.own_globals):
            kept = isinstance(s, For) and any(on_chip(b) for b in uses_of(s).writes)
            other = renew(seq(_OnChipOnly()(s))) if kept else None
            number = const_int(self.which)
            if number is not None:
                return s if number == 0 else other
            return IfThenElse(tirx.EQ(self.which, imm(0)), s, other, span=s.span)
        return s

    def region(self, r: TensorRegion, count=None) -> TensorRegion:
        d = self.plan.dims[r.source]
        extents = [x.extent for x in r.region]
        part, some = self.part(const_int(r.source.ty.shape[d])), extents[d]
        extents[d] = part.count if count is None else imm(count)
        if const_int(some) is None:  # So many rows of the tile are moved.
            extents[d] = tirx.max(tirx.min(extents[d], self.expr(some) - part.first), imm(0))
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
        if other.source not in self.spaces:
            mins[g] = mins[g] + part.first
        extents[g] = new[ub].region[d].extent
        new[1 - ub] = region(self.buffers.get(other.source, other.source), mins, extents)
        return new


def divided_spaces(body: Stmt, plan: SplitPlan) -> dict:
    """Workspace -> dimension, of those that nothing but copies of whole divided tiles use, along the dimension that is divided: what one part leaves there
    no other one sees."""
    spaces = workspaces(body)
    found: dict = {b: set() for b in spaces}
    for s in statements(body):
        for b in own_uses(s).all & spaces:
            found[b].add(_divided_dim(s, b, plan))
    return {b: dims.pop() for b, dims in found.items() if len(dims) == 1 and None not in dims}


def _divided_dim(s: Stmt, space, plan: SplitPlan) -> int | None:
    """The dimension of a workspace that a copy of a divided tile from or to all of it divides, None for other statements."""
    ends = moved_regions(s) if is_op(s, COPY) else None
    if ends is None:
        return None
    mine = 0 if ends[0].source.same_as(space) else 1
    other = ends[1 - mine]
    if other.source not in plan.dims or not all(map(covers_whole, ends)):
        return None
    return next((pair[mine] for pair in copy_dims(*ends) if pair[1 - mine] == plan.dims[other.source]), None)


class _OnChipOnly(StmtMutator):
    """What a nest does to tiles and scalars."""

    def visit_BufferStore(self, s: BufferStore):
        return None if is_global(s.buffer) else s

    def visit_Evaluate(self, s: Evaluate):
        return None if is_output(s) or writes_globals(s) else s


class SlicedBody(DividedBody):
    """A part of what is divided; tiles that are not `own` stay, and are accessed where the part lies. `again`: workspaces that every part fills.
    `cut`: what the part has, if that is not the same for all."""

    def __init__(self, plan: SplitPlan, which, parts: int, own: set, again: Set = frozenset(), cut: Slice | None = None):
        self.cut = cut
        super().__init__(plan, which, parts, with_cube=True, own=again)
        self.own = own
        self.buffers = {b: new if b in own else b for b, new in self.buffers.items()}

    def part(self, extent: int) -> Share | Slice:
        return super().part(extent) if self.cut is None else self.cut

    def pieces(self, load: PieceLoad) -> Stmt:
        assert load.tile in self.own, f"'{load.tile.name}' is loaded in pieces, and stays whole"
        return super().pieces(load)

    def first(self, b):
        return self.part(const_int(b.ty.shape[self.plan.dims[b]])).first

    def indices(self, buffer, indices):
        found, split = super().indices(buffer, indices), self.plan.dims.get(buffer)
        if split is None or buffer in self.own:
            return found
        return [i + self.first(buffer) if d == split else i for d, i in enumerate(found)]

    def region(self, r: TensorRegion, count=None) -> TensorRegion:
        new = super().region(r, count)
        if r.source in self.own:
            return new
        d = self.plan.dims[r.source]
        mins = [x.min + self.first(r.source) if e == d else x.min for e, x in enumerate(new.region)]
        return region(r.source, mins, [x.extent for x in new.region])


class LongerBody(DividedBody):
    """The opposite of a division: everything in the plan `times` as long."""

    def __init__(self, plan: SplitPlan, times: int):
        self.times = times
        super().__init__(plan, imm(0), 1)

    def part(self, extent: int) -> Slice:
        return Slice(self.times * extent, imm(0))

    def guarded(self, s: Stmt) -> Stmt:
        return s


def writes_globals(s: Stmt, with_cube: bool = False, but: Set = frozenset()) -> bool:
    """True for vector or scalar work that stores to GM, `but` to these buffers; with the cube core's, if asked for."""
    uses = uses_of(s)
    return any(is_global(b) for b in uses.writes - but) and (with_cube or not any(scope_of(b) in CUBE_SCOPES for b in uses.all))


__all__ = ["DividedBody", "divided_spaces", "LongerBody", "SlicedBody", "writes_globals"]
