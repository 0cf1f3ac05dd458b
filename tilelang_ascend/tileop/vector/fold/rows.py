"""Folding of a tile along one axis by vector instructions."""

from __future__ import annotations

import math
from dataclasses import replace

from ....analysis.index.sums import add, constant
from ....ir import itemsize
from ....isa.units import MAX_REPEAT, REPEAT_BYTES, round_up
from ...base.unsupported import Unsupported
from ..emit.views import View, offset_by
from .fold import Fold
from .lanes import fold_lanes

_WHOLE = {"add": "whole_reduce_sum", "max": "whole_reduce_max", "min": "whole_reduce_min"}
_BLOCK = {"add": "block_reduce_sum", "max": "block_reduce_max", "min": "block_reduce_min"}
_MAX_U16 = 65535

_MANY_ROWS = {8: 1, 16: 6, 32: 12, 64: 8}
"""Width of a row -> number of rows from which on other instructions take less time than WholeReduce, which needs seven cycles for each row
(doc: theoretical performance of vector instructions, hardware section 2.2)."""


def fold(r: Fold, view: View) -> View:
    """Fold `view` along `r.dim`; the result has stride 0 along it. Raises `Unsupported` when rows do not start at 32-byte boundaries."""
    return fold_columns(r, view) if view.strides[r.dim] == 1 else fold_planes(r, view)


def fold_planes(r: Fold, view: View) -> View:
    """Fold along an outer axis: halves are added as whole planes until one plane is left. Returns the first plane."""
    axes = tuple(range(len(r.shape)))
    extents = list(r.shape)
    n, work = extents[r.dim], None
    while n > 1:
        half = n // 2
        keep = n - half
        low, high = work or view, shifted(work or view, r.dim, keep)
        extents[r.dim] = half
        r.emitter.extents = tuple(extents)
        if work is None:
            # Half a tile is contiguous only when nothing lies outside the folded axis.
            outermost = all(n == 1 for n in r.shape[: r.dim])
            work = r.temporary(r.dtype, {**_layout_extents(r, view), r.dim: keep}, "fold")
            work = replace(work, dense=outermost)
            if keep > half:
                r.emitter.extents = (*extents[: r.dim], 1, *extents[r.dim + 1 :])
                r.emitter.run("copy", [shifted(work, r.dim, half), shifted(view, r.dim, half)], axes)
                r.emitter.extents = tuple(extents)
        r.combine(work, low, high, axes)
        n = keep
    work = work or view
    return replace(work, strides=tuple(0 if a == r.dim else s for a, s in enumerate(work.strides)))


def _layout_extents(r: Fold, view: View) -> dict:
    """Extents of the axes that shape a temporary like `view`: unit axes count where rows of one element are padded."""
    packed = any(n > 1 and view.strides[a] == 1 for a, n in enumerate(r.shape))
    return {a: n for a, n in enumerate(r.shape) if n > 1 or not packed}


def shifted(view: View, axis: int, steps: int) -> View:
    """The view moved `steps` elements along an axis."""
    return replace(view, base=add(view.base, constant(steps * view.strides[axis])), dense=view.dense)


def fold_columns(r: Fold, view: View) -> View:
    """Fold along the innermost axis: down to one repeat per row, then one WholeReduce over all rows, or for many rows BlockReduce."""
    axis = r.dim
    rows = [a for a in range(len(r.shape)) if a != axis]
    if view.strides[axis] != 1 or not _rows_aligned(view, rows, r.shape):
        raise Unsupported("the rows to reduce do not start at 32-byte boundaries")
    lanes, width = REPEAT_BYTES // itemsize(r.dtype), r.shape[axis]
    blocks = r.dtype == "float32" and r.operation in _BLOCK
    count = math.prod(r.shape[a] for a in rows)
    many = blocks and count >= _MANY_ROWS[lanes]
    if blocks and not (many and width == 4 * lanes):
        view, width = _fold_blocks(r, view, rows, width, lanes)
    view, width = _fold_neighbours(r, view, rows, width, lanes)
    if width > lanes:
        view, width = _fold_to(r, view, width, lanes)
    if r.dtype not in ("float16", "float32") or r.operation not in _WHOLE:
        return fold_lanes(r, view, width)
    if blocks and count >= _MANY_ROWS.get(width, math.inf) and _packed(view, rows, r.shape, width):
        out = _packed_result(r, rows)
        if out is not None:
            return _rows_to_values(r, out, view, rows, width)
    return _whole_reduce(r, view, rows, width)


