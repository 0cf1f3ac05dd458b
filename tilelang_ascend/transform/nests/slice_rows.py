"""slice_rows: vector work of a loop on more rows than UB has room for is done in slices of rows.

Before:  copy(ws_s, x); reduce(x, m, max); Parallel(i < 64, j < 512): x[i, j] = exp(x[i, j] - m[i]); copy(x, ws_p)  # x: 64 x 512
After:   for part in range(4):
             copy(ws_s[part * 16 : +16, :], x); reduce(x, m[part * 16 : +16], max)
             Parallel(i < 16, j < 512): x[i, j] = exp(x[i, j] - m[i + part * 16]); copy(x, ws_p[part * 16 : +16, :])

Unlike `split_tiles`, which divides a whole block with all its products, this divides what stands between two ways of values from one kind of core to
the other: products keep all their rows. Tiles that nothing else uses shrink, rows of the others are where they were.

Requires: mapped Tile IR after split_rows, before skew_stages. Ensures: the same values.
"""

from __future__ import annotations

from itertools import combinations

from ...analysis.tiles.core_kinds import CUBE_SCOPES
from ...analysis.tiles.home_loops import overwritten_first
from ...analysis.tiles.split_axis import SplitPlan, is_ub, plan_along
from ...ir import (
    AllocBuffer,
    For,
    ForKind,
    PrimFunc,
    Stmt,
    StmtMutator,
    TensorRegion,
    Var,
    const_int,
    dtype_of,
    itemsize,
    loop,
    region,
    renew,
    scope_of,
    seq,
    statements,
    stmts_of,
)
from ...ir.functions import fixed_bytes
from ...isa.base import Space
from ...isa.units import BLOCK_BYTES
from ...tile import GEMM, is_op
from ...tile.uses import is_parallel, own_uses, uses_of
from .divided_body import DividedBody

SLICE_ELEMENTS = 8192
"""Of the largest tile of a slice: enough for the latency of a chain of instructions to be small beside their work."""
TEMPORARIES = 2
"""Tiles of a slice or, without slices, of all rows, in float32, for which UB needs room besides."""


def slice_rows(func: PrimFunc, chip) -> PrimFunc:
    """Apply to a mapped Tile IR function."""
    tiles = [s.buffer for s in statements(func.body) if isinstance(s, AllocBuffer) and is_ub(s.buffer)]
    if not tiles or sum(map(fixed_bytes, tiles)) + TEMPORARIES * 4 * max(map(_elements, tiles)) <= chip.capacity_bytes(Space.UB):
        return func
    slices = _Slices(func.body)
    body = slices(func.body)
    return func if not slices.smaller else func.with_body(_Declare(slices.smaller)(body))


def _mixed(s: Stmt) -> bool:
    """True for what needs both kinds of core."""
    scopes = {scope_of(b) for b in uses_of(s).all}
    return "shared.ub" in scopes and bool(scopes & set(CUBE_SCOPES))


def _elements(b) -> int:
    return fixed_bytes(b) // itemsize(dtype_of(b))


