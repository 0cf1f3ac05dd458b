"""Bit masks along fewer axes than the operation that uses them."""

from __future__ import annotations

from ....analysis.index.sums import constant
from ....ir import itemsize
from ....isa.units import BLOCK_BYTES, MAX_REPEAT, REPEAT_BYTES, round_up
from ..graph.graph import Node
from .emitter import mask_words
from .views import View

COMPARE_BYTES = 256
"""Bytes a count-form compare must be a multiple of (doc: Compare)."""

_WORD_BITS, _WORD_BYTES = 16, 2


def broadcast_mask(values, m: Node, axes) -> View:
    """The mask `m` over `axes`, a new bit mask. `values` evaluates and emits."""
    real = [a for a in axes if values.extents[a] > 1]
    inner = [a for a in real if a in m.axes]
    if real[len(real) - len(inner) :] == inner and values.span(m.axes) % (8 * BLOCK_BYTES) == 0:
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
    g = values.graph
    ones = values.added(g.select(m, g.const(1.0, "float32"), g.const(0.0, "float32")))
    if (row := _rows_of_a_repeat(values, m, axes)) is not None:
        return _compared_by_rows(values, ones, row, axes)
    full = values.expand(ones, axes)
    lanes = round_up(values.span(axes), COMPARE_BYTES // itemsize("float32"))
    out = values.mask_temporary(axes)
    zero = g.scalar_expr(g.const(0.0, "float32"))
    values.emitter.linear("compare_scalar", [out.head(), full.head()], lanes, [zero], mode="ne")
    return out


def _rows_of_a_repeat(values, m: Node, axes) -> int | None:
    """The axis of rows which `m` varies along alone, if each row is one repeat of float32."""
    real = [a for a in axes if values.extents[a] > 1]
    mine = [a for a in m.axes if values.extents[a] > 1]
    if len(real) != 2 or mine != real[:1]:
        return None
    return real[0] if values.canonical(axes)[real[0]] == REPEAT_BYTES // itemsize("float32") else None


def _compared_by_rows(values, ones: Node, row: int, axes) -> View:
    """A repeat for each row compares its number, which fills a block, with zero."""
    g, out = values.graph, values.mask_temporary(axes)
    zeros = values.spread(values.added(g.tile(g.const(0.0, "float32"))))
    numbers = values.spread(ones)
    lanes, stride = REPEAT_BYTES // itemsize("float32"), numbers.strides[row]
    # Whole blocks of results: 8 bytes for each row.
    most = MAX_REPEAT // (BLOCK_BYTES // 8) * (BLOCK_BYTES // 8)
    for start in range(0, values.extents[row], most):
        heads = [out.head(constant(start * lanes // 8)), numbers.head(constant(start * stride)), zeros.head()]
        repeats = min(most, values.extents[row] - start)
        reps = [stride * itemsize("float32") // BLOCK_BYTES, 0]
        values.emitter.issue("compare_mask", *heads, *mask_words(lanes), repeats, 0, 0, *reps, mode="ne")
    return out


__all__ = ["COMPARE_BYTES", "broadcast_mask"]
