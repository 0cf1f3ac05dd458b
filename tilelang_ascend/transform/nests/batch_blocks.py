"""batch_blocks: neighbouring blocks that work on one row each take turns statement by statement, on a tile with a row for each of them.

Before:  grid(8192): copy(K[bx, 0:128], row); copy(row, Cache[Slot[bx], 0:128])                                  # row: 128
After:   grid(191):  copy(K[bx * 43 : +43, 0:128], row); for r in range(43): copy(row[r], Cache[Slot[bx * 43 + r], 0:128])   # row: 43 x 128

A block that says where each of its rows goes is as short as a row: latency of transfers and flags takes most of the time. Blocks have no
order among each other, so several may do each statement together before any does the next. Tiles get a leading dimension, one place for each
block; what brings neighbouring rows becomes one transfer, element-wise and row-wise work one statement, and transfers to addresses that are
known at run time only a loop, whose iterations have no order either.

Tiles that are the same for all blocks stay as they are. What blocks keep in variables of the scalar unit, and what they read from tensors one by one, is in
tiles of one element, so that a single store becomes one for each block. Statements that have no such form, with loops as long as data says for example,
are done by one block after the other, and so are those on tiles so large that few blocks had room beside each other: neighbours of them in one loop, with
tiles that nothing else needs as they are.

By a model of what bounds a core. The last blocks of a grid that does not come out even are fewer where all that is done together are transfers.

Requires: placed Tile IR after stage_globals. Ensures: same values; loops annotated `tl.unordered`.
"""

from __future__ import annotations

import enum
import functools
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
    stmts_of,
    substitute,
    substitute_expr,
    tirx,
)
from ...ir.functions import fixed_bytes
from ...ir.grids import Grid
from ...tile import COPY, CUMMAX, CUMSUM, FILL, REDUCE, is_op, tile_op, tile_op_of, with_args
from ...tile.nests import inline_index_binds, nest_of
from ...tile.uses import COUNT, IN_ORDER, is_output, is_parallel, is_scalar_var, loads_in, moved_regions, on_chip, uses_of, work_of
from .core_time import CLOSE, Cost, Model, best_times, gains
from .element_tiles import DTYPES, ElementTiles, declared

_WITH_DIM = (REDUCE, CUMSUM, CUMMAX)
MOST_TRIED = 6
"""Sizes of tiles from which on statements are done apart."""


def batch_blocks(func: PrimFunc, chip, notes: list, allowed: bool = True) -> PrimFunc:
    """`func` with several blocks of the grid as one, if that is clearly faster and `allowed`; what was done is told in `notes`."""
    grid = Grid.of(func.body)
    if not allowed or None in grid.extents or math.prod(grid.extents) <= chip.num_aiv:
        return func
    body = inline_index_binds(grid.body)
    if not all(map(_known, statements(body))) or not any(gains(s, Model(chip, chip.num_aiv)) for s in stmts_of(body)):
        return func
    for k, axis in enumerate(grid.axes):
        batch, times = _best(body, axis.loop_var, grid, k, chip)
        if batch is not None:
            notes.append(
                f"{times} neighbouring blocks take turns statement by statement: of rows this short, latency takes most of the time"
            )
            return func.with_body(grid.fewer(k, math.ceil(grid.extents[k] / times), batch.rewritten(times)).rebuilt(func.body))
    return func


def _known(s: Stmt) -> bool:
    """True if several blocks may do a statement, one after the other at least: what is told to the user has its order."""
    if isinstance(s, AllocBuffer):
        return is_scalar_var(s.buffer) or scope_of(s.buffer) == "shared.ub"
    if isinstance(s, For) and COUNT in s.annotations:
        return False
    return not isinstance(s, Evaluate) or (work_of(s) is not None and not is_output(s))


