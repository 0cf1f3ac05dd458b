"""fit: versions of tiles, parts of nests and addresses, so that everything has a place.

Requires: mapped Tile IR after split_rows. Ensures: Ascend IR for both cores together, without flags; every buffer has an address.
"""

from __future__ import annotations

from dataclasses import replace

from ..errors import OutOfMemory
from ..ir import AllocBuffer, BufferStore, Evaluate, For, PrimFunc, Stmt, children, const_int, dtype_of, itemsize, scope_of, statements
from ..isa.base import SCOPES, Space
from ..tile import GEMM, is_op
from ..tile.uses import is_parallel, own_uses, uses_of
from ..tileop.base.layout import tile_bytes
from .driver import Context, Options, Pass, left, run
from .lower.distribute_loops import distribute_loops
from .lower.expand_lane_numbers import expand_lane_numbers
from .lower.float8_codes import float8_codes
from .lower.fold_clears import fold_clears
from .lower.hoist_invariants import hoist_invariants
from .lower.lower_tile_ops import lower_tile_ops
from .memory.plan_memory import bytes_apart, plan_memory
from .memory.version_buffers import (
    DEFAULT_VERSIONS,
    Sharing,
    choose_versions,
    copies_in,
    crossing_lacks_copies,
    estimated_temporaries,
    lacks_copies,
    version_buffers,
    versioned_bytes,
)
from .nests.split_nests import longest_nest, split_nests
from .schedule.interleave_pairs import interleave_pairs
from .schedule.interleave_windows import interleave_windows
from .schedule.rotate_loops import rotate_loops, with_less_skew, with_nests_when_needed
from .stages import Stage
from .suggest_tile import suggest_tile

# Iterations of the parts of element-wise statements whose temporaries do not fit UB: smaller ones cost more instructions.
NEST_LANES = (8192, 2048, 512)
# What a last attempt widens of a tile of bytes: statements that need more run element by element.
WIDENED_BYTES = 8192
# By which what parts of statements of other sizes need differs (assumed: their own temporaries, and where these begin).
PARTS_DIFFER = 16384
# By which more room is left to temporaries, until tiles have fewer versions.
FEWER_BYTES = 4096

TILED = ("local.l0c", "shared.l1", "shared.ub")
"""Memories of tiles."""
STREAMED = "shared.ub"
"""The one whose tiles may be in GM, but for a part."""

VERSIONS = Pass(version_buffers, Stage.VERSIONED, ("chip", "sharing"))
ROTATE = Pass(rotate_loops, Stage.VERSIONED)
CLEARS = Pass(fold_clears, Stage.VERSIONED)
PARTS = Pass(split_nests, Stage.VERSIONED, ("lanes",))
LOWER = Pass(lower_tile_ops, Stage.COMBINED)
CODES = Pass(float8_codes, Stage.COMBINED, ("chip",))
DISTRIBUTE = Pass(distribute_loops, Stage.COMBINED, ("chip",))
HOIST = Pass(hoist_invariants, Stage.COMBINED, ("chip",))
INTERLEAVE = Pass(interleave_windows, Stage.COMBINED, ("chip",))
PAIRS = Pass(interleave_pairs, Stage.COMBINED, ("chip",))
EXPAND = Pass(expand_lane_numbers, Stage.COMBINED)
ADDRESSES = Pass(plan_memory, Stage.COMBINED)
FIT = (VERSIONS, ROTATE, CLEARS, PARTS, LOWER, CODES, DISTRIBUTE, HOIST, INTERLEAVE, PAIRS, EXPAND, ADDRESSES)
"""`split_nests` only if temporaries do not fit otherwise, `distribute_loops`, `hoist_invariants` and `interleave_pairs` only if what they move does."""


class NoSecondCopy(Exception):
    """What stays on chip on its way to the other kind of core leaves no room for what comes next, or for loads."""


def least_bytes(body: Stmt) -> dict[str, int]:
    """Scope of a memory -> bytes that its tiles surely need, whatever their versions and however they share addresses: any one of them, and
    what one statement reads, which is there when it starts, beside what keeps its value for as long as loops around it run."""
    least = dict.fromkeys(TILED, 0)

    def see(s: Stmt, kept: frozenset) -> None:
        if isinstance(s, (Evaluate, BufferStore)) or is_parallel(s):
            uses = uses_of(s)
            held, there = _sizes(kept), _sizes(kept | (uses.all - uses.writes))
            for b in uses.all - kept:
                if (scope := scope_of(b)) in TILED:
                    least[scope] = max(least[scope], held[scope] + tile_bytes(b))
            least.update({scope: max(least[scope], there[scope]) for scope in TILED})
        elif isinstance(s, For):
            kept |= _kept(s)
            see(s.body, kept)
        else:
            for x in children(s):
                see(x, kept)

    see(body, frozenset())
    return least


