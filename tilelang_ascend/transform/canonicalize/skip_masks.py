"""skip_masks: steps whose products need no mask do without.

Before:  for k: Parallel: s[i, j] = if_then_else(bx * 64 + i >= k * 64 + j, 0, -inf); gemm(Q, K[k], s)
After:   for k: fill(s, 0); gemm(Q, K[k], s)
             if not bx * 64 >= k * 64 + 63: Parallel: s[i, j] = s[i, j] + if_then_else(bx * 64 + i >= k * 64 + j, 0, -inf)

Before:  gemm(Q, K[k], s); Parallel: s[i, j] = if_then_else(bx * 64 + i >= k * 64 + j, s[i, j], -inf)
After:   gemm(Q, K[k], s); if not bx * 64 >= k * 64 + 63: the same

GPU kernels write masks into the accumulator, in front of the product or behind it. Most steps of causal attention are on one side of the
diagonal, where no element is masked; one comparison of two scalars tells. Conditions are comparisons of sums of loop variables, whose least
favourable element is known.

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
                    body[i] = mask.unless_idle(nest)
            elif (end := _product_of(mask.tile, body, i)) is not None:
                body[i] = zero_fill(full_region(mask.tile), nest.span)
                after[end] = mask.unless_idle(mask.added())
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
    condition on scalars, under which it is zero, or stays, everywhere."""

    def __init__(self, nest: For, store: BufferStore, keeps: bool, idle):
        self.nest, self.store, self.tile, self.keeps, self.idle = nest, store, store.buffer, keeps, idle

    @classmethod
    def of(cls, nest: Stmt) -> _Mask | None:
        s = whole_store(nest)
        if s is None or not is_if_then_else(s.value):
            return None
        names: dict = {}
        for x in statements(nest):
            if isinstance(x, Bind):
                names[x.var] = substitute_expr(x.value, names)
        value = substitute_expr(s.value, names)
        loops = [x for x in statements(nest) if isinstance(x, For)]
        if any(const_int(x.min) != 0 for x in loops):
            return None
        extents = {x.loop_var: const_int(x.extent) for x in loops}
        for keeps in (False, True):
            tests = [over_nest(x, extents, every=True) for x in _idle_terms(value, s, keeps)]
            if tests and None not in tests and any(free_vars(x) for x in tests):
                return cls(nest, s, keeps, reduce(tirx.And, tests))
        return None

    def unless_idle(self, s: Stmt) -> IfThenElse:
        """`s` in the steps that need it."""
        return IfThenElse(tirx.Not(self.idle), s, None, span=self.nest.span)

    def added(self) -> Stmt:
        """The nest that adds the mask to the tile."""
        s = self.store
        value = tirx.BufferLoad(s.buffer, list(s.indices)) + s.value
        return _Replace(s, BufferStore(s.buffer, value, list(s.indices), span=s.span))(self.nest)


class _Replace(StmtMutator):
    def __init__(self, old: Stmt, new: Stmt):
        self.old, self.new = old, new

    def visit_BufferStore(self, s: BufferStore):
        return self.new if s.same_as(self.old) else s


def _idle_terms(value, s: BufferStore, keeps: bool) -> list:
    """The terms under all of which the choice that `s` stores is zero, or the element it stores to; none if they are not known."""
    condition, *choices = value.args
    if loads_in(condition) or not keeps and not all(isinstance(x, (tirx.IntImm, tirx.FloatImm)) for x in choices):
        return []
    yes, no = ((structural_equal(x, tirx.BufferLoad(s.buffer, list(s.indices))) if keeps else x.value == 0) for x in choices)
    if yes:
        return conjuncts(condition)
    return [tirx.Not(x) for x in _alternatives(condition)] if no else []


def _alternatives(condition) -> list:
    """The terms of `a or b or …`."""
    return _alternatives(condition.a) + _alternatives(condition.b) if isinstance(condition, tirx.Or) else [condition]


def skip_masks(func: PrimFunc) -> PrimFunc:
    """Apply to a Tile IR function."""
    return func.with_body(_Skip()(func.body))


__all__ = ["skip_masks"]
