"""direct_channels: values that cross between cube and vector cores take the paths on chip, where there are any.

Before:  copy(s_l0c, ws); copy(ws[vid * 64 : +64, 0:256], s_ub);         copy(p_ub, ws[vid * 64 : +64, 0:256]); copy(ws, p_l1)
After:   copy(s_l0c[vid * 64 : +64, 0:256], s_ub);                       copy(p_ub, p_l1[vid * 64 : +64, 0:256])

The fix-pipe writes to UB of both vector cores, half of the rows or of the columns to each; a vector core writes its rows to L1 of its cube core. Nothing
is left of the workspace: the tile at the end of the way has the versions the workspace would have had, and is filled when the value is sent. So
nobody may touch it in between or, if sending and receiving can become one statement, nobody may change there what is sent. What is received in slices
(`slice_rows`) arrives as a whole: slices are then rows of a tile with all of them. Slices may be sent one by one.

A channel stays in GM if its ends are in different statement lists, under conditions or in loops other than those over slices, if products send it in
parts, if both vector cores receive the same, or if the hardware cannot divide it so: rows in UB begin at whole blocks, halves of columns at whole
fractals, and tiles in L1 have no padding.

Requires: mapped Tile IR after slice_rows. Ensures: on chips with the paths only, copies L0C to UB (work of the cube core) and UB to L1 (work of the
vector cores) whose regions depend on the number of the vector core.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...analysis.tiles.home_loops import core_number, overwritten_first
from ...ir import (
    AllocBuffer,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    PrimFunc,
    Range,
    Stmt,
    StmtMutator,
    TensorLoad,
    TensorRegion,
    children,
    const_int,
    decl_buffer,
    dtype_of,
    full_region,
    imm,
    itemsize,
    map_children,
    region,
    scope_of,
    seq,
    statements,
    stmts_of,
    sym,
    tirx,
)
from ...isa import lookup
from ...isa.base import SCOPES, VECTOR_CORES_PER_BLOCK
from ...isa.units import BLOCK_BYTES, FRACTAL_ROWS
from ...tile import COPY, is_op, tile_op
from ...tile.uses import MET, SKEW, covers_whole, end_of, lateness, own_uses, uses_of
from ...tileop.base.layout import l1_layout
from ...tileop.copy.cube import FIXPIPE_QUANT
from ..driver import Direct


@dataclass
class _Changes:
    """statements: what stands in the place of some, None for nothing. tiles: slice -> (tile with all rows, loop over slices, rows of a slice).
    dropped: workspaces."""

    statements: dict = field(default_factory=dict)
    tiles: dict = field(default_factory=dict)
    dropped: set = field(default_factory=set)


@dataclass(frozen=True)
class _End:
    """A copy that sends or receives: its position in the list, and the loop over slices it stands in."""

    copy: Evaluate
    at: int
    loop: For | None

    @property
    def regions(self) -> tuple:
        return tuple(self.copy.value.args[:2])


@dataclass(frozen=True)
class _Channel:
    """A workspace of `body` all of whose users are copies, in one list `around` or in loops over slices in it."""

    body: Stmt
    workspace: object
    around: list
    sends: list[_End]
    receives: list[_End]


@dataclass
class _Lists:
    """The statement lists of a body. place: statement -> (number of its list, position). above: number of a list -> (number of the list around, position
    there, loop) if it is the body of a loop over what may be slices, None otherwise."""

    lists: list = field(default_factory=list)
    place: dict = field(default_factory=dict)
    above: dict = field(default_factory=dict)

    def look(self, s: Stmt, owner: tuple | None = None) -> None:
        items, n = stmts_of(s), len(self.lists)
        self.lists.append(items)
        self.above[n] = owner
        for k, x in enumerate(items):
            self.place[x] = n, k
            loop = isinstance(x, For) and x.kind == ForKind.SERIAL and const_int(x.extent) is not None and const_int(x.min) == 0
            for inner in children(x):
                self.look(inner, (n, k, x) if loop else None)

    def end(self, s: Evaluate, n: int) -> _End | None:
        """What a copy is in the list `n`, None if it is not there."""
        own, k = self.place[s]
        if own == n:
            return _End(s, k, None)
        owner = self.above[own]
        return _End(s, *owner[1:]) if owner is not None and owner[0] == n else None


def _channel(body: Stmt, workspace, copies: list, lists: _Lists) -> _Channel | None:
    """Of a workspace, in the innermost list in which all the copies are that use it; None if there is none."""
    for n in sorted({lists.place[s][0] for s in copies}):
        ends = [lists.end(s, n) for s in copies]
        if None not in ends:
            sends, receives = ([e for e in ends if e.regions[side].source.same_as(workspace)] for side in (1, 0))
            once = len(sends) + len(receives) == len(ends)
            return _Channel(body, workspace, lists.lists[n], sends, receives) if once and sends and receives else None
    return None


def _channels(body: Stmt) -> list[_Channel]:
    """Of every workspace that has one."""
    declared = (s for s in statements(body) if isinstance(s, AllocBuffer) and "workspace" in s.annotations and MET not in s.annotations)
    users: dict = {s.buffer: [] for s in declared}
    for s in statements(body):
        if not isinstance(s, AllocBuffer):
            for b in own_uses(s).all & users.keys():
                users[b].append(s)
    lists = _Lists()
    lists.look(body)
    found = [_channel(body, b, copies, lists) for b, copies in users.items() if copies and all(map(_plain_copy, copies))]
    return [c for c in found if c is not None]


def _plain_copy(s: Stmt) -> bool:
    return is_op(s, COPY) and end_of(s) is None


def _sizes(r: TensorRegion) -> list:
    return [const_int(x.extent) for x in r.region]


def _shape(r: TensorRegion) -> list:
    return [const_int(n) for n in r.source.ty.shape]


def _half(part: TensorRegion, core, loop: For | None) -> int | None:
    """The dimension along which a region, or all those of a loop over slices of rows together, is the half of a matrix that belongs to the vector core
    `core`; None if it is no half."""
    if core is None or len(part.region) != 2 or None in (*_sizes(part), *_shape(part)):
        return None
    analyzer, found = sym.Analyzer(), []
    for d, (r, n) in enumerate(zip(part.region, _shape(part))):
        extent = const_int(r.extent)
        if extent == n and const_int(r.min) == 0:
            continue
        slices, first = (const_int(loop.extent), loop.loop_var * extent) if loop is not None and d == 0 else (1, imm(0))
        if slices * extent * VECTOR_CORES_PER_BLOCK != n or not analyzer.can_prove(tirx.EQ(r.min, core * (slices * extent) + first)):
            return None
        found.append(d)
    return found[0] if len(found) == 1 and (loop is None or found == [0]) else None


def _to_ub(c: _Channel, core, chip) -> _Changes | None:
    """What makes a channel from L0C to UB direct, None if it has to stay."""
    if len(c.sends) != 1 or len(c.receives) != 1:
        return None
    (sends,), (receives,) = c.sends, c.receives
    (source, sent), (received, target) = sends.regions, receives.regions
    if sends.loop is not None or sends.at >= receives.at or not all(map(covers_whole, (source, sent, target))):
        return None
    dim, dtype = _half(received, core, receives.loop), dtype_of(target.source)
    if dim is None or _shape(source) != _shape(sent) or _sizes(received) != _sizes(target) or dtype_of(sent.source) != dtype:
        return None
    columns = _sizes(target)[1]
    if (dtype_of(source.source), dtype) not in FIXPIPE_QUANT or columns * itemsize(dtype) % BLOCK_BYTES or columns % FRACTAL_ROWS:
        return None
    changes, tile = _Changes(dropped={c.workspace}), target.source
    if receives.loop is not None:
        if not _made_there(c.body, receives, tile):
            return None
        rows = const_int(receives.loop.extent) * _sizes(target)[0]
        tile = decl_buffer([rows, columns], dtype, tile.name, scope=scope_of(tile))
        changes.tiles[target.source] = tile, receives.loop, _sizes(target)[0]
    first, size = (core * (n // 2) if d == dim else imm(0) for d, n in enumerate(_shape(source))), [const_int(n) for n in tile.ty.shape]
    direct = tile_op("copy", region(source.source, first, size), full_region(tile), span=sends.copy.span)
    between = [uses_of(s) for s in c.around[sends.at + 1 : receives.at]]
    if receives.loop is not None or not any(target.source in u.all for u in between):
        changes.statements |= {sends.copy: direct, receives.copy: None}
    elif not any(source.source in u.writes for u in between):
        changes.statements |= {sends.copy: None, receives.copy: direct}
    else:
        return None
    return changes


def _made_there(body: Stmt, receives: _End, tile) -> bool:
    """True if a tile that a slice is received in is used in its loop only, and what it holds is received first."""
    everywhere, inside = (sum(tile in own_uses(s).all for s in statements(x)) for x in (body, receives.loop))
    first = next(s for s in stmts_of(receives.loop.body) if tile in uses_of(s).all)
    return first.same_as(receives.copy) and everywhere == inside


def _to_l1(c: _Channel, core, chip) -> _Changes | None:
    """The same from UB to L1."""
    if len(c.receives) != 1 or c.receives[0].loop is not None:
        return None
    (receives,) = c.receives
    received, target = receives.regions
    tile, dtype = target.source, dtype_of(target.source)
    nz = l1_layout(_shape(target), dtype)
    if dtype not in lookup("copy_ub_to_l1").dtypes(chip.generation):
        return None
    padded = nz.rows != nz.rows_padded or nz.cols != nz.col_groups * nz.c0
    if padded or not (covers_whole(received) and covers_whole(target)) or _shape(received) != _shape(target):
        return None
    changes = _Changes({receives.copy: None}, dropped={c.workspace})
    for sends in c.sends:
        source, sent = sends.regions
        if sends.at >= receives.at or _half(sent, core, sends.loop) is None or not covers_whole(source) or _sizes(source) != _sizes(sent):
            return None
        rows, columns = _sizes(sent)
        if {dtype_of(source.source), dtype_of(sent.source)} != {dtype} or rows % FRACTAL_ROWS or columns % nz.c0:
            return None
        part = tirx.BufferRegion(tile, list(sent.region))
        changes.statements[sends.copy] = tile_op("copy", source, part, span=sends.copy.span)
    run = c.around[min(e.at for e in c.sends) : receives.at]
    if any(tile in uses_of(s).all for s in run) or not overwritten_first(seq(*run, receives.copy), c.workspace, core=core):
        return None
    return changes


_ROUTES = {("local.l0c", "shared.ub"): _to_ub, ("shared.ub", "shared.l1"): _to_l1}


class _Direct(StmtMutator):
    def __init__(self, changes: list[_Changes]):
        self.new = {s: x for c in changes for s, x in c.statements.items()}
        self.tiles = {b: x for c in changes for b, x in c.tiles.items()}
        self.dropped = {b for c in changes for b in c.dropped}

    def visit_AllocBuffer(self, s: AllocBuffer):
        if s.buffer in self.dropped:
            return None
        return AllocBuffer(self.tiles[s.buffer][0], annotations=dict(s.annotations), span=s.span) if s.buffer in self.tiles else s

    def visit_Evaluate(self, s: Evaluate):
        return self.new[s] if s in self.new else self.generic(s)

    def visit_For(self, s: For):
        new = self.generic(s)
        if SKEW not in s.annotations:
            return new
        kept = [n for x, n in zip(stmts_of(s.body), lateness(s)) if self.new.get(x, x) is not None]
        notes = {**dict(s.annotations), SKEW: " ".join(map(str, kept))}
        return For(s.loop_var, s.min, s.extent, s.kind, new.body, annotations=notes, span=s.span)

    def first(self, buffer, row):
        """Where a row of a slice is."""
        _, loop, rows = self.tiles[buffer]
        return row + loop.loop_var * rows

    def expr(self, e):
        e = map_children(e, self.expr)
        if isinstance(e, TensorLoad) and e.source in self.tiles:
            row, *rest = e.indices
            return BufferLoad(self.tiles[e.source][0], [self.first(e.source, row), *rest])
        if isinstance(e, TensorRegion) and e.source in self.tiles:
            rows, *rest = e.region
            return tirx.BufferRegion(self.tiles[e.source][0], [Range.from_min_extent(self.first(e.source, rows.min), rows.extent), *rest])
        return e

    def visit_BufferStore(self, s: BufferStore):
        new = self.generic(s)
        if s.buffer not in self.tiles:
            return new
        row, *rest = new.indices
        return BufferStore(self.tiles[s.buffer][0], new.value, [self.first(s.buffer, row), *rest], span=s.span)


def direct_channels(func: PrimFunc, chip, direct: Direct = Direct.ALL) -> PrimFunc:
    """Apply to a mapped Tile IR function for a chip, to those channels that may be `direct`."""
    wanted = {"shared.ub": Direct.TO_UB, "shared.l1": Direct.ALL}
    routes = {
        scopes: route
        for scopes, route in _ROUTES.items()
        if direct >= wanted[scopes[1]] and chip.has_path(*(SCOPES[scope].name for scope in scopes))
    }
    core, changes = core_number(func.body), []
    for c in _channels(func.body) if routes else ():
        scopes = {(scope_of(a.regions[0].source), scope_of(b.regions[1].source)) for a in c.sends for b in c.receives}
        route = routes.get(next(iter(scopes))) if len(scopes) == 1 else None
        if (found := route(c, core, chip) if route is not None else None) is not None:
            changes.append(found)
    return func if not changes else func.with_body(_Direct(changes)(func.body))


__all__ = ["direct_channels"]
