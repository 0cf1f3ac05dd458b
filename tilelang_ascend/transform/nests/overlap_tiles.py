"""overlap_tiles: the second half of the vector work on a tile may be done beside the first half of that on the next one.

Before:  for t [persistent]: copy(X[t], x); y = f(x); reduce_sum(y, s); s = g(s); y = h(y, s); copy(y, Y[t])
After:   for t [persistent, skew "0 0 0 1 1 1"]: the same

A tile is a chain of dependent instructions, with a barrier in front of each that waits for everything before it. With two halves of about as many
steps side by side, which `rotate_loops` and `interleave_windows` see to, one barrier serves both, and there are half as many of them. What goes from
one half to the other takes room for two tiles, and the last tile ends later: that is worth it only where the vector unit is what a core waits for.
Here a model says whether it may be; the machine model decides (`pipeline.lower`).

Tiles of a grid have no order among each other, but halves of two of them share the memory of a core: what both halves use of UB, and one of them
writes, needs a version for each tile, and therefore has to be overwritten first by every tile. A tensor that is written is used by one statement only.

Requires: mapped Tile IR, before `skew_stages`. Ensures: annotation `tl.skew` on persistent loops: 1 for statements of the second half, 0 for others.
"""

from __future__ import annotations

import math

from ...analysis.index.known_lets import known_lets
from ...analysis.tiles.core_kinds import uses_cube
from ...analysis.tiles.home_loops import all_home_loops
from ...ir import AllocBuffer, Bind, BufferStore, Evaluate, For, PrimFunc, Stmt, While, const_int, scope_of, seq, statements, stmts_of
from ...ir.functions import fixed_bytes
from ...isa.base import ITEMSIZE
from ...isa.units import REPEAT_BYTES
from ...tile import COPY, CUMMAX, CUMSUM, REDUCE, is_op
from ...tile.uses import INDEPENDENT, SKEW, Uses, is_output, is_parallel, loads_in, on_chip, uses_of, work_of
from .core_time import Model, operations

LEAST_TILES = 4
"""Tiles of a core: the first half of the first one, and the second half of the last one, have nothing beside them."""
LEAST_LATENCY = 1 / 10
"""Share of the time of vector work that has to be latency."""
BESIDE_TRANSFERS = 0.9
"""Share of the time of transfers that vector work has to take: the model leaves out what banks of UB cost."""
OTHER_STEPS = 3
"""Dependent instructions of a tile op of which nothing else is known, about."""


def overlap_tiles(func: PrimFunc, chip, overlapping) -> PrimFunc:
    """Apply to a mapped Tile IR function. overlapping: an object whose `may_overlap` becomes true if the halves of tiles may be worth it, and whose
    `overlap` says whether to do it."""
    if uses_cube(func.body) or chip.orders("V") or any(isinstance(s, While) for s in statements(func.body)):
        return func  # Nobody can tell how often a loop runs that data ends.
    found = {}
    for s in stmts_of(func.body):
        if isinstance(s, For) and INDEPENDENT in s.annotations and (late := _halves(func, s, chip)) is not None:
            found[s] = For(s.loop_var, s.min, s.extent, s.kind, s.body, annotations={**dict(s.annotations), SKEW: late}, span=s.span)
    overlapping.may_overlap |= bool(found)
    if not found or not overlapping.overlap:
        return func
    return func.with_body(seq([found.get(s, s) for s in stmts_of(func.body)]))


def _halves(func: PrimFunc, loop: For, chip) -> str | None:
    """By how many iterations statements of a loop over tiles are late; None if that is illegal, or cannot be worth it."""
    body, cores = stmts_of(loop.body), const_int(func.attrs["ascend.block_dim"])
    most = known_lets(func.body, blocks=cores).const_int_bound(loop.extent).max_value
    if most < LEAST_TILES or any(loads_in(e) for e in (loop.min, loop.extent)) or not all(map(_plain, body)) or not _tensors_once(body):
        return None
    cost, steps = Model(chip, cores).cost(loop.body), list(map(_steps, body))
    latency = sum(steps) * chip.prices["simple"].latency_cycles
    if latency < LEAST_LATENCY * cost.vector or cost.vector < BESIDE_TRANSFERS * max(cost.loads, cost.stores):
        return None
    homes = all_home_loops(func.body)
    own = {b for b, found in homes.items() if len(found) == 1 and found[0].same_as(loop)}
    ways = []
    for cut in range(1, len(body)):
        early, late = ([s for s in part if not _is_name(s)] for part in (body[:cut], body[cut:]))
        shared = _shared(early, late)
        if sum(steps[:cut]) and sum(steps[cut:]) and not _is_name(body[cut]) and shared <= own:
            ways.append((max(sum(steps[:cut]), sum(steps[cut:])), sum(map(fixed_bytes, shared)), cut))
    if not ways:
        return None
    _, _, cut = min(ways)
    return " ".join(str(int(n >= cut and not _is_name(s))) for n, s in enumerate(body))


def _is_name(s: Stmt) -> bool:
    return isinstance(s, (AllocBuffer, Bind))


def _plain(s: Stmt) -> bool:
    """True for a name, a nest or a tile op that says nothing, and does not go by what it finds in a tile or a tensor."""
    if is_output(s) or any(scope_of(b) == "local.var" for b in uses_of(s).all):
        return False
    if isinstance(s, Bind):
        return not loads_in(s.value)
    if isinstance(s, Evaluate):
        return work_of(s) is not None and not any(loads_in(e) for a in s.value.args for e in _places(a))
    return isinstance(s, AllocBuffer) or is_parallel(s)


def _places(arg) -> list:
    """Expressions in an argument of a tile op that say where it works."""
    region = getattr(arg, "region", None)
    return [arg] if region is None else [e for r in region for e in (r.min, r.extent)]


def _tensors_once(body: list[Stmt]) -> bool:
    """True if no tensor that is written is used by another statement: tiles need not tell each other about it."""
    uses = [uses_of(s) for s in body]
    written = {b for u in uses for b in u.writes if not on_chip(b)}
    return all(sum(b in u.all for u in uses) == 1 and not any(b in u.reads for u in uses) for b in written)


def _shared(early: list[Stmt], late: list[Stmt]) -> set:
    """What both sides use, and one of them writes."""
    first, second = _uses(early), _uses(late)
    return first.all & second.all & (first.writes | second.writes)


def _uses(body: list[Stmt]) -> Uses:
    found = [uses_of(s) for s in body]
    return Uses(frozenset().union(*(u.reads for u in found)), frozenset().union(*(u.writes for u in found)))


def _steps(s: Stmt) -> int:
    """Dependent vector instructions of a statement, about."""
    if is_parallel(s):
        return sum(max(1, operations(x.value)) for x in statements(s) if isinstance(x, BufferStore))
    if _is_name(s):
        return 0
    if is_op(s, COPY):
        return int(all(on_chip(b) for b in uses_of(s).all))
    if is_op(s, REDUCE, CUMSUM, CUMMAX):
        source = s.value.args[0]
        along = const_int(source.region[int(s.value.attrs["dim"])].extent) or 1
        lanes = REPEAT_BYTES // ITEMSIZE[str(source.source.ty.dtype)]
        return (
            OTHER_STEPS - 1 + math.ceil(math.log2(max(1, along / lanes)))
            if is_op(s, REDUCE)
            else OTHER_STEPS * math.ceil(math.log2(along + 1))
        )
    return OTHER_STEPS


__all__ = ["overlap_tiles"]
