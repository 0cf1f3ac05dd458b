"""narrow_nests: nests that are longer than their tiles run only the iterations whose accesses lie inside.

Before:  Parallel(i < 128): if i < 64: a[i] = 1 else: b[i - 64] = 2            # a and b have 64 elements
After:   Parallel(i < 64): a[i] = 1
         Parallel(i < 64): if not i + 64 < 64: b[i + 64 - 64] = 2              # simplified: b[i] = 2

GPU kernels give the threads of a block different work. Vector instructions take all lanes of a nest and select among them, which must not
reach into another tile. Iterations whose accesses would lie outside of their tile are those in which conditions leave them out: they need
not run. Where more than one loop variable decides, the conditions change with what the nest stores, or do not leave out what lies outside,
iterations run in order, one by one, so that memcheck sees each access.

Requires: placed Tile IR. Ensures: no store to a tile, and no load that is not chosen by a conditional expression, leaves its tile in any
iteration of a nest of constant lengths that does not run in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from ...analysis.index.affine import affine, affine_limits
from ...analysis.index.coverage import repeats
from ...analysis.index.nest_indices import conjuncts
from ...ir import (
    BufferStore,
    For,
    IfThenElse,
    PrimFunc,
    Range,
    SeqStmt,
    Stmt,
    StmtMutator,
    TensorLoad,
    Var,
    const_int,
    dtype_of,
    expr_children,
    exprs,
    free_vars,
    if_then,
    imm,
    is_if_then_else,
    renew,
    statements,
    substitute,
    substitute_expr,
    sym,
    tirx,
)
from ...tile.nests import inline_index_binds, nest_of, rebuild_nest
from ...tile.uses import IN_ORDER, is_parallel, is_scalar_var, loads_in, on_chip

REASON = "conditions keep it inside of its tiles, and more than the bounds of loops is needed to tell where"
MOST_PLACES = 1024
"""Values of a loop variable outside of its limits, from these on, of which each is asked about."""


def narrow_nests(func: PrimFunc) -> PrimFunc:
    """Apply to a placed Tile IR function."""
    return func.with_body(_Narrow()(func.body))


class _Narrow(StmtMutator):
    def visit_For(self, s: For):
        if not is_parallel(s):
            return self.generic(s)
        loops, body = nest_of(s)
        extents = {v: const_int(e) for v, e in loops}
        if IN_ORDER in s.annotations or not all(extents.values()):
            return s
        body = inline_index_binds(body)
        inner = {x.loop_var: const_int(x.extent) for x in statements(body) if isinstance(x, For)}
        if not any(_leaves(*a, {**extents, **inner}) for a in _accesses(body)):
            return s
        parts = _parts(body, extents)
        ranges = None if parts is None else [_range(p, extents) for p in parts]
        if parts is None or None in ranges or any(_runs_outside(p, r, extents) for p, r in zip(parts, ranges)):
            return rebuild_nest(s, loops, body, REASON)
        out: list = []
        for part, limits in zip(parts, ranges):
            if all(low < high for low, high in limits.values()):
                out.append(self.narrowed(s, loops, part, limits))
        return out

    @staticmethod
    def narrowed(nest: For, loops, part: _Part, limits: dict) -> Stmt:
        """The iterations between `limits` of one store under its conditions, without those that always hold there."""
        fresh = {v: Var(v.name, dtype_of(v)) for v, _ in loops}
        analyzer = sym.Analyzer()
        for v, new in fresh.items():
            low, high = limits[v]
            analyzer.bind(new, Range.from_min_extent(imm(0, dtype_of(v)), imm(high - low, dtype_of(v))))
        moved = {v: new + limits[v][0] if limits[v][0] else new for v, new in fresh.items()}
        conditions = [t for c in part.conditions for t in conjuncts(substitute_expr(c, moved))]
        conditions = [c for c in conditions if loads_in(c) or not analyzer.can_prove(c)]
        store = renew(substitute(part.store, moved))
        store = BufferStore(store.buffer, store.value, [analyzer.simplify(i) for i in store.indices], span=store.span)
        body = if_then(reduce(tirx.And, conditions), store, span=part.store.span) if conditions else store
        return rebuild_nest(nest, [(fresh[v], imm(limits[v][1] - limits[v][0], dtype_of(v))) for v, _ in loops], body)


@dataclass(frozen=True)
class _Part:
    """One store of a nest and the conditions around it."""

    conditions: tuple
    store: BufferStore

    @property
    def reads(self) -> set:
        """Buffers its value, its place or its conditions are made of."""
        return {x.source for e in (*self.conditions, self.store.value, *self.store.indices) for x in loads_in(e)}


def _parts(body: Stmt, extents: dict) -> list[_Part] | None:
    """The stores of a body in order, None if they cannot be taken apart: other statements, variables, conditions that earlier stores change, or an
    element that several iterations store one after the other and other statements of each read."""
    out: list[_Part] = []

    def take(s: Stmt, conditions: tuple) -> bool:
        if isinstance(s, SeqStmt):
            return all(take(x, conditions) for x in s.seq)
        if isinstance(s, IfThenElse):
            taken = take(s.then_case, (*conditions, s.condition))
            return taken and (s.else_case is None or take(s.else_case, (*conditions, tirx.Not(s.condition))))
        if not isinstance(s, BufferStore) or is_scalar_var(s.buffer):
            return False  # A variable has its value until the next iteration stores it.
        out.append(_Part(conditions, s))
        return True

    if not take(body, ()):
        return None
    written: set = set()
    for part in out:
        if any(x.source in written for c in part.conditions for x in loads_in(c)):
            return None
        written.add(part.store.buffer)
    shared = [p for p in out if repeats(p.store, extents)]
    return None if any(p is not q and p.store.buffer in q.reads for p in shared for q in out) else out


def _range(part: _Part, extents: dict) -> dict | None:
    """loop variable -> (first, end) of the iterations in which the accesses of a store lie inside of their tiles; None if these are no box."""
    limits = {v: (0, n) for v, n in extents.items()}
    found = [(part.store.buffer, part.store.indices), *_loads(part.store.value), *(a for i in part.store.indices for a in _loads(i))]
    for term in (
        t for c in part.conditions for t in conjuncts(c)
    ):  # If one does not hold nothing is stored, and nobody asks the next ones.
        found += _loads(term)
    for buffer, indices in found:
        for index, size in zip(indices, buffer.ty.shape):
            if not (on_chip(buffer) and _outside(index, size, extents)):
                continue
            form = affine(index, list(extents))
            if len(form.coeffs) != 1:
                return None
            ((v, step),), base, last = form.coeffs.items(), const_int(form.base), const_int(size) - 1
            # 0 <= step * v + base <= last
            low, high = (-base, last - base) if step > 0 else (base - last, base)
            first, end = -(-low // abs(step)), high // abs(step) + 1
            limits[v] = max(limits[v][0], first), max(min(limits[v][1], end), 0)
    return limits


def _runs_outside(part: _Part, limits: dict, extents: dict) -> bool:
    """True if the conditions surely let an iteration outside of the limits run: the nearest one, or
    one of many where loop variables alone decide."""
    decided = not any(loads_in(c) or set(free_vars(c)) - extents.keys() for c in part.conditions)
    for v, (low, high) in limits.items():
        outside = range(high, extents[v]), range(low - 1, -1, -1)
        for places in filter(None, outside):
            if decided and _left_out(part, v, places, extents):
                continue
            for place in places[: MOST_PLACES if decided else 1]:
                analyzer = _knows(extents, v)
                there = [substitute_expr(c, {v: imm(place, dtype_of(v))}) for c in part.conditions]
                if all(analyzer.can_prove(c) for c in there):
                    return True
    return False


def _left_out(part: _Part, v: Var, places: range, extents: dict) -> bool:
    """True if one of the conditions holds at none of the places of a loop variable."""
    analyzer = _knows(extents, v)
    analyzer.bind(v, Range.from_min_extent(imm(min(places), dtype_of(v)), imm(len(places), dtype_of(v))))
    return any(analyzer.can_prove(tirx.Not(c)) for c in part.conditions)


def _knows(extents: dict, but: Var) -> sym.Analyzer:
    """Knows the ranges of all loop variables `but` one."""
    analyzer = sym.Analyzer()
    for v, n in extents.items():
        if v is not but:
            analyzer.bind(v, Range.from_min_extent(imm(0, dtype_of(v)), imm(n, dtype_of(v))))
    return analyzer


def _accesses(body: Stmt) -> list:
    """(buffer, indices) of what a body stores to tiles and of what it loads from them, but for what conditional expressions choose."""
    out: list = []
    for s in statements(body):
        if isinstance(s, BufferStore):
            out.append((s.buffer, s.indices))
        for e in exprs(s):
            for term in conjuncts(e) if isinstance(s, IfThenElse) else [e]:
                out += _loads(term)
    return out


def _loads(e) -> list:
    """(buffer, indices) of the loads of an expression that no conditional expression chooses: `and` and `or` are some, too."""
    here = [(e.source, e.indices)] if isinstance(e, TensorLoad) else []
    lazy = isinstance(e, (tirx.And, tirx.Or, tirx.Select)) or is_if_then_else(e)
    children = list(expr_children(e))
    return here + [a for x in (children[:1] if lazy else children) for a in _loads(x)]


def _leaves(buffer, indices, extents: dict) -> bool:
    """True if an access with affine indices lies outside of its tile in some iteration."""
    known = {v: n for v, n in extents.items() if n}
    return on_chip(buffer) and any(_outside(index, size, known) for index, size in zip(indices, buffer.ty.shape))


def _outside(index, size, extents: dict) -> bool:
    """True if an affine index leaves a dimension of `size` in some iteration."""
    limits, end = affine_limits(index, extents), const_int(size)
    return limits is not None and end is not None and (limits[0] < 0 or limits[1] >= end)


__all__ = ["narrow_nests"]
