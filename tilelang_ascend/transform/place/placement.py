"""Which memories hold every tile of a body, which of them a statement works on, and where values move from one to another.

The analysis builds nothing. In execution order it keeps, for every tile, the sides that hold the current value: on every way to a place. A use
of a stale side takes a transfer, a write makes the other sides stale, and a loop is walked until what is current at its head is stable.
Whole walks are repeated until two sets grow no more: tiles that turn out to need UB, and tiles that have to be there where ways meet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count

from ...analysis.dependence.steered import steered_by_tiles
from ...analysis.index.coverage import writes_whole
from ...errors import UnsupportedConstruct, location_of
from ...ir import (
    AllocBuffer,
    Break,
    Continue,
    Evaluate,
    For,
    IfThenElse,
    SeqStmt,
    Stmt,
    While,
    const_int,
    dtype_of,
    itemsize,
    statements,
    sym,
    tirx,
)
from ...isa.units import BLOCK_BYTES, FRACTAL_ROWS
from ...tile import FILL, GEMM, IM2COL, is_op
from ...tile.products import ACCUMULATED_IN
from ...tile.uses import covers_whole, is_parallel, moved_regions, on_chip, read_with_k_along_rows, uses_of
from ...tileop.copy.cube import leaves_as, stays_in_nz
from ...tileop.cube.fill_l1 import fill_obstacle

ACC, L1, UB = "acc", "l1", "ub"
SCOPE = {ACC: "local.l0c", L1: "shared.l1", UB: "shared.ub"}
GEMM_SIDES = (L1, L1, ACC)
TRANSFERS = ((ACC, UB), (UB, L1), (ACC, L1))


@dataclass(frozen=True)
class Transfer:
    """The value of a tile goes from one side to another; `direct`: without a workspace in GM. `span`: whose statement needs it."""

    tile: object
    source: str | None
    target: str
    direct: bool
    span: object

    @property
    def on(self) -> tuple:
        """(tile, side) of both ends."""
        return (self.tile, self.source), (self.tile, self.target)

    def __str__(self) -> str:
        where = location_of(self.span)
        line = f"line {where.line}: " if where else ""
        return f"{line}{self.tile.name} {self.source} -> {self.target}" + ("" if self.direct else " through GM")


@dataclass(frozen=True)
class Run:
    """A statement works on these (tile, side); where `by_operand`, these are its operands on chip in their order. `through_gm`: it is a copy
    that takes a workspace."""

    on: tuple
    by_operand: bool = True
    through_gm: bool = False


@dataclass(frozen=True)
class Placement:
    """What becomes of the tiles of a body.

    Attributes:
        tiles: tile -> the sides somebody works on.
        steps: statement -> what happens there in order: transfers in front of it, and a `Run` for every time it runs itself, none for control
            flow; (branch, 0 or 1) -> transfers at the end of that arm.
        apart: products that have to become tiles of their own before anything can be placed.
    """

    tiles: Mapping
    steps: Mapping
    apart: frozenset = frozenset()

    def __str__(self) -> str:
        tiles = [f"{tile.name}: {', '.join(sides) or 'nowhere'}" for tile, sides in self.tiles.items()]
        return "\n".join(tiles + [str(x) for steps in self.steps.values() for x in steps if isinstance(x, Transfer)])


def find_placement(body: Stmt, obstacles: dict) -> Placement:
    """Place the tiles of the body of a grid; `obstacles`: the copies that transfers of the cube core cannot do."""
    demand, met_in_ub = _asked_by_cube(body), set()
    while True:
        flow = _Flow(body, obstacles, demand, met_in_ub)
        flow.visit(body)
        if flow.missing:
            demand = {b: sides | {UB} if b in flow.missing else sides for b, sides in demand.items()}
        elif flow.torn:
            met_in_ub |= flow.torn
        elif flow.refused:
            return Placement({}, {}, _to_separate(body, flow.refused))
        else:
            steps = {at: tuple(found) for at, found in flow.steps.items()}
            used = {place for found in steps.values() for x in found for place in x.on}
            return Placement({b: tuple(x for x in sorted(sides) if (b, x) in used) for b, sides in demand.items()}, steps)


def _to_separate(body: Stmt, refused: Transfer) -> frozenset:
    """The products without which a tile is made by vector statements alone; an error if that is not the matter."""
    products = frozenset(s for s in statements(body) if is_op(s, GEMM) and s.value.args[2].source.same_as(refused.tile))
    if refused.source is None and products:
        return products
    raise _refusal(refused, next(s for s in statements(body) if isinstance(s, AllocBuffer) and s.buffer.same_as(refused.tile)))


def _refusal(t: Transfer, declared: AllocBuffer) -> UnsupportedConstruct:
    """Why no copy can make the target of a transfer current."""
    name = t.tile.name
    assert t.target != ACC, f"a gemm adds to {name}, which vector statements wrote: separate_products takes such gemms apart"
    if t.source is None:
        message = f"'{name}' is written by gemm on one way to this line and element-wise on another: its value has no single place"
        hint = f"let gemm write a fragment of its own and copy it to '{name}' in the branch or loop it is written in"
    else:
        message = f"'{name}' was made for gemm in {SCOPE[t.source]} and is needed in {SCOPE[t.target]}; nothing moves a tile there"
        hint = "give the two uses separate buffers, each filled from where the value comes from"
    return UnsupportedConstruct(message, at=t.span, notes=[(f"'{name}' is declared here", declared)], hint=hint)


def _asked_by_cube(body: Stmt) -> dict:
    """tile -> the sides on which the cube core needs it, or UB if it does not."""
    demand: dict = {s.buffer: set() for s in statements(body) if isinstance(s, AllocBuffer) and on_chip(s.buffer)}
    for s in statements(body):
        if is_op(s, GEMM):
            for arg, side in zip(s.value.args, GEMM_SIDES):
                demand[arg.source].add(side)
        elif is_op(s, IM2COL):
            demand[s.value.args[1].source].add(L1)
    return {tile: frozenset(sides or {UB}) for tile, sides in demand.items()}


def _whole_pieces(dst) -> bool:
    """True if a region of a tile in L1 can be written on its own: its columns are whole pieces of NZ."""
    unit, n, last = BLOCK_BYTES // itemsize(dtype_of(dst.source)), dst.source.ty.shape[-1], dst.region[-1]
    analyzer, end = sym.Analyzer(), last.min + last.extent
    starts = analyzer.can_prove(tirx.EQ(tirx.floormod(last.min, unit), 0))
    return bool(starts and (analyzer.can_prove(end >= n) or analyzer.can_prove(tirx.EQ(tirx.floormod(end, unit), 0))))


def dtype_on(tile, side: str) -> str:
    """What the instance of a tile on a side holds."""
    return ACCUMULATED_IN.get(dtype_of(tile), dtype_of(tile)) if side == ACC else dtype_of(tile)


def _by_name(transfer: tuple) -> tuple:
    tile, side = transfer
    return tile.name, side


def _met(ways: list[dict]) -> dict:
    """What is valid where several ways meet."""
    return {b: frozenset.intersection(*(valid[b] for valid in ways)) for b in ways[0]}


class _Flow:
    """One walk over a body. `valid[b]`: the sides that hold the current value of b; all of them where nobody comes.

    `missing`: tiles that need UB, which nobody asked for; `torn`: tiles that are used where the ways to the place leave their value on
    different sides; `refused`: the first transfer that cannot be. None of what else it found counts if there are any.
    """

    def __init__(self, body: Stmt, obstacles: dict, demand: dict, met_in_ub: set):
        self.obstacles, self.demand, self.met_in_ub = obstacles, demand, met_in_ub
        self.steered, self.k_along_rows = steered_by_tiles(body), read_with_k_along_rows(body)
        self.steps: dict = {}
        self.transfers: list = []
        """(tile, side, number of the value) of every transfer, in the order of the walk."""
        self.numbers, self.number = dict.fromkeys(demand, 0), count(1)
        """Tile -> a number for the value it has here; a write makes another."""
        self.missing, self.torn, self.refused = set(), set(), None
        self.valid = self.demand
        self.left: tuple = ()
        """(it is a `continue`, what is valid there) for every jump so far out of an iteration of the loop around."""

    # -- values -------------------------------------------------------------------------------------------------
    def hold(self, tile, *sides: str) -> None:
        """From here on `sides` hold the value of a tile."""
        self.valid = {**self.valid, tile: frozenset(sides)}

    def renew(self, tile, *sides: str) -> None:
        """From here on a tile has another value, which `sides` hold."""
        self.hold(tile, *sides)
        self.numbers = {**self.numbers, tile: next(self.number)}

    def source(self, tile) -> str | None:
        """The side a transfer of a tile starts from, None if no side has its value on all ways."""
        return next((x for x in (ACC, UB, L1) if x in self.valid[tile]), None)

    def reaches(self, tile, side: str) -> bool:
        """True if `side` of a tile is current, or a transfer makes it so."""
        return side in self.valid[tile] or (self.source(tile), side) in TRANSFERS

    def use(self, tile, side: str, span, steps: list) -> None:
        """Have `side` of a tile current, by one more step if it is stale."""
        valid = self.valid[tile]
        if side in valid:
            return
        source = self.source(tile)
        needed = Transfer(tile, source, side, (source, side) == (ACC, L1) and self.stays_in_cube(tile), span)
        if side not in self.demand[tile]:
            self.missing.add(tile)
        elif source is None and tile not in self.met_in_ub:
            self.torn.add(tile)
        elif (source, side) not in TRANSFERS:
            self.refused = self.refused or needed
        steps.append(needed)
        self.transfers.append((tile, side, self.numbers[tile]))
        self.hold(tile, side, *valid)

    def stays_in_cube(self, tile) -> bool:
        """True if the whole accumulator of a tile can become the operand."""
        return stays_in_nz(dtype_on(tile, ACC), dtype_of(tile)) and self.moves_all_that_counts(tile)

    def moves_all_that_counts(self, operand) -> bool:
        """True if an accumulator that becomes the whole `operand` of a gemm has nothing in its padding that the gemm takes in. Padding of
        accumulators is anything, that of what comes from GM is zero."""
        rows, columns = ([1, *(const_int(n) for n in operand.ty.shape)])[-2:]
        # The unit adds up along K, and takes a single row for a whole fractal.
        return columns % FRACTAL_ROWS == 0 and (rows % FRACTAL_ROWS == 0 or rows % FRACTAL_ROWS != 1 and operand not in self.k_along_rows)

    # -- control flow -------------------------------------------------------------------------------------------
    def visit(self, s: Stmt) -> None:
        if isinstance(s, SeqStmt):
            for x in s.seq:
                self.visit(x)
        elif isinstance(s, (Break, Continue)):
            self.left = (*self.left, (isinstance(s, Continue), self.valid))
            self.valid = self.demand
        elif not isinstance(s, AllocBuffer):
            steps = self.steps[s] = []
            if isinstance(s, (For, While)) and not is_parallel(s):
                self.loop(s, steps)
            elif isinstance(s, IfThenElse):
                self.branch(s, steps)
            else:
                self.leaf(s, steps)

    def loop(self, s, steps: list) -> None:
        """Walk a loop until the set of valid sides at its head is stable. It may be empty for what each iteration writes anew."""
        entry = head = self.valid
        around = self.left
        changed = uses_of(s).writes & self.numbers.keys()
        while True:
            done = len(self.transfers)
            self.valid, self.left = head, ()
            self.numbers = {**self.numbers, **{b: next(self.number) for b in changed}}
            self.visit(s.body)
            ends = _met([self.valid, *(valid for goes_on, valid in self.left if goes_on)])
            met = _met([head, ends])
            if met == head:
                early = [(b, side) for b, side in self.movable(s, done, entry) if s in self.steered or side in ends[b]]
                if not early:
                    break
            else:
                torn = [b for b in self.met_in_ub if not met[b] and entry[b] == {ACC} and UB in ends[b]]
                early = [(b, UB) for b in sorted(torn, key=lambda b: b.name)]
            head = met
            if early:
                self.valid = entry
                for b, side in early:
                    self.use(b, side, s.span, steps)
                entry = head = self.valid
        breaks, self.left = [valid for goes_on, valid in self.left if not goes_on], around
        if isinstance(s, For) and not all(met.values()) and sym.Analyzer().can_prove(s.extent >= 1):
            # What is valid at the end of every iteration is valid behind the last one.
            met = {b: met[b] or ends[b] for b in met}
        self.valid = _met([met, *breaks])
        self.numbers = {**self.numbers, **{b: next(self.number) for b in changed}}

    def movable(self, s: Stmt, done: int, entry: dict) -> list:
        """Of the transfers in `s`, all but the first `done` so far, those that may as well stand in front of it, where `entry` is valid: it
        does not change the tile."""
        written = uses_of(s).writes
        found = {(b, side) for b, side, _ in self.transfers[done:] if b not in written and side not in entry[b]}
        return sorted(found, key=_by_name)

    def branch(self, s: IfThenElse, steps: list) -> None:
        before, done = (self.valid, self.left, self.numbers), len(self.transfers)
        early = sorted(self.arms(s), key=_by_name)
        if s in self.steered:
            early = self.movable(s, done, before[0])
        if early:
            self.valid, self.left, self.numbers = before
            for b, side in early:
                self.use(b, side, s.span, steps)
            self.arms(s)

    def arms(self, s: IfThenElse) -> set:
        """Walk both. Returns the transfers that either makes of what a tile holds in front of `s`."""
        before, numbers, ways, made, after = self.valid, self.numbers, [], [], []
        for arm in (s.then_case, s.else_case):
            self.valid, self.numbers, done = before, numbers, len(self.transfers)
            if arm is not None:
                self.visit(arm)
            ways.append(self.valid)
            made.append(self.transfers[done:])
            after.append(self.numbers)
        met = _met(ways)
        torn = sorted((b for b in self.met_in_ub if not met[b] and UB in self.demand[b]), key=lambda b: b.name)
        for i, self.valid in enumerate(ways):
            steps, done, self.numbers = [], len(self.transfers), after[i]
            self.steps[s, i] = steps
            for b in torn:
                if ACC in self.valid[b]:
                    self.use(b, UB, s.span, steps)
            ways[i] = self.valid
            made[i] += self.transfers[done:]
        self.valid = _met(ways)
        self.numbers = {b: n if n == after[1][b] else next(self.number) for b, n in after[0].items()}
        return set.intersection(*({(b, side) for b, side, n in found if n == numbers[b]} for found in made))

    # -- leaves -------------------------------------------------------------------------------------------------
    def leaf(self, s: Stmt, steps: list) -> None:
        if moved_regions(s) is not None:
            self.copy(s, *moved_regions(s), steps)
        elif is_op(s, GEMM):
            places = [(arg.source, side) for arg, side in zip(s.value.args, GEMM_SIDES)]
            for tile, side in places:
                self.use(tile, side, s.span, steps)
            self.renew(*places[-1])
            self.run(steps, places)
        elif is_op(s, IM2COL):
            self.write(s, s.value.args[1].source, [L1], steps)
        elif is_op(s, FILL) and on_chip(s.value.args[0].source):
            self.fill(s, *s.value.args, steps)
        else:
            self.vector(s, steps)

    def run(self, steps: list, places: list, **how) -> None:
        """One more step: the statement itself."""
        self.missing |= {tile for tile, side in places if side not in self.demand[tile]}
        steps.append(Run(tuple(places), **how))

    def vector(self, s: Stmt, steps: list) -> None:
        """A statement that works in UB (or on scalars and GM only)."""
        uses = uses_of(s)
        tiles = sorted((b for b in uses.all if b in self.demand), key=lambda b: b.name)
        for b in tiles:
            if b in uses.reads or not writes_whole(s, b):
                self.use(b, UB, s.span, steps)
        for b in tiles:
            if b in uses.writes:
                self.renew(b, UB)
        self.run(steps, [(b, UB) for b in tiles], by_operand=False)

    def keep_rest(self, s: Stmt, tile, sides: list, steps: list) -> None:
        """What a write leaves of a tile has to be current before."""
        if not writes_whole(s, tile):
            for side in sides:
                self.use(tile, side, s.span, steps)

    def write(self, s: Stmt, tile, sides: list, steps: list) -> None:
        """A statement that runs once for each side it writes a tile on."""
        self.keep_rest(s, tile, sides, steps)
        for side in sides:
            self.run(steps, [(tile, side)])
        self.renew(tile, *sides)

    def fill(self, s: Evaluate, dst, value, steps: list) -> None:
        """A constant can be written on every side; sides nobody reads before the next write are dropped later."""
        sides = self.demand[dst.source]
        if L1 in sides and fill_obstacle(dst, value):
            sides -= {L1}
        if getattr(value, "value", None) != 0:  # a product can start from zero only
            sides -= {ACC}
        if not writes_whole(s, dst.source):
            # What is left of the tile stays as it is: only where its value is, or can come to.
            sides = {side for side in sides if self.reaches(dst.source, side)}
        self.write(s, dst.source, sorted(sides) or [UB], steps)

    def copy(self, s: Evaluate, src, dst, steps: list) -> None:
        source, target = src.source, dst.source
        if on_chip(source) and on_chip(target):
            self.between_tiles(s, src, dst, steps)
        elif on_chip(source):
            # A store takes the accumulator if it is current.
            side = ACC if ACC in self.valid[source] and s not in self.obstacles else UB
            self.use(source, side, s.span, steps)
            self.run(steps, [(source, side)])
        elif on_chip(target):
            impossible = {ACC, L1} if s in self.obstacles else {ACC}  # nothing but Mmad writes L0C
            self.write(s, target, sorted(self.demand[target] - impossible) or [UB], steps)
        else:
            self.run(steps, [])

    def between_tiles(self, s: Evaluate, src, dst, steps: list) -> None:
        """A copy from tile to tile, to all sides of the destination."""
        source, target = src.source, dst.source
        sides = sorted(self.demand[target] - {ACC}) or [UB]
        if L1 in sides and not _whole_pieces(dst):
            # Whoever reads the tile in L1 next has all of it brought there.
            sides = [UB]
        self.keep_rest(s, target, sides, steps)
        dtypes = dtype_on(source, ACC), dtype_of(target)
        whole = covers_whole(src) and covers_whole(dst) and self.moves_all_that_counts(target)
        for side in sides:
            taken = ACC if side == L1 and ACC in self.valid[source] and leaves_as(dtype_of(source), dtype_of(target)) else UB
            self.use(source, taken, s.span, steps)
            stays = taken == ACC and stays_in_nz(*dtypes) and whole
            self.run(steps, [(source, taken), (target, side)], through_gm=side == L1 and not stays)
        self.renew(target, *sides)


__all__ = ["ACC", "SCOPE", "Placement", "Run", "Transfer", "dtype_on", "find_placement"]