def _best(body: Stmt, var: Var, grid: Grid, axis: int, chip) -> tuple[_Batch | None, int]:
    """How many blocks along an axis are best as one, and which statements they do together: the tiles of these have to fit UB, so that one block after
    the other may be better where tiles are large. None if blocks should stay as they are."""
    extent = grid.extents[axis]

    def rounds(times):
        return math.ceil(grid.count(axis, times) / chip.num_aiv)

    def cycles(batch, times):
        one = Model(chip, min(grid.count(axis, times), chip.num_aiv))
        if times == 1:
            return one.cycles(body, rounds(1))
        together, apart = batch.cost(one, times), batch.cost_apart(one)
        return one.often(together + apart * times, rounds(times), together + apart)

    best: tuple[_Batch | None, int] = None, 1
    forms = _forms(body, var)
    if forms is None:
        return best
    least, seen = math.inf, []
    for most in sorted({_largest_tile(s) for s in stmts_of(body)}, reverse=True)[:MOST_TRIED]:
        batch = _Batch.of(forms, var, extent, most)
        if batch is None or batch.apart in seen:
            continue
        seen.append(batch.apart)
        times = best_times(functools.partial(cycles, batch), rounds, extent, not batch.transfers, batch.tiles, chip)
        if times > 1 and cycles(batch, times) * CLOSE < least:
            best, least = (batch, times), cycles(batch, times)
    return best


def _largest_tile(s: Stmt) -> int:
    """Bytes of the largest tile that a statement uses."""
    return max((fixed_bytes(b) for b in uses_of(s).all if on_chip(b)), default=0)


class _Work(enum.Enum):
    """How several blocks do a statement."""

    ONCE = "once"
    TOGETHER = "as one statement"
    APART = "one after the other"


@dataclass(frozen=True)
class _Part:
    """A statement of the body that blocks do together, or neighbouring ones that one block does after the other. first: the number of the first."""

    stmt: Stmt
    apart: bool
    first: int


