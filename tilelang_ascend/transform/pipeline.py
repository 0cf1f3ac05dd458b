"""The way from Tile IR to Ascend IR: passes in phases, each with the stage it leaves (`stages.py`); `driver.py` runs them.

Between `NESTS` and `CORES` several ways are tried: tiles as they are or in parts, versions and addresses (`fit`), and the synchronisation.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Callable

from ..analysis.dependence.trace import TooManyTraces
from ..analysis.index.data_names import DataNames
from ..analysis.tiles.core_kinds import uses_cube, uses_vector
from ..analysis.tiles.large_sums import accumulators, large_sums, uses_of_sums
from ..collector import PAUSED_COLLECTOR
from ..errors import OutOfMemory, TilelangAscendError, UnsupportedConstruct, location_of
from ..ir import (
    AllocBuffer,
    For,
    IfThenElse,
    IRModule,
    PrimFunc,
    Stmt,
    While,
    children,
    const_int,
    same_program,
    scope_of,
    statements,
    structural_equal,
)
from ..ir.functions import launches
from ..isa.base import SCOPES, Space
from ..tile.uses import forget_uses, is_parallel
from .canonicalize.bind_elements import bind_elements
from .canonicalize.check_bounds import check_bounds
from .canonicalize.drop_continues import drop_continues
from .canonicalize.expand_im2col import expand_im2col
from .canonicalize.fit_operands import fit_operands
from .canonicalize.fold_conditions import fold_conditions
from .canonicalize.forward_copies import forward_copies
from .canonicalize.forward_elements import forward_elements
from .canonicalize.known_extents import known_extents
from .canonicalize.merge_k_steps import merge_k_steps
from .canonicalize.name_elements import name_elements
from .canonicalize.name_variables import name_variables
from .canonicalize.normalize_clears import normalize_clears
from .canonicalize.own_k_slices import own_k_slices
from .canonicalize.propagate_copies import propagate_copies
from .canonicalize.raise_copies import raise_copies
from .canonicalize.resolve_tensor_views import resolve_tensor_views
from .canonicalize.resolve_views import resolve_views
from .canonicalize.separate_products import separate_products
from .canonicalize.separate_views import separate_views
from .canonicalize.skip_blocks import skip_blocks
from .canonicalize.skip_masks import skip_masks
from .canonicalize.split_launches import split_launches
from .canonicalize.stack_planes import stack_planes
from .canonicalize.stage_operands import stage_operands
from .canonicalize.unflatten_nests import unflatten_nests
from .canonicalize.vectorize_loops import vectorize_loops
from .canonicalize.wrap_products import wrap_products
from .cores.check_elements import check_elements
from .cores.close_cores import close_cores
from .cores.meet_cores import meet_cores
from .cores.resolve_block_index import resolve_block_index
from .cores.split_cores import split_cores
from .driver import Apart, Context, Direct, Options, Pass, left, run
from .fit import FIT, STREAMED, TILED, NoSecondCopy, fit
from .lower.fresh_elements import fresh_elements
from .memory.direct_channels import direct_channels
from .memory.hint_l2 import hint_l2
from .memory.separate_stores import separate_stores
from .memory.version_buffers import DEFAULT_VERSIONS, MANY_VERSIONS
from .nests.batch_blocks import batch_blocks
from .nests.carry_elements import carry_elements
from .nests.coarsen_blocks import coarsen_blocks
from .nests.free_tiles import free_tiles
from .nests.gather_loads import gather_loads
from .nests.hoist_loads import hoist_loads
from .nests.join_blocks import join_blocks
from .nests.keep_operands import keep_operands
from .nests.lengthen_tiles import lengthen_tiles
from .nests.map_grid import map_grid
from .nests.merge_steps import merge_steps
from .nests.narrow_masks import narrow_masks
from .nests.narrow_maxima import narrow_maxima
from .nests.narrow_nests import narrow_nests
from .nests.overlap_tiles import overlap_tiles
from .nests.pair_blocks import pair_blocks
from .nests.pair_tiles import pair_tiles
from .nests.part_accumulators import part_accumulators
from .nests.part_products import part_products
from .nests.pick_elements import pick_elements
from .nests.reverse_loops import reverse_loops
from .nests.shorten_steps import shorten_steps
from .nests.slice_rows import slice_rows
from .nests.split_dynamic_nests import split_dynamic_nests
from .nests.split_masks import split_masks
from .nests.split_rows import split_rows
from .nests.split_tiles import equal_parts, split_tiles, why_whole
from .nests.spread_loops import spread_loops
from .nests.stage_atomics import stage_atomics
from .nests.stage_globals import stage_globals
from .nests.stream_reductions import stream_reductions
from .place.drop_dead_fills import drop_dead_fills
from .place.float_integers import float_integers
from .place.narrow_channels import narrow_channels
from .place.place_buffers import place_buffers
from .place.refuse_large_tiles import most_bytes, refuse_large_tiles
from .place.spill_tiles import spill_tiles
from .schedule.chain_tiles import chain_tiles
from .schedule.expand_workspaces import expand_workspaces
from .schedule.prefetch_loads import prefetch_loads
from .schedule.rotate_loops import with_less_skew
from .schedule.schedule_vector import schedule_vector
from .schedule.skew_stages import skew_stages
from .stages import Stage
from .sync.edges import JumpsInTheWay
from .sync.guard_jumps import guard_jumps
from .sync.insert_sync import insert_sync, plan_and_insert_sync

LAUNCHES = Pass(split_launches, Stage.TILE)
"""All others run on the function of one launch."""
CANONICALIZE = (
    Pass(drop_continues, Stage.TILE),
    Pass(name_variables, Stage.TILE),
    Pass(wrap_products, Stage.TILE),
    Pass(known_extents, Stage.TILE),
    Pass(check_bounds, Stage.TILE, changes=False),
    Pass(resolve_tensor_views, Stage.TILE),
    Pass(forward_elements, Stage.TILE),
    Pass(bind_elements, Stage.TILE),
    Pass(name_elements, Stage.TILE),
    Pass(stage_operands, Stage.TILE, ("chip",)),
    Pass(separate_views, Stage.TILE),
    Pass(resolve_views, Stage.TILE),
    Pass(vectorize_loops, Stage.TILE, ("may_vectorize",)),
    Pass(unflatten_nests, Stage.TILE),
    Pass(raise_copies, Stage.TILE),
    Pass(stack_planes, Stage.TILE),
    Pass(propagate_copies, Stage.TILE),
    Pass(forward_copies, Stage.TILE),
    Pass(fit_operands, Stage.TILE, ("chip",)),
    Pass(own_k_slices, Stage.TILE),
    Pass(expand_im2col, Stage.TILE),
    Pass(free_tiles, Stage.TILE, ("notes",)),
    Pass(fold_conditions, Stage.TILE),
    Pass(normalize_clears, Stage.TILE),
    Pass(keep_operands, Stage.TILE, ("chip", "notes", "may_keep")),
    Pass(coarsen_blocks, Stage.TILE, ("chip", "notes", "may_coarsen")),
    Pass(join_blocks, Stage.TILE, ("chip", "notes", "joining")),
    Pass(merge_k_steps, Stage.TILE, ("chip",)),
    Pass(merge_steps, Stage.TILE, ("chip", "notes", "merging")),
    Pass(shorten_steps, Stage.TILE, ("chip", "notes", "merging")),
    Pass(skip_masks, Stage.TILE),
    Pass(skip_blocks, Stage.TILE, ("notes",)),
    Pass(separate_products, Stage.TILE, ("chip", "notes", "apart")),
)
"""What the user said, in fewer ways of saying it."""
PLACE = (
    Pass(place_buffers, Stage.PLACED),
    Pass(drop_dead_fills, Stage.PLACED),
    Pass(narrow_channels, Stage.PLACED, ("fast_math",)),
    Pass(float_integers, Stage.PLACED),
    Pass(refuse_large_tiles, Stage.PLACED, ("chip",), changes=False),
    Pass(spread_loops, Stage.PLACED, ("chip", "notes", "may_coarsen")),
    Pass(lengthen_tiles, Stage.PLACED, ("chip", "notes", "may_coarsen")),
)
"""A core for every statement, a memory for every buffer."""
BEGIN = (*CANONICALIZE, *PLACE)
PICK = (Pass(pick_elements, Stage.PLACED, ("chip",)),)
"""Only if tiles do not fit otherwise."""
SUMS = (Pass(part_accumulators, Stage.PLACED, ("chip", "notes")),)
"""Only if accumulators do not fit, and what is done with them cannot be divided with them."""
SPILL = (
    Pass(spill_tiles, Stage.PLACED, ("chip", "notes", "room")),
    Pass(stage_operands, Stage.PLACED, ("chip", "placed")),
)
"""Only if they do not fit in parts either: ops on what was a tile get tiles of their own, as those on tensors did before."""
NESTS = (
    Pass(narrow_nests, Stage.PLACED),
    Pass(split_dynamic_nests, Stage.PLACED),
    Pass(stage_atomics, Stage.PLACED, ("chip", "uncut")),
    Pass(reverse_loops, Stage.PLACED),
    Pass(stage_globals, Stage.PLACED, ("chip", "uncut", "inner")),
    Pass(batch_blocks, Stage.PLACED, ("chip", "notes", "may_coarsen")),
)
"""Element-wise loops work on tiles."""
TILES = (Pass(split_tiles, Stage.PLACED, ("parts", "scope")),)
"""Only if tiles do not fit otherwise."""
GRID = (
    Pass(map_grid, Stage.MAPPED, ("chip",)),
    Pass(hoist_loads, Stage.MAPPED),
)
"""Blocks divide the work."""
MAP = (
    Pass(hint_l2, Stage.PLACED, ("chip", "notes", "may_hint")),
    Pass(pair_blocks, Stage.PLACED, ("chip", "pairing")),
    *GRID,
)
"""The same, and what they need once goes past L2."""
STREAM = (*GRID, Pass(stream_reductions, Stage.MAPPED, ("parts", "scope")))
"""Only if these parts cannot be independent."""
SHARE = (
    Pass(carry_elements, Stage.MAPPED),
    Pass(split_rows, Stage.MAPPED, ("notes",)),
    Pass(narrow_masks, Stage.MAPPED),
    Pass(narrow_maxima, Stage.MAPPED),
    Pass(part_products, Stage.MAPPED, ("chip", "parting")),
    Pass(slice_rows, Stage.MAPPED, ("chip",)),
)
"""Cores divide the work."""
CROSS = (Pass(direct_channels, Stage.MAPPED, ("chip", "direct")),)
"""What goes from one kind of core to the other does so on chip, in several ways until one fits."""
SCHEDULE = (
    Pass(separate_stores, Stage.MAPPED),
    Pass(gather_loads, Stage.MAPPED, ("few_flags",)),
    Pass(overlap_tiles, Stage.MAPPED, ("chip", "overlapping")),
    Pass(skew_stages, Stage.MAPPED, ("notes",)),
    Pass(pair_tiles, Stage.MAPPED, ("chip", "pairing")),
    Pass(chain_tiles, Stage.MAPPED, ("chaining",)),
    Pass(expand_workspaces, Stage.MAPPED),
    Pass(split_masks, Stage.MAPPED),
)
"""Transfers and the two kinds of core overlap."""
SYNCHRONISE = (
    Pass(fresh_elements, Stage.COMBINED),
    Pass(schedule_vector, Stage.COMBINED, ("chip",)),
    Pass(guard_jumps, Stage.COMBINED),
    Pass(insert_sync, Stage.COMBINED, ("chip",)),
)
"""`guard_jumps` only if flags between the cores cannot be kept in step around jumps."""
CORES = (
    Pass(split_cores, Stage.SPLIT),
    Pass(meet_cores, Stage.SPLIT),
    Pass(prefetch_loads, Stage.SPLIT, ("queue_depth",)),
    Pass(resolve_block_index, Stage.SPLIT),
    Pass(check_elements, Stage.SPLIT, ("chip",), changes=False),
    Pass(close_cores, Stage.SPLIT),
)
"""One program for each kind of core."""
PASSES = (
    LAUNCHES,
    *BEGIN,
    *PICK,
    *SUMS,
    *SPILL[:1],
    *NESTS,
    *TILES,
    *MAP,
    *STREAM[len(GRID) :],
    *SHARE,
    *CROSS,
    *SCHEDULE,
    *FIT,
    *SYNCHRONISE,
    *CORES,
)
"""All of them, in the order in which they run, the first time."""


MOST_TRACES = 64
"""Executions of a kernel with skewed loops that are looked at for its flags: two such loops of unknown trip counts have a hundred, and take a minute."""
SPILLED_ROOM = (1 / 4, 1 / 16)
"""Shares of UB that tiles may take which are not spilled: the rest is for parts of the others, and for temporaries."""
SUMS_APART = (Apart.LOOPS, Apart.ALL)
"""How products for sums that L0C has no room for are taken apart, if nothing else helps: as few as possible first."""
SIDE_BY_SIDE = (
    ("overlap_tiles", "may_overlap", "the second half of the work on a tile is done beside the first half of that on the next one"),
    ("pair_blocks", "may_pair_blocks", "two neighbouring blocks are worked on side by side: one barrier serves both"),
    ("pair_tiles", "may_pair", "two tiles of a core are worked on side by side: while one of them waits, the other one goes on"),
)
"""(option, what says that it may be worth it, note) of ways to have work on two tiles of a core beside each other, of which the machine model has to say
whether they are faster."""
TRIED_PARTS = 8
"""The number of parts of tiles is at most this many times what tiles without temporaries need."""


@dataclass
class Lowered:
    """The result of `lower`.

    tile_ir: the input. ascend_ir: one or two functions for each launch (docs/ir.md). memory_maps: one for each launch, `.text()` is a
    table. stages: (pass name, IR after it) if asked for, launch after launch. notes, warnings: what the user should know.
    """

    tile_ir: PrimFunc
    ascend_ir: IRModule
    memory_maps: list[Any]
    stages: list = field(default_factory=list)
    notes: list = field(default_factory=list)
    warnings: list = field(default_factory=list)


def lower(
    func: PrimFunc,
    chip,
    *,
    options: Options | None = None,
    keep_stages: bool = False,
    times: dict[str, float] | None = None,
    measure: Callable | None = None,
) -> Lowered:
    """Lower a Tile IR function for `chip`. `times` is given the seconds each pass took, by its name. `measure`: what a lowered program takes on the
    chip, None if that cannot be told; without it, ways that only time decides on are not tried.

    Raises: TilelangAscendError subclasses with the user's line; OutOfMemory if tiles do not fit even with single copies.
    """
    context = Context(chip, options or Options(), keep_stages, times=times)
    functions: dict = {}
    memory_maps = []
    with PAUSED_COLLECTOR, ExitStack() as after:
        after.callback(forget_uses)
        modules = launches(run((LAUNCHES,), func, context))
        for k, module in enumerate(modules):
            (part,) = module.functions.values()
            known = len(context.notes)
            lowered, memory_map = _in_less_time(part, context, measure if len(modules) == 1 else None)
            if len(modules) > 1:
                context.notes[known:] = [f"launch {k + 1}: {note}" for note in context.notes[known:]]
            functions |= dict(lowered.functions.items())
            memory_maps.append(memory_map)
    return Lowered(func, IRModule(functions), memory_maps, context.stages, context.notes, context.warnings)


def _in_less_time(func: PrimFunc, context: Context, measure: Callable | None):
    """(functions of the cores, memory map) of a function with one grid; with the halves of tiles, or tiles, side by side if that takes less time."""
    attempt = context.attempt()
    lowered = _lower_launch(func, attempt)
    # What fits in parts only takes long to lower, and has no room for values of two tiles.
    ways = SIDE_BY_SIDE if measure is not None and attempt.parts == 1 and not _data_decides(func.body) else ()
    for option, note in [
        (option, note) for option, may, note in ways if getattr(attempt, may) and getattr(context.options, option) is None
    ]:
        other, found = context.attempt(), None
        other.options = replace(context.options, **{option: True})
        try:
            found = _lower_launch(func, other)
        except TilelangAscendError:
            continue
        if _takes_less(found[0], lowered[0], partial(measure, chip=context.chip)):
            lowered, attempt = found, other
            context.notes.append(note)
    context.adopt(attempt)
    return lowered


def _data_decides(body: Stmt) -> bool:
    """True if elements of tensors decide how often a loop runs, or whether a branch does: without them nobody can tell what that takes."""
    data = DataNames(body)

    def see(s: Stmt) -> bool:
        if is_parallel(s):
            return False
        heads = [s.extent] if isinstance(s, For) else [s.condition] if isinstance(s, (IfThenElse, While)) else []
        return any(map(data.is_data, heads)) or any(map(see, children(s)))

    return see(body)


def _takes_less(module: IRModule, than: IRModule, measure: Callable) -> bool:
    """True if a program surely takes less time than another one."""
    if same_program(module, than):
        return False  # As where UB had no room for values of two tiles.
    times = measure(module), measure(than)
    return None not in times and times[0] < times[1]


def _lower_launch(func: PrimFunc, context: Context):
    """(functions of the cores, memory map) of a function with one grid. Sums that L0C has no room for, whatever is tried, are added up by vector
    cores."""
    try:
        return _with_nests(func, context)
    except OutOfMemory as error:
        far_too_large = error.fields["needed"] > most_bytes(context.chip, Space[error.fields["memory"]])
        if far_too_large or not large_sums(accumulators(func.body), context.chip.capacity_bytes(Space.L0C)):
            raise
        failure = error
    for apart in SUMS_APART:
        attempt = context.attempt()
        attempt.apart = apart
        try:
            lowered = _with_nests(func, attempt)
        except TilelangAscendError:
            continue
        context.adopt(attempt)
        return lowered
    raise failure


def _with_nests(func: PrimFunc, context: Context):
    """The same. Serial loops over elements are nests, unless there is no room for one, or another reason against it."""
    attempt = context.attempt()
    try:
        lowered = _with_blocks(func, attempt)
    except TilelangAscendError:
        if not context.options.vectorize_loops or structural_equal(vectorize_loops(func), func):
            raise
        attempt = context.attempt()
        attempt.options = replace(context.options, vectorize_loops=False)
        lowered = _with_blocks(func, attempt)
    context.adopt(attempt)
    return lowered


def _with_blocks(func: PrimFunc, context: Context):
    """The same. Blocks of mixed kernels that load the same are one, unless their tiles have no room then, or have to be worked on in more parts, or their
    steps to stay shorter, than without."""
    attempt, lowered = context.attempt(), None
    try:
        lowered = _with_steps(func, attempt)
    except OutOfMemory:
        if not attempt.joined:
            raise
    if lowered is None or attempt.joined and (attempt.parts > 1 or attempt.narrow or attempt.short):
        alone = context.attempt()
        alone.may_join = False
        other = _with_steps(func, alone)
        if lowered is None or _crowded(alone) <= _crowded(attempt):
            attempt, lowered = alone, other
    context.adopt(attempt)
    return lowered


def _crowded(context: Context) -> tuple:
    """How short of room tiles were in what a context has found; less is better."""
    return context.parts, not context.merged, context.narrow


def _with_steps(func: PrimFunc, context: Context):
    """The same. Steps of attention that are only worth it if tiles follow each other without a pause are shorter if they do not."""
    attempt = context.attempt()
    lowered = _with_long_steps(func, attempt)
    if attempt.relied and not attempt.chained:
        shorter = context.attempt()
        shorter.following = False
        try:
            lowered, attempt = _with_long_steps(func, shorter), shorter
        except OutOfMemory:
            pass
    context.adopt(attempt)
    return lowered


def _with_long_steps(func: PrimFunc, context: Context):
    """The same. Steps of attention as long as products in parts allow, as fit whole, or as they are: what
    fits only in more parts of tiles than shorter steps need is not worth it, nor is what fits in parts of products with few columns only."""
    found, tried = [], []
    for pieces in (1, 2, 4, 0) if context.options.merge_steps else ():
        attempt = context.attempt()
        attempt.in_pieces = pieces
        try:
            placed = run(BEGIN, func, attempt)
            if any(structural_equal(placed, other) for other in tried):
                continue
            tried.append(placed)
            lowered = _lower_placed(placed, attempt)
        except OutOfMemory:
            if not attempt.merged:
                raise
            lowered = None
        if not attempt.merged or lowered is not None and attempt.parts == 1 and not attempt.narrow:
            context.adopt(attempt)
            return lowered
        if lowered is not None:
            found.append((lowered, attempt))
        if not attempt.pieced:
            break  # Other numbers would make the same.
    attempt = context.attempt()
    attempt.options = replace(context.options, merge_steps=False)
    lowered, best = min([*found, (_lower_placed(run(BEGIN, func, attempt), attempt), attempt)], key=lambda way: _crowded(way[1]))
    best.short = context.options.merge_steps and not best.merged
    context.adopt(best)
    return lowered


def _lower_placed(placed: PrimFunc, context: Context):
    """The same of a function after `BEGIN`."""
    inner = context.attempt()
    nested = run(NESTS, placed, inner, uncut=False, inner=False)
    try:
        synced, memory_map, attempt = _in_parts(nested, inner)
    except OutOfMemory as failure:
        inner = context.attempt()
        synced, memory_map, attempt = _with_other_nests(placed, nested, inner, failure)
    context.adopt(inner)
    context.adopt(attempt)
    return run(CORES, synced, context), memory_map


def _with_other_nests(placed: PrimFunc, cut: PrimFunc, context: Context, failure: OutOfMemory):
    """What `_in_parts` makes of `placed` with other nests on tensors, where those of `cut`, which are in parts along their outermost loop, do not fit.
    A nest that works through a long row in steps needs all of the row in each, a whole one may be divided with it; one whose outermost loop is
    short, and which reaches far in every iteration, is cut along the next. Elements read one by one are picked by nests, which may be divided. What
    still does not fit is kept in GM, unless it is worked on in a way that tensors are not. Accumulators that do not fit are made in parts; nests that
    leave them as they were where they did not fit are tried in parts only.

    Raises: the `failure` of `cut`, if these do not fit either.
    """
    tried, sums = [cut], context.attempt()
    memory = failure.fields["memory"]
    if memory not in (Space.L0C.name, Space.UB.name):
        raise failure
    overflows = [(uses_of_sums(cut.body), failure)] if memory == Space.L0C.name else []
    parted = run(SUMS, placed, sums)
    ways = [(NESTS, True, False, 0), (NESTS, False, True, 0), ((*PICK, *NESTS), False, False, 0), ((*PICK, *NESTS), True, False, 0)]
    spilled = [((*SPILL, *NESTS), False, inner, room) for inner, room in zip((False, True), SPILLED_ROOM)]
    if memory == Space.L0C.name:
        ways = [(parted, *way) for way in ((NESTS, False, False, 0), *ways, *spilled)]
    else:
        ways = [(placed, *way) for way in (*ways, *spilled)] + [(parted, *way) for way in spilled]
    for ir, passes, uncut, inner, room in ways:
        trying = context.attempt()
        if ir is not placed:
            trying.adopt(sums)
        known = uses = None
        try:
            other = run(passes, ir, trying, uncut=uncut, inner=inner, room=room, placed=True)
            if any(structural_equal(other, nested) for nested in tried):
                continue
            tried.append(other)
            uses = uses_of_sums(other.body)
            known = next((error for same, error in overflows if same == uses), None)
            found = _in_parts(other, trying, known=known)
        except OutOfMemory as error:
            if error.fields["memory"] == Space.L0C.name and known is None:
                overflows.append((uses, error))
            continue
        except UnsupportedConstruct:
            continue
        context.adopt(trying)
        return found
    raise failure


def _in_parts(nested: PrimFunc, context: Context, axes: int = 2, known: OutOfMemory | None = None, outer: OutOfMemory | None = None):
    """(function with addresses and synchronisation, memory map, the context it was found in): tiles as they are if they fit, else in as few
    parts as do, along one axis or, if that is not enough, along up to `axes` of them. `known`: why they do not fit as they are, if that is known;
    `outer`: why what they are parts of did not.

    Raises: OutOfMemory if tiles do not fit even with single copies and in small parts.
    """
    try:
        if known is not None:
            raise known
        return _shared(nested, context.attempt())
    except OutOfMemory as error:
        failure = error
    scope = next((scope for scope in TILED if SCOPES[scope].name == failure.fields["memory"]), None)
    if scope is None:
        raise failure
    least = max(2, -(-failure.fields["needed"] // failure.fields["available"]))
    several = range(least, TRIED_PARTS * least)
    numbers = equal_parts(nested, several, scope)
    independent = _ways(TILES, nested, context, numbers, scope)
    trial = _Trial(failure, outer)
    found = _first_with_room(independent, trial)
    if found is None and axes > 1 and independent:
        fewest = trial.failed.get(independent[0][2])
        found = _Trial(failure)(independent[0], partial(_in_parts, axes=axes - 1, known=fewest, outer=failure))
    if found is None and scope == STREAMED:
        trial = _Trial(failure, outer)
        found = _first_with_room(_ways(STREAM, nested, context, numbers, scope), trial)
        if found is None and not trial.in_vain:
            left_over = [n for n in _apart(several) if n not in trial.failed]
            found = _first_with_room(_ways(STREAM, nested, context, left_over, scope), trial)
    if found is not None:
        return found
    reason = why_whole(nested, next(iter(numbers), least), scope)
    if reason is not None and known is None:
        failure.notes.append((f"no part of the rows can be worked on alone: {reason.reason}", location_of(reason.span)))
    raise failure


def _apart(numbers) -> list[int]:
    """Those of ascending `numbers` that are a quarter larger than the one before: parts need not be as large as can be."""
    out: list[int] = []
    for n in numbers:
        if not out or 4 * n >= 5 * out[-1]:
            out.append(n)
    return out


def _ways(passes: tuple, nested: PrimFunc, context: Context, numbers: list[int], scope: str) -> list:
    """(`nested` in parts by the last of `passes`, a context of its own, the number) for those of `numbers` of parts for which that is legal."""
    ways, ground = [], context.attempt()
    whole = run(passes[:-1], nested, ground)
    streamed = "one after the other, as often as a result of all of them is waited for"
    how = streamed if passes is STREAM else "each of which is a block"
    for parts in numbers:
        inner = context.attempt()
        inner.adopt(ground)
        divided = run(passes[-1:], whole, inner, parts=parts, scope=scope)
        if divided is not whole:
            inner.parts = parts
            inner.notes.append(f"tiles are larger than {SCOPES[scope].name}: they are worked on in {parts} parts, {how}")
            ways.append((divided, inner, parts))
    return ways


class _Trial:
    """Tries one way after the other, until parts need as much room as the whole, `failure`, or as what that is a part of, `outer`: more of them
    will, too."""

    def __init__(self, failure: OutOfMemory, outer: OutOfMemory | None = None):
        self.memory, self.in_vain = failure.fields["memory"], False
        whole = [f.fields["needed"] for f in (failure, outer) if f is not None and f.fields["memory"] == self.memory]
        self.needed = min(whole)
        self.failed: dict[int, OutOfMemory] = {}
        """Number of parts -> why they do not fit."""

    def __call__(self, way, lowered=None):
        """What `lowered` makes of a way of `_ways`, None if it does not fit."""
        divided, inner, parts = way
        if self.in_vain:
            return None
        try:
            synced, memory_map, found = (lowered or _shared)(divided, inner.attempt())
        except OutOfMemory as error:
            self.failed[parts] = error
            self.in_vain = error.fields["memory"] == self.memory and error.fields["needed"] >= self.needed
            return None
        inner.adopt(found)
        return synced, memory_map, inner


def _first_with_room(ways: list, trial: _Trial):
    """What `trial` makes of the first of `ways` that fits or, where that leaves tiles only one copy that should have two, of the first with
    twice as many parts: transfers of one part beside the work on another are worth more than larger parts."""
    found = _first(ways, trial)
    if found is None or not found[2].cramped or uses_cube(ways[0][0].body):
        return found  # Smaller parts would let the cube core read its other operand more often.
    fewest = next(parts for _, inner, parts in ways if inner is found[2])
    more = next((way for way in ways if way[2] >= 2 * fewest), None)
    other = trial(more) if more is not None else None
    return found if other is None or other[2].cramped else other


def _first(ways: list, attempt: Callable):
    """What `attempt` makes of the first of `ways` for which it does not give up, if it does not for any later one either; None if there is
    none. Failures take time: it looks at few of many."""
    low, high, best = 0, 0, None
    while low < len(ways):
        best = attempt(ways[high])
        if best is not None:
            break
        low, high = high + 1, min(2 * high + 1, len(ways) - 1)
    while best is not None and low < high:
        middle = (low + high) // 2
        found = attempt(ways[middle])
        low, high, best = (low, middle, found) if found is not None else (middle + 1, high, best)
    return best


def _shared(func: PrimFunc, context: Context):
    """The same for tiles as they are, shared out between the cores. A value on its way to the other kind of core that is kept on chip has to have room
    for each iteration it is late: only where no way has it do late statements run in step."""
    mapped = func if "ascend.block_dim" in func.attrs else run(MAP, func, context)
    ways, failure, late = _crossings(run(SHARE, mapped, context), context), None, False
    for in_step in (False, True) if len(ways) > 1 else (True,):
        if failure is not None and not late:
            break  # In step they are already.
        for crossing, made in ways:
            attempt = context.attempt()
            attempt.adopt(made)
            attempt.in_step = in_step
            scheduled = run(SCHEDULE, crossing, attempt)
            late |= with_less_skew(scheduled) is not None
            try:
                synced, memory_map, found = _synchronise(scheduled, attempt)
            except NoSecondCopy:
                continue
            except OutOfMemory as error:
                failure = error
                continue
            attempt.adopt(found)
            if attempt.fences and (better := _with_fewer_flags(crossing, scheduled, made, context, attempt)) is not None:
                synced, memory_map, attempt = better
            context.adopt(attempt)
            return synced, memory_map, context
    raise failure


def _with_fewer_flags(crossing: PrimFunc, scheduled: PrimFunc, made: Context, context: Context, known: Context):
    """`crossing` scheduled so that it needs fewer flags than `scheduled`, with addresses and synchronisation, the memory map and the context; None if that
    takes no less barriers than in the context `known`."""
    attempt = context.attempt()
    attempt.adopt(made)
    attempt.in_step, attempt.few_flags = known.in_step, True
    other = run(SCHEDULE, crossing, attempt)
    if structural_equal(other, scheduled):
        return None
    try:
        synced, memory_map, found = _synchronise(other, attempt)
    except (NoSecondCopy, OutOfMemory):
        return None
    attempt.adopt(found)
    return (synced, memory_map, attempt) if attempt.fences < known.fences else None


def _crossings(shared: PrimFunc, context: Context) -> list[tuple[PrimFunc, Context]]:
    """(`shared` with what crosses between cores on chip, a context of its own): as much as can first, nothing last."""
    paths = context.chip.has_path("L0C", "UB") or context.chip.has_path("UB", "L1")
    choice = paths and context.options.direct_channels and uses_cube(shared.body) and uses_vector(shared.body)
    ways: list = []
    for direct in (Direct.ALL, Direct.TO_UB, Direct.NONE) if choice else (Direct.NONE,):
        found = context.attempt()
        crossing = run(CROSS, shared, found, direct=direct)
        if direct is Direct.NONE or crossing is not shared and not any(structural_equal(crossing, other) for other, _ in ways):
            ways.append((crossing, found))
    return ways


def _synchronise(mapped: PrimFunc, context: Context):
    """(function with addresses and synchronisation, memory map, the context it was found in). Where flags run out and barriers for all
    pipes take their place, or rings of more than four flags are too many, fewer versions of a tile are worth more."""
    best = _with_sync(mapped, context.attempt())
    for limit in (MANY_VERSIONS, DEFAULT_VERSIONS):
        notes, stopped = _scarcity(best)
        if _most_versions(best[0]) > limit and (notes or stopped and limit == MANY_VERSIONS):
            fewer = replace(context, options=replace(context.options, max_versions=limit))
            best = min(best, _with_sync(mapped, fewer.attempt()), key=_scarcity)
    return best[:3]


def _most_versions(func: PrimFunc) -> int:
    """Of a tile of a function with addresses."""
    declared = (s.buffer for s in statements(func.body) if isinstance(s, AllocBuffer))
    return max((const_int(b.ty.shape[0]) for b in declared if SCOPES.get(scope_of(b), Space.GM) is not Space.GM), default=1)


def _scarcity(found: tuple) -> tuple[int, int]:
    """Barriers for all pipes, and rings that became single flags."""
    return found[3]


def _with_sync(mapped: PrimFunc, context: Context):
    """The same for one limit of versions. Loops with unknown trip counts one behind the other, of which each is skewed, can be executed in too many
    ways to look at: they stay in step."""
    fresh, level, guard, sync = SYNCHRONISE
    in_step = with_less_skew(mapped)
    most = None if in_step is None else MOST_TRACES
    inner = context.attempt()
    planned, memory_map = fit(mapped, inner)
    leveled = run((fresh, level), planned, inner).with_attr("ascend.chip", context.chip.name)

    def with_flags(ir: PrimFunc):
        with context.timed(sync.name):
            return plan_and_insert_sync(ir, context.chip, most)

    try:
        try:
            synced, plan = with_flags(leveled)
        except JumpsInTheWay:
            synced, plan = with_flags(run((guard,), leveled, inner))
    except TooManyTraces:
        simpler, meaning = in_step
        context.notes.append(f"{meaning}: there are too many ways to run them for all flags to be looked at")
        return _with_sync(simpler, context)
    context.adopt(inner)
    left(sync.name, synced, sync.stage, context)
    context.notes += plan.notes
    context.fences = plan.scarcity[0]
    return synced, memory_map, context, plan.scarcity


__all__ = ["PASSES", "Lowered", "Options", "lower"]
