"""stage_atomics: turn atomic updates of single elements into atomic transfers of tiles, and those of tiles into plain updates.

Before:  Parallel(i, j): if c: atomic_add(Y[b * 8 + i], x[i, j])
After:   fill(v, 0); Parallel(i, j): if c: v[j, i] = x[i, j]
         reduce(v, r, sum, dim=0); atomic_add(Y[b * 8 : +8], r)

Iterations that update the same element are combined on chip first. Where an index is not a loop variable plus something constant
(a histogram), indices are kept in a tile as well and the transfers go element by element, or row by row where neither such an index
nor a condition depends on the loop variables of the last dimensions. Loops of constant length inside of the nest count as loops of it
here: updates commute.

Before:  Parallel(i, j): if c[i]: atomic_add(Y[k[i], j], x[i, j])
After:   Parallel(i, j): if c[i]: v[i, j] = x[i, j]
         fill(at, NOWHERE); Parallel(i): if c[i]: at[i] = k[i]
         for i: if at[i] != NOWHERE: atomic_add(Y[at[i], 0:64], v[i, 0:64])

A tile belongs to one block, so its elements need no transfer:

Before:  Parallel(i): atomic_add(h[i], x[i]); atomic_add(h[k[i]], x[i])
After:   Parallel(i): h[i] = h[i] + x[i]; v[i] = x[i]; at[i] = k[i]
         for i: h[at[i]] = h[at[i]] + v[i]

What fits none of this (the nest reads or stores to what it also updates, loops of a length known at run time only) runs iteration after
iteration: the nest is annotated `tl.in_order`.

Requires: placed Tile IR. Ensures: atomic updates are of GM; every one moves a tile region and stands outside of `Parallel` nests, or it
is one of an element in a nest annotated `tl.in_order`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ...analysis.index.affine import affine
from ...ir import (
    AllocBuffer,
    Bind,
    Break,
    BufferLoad,
    BufferStore,
    Continue,
    Evaluate,
    For,
    IfThenElse,
    PrimFunc,
    Range,
    SeqStmt,
    Stmt,
    StmtMutator,
    TensorLoad,
    While,
    as_dtype,
    const_int,
    decl_buffer,
    dtype_of,
    expr_children,
    exprs,
    free_vars,
    full_region,
    if_then,
    imm,
    loop,
    map_children,
    op_name,
    region,
    seq,
    statements,
    stmts_of,
    substitute_expr,
    sym,
    tirx,
    walk_expr,
)
from ...ir.functions import fixed_bytes
from ...ir.grids import rewrite_grid_bodies
from ...isa.base import Space
from ...tile import tile_op, tile_op_of, with_args
from ...tile.atomics import AtomicElements, neutral, plain_update, updated
from ...tile.division import split_nest
from ...tile.nests import inline_index_binds, nest_of, rebuild_nest, tile_bounds
from ...tile.uses import is_atomic, is_element_atomic, is_parallel, loads_in, on_chip
from ..budget import TILE_BUDGET_SHARE

MAX_COUNTED = 1 << 22
"""Iterations up to which it is found out by counting whether they update different elements."""
NOWHERE = -(2**30)
"""Index of an update that does not happen."""
SLOW = "this atomic update of a tile runs element by element: its index is data, or several iterations update one element"


@dataclass(eq=False)
class _Site:
    """One atomic of a nest. `loops`: the loops inside of the nest around it, as (variable, extent). `obstacle`: why it cannot leave the nest."""

    stmt: Evaluate
    loops: list
    obstacle: str | None

    @property
    def buffer(self):
        return self.stmt.value.args[0].source

    @property
    def indices(self) -> list:
        return [r.min for r in self.stmt.value.args[0].region]


def _sites(body: Stmt) -> list[_Site]:
    """All atomics of the body of a nest."""
    found: list[_Site] = []

    def walk(s: Stmt, loops: list, obstacle):
        if is_element_atomic(s):
            found.append(_Site(s, loops, obstacle))
        elif isinstance(s, SeqStmt):
            for x in s.seq:
                walk(x, loops, obstacle)
        elif isinstance(s, IfThenElse):
            walk(s.then_case, loops, obstacle)
            if s.else_case is not None:
                walk(s.else_case, loops, obstacle)
        elif isinstance(s, While):
            walk(s.body, loops, obstacle or "an atomic update in a `while` inside of it")
        elif isinstance(s, For):
            n = const_int(s.extent)
            if n is None:
                obstacle = obstacle or "an atomic update in a loop inside of it whose length is known only at run time"
            elif any(isinstance(x, (Break, Continue)) for x in statements(s.body)):
                obstacle = obstacle or "an atomic update in a loop inside of it that may be left early"
            if n != 0:
                walk(s.body, [*loops, (s.loop_var, s.extent)], obstacle)

    walk(body, [], None)
    return found


@dataclass
class _Update:
    """One atomic that leaves its nest: its statement, the tile of its values, and where they go."""

    site: _Site
    order: list
    """Loop variables in the order of the dimensions of `values`; those no index depends on come first."""
    missing: int
    values: object
    indices: list
    """For each dimension of the destination: (base, loop variable or None); None if the index is kept in a tile."""
    index_tiles: dict
    row: list
    """Loop variables of the last dimensions of the destination that one transfer updates at once: the last ones of `order`."""
    conditions: list
    """Under what the update happens: (condition, value it has to have)."""

    @property
    def stmt(self) -> Evaluate:
        return self.site.stmt

    @property
    def steps(self) -> list:
        """Loop variables whose iterations are transfers of their own."""
        return self.order[: len(self.order) - len(self.row)]

    @property
    def tiles(self) -> tuple:
        return (self.values, *self.index_tiles.values())


class _Nest(StmtMutator):
    """Replaces the atomics of one nest: those `plain` by updates, the others by stores into tiles."""

    def __init__(self, loops, sites: list[_Site], plain: set, local: set, written: set):
        self.loops, self.local, self.written = loops, local, written
        self.plain = plain
        self.sites = {s.stmt: s for s in sites}
        self.extents = {v: const_int(n) for v, n in [*loops, *(x for s in sites for x in s.loops)]}
        self.updates: list[_Update] = []
        self.conditions: list = []
        self.fills: list[Stmt] = []

    def visit_IfThenElse(self, s: IfThenElse):
        arms = []
        for arm, holds in ((s.then_case, True), (s.else_case, False)):
            self.conditions.append((s.condition, holds))
            arms.append(None if arm is None else self.block(arm))
            self.conditions.pop()
        return IfThenElse(s.condition, *arms, span=s.span)

    def visit_Evaluate(self, s: Evaluate):
        if not is_element_atomic(s):
            return s
        site = self.sites[s]
        if site in self.plain:
            return plain_update(s)
        update = self.update(site)
        self.updates.append(update)
        tiles = [(update.values, s.value.args[1])]
        if update.row:
            return BufferStore(update.values, s.value.args[1], list(update.order), span=s.span)
        tiles += [(t, as_dtype(site.indices[d], dtype_of(t))) for d, t in update.index_tiles.items()]
        if self.conditions:
            start = [neutral(tile_op_of(s).combine, dtype_of(update.values))]
            start += [tirx.const(NOWHERE, dtype_of(t)) for t in update.index_tiles.values()]
            self.fills += [tile_op("fill", full_region(t), x, span=s.span) for (t, _), x in zip(tiles, start)]
        at = list(update.order) or [imm(0)]
        return [BufferStore(t, x, at, span=s.span) for t, x in tiles]

    def update(self, site: _Site) -> _Update:
        """Plan one atomic."""
        # Loops inside of the nest come first: a vector statement fills a row of the tile.
        variables = sorted((v for v, _ in (*site.loops, *self.loops)), key=lambda v: self.extents[v] != 1)
        indices, used, tiles = [], [], {}
        for index in site.indices:
            form = affine(index, variables)
            simple = form is not None and (not form.coeffs or list(form.coeffs.values()) == [1])
            v = next(iter(form.coeffs), None) if simple else None
            if not simple or (v is not None and v in used) or not self.stable(form.base) or on_chip(site.buffer):
                indices.append(None)
                continue
            if v is not None:
                used.append(v)
            indices.append((form.base, v))
        row = self.row(site, indices)
        if row:
            order, missing = [v for v, _ in self.loops if not any(v.same_as(x) for x in row)] + row, 0
        elif any(x is None for x in indices):
            order, missing = variables, 0
        else:
            rest = [v for v in variables if not any(v.same_as(u) for u in used)]
            order, missing = rest + used, len(rest)
        shape = [self.extents[v] for v in order] or [1]
        name = site.buffer.name
        values = decl_buffer(shape, dtype_of(site.buffer), f"{name}_v", scope="shared.ub")
        for d, x in enumerate(indices):
            if x is None:
                kept = shape[: len(order) - len(row)] or [1]
                tiles[d] = decl_buffer(kept, _index_dtype(site.indices[d]), f"{name}_at{d}", scope="shared.ub")
        return _Update(site, order, missing, values, indices, tiles, row, list(self.conditions))

    def row(self, site: _Site, indices: list) -> list:
        """The loop variables of the last dimensions that one transfer may update at once; none if there is no index to keep."""
        kept = [site.indices[d] for d, x in enumerate(indices) if x is None]
        if not kept or on_chip(site.buffer):
            return []
        decisive = [*kept, *(c for c, _ in self.conditions)]
        fixed = set().union(*(free_vars(e) for e in decisive))
        # Kept indices are read behind the nest, by the variables of its own loops.
        if fixed & self.local or any(x.source in self.written for e in decisive for x in loads_in(e)):
            return []
        found: list = []
        for x in reversed(indices):
            if x is None or x[1] in fixed:
                break
            if x[1] is not None:
                found.insert(0, x[1])
        inside = [v for v, _ in site.loops if not any(v.same_as(x) for x in found)]
        return [] if inside else found

    def stable(self, base) -> bool:
        """True if an index part reads no memory and no name of the nest, so that it means the same after the nest."""
        return not loads_in(base) and not free_vars(base) & self.local


def _index_dtype(index) -> str:
    return "int64" if dtype_of(index) in ("int64", "uint32", "uint64") else "int32"


def _distinct(site: _Site, loops: list, local: set) -> bool:
    """True if a vector statement updates every element of a tile at most once, or as the sum over all values of loop variables that no
    index depends on. `local`: names whose values differ from iteration to iteration."""
    variables, sizes = [v for v, _ in loops], {v: const_int(n) for v, n in loops}
    forms = [affine(i, variables) for i in site.indices]
    if None in forms or any(loads_in(f.base) or free_vars(f.base) & local for f in forms):
        return False
    used = {v: sizes[v] for v in variables if any(v in f.coeffs for f in forms)}
    if np.prod([1, *used.values()], dtype=float) > MAX_COUNTED:
        return False
    hulls = [replace(f, base=0).hull(sizes) for f in forms]
    if np.prod([n for _, n in hulls], dtype=float) > MAX_COUNTED:
        return False
    grids = dict(zip(used, np.indices(list(used.values()), sparse=True))) if used else {}
    found = np.zeros([n for _, n in hulls], bool)
    found[tuple(sum((c * grids[v] for v, c in f.coeffs.items()), -low) for f, (low, _) in zip(forms, hulls))] = True
    return int(found.sum()) == int(np.prod(list(used.values()), dtype=int))


def _used_besides(body: Stmt, sites: list[_Site]) -> set:
    """Buffers the nest does more with than one kind of atomic update."""
    kinds: dict = {}
    for site in sites:
        kinds.setdefault(site.buffer, set()).add(op_name(site.stmt))
    besides = {b for b, found in kinds.items() if len(found) > 1}
    for s in statements(body):
        if isinstance(s, BufferStore):
            besides.add(s.buffer)
        for e in exprs(s):
            walk_expr(e, lambda x: besides.add(x.source) if isinstance(x, TensorLoad) else None)
    return besides & kinds.keys()


class _Stage(StmtMutator):
    def __init__(self, budget: float):
        self.budget = budget
        """Bytes that the tiles of one nest may take."""
        self.allocs: list[Stmt] = []

    def visit_For(self, s: For):
        if not is_parallel(s):
            return self.generic(s)
        return self.nest(s) if any(is_atomic(x) for x in statements(s)) else s

    def visit_Evaluate(self, s: Evaluate):
        if is_atomic(s) and on_chip(s.value.args[0].source):
            return _ToPlain()(AtomicElements()(s))
        if not is_element_atomic(s):
            return s
        target, value = s.value.args
        shape = [const_int(r.extent) for r in target.region]
        tile = self.declare(decl_buffer(shape, dtype_of(target.source), f"{target.source.name}_v", scope="shared.ub"))
        return [
            tile_op("fill", full_region(tile), value, span=s.span),
            with_args(s, [target, full_region(tile)]),
        ]

    def declare(self, buffer):
        self.allocs.append(AllocBuffer(buffer))
        return buffer

    def nest(self, nest: For):
        nest = _bounded(nest)
        loops, body = nest_of(nest)
        loops, body = _neighbours_joined(loops, AtomicElements()(inline_index_binds(body)))
        sites = _sites(body)
        if not sites:
            return rebuild_nest(nest, loops, body)
        local = {s.var for s in statements(body) if isinstance(s, Bind)}
        inner = {s.loop_var for s in statements(body) if isinstance(s, For)}
        sized = all(const_int(n) is not None for _, n in loops)
        plain = {s for s in sites if on_chip(s.buffer) and sized and _distinct(s, loops, local)}
        obstacle = self.obstacle(loops, body, sites, plain)
        if obstacle is not None:
            return rebuild_nest(nest, loops, _ToPlain()(body), in_order=obstacle)
        written = {x.buffer for x in statements(body) if isinstance(x, BufferStore)} | {x.buffer for x in sites}
        rewriter = _Nest(loops, sites, plain, local | inner, written)
        new_body = rewriter.block(body)
        smaller = self.smaller(nest, loops, body, rewriter.updates)
        if smaller is not None:
            return smaller
        for u in rewriter.updates:
            for t in u.tiles:
                self.declare(t)
        out = [*rewriter.fills, rebuild_nest(nest, loops, new_body)]
        for u in rewriter.updates:
            if u.row:
                out += self.kept_indices(u, rewriter, nest)
            out += self.one_by_one(u, rewriter) if u.index_tiles else self.whole(u)
        return out

    def smaller(self, nest: For, loops: list, body: Stmt, updates: list[_Update]):
        """The nest in parts, or in order, where the tiles of its updates need more room than there is; None where it stays as it is."""
        total = sum(fixed_bytes(t) for u in updates for t in u.tiles)
        if total <= self.budget:
            return None
        outer = const_int(loops[0][1])
        if outer == 1:
            # Iterations are independent: any loop may be the one that is split.
            longest = next((k for k, (_, n) in enumerate(loops) if const_int(n) > 1), 0)
            if longest:
                return self.nest(rebuild_nest(nest, [loops[longest], *loops[:longest], *loops[longest + 1 :]], body))
        if outer > 1:
            return split_nest(nest, {loops[0][0]: max(1, outer * self.budget // total)}, self.nest, num_stages=2)
        if any(u.site.loops for u in updates):
            return rebuild_nest(
                nest, loops, _ToPlain()(body), in_order="atomic updates in a loop inside of it need more room than there is"
            )
        return None

    @staticmethod
    def obstacle(loops: list, body: Stmt, sites: list[_Site], plain: set) -> str | None:
        """Why the iterations of a nest have to run one after the other, None if not."""
        if all(s in plain for s in sites):
            return None
        if any(const_int(n) is None for _, n in loops):
            return "an atomic update in a T.Parallel whose extent is known only at run time; a constant extent and an `if` are faster"
        besides = _used_besides(body, sites)
        for site in sites:
            if site in plain:
                continue
            if site.buffer in besides:
                return f"it updates `{site.buffer.name}` atomically and uses it in other ways"
            if site.obstacle:
                return site.obstacle
        if any(isinstance(x, (Break, Continue)) for x in _outside_loops(body)):
            return "an atomic update in iterations that may end early"
        return None

    def whole(self, u: _Update) -> list[Stmt]:
        """Combine along the variables no index depends on, then one transfer."""
        out, tile, span = [], u.values, u.stmt.span
        kind = tile_op_of(u.stmt).combine
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
        return [*out, with_args(u.stmt, [target, full_region(tile)])]

    def kept_indices(self, u: _Update, rewriter: _Nest, nest: For) -> list[Stmt]:
        """The indices of rows, in a nest of the loops they may depend on."""
        span, single = u.stmt.span, tirx.Var("row", "int32")
        steps = {v: tirx.Var(v.name, "int32") for v in u.steps}
        at = list(steps.values()) or [single]
        tiles = u.index_tiles.items()
        body: Stmt = seq(
            [BufferStore(t, as_dtype(substitute_expr(u.site.indices[d], steps), dtype_of(t)), at, span=span) for d, t in tiles]
        )
        for condition, holds in reversed(u.conditions):
            condition = substitute_expr(condition, steps)
            body = if_then(condition if holds else tirx.Not(condition), body, span=span)
        out = [rebuild_nest(nest, [(new, imm(rewriter.extents[v])) for v, new in steps.items()] or [(single, imm(1))], body)]
        if u.conditions:
            nowhere = [tile_op("fill", full_region(t), tirx.const(NOWHERE, dtype_of(t)), span=span) for t in u.index_tiles.values()]
            out = [*nowhere, *out]
        return out

    def one_by_one(self, u: _Update, nest: _Nest) -> list[Stmt]:
        """One update for each iteration, of the element or the row whose index it has kept."""
        span, buffer = u.stmt.span, u.site.buffer
        at = [tirx.Var(v.name, "int32") for v in u.steps]
        place = at or [imm(0)]
        mins, sizes = [], []
        for d, x in enumerate(u.indices):
            base, v = (BufferLoad(u.index_tiles[d], place), None) if x is None else x
            in_row = v is not None and any(v.same_as(r) for r in u.row)
            mins.append(base if v is None or in_row else base + next(a for a, o in zip(at, u.steps) if o.same_as(v)))
            sizes.append(nest.extents[v] if in_row else 1)
        if u.row:
            row = region(u.values, [*at, *(0 for _ in u.row)], [*(1 for _ in at), *(nest.extents[v] for v in u.row)])
            update: Stmt = with_args(u.stmt, [region(buffer, mins, sizes), row])
        elif on_chip(buffer):
            update = BufferStore(buffer, updated(u.stmt, BufferLoad(buffer, mins), BufferLoad(u.values, place)), mins, span=span)
        else:
            one = self.declare(decl_buffer([1], dtype_of(u.values), f"{u.values.name}1", scope="shared.ub"))
            update = seq(
                tile_op("fill", full_region(one), BufferLoad(u.values, place), span=span),
                with_args(u.stmt, [region(buffer, mins, sizes), full_region(one)]),
            )
        if u.conditions:
            first = BufferLoad(next(iter(u.index_tiles.values())), place)
            update = if_then(tirx.NE(first, tirx.const(NOWHERE, dtype_of(first))), update, span=span)
        body = update
        notes = {"tl__slow": SLOW} if on_chip(buffer) else {}
        for var, v in reversed(list(zip(at, u.steps))):
            body = loop(var, nest.extents[v], body, span=span, **(notes if v.same_as(u.steps[0]) else {}))
        return [body]


class _ToPlain(StmtMutator):
    """Atomic updates of tiles as updates by their only block; those of GM stay."""

    def visit_Evaluate(self, s: Evaluate):
        return plain_update(s) if is_element_atomic(s) and on_chip(s.value.args[0].source) else s


def _outside_loops(body: Stmt) -> list[Stmt]:
    """The statements of one iteration, loops inside of it left out."""
    out: list[Stmt] = []
    for s in stmts_of(body):
        out.append(s)
        if isinstance(s, IfThenElse):
            out += _outside_loops(s.then_case) + (_outside_loops(s.else_case) if s.else_case is not None else [])
    return out


def _neighbours_joined(loops: list, body: Stmt) -> tuple:
    """(loops, body) of a nest in which a few neighbours are updated at every step, as a walk over all of them one by one.

    ``for d in 16: for e in 4: atomic_add(Y[k, d * 4 + e], …)`` is one loop of 64, and that has rows.
    """
    inner = body.body if isinstance(body, For) and const_int(body.min) == 0 else None
    count = const_int(body.extent) if inner is not None and is_atomic(inner) else None
    for k, (v, extent) in enumerate(loops if count else []):
        if const_int(extent) is None:
            continue
        whole, analyzer = tirx.Var(v.name, dtype_of(v)), sym.Analyzer()
        analyzer.bind(whole, Range.from_min_extent(imm(0), imm(const_int(extent) * count)))
        places = {v: tirx.floordiv(whole, imm(count)), body.loop_var: tirx.floormod(whole, imm(count))}
        target, value = inner.value.args
        mins = [analyzer.simplify(substitute_expr(r.min, places)) for r in target.region]
        value = _shorter(substitute_expr(value, places), analyzer)
        if not any(_divided(e, whole) for e in (*mins, value)):
            joined = with_args(inner, [region(target.source, mins, [1] * len(mins)), value])
            return [*loops[:k], (whole, imm(const_int(extent) * count)), *loops[k + 1 :]], joined
    return loops, body


def _shorter(e, analyzer):
    """`e` with its indices simplified: the analyzer knows integers only."""
    return analyzer.simplify(e) if dtype_of(e).startswith("int") else map_children(e, lambda x: _shorter(x, analyzer))


def _divided(e, v) -> bool:
    """True if an expression has a quotient or remainder of something with `v`."""
    return isinstance(e, (tirx.FloorDiv, tirx.FloorMod)) and v in free_vars(e) or any(_divided(x, v) for x in expr_children(e))


def _bounded(nest: For) -> For:
    """`nest` with constant extents where a tile that a loop variable indexes bounds it, under the condition that was its extent."""
    loops, body = nest_of(nest)
    bounds = tile_bounds([v for v, _ in loops], body)
    open_loops = [(v, e) for v, e in loops if const_int(e) is None and v in bounds]
    if not open_loops:
        return nest
    for v, e in reversed(open_loops):
        body = if_then(v < e, body, span=nest.span)
    return rebuild_nest(nest, [(v, imm(bounds[v]) if const_int(e) is None and v in bounds else e) for v, e in loops], body)


def stage_atomics(func: PrimFunc, chip, uncut: bool = False) -> PrimFunc:
    """Apply to a placed Tile IR function. `uncut`: nests stay whole whatever room their tiles take."""

    def stage(body: Stmt) -> Stmt:
        stager = _Stage(math.inf if uncut else int(chip.capacity_bytes(Space.UB) * TILE_BUDGET_SHARE))
        staged = stager(body)
        return seq(stager.allocs, staged)

    return rewrite_grid_bodies(func, stage)


__all__ = ["stage_atomics"]
