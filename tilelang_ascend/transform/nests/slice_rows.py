"""slice_rows: vector work of a loop on more rows than UB has room for is done in slices of rows.

Before:  copy(ws_s, x); reduce(x, m, max); Parallel(i < 64, j < 512): x[i, j] = exp(x[i, j] - m[i]); copy(x, ws_p)  # x: 64 x 512
After:   for part in range(4):
             copy(ws_s[part * 16 : +16, :], x); reduce(x, m[part * 16 : +16], max)
             Parallel(i < 16, j < 512): x[i, j] = exp(x[i, j] - m[i + part * 16]); copy(x, ws_p[part * 16 : +16, :])

Unlike `split_tiles`, which divides a whole block with all its products, this divides what stands between two ways of values from one kind of core to
the other: products keep all their rows. Tiles that nothing else uses shrink, rows of the others are where they were. What works on no rows of the
tile that is divided is no part of a slice: every slice would do it again. Work in front of and behind loops with products goes the same way, where UB
has no room for all it works on.

Requires: mapped Tile IR after split_rows, before skew_stages. Ensures: the same values.
"""

from __future__ import annotations

from itertools import combinations, groupby

from ...analysis.tiles.core_kinds import works_on_cube
from ...analysis.tiles.home_loops import overwritten_first
from ...analysis.tiles.split_axis import SplitPlan, is_ub, plan_along
from ...ir import (
    AllocBuffer,
    For,
    ForKind,
    PrimFunc,
    Stmt,
    StmtMutator,
    Var,
    children,
    const_int,
    dtype_of,
    imm,
    itemsize,
    redeclared,
    renew,
    scope_of,
    seq,
    statements,
    stmts_of,
)
from ...ir.functions import fixed_bytes
from ...isa.base import Space
from ...isa.units import BLOCK_BYTES
from ...tile import COPY, REDUCE, is_op
from ...tile.uses import SKEW, conflict, is_load, is_parallel, is_scalar_var, used_outside, uses_of
from .divided_body import SlicedBody
from .gathered import between, gathered

SLICE_ELEMENTS = 8192
"""Of the largest tile of a slice: enough for the latency of a chain of instructions to be small beside their work."""
SHORT_SLICE_ELEMENTS = 4096
"""The same of tiles no larger than such a slice, in stages that reduce no rows: room they leave keeps slices of other stages from sharing addresses."""
LOADED_SLICE_ELEMENTS = 2048
"""The same of larger ones of these in stages that store nothing, where there is next to nothing to do while a slice is on its way: two versions of a
quarter take the room of half a tile."""
SLICE_BYTES = 8
"""For each of these elements, about: a tile in float32, and as much again for what is loaded, stored or folded beside it. Where tiles that keep all
their rows leave less room, slices are half as large."""
TEMPORARIES = 2
"""Tiles of a slice or, without slices, of all rows, in float32, for which UB needs room besides."""


def slice_rows(func: PrimFunc, chip) -> PrimFunc:
    """Apply to a mapped Tile IR function."""
    tiles = [s.buffer for s in statements(func.body) if isinstance(s, AllocBuffer) and is_ub(s.buffer)]
    if not tiles or _needed(tiles) <= chip.capacity_bytes(Space.UB):
        return func
    slices = _Slices(func.body, tiles, chip.capacity_bytes(Space.UB))
    body = slices.whole(func.body)
    return func if not slices.smaller else func.with_body(redeclared(body, slices.smaller))


def _mixed(s: Stmt) -> bool:
    """True for what needs both kinds of core."""
    return works_on_cube(s) and any(map(is_ub, uses_of(s).all))


def _needed(tiles: list) -> int:
    """Bytes of one version of each tile, and of temporaries."""
    return sum(map(fixed_bytes, tiles)) + TEMPORARIES * 4 * max(map(_elements, tiles))


def _elements(b) -> int:
    return fixed_bytes(b) // itemsize(dtype_of(b))


