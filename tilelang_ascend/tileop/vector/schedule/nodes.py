"""What evaluating a node of each kind emits: loads are views, everything else is (mostly) one instruction.

Every handler takes the `Values` of the block, the node, and the place where its value is wanted if any; it returns where the value lies.
"""

from __future__ import annotations

from .... import isa
from ....ir import itemsize
from ....isa.units import round_up
from ..emit.emitter import Unwritable
from ..emit.masks import COMPARE_BYTES, compared_by_rows
from ..emit.pair import load_word, store_pair
from ..emit.views import View
from ..graph.graph import Node

SHORT_LANES = 2048
"""Of float32: 32 repeats take about as long as the latency of one instruction."""


def _load(values, n: Node, want) -> View:
    return n.attrs[0]


def _reinterpret(values, n: Node, want) -> View:
    view = values.view(n.args[0])
    values.consume(n.args)
    return view.retyped(n.dtype)


def _duplicate(values, n: Node, want) -> View:
    """A scalar as one 32-byte block; 8-bit values travel as float16."""
    view = values.temporary(n.dtype, (), "const")
    (scalar,), count, narrow = n.args, view.block, itemsize(n.dtype) == 1
    filled = values.temporary_lanes("float16", count, "wide") if narrow else view
    values.emitter.issue(
        "duplicate", filled.head(), values.scalar(values.graph.scalar_cast(scalar, filled.dtype) if narrow else scalar), count
    )
    if narrow:
        values.emitter.issue("cast", view.head(), filled.head(), count, round="trunc")
    values.consume(n.args)
    return view


def _iota(values, n: Node, want) -> View:
    """0, 1, 2, … along one axis."""
    (axis,) = n.axes
    view = values.temporary(n.dtype, n.axes, "iota")
    values.emitter.issue("create_vec_index", view.head(), values.graph.scalar_expr(values.graph.const(0, n.dtype)), values.extents[axis])
    return view


def _lanes(values, n: Node, want) -> View:
    """0, 1, 2, … over the canonical lanes of several axes, padding included."""
    view = values.temporary(n.dtype, n.axes, "lanes")
    values.emitter.issue("create_vec_index", view.head(), 0, values.span(n.axes))
    return view


def elementwise(values, n: Node, want) -> View:
    record = isa.TABLE[n.op]
    args = [a for a in n.args if not a.is_scalar]
    scalars = [a for a in n.args if a.is_scalar]
    assert len(record.operands) == len(args) + 1, n
    values.chain(n, args, want)
    values.consume(n.args)
    return _into(values, n, args, scalars, want)


def _multiply_add(values, n: Node, want) -> View:
    """The instruction works in the place of its first operand; where that is still needed, or not where the result is wanted, two do."""
    a, factor, b = n.args
    values.chain(n, n.args, want)
    place = values.view(a)
    values.consume(n.args)
    out = want if want is not None and want.dtype == n.dtype and place.same_place(want) else values.reusable(n, [a], n.dtype)
    if out is not None and out.same_place(place) and values.uses[a] <= 0:
        try:
            if not _clashes(values, out, [b], n.axes):
                values._run(n.op, out, [factor, b], n.axes)
                return out
        except Unwritable:
            pass
    product = values.graph.with_scalar("muls", a, factor.args[0])
    return values.evaluate(values.added(values.graph.binary("add", product, b)), want)


def _sum(values, n: Node, want) -> View:
    """A sum with a product, in the place of the other operand where that is free: one instruction, and no tile for the product. Both round
    the product first."""
    for k in (1, 0) if n.op == "add" else (1,):
        product, addend = n.args[k], n.args[1 - k]
        if _only_here(values, n, product, ("muls", "mul") if n.op == "add" else ("muls",)) and addend.axes == n.axes:
            factors = [a for a in product.args if not a.is_scalar]
            if len(factors) == 2 and not _worth_three_sources(values, n, factors):
                continue
            scalars = [values.graph.neg(a) if n.op == "sub" else a for a in product.args if a.is_scalar]
            values.chain(n, [addend, *factors], want)
            out = _accumulator(values, n, addend, product, want)
            if out is not None and _placed(values, "axpy" if scalars else "mul_add_dst", out, factors, n.axes, scalars):
                values.consume(n.args)
                values.consume(product.args)
                return out
    return elementwise(values, n, want)


