"""Bit masks along fewer axes than the operation that uses them."""

from __future__ import annotations

from ....analysis.index.sums import constant
from ....ir import itemsize
from ....isa.units import BLOCK_BYTES, MAX_REPEAT, REPEAT_BYTES, round_up
from ..graph.graph import Node
from .emitter import mask_words
from .views import View, offset_by

COMPARE_BYTES = 256
"""Bytes a count-form compare must be a multiple of (doc: Compare)."""

BLOCK_BITS = 8 * BLOCK_BYTES

_WORD_BITS, _WORD_BYTES = 16, 2


def broadcast_mask(values, m: Node, axes) -> View:
    """The mask `m` over `axes`, a new bit mask. `values` evaluates and emits."""
    real = [a for a in axes if values.extents[a] > 1]
    inner = [a for a in real if a in m.axes]
    if real[len(real) - len(inner) :] == inner and values.span(m.axes) % BLOCK_BITS == 0:
        return _repeated(values, m, axes)
    return _compared(values, m, axes)


def _repeated(values, m: Node, axes) -> View:
    """The bits of `m` again for every index of the outer axes it lacks: they are whole 32-byte blocks."""
    source, out = values.view(m).retyped("uint16"), values.mask_temporary(axes)
    span = values.span(m.axes)
    words, rows = span // _WORD_BITS, values.span(axes) // span
    nbytes, lanes = words * _WORD_BYTES, REPEAT_BYTES // _WORD_BYTES
    for start in range(0, words, lanes):
        mask = mask_words(min(lanes, words - start))
        for row in range(0, rows, MAX_REPEAT):
            at = start * _WORD_BYTES  # offsets count elements of the buffer, which is one of bytes
            heads = [out.retyped("uint16").head(constant(row * nbytes + at)), source.head(constant(at))]
            values.emitter.issue("copy_mask", *heads, *mask, min(MAX_REPEAT, rows - row), 1, 1, nbytes // BLOCK_BYTES, 0)
    return out


def _compared(values, m: Node, axes) -> View:
    """0 / 1 where `m` holds, broadcast as numbers, compared again."""
    g, dtype = values.graph, _dtype_by_rows(values, m, axes)
    ones = values.added(g.select(m, *(g.const(n, dtype or "float32") for n in (1, 0))))
    if dtype is not None:
        return compared_by_rows(values, values.added(g.tile(g.const(0, dtype))), ones, axes, "ne")
    full = values.expand(ones, axes)
    lanes = round_up(values.span(axes), COMPARE_BYTES // itemsize("float32"))
    out = values.mask_temporary(axes)
    zero = g.scalar_expr(g.const(0.0, "float32"))
    values.emitter.linear("compare_scalar", [out.head(), full.head()], lanes, [zero], mode="ne")
    return out


def _dtype_by_rows(values, m: Node, axes) -> str | None:
    """In which numbers that each row has one of are compared to be the mask of the row, None if `m` varies along another axis, or rows have no such dtype."""
    real = [a for a in axes if values.extents[a] > 1]
    mine = [a for a in m.axes if values.extents[a] > 1]
    return row_dtype(values.canonical(axes)[real[0]]) if len(real) == 2 and mine == real[:1] else None


def row_dtype(columns: int, short: bool = True) -> str | None:
    """The dtype in which comparisons of rows write bits of their own: a row is one repetition of it, or a whole number of blocks of bits. `short`: may it be
    float16?"""
    for dtype in ("float16", "float32")[not short :]:
        repeats, rest = divmod(columns * itemsize(dtype), REPEAT_BYTES)
        if rest == 0 and (repeats == 1 or columns % BLOCK_BITS == 0 and repeats <= MAX_REPEAT):
            return dtype
    return None


def compared_by_rows(values, numbers: Node, bounds: Node, axes, mode: str) -> View:
    """A new mask over `axes`, those of rows and columns: numbers of columns, or one for all of them, <mode> the bound of a row. Of rows with a `row_dtype`."""
    row, _ = [a for a in axes if values.extents[a] > 1]
    columns, rows, size = values.canonical(axes)[row], values.extents[row], itemsize(bounds.dtype)
    lanes = REPEAT_BYTES // size
    out, right = values.mask_temporary(axes), values.spread(bounds)
    left = values.spread(numbers) if numbers.op == "duplicate" else values.view(numbers)
    step, stride = 0 if left.spread else 1, right.strides[row]

    def compare(start, repeats: int, *reps: int) -> None:
        heads = [out.head(offset_by(start, columns // 8)), left.head(), right.head(offset_by(start, stride))]
        values.emitter.issue("compare_mask", *heads, *mask_words(lanes), repeats, step, 0, *reps, mode=mode)

    if columns == lanes:
        whole = BLOCK_BITS // columns  # Rows that begin with a block.
        most = MAX_REPEAT // whole * whole
        for start in range(0, rows, most):
            compare(start, min(most, rows - start), 0, stride * size // BLOCK_BYTES)
        return out
    values.emitter.repeat(rows, lambda i: compare(i, columns // lanes, 8 * step, 0))
    return out


__all__ = ["COMPARE_BYTES", "broadcast_mask", "compared_by_rows", "row_dtype"]
