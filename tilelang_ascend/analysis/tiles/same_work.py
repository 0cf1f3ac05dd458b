"""Do two statements do the same? Expressions are compared by what they are worth, everything else by its form."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ...ir import (
    AllocBuffer,
    Bind,
    BufferStore,
    Call,
    For,
    Range,
    Stmt,
    TensorLoad,
    TensorRegion,
    Var,
    attrs_of,
    children,
    const_int,
    dtype_of,
    expr_children,
    exprs,
    imm,
    scope_of,
    stmts_of,
    structural_equal,
    substitute_expr,
    sym,
)
from ...tile.uses import loads_in


def same_work(a: Stmt, b: Stmt, counts: Mapping = MappingProxyType({})) -> bool:
    """True if `a` surely does what `b` does: the same statements, on tiles of the same shapes, with equal indices and values. counts: variable -> how many
    values it has, from 0 on."""
    return _Comparison(counts).statements(a, b)


def different_statements(a: Stmt, b: Stmt, counts: Mapping = MappingProxyType({})) -> set[int] | None:
    """The numbers of the statements of `a` that do not surely do what those of `b` in the same places do; None if these are more or fewer."""
    mine, others, comparison = stmts_of(a), stmts_of(b), _Comparison(counts)
    if len(mine) != len(others):
        return None
    return {n for n, (x, y) in enumerate(zip(mine, others)) if not comparison.statements(x, y)}


class _Comparison:
    def __init__(self, counts: Mapping):
        self.analyzer = sym.Analyzer()
        for v, n in counts.items():
            self.analyzer.bind(v, Range.from_min_extent(imm(0, dtype_of(v)), imm(n, dtype_of(v))))
        self.buffers: dict = {}
        """Tile of `b` -> the one of `a` that stands for it."""
        self.values: tuple[dict, dict] = {}, {}
        """Variables of `a`, and of `b`: what they are worth."""

    def statements(self, a: Stmt, b: Stmt) -> bool:
        if type(a) is not type(b):
            return False
        if isinstance(a, AllocBuffer):
            self.buffers[b.buffer] = a.buffer
            return self._same_place(a.buffer, b.buffer) and _notes(a) == _notes(b)
        if isinstance(a, For):
            if a.kind != b.kind or _notes(a) != _notes(b) or not self.equal(a.min, b.min) or not self.equal(a.extent, b.extent):
                return False
            self.values[1][b.loop_var] = a.loop_var
            if const_int(a.min) == 0 and const_int(a.extent):
                self.analyzer.bind(a.loop_var, Range.from_min_extent(a.min, a.extent), True)
        elif isinstance(a, Bind):
            if any(loads_in(x.value) or not dtype_of(x.var).startswith(("int", "uint")) for x in (a, b)):
                if not self.equal(a.value, b.value):
                    return False
                self.values[1][b.var] = a.var
                return True
            for x, known in zip((a, b), self.values):
                known[x.var] = substitute_expr(x.value, known)
            return True
        elif isinstance(a, BufferStore) and not self._is_same(a.buffer, b.buffer):
            return False
        own = [exprs(x) for x in (a, b)]
        below = [children(x) for x in (a, b)]
        return (
            len(own[0]) == len(own[1])
            and len(below[0]) == len(below[1])
            and all(map(self.equal, *own))
            and all(map(self.statements, *below))
        )

    def equal(self, a, b) -> bool:
        return self._alike(substitute_expr(a, self.values[0]), substitute_expr(b, self.values[1]))

    def _alike(self, a, b) -> bool:
        if isinstance(a, TensorRegion) != isinstance(b, TensorRegion):
            return False
        if isinstance(a, TensorRegion):
            pairs = [(x, y) for r, s in zip(a.region, b.region) for x, y in ((r.min, s.min), (r.extent, s.extent))]
            return self._is_same(a.source, b.source) and len(a.region) == len(b.region) and all(self._alike(x, y) for x, y in pairs)
        if structural_equal(a, b):
            return True
        numbers = dtype_of(a) == dtype_of(b) and dtype_of(a) in ("int32", "int64")
        if numbers and not loads_in(a) and not loads_in(b) and self.analyzer.can_prove_equal(a, b):
            return True
        if type(a) is not type(b) or dtype_of(a) != dtype_of(b) or isinstance(a, Var):
            return False
        if isinstance(a, sym.COMPARISONS) and self._same_difference(a, b):
            return True
        if isinstance(a, TensorLoad) and not self._is_same(a.source, b.source):
            return False
        if isinstance(a, Call) and not (a.op.same_as(b.op) and _shown(attrs_of(a)) == _shown(attrs_of(b))):
            return False
        inner = expr_children(a), expr_children(b)
        return bool(inner[0]) and len(inner[0]) == len(inner[1]) and all(map(self._alike, *inner))

    def _same_difference(self, a, b) -> bool:
        """True if two comparisons of indices compare the same: `i + 1 < n` and `i < n - 1`."""
        sides = [x for e in (a, b) for x in (e.a, e.b)]
        if any(dtype_of(x) != dtype_of(sides[0]) or dtype_of(x) not in ("int32", "int64") or loads_in(x) for x in sides):
            return False
        return self.analyzer.can_prove_equal(a.a - a.b, b.a - b.b)

    def _is_same(self, a, b) -> bool:
        return self.buffers.get(b, b).same_as(a)

    @staticmethod
    def _same_place(a, b) -> bool:
        shapes = [[const_int(n) for n in x.ty.shape] for x in (a, b)]
        return shapes[0] == shapes[1] and None not in shapes[0] and dtype_of(a) == dtype_of(b) and scope_of(a) == scope_of(b)


def _notes(s) -> dict:
    return _shown(dict(s.annotations))


def _shown(values: dict) -> dict:
    return {k: str(v) for k, v in values.items()}


__all__ = ["different_statements", "same_work"]
