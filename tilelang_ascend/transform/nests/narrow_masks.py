"""narrow_masks: what adds 0 or -inf to numbers that were converted from float16, or chooses between them and such, does it before they are converted.

Before:  Parallel(i, j): x[i, j] = float32(raw[i, j]); if …: Parallel(i, j): x[i, j] = x[i, j] + if_then_else(…, 0, -inf)  # raw: float16
After:   if …: Parallel(i, j): raw[i, j] = raw[i, j] + if_then_else(…, 0, -inf); Parallel(i, j): x[i, j] = float32(raw[i, j])

Such sums are the same numbers in both dtypes. A mask stands no longer between scores and their maximum then (`narrow_maxima`): of tiles that are worked
on in slices, the maximum of one slice is found beside the exponentials of the one before. Smaller tiles stay as they are.

Requires: mapped Tile IR, before narrow_maxima. Ensures: the same values.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from ...analysis.index.coverage import writes_whole
from ...ir import (
    BufferStore,
    For,
    IfThenElse,
    PrimFunc,
    SeqStmt,
    Stmt,
    StmtMutator,
    TensorLoad,
    choice_of,
    dtype_of,
    imm,
    is_choice,
    seq,
    statements,
    stmts_of,
    tirx,
)
from ...ir.wellformed import elements_of
from ...tile.jumps import may_leave
from ...tile.nests import is_own
from ...tile.uses import is_parallel, loads_in, own_uses, uses_of
from .conversions import conversion_of

NARROW = "float16"
LEAST_ELEMENTS = 32768
"""Of a tile, which has four slices of rows then. With fewer it takes longer: rows of float16 need 7 cycles each to be reduced to their maximum."""


def narrow_masks(func: PrimFunc) -> PrimFunc:
    """Apply to a mapped Tile IR function."""
    readers = Counter(b for s in statements(func.body) for b in own_uses(s).reads)
    return func.with_body(_Narrow(readers)(func.body))


class _Narrow(StmtMutator):
    """readers: buffer -> how many statements read it."""

    def __init__(self, readers: Counter):
        self.readers = readers

    def visit_SeqStmt(self, s: SeqStmt):
        body = list(stmts_of(seq([self.visit(x) for x in s.seq])))
        for i in range(len(body)):
            at = self.conversion(body, i)
            if at is not None:
                _, narrow = conversion_of(body[at])
                body = [*body[:at], *body[at + 1 : i], _OfNarrow(narrow)(body[i]), body[at], *body[i + 1 :]]
        return seq(body)

    def conversion(self, body: list[Stmt], i: int) -> int | None:
        """The place of the conversion of what the mask at `i` works on, behind which no one else looks at the narrower numbers."""
        store = _masked(body[i])
        if store is None:
            return None
        at = next((j for j in reversed(range(i)) if store.buffer in uses_of(body[j]).writes), None)
        found = None if at is None else conversion_of(body[at])
        if (
            found is None
            or dtype_of(found[1]) != NARROW
            or elements_of(found[1]) < LEAST_ELEMENTS
            or self.readers[found[1]] != 1
            or any(map(may_leave, body[at:i]))
        ):
            return None
        wide, narrow = found
        between = [uses_of(x) for x in body[at + 1 : i]]
        fresh = any(writes_whole(x, narrow) for x in body[:at] if narrow in uses_of(x).writes)
        return at if fresh and not any(wide in u.all or narrow in u.writes for u in between) else None


def _masked(s: Stmt) -> BufferStore | None:
    """The store of a nest, or of a nest in a branch, that leaves numbers as they are or puts constants of `NARROW` in their place."""
    inside = statements(s)
    stores = [x for x in inside if isinstance(x, BufferStore)]
    branches = isinstance(s, IfThenElse) and s.else_case is None and is_parallel(s.then_case)
    if (
        len(stores) != 1
        or not (is_parallel(s) or branches)
        or not all(isinstance(x, (BufferStore, For, IfThenElse, SeqStmt)) for x in inside)
    ):
        return None
    (store,) = stores
    others = sum(isinstance(x, IfThenElse) for x in inside) > branches
    if others or branches and not _is_free(s.condition, store):
        return None
    return store if _keeps(store.value, store) else None


def _keeps(e, store: BufferStore) -> bool:
    """True for the element that is stored to, changed by nothing but sums with 0 and infinities and choices between it and numbers of `NARROW`."""
    if isinstance(e, TensorLoad):
        return is_own(e, store)
    if isinstance(e, tirx.Add):
        return any(_keeps(a, store) and _made_of(b, store, _is_neutral) for a, b in ((e.a, e.b), (e.b, e.a)))
    if not is_choice(e):
        return False
    condition, *values = choice_of(e)
    kept = [_keeps(v, store) for v in values]
    return _is_free(condition, store) and any(kept) and all(k or _made_of(v, store, _is_narrow) for k, v in zip(kept, values))


def _made_of(e, store: BufferStore, fits) -> bool:
    """True for a constant that `fits`, and for choices between such."""
    if is_choice(e):
        condition, *values = choice_of(e)
        return _is_free(condition, store) and all(_made_of(v, store, fits) for v in values)
    return isinstance(e, tirx.FloatImm) and fits(float(e.value))


def _is_free(condition, store: BufferStore) -> bool:
    return not any(x.source.same_as(store.buffer) for x in loads_in(condition))


def _is_neutral(value: float) -> bool:
    """Of sums: they are the same numbers in all dtypes."""
    return value == 0 or np.isinf(value)


def _is_narrow(value: float) -> bool:
    """A number of `NARROW`."""
    with np.errstate(over="ignore"):
        return float(np.dtype(NARROW).type(value)) == value


class _OfNarrow(StmtMutator):
    """A mask on the elements of `narrow` instead of those it works on."""

    def __init__(self, narrow):
        self.narrow = narrow

    def visit_BufferStore(self, s: BufferStore):
        return BufferStore(self.narrow, self.value(s.value), list(s.indices), span=s.span)

    def value(self, e):
        if isinstance(e, TensorLoad):
            return tirx.BufferLoad(self.narrow, list(e.indices))
        if isinstance(e, tirx.FloatImm):
            return imm(float(e.value), NARROW)
        if isinstance(e, tirx.Add):
            return self.value(e.a) + self.value(e.b)
        condition, a, b = choice_of(e)
        return tirx.if_then_else(condition, self.value(a), self.value(b))


__all__ = ["narrow_masks"]
