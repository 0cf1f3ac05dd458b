"""part_accumulators: sums that L0C has no room for are made in parts, one after the other, whatever becomes of them.

Before:  fill(c, 0); for k: copy(A[0:256, k * 64 : +64], a); copy(B[k * 64 : +64, 0:256], b); gemm(a, b, c)             # c: 256 x 256
         copy(c, c_ws); copy(c_ws, x); Parallel(i, j): y[i, j] = x[i, j] + x[j, i]
After:   for part in range(4):                                                                                          # c: 64 x 256
             fill(c, 0); for k: copy(A[part * 64 : +64, k * 64 : +64], a); copy(B[k * 64 : +64, 0:256], b); gemm(a, b, c)
             copy(c, c_ws[part * 64 : +64])
         copy(c_ws, x); Parallel(i, j): y[i, j] = x[i, j] + x[j, i]

Parts of a kernel can be blocks of their own (`split_tiles`) if nothing in it joins them. Here only what makes the sums, from where they are cleared
to where they leave L0C, is done once for each part; the rest finds them as it would have. What is not divided is loaded again for every part.
A tile that is multiplied with itself is loaded twice, once for its rows and once for its columns. Parts are equal where that does not make them
much smaller; else the last one is what is left, with shorter tiles of its own.

Requires: placed Tile IR. Ensures: the same; parts of sums fit L0C, if possible twice. Values are unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...analysis.tiles.home_loops import overwritten_first
from ...analysis.tiles.large_sums import large_sums, sum_bytes
from ...analysis.tiles.split_axis import SplitPlan, plan_along
from ...analysis.tiles.split_globals import is_global
from ...ir import (
    AllocBuffer,
    Evaluate,
    For,
    IfThenElse,
    PrimFunc,
    Stmt,
    StmtMutator,
    Var,
    While,
    const_int,
    decl_buffer,
    dtype_of,
    imm,
    itemsize,
    loop,
    redeclared,
    region,
    renew,
    scope_of,
    seq,
    statements,
    stmts_of,
    substitute,
)
from ...ir.functions import fixed_bytes
from ...isa.base import Space
from ...isa.units import BLOCK_BYTES, FRACTAL_ROWS, round_up
from ...tile import COPY, FILL, GEMM, is_op, with_args
from ...tile.clears import gemm_args
from ...tile.division import Slice
from ...tile.jumps import may_leave
from ...tile.uses import is_output, is_parallel, moved_regions, own_uses, used_outside, uses_of, workspaces
from .divided_body import SlicedBody, divided_spaces
from .gathered import between, gathered

VERSIONS = 2
"""Of a part: one leaves L0C while the next is summed up."""
MUCH_SMALLER = 2
"""Times: equal parts that are smaller than others by that are not worth it."""


def part_accumulators(func: PrimFunc, chip, notes: list) -> PrimFunc:
    """`func` with the largest of its accumulators in parts, so that all of them together have room; those that cannot be stay whole."""
    room = chip.capacity_bytes(Space.L0C)
    sums = {s.buffer for s in statements(func.body) if isinstance(s, AllocBuffer) and scope_of(s.buffer) == "local.l0c"}
    large = large_sums(sums, room)
    if not large:
        return func
    small = sums - set(large)
    body = _through_gm(_with_own_columns(func.body, large), large)
    while large:
        parts = _Parts(body, large, small, room)
        new = parts.of(body)
        if new is not None:
            names = ", ".join(f"'{c.name}'" for c in large if c in parts.smaller)
            notes.append(f"sums are larger than {Space.L0C.name}: {names} in {parts.number} parts, made one after the other")
            body = redeclared(new, parts.smaller)
        large = [c for c in large[1:] if c not in parts.smaller]
    return func.with_body(body)


@dataclass(frozen=True)
class _Division:
    """A `group` of statements of a list in parts of `size` rows or columns of `extent`, each of which has its `own` tiles of what the plan divides, and
    fills workspaces `again`. around: what stands in front of the group and behind."""

    plan: SplitPlan
    extent: int
    size: int
    own: set
    again: set
    group: list[Stmt]
    around: tuple[list[Stmt], list[Stmt]]


class _Parts:
    """What makes the first of `sums`, and those that go with it, in parts that have the `room` which `small` sums leave: others live at the same time only
    if they are made inside. smaller: tile -> what stands for it. number: of parts."""

    def __init__(self, body: Stmt, sums: list, small: set, room: int):
        self.body, self.sums, self.small, self.smaller, self.number = body, sums, small, {}, 0
        self.room = room - sum(map(sum_bytes, small))
        self.c = sums[0]

    def of(self, s: Stmt) -> Stmt | None:
        """`s` with that in parts, None if it cannot be."""
        body = list(stmts_of(s))
        users = _users(body, {self.c})
        if len(users) != 1:
            return self.grouped(body) if users else None
        (at,) = users
        new = self.inside(body[at])
        return None if new is None else seq(body[:at], new, body[at + 1 :])

    def inside(self, s: Stmt) -> Stmt | None:
        """The same of the only statement of a list that uses it."""
        if isinstance(s, For) and not is_parallel(s):
            new = self.of(s.body)
            return new if new is None else For(s.loop_var, s.min, s.extent, s.kind, new, annotations=dict(s.annotations), span=s.span)
        if isinstance(s, While):
            new = self.of(s.body)
            return new if new is None else While(s.condition, new, span=s.span)
        arms = [s.then_case, s.else_case] if isinstance(s, IfThenElse) else []
        users = _users(arms, {self.c})
        if len(users) != 1:
            return None
        (at,) = users
        arms[at] = self.of(arms[at])
        return None if arms[at] is None else IfThenElse(s.condition, *arms, span=s.span)

    def grouped(self, body: list[Stmt]) -> Stmt | None:
        """A list of statements with those that use the accumulator in parts."""
        ways = [way for d in range(len(self.c.ty.shape)) if (way := self.division(body, d)) is not None]
        if not ways:
            return None
        best = min(ways, key=lambda way: _loaded_again(way.group, way.plan))
        (whole, rest), part = divmod(best.extent, best.size), Var("part", "int32")
        self.smaller, self.number = {b: [] for b in best.own}, whole + (rest > 0)
        parts = loop(part, whole, self.part(best, part, Slice(best.size, part * best.size)), span=best.group[0].span)
        last = [self.part(best, imm(whole), Slice(rest, imm(whole * best.size)))] if rest else []
        front, behind = best.around
        return seq(front, parts, *last, behind)

    def part(self, way: _Division, which, cut: Slice) -> Stmt:
        """What makes a part."""
        sliced = SlicedBody(way.plan, which, self.number, way.own, way.again, cut)
        new = renew(sliced(seq(way.group)))
        for b in way.own:
            self.smaller[b].append(sliced.buffers[b])
        return new

    def again(self, group: Stmt, plan: SplitPlan) -> set:
        """Workspaces by which a group hands values to itself alone, and which every part fills as a whole."""
        in_part = set().union(*(u.writes for s in statements(group) if (u := own_uses(s)).all & plan.dims.keys()))
        return workspaces(self.body) & uses_of(group).writes - in_part - used_outside(self.body, set(statements(group)))

    def division(self, body: list[Stmt], dim: int) -> _Division | None:
        """The division along a dimension of the accumulator, None if there is none that is legal."""
        together = {self.c}
        while True:
            members = between(body, _users(body, together))
            group, around = [body[i] for i in sorted(members)], gathered(body, members)
            whole = seq(group)
            if around is None or any(map(may_leave, group)) or not all(map(_may_be_divided, statements(whole))):
                return None
            size = self.size_of(dim, whole, together)
            plan = None if size is None else plan_along(whole, self.c, dim, size=size)
            if plan is None or plan.refusal:
                return None
            again = self.again(whole, plan)
            left = self.left(whole, plan, again)
            more = (plan.dims.keys() & self.sums | left) - together
            if not more:
                own = self.own_tiles(whole, plan)
                return (
                    None if left or self.c not in own else _Division(plan, const_int(self.c.ty.shape[dim]), size, own, again, group, around)
                )
            together |= more

    def size_of(self, dim: int, group: Stmt, together: set) -> int | None:
        """Rows or columns of the largest parts, whole fractals, with which the sums among `together` have room, twice if there is; of equal parts, if they
        are not much smaller."""
        narrowest = min(itemsize(dtype_of(b)) for b in plan_along(group, self.c, dim).dims)
        unit = max(FRACTAL_ROWS, BLOCK_BYTES // narrowest)
        extent, needed = const_int(self.c.ty.shape[dim]), sum(sum_bytes(c) for c in self.sums if c in together)
        others = [b for b in uses_of(group).all - together if scope_of(b) == "local.l0c" and b not in self.small]
        room = self.room - sum(min(VERSIONS * sum_bytes(b), self.room // 2) for b in others)
        for versions in (VERSIONS, 1):
            most = min(room * round_up(extent, FRACTAL_ROWS) // (versions * needed), extent - 1) // unit
            equal = [n for n in range(most, 0, -1) if extent % (n * unit) == 0]
            if most > 0:
                return unit * next((n for n in equal if n * MUCH_SMALLER > most), most)
        return None

    def left(self, group: Stmt, plan: SplitPlan, again: set) -> set:
        """What is not divided, and in which a part would find what another one has left."""
        uses = uses_of(group)
        undivided = uses.writes - plan.dims.keys() - divided_spaces(self.body, plan).keys()
        return {b for b in undivided if (b in uses.reads if is_global(b) and b not in again else not _found_new(group, b))}

    def own_tiles(self, group: Stmt, plan: SplitPlan) -> set:
        """What is divided, and holds nothing in front of the group or behind."""
        elsewhere = used_outside(self.body, set(statements(group)))
        return {b for b in plan.dims if b not in elsewhere and _found_new(group, b)}


def _users(body: list[Stmt], buffers: set) -> set[int]:
    """Positions of the statements of a list that use some of `buffers`; a place may be empty."""
    return {i for i, s in enumerate(body) if s is not None and uses_of(s).all & buffers and not isinstance(s, AllocBuffer)}


def _may_be_divided(s: Stmt) -> bool:
    """True for control flow, for tile ops, but those that bring to L1, where tiles are whole fractals, what L0C has, and for element-wise work on tiles."""
    if is_parallel(s):
        return not any(map(is_global, uses_of(s).all)) and not is_output(s)
    if is_op(s, COPY):
        source, target = (scope_of(r.source) for r in moved_regions(s))
        return (source, target) != ("local.l0c", "shared.l1")
    return not is_output(s) and not any(is_global(b) for b in own_uses(s).writes)


def _found_new(s: Stmt, buffer) -> bool:
    """True if `s` finds nothing in a buffer that it has not written: all of it in front, or in every iteration of the only loop that uses it."""
    users = [x for x in stmts_of(s) if buffer in uses_of(x).all]
    inside = users[0].body if len(users) == 1 and isinstance(users[0], For) and not is_parallel(users[0]) else None
    return overwritten_first(s, buffer) or inside is not None and _found_new(inside, buffer)


def _loaded_again(group: list[Stmt], plan: SplitPlan) -> int:
    """Bytes of tiles that every part loads anew."""
    return sum(fixed_bytes(b) for b in uses_of(seq(group)).writes if scope_of(b) == "shared.l1" and b not in plan.dims)


class _OwnColumns(StmtMutator):
    """Products of a tile with itself that take their second operand from a tile of its own. own: tile -> that."""

    def __init__(self, own: dict, sums: list):
        self.own, self.sums = own, sums

    def visit_Evaluate(self, s: Evaluate):
        tile = _squared(s, self.sums)
        if tile in self.own:
            a, b, *rest = s.value.args
            return with_args(s, [a, substitute(Evaluate(b), {tile: self.own[tile]}).value, *rest])
        written = uses_of(s).writes & self.own.keys()
        return [s, *(substitute(s, {b: self.own[b]}) for b in written)]


def _squared(s: Stmt, sums: list):
    """The tile that a product into one of `sums` multiplies with itself, if it does."""
    if not is_op(s, GEMM):
        return None
    a, b, c = (r.source for r in gemm_args(s)[:3])
    return a if a.same_as(b) and c in sums else None


def _with_own_columns(body: Stmt, sums: list) -> Stmt:
    """`body` with a second copy of each tile that is multiplied with itself, where nothing but copies and fills write it."""
    found = {tile for s in statements(body) if (tile := _squared(s, sums)) is not None}
    written_by = [(s, b) for s in statements(body) if isinstance(s, Evaluate) for b in uses_of(s).writes & found]
    found -= {b for s, b in written_by if not is_op(s, COPY, FILL) or b in uses_of(s).reads}
    own = {b: decl_buffer(list(b.ty.shape), dtype_of(b), f"{b.name}_columns", scope=scope_of(b)) for b in found}
    return redeclared(_OwnColumns(own, sums)(body), {b: [b, new] for b, new in own.items()}) if own else body


class _ThroughGM(StmtMutator):
    """Copies of sums to tiles in L1 by way of a workspace. sums: accumulator -> spaces, which are added to."""

    def __init__(self, sums: list):
        self.spaces: dict = {c: [] for c in sums}

    def visit_Evaluate(self, s: Evaluate):
        if not is_op(s, COPY):
            return s
        source, target = moved_regions(s)
        extents = [const_int(r.extent) for r in target.region]
        if source.source not in self.spaces or scope_of(target.source) != "shared.l1" or None in extents:
            return s
        space = decl_buffer(extents, dtype_of(target.source), f"{target.source.name}_ws")
        self.spaces[source.source].append(space)
        there = region(space, [0] * len(extents), extents)
        return [with_args(s, [source, there, *s.value.args[2:]]), with_args(s, [there, target, *s.value.args[2:]])]


def _through_gm(body: Stmt, sums: list) -> Stmt:
    """`body` where sums that become operands do so by way of GM, where a part may lie anywhere."""
    through = _ThroughGM(sums)
    new = through(body)
    return _WithSpaces(through.spaces)(new) if any(through.spaces.values()) else body


class _WithSpaces(StmtMutator):
    def __init__(self, spaces: dict):
        self.spaces = spaces

    def visit_AllocBuffer(self, s: AllocBuffer):
        return [s, *(AllocBuffer(b, annotations={"workspace": 1}, span=s.span) for b in self.spaces.get(s.buffer, ()))]


__all__ = ["part_accumulators"]
