"""Tiles that are loaded in pieces, each from a place of its own, as pages of a cache are.

    for p in range(8): copy(K[table[b, k * 8 + p] * 64 : +64, 0:512], k_s[p * 64 : p * 64 + 64, 0:512])

Where there may be fewer pieces than the tile has room for, the rest of it is zero, as it is behind the end of any load:
    for p in range(8): if p * 64 < count: copy(…) else: copy(K[0:64, 0:512] up to row 0, k_s[p * 64 : p * 64 + 64, 0:512])
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ...ir import (
    For,
    ForKind,
    IfThenElse,
    Stmt,
    TensorRegion,
    Var,
    const_int,
    dtype_of,
    full_region,
    imm,
    loop,
    region,
    stmts_of,
    structural_equal,
    substitute_expr,
    tirx,
)
from ...tile import COPY, is_op, tile_op
from ...tile.uses import on_chip
from ..index.sums import as_sum, divided
from .split_axis import copy_dims


@dataclass(frozen=True)
class PieceLoad:
    """A loop that loads all of a tile from a tensor, piece by piece.

    tile, dim: what is loaded, and the dimension along which pieces follow each other. var: the number of a piece. pieces, size: how many there are, and
    how many elements of `dim` each has. source: where a piece comes from. there: a condition for pieces that exist, the others being zero; None if all
    do. span: of the user's statement.
    """

    tile: Any
    dim: int
    var: Var
    pieces: int
    size: int
    source: TensorRegion
    there: Any = None
    span: Any = None

    @classmethod
    def of(cls, s: Stmt) -> PieceLoad | None:
        """What a loop loads so; None for other statements."""
        if not isinstance(s, For) or s.kind != ForKind.SERIAL or const_int(s.min) != 0 or const_int(s.extent) is None:
            return None
        there, load, other = (
            (s.body.condition, s.body.then_case, s.body.else_case) if isinstance(s.body, IfThenElse) else (None, s.body, None)
        )
        ends = _copied(load)
        if ends is None or len(ends) != 2 or on_chip(ends[0].source) or not on_chip(ends[1].source):
            return None
        source, target = ends
        dim = _dimension(target, s.loop_var, const_int(s.extent))
        if dim is None or there is not None and not _is_nothing(other, source, target):
            return None
        return cls(target.source, dim, s.loop_var, const_int(s.extent), const_int(target.region[dim].extent), source, there, s.span)

    def stmt(self) -> Stmt:
        """The statement; without a loop, if there is one piece."""
        first = imm(0, dtype_of(self.var)) if self.pieces == 1 else self.var * self.size
        shape = self.tile.ty.shape
        mins = [first if d == self.dim else imm(0) for d in range(len(shape))]
        target = region(self.tile, mins, [imm(self.size) if d == self.dim else n for d, n in enumerate(shape)])
        s: Stmt = tile_op("copy", self.source, target, span=self.span)
        if self.there is not None:
            d = self.along()
            first = imm(0, dtype_of(self.source.region[d].min))
            nowhere = region(
                self.source.source, [imm(0, dtype_of(x.min)) for x in self.source.region], [x.extent for x in self.source.region]
            )
            s = IfThenElse(self.there, s, tile_op("copy", nowhere, target, imm(d), first, span=self.span), span=self.span)
        if self.pieces > 1:
            return loop(self.var, self.pieces, s, span=self.span)
        return s

    def along(self) -> int:
        """The dimension of the tensor along which the elements of a piece follow each other."""
        return next(a for a, b in copy_dims(self.source, full_region(self.tile)) if b == self.dim)

    def divides(self, size: int) -> bool:
        """True if parts of `size` elements of the tile are made of whole pieces, or pieces of whole parts."""
        return size % self.size == 0 or self.size % size == 0

    def part(self, tile, first, size: int) -> Stmt:
        """What loads `size` elements from `first` on, a multiple of `size`, into a `tile` of their own."""
        var = Var(self.var.name, dtype_of(self.var))
        if size % self.size == 0:
            count, number = size // self.size, divided(as_sum(first), self.size)
            number = number if count == 1 else number + var
            return self._at(number, self.source, tile, var, count, self.size).stmt()
        number, d = tirx.floordiv(first, imm(self.size)), self.along()
        mins, extents = [x.min for x in self.source.region], [x.extent for x in self.source.region]
        mins[d] = mins[d] + tirx.floormod(first, imm(self.size))
        extents[d] = imm(size, dtype_of(extents[d]))
        return self._at(number, region(self.source.source, mins, extents), tile, var, 1, size).stmt()

    def _at(self, number, source: TensorRegion, tile, var: Var, pieces: int, size: int) -> PieceLoad:
        """The pieces from `number` on, an expression in terms of `var`."""
        mine = {self.var: number}
        there = None if self.there is None else substitute_expr(self.there, mine)
        return replace(self, tile=tile, var=var, pieces=pieces, size=size, source=substitute_expr(source, mine), there=there)


def _copied(s: Stmt | None) -> list | None:
    """The operands of the one copy that `s` is; None for anything else."""
    found = [] if s is None else stmts_of(s)
    return list(found[0].value.args) if len(found) == 1 and is_op(found[0], COPY) else None


def _is_nothing(s: Stmt | None, source: TensorRegion, target: TensorRegion) -> bool:
    """True for a copy of no element of the tensor that `source` lies in to a region."""
    args = _copied(s)
    if args is None or len(args) != 4 or not args[0].source.same_as(source.source) or not structural_equal(args[1], target):
        return False
    return const_int(args[3]) == 0 and all(const_int(x.min) == 0 for x in args[0].region)


def _dimension(target: TensorRegion, var: Var, pieces: int) -> int | None:
    """The dimension of a tile along which regions number `var` of it follow each other, `pieces` of them being all of it."""
    found = None
    for d, (x, n) in enumerate(zip(target.region, target.source.ty.shape)):
        first, size, all_of_it = as_sum(x.min), const_int(x.extent), const_int(n)
        if first.const == 0 and not first.terms and size == all_of_it is not None:
            continue
        if found is not None or size is None or size * pieces != all_of_it or first.const or first.terms != ((var, size),):
            return None
        found = d
    return found


__all__ = ["PieceLoad"]
