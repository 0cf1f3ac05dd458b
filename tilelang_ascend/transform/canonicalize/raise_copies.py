"""raise_copies: nests that only move elements of the tiles of the cube core are copies.

Before:  Parallel(i, j): if r + i < M: C[r + i, c + j] = cast(acc[i, j])       Parallel(i, j): atomic_add(dQ[r + i, j], dq[i, j])
After:   copy(acc[0:128, 0:128], C[r : +128, c : +128])                         atomic_add(dQ[r : +64, 0:64], dq[0:64, 0:64])

Iterations are work of the vector cores, to which a result would have to go, and from which an operand would have to come: the cube core has transfers for
both. The loop variables have to stand alone, each in one dimension of both sides, in the same order. Copies are clipped to the tensor, and what a load finds
outside of it is 0: conditions that say no more than that are dropped. Where a store has others, of rows that run time tells, as many are moved.

Tiles of the cube core are operands and accumulators of gemm, and what copies bring to one or take from one. What vector cores need anyway leaves
from there.

Requires: Tile IR without views of tiles. Ensures: values are unchanged.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ...analysis.index.affine import FAR, affine, far_difference
from ...analysis.index.data_names import DataNames
from ...analysis.index.known_lets import known_lets
from ...analysis.index.nest_indices import conjuncts, implied_by_bounds, sides_of
from ...analysis.index.safe_values import safe_values
from ...analysis.index.sums import as_sum
from ...ir import (
    Bind,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    PrimFunc,
    Range,
    Stmt,
    StmtMutator,
    TensorLoad,
    TensorRegion,
    Var,
    children,
    choice_of,
    const_int,
    dtype_of,
    free_vars,
    if_then,
    imm,
    map_children,
    region,
    seq,
    statements,
    stmts_of,
    structural_equal,
    sym,
    tirx,
)
from ...tile import COPY, GEMM, is_op, tile_op, with_args
from ...tile.nests import inline_index_binds, nest_of
from ...tile.uses import is_element_atomic, is_parallel, is_scalar_var, loads_in, moved_regions, on_chip, own_uses, uses_of, work_of

_CONVERTED = {("float32", "float16"), ("float32", "bfloat16")}
"""(from, to) that every way of a copy rounds as a cast does."""

_MOST = (1 << 31) - 1
"""The largest int32."""


class _Move(NamedTuple):
    """One statement of a nest: the element `target` of a tensor or tile gets, or is updated by, the element `source`. `conditions`: under which.
    `zeros`: it gets 0 where `source` is outside of its tensor."""

    stmt: Stmt
    target: BufferStore
    source: TensorLoad
    conditions: list
    zeros: bool = False


def _moves(body: Stmt, conditions: list) -> list[_Move] | None:
    """What `body` moves, None if it does anything else."""
    found: list[_Move] = []
    for s in stmts_of(body):
        if isinstance(s, IfThenElse):
            s = _chosen(s)
        if isinstance(s, IfThenElse):
            inside = _moves(s.then_case, conditions + conjuncts(s.condition)) if s.else_case is None else None
        elif isinstance(s, BufferStore):
            inside = _stored(s, conditions)
        elif isinstance(s, Evaluate) and is_element_atomic(s):
            inside = _updated(s, conditions)
        else:
            inside = None
        if inside is None:
            return None
        found += inside
    return found


def _chosen(s: IfThenElse) -> Stmt:
    """A store whose value a condition chooses, where `s` stores to one element either way; else `s`."""
    sides = stmts_of(s.then_case), stmts_of(s.else_case)
    if any(len(side) != 1 or not isinstance(side[0], BufferStore) for side in sides):
        return s
    (a,), (b,) = sides
    if not a.buffer.same_as(b.buffer) or not all(map(structural_equal, a.indices, b.indices)):
        return s
    return BufferStore(a.buffer, tirx.Select(s.condition, a.value, b.value), a.indices, span=s.span)


def _stored(s: BufferStore, conditions: list) -> list[_Move] | None:
    choice = choice_of(s.value)
    condition, value, other = choice or (None, s.value, None)
    source = _element(value, dtype_of(s.buffer))
    if source is None:
        return None
    if choice is not None:
        # A load outside of the tensor is 0.
        read = BufferStore(source.source, value, source.indices)
        if on_chip(source.source) or not _is_zero(other) or not all(implied_by_bounds(term, read) for term in conjuncts(condition)):
            return None
    return [_Move(s, s, source, conditions, choice is not None)]


def _updated(s: Evaluate, conditions: list) -> list[_Move] | None:
    target, value = s.value.args[:2]
    source = _element(value, dtype_of(target.source))
    if source is None or dtype_of(source.source) != dtype_of(target.source) or on_chip(target.source):
        return None
    if any(const_int(x.extent) != 1 for x in target.region):
        return None
    return [_Move(s, BufferStore(target.source, value, [x.min for x in target.region]), source, conditions)]


def _element(value, dtype: str) -> TensorLoad | None:
    """The element that `value` is, converted to `dtype` at most."""
    if isinstance(value, tirx.Cast):
        if (dtype_of(value.value), dtype) not in _CONVERTED or dtype_of(value) != dtype:
            return None
        value = value.value
    return value if isinstance(value, TensorLoad) else None


def _is_zero(e) -> bool:
    """True for the 0 that a copy finds outside of a tensor, which has no sign."""
    value = getattr(e, "value", None)
    return value == 0 and math.copysign(1, value) > 0


class _Raise(StmtMutator):
    """written: tensors whose elements, as those of tiles, statements of their own read. needed: tiles that come to the vector cores anyway. outside: tensors
    outside of which there are other numbers than 0."""

    def __init__(self, func: PrimFunc):
        body, self.outside = func.body, safe_values(func)
        self.tiles, self.data, self.written = _cube_tiles(body), DataNames(body), uses_of(body).writes
        self.needed = _needed_by_vector_cores(body)
        self.known = known_lets(body, self.data)
        for s in statements(body):
            if isinstance(s, For) and not loads_in(s.extent) and not self.data.is_data(s.extent):
                self.known.bind(s.loop_var, Range.from_min_extent(s.min, s.extent))

    def visit_For(self, s: For):
        if not is_parallel(s):
            return self.generic(s)
        loops, body = nest_of(s)
        extents = {v: const_int(n) for v, n in loops}
        moves = _moves(inline_index_binds(body), [])
        if not moves or any(n is None or n < 1 for n in extents.values()) or not _independent(moves):
            return s
        out = [self.copy(m, extents) for m in moves]
        return s if None in out else out

    def copy(self, m: _Move, extents: dict) -> Stmt | None:
        """A move as one of a tile, None if it is none."""
        source, target = m.source.source, m.target.buffer
        if not self.tiles & {source, target} or not on_chip(target) and source in self.needed or m.zeros and source in self.outside:
            return None
        ends, outside, limited = dict(extents), [], set()
        for term in m.conditions:
            if not on_chip(target) and implied_by_bounds(term, m.target):
                continue
            if not any(v in free_vars(term) for v in extents):
                outside.append(term)
            else:
                limit = None if on_chip(target) else _limit(term, extents, self.data)
                if limit is None or limit.axis in limited:
                    return None
                limited.add(limit.axis)
                ends[limit.axis] = limit.rows(extents[limit.axis], self.known)
                outside.append(limit.some())
        if any(loads_in(term) for term in outside):
            return None
        sides = [_box(b, indices, extents, ends) for b, indices in ((source, m.source.indices), (target, m.target.indices))]
        if None in sides or sides[0][1] != sides[1][1]:
            return None
        names: list = []
        src, dst = (self.named(r, names, m.stmt.span) for r, _ in sides)
        copy = tile_op("copy", src, dst, span=m.stmt.span) if isinstance(m.stmt, BufferStore) else with_args(m.stmt, [dst, src])
        copy = seq(names, copy)
        for term in reversed(outside):
            copy = if_then(term, copy, span=m.stmt.span)
        return copy

    def named(self, r: TensorRegion, names: list, span) -> TensorRegion:
        """`r` with names for the elements that say where it lies; `names` get the statements that read them."""

        def go(e):
            if not isinstance(e, TensorLoad) or is_scalar_var(e.source):
                return map_children(e, go) if loads_in(e) else e
            load = BufferLoad(e.source, [go(i) for i in e.indices])
            if not on_chip(e.source) and e.source not in self.written:
                return load
            names.append(Bind(Var(f"{e.source.name}_v", dtype_of(e)), load, span=span))
            return names[-1].var

        return region(r.source, [go(x.min) for x in r.region], [x.extent for x in r.region])


def _needed_by_vector_cores(body: Stmt) -> set:
    """Tiles that nests, or reductions and the like, read, which do more than move them."""
    if is_parallel(body):
        return set(uses_of(body).reads) if _moves(inline_index_binds(nest_of(body)[1]), []) is None else set()
    works = work_of(body) is not None and not is_op(body, GEMM) and moved_regions(body) is None
    return set().union(own_uses(body).reads if works else (), *map(_needed_by_vector_cores, children(body)))


def _cube_tiles(body: Stmt) -> set:
    """Operands and accumulators of gemm, and tiles that are copied to or from one as a whole."""
    found = {a.source for s in statements(body) if is_op(s, GEMM) for a in s.value.args if isinstance(a, TensorRegion)}
    copies = [tuple(r.source for r in moved_regions(s)) for s in statements(body) if is_op(s, COPY)]
    while more := {b for pair in copies if found & {*pair} for b in pair if on_chip(b)} - found:
        found |= more
    return {b for b in found if on_chip(b)}


def _independent(moves: list[_Move]) -> bool:
    """True if no move uses what another one writes: one of them may run for all iterations before the next one does."""
    written = [m.target.buffer for m in moves]
    read = {m.source.source for m in moves}
    # What says where an element is, too.
    read |= {x.source for m in moves for i in (*m.source.indices, *m.target.indices) for x in loads_in(i)}
    return len(set(written)) == len(written) and read.isdisjoint(written)


class _Limit(NamedTuple):
    """Only iterations `axis` of a loop with `axis + first + least <= end` move something; `least` is 0 or 1."""

    axis: Var
    first: Any
    end: Any
    least: int

    def some(self):
        """Whether there are any."""
        return (tirx.LT if self.least else tirx.LE)(self.first, self.end)

    def rows(self, extent: int, known: sym.Analyzer):
        """How many of `extent` iterations, if any."""
        plus = 1 - self.least
        most, low = (known.const_int_bound(e) for e in (self.end, self.first))
        if dtype_of(self.end) == "int32" and min(int(most.max_value), _MOST) - max(int(low.min_value), -_MOST - 1) + plus <= _MOST:
            return tirx.min(self.end, self.first + (extent - plus)) - self.first + plus
        # From a negative number to a large one it is further than an int32 counts.
        return tirx.Cast("int32", tirx.min(far_difference(self.end, self.first, plus, known), imm(extent, "int64")))


def _limit(term, extents: dict, data: DataNames) -> _Limit | None:
    """What a condition like `first + v < end` says of one loop, if no more; `end` may be data."""
    sides = sides_of(term)
    if sides is None or loads_in(term):
        return None
    small, large, least = sides
    used = [v for v in extents if v in free_vars(term)]
    form = affine(small, used) if len(used) == 1 else None
    # A sum with data may wrap, in some iterations only.
    if form is None or form.coeffs != {used[0]: 1} or used[0] in free_vars(large) or data.is_data(small):
        return None
    first, kind, total = const_int(form.base), dtype_of(small), as_sum(form.base, exact=True)
    reach = sum(abs(c) for _, c in total.terms) * (_MOST + 1) + abs(total.const)
    if kind != "int32" and (reach > FAR // 2 or any(dtype_of(x) != "int32" for x, _ in total.terms)):
        return None
    return _Limit(used[0], form.base if first is None else imm(first, kind), large, least)


def _box(buffer, indices, extents: dict, ends: dict) -> tuple | None:
    """(region of `buffer` that a nest reaches, loop variables of more than one iteration from the outermost dimension to the innermost); None if a variable does
    not stand alone in a dimension of its own, or a tile may be left."""
    mins, sizes, axes = [], [], []
    for i, n in zip(indices, map(const_int, buffer.ty.shape)):
        form = affine(i, list(extents))
        if form is None or dtype_of(i) != "int32" or len(form.coeffs) > 1 or any(c != 1 for c in form.coeffs.values()):
            return None
        axis = next(iter(form.coeffs), None)
        first, reach = const_int(form.base), 1 if axis is None else extents[axis]
        if on_chip(buffer) and (first is None or first < 0 or first + reach > n):
            return None
        size = imm(1) if axis is None else ends[axis]
        mins.append(form.base)
        sizes.append(imm(size) if isinstance(size, int) else size)
        axes.append(axis)
    used = [a for a in axes if a is not None]
    if len(used) != len(set(used)) or any(n != 1 and v not in used for v, n in extents.items()):
        return None
    return region(buffer, mins, sizes), [a for a in used if ends[a] != 1]


def raise_copies(func: PrimFunc) -> PrimFunc:
    """Apply to a Tile IR function."""
    return func.with_body(_Raise(func)(func.body))


__all__ = ["raise_copies"]