def _shifted_product(values, n: Node, want) -> View:
    """``a * b + c`` for a number c in the place of a factor that is free: half as many instructions in a chain of these, Horner's rule."""
    product, shift = n.args
    if _only_here(values, n, product, ("mul",)):
        for factor, other in (product.args, product.args[::-1]):
            if factor.axes != n.axes or factor is other:
                continue
            values.chain(n, product.args, want)
            out = _accumulator(values, n, factor, product, want)
            # A factor that would have to be spread is no shorter than what it replaces.
            if out is None or other.axes != n.axes:
                continue
            number = values.added(values.graph.tile(shift))
            if _placed(values, "fused_mul_add", out, [other, number], n.axes):
                values.consume([*n.args, *product.args, number])
                return out
            values.consume([number])
    return elementwise(values, n, want)


def _only_here(values, n: Node, product: Node, ops) -> bool:
    """Is the product one of float32 numbers that nothing else needs and nobody has computed?"""
    return (
        product.op in ops and n.dtype == "float32" and product.axes == n.axes and product not in values.views and values.uses[product] == 1
    )


def _worth_three_sources(values, n: Node, factors) -> bool:
    """Of three tiles that are read at once, two meet in the banks of UB: it takes as long as two instructions with two tiles each. A product that
    takes longer itself, of a tile with itself or with a row, is worth it, and one that is shorter than the wait for it."""
    return factors[0] is factors[1] or any(f.axes != n.axes for f in factors) or values.span(n.axes) <= SHORT_LANES


def _accumulator(values, n: Node, old: Node, product: Node, want) -> View | None:
    """The place of `old` if its value is needed by nothing but `n`, directly or through its product, and the result may lie there."""
    left = values.uses[old] - sum(a is old for a in (*n.args, *product.args))
    place = values.view(old)
    if left > 0:
        return None
    if want is not None and want.dtype == n.dtype and place.same_place(want):
        return want
    if old.op == "load" or place.strides != values.canonical(n.axes) or place.buffer not in values._own:
        return None
    others = [r for r in values.residents.get(place.buffer, ()) if r is not old and values.uses[r] > 0]
    return None if others or place.dtype != n.dtype else place


def _placed(values, name: str, out: View, args, axes, scalars=()) -> bool:
    """Emit an instruction that also reads its destination, False if its operands are in the way of it."""
    try:
        if _clashes(values, out, args, axes):
            return False
        values._run(name, out, args, axes, scalars)
        return True
    except Unwritable:
        return False


def _into(values, n: Node, args, scalars, want) -> View:
    attrs = dict(n.attrs)
    for a in args:
        values.operand(a, n.axes)
    out = values.destination(n, args, want, n.op)
    try:
        if want is not None and out is want and _clashes(values, out, args, n.axes):
            raise Unwritable()
        values._run(n.op, out, args, n.axes, scalars, **attrs)
        return out
    except Unwritable:
        assert out is want
        return _into(values, n, args, scalars, None)


def _clashes(values, out: View, args, axes) -> bool:
    """True when an operand overlaps the destination without being exactly the same lanes."""
    for a in args:
        v = values.operand(a, axes)
        if v.buffer.same_as(out.buffer) and not v.same_place(out):
            return True
    return False


