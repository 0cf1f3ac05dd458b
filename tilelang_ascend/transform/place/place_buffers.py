"""place_buffers: decide for every statement cube or vector and for every tile buffer its memory, from data flow.

A tile buffer gets one instance for each side that uses it:

* `acc` in L0C   — gemm accumulates into it,
* `l1`  in L1    — gemm reads it as A or B,
* `ub`  in UB    — anything element-wise, reductions, scalar access.

Walking the program in execution order, the pass keeps, for every buffer, the set of instances that hold the current value;
a use whose instance is stale gets a transfer in front of it, and a write makes the other instances stale. On chips without
a path between the cores a transfer goes through a workspace in GM: L0C -> GM -> UB and UB -> GM -> L1. The transfer stands in front of
a loop in which every iteration would repeat it, and in front of what elements of tiles steer: only vector cores can tell what happens there.

Before:  gemm(A_shared, B_shared, C_local); Parallel: C_local[i, j] = f(C_local[i, j]); copy(C_local, C[...])
After:   gemm(A_shared@l1, B_shared@l1, C_local@l0c); copy(C_local@l0c, ws); copy(ws, C_local@ub);
         Parallel: C_local@ub[i, j] = f(C_local@ub[i, j]); copy(C_local@ub, C[...])

Requires: Tile IR after normalize_clears and separate_products. Ensures: every on-chip buffer has scope shared.l1, local.l0c or shared.ub; workspaces are
`global` allocations annotated `workspace`.
"""

from __future__ import annotations

from ...analysis.dependence.steered import steered_by_tiles
from ...analysis.index.coverage import writes_whole
from ...errors import UnsupportedConstruct
from ...ir import (
    AllocBuffer,
    Break,
    Continue,
    Evaluate,
    For,
    IfThenElse,
    PrimFunc,
    SeqStmt,
    Stmt,
    While,
    const_int,
    decl_buffer,
    dtype_of,
    full_region,
    itemsize,
    region,
    seq,
    statements,
    substitute,
    sym,
    tirx,
)
from ...ir.grids import rewrite_grid_bodies
from ...isa.units import BLOCK_BYTES, FRACTAL_ROWS
from ...tile import FILL, GEMM, IM2COL, is_op, tile_op, with_args
from ...tile.products import ACCUMULATED_IN, separated
from ...tile.uses import (
    covers_whole,
    is_parallel,
    moved_regions,
    on_chip,
    read_with_k_along_rows,
    region_buffer,
    uses_of,
    with_regions,
)
from ...tileop.copy.cube import find_obstacles, leaves_as, stays_in_nz
from ...tileop.cube.fill_l1 import fill_obstacle

ACC, L1, UB = "acc", "l1", "ub"
SCOPE = {ACC: "local.l0c", L1: "shared.l1", UB: "shared.ub"}
GEMM_SIDES = (L1, L1, ACC)


def collect_demand(body: Stmt, obstacles: dict) -> dict:
    """For every tile buffer, the instances its uses ask for (a fixpoint over tile-to-tile copies). What else a placement turns out to
    need on the way, it adds itself (`MissingInstance`)."""
    demand: dict = {s.buffer: set() for s in statements(body) if isinstance(s, AllocBuffer) and on_chip(s.buffer)}
    leaves = _leaves(body)
    moved = [(s, *(region_buffer(a) for a in moved_regions(s))) for s in leaves if moved_regions(s) is not None]
    moves = [(src, dst) for _, src, dst in moved if on_chip(src) and on_chip(dst)]
    stores = [src for s, src, dst in moved if on_chip(src) and not on_chip(dst) and s not in obstacles]
    fills = [s.value.args for s in leaves if is_op(s, FILL) and on_chip(s.value.args[0].source)]
    for s in leaves:
        for b, side in _asked_by(s, obstacles):
            if b in demand:
                demand[b].add(side)
    _spread(demand, moves, stores, fills)
    for sides in demand.values():
        if not sides:
            sides.add(UB)
    return demand


