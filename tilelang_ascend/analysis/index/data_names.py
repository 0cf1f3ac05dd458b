"""Integers that are made of elements of memory. Sums and products of them may wrap, where those of indices do not."""

from __future__ import annotations

from ...ir import Bind, BufferStore, Stmt, dtype_of, free_vars, statements, tirx, walk_expr
from ...tile.uses import is_scalar_var, loads_in
from .growth import growing_variables
from .magnitude import magnitude

_GROWING = (tirx.Add, tirx.Sub, tirx.Mul)


class DataNames:
    """names: lets and scalar variables whose values are made of data, or of variables that grow until they wrap. sums: those of them whose values may have
    wrapped. variables: whether all scalar variables count as data, which a loop may make larger and larger."""

    def __init__(self, body: Stmt, variables: bool = False):
        self.variables = variables
        every = statements(body)
        given = [(s.var, s.value) for s in every if isinstance(s, Bind)]
        given += [(s.buffer, s.value) for s in every if isinstance(s, BufferStore) and is_scalar_var(s.buffer)]
        self.names: set = set() if variables else growing_variables(body)
        self.sums: set = set()
        for found, holds in ((self.names, self.is_data), (self.sums, self.may_wrap)):
            known = None
            while known != len(found):
                known = len(found)
                for name, value in given:
                    if name not in found and holds(value):
                        found.add(name)

    def is_data(self, e) -> bool:
        """True if elements of memory, or names made of such, are part of a value."""
        return any(self.variables or not is_scalar_var(x.source) for x in loads_in(e)) or not self.names.isdisjoint(free_vars(e))

    def may_wrap(self, e) -> bool:
        """True if a sum or product of data that its dtype may not hold is part of a value."""
        return not self.sums.isdisjoint(free_vars(e)) or bool(self.growing(e))

    def growing(self, e) -> list:
        """The sums and products of data in a value that their dtype may not hold."""
        found: list = []
        walk_expr(e, lambda x: found.append(x) if _grows(x) and self.is_data(x) and magnitude(x, {}) is None else None)
        return found


def _grows(e) -> bool:
    """True for what makes another number of large ones: sums and products of signed integers, and an uint64 taken for one."""
    if isinstance(e, tirx.Cast):
        return dtype_of(e.value) == "uint64" and dtype_of(e).startswith("int")
    return isinstance(e, _GROWING) and dtype_of(e) in ("int32", "int64")


__all__ = ["DataNames"]
