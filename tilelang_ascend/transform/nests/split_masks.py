"""split_masks: masks that few steps of a pipelined loop need take little room.

Before:  for k in range(n) [skew "0 3"]: …; if not bx * 64 >= k * 64 + 63: Parallel(i < 16, j < 512): s[i, j] = s[i, j] + if_then_else(…)
After:   for k in range(n) [skew "0 3"]: …; if not bx * 64 >= k * 64 + 63: for p in range(4): Parallel(i < 4, j < 512): …

Temporaries of a sum are as large as the nest, and lie beside the tiles whether it runs or not. In such a loop, versions of tiles are worth more, which let
one step begin before the one in front of it has ended. A choice between elements and numbers is made in their place, and needs no more than bits.

Requires: Tile IR after skew_stages. Ensures: in loops with late statements, nests that make up a conditional branch have at most `MASK_LANES` iterations.
"""

from __future__ import annotations

from ...ir import (
    BufferStore,
    FloatImm,
    For,
    IfThenElse,
    IntImm,
    PrimFunc,
    StmtMutator,
    choice_of,
    is_choice,
    seq,
    statements,
    stmts_of,
)
from ...tile.division import short_nests
from ...tile.nests import is_own
from ...tile.uses import is_parallel, lateness, loads_in

MASK_LANES = 2048
"""Thirty-two repeats of float32: the first instruction of a part waits for the last one of the part before, which costs as much as some of them."""


class _Split(StmtMutator):
    def __init__(self):
        self.pipelined = False

    def visit_For(self, s: For):
        before, self.pipelined = self.pipelined, self.pipelined or any(lateness(s))
        new = s if is_parallel(s) else self.generic(s)
        self.pipelined = before
        return new

    def visit_IfThenElse(self, s: IfThenElse):
        nests = stmts_of(s.then_case)
        if not self.pipelined or s.else_case is not None or not all(is_parallel(x) for x in nests):
            return self.generic(s)
        parts = [part for x in nests for part in ([x] if _chooses(x) else short_nests(x, MASK_LANES))]
        return (
            s
            if len(parts) == len(nests) and all(a.same_as(b) for a, b in zip(parts, nests))
            else IfThenElse(s.condition, seq(parts), None, span=s.span)
        )


def _chooses(nest) -> bool:
    """True if all a nest does is to put numbers in the place of some elements, by their indices."""
    stores = [s for s in statements(nest) if isinstance(s, BufferStore)]
    return all(is_choice(s.value) and _keeps_or_knows(s) for s in stores)


def _keeps_or_knows(s: BufferStore) -> bool:
    condition, *values = choice_of(s.value)
    return not loads_in(condition) and all(is_own(v, s) or isinstance(v, (FloatImm, IntImm)) for v in values)


def split_masks(func: PrimFunc) -> PrimFunc:
    """Apply to a mapped Tile IR function."""
    return func.with_body(_Split()(func.body))


__all__ = ["split_masks"]
