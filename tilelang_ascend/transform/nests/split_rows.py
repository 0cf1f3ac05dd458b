"""split_rows: let the two vector cores of a block share the vector work of a kernel that also has cube work.

Before:  copy(ws[0:128, 0:256], C_ub[0:128, 0:256]); Parallel(i < 128, j < 256): C_ub[i, j] = f(C_ub[i, j], i)
After:   copy(ws[vid * 64 : +64, 0:256], C_ub[0:64, 0:256]); Parallel(i < 64, j < 256): C_ub[i, j] = f(C_ub[i, j], i + vid * 64)

The axis is proven independent (analysis/tiles/split_axis.py). Odd sizes are exact: the first core takes the larger half, transfers of
the second are clipped, reductions and scans stand in a branch for each core, and loops in which it works on a row too many say so (`tl.count`).
Without such an axis the first vector core does all the work or, where elements of tiles decide about cube work, both do the same, so that
both know: unless it reads from GM what it has written there.

Requires: placed Tile IR after map_grid. Ensures: vector statements of mixed kernels depend on `get_sub_block_idx` where they differ.
"""

from __future__ import annotations

from ...analysis.tiles.carried_elements import written_and_read
from ...analysis.tiles.carried_scalars import carried_scalars
from ...analysis.tiles.core_kinds import uses_cube, uses_vector
from ...analysis.tiles.split_axis import copy_dims, find_split, is_ub
from ...analysis.tiles.split_globals import GlobalConflicts, carried_places
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
    While,
    call,
    children,
    decl_buffer,
    dtype_of,
    exprs,
    free_vars,
    imm,
    itemsize,
    map_children,
    renew,
    seq,
    stmts_of,
    tirx,
)
from ...isa.base import VECTOR_CORES_PER_BLOCK
from ...isa.units import CACHE_LINE_BYTES
from ...tile.uses import MET, is_output, is_parallel, is_scalar_var, own_uses, uses_of
from .divided_body import DividedBody, writes_globals


def reads_ub(s: Stmt) -> bool:
    """True if the condition or extent of `s` is read from a tile: only a core that has computed it can tell."""
    return any(is_ub(b) for b in own_uses(s).reads)


def depends_on_tiles(s: Stmt, tiles_decide: set) -> bool:
    """True if an expression of `s` itself reads a tile, or a scalar of `tiles_decide`."""
    return reads_ub(s) or any(v in tiles_decide for e in exprs(s) for v in free_vars(e))


def from_ub(body: Stmt, shared: set) -> set:
    """Lets and scalar variables whose value depends on an element of a tile, or of the tensors `shared`, directly or by the branches that set
    them; and these tensors."""
    found: set = set(shared)

    def see(s: Stmt, decided: bool) -> None:
        inner = decided or isinstance(s, (For, While, IfThenElse)) and not is_parallel(s) and depends_on_tiles(s, found)
        if isinstance(s, Bind) and depends_on_tiles(s, found):
            found.add(s.var)
        if isinstance(s, BufferStore) and is_scalar_var(s.buffer) and (decided or depends_on_tiles(s, found)):
            found.add(s.buffer)
        for x in children(s):
            see(x, inner)

    while True:
        before = len(found)
        see(body, False)
        if len(found) == before:
            return found


class _ScalarsOnly(StmtMutator):
    """What a nest does to scalars that do not depend on tiles. `tiles_decide`: those that do."""

    def __init__(self, tiles_decide: set):
        self.tiles_decide = tiles_decide

    def control(self, s):
        return None if depends_on_tiles(s, self.tiles_decide) else self.generic(s)

    visit_For = visit_While = visit_IfThenElse = control

    def visit_Bind(self, s: Bind):
        return None if depends_on_tiles(s, self.tiles_decide) else s

    def visit_BufferStore(self, s: BufferStore):
        return s if is_scalar_var(s.buffer) and s.buffer not in self.tiles_decide else None

    def visit_Evaluate(self, s: Evaluate):
        return None


class _FirstCoreOnly(StmtMutator):
    """Guard all vector statements with `sub_block == 0`. `tiles_decide`: scalars that only the core that has the tiles knows; `carried`: those
    that leave the nests that store to them; `shared`: tensors of which that core alone reads elements."""

    def __init__(self, sub, tiles_decide: set, carried: set, shared: set):
        self.sub, self.tiles_decide, self.everywhere, self.shared = sub, tiles_decide, carried - tiles_decide, shared

    def control(self, s):
        if depends_on_tiles(s, self.tiles_decide):
            return IfThenElse(tirx.EQ(self.sub, imm(0)), s, None, span=s.span)
        return self.generic(s)

    def visit_For(self, s: For):
        if not is_parallel(s):
            return self.control(s)
        guarded = self.guard(s)
        if guarded is s or self.everywhere.isdisjoint(uses_of(s).writes):
            return guarded
        # The other cores do not need the tiles, but what the nest counts.
        return IfThenElse(guarded.condition, s, renew(seq(_ScalarsOnly(self.tiles_decide)(s))), span=s.span)

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
        if not reads_ub(s) and self.shared.isdisjoint(own_uses(s).reads):
            return s
        place = decl_buffer((1,), dtype_of(s.var), s.var.name, scope="local.var")
        zero, index = BufferStore(place, tirx.const(0, dtype_of(s.var)), [imm(0)], span=s.span), [imm(0)]
        read = IfThenElse(tirx.EQ(self.sub, imm(0)), BufferStore(place, s.value, index, span=s.span), None, span=s.span)
        return [AllocBuffer(place), zero, read, Bind(s.var, BufferLoad(place, index), span=s.span)]

    def guard(self, s: Stmt):
        if any(is_ub(b) or b in self.shared for b in uses_of(s).all) or is_output(s) or writes_globals(s):
            return IfThenElse(tirx.EQ(self.sub, imm(0)), s, None, span=s.span)
        return s