@dataclass(frozen=True)
class _Batch:
    """The statements of a grid's body, for several of the `extent` values of `var`. apart: numbers of statements that are done so. tiles: that have
    a place for each block; changing: the same, and what only one block at a time needs. names: variables that differ between blocks. work: of
    the statements that are not apart and no control flow around others, and how often each runs."""

    parts: tuple[_Part, ...]
    apart: frozenset
    var: Var
    extent: int
    tiles: frozenset
    changing: frozenset
    names: dict
    work: dict

    @staticmethod
    def of(forms: tuple, var: Var, extent: int, most: int) -> _Batch | None:
        """Of statements in both `forms`, as `_forms` makes them. None if blocks have to be worked on one by one, or every tile is the same for all of
        them. What uses tiles of more than `most` bytes is done apart."""
        alone, together = forms
        apart = {i for i, s in enumerate(alone) if _largest_tile(s) > most and not isinstance(s, (AllocBuffer, Bind))}
        while True:
            batch = _Batch.divided(_parts(alone, together, apart), frozenset(apart), var, extent)
            if batch is None:
                return None
            failed = [p for p in batch.parts if not p.apart and not batch.sort(p.stmt, 1)]
            if not failed:
                return batch if batch.tiles and batch.work else None
            if any(isinstance(p.stmt, (AllocBuffer, Bind)) for p in failed):
                return None
            apart |= {p.first for p in failed}

    @staticmethod
    def divided(parts: tuple[_Part, ...], apart: frozenset, var: Var, extent: int) -> _Batch | None:
        """With the statements known that are `apart`; None if they cannot be."""
        names = _names([p.stmt for p in parts if not p.apart], var)
        changing = frozenset(_different(parts, {var, *names}))
        users: dict = {}
        for p in parts:
            if not isinstance(p.stmt, AllocBuffer):
                for b in uses_of(p.stmt).all & changing:
                    users.setdefault(b, []).append(p)
        tiles = _with_operands(parts, {b for b, used in users.items() if len(used) > 1 or not used[0].apart}, changing)
        if tiles is None or any(map(is_scalar_var, tiles)):
            return None
        return _Batch(parts, apart, var, extent, frozenset(tiles), changing, names, {})

    @property
    def transfers(self) -> bool:
        """True if nothing else is done together."""
        return all(_is_transfer(s) for s in self.work)

    def sort(self, s: Stmt, runs: int) -> bool:
        """Find out how `s` is done; False if it cannot be done together."""
        if isinstance(s, SeqStmt):
            return all(self.sort(x, runs) for x in s.seq)
        if isinstance(s, AllocBuffer):
            return True
        if isinstance(s, IfThenElse) and not self.depends(s.condition):
            return self.sort(s.then_case, runs) and (s.else_case is None or self.sort(s.else_case, runs))
        if isinstance(s, For) and not is_parallel(s):
            known = const_int(s.extent)
            return known is not None and const_int(s.min) == 0 and self.sort(s.body, runs * known)
        if isinstance(s, Bind):
            return not any(x.source in self.written or not is_global(x.source) for x in loads_in(s.value))
        kind = self.kind(s)
        if kind is not None:
            self.work[s] = kind, runs
        return kind is not None

    @functools.cached_property
    def written(self) -> set:
        return set().union(*(uses_of(p.stmt).writes for p in self.parts))

    def kind(self, s: Stmt) -> _Work | None:
        """How a statement is done, None if it cannot be done together."""
        uses = uses_of(s)
        inside = statements(s)
        if any(isinstance(x, AllocBuffer) or (isinstance(x, Bind) and not is_parallel(s)) for x in inside):
            return None
        if any(isinstance(x, (While, Break, Continue)) for x in inside):
            return None
        if not self.differs(s):
            return None if any(map(is_global, uses.writes)) else _Work.ONCE
        if any(is_scalar_var(b) and (b in uses.writes or b in self.changing) for b in uses.all):
            return None
        if is_parallel(s):
            alike = self.is_nest(s)
        else:
            alike = self.is_store(s) if isinstance(s, BufferStore) else isinstance(s, Evaluate) and self.is_op(s)
        if alike:
            return _Work.TOGETHER
        return _Work.APART if all(map(_is_transfer, _leaves(s))) else None

    def is_store(self, s: BufferStore) -> bool:
        """True if a single store may become one for each block."""
        numbers = [*s.indices, s.value]
        if s.buffer not in self.tiles or any(map(self.depends, s.indices)) or any(self.names.keys() & free_vars(e) for e in numbers):
            return False
        return not any(is_global(x.source) for e in numbers for x in loads_in(e))

    def is_nest(self, nest: For) -> bool:
        """True if element-wise work may have one more loop."""
        inside = statements(nest)
        if any(self.depends(extent) for _, extent in nest_of(nest)[0]):
            return False
        if any(self.names.keys() & free_vars(e) for x in inside for e in exprs(x)) or any(map(is_global, uses_of(nest).all)):
            return False
        return not any(key in x.annotations for x in inside if isinstance(x, For) for key in (COUNT, IN_ORDER))

    def is_op(self, s: Stmt) -> bool:
        """True if a tile op may have one more dimension."""
        if is_op(s, COPY) and self.row_dimension(s) is not None:
            return True
        if not is_op(s, COPY, FILL, *_WITH_DIM):
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
        """Of what `times` blocks do together."""
        loops = {s.loop_var: const_int(s.extent) for s, (kind, _) in self.work.items() if kind is _Work.TOGETHER and is_parallel(s)}
        several = replace(one, plan=SplitPlan(dict.fromkeys(self.tiles, 0), loops), times=times)
        price = {_Work.ONCE: one.cost, _Work.TOGETHER: several.together}
        return sum((price[kind](s) * runs for s, (kind, runs) in self.work.items() if kind in price), Cost())

    def cost_apart(self, one: Model) -> Cost:
        """Of what one block does alone."""
        rows = sum((one.row(s) * runs for s, (kind, runs) in self.work.items() if kind is _Work.APART), Cost())
        return sum((one.cost(p.stmt) for p in self.parts if p.apart), rows)

    def rewritten(self, times: int) -> Stmt:
        """The body of a grid with `times` blocks as one."""
        return _Together(self, times).whole()


