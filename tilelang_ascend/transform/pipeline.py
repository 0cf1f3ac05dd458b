"""The road from Tile IR to Ascend IR, as a list of passes one can read aloud.

    check_bounds          accesses that surely leave their tile are errors
    resolve_tensor_views  tensors in GM seen as another shape or dtype are one tensor
    forward_elements      elements of tiles that the cube core needs are read where the tile was loaded from
    bind_elements         elements of tiles in conditions, bounds and arguments become scalars, read only where they count
    stage_operands        tile ops on tensors in GM work on tiles in between
    expand_im2col         patches of images the cube core cannot gather become element-wise work
    resolve_views         views of buffers become accesses to their storage
    forward_copies        remove staging buffers that only pass a tile on
    own_k_slices          parts of K that are not whole pieces of the cube core, and single rows, get tiles of their own
    normalize_clears      "start from zero" is a fill in front of the accumulation
    merge_k_steps         gemm loops that walk K in small steps take larger ones
    place_buffers         cube or vector for every statement, a memory for every buffer, transfers between the cores
    drop_dead_fills       remove fills and loads nobody reads
    narrow_nests          element-wise loops longer than their tiles run only the iterations that are inside
    chunk_nests           element-wise loops over GM with an extent of run time become loops of constant extent
    stage_atomics         atomic updates of elements become atomic transfers of tiles, those of tiles plain updates
    face_stores           element-wise loops run in the direction in which their stores walk
    stage_globals         tiles for element-wise work directly on GM
    map_grid              any grid on the cores of the chip
    hoist_loads           loads of the same data in every tile move in front of the loop over tiles
    split_rows            vector work divided between the two vector cores of a block
    version_buffers       several copies of a tile, so that transfers and compute overlap
    fold_clears           zero fills of accumulators become conditions of the first Mmad
    cut_nests             element-wise statements in parts, only if their temporaries do not fit otherwise
    lower_tile_ops        tile ops become instructions
    float8_codes          8-bit floats are bytes where the hardware does not know them
    hoist_invariants      instructions that compute the same in every iteration move in front of the loop
    expand_lane_numbers   lane numbers come from vector additions
    plan_memory           addresses
    level_vector          independent vector instructions together, with fewer barriers between them
    insert_sync           flags and barriers
    split_cores           one program for each kind of core
    issue_ahead           loads of the next iteration in front of a long computation of this one
    resolve_block_index   block numbers on vector cores of mixed kernels
    check_elements        no element of a dtype the scalar unit does not know is read or written
    close_cores           a barrier for all pipes at the end of each program
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import OutOfMemory
from ..ir import IRModule, PrimFunc
from ..isa.base import Space
from .bind_elements import bind_elements
from .check_bounds import check_bounds
from .check_elements import check_elements
from .chunk_nests import chunk_nests
from .close_cores import close_cores
from .cut_nests import cut_nests
from .drop_dead_fills import drop_dead_fills
from .expand_im2col import expand_im2col
from .expand_lane_numbers import expand_lane_numbers
from .face_stores import face_stores
from .float8_codes import float8_codes
from .fold_clears import fold_clears
from .forward_copies import forward_copies
from .forward_elements import forward_elements
from .hoist_invariants import hoist_invariants
from .hoist_loads import hoist_loads
from .insert_sync import plan_and_insert_sync
from .issue_ahead import issue_ahead
from .level_vector import level_vector
from .lower_tile_ops import lower_tile_ops
from .map_grid import map_grid
from .merge_k_steps import merge_k_steps
from .narrow_nests import narrow_nests
from .normalize_clears import normalize_clears
from .own_k_slices import own_k_slices
from .place_buffers import place_buffers
from .plan_memory import plan_memory
from .resolve_block_index import resolve_block_index
from .resolve_tensor_views import resolve_tensor_views
from .resolve_views import resolve_views
from .split_cores import split_cores
from .split_rows import split_rows
from .stage_atomics import stage_atomics
from .stage_globals import stage_globals
from .stage_operands import stage_operands
from .suggest_tile import refuse_large_tiles, suggest_tile
from .version_buffers import DEFAULT_VERSIONS, choose_versions, estimated_temporaries, version_buffers, versioned_bytes

MAX_VERSIONS = 4
# Iterations of the parts of element-wise statements whose temporaries do not fit UB: smaller ones cost more instructions.
NEST_LANES = (8192, 2048, 512)


@dataclass
class Options:
    """What a user may ask of the compiler.

    max_versions: upper limit of copies of one tile (2 = double buffering, 1 = none); capacity decides below it.
    fast_math: element functions with fewer instructions whose error grows with the argument (see `tileop/math_*.py`).
    """

    max_versions: int = MAX_VERSIONS
    fast_math: bool = False


@dataclass
class Lowered:
    """The result of `lower`.

    tile_ir: the input. ascend_ir: one or two functions (docs/ir.md). memory_map: `.text()` is a table. stages: (pass name, IR after
    it) if asked for. block_dim: blocks to launch. notes, warnings: what the user should know.
    """

    tile_ir: PrimFunc
    ascend_ir: IRModule
    memory_map: Any
    block_dim: int
    stages: list = field(default_factory=list)
    notes: list = field(default_factory=list)
    warnings: list = field(default_factory=list)


def lower(func: PrimFunc, chip, *, options: Options | None = None, keep_stages: bool = False) -> Lowered:
    """Lower a Tile IR function for `chip`.

    Raises: TilelangAscendError subclasses with the user's line; OutOfMemory if tiles do not fit even with single copies.
    """
    options = options or Options()
    stages: list = []

    def record(name, ir):
        if keep_stages:
            stages.append((name, ir))
        return ir

    placed = record("resolve_tensor_views", resolve_tensor_views(check_bounds(func)))
    placed = record("forward_elements", forward_elements(placed))
    placed = record("bind_elements", bind_elements(placed))
    placed = record("stage_operands", stage_operands(placed, chip))
    placed = record("expand_im2col", expand_im2col(placed))
    placed = record("resolve_views", resolve_views(placed))
    placed = record("forward_copies", forward_copies(placed))
    placed = record("own_k_slices", own_k_slices(placed))
    placed = record("normalize_clears", normalize_clears(placed))
    placed = record("merge_k_steps", merge_k_steps(placed, chip))
    placed = record("place_buffers", place_buffers(placed, chip))
    placed = refuse_large_tiles(record("drop_dead_fills", drop_dead_fills(placed)), chip)
    placed = record("narrow_nests", narrow_nests(placed))
    placed = record("chunk_nests", chunk_nests(placed))
    placed = record("stage_atomics", stage_atomics(placed, chip))
    placed = record("face_stores", face_stores(placed))
    placed = record("stage_globals", stage_globals(placed, chip))
    placed = record("map_grid", map_grid(placed, chip))
    placed = record("hoist_loads", hoist_loads(placed))
    placed = record("split_rows", split_rows(placed))
    fitting, synced, sync_plan = _synchronise(placed, chip, options)
    for name, ir in fitting.stages:
        record(name, ir)
    record("insert_sync", synced)
    module = record("split_cores", split_cores(synced))
    module = record("issue_ahead", issue_ahead(module, chip.queue_depth))
    module = check_elements(record("resolve_block_index", resolve_block_index(module)), chip)
    module = record("close_cores", close_cores(module))
    block_dim = int(synced.attrs["ascend.block_dim"])
    return Lowered(func, module, fitting.memory_map, block_dim, stages, list(sync_plan.notes), fitting.warnings)


def _synchronise(placed: PrimFunc, chip, options: Options):
    """(fitting, function with synchronisation, its plan). Where flags run out and barriers for all pipes take their place, two versions of
    a tile are worth more than four."""
    best = _with_sync(_fit(placed, chip, options), chip)
    if best[2].notes and options.max_versions > DEFAULT_VERSIONS:
        other = _with_sync(_fit(placed, chip, replace(options, max_versions=DEFAULT_VERSIONS)), chip)
        best = min(best, other, key=lambda found: len(found[2].notes))
    return best


def _with_sync(fitting: _Fitting, chip):
    leveled = level_vector(fitting.planned, chip)
    stages = [*fitting.stages, ("plan_memory", fitting.planned), ("level_vector", leveled)]
    synced, plan = plan_and_insert_sync(leveled.with_attr("ascend.chip", chip.name), chip)
    return replace(fitting, stages=stages), synced, plan


@dataclass
class _Fitting:
    """One way in which all tiles and temporaries have a place; `stages` as in `Lowered`."""

    stages: list
    planned: PrimFunc
    memory_map: Any
    warnings: list


def _attempts(options: Options):
    """(versions of tiles, iterations of a nest or None) in the order in which they are tried until everything fits: whole statements
    with fewer and fewer versions, then smaller and smaller parts of statements, with double buffering first."""
    most = max(1, options.max_versions)
    yield from ((versions, None) for versions in range(most, 0, -1))
    yield from ((versions, lanes) for lanes in NEST_LANES for versions in sorted({min(2, most), 1}, reverse=True))


def _fit(placed: PrimFunc, chip, options: Options) -> _Fitting:
    """Lower with as many versions of each tile as fit beside the temporaries.

    How much room temporaries need is known when they have addresses: a second attempt uses what a careful first one left.
    """
    temporaries, failure, least = estimated_temporaries(placed), None, {}
    for versions, lanes in _attempts(options):
        if lanes is not None and failure.fields["memory"] != Space.UB.name:
            continue
        try:
            chosen = _attempt(placed, chip, options, versions, temporaries if lanes is None else 0, lanes)
            break
        except OutOfMemory as error:
            # The last plan of whole statements tells the user most about the tiles.
            failure = error if lanes is None else failure
            memory = error.fields["memory"]
            least[memory] = min(least.get(memory, error.fields["needed"]), error.fields["needed"])
    else:
        raise suggest_tile(placed, chip, failure, least[failure.fields["memory"]]) from None
    if lanes is not None:
        return chosen
    used = min(chosen.memory_map.peak(Space.UB), chosen.memory_map.total(Space.UB))
    needed = max(0, used - versioned_bytes(chosen.stages[0][1]))
    if needed >= temporaries or _counts(placed, versions, chip, needed) == _counts(placed, versions, chip, temporaries):
        return chosen
    try:
        return _attempt(placed, chip, options, versions, needed, None)
    except OutOfMemory:
        return chosen


def _counts(placed: PrimFunc, versions: int, chip, temporaries: int) -> list[int]:
    return [n for n, _ in choose_versions(placed.body, versions, chip, temporaries).values()]


def _attempt(placed: PrimFunc, chip, options: Options, versions: int, temporaries: int, lanes: int | None) -> _Fitting:
    versioned = version_buffers(placed, versions, chip, temporaries)
    tiled = fold_clears(versioned)
    stages = [("version_buffers", versioned), ("fold_clears", tiled)]
    if lanes is not None:
        tiled = cut_nests(tiled, lanes)
        stages.append(("cut_nests", tiled))
    combined, warnings = lower_tile_ops(tiled, chip, {"fast_math": options.fast_math})
    coded = float8_codes(combined, chip)
    stages += [("lower_tile_ops", combined), ("float8_codes", coded)]
    hoisted = hoist_invariants(coded, chip)
    if hoisted is not coded:
        try:
            expanded = expand_lane_numbers(hoisted)
            planned, memory_map = plan_memory(expanded, chip)
            stages_hoisted = [*stages, ("hoist_invariants", hoisted), ("expand_lane_numbers", expanded)]
            return _Fitting(stages_hoisted, planned, memory_map, warnings)
        except OutOfMemory:
            pass  # Without room the loop computes it again in every iteration.
    expanded = expand_lane_numbers(coded)
    planned, memory_map = plan_memory(expanded, chip)
    return _Fitting([*stages, ("expand_lane_numbers", expanded)], planned, memory_map, warnings)


__all__ = ["Lowered", "Options", "lower"]
