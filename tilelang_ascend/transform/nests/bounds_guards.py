"""Conditions of element-wise stores that the transfers of tiles make superfluous.

    if g < N: v = A[g] * 2; C[g] = v; D[g] = v + 1        becomes     v = A[g] * 2; C[g] = v; D[g] = v + 1

where being in bounds of C and of D implies the condition: stores are clipped anyway. Conditions that say no more than that loop
variables lie between limits become limits of the transfer. What then runs in more iterations than the user wrote must not reach
outside of a tensor: values that are read at data-dependent places stay under their condition as an `if_then_else`.
"""

from __future__ import annotations

from functools import reduce

from ...analysis.index.nest_indices import NestIndices, conjuncts, implied_by_bounds
from ...analysis.index.nest_order import NestOrder
from ...ir import (
    AllocBuffer,
    Bind,
    BufferStore,
    For,
    IfThenElse,
    Range,
    Stmt,
    StmtMutator,
    TensorLoad,
    Var,
    const_int,
    dtype_of,
    free_vars,
    if_then,
    imm,
    scope_of,
    seq,
    statements,
    stmts_of,
    sym,
    tirx,
)
from ...tile.uses import loads_in, on_chip
from .store_selected import fills_hull


class DropBoundsGuards(StmtMutator):
    """Rewrites the body of one nest. `limits`: {buffer: {loop variable: (first, end)}} of stores whose conditions became limits.
    `order`: which tensors are accessed in program order, element by element or in one tile. `analyzer`: what is known around the nest. `unlimited`: tensors whose
    tiles no limit can cut."""

    def __init__(self, loops, body: Stmt, stepped: frozenset, order: NestOrder, analyzer: sym.Analyzer, unlimited: set):
        self.order, self.unlimited = order, unlimited
        self.limits: dict = {}
        self.nest = NestIndices(loops, body, stepped, analyzer=analyzer)
        self.stores = [x.buffer for x in statements(body) if isinstance(x, BufferStore)]
        self.data = _Data(body, self.nest)
        self.inside = 0
        """How many conditions that stay are around the statement."""

    def visit_IfThenElse(self, s: IfThenElse):
        s = _joined(s)
        terms, body = conjuncts(s.condition), stmts_of(s.then_case)
        private = {x.buffer for x in body if isinstance(x, AllocBuffer)}
        # Which terms each statement needs, by number; None for those that compute nothing anybody else sees.
        needed = [
            None if isinstance(x, (Bind, AllocBuffer)) else {k for k, t in enumerate(terms) if not self.droppable(t, x, private)}
            for x in body
        ]
        different = [n for k, n in enumerate(needed) if n is not None and n not in needed[:k]]
        if s.else_case is not None or not different:
            return self.keep(s)
        if len(different) == 1 or any(x.source in self.nest.changed for x in loads_in(s.condition)):
            return self.without(s, terms, set().union(*different), body)
        # Each statement has its own condition.
        return [self.safe(x, terms, False) if n is None else self.without(s, terms, n, [x]) for x, n in zip(body, needed)]

    def keep(self, s: IfThenElse):
        """The statement with its condition."""
        self.inside += 1
        out = self.generic(s)
        self.inside -= 1
        return out

    def without(self, s: IfThenElse, terms: list, needed: set, body: list):
        """`body` under those of the terms that are needed; bounds imply the others."""
        left = [terms[k] for k in sorted(needed)]
        if left and self.limit(left, body):
            return [self.visit(self.safe(x, terms, False)) for x in body]
        body = [self.safe(x, [t for k, t in enumerate(terms) if k not in needed], True) for x in body]
        return self.keep(if_then(_all(left), seq(body), span=s.span)) if left else [self.visit(x) for x in body]

    def limit(self, terms: list, body: list) -> bool:
        """Make `terms` limits of all stores of `body`, if that is all they say. Conditions around them must not be left."""
        stores = [x for x in body if not isinstance(x, Bind)]
        if self.inside or not all(isinstance(x, BufferStore) and self.moved(x) for x in stores):
            return False
        if any(x.buffer in self.order.boxes or x.buffer in self.unlimited for x in stores):
            return False
        found = {x.buffer: self.nest.box(terms, x) for x in stores}
        if None in found.values() or any(sum(b.same_as(x) for b in self.stores) != 1 for x in found):
            return False
        # The transfer is one of a box, so every element of it must be stored to.
        if not all(fills_hull(self.nest.forms(x.indices), self.nest.extents) for x in stores):
            return False
        self.limits.update(found)
        return True

    def moved(self, store: BufferStore) -> bool:
        """True if a store to GM becomes a transfer: only these are clipped."""
        if store.buffer in self.order.unstaged:
            return False
        return scope_of(store.buffer) in ("global", "") and self.nest.forms(store.indices) is not None

    def droppable(self, term, s: Stmt, private: set) -> bool:
        """True if running `s` where `term` does not hold changes nothing outside of the nest."""
        if isinstance(s, BufferStore):
            return s.buffer in private or (self.moved(s) and implied_by_bounds(term, s))
        if isinstance(s, (Bind, AllocBuffer)):
            return True
        if isinstance(s, IfThenElse):
            if self.data.unsafe(s.condition, False):
                return False
            sides = stmts_of(s.then_case) + stmts_of(s.else_case)
        elif isinstance(s, For) and const_int(s.extent) is not None:
            sides = stmts_of(s.body)
        else:
            return False
        private = private | {x.buffer for x in sides if isinstance(x, AllocBuffer)}
        return all(self.droppable(term, x, private) for x in sides)

    def safe(self, s: Stmt, terms: list, clipped: bool) -> Stmt:
        """`s` whose values are read only where `terms` hold, if reading them elsewhere could go wrong.

        clipped: the terms are bounds of tensors.
        """
        return seq(_Guard(self.data, _all(terms), clipped).visit(s)) if terms else s