def _asked_by(s: Stmt, obstacles: dict) -> list[tuple]:
    """(buffer, side) that a statement needs whatever the others do."""
    if is_op(s, GEMM):
        return [(arg.source, side) for arg, side in zip(s.value.args, GEMM_SIDES)]
    if moved_regions(s) is not None:
        src, dst = (region_buffer(a) for a in moved_regions(s))
        return [] if on_chip(src) and on_chip(dst) or s not in obstacles else [(src if on_chip(src) else dst, UB)]
    return [] if is_op(s, FILL, IM2COL) else [(b, UB) for b in uses_of(s).all]


def _spread(demand: dict, moves: list, stores: list, fills: list) -> None:
    """Add what copies between tiles, stores to GM and fills need once it is known what their tiles are for."""
    before = None
    while before != (before := {b: frozenset(sides) for b, sides in demand.items()}):
        for dst, value in fills:
            if L1 in demand[dst.source] and fill_obstacle(dst, value):
                demand[dst.source].add(UB)
        for src in stores:
            if demand[src] == {L1}:  # what is loaded for gemm has no way back to GM
                demand[src].add(UB)
        for src, dst in moves:
            if demand[dst] == {ACC}:  # nothing but Mmad writes L0C
                demand[dst].add(UB)
            if ACC not in demand[src] or not (demand[dst] or {UB}) <= {L1}:
                demand[src].add(UB)


def _met(ways: list[dict]) -> dict:
    """What is valid where several ways meet."""
    return {b: frozenset.intersection(*(valid[b] for valid in ways)) for b in ways[0]}


def _whole_pieces(dst) -> bool:
    """True if a region of a tile in L1 can be written on its own: its columns are whole pieces of NZ."""
    unit, n, last = BLOCK_BYTES // itemsize(dtype_of(dst.source)), dst.source.ty.shape[-1], dst.region[-1]
    analyzer, end = sym.Analyzer(), last.min + last.extent
    starts = analyzer.can_prove(tirx.EQ(tirx.floormod(last.min, unit), 0))
    return bool(starts and (analyzer.can_prove(end >= n) or analyzer.can_prove(tirx.EQ(tirx.floormod(end, unit), 0))))


def _leaves(stmt: Stmt) -> list[Stmt]:
    """Statements that are placed as a whole: everything but control flow around tile work."""
    if isinstance(stmt, SeqStmt):
        return [x for s in stmt.seq for x in _leaves(s)]
    if is_parallel(stmt):
        return [stmt]
    if isinstance(stmt, (For, While)):
        return _leaves(stmt.body)
    if isinstance(stmt, IfThenElse):
        return _leaves(stmt.then_case) + (_leaves(stmt.else_case) if stmt.else_case is not None else [])
    return [stmt]


class MissingInstance(Exception):
    """A statement needs an instance of a buffer that was not asked for."""

    def __init__(self, buffer, side: str):
        super().__init__(buffer.name, side)
        self.buffer, self.side = buffer, side


class NoCommonInstance(Exception):
    """A buffer is used where the instances that ways to the place leave valid have none in common."""

    def __init__(self, buffer):
        super().__init__(buffer.name)
        self.buffer = buffer


class NoSinglePlace(Exception):
    """The value of a buffer comes from gemm on one way to a place, and from a vector statement on another; `error` says so to the user."""

    def __init__(self, buffer, error: UnsupportedConstruct):
        super().__init__(buffer.name)
        self.buffer, self.error = buffer, error