class _Together(StmtMutator):
    """The statements of `times` blocks."""

    def __init__(self, batch: _Batch, times: int):
        self.batch, self.times, self.first = batch, times, batch.var * times
        self.count = imm(times) if batch.extent % times == 0 else tirx.min(imm(times), batch.extent - self.first)
        self.tiles = {b: decl_buffer([times, *b.ty.shape], dtype_of(b), b.name, scope=scope_of(b)) for b in batch.tiles}
        self.which: Any = None
        """The block whose elements are meant; None: all of them."""

    def whole(self) -> Stmt:
        return seq([self.apart(p.stmt) if p.apart else self.visit(p.stmt) for p in self.batch.parts])

    def apart(self, s: Stmt) -> Stmt:
        """`s` for one block after the other."""
        self.which = Var("r", dtype_of(self.batch.var))
        mine = substitute(seq(self.named(s), s), {self.batch.var: self.first + self.which})
        out = loop(self.which, self.count, renew(seq(super().visit(mine))), span=s.span, tl__unordered=1)
        self.which = None
        return out

    def visit(self, s: Stmt):
        kind, _ = self.batch.work.get(s, (None, 0))
        if kind is None:
            return super().visit(s)
        if kind is _Work.ONCE:
            return s
        if kind is _Work.APART:
            return self.apart(s)
        if isinstance(s, Evaluate):
            return self.op(s)
        self.which = which = Var("r", dtype_of(self.batch.var))
        loops, inner = nest_of(s)
        body = super().visit(substitute(inner, {self.batch.var: self.first + which}))
        self.which = None
        return parallel_nest([(which, imm(self.times)), *loops], seq(body), s.span)

    def named(self, s: Stmt) -> list[Bind]:
        """What the names in a statement stand for."""
        found: list[Bind] = []
        for name, bind in reversed(self.batch.names.items()):
            if any(name in free_vars(e) for x in (*found, *statements(s)) for e in exprs(x)):
                found.insert(0, bind)
        return found

    def visit_Bind(self, s: Bind):
        return None if s.var in self.batch.names and self.which is None else self.generic(s)

    def op(self, s: Evaluate) -> Stmt:
        args = [self.expr(a) for a in s.value.args]
        if is_op(s, COPY) and (d := self.batch.row_dimension(s)) is not None:
            k = next(i for i, r in enumerate(s.value.args) if is_global(r.source))
            rows, var = s.value.args[k].region, self.batch.var
            mins, extents = [substitute_expr(r.min, {var: self.first}) for r in rows], [r.extent for r in rows]
            # Rows behind the last block may be loaded if nobody writes them: a tile that is filled as a whole can have versions.
            extents[d] = imm(self.times) if k == 0 and s.value.args[k].source not in self.batch.written else self.count
            ours = s.value.args[1 - k]
            args[1 - k] = region(
                self.tiles[ours.source], [0, *(r.min for r in ours.region)], [extents[d], *(r.extent for r in ours.region)]
            )
            args[k] = region(s.value.args[k].source, mins, extents)
        return _with_leading(s, args)

    def visit_AllocBuffer(self, s: AllocBuffer):
        new = self.tiles.get(s.buffer)
        return s if new is None else AllocBuffer(new, annotations=dict(s.annotations), span=s.span)

    def visit_Evaluate(self, s: Evaluate):
        args = [self.expr(a) for a in s.value.args]
        return _with_leading(s, args) if is_op(s, *_WITH_DIM) and s.value.args[0].source in self.tiles else with_args(s, args)

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


def _with_operands(parts, tiles: set, changing: frozenset) -> set | None:
    """`tiles`, and those that reductions and scans done apart have beside one of them: an op has one more dimension on all its sides. None if one of
    these is the same for all blocks, or an op has no such form."""
    ops = [s for p in parts if p.apart for s in statements(p.stmt) if isinstance(s, Evaluate) and moved_regions(s) is None]
    beside = [({b for b in uses_of(s).all if on_chip(b)}, is_op(s, *_WITH_DIM)) for s in ops if not is_op(s, FILL)]
    while more := [(used, known) for used, known in beside if used & tiles and not (known and used <= tiles)]:
        if any(not known or not used <= changing for used, known in more):
            return None
        tiles = tiles.union(*(used for used, _ in more))
    return tiles


def _with_leading(s: Evaluate, args) -> Stmt:
    """An op on tiles with one more dimension in front."""
    return tile_op(tile_op_of(s).name, *args, span=s.span, **{k: v + 1 if k == "dim" else v for k, v in attrs_of(s).items()})


def _forms(body: Stmt, var: Var) -> tuple[list[Stmt], list[tuple[list, Stmt]]] | None:
    """The statements of a body as one block does them, and as several do them together, with the tiles that takes; None if blocks share what tiles of one
    element do not hold."""
    body = _with_shared_elements(body, var)
    if body is None:
        return None
    alone = stmts_of(body)
    variables = _variables(alone, {var, *_names(alone, var)})
    return alone, [_with_own_elements(s, variables) for s in alone]


