"""`T.any_of`, `T.all_of`: a condition on all elements of a tile, a slice or a part of a tensor."""

from __future__ import annotations

import math

from ..frontend.annotations import is_float
from ..frontend.builder import Builder, constant
from ..frontend.operators import as_scalar, binop, cast
from ..frontend.values import element
from ..ir import Break, BufferLoad, BufferStore, IfThenElse, Range, Var, dtype_of, imm, loop, scope_of, seq, sym, tirx
from .alloc import alloc_fragment
from .reduce import reduce
from .regions import TileOperand, tile_operand

SCALAR_ELEMENTS = 256
"""Elements of a tile that are looked at one by one; more of them are worth a reduction on the vector unit. What decides is then an element
that was computed there, which has a way to go to the cube core."""


def _quantifier(name: str, kind: str):
    def condition(buffer):
        op = tile_operand(buffer, f"the argument of T.{name}")
        builder = Builder.current(f"T.{name}")
        sizes = [constant(e) for e in op.extents]
        one_by_one = scope_of(op.buffer) == "global" or builder.region.inside("parallel") or None in sizes
        if one_by_one or math.prod(sizes) <= SCALAR_ELEMENTS:
            return _one_by_one(builder, op, name, kind)
        return _reduced(buffer, op, sizes, kind)

    condition.__name__ = name
    condition.__doc__ = (
        f"True if {'an element' if kind == 'any' else 'every element'} of a tile, of a slice or of a part of a tensor is not zero."
    )
    return condition


def _one_by_one(builder: Builder, op: TileOperand, name: str, kind: str):
    """A loop on the scalar unit, which every core has; it ends where the answer is known."""
    found = builder.alloc((1,), "bool", "local.var", builder.hinted_name(name))
    loops = [Var("i", "int32") if constant(e) != 1 else None for e in op.extents]
    indices = [as_scalar(m if i is None else binop("Add", m, i)) for m, i in zip(op.mins, loops)]
    value = _not_zero(BufferLoad(op.buffer, indices))
    outside = _outside(op, loops, indices) if scope_of(op.buffer) == "global" else None
    if outside is not None:
        value = tirx.Or(outside, value) if _reads_there(builder, op.buffer) else tirx.And(tirx.Not(outside), value)
    answer = tirx.const(kind == "any", "bool")
    span = builder.span()
    here = BufferLoad(found, [imm(0)])
    decides = value if kind == "any" else tirx.Not(value)
    body = IfThenElse(decides, seq(BufferStore(found, answer, [imm(0)], span=span), Break(span=span)), None, span=span)
    builder.emit(BufferStore(found, tirx.const(kind != "any", "bool"), [imm(0)], span=span))
    inner = True
    for var, extent in reversed([(v, e) for v, e in zip(loops, op.extents) if v is not None]):
        if not inner:
            known = here if kind == "any" else tirx.Not(here)
            body = seq(body, IfThenElse(known, Break(span=span), None, span=span))
        body, inner = loop(var, as_scalar(extent), body, span=span), False
    if inner:  # a single element
        body = BufferStore(found, value, [imm(0)], span=span)
    builder.emit(body)
    return element(found, [0])


def _not_zero(value):
    dtype = dtype_of(value)
    if dtype == "bool":
        return value
    if is_float(dtype) and dtype != "float32":
        value = cast(value, "float32")
    return tirx.NE(value, tirx.const(0, dtype_of(value)))


def _reads_there(builder: Builder, tensor) -> bool:
    """Whether regions read something else than zero outside of `tensor`: `T.annotate_safe_value`."""
    return any(value != 0 for b, value in builder.safe_values if b.same_as(tensor))


def _outside(op: TileOperand, loops: list, indices: list):
    """Whether an element lies outside of its tensor; None if it cannot."""
    analyzer, found = sym.Analyzer(), None
    for var, extent in zip(loops, op.extents):
        if var is not None:
            analyzer.bind(var, Range.from_min_extent(imm(0), as_scalar(extent)))
    for index, size in zip(indices, op.buffer.ty.shape):
        for bad in (index < 0, index >= size):
            if not analyzer.can_prove(tirx.Not(bad)):
                found = bad if found is None else tirx.Or(found, bad)
    return found


def _reduced(buffer, op: TileOperand, sizes: list[int], kind: str):
    current = buffer
    while len(sizes) > 1 or sizes[0] > 1:
        *sizes, _ = sizes
        sizes = sizes or [1]
        target = alloc_fragment(tuple(sizes), "int32")
        reduce(current, target, kind, -1)
        current = target
        if sizes == [1]:
            break
    return tirx.NE(element(current, [0]), imm(0))


any_of, all_of = _quantifier("any_of", "any"), _quantifier("all_of", "all")

NAMES = ("any_of", "all_of")