def _sizes(buffers) -> dict[str, int]:
    """Scope of a memory -> bytes of one copy of each of `buffers` in it."""
    found = dict.fromkeys(TILED, 0)
    for b in buffers:
        if (scope := scope_of(b)) in TILED:
            found[scope] += tile_bytes(b)
    return found


def _kept(loop: For) -> frozenset:
    """Results of products that no iteration of a loop begins anew: all that stores them adds to what they are."""
    uses = uses_of(loop.body)
    sums = {b for b in uses.writes if SCOPES.get(scope_of(b)) is Space.L0C}
    for s in statements(loop.body):
        own = own_uses(s)
        sums -= {b for b in own.writes if not is_op(s, GEMM) or const_int(s.value.args[3]) != 0}
    return frozenset(sums)


def _surely_over(body: Stmt, chip) -> list[Space]:
    """Memories that have no room for what their tiles surely need."""
    return [SCOPES[scope] for scope, n in least_bytes(body).items() if n > chip.capacity_bytes(SCOPES[scope])]


def _in_step(mapped: PrimFunc, context: Context) -> PrimFunc:
    """`mapped` without late statements, if these may run in step."""
    while context.in_step and (simpler := with_less_skew(mapped)) is not None:
        mapped, _ = simpler
    return mapped


def fit(mapped: PrimFunc, context: Context):
    """(function with addresses, memory map): as many versions of each tile as fit beside the temporaries.

    How much room temporaries need is known when they have addresses: a second attempt uses what a careful first one left.

    Raises: OutOfMemory if tiles do not fit even with single copies and in small parts. NoSecondCopy, where late statements may not run in step.
    """
    chip = context.chip
    over = _surely_over(mapped.body, chip)
    if Space.L0C in over:
        mapped = _in_step(mapped, context)  # Whose error says how much sums take that do not fit beside each other.
    hopeless_anyway = bool(over)
    temporaries, failure, least, hopeless = estimated_temporaries(mapped), None, {}, _Hopeless()
    if not context.in_step:
        most = choose_versions(mapped.body, chip, Sharing(context.options.max_versions, 0))
        if crossing_lacks_copies(mapped.body, {b: n for b, (n, _) in most.items()}, context.options.max_versions):
            raise NoSecondCopy  # Without any temporaries even.
    # One plan is for the error.
    ways = [(1, None, None, True)] if hopeless_anyway else list(_attempts(context.options, mapped.body))
    in_vain = None
    for versions, lanes, widened, turns in ways:
        if (lanes or widened) is not None:
            if in_vain is None:
                in_vain = failure.fields["memory"] != Space.UB.name or _parts_in_vain(mapped, context, failure, ways[-1])
            if in_vain:
                continue
        sharing = Sharing(versions, temporaries if lanes is None else 0, turns=turns)
        counts = choose_versions(mapped.body, chip, sharing)
        if widened is None and hopeless.covers(counts, lanes):
            continue
        try:
            chosen = _with_fewer(mapped, context, sharing, lanes, widened)
            break
        except OutOfMemory as error:
            hopeless.add(error.fields["memory"], counts, lanes)
            # The last plan of whole statements tells the user most about the tiles.
            failure = error if lanes is None and widened is None else failure
            memory = error.fields["memory"]
            least[memory] = min(least.get(memory, error.fields["needed"]), error.fields["needed"])
    else:
        less = _with_less(mapped, failure) if context.in_step and not hopeless_anyway else None
        if less is not None:
            simpler, meaning = less
            context.notes.append(f"{meaning}: {failure.fields['memory']} has no room for values of several")
            return fit(simpler, context)
        raise suggest_tile(mapped, chip, failure, least[failure.fields["memory"]]) from None
    if lanes is None and widened is None:
        chosen = _with_more(mapped, context, chosen, sharing) or chosen
    planned, memory_map, versioned, found = chosen
    copies = copies_in(mapped.body, versioned.body)
    if not context.in_step and crossing_lacks_copies(mapped.body, copies, context.options.max_versions):
        raise NoSecondCopy
    context.adopt(found)
    context.cramped |= lacks_copies(mapped.body, copies, context.options.max_versions)
    return planned, memory_map


