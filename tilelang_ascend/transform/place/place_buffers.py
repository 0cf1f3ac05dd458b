"""place_buffers: decide for every statement cube or vector and for every tile buffer its memory, from data flow.

A tile buffer gets one instance for each side that uses it:

* `acc` in L0C   — gemm accumulates into it,
* `l1`  in L1    — gemm reads it as A or B,
* `ub`  in UB    — anything element-wise, reductions, scalar access.

`placement.py` decides which; here one walk writes it down. A use whose instance is stale gets a transfer in front of it. Between the
cores a transfer goes through a workspace in GM: L0C -> GM -> UB and UB -> GM -> L1; `direct_channels` takes what it can off that way later. The transfer stands in front of
a loop in which every iteration would repeat it, in front of a branch that needs it either way, and in front of what elements of tiles steer:
only vector cores can tell what happens there.

Before:  gemm(A_shared, B_shared, C_local); Parallel: C_local[i, j] = f(C_local[i, j]); copy(C_local, C[...])
After:   gemm(A_shared@l1, B_shared@l1, C_local@l0c); copy(C_local@l0c, ws); copy(ws, C_local@ub);
         Parallel: C_local@ub[i, j] = f(C_local@ub[i, j]); copy(C_local@ub, C[...])

Requires: Tile IR after normalize_clears and separate_products. Ensures: every on-chip buffer has scope shared.l1, local.l0c or shared.ub; workspaces are
`global` allocations annotated `workspace`.
"""

from __future__ import annotations

from ...ir import (
    AllocBuffer,
    Break,
    Continue,
    IfThenElse,
    PrimFunc,
    SeqStmt,
    Stmt,
    StmtMutator,
    TensorRegion,
    decl_buffer,
    dtype_of,
    full_region,
    seq,
    statements,
    substitute,
    substitute_expr,
)
from ...ir.grids import rewrite_grid_bodies
from ...tile import tile_op, with_args
from ...tile.products import separated
from ...tile.uses import on_chip
from ...tileop.copy.cube import find_obstacles
from .placement import ACC, SCOPE, Placement, Run, Transfer, dtype_on, find_placement


def _instances(tile, sides: tuple) -> dict:
    """side -> the buffer of a tile there."""
    names = {side: f"{tile.name}_{'l0c' if side == ACC else side}" if len(sides) > 1 else tile.name for side in sides}
    return {x: decl_buffer(list(tile.ty.shape), dtype_on(tile, x), names[x], scope=SCOPE[x]) for x in sides}


class _Place(StmtMutator):
    """Writes down what a placement says."""

    def __init__(self, placement: Placement):
        self.steps = dict(placement.steps)
        self.instances = {tile: _instances(tile, sides) for tile, sides in placement.tiles.items()}
        self.workspaces: dict = {}
        """Tile whose transfers go through it, or copy -> workspace."""

    def visit(self, s: Stmt):
        if isinstance(s, (SeqStmt, AllocBuffer, Break, Continue)):
            return super().visit(s)
        found = self.steps.pop(s)  # and never again: a statement stands in one place
        placed = [self.transfer(x) if isinstance(x, Transfer) else self.run(s, x) for x in found]
        return placed if any(isinstance(x, Run) for x in found) else [*placed, super().visit(s)]

    def visit_AllocBuffer(self, s: AllocBuffer):
        return None if s.buffer in self.instances else s

    def visit_IfThenElse(self, s: IfThenElse):
        then, other = (
            [None if arm is None else self.visit(arm), *map(self.transfer, self.steps[s, i])]
            for i, arm in enumerate((s.then_case, s.else_case))
        )
        return IfThenElse(s.condition, seq(then), seq(other) if any(x is not None for x in other) else None, span=s.span)

    def transfer(self, t: Transfer) -> Stmt | list[Stmt]:
        source, target = (full_region(self.instances[tile][side]) for tile, side in t.on)
        return tile_op("copy", source, target, span=t.span) if t.direct else self.through_gm(t.tile, t.tile, source, target, t.span)

    def run(self, s: Stmt, run: Run) -> Stmt | list[Stmt]:
        placed = [self.instances[tile][side] for tile, side in run.on]
        if not run.by_operand:
            return substitute(s, {tile: instance for (tile, _), instance in zip(run.on, placed)})
        left = iter(placed)
        args = [
            substitute_expr(x, {x.source: next(left)}) if isinstance(x, TensorRegion) and on_chip(x.source) else x for x in s.value.args
        ]
        return self.through_gm(s, run.on[1][0], *args, s.span) if run.through_gm else with_args(s, args)

    def through_gm(self, key, tile, source: TensorRegion, target: TensorRegion, span) -> list[Stmt]:
        """Copies through the workspace of `key`, for what `tile` holds."""
        if key not in self.workspaces:
            self.workspaces[key] = decl_buffer([r.extent for r in source.region], dtype_of(tile), f"{tile.name}_ws")
        ws = full_region(self.workspaces[key])
        return [tile_op("copy", source, ws, span=span), tile_op("copy", ws, target, span=span)]

    def allocations(self, body: Stmt) -> list[Stmt]:
        """Declarations of all instances and workspaces."""
        declared = {s.buffer: s.span for s in statements(body) if isinstance(s, AllocBuffer)}
        tiles = [AllocBuffer(x, span=declared[tile]) for tile, sides in self.instances.items() for x in sides.values()]
        return tiles + [AllocBuffer(ws, annotations={"workspace": 1}) for ws in self.workspaces.values()]


def place_buffers(func: PrimFunc) -> PrimFunc:
    """Apply to a Tile IR function."""
    obstacles = find_obstacles(func)

    def place(body: Stmt) -> Stmt:
        while (placement := find_placement(body, obstacles)).apart:
            body = separated(body, placement.apart)
        walk = _Place(placement)
        placed = walk.block(body)
        return seq(walk.allocations(body), placed)

    return rewrite_grid_bodies(func, place)


__all__ = ["place_buffers"]
