"""narrow_maxima: the greatest of numbers that were converted from a narrower dtype is found before they are converted.

Before:  Parallel(i, j): x[i, j] = float32(raw[i, j]); reduce(x, m, max)  # raw: float16
After:   reduce(raw, m, max); Parallel(i, j): x[i, j] = float32(raw[i, j])

A conversion to a wider float keeps the order of numbers, and every one of them: the same result, of half as many bytes. If nobody uses the wider numbers
in between, it is the conversion that moves.

Requires: mapped Tile IR. Ensures: the same values.
"""

from __future__ import annotations

from ...ir import (
    Evaluate,
    PrimFunc,
    SeqStmt,
    Stmt,
    StmtMutator,
    TensorRegion,
    attrs_of,
    dtype_of,
    free_vars,
    seq,
    stmts_of,
    tirx,
)
from ...tile import REDUCE, is_op, tile_op
from ...tile.jumps import may_leave
from ...tile.uses import covers_whole, uses_of
from .conversions import conversion_of
from .gathered import uses_and_names

KINDS = ("max", "min")


def narrow_maxima(func: PrimFunc) -> PrimFunc:
    """Apply to a mapped Tile IR function."""
    return func.with_body(_Narrow()(func.body))


class _Narrow(StmtMutator):
    def visit_SeqStmt(self, s: SeqStmt):
        body = list(stmts_of(seq([self.visit(x) for x in s.seq])))
        for i, x in enumerate(body):
            at = _conversion(body, i)
            if at is not None:
                new, between = _of_narrow(x, body[at]), body[at + 1 : i]
                both = [*between, new, body[at]] if _passes(body[at], between) else [new, body[at], *between]
                body = [*body[:at], *both, *body[i + 1 :]]
        return seq(body)


def _conversion(body: list[Stmt], i: int) -> int | None:
    """The place of the conversion that made what a reduction at `i` reads, if the reduction may stand in front of it, or it behind the reduction."""
    s = body[i]
    if not is_op(s, REDUCE) or str(s.value.attrs["kind"]) not in KINDS or not covers_whole(s.value.args[0]):
        return None
    src, dst = (a.source for a in s.value.args)
    at = next((j for j in reversed(range(i)) if src in uses_of(body[j]).writes), None)
    found = None if at is None else conversion_of(body[at])
    if found is None or dtype_of(dst) != dtype_of(src) or any(map(may_leave, body[at:i])):
        return None
    uses = [uses_of(x) for x in body[at:i]]
    if any(found[1] in u.writes for u in uses):
        return None
    if _passes(body[at], body[at + 1 : i]):
        return at
    return at if not any(dst in u.all for u in uses) and _known_before(s.value.args[1], body[at:i]) else None


def _passes(conversion: Stmt, stmts: list[Stmt]) -> bool:
    """True if nobody in `stmts`, which leave the narrower numbers as they are, uses the wider ones."""
    wide, _ = conversion_of(conversion)
    return not any(wide in uses_of(x).all for x in stmts)


def _known_before(r: TensorRegion, stmts: list[Stmt]) -> bool:
    """True if where a region lies is the same, and has a name, in front of `stmts`."""
    changed = set().union(*(uses_and_names(x).writes for x in stmts))
    return all(changed.isdisjoint(free_vars(e)) for x in r.region for e in (x.min, x.extent))


def _of_narrow(s: Evaluate, conversion: Stmt) -> Evaluate:
    (_, narrow), (src, dst) = conversion_of(conversion), s.value.args
    return tile_op("reduce", tirx.BufferRegion(narrow, list(src.region)), dst, span=s.span, **attrs_of(s))


__all__ = ["narrow_maxima"]
