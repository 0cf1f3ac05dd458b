"""join_blocks: neighbouring blocks that work through the same operands, as those of one head through its keys, become one with taller tiles.

Before:  grid(64): copy(Q[bx * 64 : +64], q) … for k: copy(K[k * 64 : +64], key); gemm(q, key, s) … gemm(p, value, o)   # s: 64 x 64
After:   grid(32): copy(Q[bx * 128 : +128], q) … for k: copy(K[k * 64 : +64], key); gemm(q, key, s) … gemm(p, value, o)   # s: 128 x 64

What every block loads for itself is loaded half as often: a cube core multiplies 64 rows in half of the time their keys take to come. The axis
of the tiles that goes with an axis of the grid gets longer. That means the same if the work on the longer tiles can be divided into equal parts
(analysis/tiles/split_axis.py), and if each part is what the block it stands for did, statement by statement (`Longer`).

Kernels of one product in one loop are the work of `coarsen_blocks`. Here, too, what bounds a block is looked at: transfers, which go on while products and
vector work do. Who lowers sees whether the longer tiles have room (`Context.joined`).

Requires: Tile IR after normalize_clears, before merge_steps. Ensures: same values.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...analysis.tiles.split_axis import SplitPlan, plan_along
from ...analysis.tiles.split_globals import is_global
from ...ir import For, PrimFunc, Stmt, children, const_int, dependent_names, dtype_of, exprs, free_vars, itemsize, statements
from ...ir.functions import fixed_bytes
from ...ir.grids import Grid
from ...isa.base import VECTOR_CORES_PER_BLOCK
from ...tile import GEMM, is_op
from ...tile.uses import is_parallel, moved_regions, uses_of, work_of
from .core_time import Model
from .longer import Longer, ends_outside
from .product_grid import USUAL_STEPS, product_cycles, product_sizes

TIMES = 2
"""Blocks that become one, in each of several rounds."""
GAIN = 0.9
"""Share of the time of two blocks that they may take together at most."""
VECTOR_LEFT = 0.7
"""Share of vector work that is left when steps have become longer and maxima are found before scores are converted: so much was measured of forwards
with 64 and with 128 rows."""
WAYS = 4
"""Transfers through GM of what the vector cores make for a product: a result to GM, to UB, what is made of it to GM, to L1."""


class _Pipes(NamedTuple):
    """Cycles of pipes: loads to L1, other transfers through GM, loads to L0, products, and the work of each of the vector cores."""

    loads: float = 0.0
    crossing: float = 0.0
    to_l0: float = 0.0
    products: float = 0.0
    vector: float = 0.0

    def __add__(self, other: _Pipes) -> _Pipes:
        return _Pipes(*map(operator.add, self, other))

    def times(self, runs: int) -> _Pipes:
        return _Pipes(*(runs * cycles for cycles in self))

    @property
    def longest(self) -> float:
        """Of what goes on at the same time."""
        return max(self.loads + self.crossing, self.to_l0, self.products, self.vector)


def join_blocks(func: PrimFunc, chip, notes: list, joining) -> PrimFunc:
    """`func` with taller tiles in a smaller grid, where that is clearly faster; what was done is told in `notes`, and that it was to `joining`, unless
    that is None: it must not be done."""
    grid = Grid.of(func.body)
    products = [s for s in statements(grid.body) if is_op(s, GEMM)]
    if joining is None or len(products) < 2 or not all(_has_price(s, chip) for s in products):
        return func
    blocks = 1
    while _waits_for_loads(grid, chip) and (found := _joined(grid, chip)) is not None:
        grid, blocks = found, blocks * TIMES
    if blocks == 1:
        return func
    joining.joined = True
    notes.append(f"{blocks} neighbouring blocks are worked on together: they load the same operands")
    return func.with_body(grid.rebuilt(func.body))


def _has_price(product: Stmt, chip) -> bool:
    """True for a product of known size, of a dtype the cube core has."""
    regions = product.value.args[:3]
    return dtype_of(regions[0].source) in chip.prices["mmad"].rates and all(const_int(r.extent) for x in regions for r in x.region[-2:])


def _waits_for_loads(grid: Grid, chip) -> bool:
    """True if loads of a core take longer than its products: else there is nothing to be gained from fewer of them."""
    pipes = _pipes(grid, chip)
    return max(pipes.loads, pipes.to_l0) > pipes.products


def _joined(grid: Grid, chip) -> Grid | None:
    """The grid with two blocks as one, along the axis and the dimension of tiles where that is fastest; None if it is not clearly faster."""
    limit, found = GAIN * _pipes(grid, chip).longest, []
    for plan in _plans(grid.body):
        for k, (axis, extent) in enumerate(zip(grid.axes, grid.extents)):
            even = extent is not None and (extent % TIMES == 0 or extent > 1 and ends_outside(grid.body, axis.loop_var, extent))
            if not even or not _moves(grid.body, axis.loop_var, plan):
                continue
            longer = Longer.of(grid.body, axis.loop_var, plan, TIMES)
            if longer is not None:
                joined = grid.fewer(k, math.ceil(extent / TIMES), longer.body)
                found.append((_pipes(joined, chip).longest, len(found), joined))
    best = min(found, key=lambda way: way[:2], default=None)
    return best[-1] if best is not None and best[0] <= limit else None


def _plans(body: Stmt) -> list[SplitPlan]:
    """What could get longer: what goes with a dimension of the result of a product."""
    found: list[SplitPlan] = []
    for c in dict.fromkeys(s.value.args[2].source for s in statements(body) if is_op(s, GEMM)):
        for d in range(len(c.ty.shape)):
            if not any(p.dims.get(c) == d for p in found):
                found.append(plan_along(body, c, d, 1))
    return [p for p in found if p.dims and p.refusal is None]


def _moves(body: Stmt, var, plan: SplitPlan) -> bool:
    """True if a tile of `plan` is loaded from another place for each value of `var`, or of a name that depends on it."""
    moving = dependent_names(body, var)
    loads = [moved for s in statements(body) if (moved := moved_regions(s)) is not None and moved[1].source in plan.dims]
    return any(moving & free_vars(r.min) for source, _ in loads for r in source.region)


def _pipes(grid: Grid, chip) -> _Pipes:
    """What all blocks take that a cube core and its vector cores work on."""
    model = _Model.of(grid, chip)
    pipes = model.pipes(grid.body, grid.body).times(grid.most_of_core(chip.num_aic))
    return pipes._replace(loads=pipes.loads + model.from_memory(grid))


def _fills(s: Stmt, loops: tuple) -> Iterator[tuple[Stmt, tuple]]:
    """(A nest or a tile op, the loops around it) for all in a statement."""
    if is_parallel(s) or work_of(s) is not None:
        yield s, loops
        return
    for x in children(s):
        yield from _fills(x, (*loops, s) if isinstance(s, For) else loops)


@dataclass(frozen=True)
class _Model:
    """What the pipes of a block take for some work. loaded: operands that come from GM; others are made by the vector cores."""

    chip: Any
    loaded: set

    @staticmethod
    def of(grid: Grid, chip) -> _Model:
        operands = {x.source for s in statements(grid.body) if is_op(s, GEMM) for x in s.value.args[:2]}
        fills = [uses_of(s) for s in statements(grid.body) if is_parallel(s) or work_of(s) is not None]
        return _Model(chip, {b for uses in fills if any(map(is_global, uses.reads)) for b in uses.writes & operands})

    def pipes(self, s: Stmt, around: Stmt) -> _Pipes:
        """Of a statement. around: the body of the innermost loop around it."""
        if is_op(s, GEMM):
            return self.product(s, around)
        if is_parallel(s) or work_of(s) is not None:
            uses = uses_of(s)
            filled = uses.writes & self.loaded if any(map(is_global, uses.reads)) else ()
            if filled:
                return _Pipes(loads=self.transfer(sum(map(fixed_bytes, filled))))
            lanes = Model(self.chip, self.chip.num_aiv, latency=False).cost(s).vector
            return _Pipes(vector=VECTOR_LEFT * lanes / VECTOR_CORES_PER_BLOCK)
        loop = isinstance(s, For)
        inside = sum((self.pipes(x, s.body if loop else around) for x in children(s)), _Pipes())
        return inside.times(const_int(s.extent) or USUAL_STEPS) if loop else inside

    def from_memory(self, grid: Grid) -> float:
        """Cycles until L2 has what all blocks load of operands once, where it does not hold these tensors from launch to launch: cores that do the same wait
        for memory at the same time, and for L2 at the same time."""
        numbers = {a.loop_var: n or 1 for a, n in zip(grid.axes, grid.extents)}
        nbytes: dict = {}
        for s, loops in _fills(grid.body, ()):
            uses = uses_of(s)
            filled, tensors = uses.writes & self.loaded, [b for b in uses.reads if is_global(b) and None not in map(const_int, b.ty.shape)]
            if filled and tensors:
                used = set().union(*(free_vars(e) for x in statements(s) for e in exprs(x)))
                runs = numbers | {x.loop_var: const_int(x.extent) or USUAL_STEPS for x in loops}
                times = math.prod(n for v, n in runs.items() if used & dependent_names(grid.body, v))
                for b in tensors:
                    nbytes[b] = nbytes.get(b, 0) + times * sum(map(fixed_bytes, filled))
        if sum(map(fixed_bytes, nbytes)) <= self.chip.l2_bytes:
            return 0.0
        return sum(min(n, fixed_bytes(b)) for b, n in nbytes.items()) * self.chip.clock_hz / self.chip.hbm_bytes_per_second

    def transfer(self, nbytes: int) -> float:
        return self.chip.prices["gm_to_l1"].busy_cycles(nbytes, "bytes") if nbytes else 0.0

    def product(self, s: Stmt, around: Stmt) -> _Pipes:
        """Its operands are loaded to L0 one after the other, what the loop does not change once for many keys; those the vector cores make have come from them."""
        (a, b), (m, n, k), kind = s.value.args[:2], product_sizes(s), dtype_of(s.value.args[0].source)
        changed, loads, made = uses_of(around).writes, 0.0, 0
        for operand, rows, side in ((a, m, "a"), (b, n, "b")):
            if operand.source in changed:
                nbytes = rows * k * itemsize(kind)
                loads += self.chip.prices[f"l1_to_l0{side}"].busy_cycles(nbytes, "bytes")
                made += nbytes if operand.source not in self.loaded and not self.chip.has_path("L0C", "UB") else 0
        return _Pipes(crossing=self.transfer(WAYS * made), to_l0=loads, products=product_cycles(s, self.chip))


__all__ = ["join_blocks"]
