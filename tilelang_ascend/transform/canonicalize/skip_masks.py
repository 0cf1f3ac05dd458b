"""skip_masks: steps whose products need no mask do without.

Before:  for k: Parallel: s[i, j] = if_then_else(bx * 64 + i >= k * 64 + j, 0, -inf); gemm(Q, K[k], s)
After:   for k: fill(s, 0); gemm(Q, K[k], s)
             if not bx * 64 >= k * 64 + 63: Parallel: s[i, j] = if_then_else(bx * 64 + i >= k * 64 + j, s[i, j], s[i, j] + -inf)

Before:  gemm(Q, K[k], s); Parallel: s[i, j] = if_then_else(bx * 64 + i >= k * 64 + j, s[i, j], -inf)
After:   gemm(Q, K[k], s); if not bx * 64 >= k * 64 + 63: the same

Before:  gemm(Q, K[k], s); Parallel: s[i, j] = if_then_else(bx * 64 + i >= k * 64 + j and bx * 64 + i < length, s[i, j], -inf)
After:   gemm(Q, K[k], s); if bx * 64 + 63 < length and not bx * 64 >= k * 64 + 63: Parallel: s[i, j] = if_then_else(bx * 64 + i >= k * 64 + j, …)
         if not bx * 64 + 63 < length: the same

GPU kernels write masks into the accumulator, in front of the product or behind it. Most steps of causal attention are on one side of the
diagonal, where no element is masked; one comparison of two scalars tells. Conditions are comparisons of sums of loop variables, whose least
favourable element is known. What asks for the row of an element alone, and for nothing else than the other rows do, is asked apart: few tiles have rows
behind the last one, and a mask of rows is made of as many instructions as the rest.

Requires: Tile IR after merge_steps, before separate_products. Ensures: same values but for the rounding of sums with masks that are neither zero
nor infinite.
"""

from __future__ import annotations

from functools import reduce

from ...analysis.index.coverage import whole_store
from ...analysis.index.nest_indices import conjuncts, over_nest
from ...ir import (
    Bind,
    BufferStore,
    For,
    IfThenElse,
    PrimFunc,
    SeqStmt,
    Stmt,
    StmtMutator,
    While,
    const_int,
    free_vars,
    full_region,
    is_if_then_else,
    renew,
    seq,
    statements,
    structural_equal,
    substitute_expr,
    tirx,
)
from ...tile.clears import gemm_args, multiplies_own, zero_fill
from ...tile.jumps import may_leave
from ...tile.uses import covers_whole, loads_in, own_uses, uses_of


class _Skip(StmtMutator):
    def visit_SeqStmt(self, s: SeqStmt):
        body, after = list(s.seq), {}
        for i, nest in enumerate(body):
            mask = _Mask.of(nest)
            if mask is None:
                continue
            if mask.keeps:
                if _is_product(mask.tile, body[:i]):
                    body[i] = mask.unless_idle()
            elif (end := _product_of(mask.tile, body, i)) is not None:
                body[i] = zero_fill(full_region(mask.tile), nest.span)
                after[end] = mask.added()
        out = []
        for i, x in enumerate(body):
            out += [self.visit(x)] + ([after[i]] if i in after else [])
        return out


def _is_product(tile, before: list[Stmt]) -> bool:
    """True if the last statement that uses `tile` adds a product to it."""
    last = next((s for s in reversed(before) if tile in uses_of(s).all), None)
    return last is not None and _adds_products(last, tile)


def _product_of(tile, body: list[Stmt], first: int) -> int | None:
    """The place in `body` of the last product that is added to what the statement `first` makes of `tile` before anybody sees it."""
    last = None
    for i in range(first + 1, len(body)):
        if _adds_products(body[i], tile):
            last = i
        elif tile in uses_of(body[i]).all or may_leave(body[i]):
            break
    return last


def _adds_products(s: Stmt, tile) -> bool:
    """True if what `s` does with `tile` is to add products to all of it."""
    users = [x for x in statements(s) if tile in own_uses(x).all]
    return bool(users) and not any(isinstance(x, While) or may_leave(x) for x in statements(s)) and all(_adds_to(x, tile) for x in users)


def _adds_to(s: Stmt, tile) -> bool:
    args = gemm_args(s)
    return args is not None and args[2].source.same_as(tile) and covers_whole(args[2]) and const_int(args[3]) == 0 and not multiplies_own(s)


