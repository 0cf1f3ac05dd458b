"""Nests that change the last columns of a tile, from a column on that is the same in all rows, and leave the others as they are.

    for i, j in T.Parallel(16, 512): s[i, j] = T.if_then_else(j < n, s[i, j], -inf)    # Duplicate on the columns from n on
    for i, j in T.Parallel(16, 512): s[i, j] = s[i, j] + T.if_then_else(j < n, 0, -inf)  # Adds

The general way numbers the columns, compares, and chooses, for all of the tile and with temporaries as large; this one needs none. The first column
has to be known as a multiple of a few 32-byte blocks, of which one repetition of an instruction has a column each.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....analysis.index.affine import affine, difference_fits
from ....analysis.index.nest_indices import sides_of
from ....analysis.index.sums import add, as_sum, scale
from ....ir import (
    Bind,
    BufferStore,
    FloatImm,
    IntImm,
    Stmt,
    Var,
    choice_of,
    dtype_of,
    imm,
    intrin,
    is_choice,
    itemsize,
    loop,
    seq,
    stmts_of,
    substitute_expr,
    tirx,
    written_out,
)
from ....isa import lookup
from ....isa.units import BLOCK_BYTES, MAX_REPEAT, REPEAT_BYTES
from ....tile.nests import is_own
from ....tile.uses import loads_in
from ...base.context import VectorContext
from ...base.tiles import is_tile
from ..emit.emitter import mask_words
from ..emit.views import View
from .expressions import ExprLowering
from .nest import Nest

MAX_STRIDE = 255
"""Blocks between two repetitions (doc: the parameter has 8 bits)."""


@dataclass(frozen=True)
class _Change:
    """The instruction for what is changed, its number, and the first column; what is in front of that stays."""

    name: str
    number: float
    first: object


def lower_last_columns(nest: Nest, ctx: VectorContext, exprs: ExprLowering) -> Stmt | None:
    """The instructions of a nest as above, None if it is another one. `exprs`: reads its indices."""
    s = _store(nest)
    if s is None or ctx.analyzer is None or not is_tile(s.buffer):
        return None
    change, place = _change(s, nest, ctx), exprs.place(s.buffer, list(s.indices))
    shape = None if change is None or place is None else _shape(change, place, nest, ctx)
    if shape is None:
        return None
    rows, pitch, lanes = shape
    columns, first, g = nest.extents[-1], Var("first", "int32"), Var("columns", "int32")
    known = Bind(first, tirx.floordiv(tirx.max(tirx.min(change.first, imm(columns)), imm(0)), imm(lanes)), span=nest.span)
    head, groups = place.head(scale(add(as_sum(first), as_sum(g)), lanes)), imm(columns // lanes)
    operands = [head] * (2 if change.name == "adds" else 1)
    strides = [1] * len(operands) + [pitch] * len(operands)
    number = imm(change.number, dtype_of(s.buffer))
    instruction = intrin(f"{change.name}_mask", *operands, number, *mask_words(lanes), rows, *strides, span=nest.span)
    # The least of both, so that everybody knows how many there are at most.
    return seq(known, loop(g, tirx.min(groups - first, groups), instruction, span=nest.span))


def _shape(change: _Change, place: View, nest: Nest, ctx: VectorContext) -> tuple[int, int, int] | None:
    """(rows, blocks from one to the next, lanes of a column of blocks) of the instruction that changes whole columns of blocks, None if there is none
    such."""
    *outer, columns = nest.extents
    rows = [a for a, n in enumerate(outer) if n > 1]
    dtype = place.dtype
    if len(rows) > 1 or place.strides[-1] != 1 or itemsize(dtype) not in (2, 4) or dtype_of(place.buffer) != dtype:
        return None
    if dtype not in lookup(f"{change.name}_mask").dtypes(ctx.chip.generation):
        return None
    unit, lanes = BLOCK_BYTES // itemsize(dtype), REPEAT_BYTES // itemsize(dtype)
    count, pitch = (outer[rows[0]], place.strides[rows[0]]) if rows else (1, columns)
    while lanes > unit and not (columns % lanes == 0 and _multiple(change.first, lanes, ctx)):
        lanes //= 2
    whole = columns % lanes == 0 and _multiple(change.first, lanes, ctx) and place.base.multiple_of(unit)
    apart = pitch >= columns and pitch % unit == 0 and pitch // unit <= MAX_STRIDE
    return (count, min(pitch // unit, MAX_STRIDE), lanes) if whole and count <= MAX_REPEAT and (apart or count == 1) else None


def _store(nest: Nest) -> BufferStore | None:
    """What a nest stores, if that is all it does, with the names it uses replaced by what they stand for."""
    *names, last = stmts_of(nest.body)
    if not isinstance(last, BufferStore) or not all(isinstance(s, Bind) for s in names):
        return None
    known: dict = {}
    for s in names:
        known[s.var] = written_out(s, known)
        if known[s.var].same_as(s.var):
            return None
    return BufferStore(last.buffer, substitute_expr(last.value, known), [substitute_expr(i, known) for i in last.indices], span=last.span)


def _multiple(e, n: int, ctx: VectorContext) -> bool:
    return ctx.analyzer.can_prove(tirx.EQ(tirx.floormod(e, imm(n, dtype_of(e))), imm(0, dtype_of(e))))


def _change(s: BufferStore, nest: Nest, ctx: VectorContext) -> _Change | None:
    """What a store does to the last columns if it leaves the others as they are."""
    if is_choice(s.value):
        condition, *values = choice_of(s.value)
        kept, name = [is_own(v, s) for v in values], "duplicate"
    elif isinstance(s.value, tirx.Add):
        parts = [x for x in (s.value.a, s.value.b) if not is_own(x, s)]
        if len(parts) != 1 or not is_choice(parts[0]) or "float" not in dtype_of(s.buffer):
            return None
        condition, *values = choice_of(parts[0])
        kept, name = [isinstance(v, FloatImm) and v.value == 0 for v in values], "adds"
    else:
        return None
    if kept.count(True) != 1 or loads_in(condition):
        return None
    other = values[kept.index(False)]
    first = _first_column(condition, nest, not kept[0], ctx)
    if not isinstance(other, (FloatImm, IntImm)) or first is None:
        return None
    return _Change(name, other.value, first)


def _first_column(condition, nest: Nest, wanted: bool, ctx: VectorContext):
    """The column from which on a condition is what is `wanted`, and in front of which it is not, in all rows; it may lie outside of the tile. None if
    there is none such."""
    sides = sides_of(condition)
    if sides is None:
        return None
    small, large, least = sides
    if dtype_of(small) != "int32":
        return None
    column, forms = nest.axes[-1], [affine(e, list(nest.axes)) for e in (small, large)]
    if None in forms:
        return None
    coefficients = {v: forms[1].coeffs.get(v, 0) - forms[0].coeffs.get(v, 0) for v in nest.axes}
    if any(c for v, c in coefficients.items() if not v.same_as(column)) or coefficients[column] != (1 if wanted else -1):
        return None
    low, high = (f.base for f in forms)
    if not all(difference_fits(*pair, ctx.analyzer, 1) for pair in ((low, high), (high, low))):
        return None
    # high - low + c * column >= least
    return ctx.analyzer.simplify(low - high + least if wanted else high - low + 1 - least)


__all__ = ["lower_last_columns"]
