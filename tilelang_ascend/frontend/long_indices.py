"""Indices of dimensions that an int32 cannot number are int64, from the numbers they are made of on.

Before:  X: T.Tensor((1 << 33,), …);  start = bx * 655360000;  Y[bx, i] = X[start + i]
After:   start = bx * 655360000;  start_long = int64(bx) * 655360000;  Y[bx, i] = X[start_long + int64(i)]

An index is a number without end, and the numbers a kernel is written in are int32: the same sum would wrap long before the tensor ends. Sums,
products, quotients and choices are made anew; what no index is made of (bits, shifts, factors that hash) is taken as it is. Comparisons of such
sums, which guard the accesses, are those of the long ones.
"""

from __future__ import annotations

from ..analysis.index.magnitude import is_hash, is_long, loop_magnitude, magnitude
from ..ir import (
    Bind,
    BufferStore,
    For,
    IntImm,
    Range,
    Stmt,
    StmtMutator,
    TensorLoad,
    TensorRegion,
    Var,
    const_int,
    dtype_of,
    exprs,
    free_vars,
    imm,
    is_choice,
    map_children,
    statements,
    tirx,
    walk_expr,
)

_SUMS = (tirx.Add, tirx.Sub, tirx.Mul)
_DIVISIONS = (tirx.FloorDiv, tirx.FloorMod)
_COMPARISONS = (tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.EQ, tirx.NE)
_MADE_OF_INDICES = (*_SUMS, *_DIVISIONS, tirx.Min, tirx.Max)


def long_indices(body: Stmt) -> Stmt:
    """`body`, that of a function, with int64 indices where a dimension of a tensor needs them."""
    names = _names_in_long_indices(statements(body))
    return body if names is None else _Long(names)(body)


def _names_in_long_indices(every: list[Stmt]) -> set | None:
    """The names that decide them, and what is compared; None if there are no such indices."""
    found: list = []
    compared: set = set()

    def see(e) -> None:
        if isinstance(e, TensorLoad):
            found.extend(_long_ones(e.source, e.indices))
        elif isinstance(e, TensorRegion):
            found.extend(_long_ones(e.source, [r.min for r in e.region]))
        elif isinstance(e, _COMPARISONS):
            compared.update(free_vars(e))

    for s in every:
        for e in exprs(s):
            walk_expr(e, see)
        if isinstance(s, BufferStore):
            found.extend(_long_ones(s.buffer, s.indices))
    if not found:
        return None
    names = compared.union(*map(free_vars, found))
    for s in reversed(every):  # Names stand in front of what uses them.
        if isinstance(s, Bind) and s.var in names:
            names |= free_vars(s.value)
    return names


def _long_ones(buffer, indices) -> list:
    return [i for i, n in zip(indices, buffer.ty.shape) if const_int(i) is None and is_long(n)]


class _Long(StmtMutator):
    """`names`: what long indices are made of. `bounds`: largest absolute values of names; `wide`: names that may have wrapped, and what they are
    as an int64."""

    def __init__(self, names: set):
        self.names = names
        self.bounds: dict = {}
        self.wide: dict = {}

    def visit_For(self, s: For):
        bound = loop_magnitude(s, self.bounds)
        if bound is not None:
            self.bounds[s.loop_var] = bound
        return self.generic(s)

    def visit_Bind(self, s: Bind):
        new = Bind(s.var, self.expr(s.value), span=s.span)
        if dtype_of(s.var) != "int32" or s.var not in self.names:
            return new
        bound = magnitude(s.value, self.bounds)
        if bound is not None:
            self.bounds[s.var] = bound
        if not self.may_wrap(s.value):
            return new
        self.wide[s.var] = Var(f"{s.var.name}_long", "int64")
        return [new, Bind(self.wide[s.var], self.long(new.value), span=s.span)]

    def visit_BufferStore(self, s: BufferStore):
        value, indices = self.expr(s.value), self.indices(s.buffer, [self.expr(i) for i in s.indices])
        return BufferStore(s.buffer, value, indices, span=s.span)

    def expr(self, e):
        e = map_children(e, self.expr)
        if isinstance(e, TensorLoad):
            return tirx.BufferLoad(e.source, self.indices(e.source, e.indices))
        if isinstance(e, TensorRegion):
            mins = self.indices(e.source, [r.min for r in e.region])
            return tirx.BufferRegion(e.source, [Range.from_min_extent(m, r.extent) for m, r in zip(mins, e.region)])
        if isinstance(e, _COMPARISONS) and self.is_number(e.a) and self.is_number(e.b) and (self.may_wrap(e.a) or self.may_wrap(e.b)):
            return type(e)(self.long(e.a), self.long(e.b))
        return e

    def may_wrap(self, e) -> bool:
        """True if an int32 may not hold what a sum comes to."""
        return _any(e, lambda x: x in self.wide or isinstance(x, _SUMS) and dtype_of(x) == "int32" and magnitude(x, self.bounds) is None)

    def is_number(self, e) -> bool:
        """True for a number made of other than data, which may wrap because it is meant to."""
        return dtype_of(e) in ("int32", "int64") and not _any(e, lambda x: isinstance(x, TensorLoad) or is_hash(x))

    def indices(self, buffer, indices) -> list:
        return [self.long(i) if is_long(n) and const_int(i) is None else i for i, n in zip(indices, buffer.ty.shape)]

    def long(self, e):
        """An index as an int64."""
        if dtype_of(e) not in ("int32", "int64"):
            return e
        if isinstance(e, IntImm):
            return imm(int(e.value), "int64")
        if e in self.wide:
            return self.wide[e]
        if isinstance(e, tirx.Cast) and dtype_of(e.value) in ("int32", "int64"):
            return self.long(e.value)
        if isinstance(e, _MADE_OF_INDICES) and not (isinstance(e, _DIVISIONS) and _hashes(e)):
            return type(e)(self.long(e.a), self.long(e.b))
        if isinstance(e, tirx.Select):
            return tirx.Select(e.condition, self.long(e.true_value), self.long(e.false_value))
        if is_choice(e):
            condition, yes, no = e.args
            return tirx.if_then_else(condition, self.long(yes), self.long(no))
        return _as_long(e)


def _as_long(e):
    return e if dtype_of(e) == "int64" else tirx.Cast("int64", e)


def _hashes(e) -> bool:
    return _any(e, is_hash)


def _any(e, holds) -> bool:
    found: list = []
    walk_expr(e, lambda x: found.append(x) if holds(x) else None)
    return bool(found)


__all__ = ["long_indices"]