class _OwnPlaces(StmtMutator):
    """`lines`: place -> which of its cache lines is meant. Every vector core has its own; on the cube core its number is 0, too."""

    def __init__(self, lines: dict):
        self.lines = lines
        self.new = {b: decl_buffer((VECTOR_CORES_PER_BLOCK, CACHE_LINE_BYTES // itemsize(dtype_of(b))), dtype_of(b), b.name) for b in lines}

    def visit_AllocBuffer(self, s: AllocBuffer):
        return AllocBuffer(self.new[s.buffer], annotations=dict(s.annotations), span=s.span) if s.buffer in self.new else s

    def expr(self, e):
        if isinstance(e, TensorLoad) and e.source in self.new:
            return BufferLoad(self.new[e.source], [self.lines[e.source], imm(0)])
        return map_children(e, self.expr)

    def visit_BufferStore(self, s: BufferStore):
        if s.buffer not in self.new:
            return self.generic(s)
        return BufferStore(self.new[s.buffer], self.expr(s.value), [self.lines[s.buffer], imm(0)], span=s.span)


class _MetPlaces(StmtMutator):
    """The first vector core writes the `places`, both read them. Stores to a place take its cache lines in turn: the vector cores meet behind every
    store, so that nobody reads the line still that is written again two stores later. Each place has a turn of its own: of those only the cube
    core reads, no meeting keeps anybody from being read."""

    def __init__(self, places: set):
        self.turns = {b: decl_buffer((1,), "int32", "turn", scope="local.var") for b in places}
        self.places = _OwnPlaces({b: tirx.floormod(BufferLoad(t, [imm(0)]), imm(VECTOR_CORES_PER_BLOCK)) for b, t in self.turns.items()})

    def visit_AllocBuffer(self, s: AllocBuffer):
        turn, new = self.turns.get(s.buffer), self.places.visit(s)
        if turn is None:
            return s
        place = AllocBuffer(new.buffer, annotations={**new.annotations, MET: 1}, span=s.span)
        return [place, AllocBuffer(turn), BufferStore(turn, imm(0), [imm(0)], span=s.span)]

    def expr(self, e):
        return self.places.expr(e)

    def visit_BufferStore(self, s: BufferStore):
        new, turn = self.places.visit(s), self.turns.get(s.buffer)
        if turn is None:
            return new
        return [BufferStore(turn, 1 - BufferLoad(turn, [imm(0)]), [imm(0)], span=s.span), new]


def _written_and_read(body: Stmt) -> bool:
    """True if vector work reads from GM what it has written there: a core that does not write alone cannot tell when to read."""
    return GlobalConflicts(body, copy_dims, is_ub).between_cores(lambda node: False) is not None


def split_rows(func: PrimFunc, notes: list | None = None) -> PrimFunc:
    """Apply to a placed Tile IR function; functions without cube or without vector work stay as they are. What forbids a division is added
    to `notes`."""
    body = func.body
    if not (uses_cube(body) and uses_vector(body)):
        return func
    sub = tirx.Var("sub_block", "int32")
    plan, places = find_split(body), carried_places(body)
    alone = plan.refusal and (not places or _written_and_read(body))
    if alone and places:
        body = _MetPlaces(places)(body)
    if alone:
        shared = written_and_read(body)
        split = _FirstCoreOnly(sub, from_ub(body, shared), carried_scalars(body), shared)(body)
    else:
        split = _OwnPlaces(dict.fromkeys(places, sub))(DividedBody(plan, sub, VECTOR_CORES_PER_BLOCK, own=places)(body))
    if plan.refusal and notes is not None:
        where = location_of(plan.refusal.span)
        who = "one of the two vector cores does" if alone else "both vector cores do"
        notes.append(f"{who} all vector work: {plan.refusal.reason}" + (f" ({where})" if where else ""))
    allocs = [s for s in stmts_of(split) if isinstance(s, AllocBuffer)]
    rest = [s for s in stmts_of(split) if not isinstance(s, AllocBuffer)]
    return func.with_body(seq(allocs, Bind(sub, call("ascend.get_sub_block_idx", [], dtype="int32")), rest))


__all__ = ["split_rows"]
