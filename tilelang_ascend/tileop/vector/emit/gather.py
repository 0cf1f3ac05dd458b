"""Values whose lanes are not where an instruction can read them: strided, reversed, transposed, unaligned, indirect access.

A gather reads element ``base_offset + table[i]`` (bytes). The table of an affine access depends on strides only, so one table
serves all accesses of the block that have the same pattern.
"""

from __future__ import annotations

from dataclasses import replace

from ....analysis.index.sums import Sum, add, constant, scale
from ....ir import BufferLoad, IntImm, as_expr, itemsize
from ....isa.units import round_up
from ...base.unsupported import Unsupported
from ..graph.graph import Node
from .transpose import transposed_view
from .views import View, linear_span, offset_by

_GATHERABLE = (2, 4)
"""Element sizes of the gather instruction (doc: Gather, b16 and b32)."""
_WIDE = "float16"
"""Holds 8-bit integers, and the bytes of 8-bit floats, exactly."""


def gather_view(values, view: View, axes: tuple[int, ...]) -> View:
    """Copy the lanes of an affine view into a canonical temporary over `axes`."""
    size = itemsize(view.dtype)
    if size not in _GATHERABLE:
        return _gather_wide(values, view, axes)
    turned = transposed_view(values, view, axes)
    if turned is not None:
        return turned
    real = [a for a in axes if values.extents[a] > 1]
    steps = {a: view.strides[a] * size for a in real}
    lowest = sum(s * (values.extents[a] - 1) for a, s in steps.items() if s < 0)
    table, whole = _table(values, steps, lowest, tuple(real))
    offset = add(scale(view.base, size), constant(lowest)).expr()
    out = values.temporary(view.dtype, axes, "gathered")
    source = BufferLoad(view.buffer, [as_expr(view.version), IntImm("int32", 0)])
    _gather(values, out, _as_dtype(source, view.dtype), table, offset, axes, whole)
    return out


def _as_dtype(operand, dtype: str):
    from ....ir import reinterpret

    return reinterpret(operand, dtype)


def _table(values, steps: dict, lowest: int, axes) -> tuple[View, bool]:
    """Byte offsets of the lanes over `axes` (canonical, int32), and whether padding lanes have valid offsets, too."""
    g = values.graph
    packed = values.canonical(axes)
    ratios = {steps[a] / packed[a] for a in axes}
    if len(ratios) <= 1:
        factor = int(ratios.pop()) if ratios else 0
        if ratios or all(steps[a] == factor * packed[a] for a in axes):
            if list(axes) != sorted(axes):
                return _progression(values, values.span(axes), factor, -lowest), True
            lanes = g.node("lanes", "int32", attrs=(axes,), axes=axes)
            return _evaluated(values, _scaled(g, lanes, factor, -lowest)), True
    *outer, inner = axes
    parts = {a: _iota(g, a, steps[a], -lowest if a == inner else 0) for a in axes}
    total = _evaluated(values, parts[inner])
    out = values.temporary("int32", axes, "table")
    for a in outer:
        _evaluated(values, parts[a])
        values.emitter.run("add", [out, total, values.spread(parts[a])], axes)
        total = out
    padded = packed[outer[-1]] != values.extents[inner]
    return total, not padded


def _progression(values, lanes: int, factor: int, plus: int) -> View:
    """``factor * k + plus`` for every lane k. Values of the graph lie in the order of the nest: other orders have no node."""
    key = lanes, factor, plus
    if key not in values.tables:
        table = values.temporary_lanes("int32", lanes, "table")
        if (factor, plus) == (1, 0):
            values.emitter.issue("create_vec_index", table.head(), 0, lanes)
        else:
            values.emitter.issue("muls", table.head(), _progression(values, lanes, 1, 0).head(), factor, lanes)
            values.emitter.issue("adds", table.head(), table.head(), plus, lanes)
        values.tables[key] = table
    return values.tables[key]


def _iota(g, axis: int, factor: int, plus: int) -> Node:
    iota = g.node("iota", "int32", attrs=(axis,), axes=(axis,))
    return _scaled(g, iota, factor, plus)


def _scaled(g, n: Node, factor: int, plus: int) -> Node:
    return g.binary("add", g.binary("mul", n, g.const(factor, "int32")), g.const(plus, "int32"))


def _evaluated(values, n: Node) -> View:
    """The view of a table node; tables stay alive for the next access with the same pattern."""

    def keep(x: Node):
        if x.is_scalar:
            return
        values.uses[x] += 2
        if x not in values.views:
            for a in x.args:
                keep(a)

    keep(n)
    return values.view(n)


