"""wrap_products: integer sums and products that may leave their dtype are written as what they are: numbers that wrap.

Before:  Y[i] = X[i * 1103515245 % 10]
After:   Y[i] = X[int32(uint32(i) * 1103515245) % 10]

Before:  h = K[i] * 6; if h % 3 == 0: …
After:   h = int32(uint32(K[i]) * 6); if h % 3 == 0: …

Everything that reasons about indices takes int32 and int64 for numbers without end, as indices are: there `i * 1103515245 % 10` is
`i * 5 % 10`. A product that surely leaves its dtype for some iterations, has a factor no index has, or is made of data and divided, be it under
a name, is a hash, and so is a sum of data that is divided. Unsigned it wraps in C++, too.

Requires: Tile IR, before all other passes. Ensures: values are unchanged.
"""

from __future__ import annotations

from ...analysis.index.data_names import DataNames
from ...analysis.index.magnitude import is_hash, loop_magnitude, magnitude
from ...ir import (
    Bind,
    For,
    PrimFunc,
    Stmt,
    StmtMutator,
    TensorLoad,
    Var,
    const_int,
    dtype_of,
    expr_children,
    exprs,
    free_vars,
    imm,
    itemsize,
    map_children,
    statements,
    tirx,
    walk_expr,
)
from ...tile.uses import is_parallel

_DIVISIONS = (tirx.FloorDiv, tirx.FloorMod, tirx.Div, tirx.Mod)
_WRAPPING = ("int32", "int64")

INDEX, HASHED = 1 << 4, 1 << 11
"""What a number of unknown size counts as: an index with strides, and a number that is hashed."""


class _Wrap(StmtMutator):
    """`parts`: names that are divided, or part of what is."""

    def __init__(self, body: Stmt):
        self.data, self.parts = DataNames(body), _divided_names(statements(body))
        self.bounds: dict = {}
        self.divided = False
        self.nests: set = set()

    def visit_For(self, s: For):
        bound = loop_magnitude(s, self.bounds)
        if bound is not None:
            self.bounds[s.loop_var] = bound
        if is_parallel(s):
            self.nests.add(s.loop_var)
        return self.generic(s)

    def visit_Bind(self, s: Bind):
        bound = magnitude(s.value, self.bounds) if "int" in dtype_of(s.var) else None
        if bound is not None:
            self.bounds[s.var] = bound
        outer, self.divided = self.divided, s.var in self.parts
        out = self.generic(s)
        self.divided = outer
        return out

    def expr(self, e):
        return self.wrapped(e)[0]

    def wrapped(self, e):
        """(`e` that wraps where it has to, whether it may leave its dtype)."""
        if isinstance(e, _DIVISIONS):
            outer, self.divided = self.divided, True
            out = map_children(e, self.expr)
            self.divided = outer
            return out, False
        if not isinstance(e, (tirx.Add, tirx.Sub, tirx.Mul)) or dtype_of(e) not in _WRAPPING:
            return map_children(e, self.expr), False
        (a, beyond_a), (b, beyond_b) = self.wrapped(e.a), self.wrapped(e.b)
        if not (beyond_a or beyond_b or self.leaves(e)):
            return (e if a.same_as(e.a) and b.same_as(e.b) else type(e)(a, b)), False
        return tirx.Cast(dtype_of(e), type(e)(_unsigned(a), _unsigned(b))), True

    def leaves(self, e) -> bool:
        # A sum of data and a loop variable of a nest is a place in rows: `(start + i) // 4`.
        if self.divided and self.data.is_data(e) and (isinstance(e, tirx.Mul) or self.nests.isdisjoint(_terms(e))):
            return magnitude(e, self.bounds) is None
        if dtype_of(e) == "int64" and not isinstance(e, tirx.Mul):
            return False
        return magnitude(e, self.bounds, HASHED if is_hash(e) else INDEX) is None


def _terms(e) -> set:
    """The variables in `e` that do not only choose an element of memory."""
    if isinstance(e, TensorLoad):
        return set()
    return {e} if isinstance(e, Var) else set().union(*map(_terms, expr_children(e)))


def _unsigned(e):
    known, dtype = const_int(e), f"u{dtype_of(e)}"
    bits = None if known is None else known % (1 << 8 * itemsize(dtype))
    # TVM has no constant beyond int64.
    return tirx.Cast(dtype, e) if bits is None or bits >= 1 << 63 else imm(bits, dtype)


def _divided_names(every: list[Stmt]) -> set:
    found: set = set()

    def see(e) -> None:
        if isinstance(e, _DIVISIONS):
            found.update(free_vars(e))

    for s in reversed(every):  # Names stand in front of what uses them.
        for e in exprs(s):
            walk_expr(e, see)
        if isinstance(s, Bind) and s.var in found:
            found |= free_vars(s.value)
    return found


def wrap_products(func: PrimFunc) -> PrimFunc:
    """Apply to a Tile IR function."""
    return func.with_body(_Wrap(func.body)(func.body))


__all__ = ["wrap_products"]