class _Data:
    """Which values of a nest are read at places that depend on data, or that may lie outside of a tile."""

    def __init__(self, body: Stmt, nest: NestIndices):
        self.values = {s.var: s.value for s in statements(body) if isinstance(s, Bind)}
        """Values of the nest's own variables."""
        self.analyzer = nest.analyzer
        for v, n in nest.extents.items():
            if n:
                self.analyzer.bind(v, Range.from_min_extent(imm(0, dtype_of(v)), imm(n, dtype_of(v))))

    def unsafe(self, value, clipped: bool) -> bool:
        """True if `value` loads from a place that data decides, or from a tile at a place that may be none of it. What lies outside of a
        tensor reads zero, and the first element is a safe place: with `clipped`, an index that is an element of GM as it is does no harm."""
        return any(
            self.decided(i) and not (clipped and self.plain(i)) or self.leaves(x.source, i, n)
            for x in loads_in(value)
            for i, n in zip(x.indices, x.source.ty.shape)
        )

    def leaves(self, buffer, index, size) -> bool:
        """True if an index may lie outside of a dimension of a tile in some iteration."""
        return on_chip(buffer) and not (self.analyzer.can_prove(index >= 0) and self.analyzer.can_prove(index < size))

    def decided(self, index) -> bool:
        """True if an index depends on memory."""
        if loads_in(index):
            return True
        return any(v in self.values and self.decided(self.values[v]) for v in free_vars(index))

    def plain(self, index) -> bool:
        """True if an index is an element of GM, possibly converted."""
        while isinstance(index, tirx.Cast) or isinstance(index, Var) and index in self.values:
            index = index.value if isinstance(index, tirx.Cast) else self.values[index]
        if not isinstance(index, TensorLoad) or scope_of(index.source) not in ("global", ""):
            return False
        return not any(self.decided(i) for i in index.indices)


class _Guard(StmtMutator):
    """Values that are read at data-dependent places only where `condition` holds."""

    def __init__(self, data: _Data, condition, clipped: bool):
        self.data, self.condition, self.clipped = data, condition, clipped

    def value(self, value):
        if not self.data.unsafe(value, self.clipped):
            return value
        return tirx.if_then_else(self.condition, value, imm(0, dtype_of(value)))

    def visit_BufferStore(self, s: BufferStore):
        return BufferStore(s.buffer, self.value(s.value), list(s.indices), span=s.span)

    def visit_Bind(self, s: Bind):
        return Bind(s.var, self.value(s.value), span=s.span)


def _joined(s: IfThenElse) -> IfThenElse:
    """`if a: if b: …` as `if a and b: …`."""
    while s.else_case is None:
        body = stmts_of(s.then_case)
        if len(body) != 1 or not isinstance(body[0], IfThenElse) or body[0].else_case is not None:
            break
        s = if_then(tirx.And(s.condition, body[0].condition), body[0].then_case, span=s.span)
    return s


def _all(terms: list):
    return reduce(tirx.And, terms)


__all__ = ["DropBoundsGuards"]
