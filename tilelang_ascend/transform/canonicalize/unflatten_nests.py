"""unflatten_nests: nests over the elements of a matrix by number become nests over its rows and columns.

Before:  Parallel(i < 512): a[i // 32, i % 32] = a[i // 32, i % 32] * s[i // 32] + z[i]
After:   Parallel(i_0 < 16, i_1 < 32): a[i_0, i_1] = a[i_0, i_1] * s[i_0] + z[i_0 * 32 + i_1]

GPU kernels deal out elements to threads by number, and a tile that is seen as another shape (`T.reshape`) has such indices, too. Vector instructions want
rows: what quotients and remainders choose is data to them.

Requires: Tile IR without views. Ensures: values and the order of iterations are unchanged.
"""

from __future__ import annotations

from ...ir import (
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    PrimFunc,
    Range,
    Stmt,
    StmtMutator,
    TensorLoad,
    TensorRegion,
    Var,
    choice_of,
    const_int,
    dtype_of,
    exprs,
    free_vars,
    imm,
    itemsize,
    map_children,
    statements,
    sym,
    tirx,
    walk_expr,
)
from ...isa.units import BLOCK_BYTES
from ...tile.nests import inline_index_binds, nest_of, rebuild_nest
from ...tile.uses import is_atomic, is_parallel, is_scalar_var

_QUOTIENTS = (tirx.FloorDiv, tirx.FloorMod)


class _Rows(StmtMutator):
    """Writes `rows * length + column` for a number, and what its quotients and remainders are."""

    def __init__(self, number: Var, rows: int, length: int):
        self.number = number
        self.row, self.column = (Var(f"{number.name}_{k}", "int32") for k in range(2))
        self.value = self.row * length + self.column
        self.analyzer = sym.Analyzer()
        for var, extent in ((self.row, rows), (self.column, length)):
            self.analyzer.bind(var, Range.from_min_extent(imm(0), imm(extent)))

    def expr(self, e):
        if e.same_as(self.number):
            return self.value
        out = map_children(e, self.expr)
        return self.analyzer.simplify(out) if _is_part(e, self.number) else out


def _is_part(e, number: Var) -> bool:
    """True for quotients and remainders of `number`, and of such. Sums with other values may wrap, which no analyzer knows."""
    return isinstance(e, _QUOTIENTS) and const_int(e.b) is not None and (e.a.same_as(number) or _is_part(e.a, number))


def _divides(e, number: Var, by: int) -> bool:
    """True if an index is made of the quotient of `number` by `by`."""
    found: list = []
    walk_expr(e, lambda x: found.append(x) if isinstance(x, tirx.FloorDiv) and x.a.same_as(number) and const_int(x.b) == by else None)
    return bool(found)


def _row_length(indices: list, number: Var) -> int | None:
    """The length of rows if `indices` are the row and the column of element `number`."""
    for i in indices:
        by = const_int(i.b) if isinstance(i, tirx.FloorMod) and i.a.same_as(number) else None
        if by and any(_divides(j, number, by) for j in indices if j is not i):
            return by
    return None


class _Accesses:
    """What a nest does with the numbers of its iterations. `places`: (buffer, indices, whether it is written)."""

    def __init__(self, body: Stmt):
        self.places: list = []
        self.decisions: list = []
        for s in statements(body):
            if isinstance(s, BufferStore) and not is_scalar_var(s.buffer):
                self.places.append((s.buffer, list(s.indices), True))
            if isinstance(s, Evaluate) and is_atomic(s):
                self.places.append((s.value.args[0].source, [r.min for r in s.value.args[0].region], True))
            if isinstance(s, IfThenElse):
                self.decisions.append(s.condition)
            for e in exprs(s):
                walk_expr(e, self._see)

    def _see(self, e):
        if isinstance(e, TensorLoad) and not is_scalar_var(e.source):
            self.places.append((e.source, list(e.indices), False))
        if isinstance(e, TensorRegion):
            self.places.append((e.source, [r.min for r in e.region], False))
        if (choice := choice_of(e)) is not None:
            self.decisions.append(choice[0])

    def row_length(self, number: Var, extent: int) -> int | None:
        """The length of the rows of which `number` counts the elements; None if there are none, or if the nest is better as it is."""
        found = {_row_length(indices, number): written for _, indices, written in sorted(self.places, key=lambda place: place[2])}
        lengths = [n for n in found if n is not None and 1 < n <= extent and extent % n == 0]
        if not lengths:
            return None
        length = max(lengths)
        # A store by quotients is scalar work as it is. Loads are gathered: better than rows that begin anywhere.
        return length if found[length] or not self._begin_anywhere(number, length) and not self._decides(number) else None

    def _begin_anywhere(self, number: Var, length: int) -> bool:
        """True if rows of `length` elements do not begin where vector instructions can, in what is reached by number."""
        flat = (b for b, indices, _ in self.places if number in free_vars(indices[-1]) and _row_length(indices, number) is None)
        return any(length * itemsize(dtype_of(b)) % BLOCK_BYTES for b in flat)

    def _decides(self, number: Var) -> bool:
        return any(number in free_vars(e) for e in self.decisions)


class _Unflatten(StmtMutator):
    def visit_For(self, s: For):
        return self.rows(s) if is_parallel(s) else self.generic(s)

    def rows(self, nest: For) -> For:
        """`nest` with loops over rows and over columns in place of one over both, as long as there is one."""
        loops, body = nest_of(nest)
        body = inline_index_binds(body)
        accesses = _Accesses(body)
        for k, (var, extent) in enumerate(loops):
            n = const_int(extent)
            length = accesses.row_length(var, n) if n is not None and dtype_of(var) == "int32" else None
            if length is not None:
                rows = _Rows(var, n // length, length)
                both = [(rows.row, imm(n // length)), (rows.column, imm(length))]
                return self.rows(rebuild_nest(nest, [*loops[:k], *both, *loops[k + 1 :]], rows(body)))
        return nest


def unflatten_nests(func: PrimFunc) -> PrimFunc:
    """Apply to a Tile IR function."""
    return func.with_body(_Unflatten()(func.body))


__all__ = ["unflatten_nests"]
