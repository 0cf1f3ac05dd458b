"""Mutable scalars that loops make so large that they wrap."""

from __future__ import annotations

import math

from ...ir import (
    AllocBuffer,
    Bind,
    BufferStore,
    For,
    IfThenElse,
    SeqStmt,
    Stmt,
    TensorLoad,
    Var,
    While,
    const_int,
    dtype_of,
    expr_children,
    exprs,
    free_vars,
    itemsize,
    statements,
    tirx,
    walk_expr,
)
from ...ir.grids import is_grid_axis
from ...tile.uses import is_scalar_var, loads_in
from .sums import as_sum

FEW = 8
"""Doublings in a row that no loop repeats after which a number counts as large. Assumed."""
HASH = 1 << 20
"""Factors from here on are those of hashes. Assumed."""
LONG = 1 << 12
"""Iterations of a loop of unknown length: steps of block sizes stay far from the end of int32, and those of hashes do not. Assumed."""


def growing_variables(body: Stmt) -> set:
    """The mutable scalars of signed integers that are made a sum of what several of them were before (`a, b = b, a + b`) again and again, those to which
    more is added than their dtype holds, and those that are multiplied with each other or with the factor of a hash."""
    found = _Stores(body)
    if not found.stores:
        return set()
    return {b for b, value in found.stores if found.grows(b, value)} | found.multiplied(body)


class _Stores:
    """stores: (mutable scalar, value). times: how often each is stored to before it is born again. values: of names, extents of loop variables and of
    scalars in stores."""

    def __init__(self, body: Stmt):
        self.stores: list = []
        self.times: dict = {}
        self.values: dict = {}
        self._reached: dict = {}
        self._born: dict = {}
        self._walk(body, [])

    def _walk(self, s: Stmt, loops: list) -> None:
        if isinstance(s, SeqStmt):
            for x in s.seq:
                self._walk(x, loops)
        elif isinstance(s, (For, While)):
            if isinstance(s, For):
                self.values[s.loop_var] = [s.extent]
            trips = None if isinstance(s, While) else const_int(s.extent)
            self._walk(s.body, loops if is_grid_axis(s) else [*loops, LONG if trips is None else max(trips, 1)])
        elif isinstance(s, IfThenElse):
            for x in (s.then_case, s.else_case):
                if x is not None:
                    self._walk(x, loops)
        elif isinstance(s, AllocBuffer):
            self._born[s.buffer] = len(loops)
        elif isinstance(s, Bind):
            self.values[s.var] = [s.value]
        elif isinstance(s, BufferStore) and is_scalar_var(s.buffer) and dtype_of(s.buffer).startswith("int"):
            self.values.setdefault(s.buffer, []).append(s.value)
            self.stores.append((s.buffer, s.value))
            self.times[s.buffer] = self.times.get(s.buffer, 0) + math.prod(loops[self._born.get(s.buffer, 0) :])

    def _made_of(self, name) -> set:
        """Names and scalars that are part of a value of `name`, and of those of them."""
        known = self._reached.get(name)
        if known is None:
            known, ahead = set(), [name]
            while ahead:
                for e in self.values.get(ahead.pop(), ()):
                    parts = {v for v in free_vars(e) if v in self.values} | {x.source for x in loads_in(e) if is_scalar_var(x.source)}
                    ahead += parts - known
                    known |= parts
            self._reached[name] = known
        return known

    def grows(self, buffer, value) -> bool:
        """True if storing `value` as often as is done may make a scalar leave its dtype."""
        if buffer not in self._made_of(buffer):
            return False
        together = {x for x in self._made_of(buffer) if buffer in self._made_of(x)}
        if self._factor(value, together) > 1 and self.times[buffer] > FEW:
            return True
        step = abs(as_sum(self._written_out(value, together)).const)
        return step * self.times[buffer] >= 1 << (8 * itemsize(dtype_of(buffer)) - 1)

    def multiplied(self, body: Stmt) -> set:
        """The scalars that are multiplied with each other, or with the factor of a hash."""
        found: set = set()

        def see(e) -> None:
            if isinstance(e, tirx.Mul) and dtype_of(e).startswith("int"):
                sides = [self._scalars_in(x) for x in (e.a, e.b)]
                by = max(abs(const_int(x) or 0) for x in (e.a, e.b))
                if all(sides) or by >= HASH and itemsize(dtype_of(e)) == 4:
                    found.update(*sides)

        for s in statements(body):
            for e in exprs(s):
                walk_expr(e, see)
        return found

    def _scalars_in(self, e) -> set:
        """The mutable scalars an expression is made of."""
        names = {v for v in free_vars(e) if v in self.values}
        every = {x.source for x in loads_in(e)} | {x for v in names for x in self._made_of(v)}
        return {x for x in every if x in self.times}

    def _written_out(self, e, together: set):
        """A sum with the names in it that are made of the scalar written out."""
        while isinstance(e, Var) and e in together and isinstance(self.values[e][0], (tirx.Add, tirx.Sub)):
            e = self.values[e][0]
        return e

    def _factor(self, e, together: set) -> float:
        """How many times the scalars `together` go into an integer expression, at most."""
        if dtype_of(e) == "bool":
            return 0
        if isinstance(e, TensorLoad):
            return int(e.source in together)
        if isinstance(e, Var):
            return max((self._factor(x, together) for x in self.values[e]), default=0) if e in together else 0
        parts = [self._factor(x, together) for x in expr_children(e)]
        if not any(parts):
            return 0
        if isinstance(e, tirx.Add):
            return sum(parts)
        if isinstance(e, tirx.Sub):
            return parts[0] - parts[1]
        if isinstance(e, tirx.Min):
            return min(parts)
        by = const_int(e.b) if hasattr(e, "b") else None
        if isinstance(e, tirx.Mul):
            by = const_int(e.a) if by is None else by
            return math.inf if by is None else max(sum(parts) * by, 0)
        if isinstance(e, tirx.FloorDiv) and by is not None and by > 0:
            return parts[0] / by
        if isinstance(e, tirx.LShift):
            return math.inf if parts[0] else 0
        masked = isinstance(e, tirx.BitwiseAnd) and any((const_int(x) or -1) >= 0 for x in (e.a, e.b))
        return 0 if masked or isinstance(e, tirx.FloorMod) and not parts[1] else max(parts)


__all__ = ["growing_variables"]
