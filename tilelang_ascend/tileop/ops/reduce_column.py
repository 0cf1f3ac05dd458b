"""Results of row reductions that are columns of a tile (``out[M, 1]``): their elements lie whole blocks apart.

No instruction writes such elements one by one at vector speed, so results are made side by side and then moved: every result fills
a block (`brcb`), a copy under a mask keeps one lane of it. Old values come together by a gather.
"""

from __future__ import annotations

from dataclasses import replace

from ...analysis.index.sums import Sum, add, constant, scale
from ...ir import itemsize
from ...isa.units import MAX_REPEAT, round_up
from ..vector.emit.shift import column_copies
from ..vector.emit.views import View, linear_span, offset_by
from ..vector.fold.fold import Fold


def is_column(view: View, axes, extents) -> bool:
    """The elements of `view` over `axes` cannot be addressed side by side, but each lies at its place in a block of its own."""
    real = [a for a in axes if extents[a] > 1]
    step = view.strides[real[-1]] if real else view.block
    apart = all(view.strides[a] % view.block == 0 for a in real)
    return itemsize(view.dtype) in (2, 4) and apart and (bool(real) or not view.base.multiple_of(view.block)) and step > 0


def store_column(r: Fold, place: View, packed: View, axes) -> None:
    """`place` = `packed` for the elements over `axes`."""
    lanes = linear_span(r.shape, packed.strides, axes)
    repeats = round_up(lanes, 8) // 8
    buffer = r.ctx.new_temp(packed.dtype, round_up(repeats, 2) * 8 * packed.block, "spread")
    spread = View(buffer, 0, constant(0), tuple(s * packed.block for s in packed.strides), packed.dtype)
    # Eight elements of 16 bits are half a block: an even number of repeats keeps the next head aligned.
    group = MAX_REPEAT - 1
    for start in range(0, repeats, group):
        heads = [spread.head(constant(start * 8 * packed.block)), packed.head(constant(start * 8))]
        r.emitter.issue("brcb", *heads, min(group, repeats - start), 1, 8)
    real = [a for a in axes if r.shape[a] > 1] or [r.dim]
    extents = [1 if a == r.dim else n for a, n in enumerate(r.shape)]
    column_copies(r.emitter, place, spread, extents, real)


def load_column(r: Fold, packed: View, place: View, axes) -> None:
    """`packed` = `place` for the elements over `axes`."""
    real, size = [a for a in axes if r.shape[a] > 1], itemsize(place.dtype)
    count = r.shape[real[-1]] if real else 1
    table = View(r.ctx.new_temp("int32", round_up(count, 64), "table"), 0, constant(0), (), "int32")
    r.emitter.issue("create_vec_index", table.head(), 0, count)
    r.emitter.issue("muls", table.head(), table.head(), (place.strides[real[-1]] if real else 0) * size, count)
    start = replace(place, base=constant(0)).head()

    def nest(axes, target: Sum, source: Sum):
        if not axes:
            offset = scale(add(place.base, source), size).expr("int64")
            r.emitter.issue("gather", packed.head(target), start, table.retyped("uint32").head(), offset, count)
            return
        a, *rest = axes
        step = lambda i: nest(rest, add(target, offset_by(i, packed.strides[a])), add(source, offset_by(i, place.strides[a])))
        r.emitter.repeat(r.shape[a], step)

    nest(real[:-1], constant(0), constant(0))


__all__ = ["is_column", "load_column", "store_column"]