def _with_shared_elements(body: Stmt, var: Var) -> Stmt | None:
    """`body` with tiles for what several of its statements have in common in variables and names of the scalar unit, if that differs between blocks;
    None where it has no such tiles."""
    whole = stmts_of(body)
    names = _numbers(whole)
    differing = {var, *names, *_names(whole, var)}
    variables = [b for b in _variables(whole, differing) if sum(b in uses_of(s).all for s in whole) > 1]
    if any(dtype_of(x) not in DTYPES for x in (*variables, *names)):
        return None
    elements = ElementTiles((*variables, *names))
    return declared(elements.made, elements(body)) if elements.tiles else body


def _variables(whole: list[Stmt], names: set) -> list:
    """Those of the scalar unit that differ between blocks, as the `names` do; in the order of their declarations."""
    found = _different([_Part(s, False, i) for i, s in enumerate(whole)], names)
    return [s.buffer for x in whole for s in statements(x) if isinstance(s, AllocBuffer) and is_scalar_var(s.buffer) and s.buffer in found]


def _with_own_elements(s: Stmt, variables) -> tuple[list, Stmt]:
    """New tiles, and a statement with these for what it keeps in `variables` and names of the scalar unit, and for what it reads from tensors one by
    one."""
    names = _numbers(_outside_nests(s))
    used = uses_of(s).all
    elements = ElementTiles((x for x in (*variables, *names) if dtype_of(x) in DTYPES and (x in names or x in used)), tensors=True)
    other = elements(s)
    return elements.made, other


def _numbers(whole: list[Stmt]) -> list:
    """Names that stand for what tiles or variables hold, by way of other names, too."""
    names: list = []
    for s in whole:
        if isinstance(s, Bind) and (any(not is_global(x.source) for x in loads_in(s.value)) or not free_vars(s.value).isdisjoint(names)):
            names.append(s.var)
    return names


def _names(whole, var: Var) -> dict:
    """name -> its definition, of names outside of nests that differ between blocks."""
    names: dict = {}
    for s in (s for x in whole for s in _outside_nests(x)):
        if isinstance(s, Bind) and {var, *names} & free_vars(s.value):
            names[s.var] = s
    return names


def _outside_nests(s: Stmt) -> list[Stmt]:
    return [s] if is_parallel(s) else [s, *(x for c in children(s) for x in _outside_nests(c))]


def _parts(alone: list[Stmt], together: list[tuple[list, Stmt]], apart: set) -> tuple[_Part, ...]:
    """Neighbours that are done apart as one, the others in the form that is done together, behind the tiles they need for that."""
    parts = []
    for i, s in enumerate(alone):
        made, other = together[i]
        if i not in apart:
            parts += [_Part(x, False, i) for x in (*map(AllocBuffer, made), other)]
        elif parts and parts[-1].apart:
            before = parts.pop()
            parts.append(_Part(seq(before.stmt, s), True, before.first))
        else:
            parts.append(_Part(s, True, i))
    return tuple(parts)


def _different(parts, names: set) -> set:
    """Tiles and variables that hold something else in each block, by what is written to them and whether it is: `names` are what differs otherwise,
    and what is done apart changes what it writes for one block after the other."""
    known = []
    for p in parts:
        for s, conditions in _work(p.stmt):
            read = {x.source for c in conditions for x in loads_in(c)}
            named = p.apart or any(names & free_vars(e) for e in (*conditions, *(e for x in statements(s) for e in exprs(x))))
            known.append((uses_of(s), read, named))
    found: set = set()
    while True:
        more = {b for uses, read, named in known if named or (uses.all | read) & found for b in uses.writes if not is_global(b)} - found
        if not more:
            return found
        found |= more


def _work(s: Stmt, conditions: tuple = ()) -> list[tuple[Stmt, tuple]]:
    """Statements that do something, nests as one, each with what says whether and how often they do."""
    if isinstance(s, (Evaluate, BufferStore)) or is_parallel(s):
        return [(s, conditions)]
    inside = (*conditions, *(exprs(s) if isinstance(s, (IfThenElse, For, While)) else ()))
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