def _parts_in_vain(mapped: PrimFunc, context: Context, failure: OutOfMemory, last: tuple) -> bool:
    """True if statements in parts will not fit, as the `last` way of `_attempts` lacks much. Nothing else is left to try without a simpler schedule: then this
    is never said."""
    if not context.in_step or _with_less(mapped, failure) is None:
        return False
    versions, lanes, widened, turns = last
    try:
        attempt(mapped, context.attempt(), Sharing(versions, 0, turns=turns), lanes, widened)
    except OutOfMemory as error:
        return error.fields["memory"] != Space.UB.name or _lacking(error) > PARTS_DIFFER
    return False


def _with_less(mapped: PrimFunc, failure: OutOfMemory):
    """(`mapped` with nests made later or with less skew, what that means), None if there is no such way. failure: of what did not fit."""
    return (failure.fields["memory"] == Space.UB.name and with_nests_when_needed(mapped)) or with_less_skew(mapped)


def _with_fewer(mapped: PrimFunc, context: Context, sharing: Sharing, lanes: int | None, widened: int | None):
    """An attempt; if temporaries need more than was thought, another one with as many copies less as that takes.

    Raises: OutOfMemory.
    """
    try:
        return attempt(mapped, context.attempt(), sharing, lanes, widened)
    except OutOfMemory as error:
        if error.fields["memory"] != Space.UB.name or sharing.versions < DEFAULT_VERSIONS or lanes is not None:
            raise
        failure, less = error, replace(sharing, temporaries=sharing.temporaries + _lacking(error))

    def copies(sharing: Sharing) -> dict:
        return {b: n for b, (n, _) in choose_versions(mapped.body, context.chip, sharing).items()}

    before, least, room = copies(sharing), copies(replace(sharing, versions=1)), context.chip.capacity_bytes(Space.UB)
    while (fewer := copies(less)) == before and less.temporaries < room:
        less = replace(less, temporaries=less.temporaries + FEWER_BYTES)
    if all(n <= least[b] for b, n in fewer.items()):
        raise failure
    return attempt(mapped, context.attempt(), less, lanes, widened)


def _lacking(error: OutOfMemory) -> int:
    """Bytes of a memory that are missing."""
    return error.fields["needed"] - error.fields["available"]


def _with_more(mapped: PrimFunc, context: Context, chosen: tuple, careful: Sharing):
    """A better attempt than `chosen`, which was `careful`, now that is known how much room temporaries need: if tiles of different inner loops share addresses
    or, if that gives no load more copies, if none do; then with copies where addresses that tiles share leave room. None if there is none."""
    planned, memory_map, versioned, _ = chosen
    chip, tiles, ub = context.chip, versioned_bytes(versioned), Space.UB

    def with_room(free: int, stores: bool) -> Sharing:
        """free: bytes beside all versions, less than none if these have to share addresses."""
        return replace(careful, temporaries=max(0, free), spare=max(0, -free), stores=stores, turns=True)

    def counts(sharing: Sharing) -> int:
        return sum(n for n, _ in choose_versions(mapped.body, chip, sharing).values())

    taken = memory_map.packed.get(ub, 0)
    packed = max(0, taken - tiles)
    ways = [(packed, True, False)]
    if counts(with_room(0, False)) > (loads := counts(with_room(packed, False))):
        apart = max(0, bytes_apart(planned, ub, chip) - tiles)
        if counts(with_room(apart, False)) > loads:
            ways.insert(0, (apart, False, True))
    if taken < tiles:
        ways.append((taken - chip.capacity_bytes(ub), True, False))
    before = counts(with_room(careful.temporaries, True))
    while ways:
        free, stores, alone = ways.pop(0)
        sharing = with_room(free, stores)
        if free >= careful.temporaries or counts(sharing) <= before:
            continue
        try:
            more = attempt(mapped, context.attempt(), sharing)
        except OutOfMemory as error:
            if stores and error.fields["memory"] == ub.name:
                ways.append((free + _lacking(error), True, True))
            continue
        if not alone or bytes_apart(more[0], ub, chip) <= chip.capacity_bytes(ub):
            return more
    return None