class _Slices(StmtMutator):
    """smaller: tile -> what stands for it. tiles: all of the body, in order; room: bytes of UB."""

    def __init__(self, body: Stmt, tiles: list, room: int):
        self.body, self.tiles, self.room, self.smaller = body, tiles, room, {}

    def whole(self, body: Stmt) -> Stmt:
        """`body`, which is all there is, in slices."""
        new = self(body)
        return self._around(new, set(statements(body))) if any(map(works_on_cube, stmts_of(new))) else new

    def visit_For(self, s: For):
        inside, s = set(statements(s.body)), self.generic(s)
        body = list(stmts_of(s.body))
        if is_parallel(s) or s.kind != ForKind.SERIAL or not any(map(works_on_cube, body)):
            return s
        if any(map(_mixed, body)):
            new = self._around(s.body, inside)
        else:
            stages = _stages(body)
            groups = [[x for x, m in zip(body, stages) if m == n] for n in sorted({n for n in stages if n is not None})]
            new = self._divided(body, groups, used_outside(self.body, inside))
        return For(s.loop_var, s.min, s.extent, s.kind, new, annotations=dict(s.annotations), span=s.span)

    def _around(self, body: Stmt, inside: set) -> Stmt:
        """`body` with what stands in front of and behind its work on the cube core in slices, where UB has no room for all it works on."""
        all_of_it = list(stmts_of(body))
        runs = [list(run) for plain, run in groupby(all_of_it, lambda s: not works_on_cube(s) and any(map(is_ub, uses_of(s).all))) if plain]
        large = [run for run in runs if sum(fixed_bytes(b) for b in uses_of(seq(run)).all if is_ub(b)) > self.room]
        return self._divided(all_of_it, large, used_outside(self.body, inside)) if large else body

    def _divided(self, body: list[Stmt], groups: list[list[Stmt]], outside: set) -> Stmt:
        """`body` with each of `groups` of its statements in slices."""
        whole = seq(body)
        held = sum(fixed_bytes(b) for b in uses_of(whole).all if is_ub(b) and (b in outside or not overwritten_first(whole, b)))
        for group in groups:
            most = _slice_elements(group)
            less = most // 2 if self.room - held < SLICE_BYTES * most else most
            # Rows in slices half as large may be too few to begin where transfers can.
            body = next((new for n in (less, most) if (new := self._stage_divided(body, group, outside, n)) is not body), body)
        return seq(body)

    def _stage_divided(self, body: list[Stmt], group: list[Stmt], outside: set, most: int) -> list[Stmt]:
        """`body` with what can be of a group in slices of `most` elements."""
        while (new := self.sliced(body, [x for x in group if x in body], outside, most)) is not None:
            body = new
        return body

    def sliced(self, body: list[Stmt], stage: list[Stmt], outside: set, most: int) -> list[Stmt] | None:
        """`body` with what works on a tile with more than `most` elements among the statements of one stage in slices, and on tiles that go with it;
        None if there is none, or it cannot be."""
        large = sorted({b for s in stage for b in uses_of(s).all if is_ub(b) and _elements(b) > most}, key=self.tiles.index)
        ways = (self.along(widest, body, stage, set(large), outside, most) for widest in sorted(large, key=_elements, reverse=True))
        return next((way for way in ways if way is not None), None)

    def along(self, widest, body: list[Stmt], stage: list[Stmt], large: set, outside: set, most: int) -> list[Stmt] | None:
        """The same of the rows of one tile."""
        uses = [uses_of(s) for s in body]
        while True:
            members = between(body, {i for i, s in enumerate(body) if s in stage and uses[i].all & large})
            around = gathered(body, members) if members else None
            group = [body[i] for i in sorted(members)]
            if around is None or not all(s in stage for s in group):
                return None
            found = _division(group, widest, most)
            if found is None:
                return None
            if large <= found[0].dims.keys():
                break
            large = large & found[0].dims.keys()
        plan, parts = found
        elsewhere = outside.union(*(uses_of(x).all for i, x in enumerate(body) if i not in members))
        if not _once_each(group, plan, elsewhere):
            return None
        own = {b for b in plan.dims if b not in elsewhere and overwritten_first(seq(group), b)}
        part = Var("part", "int32")
        slices = SlicedBody(plan, part, parts, own)
        new = seq([renew(slices(x)) for x in group])
        self.smaller |= {b: slices.buffers[b] for b in own}
        late = _behind(group, own)
        notes = {SKEW: " ".join(map(str, late))} if late else {}
        front, behind = around
        return [*front, For(part, imm(0), imm(parts), ForKind.SERIAL, new, annotations=notes, span=group[0].span), *behind]


