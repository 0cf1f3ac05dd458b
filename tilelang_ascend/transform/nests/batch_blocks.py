"""batch_blocks: neighbouring blocks that work on one row each take turns statement by statement, on a tile with a row for each of them.

Before:  grid(8192): copy(K[bx, 0:128], row); copy(row, Cache[Slot[bx], 0:128])                                  # row: 128
After:   grid(191):  copy(K[bx * 43 : +43, 0:128], row); for r in range(43): copy(row[r], Cache[Slot[bx * 43 + r], 0:128])   # row: 43 x 128

A block that says where each of its rows goes is as short as a row: latency of transfers and flags takes most of the time. Blocks have no
order among each other, so several may do each statement together before any does the next. Tiles get a leading dimension, one place for each
block; what brings neighbouring rows becomes one transfer, element-wise and row-wise work one statement, and transfers to addresses that are
known at run time only a loop, whose iterations have no order either.

Tiles that are the same for all blocks stay as they are. By a model of what bounds a core. The last blocks of a grid that does not come out
even are fewer where all statements are transfers.

Requires: placed Tile IR after stage_globals. Ensures: same values; loops annotated `tl.unordered`.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, replace
from typing import Any

from ...analysis.index.affine import affine
from ...analysis.tiles.split_axis import SplitPlan
from ...analysis.tiles.split_globals import is_global
from ...ir import (
    AllocBuffer,
    Bind,
    Break,
    BufferLoad,
    BufferStore,
    Continue,
    Evaluate,
    For,
    IfThenElse,
    PrimFunc,
    SeqStmt,
    Stmt,
    StmtMutator,
    TensorLoad,
    TensorRegion,
    Var,
    While,
    attrs_of,
    children,
    const_int,
    decl_buffer,
    dtype_of,
    exprs,
    free_vars,
    imm,
    loop,
    map_children,
    parallel_nest,
    region,
    renew,
    scope_of,
    seq,
    statements,
    substitute,
    substitute_expr,
    tirx,
)
from ...ir.grids import Grid
from ...tile import COPY, CUMMAX, CUMSUM, FILL, REDUCE, is_op, tile_op, tile_op_of, with_args
from ...tile.nests import inline_index_binds, nest_of
from ...tile.uses import COUNT, IN_ORDER, is_output, is_parallel, is_scalar_var, loads_in, moved_regions, on_chip, uses_of
from .core_time import Cost, Model, best_times, is_short


def batch_blocks(func: PrimFunc, chip, notes: list, allowed: bool = True) -> PrimFunc:
    """`func` with several blocks of the grid as one, if that is clearly faster and `allowed`; what was done is told in `notes`."""
    grid = Grid.of(func.body)
    if not allowed or None in grid.extents or math.prod(grid.extents) <= chip.num_aiv or not is_short(grid.body, grid.extents, chip):
        return func
    if any(is_output(s) or isinstance(s, (While, Break, Continue)) for s in statements(grid.body)):
        return func
    body = inline_index_binds(grid.body)
    for k, axis in enumerate(grid.axes):
        batch = _Batch.of(body, axis.loop_var, grid.extents[k])
        times = 1 if batch is None else _times(batch, grid, k, chip)
        if times > 1:
            notes.append(
                f"{times} neighbouring blocks take turns statement by statement: of rows this short, latency takes most of the time"
            )
            return func.with_body(grid.fewer(k, math.ceil(grid.extents[k] / times), batch.rewritten(times)).rebuilt(func.body))
    return func


def _times(batch: _Batch, grid: Grid, axis: int, chip) -> int:
    def cycles(times):
        one = Model(chip, min(grid.count(axis, times), chip.num_aiv))
        return one.often(one.cost(batch.body) if times == 1 else batch.cost(one, times), rounds(times))

    def rounds(times):
        return math.ceil(grid.count(axis, times) / chip.num_aiv)

    return best_times(cycles, rounds, grid.extents[axis], not batch.transfers, batch.tiles, chip)


class _Work(enum.Enum):
    """How several blocks do a statement."""

    ONCE = "once"
    TOGETHER = "as one statement"
    APART = "one after the other"


@dataclass(frozen=True)
class _Batch:
    """The `body` of a grid for several of the `extent` values of `var`. tiles: that differ between blocks. names: variables that do. work: of the
    statements that are not control flow around others, and how often each runs."""

    body: Stmt
    var: Var
    extent: int
    tiles: frozenset
    names: dict
    work: dict

    @staticmethod
    def of(body: Stmt, var: Var, extent: int) -> _Batch | None:
        """None if blocks have to be worked on one by one, or every tile is the same for all of them."""
        names: dict = {}
        for s in statements(body):
            if isinstance(s, Bind) and {var, *names} & free_vars(s.value):
                names[s.var] = s
        batch = _Batch(body, var, extent, frozenset(_different(body, {var, *names})), names, {})
        return batch if batch.tiles and batch.sort(body, 1) else None

    @property
    def transfers(self) -> bool:
        """True if there is nothing else."""
        return all(_is_transfer(s) for s in self.work)

    def sort(self, s: Stmt, runs: int) -> bool:
        """Find out how `s` is done; False if it cannot be."""
        if isinstance(s, SeqStmt):
            return all(self.sort(x, runs) for x in s.seq)
        if isinstance(s, AllocBuffer):
            return on_chip(s.buffer)
        if isinstance(s, For) and not is_parallel(s):
            known = const_int(s.extent)
            return known is not None and const_int(s.min) == 0 and self.sort(s.body, runs * known)
        if isinstance(s, Bind):
            written = uses_of(self.body).writes
            return not any(x.source in written or not is_global(x.source) for x in loads_in(s.value))
        kind = self.kind(s)
        if kind is not None:
            self.work[s] = kind, runs
        return kind is not None

    def kind(self, s: Stmt) -> _Work | None:
        """How a statement is done, None if it cannot be."""
        uses = uses_of(s)
        if any(map(is_scalar_var, uses.all)) or any(isinstance(x, (AllocBuffer, Bind)) for x in statements(s)):
            return None
        if not self.differs(s):
            return None if any(map(is_global, uses.writes)) else _Work.ONCE
        if self.is_nest(s) if is_parallel(s) else self.is_op(s):
            return _Work.TOGETHER
        return _Work.APART if all(map(_is_transfer, _leaves(s))) else None

    def is_nest(self, nest: For) -> bool:
        """True if element-wise work may have one more loop."""
        inside = statements(nest)
        if any(self.names.keys() & free_vars(e) for x in inside for e in exprs(x)) or any(map(is_global, uses_of(nest).all)):
            return False
        return not any(key in x.annotations for x in inside if isinstance(x, For) for key in (COUNT, IN_ORDER))

    def is_op(self, s: Stmt) -> bool:
        """True if a tile op may have one more dimension."""
        if is_op(s, COPY) and self.row_dimension(s) is not None:
            return True
        if not is_op(s, COPY, FILL, REDUCE, CUMSUM, CUMMAX):
            return False
        regions = [a for a in s.value.args if isinstance(a, TensorRegion)]
        numbers = [a for a in s.value.args if not isinstance(a, TensorRegion)] + [
            e for r in regions for x in r.region for e in (x.min, x.extent)
        ]
        return all(r.source in self.tiles for r in regions) and not any(map(self.depends, numbers))

    def differs(self, s: Stmt) -> bool:
        """True if a statement is another one for each block."""
        return bool(uses_of(s).all & self.tiles) or any(self.depends(e) for x in statements(s) for e in exprs(x))

    def depends(self, e) -> bool:
        """True if an expression is another one for each block."""
        return bool({self.var, *self.names} & free_vars(e)) or any(x.source in self.tiles for x in loads_in(e))

    def row_dimension(self, s: Evaluate) -> int | None:
        """The dimension of the tensor in which each block has an index of its own, one behind the other, if a copy moves these rows alone and is
        the same in everything else."""
        ours, theirs = sorted(s.value.args, key=lambda r: r.source not in self.tiles)
        if ours.source not in self.tiles or not is_global(theirs.source):
            return None
        forms = [affine(r.min, [self.var]) for r in theirs.region]
        along = [
            d for d, f in enumerate(forms) if f is not None and f.coeffs.get(self.var, 0) == 1 and const_int(theirs.region[d].extent) == 1
        ]
        others = [e for r in (*ours.region, *(r for d, r in enumerate(theirs.region) if d not in along)) for e in (r.min, r.extent)]
        if len(along) != 1 or any(map(self.depends, others)):
            return None
        first = theirs.region[along[0]].min
        if loads_in(first) or self.names.keys() & free_vars(first):
            return None
        longer = [d for d, r in enumerate(theirs.region) if const_int(r.extent) != 1]
        return along[0] if len(longer) == sum(const_int(r.extent) != 1 for r in ours.region) and all(d > along[0] for d in longer) else None

    def cost(self, one: Model, times: int) -> Cost:
        """Of the work of `times` blocks."""
        loops = {s.loop_var: const_int(s.extent) for s, (kind, _) in self.work.items() if kind is _Work.TOGETHER and is_parallel(s)}
        several = replace(one, plan=SplitPlan(dict.fromkeys(self.tiles, 0), loops), times=times)
        price = {_Work.ONCE: one.cost, _Work.TOGETHER: several.cost, _Work.APART: lambda s: one.row(s) * times}
        return sum((price[kind](s) * runs for s, (kind, runs) in self.work.items()), Cost())

    def rewritten(self, times: int) -> Stmt:
        """The body of a grid with `times` blocks as one."""
        return _Together(self, times)(self.body)


class _Together(StmtMutator):
    """The statements of `times` blocks."""

    def __init__(self, batch: _Batch, times: int):
        self.batch, self.times, self.first = batch, times, batch.var * times
        self.count = imm(times) if batch.extent % times == 0 else tirx.min(imm(times), batch.extent - self.first)
        self.tiles = {b: decl_buffer([times, *b.ty.shape], dtype_of(b), b.name, scope=scope_of(b)) for b in batch.tiles}
        self.written = uses_of(batch.body).writes
        self.which: Any = None
        """The block whose elements are meant; None: all of them."""

    def visit(self, s: Stmt):
        kind, _ = self.batch.work.get(s, (None, 0))
        if kind is None:
            return super().visit(s)
        if kind is _Work.ONCE:
            return s
        if kind is _Work.APART:
            self.which = Var("r", dtype_of(self.batch.var))
            mine = substitute(seq(self.named(s), s), {self.batch.var: self.first + self.which})
            out = loop(self.which, self.count, renew(seq(super().visit(mine))), span=s.span, tl__unordered=1)
        elif is_parallel(s):
            self.which = Var("r", dtype_of(self.batch.var))
            loops, inner = nest_of(s)
            body = super().visit(substitute(inner, {self.batch.var: self.first + self.which}))
            out = parallel_nest([(self.which, imm(self.times)), *loops], seq(body), s.span)
        else:
            out = self.op(s)
        self.which = None
        return out

    def named(self, s: Stmt) -> list[Bind]:
        """What the names in a statement stand for."""
        found: list[Bind] = []
        for name, bind in reversed(self.batch.names.items()):
            if any(name in free_vars(e) for x in (*found, *statements(s)) for e in exprs(x)):
                found.insert(0, bind)
        return found

    def visit_Bind(self, s: Bind):
        return None if s.var in self.batch.names and self.which is None else s

    def op(self, s: Evaluate) -> Stmt:
        args = [self.expr(a) for a in s.value.args]
        if is_op(s, COPY) and (d := self.batch.row_dimension(s)) is not None:
            k = next(i for i, r in enumerate(s.value.args) if is_global(r.source))
            rows, var = s.value.args[k].region, self.batch.var
            mins, extents = [substitute_expr(r.min, {var: self.first}) for r in rows], [r.extent for r in rows]
            # Rows behind the last block may be loaded if nobody writes them: a tile that is filled as a whole can have versions.
            extents[d] = imm(self.times) if k == 0 and s.value.args[k].source not in self.written else self.count
            ours = s.value.args[1 - k]
            args[1 - k] = region(
                self.tiles[ours.source], [0, *(r.min for r in ours.region)], [extents[d], *(r.extent for r in ours.region)]
            )
            args[k] = region(s.value.args[k].source, mins, extents)
        attrs = attrs_of(s)
        return tile_op(tile_op_of(s).name, *args, span=s.span, **{k: v + 1 if k == "dim" else v for k, v in attrs.items()})

    def visit_AllocBuffer(self, s: AllocBuffer):
        new = self.tiles.get(s.buffer)
        return s if new is None else AllocBuffer(new, annotations=dict(s.annotations), span=s.span)

    def visit_Evaluate(self, s: Evaluate):
        return with_args(s, [self.expr(a) for a in s.value.args])

    def visit_BufferStore(self, s: BufferStore):
        new = self.tiles.get(s.buffer)
        indices = [self.expr(i) for i in s.indices]
        if new is not None:
            indices = [self.which, *indices]
        return BufferStore(s.buffer if new is None else new, self.expr(s.value), indices, span=s.span)

    def expr(self, e):
        if isinstance(e, TensorLoad) and e.source in self.tiles:
            return BufferLoad(self.tiles[e.source], [self.which, *map(self.expr, e.indices)])
        if isinstance(e, TensorRegion):
            mins, extents = [self.expr(r.min) for r in e.region], [self.expr(r.extent) for r in e.region]
            if e.source in self.tiles:
                first, count = (0, self.count) if self.which is None else (self.which, 1)
                return region(self.tiles[e.source], [first, *mins], [count, *extents])
            return region(e.source, mins, extents)
        return map_children(e, self.expr)


def _different(body: Stmt, names: set) -> set:
    """Tiles that hold something else in each block, by what is written to them and whether it is: `names` are what differs otherwise."""
    known = []
    for s, conditions in _work(body):
        read = {x.source for c in conditions for x in loads_in(c)}
        named = any(names & free_vars(e) for e in (*conditions, *(e for x in statements(s) for e in exprs(x))))
        known.append((uses_of(s), read, named))
    found: set = set()
    while True:
        more = {b for uses, read, named in known if named or (uses.all | read) & found for b in uses.writes if on_chip(b)} - found
        if not more:
            return found
        found |= more


def _work(s: Stmt, conditions: tuple = ()) -> list[tuple[Stmt, tuple]]:
    """Statements that do something, nests as one, each with the conditions it stands under."""
    if isinstance(s, (Evaluate, BufferStore)) or is_parallel(s):
        return [(s, conditions)]
    inside = (*conditions, s.condition) if isinstance(s, IfThenElse) else conditions
    return [x for c in children(s) for x in _work(c, inside)]


def _leaves(s: Stmt) -> list[Stmt]:
    """Statements below `s` that do something."""
    inside = children(s)
    return [x for c in inside for x in _leaves(c)] if inside else [s]


def _is_transfer(s: Stmt) -> bool:
    """True for a copy or an atomic update between a tile and a tensor."""
    regions = moved_regions(s)
    return regions is not None and sum(on_chip(r.source) for r in regions) == 1


__all__ = ["batch_blocks"]
