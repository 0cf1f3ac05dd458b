"""known_extents: extents that names hide are the numbers they are.

Before:  first = b * 4096 + k * 64; end = b * 4096 + (k + 1) * 64; copy(K[first : first + min(end - first, 64)], k_s[0 : min(end - first, 64)])
After:   first = …; end = …; copy(K[first : first + 64], k_s[0 : 64])

A slice between two names has as many elements as these are apart. What is loaded so fills its tile, and all of it can be worked on at once.

Requires: Tile IR after wrap_products. Ensures: values are unchanged.
"""

from __future__ import annotations

from ...analysis.index.sums import Sum, as_sum
from ...ir import (
    Bind,
    Evaluate,
    PrimFunc,
    StmtMutator,
    TensorRegion,
    Var,
    const_int,
    dtype_of,
    imm,
    op_name,
    region,
    tirx,
)
from ...tile import with_args

DEEPEST = 8
"""Names within each other that are looked into."""


class _Known(StmtMutator):
    def __init__(self):
        self.values: dict = {}

    def visit_Bind(self, s: Bind):
        if dtype_of(s.var) in ("int32", "int64"):
            self.values[s.var] = s.value
        return s

    def visit_Evaluate(self, s: Evaluate):
        if not op_name(s):
            return s
        args = [self.region(a) if isinstance(a, TensorRegion) else a for a in s.value.args]
        return s if all(x is y for x, y in zip(args, s.value.args)) else with_args(s, args)

    def region(self, r: TensorRegion) -> TensorRegion:
        extents = [x.extent for x in r.region]
        known = [self.number(n) if const_int(n) is None else None for n in extents]
        known = [n if n is not None and n > 0 else None for n in known]  # Run time leaves out what is empty.
        if not any(n is not None for n in known):
            return r
        return region(r.source, [x.min for x in r.region], [n if k is None else imm(k, dtype_of(n)) for n, k in zip(extents, known)])

    def number(self, e) -> int | None:
        """What an expression is in any case, None if that is not known."""
        if isinstance(e, (tirx.Min, tirx.Max)):
            sides = self.number(e.a), self.number(e.b)
            return None if None in sides else (min if isinstance(e, tirx.Min) else max)(sides)
        found = self.sum(e, DEEPEST)
        return None if found.terms else found.const

    def sum(self, e, depth: int) -> Sum:
        """An integer as a sum with names written out."""
        found = as_sum(e, exact=True)
        for atom, c in found.terms:
            if isinstance(atom, Var) and atom in self.values and depth:
                # What other names are may hold the name itself, where it is deeper than is looked into.
                found = found.plus(Sum(0, ((atom, c),)), -1).plus(self.sum(self.values[atom], depth - 1), c)
        return found


def known_extents(func: PrimFunc) -> PrimFunc:
    """Apply to a Tile IR function."""
    return func.with_body(_Known()(func.body))


__all__ = ["known_extents"]
