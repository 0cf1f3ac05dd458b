"""What every copy needs to know: which dimensions correspond, and which part of them lies inside the GM tensor."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ...analysis.index.value_facts import ValueFacts
from ...errors import UnsupportedConstruct
from ...ir import Bind, Evaluate, Range, Stmt, as_dtype, const_int, dtype_of, if_then, imm, renew, seq, tirx
from ...tile.uses import is_atomic
from ..base.atomic import atomic_operand, atomically
from ..base.layout import moved
from ..base.output import Output
from ..base.placement import Placement, Side, Tile, temporary_tile

_FAR = 1 << 30
"""From that far in front of a tensor an int32 counts to the end of any."""


@dataclass(frozen=True)
class Copy:
    """The statement being lowered and what it needs. `vector(stmt, versions)` lowers a `Parallel` nest or fill over the views of tiles,
    `versions`: tile -> version in use. `close_loads`: whether elements that are close to each other may be loaded with what lies between them, which takes room
    in UB; None, or a list of the statements that did. `binds`: definitions of the variables its instructions use, which come in front of these."""

    stmt: Evaluate
    placement: Placement
    facts: ValueFacts
    out: Output
    vector: object
    close_loads: list | None = None
    binds: list = field(default_factory=list)

    @property
    def span(self):
        return self.stmt.span

    @property
    def unit(self) -> int:
        """Elements to which rows of its temporaries are padded."""
        tiles = [self.placement.tiles[r.source] for r in self.stmt.value.args if getattr(r, "source", None) in self.placement.tiles]
        return self.placement.unit_of(tiles)

    def temporary(self, shape, dtype: str, name: str) -> Tile:
        """A tile in UB for this statement."""
        return temporary_tile(shape, dtype, name, self.unit, self.out)

    def variable(self, name: str, value, most):
        """A variable for `value`, 0 <= value <= most."""
        positive = self.facts.proves(value > 0)
        var = tirx.Var(self.out.unique(name), "int32")
        low = 1 if positive else 0
        upper = const_int(most)
        if upper is not None:
            upper = max(low, min(upper, int(self.facts.analyzer.const_int_bound(value).max_value)))
            self.facts.analyzer.bind(var, Range.from_min_extent(imm(low), imm(upper + 1 - low)))
        elif positive:
            self.facts.analyzer.bind(var, Range.from_min_extent(imm(1), imm(2**30)))
        self.binds.append(Bind(var, value))
        return var

    def store(self, transfer: Stmt, dtype: str) -> Stmt:
        """A transfer to GM of elements of `dtype`, inside the atomic mode the statement asks for."""
        return atomically(self.stmt, transfer, dtype) if is_atomic(self.stmt) else transfer

    def stored(self, operand):
        """An operand of a transfer to GM, as a dtype that transfer knows."""
        return atomic_operand(self.stmt, operand) if is_atomic(self.stmt) else moved(operand)

    def refuse(self, message: str, hint: str):
        """Raise a located error."""
        raise UnsupportedConstruct(message, at=self.span, hint=hint)


@dataclass(frozen=True)
class Axis:
    """One dimension of a copy: its index on both sides, its extent, and the part inside the GM tensor.

    That part are the `valid` elements from element `skip` of the region on.
    """

    gm: int
    tile: int
    extent: object
    valid: object
    clipped: bool = False
    skip: object = 0

    def unclipped(self) -> "Axis":
        """The same dimension where the whole region lies inside."""
        return replace(self, valid=self.extent, clipped=False, skip=0)


def paired_dims(gm_extents: list, tile_extents: list) -> list[tuple[int, int]]:
    """(dimension in GM, dimension of the tile) for every dimension that is copied along; unit dimensions drop out."""
    a = [d for d, e in enumerate(gm_extents) if const_int(e) != 1]
    b = [d for d, e in enumerate(tile_extents) if const_int(e) != 1]
    if len(a) != len(b):
        # One side may have unit extent by accident of its shape: fall back to right alignment.
        n = min(len(gm_extents), len(tile_extents))
        a = list(range(len(gm_extents) - n, len(gm_extents)))
        b = list(range(len(tile_extents) - n, len(tile_extents)))
    return list(zip(a, b)) or [(len(gm_extents) - 1, len(tile_extents) - 1)]


def pair_axes(gm: Side, tile: Side, c: Copy, first_column: bool = False) -> list[Axis]:
    """Match the dimensions of a GM region with those of a tile region.

    `first_column`: the last of them is known not to start in front of the tensor.
    """
    pairs = paired_dims(gm.extents, tile.extents)
    axes = []
    for g, t in pairs:
        in_gm, in_tile = const_int(gm.extents[g]), const_int(tile.extents[t])
        if None not in (in_gm, in_tile) and in_gm != in_tile:
            c.refuse(
                f"copy extents differ: {gm.extents[g]} in global memory against {tile.extents[t]} in the tile",
                "give both sides the same extents",
            )
        inside = first_column and g == pairs[-1][0]
        extent = tile.extents[t] if in_tile is None else gm.extents[g]
        axes.append(clip(gm, g, t, extent, c, inside, tile.tile.shape[t] if tile.tile else extent))
    return axes


def clip(gm: Side, g: int, t: int, extent, c: Copy, starts_inside: bool = False, most=None) -> Axis:
    """Part of a dimension that lies inside the tensor. `starts_inside`: its first index is known to be at least 0; `most`: what
    `extent` cannot exceed, if it is not a constant."""
    most = extent if const_int(extent) is not None or most is None else most
    low, facts = _signed(gm.mins[g], gm.gm.shape[g]), c.facts
    inside = facts.simplify(gm.gm.shape[g] - low)
    extent = facts.simplify(extent)
    starts_inside = starts_inside or facts.nonnegative(low)
    # An extent only known at run time may be nothing at all: that needs the guard of a clipped transfer.
    ends_inside = starts_inside and (facts.proves(inside >= extent) or facts.nonnegative(inside - extent))
    if ends_inside and facts.proves(_expr(extent) > 0):
        return Axis(g, t, extent, extent)
    name = gm.gm.flat.name + ("_rows" if g < len(gm.mins) - 1 else "_cols")
    # From next to the least int32 to the end of the tensor it is further than an int32 counts: a sum with that is no number of elements.
    far = not starts_inside and not facts.proves(low > imm(-_FAR, dtype_of(low)))
    skip, length = 0, _expr(extent)
    if not starts_inside:
        before = tirx.min(tirx.max(imm(0), imm(0) - low), length)
        skip = _count(before if not far or facts.nonnegative(length) else _not_negative(before), f"{name}_before", most, c)
    end = tirx.min(length, inside)
    end = _not_negative(end) if far else end
    # A region larger than the tensor is never whole: then there is no branch for that, whose rows would be negative distances apart.
    sizes = const_int(most) if not isinstance(most, int) else most, const_int(gm.gm.shape[g])
    valid = _count(tirx.max(end - skip, imm(0)), name, most if None in sizes else min(sizes), c)
    return Axis(g, t, extent, valid, True, skip)


def _signed(low, size):
    """The first index of a region as a signed number: differences with it may be negative. Behind the end of the dimension all are alike."""
    if isinstance(low, int) or not dtype_of(low).startswith("uint"):
        return low
    return as_dtype(tirx.min(low, as_dtype(_expr(size), "uint64")) if dtype_of(low) == "uint64" else low, "int64")


def _not_negative(e):
    return tirx.max(e, imm(0, dtype_of(e)))


def _count(value, name: str, most, c: Copy):
    """`value`, a number of at most `most` elements, as a constant or an int32 variable."""
    value = c.facts.simplify(value)
    if const_int(value) is not None:
        return const_int(value)
    if str(value.ty.dtype) != "int32":
        value = tirx.Cast("int32", value)
    return c.variable(name, value, most)


def _expr(e):
    return imm(e) if isinstance(e, int) else e


def fixed_in_bounds(gm: Side, axes: list[Axis], facts: ValueFacts) -> list:
    """Conditions under which the dimensions that are not copied along (extent 1) lie inside the tensor."""
    used = {a.gm for a in axes}
    conds = []
    for d, m in enumerate(gm.mins):
        if d not in used:
            conds += [x for x in (m >= 0, m < gm.gm.shape[d]) if not facts.proves(x)]
    return conds


def guarded(conds: list, body: Stmt, span) -> Stmt:
    """`body` under all conditions."""
    if not conds:
        return body
    cond = conds[0]
    for x in conds[1:]:
        cond = tirx.And(cond, x)
    return if_then(cond, body, span=span)


def non_empty(axes: list[Axis], facts: ValueFacts) -> list:
    """Conditions under which a clipped transfer moves anything."""
    return [a.valid > 0 for a in axes if a.clipped and not facts.proves(a.valid > 0)]


def tail_condition(axes: list[Axis], conds: list, facts: ValueFacts):
    """Condition under which a load leaves part of the tile untouched: an expression, True, or None if it never does."""
    clipped = [a for a in axes if a.clipped]
    if any(const_int(a.valid) is not None and const_int(a.extent) is not None or facts.proves(a.valid < a.extent) for a in clipped):
        return True
    # An extent that is data may be negative: then nothing is moved, and no extent is what is moved.
    parts = [a.valid < a.extent if facts.nonnegative(a.extent) else tirx.NE(_expr(a.valid), _expr(a.extent)) for a in clipped]
    parts += [tirx.Not(c) for c in conds]
    if not parts:
        return None
    out = parts[0]
    for x in parts[1:]:
        out = tirx.Or(out, x)
    return out


def tail_or_whole(tail, fill, transfer, axes: list[Axis], conds: list, always_fill: bool, c: Copy) -> Stmt:
    """A load that may be clipped: filled and clipped where it is, the plain transfer everywhere else.

    Two branches rather than a guarded fill in front of one transfer: the usual iteration then has no dependence on the fill and
    needs no flag for it.
    """
    if tail is None:
        return seq(fill if always_fill else None, transfer(axes, conds))
    clipped = seq(fill, transfer(axes, conds))
    if tail is True:
        return clipped
    whole = [a.unclipped() for a in axes]
    return if_then(tail, clipped, seq(renew(fill) if always_fill else None, transfer(whole, [])), span=c.span)


__all__ = [
    "Axis", "Copy", "clip", "fixed_in_bounds", "guarded", "non_empty", "pair_axes", "paired_dims",
    "tail_condition", "tail_or_whole",
]  # fmt: skip
