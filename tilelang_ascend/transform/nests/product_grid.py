"""Kernels that are plain products: a nest of grid axes around one loop over K, and what a grid of larger blocks would take.

The time is that of a model of what bounds the loop: transfers to L1, or products.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...analysis.tiles.same_work import same_work
from ...analysis.tiles.split_axis import plan_along
from ...ir import (
    Evaluate,
    For,
    ForKind,
    Stmt,
    StmtMutator,
    const_int,
    dtype_of,
    free_vars,
    imm,
    itemsize,
    statements,
    stmts_of,
    substitute,
)
from ...ir.functions import fixed_bytes
from ...ir.grids import is_grid_axis
from ...isa.base import Space
from ...isa.cube import k0_of
from ...isa.units import FRACTAL_ROWS
from ...tile import COPY, FILL, GEMM, is_op
from ...tile.nests import inline_index_binds
from .divided_body import DividedBody, LongerBody

TIMES = 2
"""By how much a tile gets longer in one step; the next step starts from there."""
GAIN = 0.95
"""Share of the time of a block that two have to take at most."""
VERSIONS = 2
"""Of the operands in L1, that have to fit."""
ACCUMULATOR_BYTES = 4
USUAL_STEPS = 16
"""Of a loop over K of unknown length."""


@dataclass(frozen=True)
class ProductGrid:
    """A nest of grid axes around `body`, with one gemm in one loop. extents: of the axes, None for those known at run time only."""

    axes: tuple[For, ...]
    extents: tuple[int | None, ...]
    body: Stmt
    loop: For
    gemm: Evaluate

    @staticmethod
    def of(whole: Stmt, chip) -> ProductGrid | None:
        """None if the kernel is no plain product, or one that `chip` has no price for."""
        axes, body = [], next((s for s in stmts_of(whole) if is_grid_axis(s)), None)
        while body is not None and is_grid_axis(body):
            axes.append(body)
            body = body.body
        # Names of indices (`row = by * 128`) would hide what depends on an axis.
        grid = ProductGrid._around(tuple(axes), tuple(const_int(a.extent) for a in axes), inline_index_binds(body)) if axes else None
        return grid if grid is not None and dtype_of(grid.gemm.value.args[0].source) in chip.prices["mmad"].rates else None

    @staticmethod
    def _around(axes, extents, body: Stmt) -> ProductGrid | None:
        loops = [s for s in stmts_of(body) if isinstance(s, For) and s.kind == ForKind.SERIAL]
        products = [s for s in statements(body) if is_op(s, GEMM)]
        if len(loops) != 1 or len(products) != 1 or not any(s.same_as(products[0]) for s in stmts_of(loops[0].body)):
            return None
        if not all(is_op(s, COPY, GEMM, FILL) for s in stmts_of(loops[0].body)):
            return None
        return ProductGrid(axes, extents, body, loops[0], products[0])

    @property
    def accumulator(self):
        return self.gemm.value.args[2].source

    def rebuilt(self, whole: Stmt) -> Stmt:
        """`whole` with this grid in place of its own."""
        nest = self.body
        for axis, known in zip(reversed(self.axes), reversed(self.extents)):
            extent = axis.extent if known is None else imm(known, dtype_of(axis.extent))
            nest = For(axis.loop_var, axis.min, extent, axis.kind, nest, annotations=dict(axis.annotations), span=axis.span)
        return _Replace(nest)(whole)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """m, n, k of the product."""
        return product_sizes(self.gemm)

    def products(self, chip) -> float:
        """Cycles of the products of one iteration."""
        return product_cycles(self.gemm, chip)

    def rounds(self, chip, blocks: int) -> int:
        """How many of `blocks` a core works on."""
        return blocks if None in self.extents else math.ceil(blocks / chip.num_aic)  # Of an unknown number there are many.

    def cycles(self, chip) -> float:
        """An estimate for the whole grid: per core, transfers to L1 or products, and the way of the result to GM, which overlaps with the next
        block's work if L0C holds two accumulators."""
        a, b, c = (x.source for x in self.gemm.value.args[:3])
        m, n, _ = self.sizes
        products = self.products(chip)
        loads = chip.prices["gm_to_l1"].busy_cycles(sum(map(fixed_bytes, (a, b))), "bytes")
        stored = [s.value.args[1].source for s in statements(self.body) if is_op(s, COPY) and s.value.args[0].source.same_as(c)]
        store = chip.prices["l0c_to_gm"].busy_cycles(m * n * max(map(itemsize, map(dtype_of, stored)), default=ACCUMULATOR_BYTES), "bytes")
        steps = (const_int(self.loop.extent) or USUAL_STEPS) * max(products, loads)
        both = VERSIONS * m * n * ACCUMULATOR_BYTES <= chip.capacity_bytes(Space.L0C)
        blocks = math.prod(n for n in self.extents if n is not None)
        return self.rounds(chip, blocks) * (max(steps, store) if both else steps + store)

    def fits(self, chip) -> bool:
        a, b, _ = (x.source for x in self.gemm.value.args[:3])
        m, n, _ = self.sizes
        operands = VERSIONS * sum(map(fixed_bytes, (a, b)))
        return m * n * ACCUMULATOR_BYTES <= chip.capacity_bytes(Space.L0C) and operands <= chip.capacity_bytes(Space.L1)

    def dims_along(self, axis: int) -> list[int]:
        """Dimensions of the accumulator that may get longer instead of an axis of the grid: those whose operand is loaded from other places."""
        var, operands = self.axes[axis].loop_var, [x.source for x in self.gemm.value.args[:2]]
        loads = [s.value.args for s in stmts_of(self.loop.body) if is_op(s, COPY)]
        moving = {dst.source for src, dst in loads if any(var in free_vars(r.min) for r in src.region)}
        return [dim for dim, operand in enumerate(operands) if operand in moving]

    def coarser(self, axis: int, dim: int) -> ProductGrid | None:
        """The grid with blocks twice as long along `axis` and dimension `dim` of the accumulator, legal or not."""
        if self.extents[axis] is None or self.extents[axis] % TIMES:
            return None
        plan = plan_along(self.body, self.accumulator, dim)
        var = self.axes[axis].loop_var
        body = LongerBody(plan, TIMES)(substitute(self.body, {var: var * TIMES}))
        extents = tuple(n // TIMES if k == axis else n for k, n in enumerate(self.extents))
        return ProductGrid._around(self.axes, extents, body)

    def stands_for(self, other: ProductGrid, axis: int, dim: int) -> bool:
        """True if the second half of each block's work is what the block behind the first one did in `other`, and the halves are independent."""
        plan = plan_along(self.body, self.accumulator, dim, TIMES)
        if plan.refusal is not None:
            return False
        var = self.axes[axis].loop_var
        half = DividedBody(plan, imm(1), TIMES, with_cube=True)(self.body)
        return same_work(substitute(other.body, {var: var * TIMES + 1}), half)


def product_sizes(gemm: Evaluate) -> tuple[int, int, int]:
    """m, n, k of a product, each None where only run time tells."""
    a, _, c = gemm.value.args[:3]
    m, n = (const_int(r.extent) for r in c.region[-2:])
    return m, n, const_int(a.region[-2 if int(gemm.value.attrs["transpose_A"]) else -1].extent)


def product_cycles(gemm: Evaluate, chip) -> float:
    """Of the cube unit, for a product of known size."""
    (m, n, k), kind = product_sizes(gemm), dtype_of(gemm.value.args[0].source)
    fractals = math.ceil(m / FRACTAL_ROWS) * math.ceil(n / FRACTAL_ROWS) * math.ceil(k / k0_of(itemsize(kind)))
    return chip.prices["mmad"].busy_cycles(fractals, kind)


class _Replace(StmtMutator):
    """`nest` in place of the grid."""

    def __init__(self, nest: For):
        self.nest = nest

    def visit_For(self, s: For):
        return self.nest if is_grid_axis(s) else self.generic(s)


def chain(grid: ProductGrid, chip) -> list[ProductGrid]:
    """`grid` and the larger and larger blocks that are worth while, each faster than the one before."""
    found = [grid]
    while (better := _better(found[-1], chip)) is not None:
        found.append(better)
    return found


def _better(grid: ProductGrid, chip) -> ProductGrid | None:
    """The fastest of the grids with blocks twice as large that surely does the same; None if none is clearly faster."""
    limit, found = GAIN * grid.cycles(chip), []
    m, n, _ = grid.sizes
    if TIMES * m * n * ACCUMULATOR_BYTES > chip.capacity_bytes(Space.L0C):
        return None
    for axis in range(len(grid.axes)):
        for dim in grid.dims_along(axis):
            step = grid.coarser(axis, dim)
            if step is not None and step.fits(chip) and step.cycles(chip) <= limit:
                found.append((step.cycles(chip), axis, dim, step))
    for _, axis, dim, coarser in sorted(found, key=lambda x: x[:3]):
        if coarser.stands_for(grid, axis, dim):
            return coarser
    return None


__all__ = ["ACCUMULATOR_BYTES", "GAIN", "USUAL_STEPS", "VERSIONS", "ProductGrid", "chain", "product_cycles", "product_sizes"]
