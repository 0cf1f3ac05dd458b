"""skip_blocks: blocks that store nothing, as data tells, do nothing.

Before:  n = Length[bz]; for k: gemm(…); …; Parallel: if bx * 64 + i < n: Out[start + bx * 64 + i, j] = o[i, j]
After:   n = Length[bz]; if bx * 64 < n: for k: gemm(…); …; Parallel: the same

Grids are as long as the longest of several sequences, whose lengths are data: blocks behind the end of a shorter one compute what they then do not store. A
condition of a nest that no iteration fulfils says so before anything is computed: a comparison of sums of indices, whose most favourable element is known.
Only blocks with products in a loop, which are worth a branch, and only under conditions on data: others are known to hold when the kernel is compiled,
or leave out part of a block.

Requires: Tile IR. Ensures: the same stores and output.
"""

from __future__ import annotations

from functools import reduce

from ...analysis.index.data_names import DataNames
from ...analysis.index.nest_indices import conjuncts, over_nest, sides_of
from ...ir import (
    AllocBuffer,
    AssertStmt,
    Bind,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    PrimFunc,
    SeqStmt,
    Stmt,
    While,
    const_int,
    free_vars,
    seq,
    statements,
    stmts_of,
    structural_equal,
    substitute_expr,
    tirx,
)
from ...ir.grids import rewrite_grid_bodies
from ...tile import ASSUME, is_op
from ...tile.conditions import can_be_anywhere, has_product
from ...tile.uses import is_output, is_parallel, is_scalar_var, loads_in, on_chip, own_uses, work_of


class _AlwaysStores(Exception):
    """A statement leaves something whatever data says."""


class _Effects:
    """What statements leave behind a block, each with the condition without which it leaves nothing.

    inside: names and variables that these statements set. data: names of data. needed: the conditions.
    """

    def __init__(self, stmts: list[Stmt], data: DataNames):
        body = seq(stmts)
        every = statements(body)
        self.inside = {s.var for s in every if isinstance(s, Bind)} | {s.loop_var for s in every if isinstance(s, For)}
        self.data, self.needed = data, []
        self.go(body, [], {}, {})

    def go(self, s: Stmt, terms: list, extents: dict, names: dict) -> None:
        """terms: conditions `s` stands under. extents: of the nest around it. names: what names in the nest stand for."""
        if isinstance(s, SeqStmt):
            names = dict(names)
            for x in s.seq:
                self.go(x, terms, extents, names)
        elif isinstance(s, Bind):
            if extents and not loads_in(s.value):
                names[s.var] = substitute_expr(s.value, names)
        elif isinstance(s, For):
            trips = const_int(s.extent) if const_int(s.min) == 0 else None
            self.go(s.body, terms, {**extents, s.loop_var: trips} if is_parallel(s) else extents, names)
        elif isinstance(s, While):
            self.go(s.body, terms, extents, names)
        elif isinstance(s, IfThenElse):
            holds = substitute_expr(s.condition, names)
            self.go(s.then_case, [*terms, *((x, extents) for x in conjuncts(holds))], extents, names)
            if s.else_case is not None:
                self.go(s.else_case, [*terms, (tirx.Not(holds), extents)], extents, names)
        elif self.leaves(s):
            self.add(terms)

    @staticmethod
    def leaves(s: Stmt) -> bool:
        """True for what is seen from outside of a block."""
        if isinstance(s, AssertStmt) or is_output(s) or isinstance(s, Evaluate) and work_of(s) is None and not is_op(s, ASSUME):
            return True
        return any(
            not on_chip(b) and not is_scalar_var(b) for b in own_uses(s).writes | ({s.buffer} if isinstance(s, BufferStore) else set())
        )

    def add(self, terms: list) -> None:
        known = [x for x in (self.some(term, extents) for term, extents in terms) if x is not None]
        if not known:
            raise _AlwaysStores
        known = [x for n, x in enumerate(known) if not any(structural_equal(x, y) for y in known[:n])]
        condition = reduce(tirx.And, known)
        if not any(structural_equal(condition, x) for x in self.needed):
            self.needed.append(condition)

    def some(self, term, extents: dict):
        """A condition in front of the statements under which some iteration of a nest fulfils a term; None if nobody knows one."""
        # An index beside data may wrap: then others are the most favourable.
        if any(self.data.is_data(e) and not free_vars(e).isdisjoint(extents) for e in (sides_of(term) or ())[:2]):
            return None
        found = over_nest(term, extents, every=False)
        if found is None or not self.inside.isdisjoint(free_vars(found)) or loads_in(found) or not can_be_anywhere(found):
            return None
        return found


def _skipped(body: Stmt, data: DataNames, notes: list) -> Stmt:
    """The body of a block, with what only blocks that store something need under the condition that tells."""
    stmts = stmts_of(body)
    names = [n for n, s in enumerate(stmts) if isinstance(s, Bind)]
    first = 0
    while True:
        rest = [s for s in stmts[first:] if not isinstance(s, AllocBuffer)]
        if len(rest) < 2 or not any(_multiplies_in_a_loop(s) for s in rest):
            return body
        try:
            needed = _Effects(rest, data).needed
        except _AlwaysStores:
            name = next((n for n in names if n >= first), None)
            if name is None:
                return body
            first = name + 1  # What stands in front of the condition may be what it asks for.
            continue
        break
    if not needed:
        return body
    condition = reduce(tirx.Or, needed)
    if not data.is_data(condition):
        return body
    notes.append("blocks that store nothing, as data tells, are left out")
    allocs = [s for s in stmts[first:] if isinstance(s, AllocBuffer)]
    return seq(stmts[:first], allocs, IfThenElse(condition, seq(rest), None, span=rest[0].span))


def _multiplies_in_a_loop(s: Stmt) -> bool:
    return any(isinstance(x, For) and not is_parallel(x) and has_product(x) for x in statements(s))


def skip_blocks(func: PrimFunc, notes: list) -> PrimFunc:
    """Apply to a Tile IR function."""
    data = DataNames(func.body)
    return rewrite_grid_bodies(func, lambda body: _skipped(body, data, notes))


__all__ = ["skip_blocks"]
