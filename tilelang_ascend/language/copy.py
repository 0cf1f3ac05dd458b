"""Moving data: `T.copy`, `T.fill`, `T.clear`, `T.transpose`, and slices on the left of an assignment."""

from __future__ import annotations

from ..errors import ShapeMismatch
from ..frontend import items
from ..frontend.builder import Builder, constant
from ..frontend.keywords import Ignored
from ..frontend.operators import as_scalar, cast, plain
from ..frontend.values import is_buffer, is_region
from ..ir import BufferLoad
from ..tile import tile_op
from .regions import operand, pair_extents, same, sized, squeeze, tile_operand
from .tiles import is_tile, parallel


def copy(
    src, dst, size=None, *, coalesced_width: Ignored = None, disable_tma: Ignored = False, eviction_policy: Ignored = None,
    prefer_instruction: Ignored = None, annotations: Ignored = None, loop_layout: Ignored = None
) -> None:  # fmt: skip
    """Copy a tile; parts outside a GM tensor read as zero and are not written, dtypes are converted.

    Each side is a buffer, a slice ``A[0:16, :]`` or a head address ``A[i, j]``; a head address takes the other side's
    shape.
    `size` (a list, aligned at the right) gives the shape explicitly. Two single elements are an element store.
    """
    builder = Builder.current("T.copy")
    if size is not None:
        whole = sized(src, size, "the source of T.copy"), sized(dst, size, "the destination of T.copy")
        _emit_copy(builder, *whole, *(list(side.extents) for side in whole))
        return
    a, b = operand(src, "the source of T.copy"), operand(dst, "the destination of T.copy")
    if a.extents is None and b.extents is None:
        builder.store(b.buffer, cast(BufferLoad(a.buffer, [as_scalar(i) for i in a.mins]), b.dtype), b.mins)
        return
    if a.kind == b.kind == "buffer":
        _check_equal(a, b)
    _emit_copy(builder, a, b, *pair_extents(a, b))


def _check_equal(a, b) -> None:
    if len(squeeze(a.extents)) != len(squeeze(b.extents)) or not all(same(x, y) for x, y in zip(squeeze(a.extents), squeeze(b.extents))):
        raise ShapeMismatch(
            f"T.copy between buffers of different shapes: {a.describe()} and {b.describe()}",
            hint="slice the larger one, or give its head address: A[i, j]",
        )


def _emit_copy(builder: Builder, a, b, src_extents: list, dst_extents: list) -> None:
    builder.emit(tile_op("copy", a.region(src_extents), b.region(dst_extents), span=builder.span()))


async_copy = copy


def fill(buffer, value, annotations: Ignored = None) -> None:
    """Set every element of a buffer or slice to `value`."""
    builder = Builder.current("T.fill")
    dst = tile_operand(buffer, "the destination of T.fill")
    builder.emit(tile_op("fill", dst.region(), cast(as_scalar(value, "the fill value"), dst.dtype), span=builder.span()))


def clear(buffer, annotations: Ignored = None) -> None:
    """Set every element to zero."""
    fill(buffer, 0)


def transpose(src, dst, annotations: Ignored = None) -> None:
    """``dst[j, i] = src[i, j]`` for the last two dimensions."""
    a, b = tile_operand(src, "the source of T.transpose"), tile_operand(dst, "the destination of T.transpose")
    da, db = _matrix_dims(a), _matrix_dims(b)
    sa, sb = [a.extents[d] for d in da], [b.extents[d] for d in db]
    if len(sa) != 2 or len(sb) != 2 or not (same(sa[0], sb[1]) and same(sa[1], sb[0])):
        raise ShapeMismatch(f"T.transpose: {a.describe()} does not transpose into {b.describe()}")
    builder = Builder.current("T.transpose")
    place_a, place_b = _places(a, da), _places(b, db)

    def body(index):
        i, j = index
        value = BufferLoad(a.buffer, place_a(j, i))
        builder.store(b.buffer, cast(value, b.dtype), place_b(i, j))

    parallel(sb, body)


def _matrix_dims(op) -> list[int]:
    """The dimensions of the matrix a region is: those larger than one, filled up to two from the end."""
    dims = [d for d, e in enumerate(op.extents) if constant(e) != 1]
    for d in reversed(range(len(op.extents))):
        if len(dims) < 2 and d not in dims:
            dims.append(d)
    return sorted(dims)


def _places(op, dims):
    """Indices of element (row, column) of a region whose `dims` are a matrix."""

    def at(row, column):
        out = [as_scalar(m) for m in op.mins]
        for k, i in zip(dims, (row, column)):
            out[k] = out[k] + i if constant(out[k]) != 0 else i
        return out

    return at


def _assign_region(place, value) -> None:
    """``A[0:16, :] = value``: a copy from a tile, a fill with a number."""
    value = plain(value)
    if is_buffer(value) or (is_region(value) and is_tile(value)):
        copy(value, place)
    else:
        fill(place, value)


items.REGION_ASSIGNMENT.append(_assign_region)

NAMES = ("copy", "async_copy", "fill", "clear", "transpose")
