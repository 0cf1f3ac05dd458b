"""version_buffers: give tiles several copies in memory so that the next iteration may fill one while this one is in use.

Before:  for k: copy(A[..], A_s[0:128, 0:32]); gemm(A_s, …)
After:   for k: copy(A[..], A_s[k % 2, 0:128, 0:32]); gemm(A_s[k % 2, …], …)

A tile is versioned in the innermost loops that contain all its accesses, if every iteration first overwrites the whole tile.
`num_stages` of `T.Pipelined` is a hint for the number; two versions otherwise, because issue queues are asynchronous: with in-order
pipes and flags, double buffering is the whole software pipeline, and needs no prologue or epilogue code. A tile of which every iteration of a loop
uses a slice of its own is as many tiles already: its slices become versions, which are told apart where offsets would have to be. Not so where late
statements find in it what an iteration before has left, which needs versions for iterations.
Loops one behind the other, of which one is pipelined, do not divide memory between them: tiles of one take the room that those of another had.

Requires: placed Tile IR after split_rows. Ensures: every tile buffer and workspace has a leading version dimension.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache

from ...analysis.tiles.core_kinds import crosses, uses_cube
from ...analysis.tiles.home_loops import all_home_loops, versioned_buffers
from ...analysis.tiles.own_slices import OwnSlices, own_slices
from ...ir import (
    AllocBuffer,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    PrimFunc,
    Range,
    Stmt,
    StmtMutator,
    TensorLoad,
    TensorRegion,
    attrs_of,
    const_int,
    decl_buffer,
    dtype_of,
    imm,
    itemsize,
    map_children,
    scope_of,
    statements,
    stmts_of,
    tirx,
)
from ...isa.base import SCOPES, Space
from ...tile import REDUCE, is_op, tile_op
from ...tile.uses import BEHIND, CHAINED, is_parallel, lateness, moved_regions, on_chip, own_uses, uses_of, with_lateness, work_of
from ...tileop.base.layout import tile_bytes

DEFAULT_VERSIONS, MANY_VERSIONS = 2, 4
# Transfers this small take less time than the way to memory and the flags around them: more of them must be under way.
SMALL_TILE_BYTES, BYTES_UNDER_WAY = 8192, 32768
MANY_TRIPS = 8
# Elements of vector work for each byte of a tile beside which its store is through before the next one is computed: some thirty bytes and as many elements
# go in a cycle (assumed).
HIDING_WORK = 2
# Room kept in UB for temporaries of element-wise expressions, in float32 tiles of the largest shape.
UB_TEMPORARIES = 2
TEMPORARY_ITEMSIZE = 4


@dataclass(frozen=True)
class Sharing:
    """How tiles share the memories out.

    versions: at most so many of a tile, but for what it cannot do without. temporaries: bytes of UB that stay free; None: an estimate. spare: bytes of UB
    that tiles which share addresses leave, beside all versions, to what loops over parts load or store, whose next part is on its way then. stores: versions
    also where vector work hides a store. turns: tiles of loops one behind the other have the same room; inside of a loop with late statements such loops may
    stand side by side, and share less.
    """

    versions: int
    temporaries: int | None = None
    spare: int = 0
    stores: bool = True
    turns: bool = True


def versioned_bytes(func: PrimFunc) -> int:
    """Bytes of UB that all versions of all tiles take, after `version_buffers`: side by side, but for loops that take turns."""
    room = _Room({"shared.ub": 0}, _turns(func.body))
    for b in versioned_buffers(func.body):
        room.take(b, tile_bytes(decl_buffer(list(b.ty.shape[1:]), dtype_of(b), b.name, scope=scope_of(b))) * const_int(b.ty.shape[0]), True)
    return room.taken("shared.ub")


def transferred(body: Stmt) -> dict:
    """UB tiles that transfers to or from GM, or the other kind of core, touch -> directions ("load", "store")."""
    directions: dict = {}
    for s in statements(body):
        found = moved_regions(s)
        if found is None:
            continue
        for r, other, way in ((found[0], found[1], "store"), (found[1], found[0], "load")):
            if scope_of(other.source) in ("global", "") or crosses(s):
                directions.setdefault(r.source, set()).add(way)
    return directions


@lru_cache(maxsize=4)
def wanted_versions(body: Stmt, limit: int) -> dict:
    """buffer -> (versions that help, loop variables that number them, versions it cannot do without); at most `limit` versions besides. Every
    attempt to fit a function asks again: the answers for a few bodies are kept."""
    out = {}
    moved = transferred(body)
    crossing = _crossing(body)
    sliced = slices_of(body)
    if uses_cube(body):
        limit = min(limit, MANY_VERSIONS)  # Vector cores that wait for the cube core have nothing to do with more.
    parts = _loops_over_parts(body)
    for b, homes in all_home_loops(body).items():
        if (slices := sliced.get(b)) is not None:
            out[b] = (slices.count, [loop.loop_var for loop in slices.loops], slices.count)
            continue
        # What only the vector pipe touches is used in order: a second version would let nothing overlap.
        loops = homes
        if scope_of(b) == "shared.ub" and b not in moved:
            loops = [loop for loop in loops if distance(loop, b)]
        # Tiles that follow each other have versions only where their halves meet.
        loops = [loop for loop in loops if CHAINED not in loop.annotations or distance(loop, b)]
        required = max((distance(loop, b) + 1 for loop in loops), default=1)
        ways = b in crossing or not on_chip(b)
        n = max(required, max((_versions_in(loop, b, moved, limit, loop.loop_var in parts, ways) for loop in loops), default=1))
        if ways:
            # What goes to the other kind of core and what comes back share the rhythm of the loop, and one wait implies another.
            n = max([n, *(max(late) + 1 for loop in loops if (late := lateness(loop)))])
        out[b] = (n, [loop.loop_var for loop in loops] if n > 1 else [], required)
    return out


def _loops_over_parts(body: Stmt) -> set:
    """The variables of loops inside of a loop with late statements."""
    return {x.loop_var for s in statements(body) if isinstance(s, For) and any(lateness(s)) for x in stmts_of(s.body) if isinstance(x, For)}


@lru_cache(maxsize=4)
def _crossing(body: Stmt) -> frozenset:
    """Tiles that the other kind of core writes."""
    return frozenset(s.value.args[1].source for s in statements(body) if crosses(s))


@lru_cache(maxsize=4)
def slices_of(body: Stmt) -> dict[object, OwnSlices]:
    """Tile -> its slices, of those whose versions these are: not of tiles that late statements share with early ones of an iteration behind."""
    homes = all_home_loops(body)
    return {b: x for b, x in own_slices(body).items() if not any(distance(loop, b) for loop in homes[b])}


def distance(loop: For, buffer) -> int:
    """Iterations after which a statement that `rotate_loops` will run late finds in `buffer` what an early one left, 0 if none does."""
    found = {n for s, n in with_lateness(loop) if buffer in uses_of(s).all}
    late = max(found, default=0) - min(found, default=0)
    return min(late, int(loop.annotations[BEHIND])) if CHAINED in loop.annotations else late


def _versions_in(loop: For, buffer, moved: dict, limit: int, of_parts: bool, crosses_cores: bool) -> int:
    """Versions that help one loop. `of_parts`: over parts of a product, in a loop with late statements: while what the product adds up to leaves L0C,
    loads of the next parts go on. `crosses_cores`: one kind of core writes the buffer and the other kind reads it."""
    wanted = max(int(loop.annotations.get("num_stages", 0)), DEFAULT_VERSIONS)
    if of_parts and scope_of(buffer) == "shared.l1":
        wanted = MANY_VERSIONS
    if crosses_cores and not any(lateness(loop)):
        # The way to the other kind of core and back takes longer than work on little.
        wanted = max(wanted, min(MANY_VERSIONS, BYTES_UNDER_WAY // max(1, tile_bytes(buffer))))
    if scope_of(buffer) == "shared.ub":
        if tile_bytes(buffer) <= SMALL_TILE_BYTES and buffer in moved:
            wanted = max(wanted, BYTES_UNDER_WAY // max(1, tile_bytes(buffer)))
        elif len(moved.get(buffer, ())) > 1:
            # Loaded, changed and stored: the next load may start while the tile before is still on its way out.
            wanted = max(wanted, DEFAULT_VERSIONS + 1)
    trips = const_int(loop.extent)
    n = max(1, min(wanted, limit, trips if trips is not None else limit))
    if trips is not None:
        # A loop that runs again continues with version 0: unless the count divides the trips, that is the version in use last. Of many trips
        # that is one.
        n = next((d for d in range(n, 1, -1) if trips % d == 0), n) if trips < MANY_TRIPS * n else n
    return n


def estimated_temporaries(func: PrimFunc) -> int:
    """Bytes of UB that temporaries of element-wise expressions may need; nobody knows before they are lowered."""
    tiles = [tile_bytes(b) // itemsize(dtype_of(b)) for b in versioned_buffers(func.body) if scope_of(b) == "shared.ub"]
    return UB_TEMPORARIES * max(tiles, default=0) * TEMPORARY_ITEMSIZE


def choose_versions(body: Stmt, chip, sharing: Sharing) -> dict:
    """buffer -> (versions, loop variables that number them) that fit the memories of `chip`, shared out evenly, but first where loops wait for transfers."""
    limit = sharing.versions
    wanted = wanted_versions(body, limit)
    sliced = slices_of(body)
    sizes = {b: tile_bytes(b) // (sliced[b].count if b in sliced else 1) for b in wanted}
    capacities = {scope: chip.capacity_bytes(space) for scope, space in SCOPES.items() if space in (Space.L1, Space.L0C, Space.UB)}
    capacities["shared.ub"] -= sharing.temporaries
    room = _Room(capacities, _turns(body) if sharing.turns else {})
    chosen = {b: required for b, (_, _, required) in wanted.items()}
    for b, n in chosen.items():
        room.take(b, sizes[b] * n, True)

    urgent, hidden = _in_order(body, limit)
    crossing = frozenset() if sharing.stores else _crossing(body)

    def share_out(tiles: list) -> None:
        for n in range(2, limit + 1):
            for b in tiles:
                if b in crossing and n > DEFAULT_VERSIONS:
                    continue  # That is worth less than a second copy of what is stored.
                if n <= wanted[b][0] and chosen[b] == n - 1 and room.take(b, sizes[b]):
                    chosen[b] = n

    tiles = [*urgent, *hidden] if sharing.stores else urgent
    share_out(tiles)
    if sharing.spare:
        capacities["shared.ub"] = room.taken("shared.ub") + sharing.spare
        parts = _loops_over_parts(body)
        share_out([b for b in tiles if scope_of(b) == "shared.ub" and parts & set(wanted[b][1])])
    return {b: (n, wanted[b][1] if n > 1 else []) for b, n in chosen.items()}


class _Room:
    """What is left of memories of so many bytes. `turns`: of some buffers, which loop of those that take turns has them."""

    def __init__(self, capacities: dict, turns: dict):
        self.capacities, self.turns = capacities, turns
        self.always = dict.fromkeys(capacities, 0)
        self.of_turn: dict = {}

    def take(self, b, size: int, whatever: bool = False) -> bool:
        """Give `size` bytes to `b`. False if they are not there; `whatever`: they have to be."""
        scope, turn = scope_of(b), self.turns.get(b)
        if scope not in self.capacities:
            return True
        others = self._most(scope) if turn is None else self.of_turn.get((scope, turn), 0)
        if not whatever and self.always[scope] + others + size > self.capacities[scope]:
            return False
        if turn is None:
            self.always[scope] += size
        else:
            self.of_turn[scope, turn] = others + size
        return True

    def taken(self, scope: str) -> int:
        """Bytes that have been given away."""
        return self.always[scope] + self._most(scope)

    def _most(self, scope: str) -> int:
        return max((n for (where, _), n in self.of_turn.items() if where == scope), default=0)


@lru_cache(maxsize=4)
def _turns(body: Stmt) -> dict:
    """Buffer -> the loop that alone uses it, of loops one behind the other of which one has late statements."""
    if not any(isinstance(s, For) and any(lateness(s)) for s in statements(body)):
        return {}
    everywhere = _users(body)
    out: dict = {}
    for around in (body, *(s.body for s in statements(body) if isinstance(s, For))):
        loops = [s for s in stmts_of(around) if isinstance(s, For) and not is_parallel(s)]
        if len(loops) > 1 and any(any(lateness(s)) for s in loops):
            for loop in loops:
                out.update((b, loop.loop_var) for b, n in _users(loop).items() if n == everywhere[b])
    return out


def _users(body: Stmt) -> Counter:
    """Buffer -> how many statements use it."""
    return Counter(b for s in statements(body) if not isinstance(s, AllocBuffer) for b in own_uses(s).all)


@lru_cache(maxsize=4)
def _in_order(body: Stmt, limit: int) -> tuple[list, list]:
    """Buffers in the order in which they are given versions: those loops wait for most first, and those of which vector work hides the stores."""
    wanted, moved = wanted_versions(body, limit), transferred(body)
    work = _work_around(body, wanted)
    order = sorted(wanted, key=lambda b: work.get(b, 0))
    hidden = [b for b in order if moved.get(b) == {"store"} and work.get(b, 0) >= HIDING_WORK]
    return [b for b in order if b not in hidden], hidden


def _work_around(body: Stmt, wanted: dict) -> dict:
    """UB tile -> elements of vector work, for each byte of it, in the loop that numbers its versions: with little of it, transfers of the tile are what
    the loop waits for."""
    loops = {s.loop_var: s for s in statements(body) if isinstance(s, For)}
    tiles = {b: numbers for b, (_, numbers, _) in wanted.items() if scope_of(b) == "shared.ub"}
    work = {v: sum(map(_elements, statements(loops[v].body))) for v in set().union(*map(set, tiles.values()))}
    return {b: max((work[v] for v in numbers), default=0) / tile_bytes(b) for b, numbers in tiles.items()}


def _elements(s: Stmt) -> int:
    """Elements of the largest UB tile a statement that moves nothing to or from GM works on."""
    if not is_parallel(s) and work_of(s) is None or any(scope_of(b) in ("global", "") for b in uses_of(s).all):
        return 0
    return max((tile_bytes(b) // itemsize(dtype_of(b)) for b in uses_of(s).all if scope_of(b) == "shared.ub"), default=0)


def copies_in(body: Stmt, versioned: Stmt) -> dict:
    """Buffer of `body` -> its versions in `versioned`."""
    return {b: const_int(v.ty.shape[0]) for b, v in zip(versioned_buffers(body), versioned_buffers(versioned), strict=True)}


def lacks_copies(body: Stmt, copies: dict, limit: int) -> bool:
    """True if a tile that transfers fill or store, of which `limit` would allow a second copy, has only one among `copies` (`copies_in`)."""
    moved, wanted = transferred(body), wanted_versions(body, limit)
    return any(b in moved and wanted[b][0] > 1 == n for b, n in copies.items())


def crossing_lacks_copies(body: Stmt, copies: dict, limit: int) -> bool:
    """The same of tiles that the other kind of core writes, and of those in L1 that loads fill beside them, in loops whose late statements run beside
    early ones. In others the cores take turns, and nothing would be gained."""
    crossing, moved, wanted = _crossing(body), transferred(body), wanted_versions(body, limit)
    skewed = [s for s in statements(body) if isinstance(s, For) and any(lateness(s))]
    own, inside = {s.loop_var for s in skewed}, {x.loop_var for s in skewed for x in statements(s) if isinstance(x, For)}
    in_l1 = any(scope_of(b) == "shared.l1" for b in crossing)

    def counts(b) -> bool:
        loaded = in_l1 and b in moved and scope_of(b) == "shared.l1"
        return b in crossing and not own.isdisjoint(wanted[b][1]) or loaded and not inside.isdisjoint(wanted[b][1])

    return any(counts(b) and n == 1 for b, n in copies.items())


class _AddVersions(StmtMutator):
    def __init__(self, versions: dict, slices: dict[object, OwnSlices]):
        self.new, self.index, self.numbers, self.slices = {}, {}, {}, slices
        for b, (n, loop_vars) in versions.items():
            shape = list(b.ty.shape)
            if b in slices:
                shape[slices[b].dim] = imm(slices[b].width)
            self.new[b] = decl_buffer([n, *shape], dtype_of(b), b.name, scope=scope_of(b) or "global")
            self.index[b] = imm(0)
            for var in loop_vars:
                self.numbers.setdefault(var, []).append((b, n))

    def visit_For(self, s: For):
        for b, n in self.numbers.get(s.loop_var, ()):
            self.index[b] = tirx.floormod(s.loop_var, imm(n))
        new = self.generic(s)
        for b, _ in self.numbers.get(s.loop_var, ()):
            self.index[b] = imm(0)  # Another loop may number none.
        return new

    def visit_AllocBuffer(self, s: AllocBuffer):
        new = self.new.get(s.buffer)
        return s if new is None else AllocBuffer(new, annotations=dict(s.annotations), span=s.span)

    def expr(self, e):
        if isinstance(e, TensorLoad):
            indices = [self.expr(i) for i in e.indices]
            if e.source in self.new:
                return BufferLoad(self.new[e.source], [self.index[e.source], *indices])
            return BufferLoad(e.source, indices)
        if isinstance(e, TensorRegion):
            ranges = [Range.from_min_extent(self.expr(r.min), self.expr(r.extent)) for r in e.region]
            if e.source in self.new:
                version = Range.from_min_extent(self.index[e.source], 1)
                if e.source in self.slices:
                    d = self.slices[e.source].dim
                    ranges[d] = Range.from_min_extent(0, ranges[d].extent)
                return tirx.BufferRegion(self.new[e.source], [version, *ranges])
            return tirx.BufferRegion(e.source, ranges)
        return map_children(e, self.expr)

    def visit_BufferStore(self, s: BufferStore):
        value, indices = self.expr(s.value), [self.expr(i) for i in s.indices]
        if s.buffer in self.new:
            return BufferStore(self.new[s.buffer], value, [self.index[s.buffer], *indices], span=s.span)
        return BufferStore(s.buffer, value, indices, span=s.span)

    def visit_Evaluate(self, s: Evaluate):
        if is_op(s, REDUCE):
            # A leading version dimension shifts non-negative dimension numbers.
            attrs = attrs_of(s)
            rank = len(s.value.args[0].region)
            attrs["dim"] = int(attrs["dim"]) % rank
            args = [self.expr(a) for a in s.value.args]
            return tile_op("reduce", *args, span=s.span, **attrs)
        return self.generic(s)


def version_buffers(func: PrimFunc, chip, sharing: Sharing) -> PrimFunc:
    """Apply to a placed Tile IR function; all versions fit the memories of `chip` together, shared out as `sharing` says."""
    if sharing.temporaries is None:
        sharing = replace(sharing, temporaries=estimated_temporaries(func))
    versions = choose_versions(func.body, chip, sharing)
    return func.with_body(_AddVersions(versions, slices_of(func.body))(func.body))


__all__ = [
    "Sharing",
    "choose_versions",
    "copies_in",
    "crossing_lacks_copies",
    "estimated_temporaries",
    "lacks_copies",
    "version_buffers",
    "versioned_bytes",
]