class _Slices(StmtMutator):
    """smaller: tile -> what stands for it."""

    def __init__(self, body: Stmt):
        self.body, self.smaller = body, {}

    def visit_For(self, s: For):
        s = self.generic(s)
        if is_parallel(s) or s.kind != ForKind.SERIAL or not any(is_op(x, GEMM) for x in statements(s.body)):
            return s
        body = stmts_of(s.body)
        if any(_mixed(x) for x in body):
            return s
        inside = set(statements(s.body))
        outside = set().union(*(own_uses(x).all for x in statements(self.body) if x not in inside and not isinstance(x, AllocBuffer)))
        stages = _stages(body)
        at: dict[int, Stmt | None] = {}
        for n in sorted({n for n in stages if n is not None}):
            positions = [i for i, m in enumerate(stages) if m == n]
            for group in self.slices(body, positions, outside):
                at |= group
        if not at:
            return s
        out = [at.get(i, x) for i, x in enumerate(body)]
        return For(s.loop_var, s.min, s.extent, s.kind, seq([x for x in out if x is not None]), annotations=dict(s.annotations), span=s.span)

    def slices(self, body: list, positions: list[int], outside: set):
        """{position: what stands there now} of the statements of one stage that are worth dividing and may be."""
        group = [body[i] for i in positions]
        tiles = sorted({b for s in group for b in uses_of(s).all if is_ub(b)}, key=_elements, reverse=True)
        if not tiles or _elements(tiles[0]) <= SLICE_ELEMENTS or len(tiles[0].ty.shape) != 2:
            return
        widest = tiles[0]
        rows = const_int(widest.ty.shape[0])
        for parts in range(-(-_elements(widest) // SLICE_ELEMENTS), rows + 1):
            if rows % parts:
                continue
            plan = plan_along(seq(group), widest, 0, parts)
            if plan.refusal or any(_row_bytes(b, d) * rows // parts % BLOCK_BYTES for b, d in plan.dims.items()):
                return
            used = {i for i in positions if uses_of(body[i]).all & plan.dims.keys()}
            order = sorted(used)
            if not _together(body, order):
                return
            elsewhere = outside.union(*(uses_of(x).all for i, x in enumerate(body) if i not in used))
            members = seq([body[i] for i in order])
            own = {b for b in plan.dims if b not in elsewhere and overwritten_first(members, b)}
            part = Var("part", "int32")
            sliced = _Sliced(plan, part, parts, own)
            new = loop(part, parts, renew(sliced(members)), span=body[order[0]].span)
            self.smaller |= {b: sliced.buffers[b] for b in own}
            yield {**dict.fromkeys(order), order[-1]: new}
            return


def _row_bytes(b, d: int) -> int:
    """Bytes from one row of a tile to the next."""
    n = itemsize(dtype_of(b))
    for x in b.ty.shape[d + 1 :]:
        n *= const_int(x)
    return n


def _stages(body: list) -> list[int | None]:
    """How often a value has changed sides when a vector statement uses it; None for other statements."""
    uses = [uses_of(s) for s in body]
    vector = [any(map(is_ub, u.all)) for u in uses]
    stages = [0] * len(body)
    for i, j in combinations(range(len(body)), 2):
        if uses[i].writes & uses[j].all or uses[i].reads & uses[j].writes:
            stages[j] = max(stages[j], stages[i] + (vector[i] != vector[j]))
    return [n if v and not isinstance(s, AllocBuffer) else None for n, v, s in zip(stages, vector, body)]


def _together(body: list[Stmt], positions: list[int]) -> bool:
    for i in range(positions[0], positions[-1]):
        if i in positions:
            continue
        between = uses_of(body[i])
        for j in positions:
            if j < i and (u := uses_of(body[j])) and (u.writes & between.all or u.all & between.writes):
                return False
    return True


class _Sliced(DividedBody):
    """A slice of rows; tiles that are not `own` stay, and are accessed at its rows."""

    def __init__(self, plan: SplitPlan, which, parts: int, own: set):
        super().__init__(plan, which, parts)
        self.own = own
        self.buffers = {b: new if b in own else b for b, new in self.buffers.items()}

    def first(self, b):
        return self.part(const_int(b.ty.shape[self.plan.dims[b]])).first

    def indices(self, buffer, indices):
        found = super().indices(buffer, indices)
        split = self.plan.dims.get(buffer)
        if split is None or buffer in self.own:
            return found
        return [i + self.first(buffer) if d == split else i for d, i in enumerate(found)]

    def region(self, r: TensorRegion) -> TensorRegion:
        new = super().region(r)
        if r.source in self.own:
            return new
        d = self.plan.dims[r.source]
        mins = [x.min + self.first(r.source) if e == d else x.min for e, x in enumerate(new.region)]
        return region(r.source, mins, [x.extent for x in new.region])


class _Declare(StmtMutator):
    def __init__(self, smaller: dict):
        self.smaller = smaller

    def visit_AllocBuffer(self, s: AllocBuffer):
        new = self.smaller.get(s.buffer)
        return s if new is None else AllocBuffer(new, annotations=dict(s.annotations), span=s.span)


__all__ = ["slice_rows"]
