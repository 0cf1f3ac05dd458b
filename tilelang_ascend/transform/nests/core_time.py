"""What vector work takes on a core, by a model of its pipes: good enough to see whether latency takes most of the time."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from ...analysis.tiles.split_axis import SplitPlan
from ...analysis.tiles.split_globals import is_global
from ...ir import (
    AllocBuffer,
    BufferStore,
    Evaluate,
    For,
    Stmt,
    TensorLoad,
    TensorRegion,
    Var,
    children,
    const_int,
    dtype_of,
    expr_children,
    exprs,
    itemsize,
    statements,
)
from ...ir.functions import fixed_bytes
from ...isa.base import Space
from ...isa.units import REPEAT_BYTES
from ...tile.uses import is_parallel, loads_in, moved_regions, on_chip, uses_of, work_of

GAIN = 0.8
"""Share of the time that longer work has to take at most."""
CLOSE = 1.03
"""As good as the best, if it is longer: the model leaves out what each piece of work costs the scalar unit."""
UB_SHARE = 1 / 6
"""Of UB, that all longer tiles together may take: their versions and temporaries need the rest."""
MOST_TIMES = 64
OP_STEPS = 3
"""Dependent instructions of a tile op on the vector core, about: reductions have several."""
TRANSFER_ITEMS, VECTOR_ITEMS = 4, 2
"""Instructions issued for a transfer, with its flags on both sides, and for a vector instruction, with its barrier."""


@dataclass(frozen=True)
class Cost:
    """Cycles of the pipes of a vector core for some work."""

    vector: float = 0.0
    scalar: float = 0.0
    loads: float = 0.0
    stores: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(a + b for a, b in zip(self.parts, other.parts)))

    def __mul__(self, runs: int) -> Cost:
        return Cost(*(runs * a for a in self.parts))

    @property
    def parts(self) -> tuple[float, ...]:
        return self.vector, self.scalar, self.loads, self.stores


@dataclass(frozen=True)
class Model:
    """What work takes with what is in `plan` `times` as long, while `cores` do the same. latency: instructions wait for what they depend on."""

    chip: Any
    cores: int
    plan: SplitPlan = field(default_factory=SplitPlan)
    times: int = 1
    latency: bool = True

    def cycles(self, body: Stmt, runs: int) -> float:
        """Of `runs` times `body`: what takes longest each time, and a way through all pipes."""
        return self.often(self.cost(body), runs)

    def often(self, cost: Cost, runs: int, first: Cost | None = None) -> float:
        """The same of work of a known `cost`; `first`: of the piece of it that goes through all pipes before anything can be beside it, if not all."""
        prices, way = self.chip.prices, (first or cost).parts
        latency = prices["gm_to_ub"].latency_cycles + prices["ub_to_gm"].latency_cycles
        return runs * max(cost.parts) + sum(way) - max(way) + latency

    def cost(self, s: Stmt) -> Cost:
        if is_parallel(s):
            return self.nest(s)
        if isinstance(s, Evaluate) and work_of(s) is not None:
            return self.op(s) + self.numbers(s)
        inside = sum(map(self.cost, children(s)), self.numbers(s))
        return inside * (const_int(s.extent) or 1) if isinstance(s, For) else inside

    def together(self, s: Stmt) -> Cost:
        """The same of a statement done for several blocks: a single store is one for each of them."""
        if not isinstance(s, BufferStore):
            return self.cost(s)
        return self.vector(max(1, operations(s.value)), self.times * itemsize(dtype_of(s.value)))

    def nest(self, nest: For) -> Cost:
        loops = [s for s in statements(nest) if isinstance(s, For)]
        lanes = math.prod(const_int(s.extent) or 1 for s in loops)
        lanes *= self.times if any(s.loop_var in self.plan.nest_vars for s in loops) else 1
        total = Cost()
        for s in statements(nest):
            if isinstance(s, BufferStore):
                total += self.vector(max(1, operations(s.value)), lanes * itemsize(dtype_of(s.value)))
        uses = uses_of(nest)
        total += sum((self.transfer("gm_to_ub", lanes * itemsize(dtype_of(b))) for b in uses.reads if is_global(b)), Cost())
        return total + sum((self.transfer("ub_to_gm", lanes * itemsize(dtype_of(b))) for b in uses.writes if is_global(b)), Cost())

    def op(self, s: Evaluate) -> Cost:
        regions = [a for a in s.value.args if isinstance(a, TensorRegion)]
        nbytes = [fixed_bytes(r.source) * (self.times if r.source in self.plan.dims else 1) for r in regions if on_chip(r.source)]
        moved = moved_regions(s)
        if not nbytes:
            return Cost()
        if moved is not None and len(nbytes) < len(moved):
            return self.transfer("gm_to_ub" if on_chip(moved[1].source) else "ub_to_gm", max(nbytes))
        return self.vector(1 if work_of(s).independent else OP_STEPS, max(nbytes))

    def row(self, s: Stmt) -> Cost:
        """Of transfers without flags of their own, with what is read one by one to know the place."""
        moved = [x for x in statements(s) if moved_regions(x) is not None]
        scalar = sum(map(self.numbers, statements(s)), Cost()).scalar + len(moved) * self.chip.issue_cycles
        return replace(sum(map(self.op, moved), Cost()), vector=0.0, scalar=scalar)

    def numbers(self, s: Stmt) -> Cost:
        """Of elements that a statement itself reads one by one."""
        return Cost(scalar=sum(len(loads_in(e)) for e in exprs(s)) * self.chip.prices["scalar_load"].interval_cycles)

    def vector(self, steps: int, nbytes: int) -> Cost:
        """Of dependent vector instructions."""
        cycles = self.latency * self.chip.prices["simple"].latency_cycles + nbytes / REPEAT_BYTES
        return Cost(vector=cycles, scalar=VECTOR_ITEMS * self.chip.issue_cycles) * steps

    def transfer(self, price: str, nbytes: int) -> Cost:
        """Of a transfer while all cores make theirs."""
        shared = self.chip.hbm_bytes_per_second if price == "gm_to_ub" else self.chip.l2_write_bytes_per_second
        cycles = max(self.chip.prices[price].busy_cycles(nbytes, "bytes"), nbytes * self.cores * self.chip.clock_hz / shared)
        issue = TRANSFER_ITEMS * self.chip.issue_cycles
        return Cost(scalar=issue, loads=cycles) if price == "gm_to_ub" else Cost(scalar=issue, stores=cycles)


def operations(value) -> int:
    """Instructions of an expression, those of indices left out."""
    if isinstance(value, (TensorLoad, Var)) or not expr_children(value):
        return 0
    return 1 + sum(map(operations, expr_children(value)))


def is_short(body: Stmt, extents, chip) -> bool:
    """True if the body of a grid could gain from longer tiles: none of them is too large to be twice as long, and latency and issue take more
    than the rest if all are."""
    tiles = [s.buffer for s in statements(body) if isinstance(s, AllocBuffer) and on_chip(s.buffer)]
    if not tiles or 2 * max(map(fixed_bytes, tiles)) > UB_SHARE * chip.capacity_bytes(Space.UB):
        return False
    return gains(body, Model(chip, chip.num_aiv if None in extents else min(chip.num_aiv, math.prod(extents))))


def gains(s: Stmt, one: Model) -> bool:
    """True if latency and issue take more than the rest of a statement."""
    tiles = {b for b in uses_of(s).all if on_chip(b)}
    loops = {x.loop_var: None for x in statements(s) if is_parallel(x)}
    longer = replace(one, plan=SplitPlan(dict.fromkeys(tiles, 0), loops), times=MOST_TIMES).cost(s)
    return bool(tiles) and max(longer.parts) <= GAIN * MOST_TIMES * max(one.cost(s).parts)


def best_times(cycles, rounds, extent: int, even: bool, tiles, chip) -> int:
    """How many times as long work on `tiles` is best, 1 if it should stay. `cycles(times)`: an estimate, for as many `rounds(times)`. `even`: that
    divides the `extent`."""
    room = UB_SHARE * chip.capacity_bytes(Space.UB) / sum(map(fixed_bytes, tiles))
    found: dict = {}
    last = math.inf
    for n in range(1, min(extent, MOST_TIMES, math.floor(room)) + 1):
        if rounds(n) < last and (not even or extent % n == 0):  # Longer work for as many rounds is no faster.
            found[n], last = cycles(n), rounds(n)
    least = min(found.values(), default=0.0)
    return max(n for n, x in found.items() if x <= CLOSE * least) if found and least <= GAIN * found[1] else 1


__all__ = ["CLOSE", "Cost", "Model", "best_times", "gains", "is_short", "operations"]
