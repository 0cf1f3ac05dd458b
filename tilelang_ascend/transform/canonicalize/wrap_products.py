"""wrap_products: int32 sums and products that may leave int32 are written as what they are: numbers that wrap.

Before:  Y[i] = X[i * 1103515245 % 10]
After:   Y[i] = X[int32(uint32(i) * 1103515245) % 10]

Everything that reasons about indices takes int32 for numbers without end, as indices are: there `i * 1103515245 % 10` is `i * 5 % 10`. A
product that surely leaves int32 for some iterations, has a factor no index has, or is made of data and divided, is a hash. As uint32 it
wraps in C++, too.

Requires: Tile IR, before all other passes. Ensures: values are unchanged.
"""

from __future__ import annotations

from ...analysis.index.magnitude import loop_magnitude, magnitude
from ...ir import Bind, For, IntImm, PrimFunc, StmtMutator, const_int, dtype_of, imm, map_children, tirx
from ...tile.uses import is_scalar_var, loads_in

_DIVISIONS = (tirx.FloorDiv, tirx.FloorMod, tirx.Div, tirx.Mod)

LEAST_HASH_FACTOR = 1 << 20
"""Odd factors from here on are no strides."""
INDEX, HASHED = 1 << 4, 1 << 11
"""What a number of unknown size counts as: an index with strides, and a number that is hashed."""


class _Wrap(StmtMutator):
    def __init__(self):
        self.bounds: dict = {}
        self.divided = False

    def visit_For(self, s: For):
        bound = loop_magnitude(s, self.bounds)
        if bound is not None:
            self.bounds[s.loop_var] = bound
        return self.generic(s)

    def visit_Bind(self, s: Bind):
        bound = magnitude(s.value, self.bounds) if "int" in dtype_of(s.var) else None
        if bound is not None:
            self.bounds[s.var] = bound
        return self.generic(s)

    def expr(self, e):
        return self.wrapped(e)[0]

    def wrapped(self, e):
        """(`e` that wraps where it has to, whether it may leave int32)."""
        if isinstance(e, _DIVISIONS):
            outer, self.divided = self.divided, True
            out = map_children(e, self.expr)
            self.divided = outer
            return out, False
        if not isinstance(e, (tirx.Add, tirx.Sub, tirx.Mul)) or dtype_of(e) != "int32":
            return map_children(e, self.expr), False
        (a, beyond_a), (b, beyond_b) = self.wrapped(e.a), self.wrapped(e.b)
        if not (beyond_a or beyond_b or self.leaves(e)):
            return (e if a.same_as(e.a) and b.same_as(e.b) else type(e)(a, b)), False
        return tirx.Cast("int32", type(e)(_unsigned(a), _unsigned(b))), True

    def leaves(self, e) -> bool:
        factor = next((abs(int(x.value)) for x in (e.a, e.b) if isinstance(x, IntImm)), 0) if isinstance(e, tirx.Mul) else 0
        hashes = factor >= LEAST_HASH_FACTOR and factor % 2 == 1
        if self.divided and isinstance(e, tirx.Mul) and any(not is_scalar_var(x.source) for x in loads_in(e)):
            return magnitude(e, self.bounds) is None
        return magnitude(e, self.bounds, HASHED if hashes else INDEX) is None


def _unsigned(e):
    known = const_int(e)
    return imm(known % (1 << 32), "uint32") if known is not None else tirx.Cast("uint32", e)


def wrap_products(func: PrimFunc) -> PrimFunc:
    """Apply to a Tile IR function."""
    return func.with_body(_Wrap()(func.body))


__all__ = ["wrap_products"]