def _attempts(options: Options, body: Stmt):
    """(versions of tiles, iterations of a nest or None, most bytes of widened tiles or None, do loops take turns in memory) in the order in which
    they are tried until everything fits: whole statements with fewer and fewer versions, then smaller and smaller parts of statements, with
    double buffering first, then such parts without large widened tiles."""
    most, longest = max(1, options.max_versions), longest_nest(body)
    yield from ((versions, None, None, turns) for versions in range(most, 0, -1) for turns in (True, False))
    parts = [lanes for lanes in NEST_LANES if lanes < longest]
    yield from ((versions, lanes, None, True) for lanes in parts for versions in sorted({min(2, most), 1}, reverse=True))
    if any(itemsize(dtype_of(s.buffer)) == 1 for s in statements(body) if isinstance(s, AllocBuffer)):
        yield 1, parts[-1] if parts else None, WIDENED_BYTES, True


class _Hopeless:
    """Choices of versions that did not fit. What takes as much in the memory that overflowed, and has no shorter nests, will not fit either."""

    def __init__(self):
        self.failed: list = []

    def add(self, memory: str, counts: dict, lanes: int | None) -> None:
        self.failed.append((memory, self._of(memory, counts), lanes))

    def covers(self, counts: dict, lanes: int | None) -> bool:
        return any(
            all(n >= old for n, old in zip(self._of(memory, counts), found)) and (lanes is None or before is not None and lanes >= before)
            for memory, found, before in self.failed
        )

    @staticmethod
    def _of(memory: str, counts: dict) -> list[int]:
        return [n for b, (n, _) in counts.items() if SCOPES.get(scope_of(b)) is Space[memory]]


def attempt(mapped: PrimFunc, context: Context, sharing: Sharing, lanes: int | None = None, widened: int | None = None):
    """(function with addresses, memory map, function with versions, context) of one choice. Loads that bring more than is needed, because that takes less time,
    bring no more where there is no room.

    Raises: OutOfMemory.
    """
    versioned = run((VERSIONS,), mapped, context, sharing=sharing)
    tiled = run((ROTATE, CLEARS) if lanes is None else (ROTATE, CLEARS, PARTS), versioned, context, lanes=lanes)
    close_loads: list = []
    trying = context.attempt()
    try:
        found = _lowered(tiled, trying, widened, close_loads, sharing.versions == 1)
    except OutOfMemory as error:
        if not close_loads or error.fields["memory"] != Space.UB.name:
            raise
        trying = context.attempt()
        found = _lowered(tiled, trying, widened, None, sharing.versions == 1)
    context.adopt(trying)
    return *found, versioned, context


def _lowered(tiled: PrimFunc, context: Context, widened: int | None, close_loads: list | None, last: bool):
    """(function with addresses, memory map). `widened`, `close_loads`: what may take room in UB. `last`: see `_planned`."""
    with context.timed(LOWER.name):
        options = {"fast_math": context.options.fast_math, "widened_bytes": widened, "close_loads": close_loads}
        combined, warnings = lower_tile_ops(tiled, context.chip, options)
    context.warnings += warnings
    left(LOWER.name, combined, LOWER.stage, context)
    coded = run((CODES,), combined, context)
    # Without room the loop computes it again in every iteration, and each does all of its work.
    for passes in ((DISTRIBUTE, HOIST), (HOIST,)):
        trying = context.attempt()
        moved = run(passes, coded, trying)
        if moved is coded:
            break
        try:
            planned, memory_map = _planned(moved, trying, last)
        except OutOfMemory as error:
            if error.fields["memory"] != Space.UB.name:
                raise  # What they move is vector work.
            continue
        context.adopt(trying)
        return planned, memory_map
    return _planned(coded, context, last)


def _planned(ir: PrimFunc, context: Context, last: bool):
    """(function with addresses, memory map). Temporaries of tiles side by side lie side by side, too; if there is no room and this is the `last` way, they
    take turns."""
    apart = run((INTERLEAVE,), ir, context)
    trying = context.attempt()
    together = run((PAIRS,), apart, trying)
    if together is not apart:
        try:
            found = _with_addresses(together, trying)
        except OutOfMemory:
            if not last:
                raise
        else:
            context.adopt(trying)
            return found
    return _with_addresses(apart, context)


def _with_addresses(ir: PrimFunc, context: Context):
    expanded = run((EXPAND,), ir, context)
    with context.timed(ADDRESSES.name):
        planned, memory_map = plan_memory(expanded, context.chip)
    left(ADDRESSES.name, planned, ADDRESSES.stage, context)
    return planned, memory_map


__all__ = ["FIT", "NEST_LANES", "NoSecondCopy", "STREAMED", "TILED", "attempt", "fit", "least_bytes"]