def _gather(values, out: View, source, table: View, offset, axes, whole: bool) -> None:
    """One gather for the whole tile, or one for each row when the padding between rows has no valid offsets."""
    offset = as_expr(offset, "int64")
    real = [a for a in axes if values.extents[a] > 1]
    if whole or len(real) < 2:
        _issue(values, out, source, table, offset, constant(0), values.span(axes))
        return
    strides = out.strides

    def rows(k: int, at):
        if k == len(real) - 1:
            _issue(values, out, source, table, offset, at, values.extents[real[-1]])
            return
        values.emitter.repeat(values.extents[real[k]], lambda i: rows(k + 1, add(at, offset_by(i, strides[real[k]]))))

    rows(0, constant(0))


def _issue(values, out, source, table, offset, at, count) -> None:
    heads = [out.head(at), source, table.retyped("uint32").head(at)]
    values.emitter.issue("gather", *heads, offset, count)


def _widened(values, view: View, start: Sum, elements: int) -> View:
    """`elements` 8-bit elements of a buffer from `start` on, a multiple of 32, as float16, which holds them exactly; strides of `view`."""
    most = values.ctx.options.get("widened_bytes")
    if most is not None and elements * itemsize(_WIDE) > most:
        raise Unsupported("bytes of a large tile are read in another order than they lie in", "use a smaller tile")
    wide = values.ctx.new_temp(_WIDE, elements, "wide")
    first = View(view.buffer, view.version, start, view.strides, _as_bytes(view.dtype))
    out = View(wide, 0, constant(0), view.strides, _WIDE)
    values.emitter.linear("cast", [out.head(), first.head()], elements, round="none")
    return out


def _whole(view: View) -> tuple[Sum, int]:
    """(first element, number of elements) of the version of a buffer."""
    return constant(0), int(view.buffer.ty.shape[1])


def _touched(values, view: View, axes) -> tuple[Sum, int]:
    """(first element, number of elements) of the whole blocks between the lowest and the highest lane, where it is known how the lowest lies
    in its block; else of the whole version."""
    below = sum(min(0, view.strides[a]) * (values.extents[a] - 1) for a in axes)
    lowest = add(view.base, constant(below))
    inside = 0 if lowest.terms else lowest.const % view.block
    start, all_there_are = add(lowest, constant(-inside)), _whole(view)[1]
    elements = round_up(inside + linear_span(values.extents, view.strides, axes), view.block)
    within = 0 <= start.const and start.const + elements <= all_there_are if not start.terms else elements <= all_there_are
    return (start, elements) if within and start.multiple_of(view.block) else _whole(view)


def _as_bytes(dtype: str) -> str:
    """The integer dtype instructions move 8-bit elements as."""
    return dtype if dtype == "int8" else "uint8"


def _narrowed(values, gathered: View, dtype: str, axes) -> View:
    out = values.temporary(_as_bytes(dtype), axes, "narrow")
    values.emitter.run("cast", [out, gathered], axes, round="trunc")
    return out.retyped(dtype)


def _gather_wide(values, view: View, axes) -> View:
    """8-bit lanes: widen what holds them to float16, gather there, and narrow again."""
    if itemsize(view.dtype) != 1:
        raise Unsupported(f"{view.dtype} values can only be read lane by lane where they lie contiguous and aligned")
    start, elements = _touched(values, view, axes)
    wide = replace(_widened(values, view, start, elements), base=add(view.base, start, -1))
    gathered = gather_view(values, wide, axes)
    return _narrowed(values, gathered, view.dtype, axes)


def gather_indirect(values, n: Node) -> View:
    """A load whose index is data: ``args[0]`` holds byte offsets (int32) from the start of the buffer version."""
    source_view, size = n.attrs[0], itemsize(n.dtype)
    values.chain(n, n.args, None)
    table = values.linear_operand(n.args[0], n.axes, values.span(n.axes))
    values.consume(n.args)
    if size not in (1, *_GATHERABLE):
        raise Unsupported(f"there is no gather of {n.dtype} values", "store the table as float16, float32 or int32")
    dtype = n.dtype
    if size == 1:
        doubled = values.temporary("int32", n.axes, "offsets")
        values.emitter.linear("add", [doubled.head(), table.head(), table.head()], values.span(n.axes))
        source_view, table, dtype = _widened(values, source_view, *_whole(source_view)), doubled, _WIDE
    out = values.temporary(dtype, n.axes, "gathered")
    real = [a for a in n.axes if values.extents[a] > 1]
    packed = values.canonical(n.axes)
    padded = len(real) > 1 and packed[real[-2]] != values.extents[real[-1]]
    _gather(values, out, source_view.head(), table, 0, n.axes, not padded)
    return out if size != 1 else _narrowed(values, out, n.dtype, n.axes)
