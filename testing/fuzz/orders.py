"""Random sorts, and searches for the place of the largest element."""

from __future__ import annotations

import math

from .expressions import access, operation
from .numbers import FLOAT8
from .program import Stmt, Tile, index

GROUP = 32
MOST_SCORES = 5000
"""Rows are sorted in groups of 32 scores: many short ones need more room than the tile."""


class Orders:
    """The part of the generator that orders the elements of rows; see `generate.Generator` for its state."""

    def sort(self) -> Stmt:
        """T.sort, T.topk or T.argsort; what it gives ends in a tile of the block."""
        dtype = str(self.pick(["float32", "int32", "float16"])) if self.dtype == "int64" else self.dtype
        if self.float8 and self.view is None and self.chance(0.3):
            dtype = str(self.pick(FLOAT8))
        whole = list(range(self.rank))
        src = self.tile(whole, dtype, "S" if self.chance(0.6) else "W", reuse=0.9)
        dim = self.rank - 1 if self.chance(0.75) else int(self.pick(whole))
        if math.prod(src.shape) // src.shape[dim] * -(-src.shape[dim] // GROUP) * GROUP > MOST_SCORES:
            return self.nest()
        where, descending = "" if dim == self.rank - 1 and self.chance(0.5) else f", dim={dim}", self.chance(0.5)
        roll = self.rng.random()
        if roll < 0.4:
            dst = self.tile(whole, dtype, "W")
            places = self.new_tile(src.shape, "int32") if self.chance(0.5) else None
            target = "" if dst == src else f", {dst.name}"
            more = f", indices={places.name}" if places else ""
            sort = Stmt((f"T.sort({src.name}{target}{where}, descending={descending}{more})",),
                        (f"sort({dst.name}, {places.name if places else None}, {src.name}, {dim}, {descending})",),
                        kind="sort", fills=None if dst == src else dst.name, tags=frozenset({"sort"}))  # fmt: skip
            if places is None:
                return sort
            self.pending.append(sort)
            return self._spread(places, dst)
        shape = list(src.shape)
        shape[dim] = int(self.rng.integers(1, min(shape[dim], 12) + 1)) if self.chance(0.8) else shape[dim]
        if roll < 0.6:
            places = self.new_tile(shape, "int32")
            self.pending.append(Stmt((f"T.argsort({src.name}, {places.name}{where}, descending={descending})",),
                                     (f"sort(None, {places.name}, {src.name}, {dim}, {descending})",),
                                     kind="sort", fills=places.name, tags=frozenset({"argsort"})))  # fmt: skip
            return self._spread(places, src)
        kept = self.pick(["both", "both", "values", "indices"])
        values = self.new_tile(shape, dtype) if kept != "indices" else None
        places = self.new_tile(shape, "int32") if kept != "values" else None
        given = [f"{word}={t.name}" for word, t in (("values", values), ("indices", places)) if t]
        more = "" if descending else ", largest=False"
        names = ", ".join(t.name if t else "None" for t in (values, places))
        self.pending.append(Stmt((f"T.topk({src.name}, {', '.join(given)}{where}{more})",),
                                 (f"sort({names}, {src.name}, {dim}, {descending})",),
                                 kind="sort", fills=(values or places).name, tags=frozenset({"topk"})))  # fmt: skip
        if values and places:
            self.pending.append(self._spread(places, src))
        return self._spread(values or places, src)

    def _spread(self, part: Tile, other: Tile) -> Stmt:
        """A result copied into the first elements of a tile of the block, which is not `other`."""
        self.hidden, hidden = other.name, self.hidden
        dst = self.tile(range(self.rank), self.dtype, "W", reuse=0.8)
        self.hidden = hidden
        zeros = ("0, " * self.rank).strip()
        box = ", ".join(f"0:{n}" for n in part.shape)
        target = dst.name if part.shape == dst.shape else f"{dst.name}[{box}]"
        return Stmt((f"T.copy({part.name}, {target})",), (f"copy({dst.name}, ({zeros}), {part.name}, ({zeros}), {part.shape})",),
                    kind="copy", fills=dst.name if part.shape == dst.shape else None, tags=frozenset({"copy of a tile"}))  # fmt: skip

    def argmax(self) -> Stmt:
        """The place of the first or last of the largest or smallest elements along a dimension."""
        if self.dtype == "bool":
            return self.nest()
        whole, dim = list(range(self.rank)), int(self.rng.integers(self.rank))
        others = [d for d in whole if d != dim]
        src = self.tile(whole, self.dtype, "S" if self.chance(0.7) else "W", reuse=0.9)
        small = [self.block[d] for d in others] or [1]
        best, found, place = self.new_tile(small, self.dtype), self.new_tile(small, "int32"), self.new_tile(src.shape, "int32")
        kind, (way, none) = self.pick(["max", "max", "min"]), self.pick([("min", self.block[dim]), ("max", -1)])
        self.pending.append(self._over(kind, src, best, dim, f"reduce {kind}", f"arg{kind}"))
        here = [self.var(d) for d in others] or [index("0")]
        own = [self.var(d) for d in whole]
        equal = operation("bool", "({0} == {1})", "", access(src, own), access(best, here))
        value = operation("int32", f"T.if_then_else({{0}}, {{1}}, {none})", f'where({{0}}, as_numbers({{1}}), of("int32", {none}))',
                          equal, self.var(dim))  # fmt: skip
        self.pending.append(self._parallel([self._store(place, own, value, set())]))
        self.pending.append(self._over(way, place, found, dim))
        target = self.tile(whole, self.dtype, "W")
        at = access(found, here, "broadcast")
        if self.chance(0.5):
            hit = operation("bool", "({0} == {1})", "({0} == as_numbers({1}))", at, self.var(dim))
            self.exprs.written = {target.name}
            parts = self.exprs.varying(self.exprs.value(self.dtype, 1)), self.exprs.pure(self.dtype)
            self.exprs.written = set()
            result = operation(self.dtype, "T.if_then_else({0}, {1}, {2})", "where({0}, {1}, {2})", hit, *map(self._clamped, parts))
        else:
            result = operation(self.dtype, f'T.cast({{0}}, "{self.dtype}")', f'cast({{0}}, "{self.dtype}")', at)
        return self._parallel([self._store(target, own, result, set())])

    def _over(self, kind: str, src: Tile, dst: Tile, dim: int, *tags: str) -> Stmt:
        """A reduction into a tile of its own."""
        return Stmt((f"T.reduce_{kind}({src.name}, {dst.name}, dim={dim})",), (f'reduce({dst.name}, {src.name}, "{kind}", {dim}, True)',),
                    kind="reduce", fills=dst.name, tags=frozenset(tags))  # fmt: skip