def shorten(r: Fold, view: View, lanes: int) -> tuple[View, int]:
    """Fold rows along the innermost axis to at most `lanes` elements; also gives how many that are."""
    rows = [a for a in range(len(r.shape)) if a != r.dim]
    if view.strides[r.dim] != 1 or not _rows_aligned(view, rows, r.shape):
        raise Unsupported("the rows to reduce do not start at 32-byte boundaries")
    width, repeat = r.shape[r.dim], REPEAT_BYTES // itemsize(r.dtype)
    while width % (2 * repeat) == 0 and _packed(view, rows, r.shape, width):
        view, width = _join_neighbours(r, view, rows, width, repeat)
    return _fold_to(r, view, width, lanes) if width > lanes else (view, width)


def _rows_aligned(view: View, rows, shape) -> bool:
    return view.base.multiple_of(view.block) and all(view.strides[a] % view.block == 0 for a in rows if shape[a] > 1)


def _fold_blocks(r: Fold, view: View, rows, width: int, lanes: int) -> tuple[View, int]:
    """Long rows to an eighth of their width by one BlockReduce over the whole tile, as often as rows are packed and consist of whole
    repeats. It costs one cycle a repeat for 32-bit lanes, and one dependent step where folding in halves takes three."""
    if width <= 2 * lanes:
        return view, width
    while width > lanes and width % lanes == 0 and _packed(view, rows, r.shape, width):
        width //= view.block
        out = r.temporary(r.dtype, {**dict(enumerate(r.shape)), r.dim: width}, "blocks")
        out = replace(out, strides=_packed_strides(r.shape, r.dim, width))
        _block_reduce(r, out, view, width * math.prod(r.shape[a] for a in rows))
        view = out
    return view, width


def _packed_result(r: Fold, rows) -> View | None:
    """The place of the results if they lie there one after the other from a 32-byte boundary on, else None."""
    real = [a for a in rows if r.shape[a] > 1]
    if r.target is None and len(real) > 1:
        return None
    out = r.result({a: r.shape[a] for a in real})
    return out if out.base.multiple_of(out.block) and _packed(out, rows, r.shape, 1) else None


