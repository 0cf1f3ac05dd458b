"""stage_atomics: turn atomic updates of single elements into atomic transfers of tiles.

Before:  Parallel(i, j): if c: atomic_add(Y[b * 8 + i], x[i, j])
After:   fill(v, 0); Parallel(i, j): if c: v[j, i] = x[i, j]
         reduce(v, r, sum, dim=0); atomic_add(Y[b * 8 : +8], r)

Iterations that update the same element are combined on chip first. Where an index is not a loop variable plus something constant
(a histogram), indices are kept in a tile as well and the transfers go element by element.

Requires: placed Tile IR. Ensures: every atomic update moves a tile region and stands outside of `Parallel` nests.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..analysis.affine import affine
from ..analysis.tile_uses import ATOMIC_OPS, is_parallel, loads_in
from ..errors import UnsupportedConstruct
from ..ir import (
    AllocBuffer,
    Bind,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    PrimFunc,
    Stmt,
    StmtMutator,
    TensorRegion,
    const_int,
    decl_buffer,
    dtype_of,
    full_region,
    imm,
    itemsize,
    loop,
    op_name,
    region,
    seq,
    statements,
    tile_op,
    tirx,
)
from ..isa.base import Space
from .grid_bodies import rewrite_grid_bodies
from .stage_globals import TILE_BUDGET_SHARE, cut_nest, nest_of, rebuild_nest

COMBINE = {"tl.atomic_add": "sum", "tl.atomic_max": "max", "tl.atomic_min": "min"}


def is_element_atomic(s: Stmt) -> bool:
    """True for an atomic update by a scalar expression."""
    return isinstance(s, Evaluate) and op_name(s) in ATOMIC_OPS and not isinstance(s.value.args[1], TensorRegion)


def neutral(kind: str, dtype: str):
    """The value whose combination changes nothing."""
    if kind == "sum":
        return imm(0, dtype)
    lowest = tirx.min_value(dtype) if dtype.startswith("int") else imm(float("-inf"), dtype)
    highest = tirx.max_value(dtype) if dtype.startswith("int") else imm(float("inf"), dtype)
    return lowest if kind == "max" else highest


@dataclass
class _Update:
    """One atomic of a nest: its statement, the tile of its values, and where they go."""

    stmt: Evaluate
    order: list
    """Loop variables in the order of the dimensions of `values`; those no index depends on come first."""
    missing: int
    values: object
    indices: list
    """For each dimension of the destination: (base, loop variable or None); None if the index is kept in a tile."""
    index_tiles: dict


class _Nest(StmtMutator):
    """Replaces the atomics of one nest by stores into tiles."""

    def __init__(self, loops):
        self.loops = loops
        self.extents = {v: const_int(n) for v, n in loops}
        self.updates: list[_Update] = []
        self.conditional = False
        self.fills: list[Stmt] = []

    def visit_IfThenElse(self, s: IfThenElse):
        before, self.conditional = self.conditional, True
        out = self.generic(s)
        self.conditional = before
        return out

    def visit_For(self, s: For):
        for x in statements(s.body):
            if is_element_atomic(x):
                raise UnsupportedConstruct(
                    "an atomic update in a serial loop inside T.Parallel",
                    at=x.span,
                    hint="put the serial loop outside of T.Parallel",
                )
        return self.generic(s)

    def visit_Evaluate(self, s: Evaluate):
        if not is_element_atomic(s):
            return s
        target, value = s.value.args
        update = self.update(s, target)
        self.updates.append(update)
        tiles = [(update.values, value)]
        tiles += [(t, target.region[d].min) for d, t in update.index_tiles.items()]
        if self.conditional:
            kind = COMBINE[op_name(s)]
            start = [neutral(kind, dtype_of(update.values))] + [imm(0)] * len(update.index_tiles)
            self.fills += [tile_op("fill", full_region(t), x, span=s.span) for (t, _), x in zip(tiles, start)]
        at = list(update.order) or [imm(0)]
        return [BufferStore(t, x, at, span=s.span) for t, x in tiles]

    def update(self, s: Evaluate, target: TensorRegion) -> _Update:
        """Plan one atomic."""
        variables = [v for v, _ in self.loops]
        indices, used, tiles = [], [], {}
        for d, r in enumerate(target.region):
            form = affine(r.min, variables)
            simple = form is not None and (not form.coeffs or list(form.coeffs.values()) == [1])
            v = next(iter(form.coeffs), None) if simple else None
            if not simple or (v is not None and v in used) or not _stable(form.base):
                indices.append(None)
                continue
            if v is not None:
                used.append(v)
            indices.append((form.base, v))
        if any(x is None for x in indices):
            order, missing = variables, 0
        else:
            rest = [v for v in variables if not any(v.same_as(u) for u in used)]
            order, missing = rest + used, len(rest)
        shape = [self.extents[v] for v in order] or [1]
        name = target.source.name
        values = decl_buffer(shape, dtype_of(target.source), f"{name}_v", scope="shared.ub")
        for d, x in enumerate(indices):
            if x is None:
                tiles[d] = decl_buffer(shape, "int32", f"{name}_at{d}", scope="shared.ub")
        return _Update(s, order, missing, values, indices, tiles)


def _stable(base) -> bool:
    """True if an index part reads no memory, so that it means the same after the nest."""
    return not loads_in(base)


class _Stage(StmtMutator):
    def __init__(self, chip):
        self.budget = int(chip.capacity_bytes(Space.UB) * TILE_BUDGET_SHARE)
        self.allocs: list[Stmt] = []

    def visit_For(self, s: For):
        if not is_parallel(s):
            return self.generic(s)
        return self.nest(s) if any(is_element_atomic(x) for x in statements(s)) else s

    def visit_Evaluate(self, s: Evaluate):
        if not is_element_atomic(s):
            return s
        target, value = s.value.args
        shape = [const_int(r.extent) for r in target.region]
        tile = self.declare(decl_buffer(shape, dtype_of(target.source), f"{target.source.name}_v", scope="shared.ub"))
        return [
            tile_op("fill", full_region(tile), value, span=s.span),
            tile_op(op_name(s)[3:], target, full_region(tile), span=s.span),
        ]

    def declare(self, buffer):
        self.allocs.append(AllocBuffer(buffer))
        return buffer

    def nest(self, nest: For):
        loops, body = nest_of(nest)
        if any(const_int(n) is None for _, n in loops):
            raise UnsupportedConstruct(
                "an atomic update in a T.Parallel whose extent is known only at run time",
                at=nest.span,
                hint="use a constant extent and guard the update with an if",
            )
        rewriter = _Nest(loops)
        new_body = rewriter.block(body)
        outer = const_int(loops[0][1])
        total = sum(_nbytes(t) for u in rewriter.updates for t in (u.values, *u.index_tiles.values()))
        if total > self.budget and outer > 1:
            rows = max(1, outer * self.budget // total)
            return cut_nest(nest, rows, self.nest)
        for u in rewriter.updates:
            for t in (u.values, *u.index_tiles.values()):
                self.declare(t)
        out = [*rewriter.fills, rebuild_nest(nest, loops, new_body)]
        for u in rewriter.updates:
            out += self.by_element(u, rewriter) if u.index_tiles else self.whole(u)
        return out

    def whole(self, u: _Update) -> list[Stmt]:
        """Combine along the variables no index depends on, then one transfer."""
        out, tile, span = [], u.values, u.stmt.span
        kind = COMBINE[op_name(u.stmt)]
        for n in range(u.missing):
            shape = [const_int(x) for x in tile.ty.shape][1:] or [1]
            smaller = self.declare(decl_buffer(shape, dtype_of(tile), f"{tile.name}{n}", scope="shared.ub"))
            attrs = {"kind": kind, "dim": 0, "clear": 1}
            out.append(tile_op("reduce", full_region(tile), full_region(smaller), span=span, **attrs))
            tile = smaller
        extents = {v: const_int(n) for v, n in zip(u.order, u.values.ty.shape)}
        # Tile dimensions follow the order of the destination's dimensions.
        target = region(
            u.stmt.value.args[0].source,
            [base for base, _ in u.indices],
            [1 if v is None else extents[v] for _, v in u.indices],
        )
        return [*out, tile_op(op_name(u.stmt)[3:], target, full_region(tile), span=span)]

    def by_element(self, u: _Update, nest: _Nest) -> list[Stmt]:
        """One transfer for each iteration, to the index it has kept."""
        span = u.stmt.span
        at = [tirx.Var(v.name, "int32") for v in u.order]
        binds, mins = [], []
        for d, x in enumerate(u.indices):
            if x is None:
                var = tirx.Var(f"{u.stmt.value.args[0].source.name}_i{d}", "int32")
                binds.append(Bind(var, BufferLoad(u.index_tiles[d], at), span=span))
                mins.append(var)
            else:
                base, v = x
                mins.append(base if v is None else base + next(a for a, o in zip(at, u.order) if o.same_as(v)))
        one = self.declare(decl_buffer([1], dtype_of(u.values), f"{u.values.name}1", scope="shared.ub"))
        target = region(u.stmt.value.args[0].source, mins, [1] * len(mins))
        body: Stmt = seq(
            binds,
            tile_op("fill", full_region(one), BufferLoad(u.values, at), span=span),
            tile_op(op_name(u.stmt)[3:], target, full_region(one), span=span),
        )
        for var, v in reversed(list(zip(at, u.order))):
            body = loop(var, nest.extents[v], body, span=span)
        return [body]


def _nbytes(tile) -> int:
    total = itemsize(dtype_of(tile))
    for n in tile.ty.shape:
        total *= const_int(n)
    return total


def stage_atomics(func: PrimFunc, chip) -> PrimFunc:
    """Apply to a placed Tile IR function."""

    def stage(body: Stmt) -> Stmt:
        stager = _Stage(chip)
        staged = stager(body)
        return seq(stager.allocs, staged)

    return rewrite_grid_bodies(func, stage)


__all__ = ["stage_atomics"]
