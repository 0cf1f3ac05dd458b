"""What a clipped load leaves untouched: the region of a tile behind the end of the tensor.

It is filled after the transfer, which then needs nothing but its tile: no flag from the vector pipe, and no order among vector
instructions keeps it from running ahead. What lies in front of the tensor, or apart from it, has to be filled before.
"""

from __future__ import annotations

from ...ir import Stmt, const_int, imm, intrin, itemsize, loop, reinterpret, tirx
from ...isa import lookup
from ...isa.units import BLOCK_BYTES, round_up
from ..base.layout import head
from ..base.placement import Side
from .axes import Axis, Copy, guarded

ZEROS = "int16"
"""Zeros of any dtype are zeros of this one."""


def fill_behind(gm: Side, ub: Side, axes: list[Axis], c: Copy) -> Stmt | None:
    """Fill what a load of the valid part of `axes`, padded to whole blocks, leaves of the region `ub`; None if that takes more than one
    range of columns for each row, or one range of rows."""
    rows, cols = ([None, *axes])[-2:]
    sizes = [const_int(e) for e in ub.extents]
    if None in sizes or any(a.clipped for a in axes[:-2]) or any(const_int(a.skip) != 0 for a in axes):
        return None
    if sum(a.clipped for a in axes) > 1:
        # Two fills, of which nothing but run-time numbers tells that they never meet: a barrier would part them.
        return None
    dtype = _filled_as(gm, c)
    if dtype is None or cols.tile != len(ub.extents) - 1:
        return None
    unit = BLOCK_BYTES // itemsize(ub.dtype)
    width = round_up(sizes[cols.tile], unit)
    strides = ub.tile.strides

    def place(at: dict, column):
        """A run of the region: `at` gives the indices along some axes."""
        index = [m + at[d] if d in at else m for d, m in enumerate(ub.mins)]
        offset = sum((i * n for i, n in zip(index, strides)), imm(0)) + column
        return reinterpret(head(ub.tile.buffer, ub.version, c.facts.simplify(offset)), dtype)

    def run(at: dict, column, count) -> Stmt:
        count = c.facts.simplify(tirx.floordiv(count * itemsize(ub.dtype), imm(itemsize(dtype))))
        return intrin("duplicate", place(at, column), imm(gm.gm.outside, dtype), count, span=c.span)

    def behind(at: dict) -> Stmt:
        if cols.clipped:
            first = tirx.floordiv(cols.valid + (unit - 1), imm(unit)) * unit
            fill = _along(rows, rows.valid if rows else 1, lambda r: run({**at, **r}, first, width - first), c)
            return guarded([first < imm(width)], fill, c.span)
        missing = rows.extent - rows.valid
        if strides[rows.tile] == width:
            fill = run({**at, rows.tile: rows.valid}, 0, missing * width)
        else:
            fill = _along(rows, missing, lambda r: run({**at, rows.tile: rows.valid + r[rows.tile]}, 0, width), c)
        return guarded([imm(0) < missing], fill, c.span)

    def every(outer: list[Axis], at: dict) -> Stmt:
        if not outer:
            return behind(at)
        return _along(outer[0], outer[0].extent, lambda i: every(outer[1:], {**at, **i}), c)

    return every(list(axes[:-2]), {})


def _along(axis: Axis | None, count, body, c: Copy) -> Stmt:
    """`body({dimension of the tile: i})` for `count` indices along an axis; `body({})` without one."""
    if axis is None:
        return body({})
    if const_int(count) == 1:
        return body({axis.tile: imm(0)})
    i = tirx.Var(f"i{axis.gm}", "int32")
    return loop(i, count, body({axis.tile: i}), span=c.span)


def _filled_as(gm: Side, c: Copy) -> str | None:
    """The dtype in which Duplicate writes what the outside of a tensor reads as."""
    if gm.dtype in lookup("duplicate").dtypes(c.placement.chip.generation):
        return gm.dtype
    return ZEROS if gm.gm.outside == 0 else None


__all__ = ["fill_behind"]
