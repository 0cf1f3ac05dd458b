"""Division of loops and rows into parts: everything that is done in parts is divided here.

What is left over is handled in one of three ways, by what is known:

* parts one after the other, of a length known now: a shorter part follows (`parts_of`);
* parts one after the other, of a length known at run time: iterations that do not exist are left out by a condition (`parts_of`);
* parts side by side on several cores: all are equally long, and the last one works on fewer (`Share.count`);
* parts of tiles, of which every statement takes the same (`Slice`): a shorter one follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import prod
from typing import Any

from ..ir import For, Stmt, Var, const_int, dtype_of, if_then, imm, loop, renew, seq, substitute, tirx
from ..isa.units import REPEAT_BYTES, round_up
from .nests import nest_of, rebuild_nest


@dataclass(frozen=True)
class Part:
    """Iterations of a loop that run together, once or in a loop of their own.

    inner: counts `count` iterations. index: the iteration of the divided loop. outer, trips: the loop over parts alike; None if there is
    one. holds: true for iterations that exist; None if all do.
    """

    inner: Var
    count: int
    index: Any
    outer: Var | None = None
    trips: Any = 1
    holds: Any = None


def parts_of(var: Var, extent, size: int) -> list[Part]:
    """A loop of `extent` iterations in parts of `size` iterations."""
    known = const_int(extent)
    if known is None:
        outer, inner = Var(f"{var.name}_part", "int32"), Var(var.name, "int32")
        extent = extent if dtype_of(extent) == "int32" else tirx.Cast("int32", extent)
        index = outer * size + inner
        return [Part(inner, size, index, outer, tirx.floordiv(extent + (size - 1), size), index < extent)]
    out = []
    if known >= size:
        outer, inner = Var(f"{var.name}_part", "int32"), Var(var.name, "int32")
        several = known >= 2 * size
        out.append(Part(inner, size, outer * size + inner if several else inner, outer if several else None, known // size))
    if known % size:
        inner = Var(var.name, "int32")
        out.append(Part(inner, known % size, inner + known // size * size))
    return out


def split_nest(nest: For, sizes: dict, finish=None, **notes) -> list[Stmt]:
    """A `Parallel` nest in parts: of at most `sizes[v]` iterations of the loop of `v`. Iterations are independent, so any part may run first.
    `finish(part)`, one statement or several, is what becomes of a part; `notes` are annotations of the loops over parts."""
    loops, body = nest_of(nest)
    out = []
    for chosen in product(*(parts_of(v, extent, sizes[v]) for v, extent in loops if v in sizes)):
        part_of = dict(zip((v for v, _ in loops if v in sizes), chosen))
        inside = substitute(body, {v: p.index for v, p in part_of.items()})
        conditions = [p.holds for p in chosen if p.holds is not None]
        inside = if_then(reduce(tirx.And, conditions), inside, span=nest.span) if conditions else inside
        shorter = [(part_of[v].inner, imm(part_of[v].count)) if v in part_of else (v, extent) for v, extent in loops]
        part = renew(rebuild_nest(nest, shorter, inside))
        part = part if finish is None else seq(finish(part))
        for p in reversed(chosen):
            part = part if p.outer is None else loop(p.outer, p.trips, part, span=nest.span, **notes)
        out.append(part)
    return out


def short_nests(nest: For, lanes: int) -> list[Stmt]:
    """A `Parallel` nest in parts of at most `lanes` iterations, split along the outermost loop that has more than one; as it is if nobody knows
    how many it has."""
    loops, _ = nest_of(nest)
    sizes = [const_int(e) for _, e in loops]
    if None in sizes or prod(sizes) <= lanes:
        return [nest]
    axis = next(k for k, n in enumerate(sizes) if n > 1)
    inner = prod(sizes[axis + 1 :])
    # Parts of a row start where instructions can: at whole repeats. Rows start aligned anyway.
    rows = even_size(sizes[axis], max(1, lanes // inner)) if axis < len(sizes) - 1 else round_up(lanes, REPEAT_BYTES)
    return split_nest(nest, {loops[axis][0]: rows}, lambda part: short_nests(part, lanes))


def even_size(extent: int, limit: int) -> int:
    """Iterations of one part, at most `limit`: a divisor of `extent` if there is a large one, so that nothing is left over."""
    return next((n for n in range(limit, limit // 2, -1) if extent % n == 0), limit)


@dataclass(frozen=True)
class Share:
    """What one of `parts` parts has of `extent` iterations or rows. `which`: its number, an expression."""

    extent: int
    which: Any
    parts: int

    @property
    def size(self) -> int:
        """The most that a part has."""
        return -(-self.extent // self.parts)

    @property
    def first(self):
        return self.which * self.size

    @property
    def even(self) -> bool:
        """True if all parts have `size`."""
        return self.extent % self.parts == 0

    @property
    def count(self):
        """How many it has."""
        return imm(self.size) if self.even else tirx.min(imm(self.size), self.extent - self.first)


@dataclass(frozen=True)
class Slice:
    """A part that has `size` iterations or rows from `first` on, an expression."""

    size: int
    first: Any
    even = True

    @property
    def count(self):
        return imm(self.size)


__all__ = ["Part", "Share", "Slice", "even_size", "parts_of", "split_nest"]
