"""Which tensors in GM a `T.Parallel` nest both stores to and uses afterwards in the same iteration.

Iterations are independent, so what an iteration reads before it stores anything may be loaded before the nest, and what it stores may go
back behind it. A *conflict* is an access that follows a store to the same tensor in program order, or shares a loop inside of the nest with
one: the two have to use one tile, or both the tensor itself. So have a load and a store at places of which there are surely fewer than
iterations (`y[i // 4] = y[i // 4] + x[i]`): those that share one are not independent.
"""

from __future__ import annotations

from math import prod

from ...ir import (
    BufferStore,
    For,
    IfThenElse,
    Range,
    SeqStmt,
    Stmt,
    While,
    const_int,
    dtype_of,
    exprs,
    imm,
    scope_of,
    structural_equal,
    substitute_expr,
    sym,
)
from ...tile.uses import is_atomic, loads_in
from .nest_indices import NestIndices


class NestOrder:
    """Conflicts of one nest. `boxes`: {tensor: [(minimums, extents)]}, tiles that hold all accesses of a tensor with conflicts;
    `unstaged`: tensors that have none and are accessed element by element, in program order. `in_order`: why whole iterations have to run
    one after the other, if they do."""

    def __init__(self, loops, body: Stmt, stepped: frozenset = frozenset()):
        self.indices = NestIndices(loops, body, stepped, widest=True)
        self.analyzer = sym.Analyzer()
        for v, n in self.indices.extents.items():
            if n:
                self.analyzer.bind(v, Range.from_min_extent(imm(0), imm(n)))
        self._found: dict = {}
        self._walk(body, ())
        self.boxes: dict = {}
        self.unstaged: set = set()
        self.in_order: str | None = None
        for buffer, found in self._found.items():
            if any(a.atomic for a in found):
                self.unstaged.add(buffer)
            elif any(a.conflicts(b) for n, a in enumerate(found) for b in found[n + 1 :]) or self._crowded(buffer, found):
                obstacle = self._solve(buffer, found)
                if obstacle is None:
                    continue
                self.unstaged.add(buffer)
                # Stores alone go to GM in the order of the program, statement by statement.
                if not all(a.store for a in found):
                    self.in_order = self.in_order or f"iterations use `{buffer.name}` after they have stored to it, {obstacle}"

    # -- accesses in program order --------------------------------------------------------------------------------

    def _walk(self, s: Stmt, inside: tuple) -> None:
        if isinstance(s, SeqStmt):
            for x in s.seq:
                self._walk(x, inside)
            return
        here = (*inside, s) if isinstance(s, While) else inside
        for e in exprs(s):
            for x in loads_in(e):
                self._see(x.source, list(x.indices), here)
        if isinstance(s, BufferStore):
            self._see(s.buffer, list(s.indices), inside, store=True)
        elif is_atomic(s):
            target = s.value.args[0]
            self._see(target.source, [r.min for r in target.region], inside, store=True, atomic=True)
        elif isinstance(s, (For, While)):
            self._walk(s.body, (*inside, s))
        elif isinstance(s, IfThenElse):
            self._walk(s.then_case, inside)
            if s.else_case is not None:
                self._walk(s.else_case, inside)

    def _see(self, buffer, indices: list, inside: tuple, store: bool = False, atomic: bool = False) -> None:
        if scope_of(buffer) in ("global", ""):
            self._found.setdefault(buffer, []).append(_Access(indices, inside, store, atomic))

    def _crowded(self, buffer, found: list) -> bool:
        """Is there a load beside a store that is no sum of loop variables and has surely fewer places than the nest has iterations? The tile of a
        sum shows by itself which iterations share elements."""
        stores = [a for a in found if a.store and self.indices.forms(a.indices) is None]
        trips = prod(n or 1 for n in self.indices.extents.values())
        return len(stores) < len(found) and any(prod(map(self._places, a.indices, buffer.ty.shape)) < trips for a in stores)

    def _places(self, index, size) -> int:
        """As many values as an index has at most, of those that lie inside of a dimension."""
        first = substitute_expr(index, {v: imm(0, dtype_of(v)) for v in self.indices.extents})
        bound = self.analyzer.const_int_bound(self.analyzer.simplify(index - first))
        span, n = int(bound.max_value) - int(bound.min_value) + 1, const_int(size)
        return span if n is None else min(span, n)

    # -- tiles ------------------------------------------------------------------------------------------------------

    def _solve(self, buffer, found: list) -> str | None:
        """One tile for accesses that may touch the same elements; otherwise what stands against it."""
        boxes: list = []
        for a in found:
            forms = self.indices.forms(a.indices)
            if forms is None:
                return "at places that depend on data"
            hulls = [f.hull(self.indices.extents) for f in forms]
            box = ([self.analyzer.simplify(h[0]) for h in hulls], [h[1] for h in hulls])
            if not any(self._same(box, b) for b in boxes):
                boxes.append(box)
        k = 1
        while k < len(boxes):
            joined = next(((n, self._join(boxes[n], boxes[k])) for n in range(k) if not self._apart(boxes[n], boxes[k])), None)
            if joined is None:
                k += 1
                continue
            n, box = joined
            if box is None:
                return "at distances known only at run time"
            boxes = [box, *(b for i, b in enumerate(boxes) if i not in (n, k))]
            k = 1
        self.boxes[buffer] = boxes
        return None

    def _same(self, a: tuple, b: tuple) -> bool:
        return a[1] == b[1] and all(structural_equal(x, y) for x, y in zip(a[0], b[0]))

    def _steps(self, a: tuple, b: tuple) -> list:
        """How far `b` begins behind `a` in every dimension, None where it is not known."""
        return [const_int(self.analyzer.simplify(y - x)) for x, y in zip(a[0], b[0])]

    def _apart(self, a: tuple, b: tuple) -> bool:
        """True if two boxes have no element in common."""
        return any(k is not None and (k >= n or -k >= m) for k, n, m in zip(self._steps(a, b), a[1], b[1]))

    def _join(self, a: tuple, b: tuple) -> tuple | None:
        """The box around two boxes, None if it is not known."""
        steps = self._steps(a, b)
        if None in steps:
            return None
        mins = [self.analyzer.simplify(m + min(k, 0)) for m, k in zip(a[0], steps)]
        return mins, [max(n, k + e) - min(k, 0) for n, e, k in zip(a[1], b[1], steps)]


class _Access:
    def __init__(self, indices: list, inside: tuple, store: bool, atomic: bool):
        self.indices, self.inside, self.store, self.atomic = indices, inside, store, atomic

    def conflicts(self, later: _Access) -> bool:
        """True if `later` may have to see what this access does, or the other way round, in a loop around both."""
        return (self.store or later.store) and (self.store or any(a is b for a, b in zip(self.inside, later.inside)))


__all__ = ["NestOrder"]
