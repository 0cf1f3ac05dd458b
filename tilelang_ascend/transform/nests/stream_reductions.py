"""stream_reductions: rows that are too long for their memory are worked on in parts, again from the first part on for everybody who needs the
result of a reduction of all of them.

Before:  copy(X[b, 0:65536], x); reduce(x, most, max); Parallel(j < 65536): x[j] = exp(x[j] - most[0]); copy(x, Y[b, 0:65536])
After:   fill(most, -inf)
         for part in range(4): copy(X[b, part * 16384 : +16384], x); reduce(x, most, max, clear=0)
         for part in range(4):
             copy(X[b, part * 16384 : +16384], x); Parallel(j < 16384): x[j] = exp(x[j] - most[0]); copy(x, Y[b, part * 16384 : +16384])

Before:  copy(X[b, 0:65536], x); cumsum(x, y, dim=1); copy(y, Y[b, 0:65536])
After:   fill(so_far, 0)
         for part in range(4):                                             # from the last part on where a scan is reversed
             copy(X[b, part * 16384 : +16384], x); cumsum(x, y, dim=1); Parallel(j < 16384): y[j] = y[j] + so_far[0]
             so_far[0] = y[16383]; copy(y, Y[b, part * 16384 : +16384])

What a sweep over the parts finds in a tile is loaded again where it came from a tensor nobody writes; otherwise a workspace in GM holds the tile
between sweeps. Which statements make a sweep is found in analysis/tiles/sweeps.py, the axis is proven as for `split_tiles`.

Requires: mapped Tile IR before split_rows. Ensures: the same, with smaller tiles.
"""

from __future__ import annotations

from ...analysis.tiles.split_axis import SplitPlan, find_split
from ...analysis.tiles.sweeps import Around, Sweep, continues, find_sweeps
from ...analysis.tiles.sweeps import scans as scanning
from ...ir import (
    AllocBuffer,
    Evaluate,
    For,
    IfThenElse,
    PrimFunc,
    Stmt,
    Var,
    While,
    const_int,
    decl_buffer,
    dtype_of,
    full_region,
    imm,
    loop,
    renew,
    seq,
    tirx,
)
from ...isa.units import round_up
from ...tile import tile_op
from ...tile.continued import reduction_in_parts, scan_of_part, scan_so_far
from ...tile.division import Slice
from .divided_body import DividedBody

REPEAT = 64
"""Elements of rows of unequal parts are a multiple of what one repeat of an instruction takes, but for the last part's, ..."""
LONG = 4 * REPEAT
"""... where rows are at least this long."""


def stream_reductions(func: PrimFunc, parts: int, scope: str) -> PrimFunc:
    """`func` with sweeps over `parts` equal parts of most of the tiles in the memory `scope`; itself if that is not legal."""
    plan = find_split(func.body, parts, scope, streamed=True)
    if plan.refusal:
        return func
    streamed = _Streamed(plan, parts)
    body = streamed.rebuilt(find_sweeps(func.body, plan))
    return func.with_body(seq(streamed.declarations(), body))


class _Slices(DividedBody):
    """Statements on `size` elements of what is divided, from `first` on, which is set before every use."""

    def __init__(self, plan: SplitPlan, size: int):
        self.size, self.first = size, imm(0)
        super().__init__(plan, None, 1)

    def part(self, extent: int) -> Slice:
        return Slice(self.size, self.first)