class Placer:
    """One walk over the body of a grid. `valid[b]` = instances of b that hold its current value; all of them where nobody comes."""

    def __init__(self, body: Stmt, chip, obstacles: dict, demand: dict, met_in_ub: set):
        self.declared = {s.buffer: s.span for s in statements(body) if isinstance(s, AllocBuffer)}
        self.demand, self.met_in_ub = demand, met_in_ub
        self.chip, self.obstacles = chip, obstacles
        self.instances = {b: {side: self._instance(b, side) for side in sorted(sides)} for b, sides in self.demand.items()}
        self.steered, self.k_along_rows = steered_by_tiles(body), read_with_k_along_rows(body)
        self.workspaces: dict = {}
        self.used: set = set()
        self.transfers: list = []
        """(buffer, side) of every transfer, in the order of the walk."""
        self.valid = self._anything()
        self.leaving: list = []
        """For each loop around, innermost last: what is valid where it is left by `break`, and where `continue` goes back to its head."""

    def _anything(self) -> dict:
        return {b: frozenset(sides) for b, sides in self.demand.items()}

    def instance(self, buffer, side: str):
        """The instance of `buffer` on `side`."""
        if side not in self.instances[buffer]:
            raise MissingInstance(buffer, side)
        return self.instances[buffer][side]

    def _instance(self, buffer, side: str):
        sides = self.demand[buffer]
        dtype = ACCUMULATED_IN.get(dtype_of(buffer), dtype_of(buffer)) if side == ACC else dtype_of(buffer)
        name = buffer.name if len(sides) == 1 else f"{buffer.name}_{'l0c' if side == ACC else side}"
        return decl_buffer(list(buffer.ty.shape), dtype, name, scope=SCOPE[side])

    # -- values -------------------------------------------------------------------------------------------------
    def use(self, buffer, side: str, span, out: list):
        """The instance of `buffer` on `side`, made current by a transfer if it is stale."""
        instance = self.instance(buffer, side)
        self.used.add((buffer, side))
        if side not in self.valid[buffer]:
            out.extend(self.transfer(buffer, side, span))
            self.valid[buffer] |= {side}
        return instance

    def define(self, buffer, side: str):
        """The instance to write; all others become stale."""
        self.used.add((buffer, side))
        self.valid[buffer] = frozenset({side})
        return self.instance(buffer, side)

    def transfer(self, buffer, side: str, span) -> list[Stmt]:
        """Copies that bring the value of `buffer` to `side`."""
        source_side = next((x for x in (ACC, UB, L1) if x in self.valid[buffer]), None)
        if source_side is None and buffer not in self.met_in_ub:
            raise NoCommonInstance(buffer)
        if (source_side, side) not in ((ACC, UB), (UB, L1), (ACC, L1)):
            self.refuse_transfer(buffer, source_side, side, span)
        self.used |= {(buffer, source_side), (buffer, side)}
        self.transfers.append((buffer, side))
        source, target = self.instances[buffer][source_side], self.instances[buffer][side]
        if (source_side, side) == (ACC, L1) and stays_in_nz(dtype_of(source), dtype_of(target)) and self._moves_all_that_counts(buffer):
            return [tile_op("copy", full_region(source), full_region(target), span=span)]
        ws = self.workspaces.get(buffer)
        if ws is None:
            ws = decl_buffer(list(buffer.ty.shape), dtype_of(buffer), f"{buffer.name}_ws")
            self.workspaces[buffer] = ws
        return [
            tile_op("copy", full_region(source), full_region(ws), span=span),
            tile_op("copy", full_region(ws), full_region(target), span=span),
        ]

    def refuse_transfer(self, buffer, source_side: str | None, side: str, span) -> None:
        """Say why no copy can make the instance on `side` current."""
        name = buffer.name
        assert side != ACC, f"a gemm adds to {name}, which vector statements wrote: separate_products takes such gemms apart"
        if source_side is None:
            message = f"'{name}' is written by gemm on one way to this line and element-wise on another: its value has no single place"
            hint = f"let gemm write a fragment of its own and copy it to '{name}' in the branch or loop it is written in"
        else:
            message = f"'{name}' was made for gemm in {SCOPE[source_side]} and is needed in {SCOPE[side]}; nothing moves a tile there"
            hint = "give the two uses separate buffers, each filled from where the value comes from"
        error = UnsupportedConstruct(message, at=span, notes=[(f"'{name}' is declared here", self.declared[buffer])], hint=hint)
        raise NoSinglePlace(buffer, error) if source_side is None else error

    # -- statements ---------------------------------------------------------------------------------------------
    def visit(self, s: Stmt) -> Stmt:
        if isinstance(s, SeqStmt):
            return seq([self.visit(x) for x in s.seq])
        if is_parallel(s):
            return self.vector(s)
        if isinstance(s, (For, While)):
            return self.loop(s)
        if isinstance(s, IfThenElse):
            return self.branch(s)
        if isinstance(s, AllocBuffer):
            return seq() if s.buffer in self.demand else s
        if isinstance(s, (Break, Continue)):
            self.leaving[-1][isinstance(s, Continue)].append(self.valid)
            self.valid = self._anything()
            return s
        if moved_regions(s) is not None:
            return self.copy(s)
        if is_op(s, GEMM):
            return self.gemm(s)
        if is_op(s, IM2COL):
            image, tile, *steps = s.value.args
            return with_args(s, [image, self._at(tile, self.define(tile.source, L1)), *steps])
        if is_op(s, FILL) and on_chip(s.value.args[0].source):
            return self.fill(s)
        return self.vector(s)

    def loop(self, s):
        """Visit a loop until the set of valid instances at its head is stable. It may be empty for what each iteration writes anew."""
        entry, out = dict(self.valid), []
        while True:
            head, done = dict(self.valid), len(self.transfers)
            self.leaving.append(([], []))
            body = self.visit(s.body)
            breaks, continues = self.leaving.pop()
            ends = [self.valid, *continues]
            met = _met([head, *ends])
            if met == head:
                every = {(b, side) for b in head for side in frozenset.intersection(*(valid[b] for valid in ends))}
                early = [t for t in self._movable(s, done, entry) if s in self.steered or t in every]
                if not early:
                    break
                self.valid = entry
                for b, side in early:
                    self.use(b, side, s.span, out)
                entry = dict(self.valid)
                continue
            apart = [b for b in self.met_in_ub if not met[b] and entry[b] == {ACC} and all(UB in valid[b] for valid in ends)]
            self.valid = met
            if apart:
                self.valid = entry
                for b in sorted(apart, key=lambda b: b.name):
                    self.use(b, UB, s.span, out)
                entry = dict(self.valid)
        if isinstance(s, For) and any(not met[b] for b in met) and sym.Analyzer().can_prove(s.extent >= 1):
            # What is valid at the end of every iteration is valid behind the last one.
            last = _met(ends)
            met = {b: met[b] or last[b] for b in met}
        self.valid = _met([met, *breaks])
        if isinstance(s, While):
            return seq(out, While(s.condition, body, span=s.span))
        return seq(out, For(s.loop_var, s.min, s.extent, s.kind, body, annotations=dict(s.annotations), span=s.span))

    def _movable(self, s: Stmt, done: int, entry: dict) -> list:
        """Of the transfers in `s`, all but the first `done` so far, those that may as well stand in front of it, where `entry` is valid: it does
        not change the tile."""
        written = uses_of(s).writes
        found = {(b, side) for b, side in self.transfers[done:] if b not in written and side not in entry[b]}
        return sorted(found, key=lambda t: (t[0].name, t[1]))

    def branch(self, s: IfThenElse) -> Stmt:
        if s not in self.steered:
            return self.arms(s)
        entry, left, done, out = dict(self.valid), [tuple(map(len, x)) for x in self.leaving], len(self.transfers), []
        placed = self.arms(s)
        early = self._movable(s, done, entry)
        if not early:
            return placed
        for ways, lengths in zip(self.leaving, left):
            for found, n in zip(ways, lengths):
                del found[n:]
        self.valid = entry
        for b, side in early:
            self.use(b, side, s.span, out)
        return seq(out, self.arms(s))

    def arms(self, s: IfThenElse) -> Stmt:
        before = dict(self.valid)
        then = self.visit(s.then_case)
        after_then, self.valid = self.valid, dict(before)
        other = self.visit(s.else_case) if s.else_case is not None else None
        after_other = self.valid
        apart = sorted((b for b in self.met_in_ub if not after_then[b] & after_other[b] and UB in self.demand[b]), key=lambda b: b.name)
        if apart:
            then, after_then = self.brought_to_ub(then, after_then, apart, s.span)
            other, after_other = self.brought_to_ub(other, after_other, apart, s.span)
        self.valid = _met([after_then, after_other])
        return IfThenElse(s.condition, then, other, span=s.span)

    def brought_to_ub(self, arm: Stmt | None, valid: dict, buffers: list, span) -> tuple:
        """(an arm of a branch at whose end all `buffers` that can be are current in UB, what is valid there)."""
        self.valid, out = valid, []
        for b in buffers:
            if ACC in valid[b]:
                self.use(b, UB, span, out)
        return (seq(arm, out) if out else arm), self.valid

    def vector(self, s: Stmt) -> Stmt:
        """A statement that works in UB (or on scalars and GM only)."""
        uses, out = uses_of(s), []
        mapping = {}
        for b in sorted((b for b in uses.all if b in self.demand), key=lambda b: b.name):
            mapping[b] = self.use(b, UB, s.span, out) if b in uses.reads or not self._whole_write(s, b) else None
        for b in uses.writes:
            if b in self.demand:
                mapping[b] = self.define(b, UB)
        return seq(out, substitute(s, mapping))

    def _whole_write(self, s: Stmt, buffer) -> bool:
        """True if `s` writes every element of `buffer` (then its old value is dead)."""
        return writes_whole(s, buffer)

    def gemm(self, s: Evaluate) -> Stmt:
        out: list = []
        a, b, c, clear = s.value.args
        operands = [self._at(x, self.use(x.source, L1, s.span, out)) for x in (a, b)]
        self.use(c.source, ACC, s.span, out)
        acc = self._at(c, self.define(c.source, ACC))
        new = with_args(s, [*operands, acc, clear])
        return seq(out, new)

    def fill(self, s: Evaluate) -> Stmt:
        """A constant can be written on every side; sides nobody reads before the next write are dropped later."""
        dst, value = s.value.args
        sides, out = self.demand[dst.source], []
        if L1 in sides and fill_obstacle(dst, value):
            sides = sides - {L1}
        if getattr(value, "value", None) != 0:  # a product can start from zero only
            sides = sides - {ACC}
            if not sides:
                raise MissingInstance(dst.source, UB)
        if not self._whole_write(s, dst.source):
            for side in sorted(sides):
                self.use(dst.source, side, s.span, out)
        self.valid[dst.source] = frozenset(sides)
        self.used |= {(dst.source, side) for side in sides}
        return seq(out, [tile_op("fill", self._at(dst, self.instance(dst.source, side)), value, span=s.span) for side in sorted(sides)])

    def copy(self, s: Evaluate) -> Stmt:
        src, dst = moved_regions(s)
        out: list = []
        if not on_chip(dst.source):
            if on_chip(src.source):
                side = UB if s in self.obstacles else self._store_side(src.source)
                src = self._at(src, self.use(src.source, side, s.span, out))
            return seq(out, with_regions(s, src, dst))
        sides = self.demand[dst.source]
        if not on_chip(src.source):
            loads = [side for side in sorted(sides) if side != ACC and not (side == L1 and s in self.obstacles)] or [UB]
            partial = not self._whole_write(s, dst.source)
            for side in loads:
                if partial:
                    self.use(dst.source, side, s.span, out)
                self.used.add((dst.source, side))
                out.append(tile_op("copy", src, self._at(dst, self.instance(dst.source, side)), span=s.span))
            self.valid[dst.source] = frozenset(loads)
            return seq(out)
        return self.between_tiles(s, src, dst, sorted(sides - {ACC}) or [UB])

    def between_tiles(self, s: Evaluate, src, dst, sides: list[str]) -> Stmt:
        """A copy from tile to tile, to all of the `sides` of the destination; what it leaves there has to be current before."""
        out: list = []
        if L1 in sides and not _whole_pieces(dst):
            # Whoever reads the tile in L1 next has all of it brought there.
            sides = [UB]
        if not self._whole_write(s, dst.source):
            for side in sides:
                self.use(dst.source, side, s.span, out)
        for side in sides:
            source_side = ACC if side == L1 and ACC in self.valid[src.source] else UB
            dtypes = ACCUMULATED_IN.get(dtype_of(src.source), dtype_of(src.source)), dtype_of(dst.source)
            if source_side == ACC and not leaves_as(dtype_of(src.source), dtype_of(dst.source)):
                source_side = UB
            source = self._at(src, self.use(src.source, source_side, s.span, out))
            self.used.add((dst.source, side))
            target = self._at(dst, self.instance(dst.source, side))
            whole = covers_whole(src) and covers_whole(dst) and self._moves_all_that_counts(dst.source)
            if side == L1 and not (source_side == ACC and stays_in_nz(*dtypes) and whole):
                out += self.through_gm(source, target, dst.source.name, s.span)
            else:
                out.append(tile_op("copy", source, target, span=s.span))
        self.valid[dst.source] = frozenset(sides)
        return seq(out)

    def _moves_all_that_counts(self, operand) -> bool:
        """True if an accumulator that becomes the whole `operand` of a gemm has nothing in its padding that the gemm takes in. Padding of
        accumulators is anything, that of what comes from GM is zero."""
        rows, columns = ([1, *(const_int(n) for n in operand.ty.shape)])[-2:]
        # The unit adds up along K, and takes a single row for a whole fractal.
        return columns % FRACTAL_ROWS == 0 and (rows % FRACTAL_ROWS == 0 or rows % FRACTAL_ROWS != 1 and operand not in self.k_along_rows)

    def through_gm(self, source, target, name: str, span) -> list[Stmt]:
        """UB or L0C -> GM workspace -> L1."""
        ws = decl_buffer([r.extent for r in source.region], dtype_of(target.source), f"{name}_ws")
        self.workspaces[ws] = ws
        return [tile_op("copy", source, full_region(ws), span=span), tile_op("copy", full_region(ws), target, span=span)]

    def _store_side(self, buffer) -> str:
        """Instance a store to GM should read: L0C if current there, else UB."""
        valid = self.valid[buffer]
        if ACC in valid and (buffer, ACC) in self.used:
            return ACC
        return ACC if ACC in valid and UB not in self.demand[buffer] else UB

    @staticmethod
    def _at(r, buffer):
        return region(buffer, [x.min for x in r.region], [x.extent for x in r.region])

    def allocations(self) -> list[Stmt]:
        """Declarations of all instances and workspaces in use."""
        out = [
            AllocBuffer(inst, span=self.declared[b])
            for b, sides in self.instances.items()
            for side, inst in sides.items()
            if (b, side) in self.used
        ]
        return out + [AllocBuffer(ws, annotations={"workspace": 1}) for ws in self.workspaces.values()]


def place_buffers(func: PrimFunc, chip) -> PrimFunc:
    """Apply to a Tile IR function; `chip` is the target's `ChipSpec`."""

    obstacles = find_obstacles(func)

    def place(body: Stmt) -> Stmt:
        demand, met_in_ub = collect_demand(body, obstacles), set()
        while True:
            placer = Placer(body, chip, obstacles, demand, met_in_ub)
            try:
                placed = placer.visit(body)
            except MissingInstance as missing:
                demand[missing.buffer].add(missing.side)
                continue
            except NoCommonInstance as apart:
                met_in_ub.add(apart.buffer)
                continue
            except NoSinglePlace as apart:
                # The vector side makes it all: products for it become tiles of their own.
                products = {s for s in statements(body) if is_op(s, GEMM) and s.value.args[2].source.same_as(apart.buffer)}
                if not products:
                    raise apart.error from None
                body = separated(body, products)
                demand, met_in_ub = collect_demand(body, obstacles), set()
                continue
            return seq(placer.allocations(), placed)

    return rewrite_grid_bodies(func, place)


__all__ = ["place_buffers"]
