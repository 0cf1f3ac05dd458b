"""Where the lanes of a value lie in UB, and the shape of one vector operation after merging axes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ....analysis.index.sums import Sum, add, constant, divided, scale
from ....ir import BufferLoad, as_expr, const_int, dtype_of, itemsize, reinterpret
from ....isa.units import BLOCK_BYTES


@dataclass(frozen=True)
class View:
    """Lanes of a value: element (i0, i1, …) of a nest lies at ``base + sum(strides[a] * i_a)`` of a buffer version.

    strides: one for each axis of the nest, in elements of the buffer; 0 along an axis means broadcast
    dense:   everything between the first and the last lane belongs to the value or is padding, so it may be overwritten
    whole:   the view is dense and reaches the end of the tile, so the rest of its last block is padding, too
    spread:  every lane value fills a whole 32-byte block (after `brcb`); the operation reads it with block stride 0
    dtype:   element type the instruction sees, of the same width as the buffer's dtype; for the words of 64-bit buffers base and strides
             count words
    """

    buffer: Any
    version: Any
    base: Sum
    strides: tuple[int, ...]
    dtype: str
    dense: bool = False
    spread: bool = False
    whole: bool = False

    @property
    def block(self) -> int:
        """Elements of one 32-byte block."""
        return BLOCK_BYTES // itemsize(self.dtype)

    def head(self, offset: Sum | None = None):
        """The operand expression of the lane `offset` elements after the base."""
        at = self.base if offset is None else add(self.base, offset)
        words = itemsize(dtype_of(self.buffer)) == 8 and itemsize(self.dtype) == 4
        at = divided(at, 2) if words else at.expr()
        return reinterpret(BufferLoad(self.buffer, [as_expr(self.version), as_expr(at)]), self.dtype)

    def same_place(self, other: View) -> bool:
        """True when both views are provably the same lanes."""
        difference = add(self.base, other.base, -1)
        return (
            self.buffer.same_as(other.buffer)
            and same_expr(self.version, other.version)
            and difference == constant(0)
            and self.strides == other.strides
            and self.spread == other.spread
        )

    def word(self, half: int) -> View:
        """The low (0) or high (1) words of 64-bit lanes."""
        base = add(scale(self.base, 2), constant(half))
        return View(self.buffer, self.version, base, tuple(2 * s for s in self.strides), "int32")

    def retyped(self, dtype: str) -> View:
        """The same lanes as another dtype of the same width."""
        return replace(self, dtype=dtype)


def same_expr(a, b) -> bool:
    """True for equal constants and for the same expression object."""
    ca, cb = const_int(a), const_int(b)
    if ca is not None or cb is not None:
        return ca == cb
    return a.same_as(b)


@dataclass(frozen=True)
class Axis:
    """One axis of an operation: its extent and the stride of every operand along it."""

    extent: int
    strides: tuple[int, ...]


def merged_axes(extents: tuple[int, ...], views: list[View], keep: tuple[int, ...]) -> list[Axis]:
    """Axes `keep` of the nest as few axes: unit axes dropped, neighbours that are one arithmetic progression merged.

    The innermost axis of the result has stride 1 for every operand that is not spread, or the operation needs a copy first.
    When all operands share one layout and the destination is dense, everything merges, padding included.
    """
    axes = [Axis(extents[a], tuple(v.strides[a] for v in views)) for a in keep if extents[a] != 1]
    unit = tuple(0 if v.spread else 1 for v in views)
    tiles = [k for k, v in enumerate(views) if not (v.spread and not any(v.strides))]
    if axes and views[0].dense and not any(views[k].spread for k in tiles) and _one_layout(axes, tiles):
        span = 1 + sum((a.extent - 1) * a.strides[0] for a in axes)
        return [Axis(span, unit)]
    for k in range(len(axes) - 2, -1, -1):
        outer, inner = axes[k], axes[k + 1]
        if all(so == si * inner.extent for so, si in zip(outer.strides, inner.strides)):
            axes[k : k + 2] = [Axis(outer.extent * inner.extent, inner.strides)]
    if not axes or (axes[-1].strides != unit and all(s != 1 or v.spread for s, v in zip(axes[-1].strides, views))):
        axes.append(Axis(1, unit))
    return axes


def _one_layout(axes: list[Axis], operands: list[int]) -> bool:
    """True when the given operands step alike along every axis, without going backwards."""
    alike = all(len({a.strides[k] for k in operands}) == 1 and a.strides[0] > 0 for a in axes)
    return alike and axes[-1].strides[0] == 1


def linear_span(extents: tuple[int, ...], strides: tuple[int, ...], axes) -> int:
    """Elements from the first to one past the last lane."""
    return 1 + sum((extents[a] - 1) * abs(strides[a]) for a in axes)


def lanes_meet(extents: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """True when lanes that differ along some axes with a stride may lie at one place: the steps of an axis are no longer than what the
    shorter steps of others cover."""
    covered = 0
    for step, n in sorted((abs(s), n) for s, n in zip(strides, extents) if s and n > 1):
        if step <= covered:
            return True
        covered += step * (n - 1)
    return False


def offset_by(index, stride: int) -> Sum:
    """`index * stride` where index is a Python int or a loop variable."""
    if isinstance(index, int):
        return constant(index * stride)
    return scale(Sum(0, ((index, 1),)), stride)


def dtype_width(view: View) -> int:
    """Bytes of one lane."""
    return itemsize(view.dtype)