def _compare(values, n: Node, want) -> View:
    args = [a for a in n.args if not a.is_scalar]
    scalars = [a for a in n.args if a.is_scalar]
    values.chain(n, args, None, lanes=True)
    unit = COMPARE_BYTES // itemsize(args[0].dtype)
    lanes = round_up(values.span(n.axes), unit)
    sources = [values.linear_operand(a, n.axes, lanes) for a in args]
    exprs = [values.scalar(s) for s in scalars]
    values.consume(n.args)
    out = values.mask_temporary(n.axes)
    values.emitter.linear(n.op, [out.head(), *(s.head() for s in sources)], lanes, exprs, **dict(n.attrs))
    return out


def _compare_columns(values, n: Node, want) -> View:
    values.chain(n, n.args, None)
    out = compared_by_rows(values, *n.args, n.axes, **dict(n.attrs))
    values.consume(n.args)
    return out


def _select(values, n: Node, want) -> View:
    mask, *rest = n.args
    args = [a for a in rest if not a.is_scalar]
    scalars = [a for a in rest if a.is_scalar]
    values.chain(n, [mask, *args], None, lanes=True)
    lanes = values.span(n.axes)
    bits = values.mask_operand(mask, n.axes)
    sources = [values.linear_operand(a, n.axes, lanes) for a in args]
    exprs = [values.scalar(s) for s in scalars]
    values.consume(n.args)
    fits = want is not None and want.dtype == n.dtype and want.dense and want.base.multiple_of(want.block)
    if fits and want.strides == values.canonical(n.axes):
        clash = any(s.buffer.same_as(want.buffer) and not s.same_place(want) for s in sources)
        out = want if not clash else values.temporary(n.dtype, n.axes, n.op)
    else:
        out = values.destination(n, args, None, n.op)
    mode = "tensor_scalar" if scalars else "tensor_tensor"
    values.emitter.linear(n.op, [out.head(), bits.head(), *(s.head() for s in sources)], lanes, exprs, mode=mode)
    return out


def _mask_logic(values, n: Node, want) -> View:
    values.chain(n, n.args, None)
    parts = [values.mask_operand(a, n.axes) for a in n.args]
    values.consume(n.args)
    out = values.mask_temporary(n.axes)
    words = round_up(values.span(n.axes), 16) // 16
    heads = [v.retyped("uint16").head() for v in (out, *parts)]
    values.emitter.linear(n.op.removeprefix("mask_"), heads, words)
    return out


def _bitwise(values, n: Node, want) -> View:
    """C220 has 16-bit logic only: wider values are processed as pairs of 16-bit words."""
    values.chain(n, n.args, None)
    lanes = values.span(n.axes)
    sources = [values.linear_operand(a, n.axes, lanes) for a in n.args]
    values.consume(n.args)
    out = values.destination(n, n.args, None, n.op)
    words = lanes * itemsize(n.dtype) // 2
    values.emitter.linear(n.op, [v.retyped("uint16").head() for v in (out, *sources)], words)
    return out


def _indirect(values, n: Node, want) -> View:
    from ..emit.gather import gather_indirect

    return gather_indirect(values, n)


def _rows(values, n: Node, want) -> View:
    from .rows import load_rows

    return load_rows(values, n, want)


ALIASES = ("load", "reinterpret")
"""Nodes that are another name for lanes that exist already."""

HANDLERS = {
    "load": _load, "reinterpret": _reinterpret, "duplicate": _duplicate, "iota": _iota, "lanes": _lanes, "compare": _compare,
    "compare_scalar": _compare, "compare_columns": _compare_columns, "select": _select, "select_scalar": _select,
    "mask_and": _mask_logic, "mask_or": _mask_logic, "mask_not": _mask_logic,
    "and": _bitwise, "or": _bitwise, "not": _bitwise, "indirect": _indirect, "rows": _rows,
    "word": load_word, "pair": store_pair, "fused_mul_add": _multiply_add,
    "add": _sum, "sub": _sum, "adds": _shifted_product,
}  # fmt: skip

__all__ = ["ALIASES", "HANDLERS", "elementwise"]