def _rows_to_values(r: Fold, out: View, view: View, rows, width: int) -> View:
    """Rows of at most one repeat to one value each: down to one block per row, by BlockReduce or in halves, then one BlockReduce."""
    count, axes = math.prod(r.shape[a] for a in rows), tuple(range(len(r.shape)))
    while width > view.block:
        half = view.block if width == REPEAT_BYTES // itemsize(r.dtype) else width // 2
        shorter = r.temporary(r.dtype, {**dict(enumerate(r.shape)), r.dim: half}, "blocks")
        shorter = replace(shorter, strides=_packed_strides(r.shape, r.dim, half))
        if width == 2 * half:
            shape = [half if a == r.dim else n for a, n in enumerate(r.shape)]
            _run(r, Fold.combine, [shorter, view, shifted(view, r.dim, half)], axes, shape)
        else:
            _block_reduce(r, shorter, view, count * width // view.block)
        view, width = shorter, half
    _block_reduce(r, out, view, count)
    return out


def _block_reduce(r: Fold, out: View, view: View, blocks: int) -> None:
    """One value for each of the blocks that lie one after the other from the head of `view` on."""
    repeats, rest = divmod(blocks, 8)
    groups = [(start, min(MAX_REPEAT, repeats - start), 8) for start in range(0, repeats, MAX_REPEAT)]
    for start, count, each in [*groups, *([(repeats, 1, rest)] if rest else [])]:
        heads = [out.head(constant(start * 8)), view.head(constant(start * 8 * view.block))]
        r.emitter.issue(_BLOCK[r.operation], *heads, count, each * view.block, 1, 1, 8)


def _fold_neighbours(r: Fold, view: View, rows, width: int, lanes: int) -> tuple[View, int]:
    """Packed rows of 2, 4, 8, … repeats to one repeat: every second repeat of the tile and the one behind it are one instruction. The two lie
    in different halves of the UB bank groups."""
    repeats = width // lanes
    if width % lanes or repeats & (repeats - 1) or r.operation == "xor" or not _packed(view, rows, r.shape, width):
        return view, width
    while width > lanes:
        view, width = _join_neighbours(r, view, rows, width, lanes)
    return view, width


def _join_neighbours(r: Fold, view: View, rows, width: int, lanes: int) -> tuple[View, int]:
    """Packed rows of an even number of repeats to half of their width."""
    width //= 2
    out = r.temporary(r.dtype, {**dict(enumerate(r.shape)), r.dim: width}, "fold")
    out = replace(out, strides=_packed_strides(r.shape, r.dim, width))
    r.emitter.extents = (math.prod(r.shape[a] for a in rows) * width // lanes, lanes)
    low = replace(view, strides=(2 * lanes, 1), dense=False)
    r.combine(replace(out, strides=(lanes, 1), dense=False), low, replace(low, base=add(low.base, constant(lanes))), (0, 1))
    return out, width


def _packed(view: View, rows, shape, width: int) -> bool:
    """Rows of `width` elements follow each other without gaps."""
    want = _packed_strides(shape, len(shape) - 1, width)
    return all(view.strides[a] == want[a] for a in rows if shape[a] > 1)


def _packed_strides(shape, axis: int, width: int) -> tuple[int, ...]:
    """Row-major strides with `width` elements along the innermost `axis`."""
    extents = [*shape[:axis], width]
    return tuple(math.prod(extents[k + 1 :]) for k in range(len(extents)))


def _fold_to(r: Fold, view: View, width: int, lanes: int) -> tuple[View, int]:
    """Halve rows of `width` elements until they are at most `lanes` wide; the lower half keeps a whole number of repeats."""
    axis, axes = r.dim, tuple(range(len(r.shape)))
    work = None
    shape = list(r.shape)
    while width > lanes:
        keep = round_up(-(-width // 2), lanes)
        high = width - keep
        source = work or view
        if work is None:
            work = r.temporary(r.dtype, {**dict(enumerate(r.shape)), axis: keep}, "fold")
            if keep > high:
                shape[axis] = keep - high
                _run(r, _copied, [shifted(work, axis, high), shifted(source, axis, high)], axes, shape, high)
        shape[axis] = high
        _run(r, Fold.combine, [work, source, shifted(source, axis, keep)], axes, shape)
        width = keep
    return work, width


def _copied(r: Fold, out: View, source: View, axes) -> None:
    r.emitter.run("copy", [out, source], axes)


def _run(r: Fold, operation, views, axes, shape, start: int = 0) -> None:
    """Emit over `shape`. A copy may start inside a block: then it starts at the block, which the fold overwrites afterwards."""
    block = views[0].block
    back = start % block
    if back:
        views = [shifted(v, r.dim, -back) for v in views]
        shape = [n + (back if a == r.dim else 0) for a, n in enumerate(shape)]
    r.emitter.extents = tuple(shape)
    operation(r, *(replace(v, dense=False) for v in views), axes)


def _whole_reduce(r: Fold, view: View, rows, width: int) -> View:
    """One value per row, rows packed. The result is a canonical tile over the rows."""
    name = _WHOLE[r.operation]
    real = [a for a in rows if r.shape[a] > 1]
    out = r.result({a: r.shape[a] for a in real})
    repeat_axis = max(real, key=lambda a: r.shape[a], default=None)
    loops = [a for a in real if a != repeat_axis]
    total = r.shape[repeat_axis] if repeat_axis is not None else 1
    d_rep = out.strides[repeat_axis] if repeat_axis is not None else 1
    s_rep = view.strides[repeat_axis] * itemsize(view.dtype) // 32 if repeat_axis is not None else 8
    if d_rep > _MAX_U16 or s_rep > _MAX_U16:
        raise Unsupported("rows are too far apart")

    def nest(k: int, d_at, s_at):
        if k < len(loops):
            a = loops[k]
            r.emitter.repeat(
                r.shape[a],
                lambda i: nest(k + 1, add(d_at, offset_by(i, out.strides[a])), add(s_at, offset_by(i, view.strides[a]))),
            )
            return
        for start in range(0, total, MAX_REPEAT):
            n = min(MAX_REPEAT, total - start)
            step = view.strides[repeat_axis] if repeat_axis is not None else 0
            heads = [out.head(add(d_at, constant(start * d_rep))), view.head(add(s_at, constant(start * step)))]
            r.emitter.issue(name, *heads, width, n, d_rep, 1, s_rep)

    nest(0, constant(0), constant(0))
    return out


__all__ = ["fold", "fold_columns", "fold_planes", "shorten"]