class _Mask:
    """A nest that stores to all of a tile by a condition: zero or another number, or what is there or something else. keeps: the latter. idle: a
    condition on scalars, under which it is zero, or stays, everywhere. by_rows: (a condition under which no row is masked as a row, what is `idle` beside it,
    what the nest stores then), None if no row is."""

    def __init__(self, nest: For, store: BufferStore, keeps: bool, idle, by_rows: tuple | None):
        self.nest, self.store, self.tile, self.keeps, self.idle, self.by_rows = nest, store, store.buffer, keeps, idle, by_rows

    @classmethod
    def of(cls, nest: Stmt) -> _Mask | None:
        s = whole_store(nest)
        if s is None or not is_if_then_else(s.value):
            return None
        names: dict = {}
        for x in statements(nest):
            if isinstance(x, Bind):
                names[x.var] = substitute_expr(x.value, names)
        loops = [x for x in statements(nest) if isinstance(x, For)]
        if any(const_int(x.min) != 0 for x in loops):
            return None
        extents = {x.loop_var: const_int(x.extent) for x in loops}
        value = substitute_expr(s.value, names)
        for keeps in (False, True):
            terms, masked = _terms(value, s, keeps)
            tests = [_idle(x, masked, extents) for x in terms]
            if tests and None not in tests and any(free_vars(x) for x in tests):
                return cls(nest, s, keeps, reduce(tirx.And, tests), _by_rows(value, s, terms, tests, masked, set(extents)))
        return None

    def unless_idle(self, change=lambda s: s) -> Stmt:
        """The nest, in the steps that need it. `change`: what it stores -> what is to be stored in its place."""
        if self.by_rows is None:
            return self._under(tirx.Not(self.idle), change(self.store.value))
        no_row, idle, value = self.by_rows
        apart = self._under(tirx.And(no_row, tirx.Not(idle)), change(value))
        return seq([apart, self._under(tirx.Not(no_row), change(self.store.value))])

    def added(self) -> Stmt:
        """The same of a nest that adds the mask to the tile: where it is zero, elements stay as they are."""
        here = tirx.BufferLoad(self.tile, list(self.store.indices))

        def sums(value):
            condition, *choices = value.args
            return tirx.if_then_else(condition, *(here if x.value == 0 else here + x for x in choices))

        return self.unless_idle(sums)

    def _under(self, condition, value) -> IfThenElse:
        s = self.store
        nest = _Replace(s, BufferStore(s.buffer, value, list(s.indices), span=s.span))(self.nest)
        return IfThenElse(condition, renew(nest), None, span=self.nest.span)


def _by_rows(value, s: BufferStore, terms: list, tests: list, masked: bool, loop_vars: set) -> tuple | None:
    """`_Mask.by_rows` of a `value` that `s` stores. masked: is an element masked where any of the `terms` holds, or where not all do? tests: what asks each of
    them of the whole nest."""
    lanes = free_vars(s.indices[-1]) & loop_vars
    of_rows = [bool(free_vars(x) & loop_vars) and not free_vars(x) & lanes for x in terms]
    if len(s.indices) < 2 or not any(of_rows) or all(of_rows):
        return None
    rows, others = ([x for x, is_row in zip(tests, of_rows) if is_row == wanted] for wanted in (True, False))
    left = reduce(tirx.Or if masked else tirx.And, [x for x, is_row in zip(terms, of_rows) if not is_row])
    return reduce(tirx.And, rows), reduce(tirx.And, others), tirx.if_then_else(left, *value.args[1:])


class _Replace(StmtMutator):
    def __init__(self, old: Stmt, new: Stmt):
        self.old, self.new = old, new

    def visit_BufferStore(self, s: BufferStore):
        return self.new if s.same_as(self.old) else s


def _terms(value, s: BufferStore, keeps: bool) -> tuple[list, bool]:
    """(The terms of the choice `value` that `s` stores, whether it is zero, or the element `s` stores to, if none of them holds, or if all do); no terms if that is not
    known."""
    condition, *choices = value.args
    if loads_in(condition) or not keeps and not all(isinstance(x, (tirx.IntImm, tirx.FloatImm)) for x in choices):
        return [], False
    yes, no = ((structural_equal(x, tirx.BufferLoad(s.buffer, list(s.indices))) if keeps else x.value == 0) for x in choices)
    if yes:
        return conjuncts(condition), False
    return (_alternatives(condition), True) if no else ([], False)


def _idle(term, masked: bool, extents: dict):
    """A condition on scalars under which no element of a nest is masked by a term: it holds nowhere if it masks, everywhere if it does not. None if that is not
    known."""
    parts = conjuncts(term) if masked else _alternatives(term)
    if len(parts) == 1:
        return over_nest(tirx.Not(term) if masked else term, extents, every=True)
    found = [x for x in (_idle(part, masked, extents) for part in parts) if x is not None]
    return reduce(tirx.Or, found) if found else None


def _alternatives(condition) -> list:
    """The terms of `a or b or …`."""
    return _alternatives(condition.a) + _alternatives(condition.b) if isinstance(condition, tirx.Or) else [condition]


def skip_masks(func: PrimFunc) -> PrimFunc:
    """Apply to a Tile IR function."""
    return func.with_body(_Skip()(func.body))


__all__ = ["skip_masks"]