class _Streamed:
    def __init__(self, plan: SplitPlan, parts: int):
        (extent,) = {const_int(b.ty.shape[d]) for b, d in plan.dims.items()}
        size = -(-extent // parts)
        if extent % parts and size >= LONG:
            size = min(round_up(size, REPEAT), extent)
        self.times = extent // size
        self.slices = _Slices(plan, size)
        self.rest = _Slices(plan, extent % size) if extent % size else None
        self.workspaces: dict = {}
        """Tile -> where it is between sweeps."""
        self.totals: list = []
        """Tiles of results that wait for the next part in another dtype than their own, and of what scans have come to."""

    def declarations(self) -> list[Stmt]:
        tiles = [AllocBuffer(b) for b in self.totals]
        return tiles + [AllocBuffer(b, annotations={"workspace": 1}) for b in self.workspaces.values()]

    def rebuilt(self, items: list) -> list[Stmt]:
        out: list[Stmt] = []
        for x in items:
            if isinstance(x, Sweep):
                out += self.sweep(x) if x.stmts else []
            elif isinstance(x, Around):
                out.append(_with_bodies(x.stmt, [seq(self.rebuilt(b)) for b in x.bodies]))
            else:
                out += self.declared(x) if isinstance(x, AllocBuffer) else [x]
        return out

    def declared(self, s: AllocBuffer) -> list[Stmt]:
        """The tiles of all parts that stand for a tile, which is itself if it is not divided."""
        if s.buffer not in self.slices.buffers:
            return [s]
        return [parts.visit(s) for parts in (self.slices, self.rest) if parts is not None]

    def sweep(self, sweep: Sweep) -> list[Stmt]:
        before: list[Stmt] = []
        behind: list[Stmt] = []
        body = [*sweep.reloaded, *(self.load(b) for b in sweep.kept)]
        body += [self.reduction(s, dtype, before, behind) if (dtype := continues(s, sweep.plan)) else s for s in sweep.stmts]
        body += [self.store(b) for b in sweep.stored]
        scans = {s: self.so_far(s, dtype, before) for s in body if (dtype := scanning(s, sweep.plan))}

        def on(parts: _Slices) -> Stmt:
            # A statement may stand in several sweeps, with loops of its own in each.
            return renew(seq([scan_of_part(parts(s), scans[s], self.declare) if s in scans else parts(s) for s in body]))

        part, span = Var("part", "int32"), sweep.stmts[0].span
        self.slices.first = (imm(self.times - 1) - part if sweep.backwards else part) * self.slices.size
        parts = [loop(part, self.times, on(self.slices), span=span)]
        if self.rest is not None:
            self.rest.first = imm(self.times * self.slices.size)
            parts.insert(0 if sweep.backwards else 1, on(self.rest))
        return [*before, *parts, *behind]

    def declare(self, shape: list, dtype: str, name: str):
        """A tile in UB, declared in front of everything."""
        self.totals.append(decl_buffer(shape, dtype, name, scope="shared.ub"))
        return self.totals[-1]

    def reduction(self, s: Evaluate, dtype: str, before: list, behind: list) -> Stmt:
        """`s` in one of the parts, of which each continues what those before it found."""
        first, part, last = reduction_in_parts(s, dtype, self.declare)
        before += first
        behind += last
        return part

    def so_far(self, s: Evaluate, dtype: str, before: list):
        """A tile of `dtype` for what a scan has come to, which is nothing before the first part."""
        tile, nothing = scan_so_far(s, dtype, self.declare)
        before.append(nothing)
        return tile

    def workspace(self, tile):
        if tile not in self.workspaces:
            self.workspaces[tile] = decl_buffer(list(tile.ty.shape), dtype_of(tile), f"{tile.name}_ws")
        return full_region(self.workspaces[tile])

    def load(self, tile) -> Stmt:
        return tile_op("copy", self.workspace(tile), full_region(tile))

    def store(self, tile) -> Stmt:
        return tile_op("copy", full_region(tile), self.workspace(tile))


def _with_bodies(s: Stmt, bodies: list[Stmt]) -> Stmt:
    if isinstance(s, For):
        return For(s.loop_var, s.min, s.extent, s.kind, bodies[0], annotations=dict(s.annotations), span=s.span)
    if isinstance(s, While):
        return While(s.condition, bodies[0], span=s.span)
    assert isinstance(s, IfThenElse)
    return tirx.IfThenElse(s.condition, bodies[0], bodies[1] if s.else_case is not None else None, span=s.span)


__all__ = ["stream_reductions"]