def _slice_elements(stage: list[Stmt]) -> int:
    """Elements of the largest tile of a slice."""
    inside = [x for s in stage for x in statements(s)]
    widest = max(_elements(b) for s in stage for b in uses_of(s).all if is_ub(b))
    if widest > SLICE_ELEMENTS or any(is_op(x, REDUCE) for x in inside):
        return SLICE_ELEMENTS
    stores = any(is_op(x, COPY) and scope_of(x.value.args[1].source) in ("global", "") for x in inside)
    return SHORT_SLICE_ELEMENTS if stores or widest <= SHORT_SLICE_ELEMENTS else LOADED_SLICE_ELEMENTS


def _division(group: list[Stmt], widest, most: int) -> tuple[SplitPlan, int] | None:
    """How rows of a tile, and all that goes with them, are divided, and in how many slices of `most` elements; None if that is not legal."""
    if len(widest.ty.shape) != 2:
        return None
    rows = const_int(widest.ty.shape[0])
    parts = next((n for n in range(-(-_elements(widest) // most), rows) if rows % n == 0), None)
    plan = None if parts is None else plan_along(seq(group), widest, 0, parts)
    if plan is None or plan.refusal or any(_row_bytes(b, d) * rows // parts % BLOCK_BYTES for b, d in plan.dims.items()):
        return None
    return plan, parts


def _once_each(group: list[Stmt], plan: SplitPlan, elsewhere: set) -> bool:
    """True if slices do together what the statements do once: each writes to its rows, scalars are those of one nest, and what one stores to a
    tensor no other statement touches. `elsewhere`: what other statements use."""
    leaves = [leaf for s in group for leaf in _leaves(s)]
    uses = [uses_of(leaf) for leaf in leaves]
    written = [(leaf, b) for leaf, u in zip(leaves, uses) for b in u.writes]
    if any(b not in plan.dims for _, b in written if is_ub(b)) or any(
        b in elsewhere or not is_parallel(leaf) for leaf, b in written if is_scalar_var(b)
    ):
        return False
    return all(sum(b in u.all for u in uses) == 1 for _, b in written if not is_ub(b))


def _leaves(s: Stmt):
    """Nests and tile ops, and what scalars do, in order."""
    inner = [] if is_parallel(s) else children(s)
    if not inner:
        yield s
    for x in inner:
        yield from _leaves(x)


def _behind(group: list[Stmt], own: set) -> list[int] | None:
    """0 for statements of a slice that need nothing but what is loaded, and rows all slices share, 1 for those behind them: with the next slice's
    first ones beside them, they share their barriers. None if there are not both."""
    loaded = {s.value.args[1].source for s in group if is_load(s)}
    uses, late, made = [uses_of(s) for s in group], [], set()
    for j, u in enumerate(uses):
        changed = u.writes & own - loaded or (u.writes & loaded and u.reads & made)
        late.append(int(bool(changed) or any(late[i] and conflict(uses[i], u) for i in range(j))))
        made |= u.writes - loaded
    reduces = any(is_op(s, REDUCE) for s, n in zip(group, late) if not n)
    return late if reduces and any(late) else None


def _row_bytes(b, d: int) -> int:
    """Bytes from one row of a tile to the next."""
    n = itemsize(dtype_of(b))
    for x in b.ty.shape[d + 1 :]:
        n *= const_int(x)
    return n


def _stages(body: list) -> list[int | None]:
    """How often a value has changed sides when a vector statement uses it; None for other statements. What is done to a tile that goes from iteration
    to iteration, as to a sum to which something is added later, belongs to what comes later, where slices would hold it with what is on its way
    before, nothing else waits for it, and it takes no more than a factor for each row."""
    uses = [uses_of(s) for s in body]
    vector = [any(map(is_ub, u.all)) for u in uses]
    stages = [0] * len(body)
    pairs = [(i, j) for i, j in combinations(range(len(body)), 2) if conflict(uses[i], uses[j])]
    for i, j in pairs:
        stages[j] = max(stages[j], stages[i] + (vector[i] != vector[j]))
    carried = {b for u in uses for b in u.writes & u.reads if is_ub(b) and not overwritten_first(seq(body), b)}
    for i in reversed(range(len(body))):
        behind, sums = [j for first, j in pairs if first == i], uses[i].writes
        if not behind or not vector[i] or not sums <= carried or not all(vector[j] and sums & uses[j].all for j in behind):
            continue
        least = min(map(_elements, sums))
        if least > SLICE_ELEMENTS and all(_elements(b) < least for b in uses[i].reads - carried):
            stages[i] = max(stages[i], min(stages[j] for j in behind))
    return [n if v and not isinstance(s, AllocBuffer) else None for n, v, s in zip(stages, vector, body)]


__all__ = ["slice_rows"]
