"""defer_masks: a mask that a product is added to is added to the product, in steps that need it.

Before:  for k: Parallel: s[i, j] = if_then_else(bx * 64 + i >= k * 64 + j, 0, -inf); gemm(Q, K[k], s)
After:   for k: fill(s, 0); gemm(Q, K[k], s)
             if not bx * 64 >= k * 64 + 63: Parallel: s[i, j] = s[i, j] + if_then_else(bx * 64 + i >= k * 64 + j, 0, -inf)

GPU kernels write masks into the accumulator. Most steps of causal attention are on one side of the diagonal, where every element starts from
zero; one comparison of two scalars tells. Conditions are comparisons of sums of loop variables, whose least favourable element is known.

Requires: Tile IR after merge_steps, before separate_products. Ensures: same values but for the rounding of sums with masks that are neither zero
nor infinite.
"""

from __future__ import annotations

from functools import reduce

from ...analysis.index.affine import affine
from ...analysis.index.coverage import writes_whole
from ...analysis.index.nest_indices import conjuncts
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
    dtype_of,
    free_vars,
    full_region,
    imm,
    is_if_then_else,
    statements,
    substitute_expr,
    tirx,
)
from ...tile.clears import gemm_args, multiplies_own, zero_fill
from ...tile.jumps import may_leave
from ...tile.uses import covers_whole, is_parallel, loads_in, on_chip, own_uses, uses_of

_AT_LEAST, _AT_MOST = (tirx.GE, tirx.GT), (tirx.LE, tirx.LT)
_NEGATED = {tirx.GE: tirx.LT, tirx.GT: tirx.LE, tirx.LE: tirx.GT, tirx.LT: tirx.GE}


class _Defer(StmtMutator):
    def visit_SeqStmt(self, s: SeqStmt):
        body, after = list(s.seq), {}
        for i, nest in enumerate(body):
            mask = _Mask.of(nest)
            end = None if mask is None else _product_of(mask.tile, body, i)
            if end is not None:
                body[i] = zero_fill(full_region(mask.tile), nest.span)
                after[end] = IfThenElse(tirx.Not(mask.all_zero), mask.added(), None, span=nest.span)
        out = []
        for i, x in enumerate(body):
            out += [self.visit(x)] + ([after[i]] if i in after else [])
        return out


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
    """A nest that starts a tile from zero or from something else, by a condition. all_zero: a condition on scalars, under which all of it is
    zero."""

    def __init__(self, nest: For, store: BufferStore, all_zero):
        self.nest, self.store, self.tile, self.all_zero = nest, store, store.buffer, all_zero

    @classmethod
    def of(cls, nest: Stmt) -> _Mask | None:
        if not is_parallel(nest):
            return None
        rest, names = _without_names([s for s in statements(nest) if not isinstance(s, (For, SeqStmt))])
        if len(rest) != 1 or not isinstance(rest[0], BufferStore) or not is_if_then_else(rest[0].value):
            return None
        (s,) = rest
        if not on_chip(s.buffer) or not writes_whole(nest, s.buffer):
            return None
        loops = [x for x in statements(nest) if isinstance(x, For)]
        terms = _terms_of_zero(*s.value.args)
        if not terms or any(const_int(x.min) != 0 for x in loops):
            return None
        extents = {x.loop_var: const_int(x.extent) for x in loops}
        tests = [_for_all(substitute_expr(x, names), extents) for x in terms]
        return None if None in tests or not any(free_vars(x) for x in tests) else cls(nest, s, reduce(tirx.And, tests))

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


def _without_names(body: list[Stmt]) -> tuple[list[Stmt], dict]:
    """The statements behind names for numbers, and what these stand for."""
    names: dict = {}
    for i, s in enumerate(body):
        if not isinstance(s, Bind) or loads_in(s.value):
            return body[i:], names
        names[s.var] = substitute_expr(s.value, names)
    return [], names


def _terms_of_zero(condition, yes, no) -> list:
    """The terms that all have to hold for a choice to be zero; none if that is not known."""
    if loads_in(condition) or not all(isinstance(x, (tirx.IntImm, tirx.FloatImm)) for x in (yes, no)):
        return []
    if yes.value == 0:
        return conjuncts(condition)
    terms = [_negated(x) for x in _alternatives(condition)] if no.value == 0 else []
    return [] if None in terms else terms


def _alternatives(condition) -> list:
    """The terms of `a or b or …`."""
    return _alternatives(condition.a) + _alternatives(condition.b) if isinstance(condition, tirx.Or) else [condition]


def _negated(term):
    """The comparison that holds where `term` does not; None for other terms."""
    return _NEGATED[type(term)](term.a, term.b) if type(term) in _NEGATED else None


def _for_all(term, extents: dict):
    """A condition on scalars under which a comparison holds for all values of the variables of a nest: that it does for the least favourable
    of them. None if that is not known."""
    if not isinstance(term, (*_AT_LEAST, *_AT_MOST)) or dtype_of(term.a) not in ("int32", "int64"):
        return None
    forms = [affine(e, list(extents)) for e in (term.a, term.b)]
    if None in forms:
        return None
    wanted = 1 if isinstance(term, _AT_LEAST) else -1
    corner = {}
    for v, n in extents.items():
        growth = wanted * (forms[0].coeffs.get(v, 0) - forms[1].coeffs.get(v, 0))
        corner[v] = imm(0 if growth >= 0 else n - 1, dtype_of(v))
    return substitute_expr(term, corner)


def defer_masks(func: PrimFunc) -> PrimFunc:
    """Apply to a Tile IR function."""
    return func.with_body(_Defer()(func.body))


__all__ = ["defer_masks"]
