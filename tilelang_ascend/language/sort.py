"""Sorting the rows of tiles: an extension of TileLang for the sorter of the vector core.

    T.sort(x, y, descending=True, indices=place)      every row of x in order, and where its elements came from
    T.topk(x, values, indices)                        the largest elements of every row, as many as `values` has columns
    T.argsort(x, place)                               only where they are

Rows are sorted along the last dimension, of any length that fits UB, those of another dimension through a transposed tile. Equal elements keep their order (the smaller index first, both
ways). NaN counts as larger than every number, equal to +inf. Values come out bit by bit as they went in, but for the sign and payload of NaN
of 8 bits.
"""

from __future__ import annotations

from ..errors import InvalidArgument, ShapeMismatch
from ..frontend.annotations import is_float
from ..frontend.builder import Builder, constant
from ..frontend.operators import as_scalar, binop, cast, plain
from ..ir import BufferLoad, dtype_of, full_region, itemsize
from ..runtime.dtypes import NIBBLES
from ..tile import tile_op
from . import math
from .copy import fill
from .reduce import _axis
from .regions import TileOperand, offset, same, shape_text, tile_operand
from .tiles import parallel

_GROUP = 32
"""The sorter takes rows of a multiple of this many scores."""

_EXACT = (
    "float16", "bfloat16", "float32", "int8", "uint8", "int16", "uint16", "bool", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu",
    *NIBBLES,
)  # fmt: skip
"""dtypes whose values float32 holds."""

_LOW_BITS = 16


def sort(src, dst=None, dim: int = -1, descending: bool = False, indices=None, stable: bool = True) -> None:
    """Sort the rows of `src` (M, …, N) into `dst` of the same shape; in place if `dst` is None.

    `indices` (int32, the same shape) receives the place of every element in its row. Always stable. dtypes: floats, integers up to
    32 bits. Raises `ShapeMismatch` and `InvalidArgument`.
    """
    source, axis = _source(src, dim, "T.sort")
    target = source if dst is None else tile_operand(dst, "the destination of T.sort")
    if _extents(target) != _extents(source):
        raise ShapeMismatch(f"T.sort: {source.describe()} and {target.describe()} have different shapes")
    _sort(source, axis, target, indices, bool(plain(descending)), "T.sort")


def argsort(src, indices, dim: int = -1, descending: bool = False, stable: bool = True) -> None:
    """Where the elements of the sorted rows of `src` are: int32 `indices`, with at most as many columns as `src`."""
    _sort(*_source(src, dim, "T.argsort"), None, indices, bool(plain(descending)), "T.argsort")


def topk(src, values=None, indices=None, k=None, dim: int = -1, largest: bool = True, sorted: bool = True) -> None:
    """The k largest (smallest if not `largest`) elements of every row, in order, and their places.

    `values` and `indices` (int32) have the shape of `src` with k as the extent along `dim`; one of them may be left out.
    """
    source, axis = _source(src, dim, "T.topk")
    outputs = [tile_operand(o, "a destination of T.topk") for o in (values, indices) if o is not None]
    if not outputs:
        raise InvalidArgument("T.topk has no destination", hint="T.topk(x, values, indices)")
    asked = outputs[0].extents[axis] if k is None and len(outputs[0].extents) > axis else k
    wanted = constant(plain(asked)) if asked is not None else None
    if any(len(o.extents) <= axis or constant(o.extents[axis]) != wanted for o in outputs):
        counted = f"{wanted} elements" if wanted is not None else "elements"
        raise ShapeMismatch(
            f"T.topk of {counted} of {source.describe()}: the destination is {outputs[0].describe()}", hint="both have as many dimensions"
        )
    _sort(source, axis, None if values is None else outputs[0], indices, bool(plain(largest)), "T.topk")


# ---- checks ----------------------------------------------------------------------------------------------------------


def _source(src, dim, what: str) -> tuple[TileOperand, int]:
    """The operand and the dimension to sort."""
    op = tile_operand(src, f"the source of {what}")
    axis = _axis(op, dim, what)
    if None in _extents(op):
        raise InvalidArgument(f"{what}: {op.describe()} has a size known only at run time", hint="sort a whole tile, fill its tail first")
    if op.dtype not in _EXACT and op.dtype not in ("int32", "uint32"):
        raise InvalidArgument(f"{what} of {op.dtype}", hint="sort float16, bfloat16, float32 or integers of up to 32 bits")
    return op, axis


def _extents(op: TileOperand) -> tuple:
    return tuple(constant(e) for e in op.extents)


def _check_rows(op: TileOperand, source: TileOperand, axis: int, what: str) -> None:
    rows, extents = _axis_last(_extents(source), axis), _extents(op)
    place = _axis_last(extents, axis) if len(extents) == len(rows) else extents
    if place[:-1] != rows[:-1] or place[-1] is None or place[-1] > rows[-1]:
        raise ShapeMismatch(f"{what} of {source.describe()}: the destination is {op.describe()}, needs {shape_text(rows[:-1])} rows")


def _axis_last(items, axis: int) -> tuple:
    items = tuple(items)
    return (*items[:axis], *items[axis + 1 :], items[axis])


# ---- how -------------------------------------------------------------------------------------------------------------


def _sort(source: TileOperand, axis: int, values: TileOperand | None, indices, descending: bool, what: str) -> None:
    places = None if indices is None else tile_operand(indices, f"the indices of {what}")
    for op in (values, places):
        if op is not None:
            _check_rows(op, source, axis, what)
    if axis == len(source.extents) - 1:
        _sort_rows(source, values, places, descending, what)
        return

    def along(index) -> list:
        """Index into the operands of an element of the transposed tiles."""
        return [*index[:axis], index[-1], *index[axis:-1]]

    rows = _like(source, axis, source.dtype)
    sorted_values, order = (None if op is None else _like(op, axis, dtype) for op, dtype in ((values, source.dtype), (places, "int32")))
    _each(rows, lambda index: BufferLoad(source.buffer, offset(source, along(index))))
    _sort_rows(rows, sorted_values, order, descending, what)
    for op, result in ((values, sorted_values), (places, order)):
        if op is not None:
            _each(op, lambda index, result=result: BufferLoad(result.buffer, list(_axis_last(index, axis))))


def _like(op: TileOperand, axis: int, dtype: str) -> TileOperand:
    """A tile for the elements of `op` with dimension `axis` last."""
    return _whole(_tile(_axis_last(_extents(op), axis), dtype, "turned"))


def _sort_rows(source: TileOperand, values: TileOperand | None, places: TileOperand | None, descending: bool, what: str) -> None:
    """The same along the last dimension."""
    shown = places or values
    assert shown is not None, "a sort without a destination"
    wanted = _extents(shown)[-1]
    if values is not None and places is not None and not same(values.extents[-1], places.extents[-1]):
        raise ShapeMismatch(f"{what}: {values.describe()} and {places.describe()} have different shapes")
    direct = places if places is not None and places.kind == "buffer" and places.dtype == "int32" else None
    order = _tile((*_extents(source)[:-1], wanted), "int32", "places") if direct is None else direct.buffer
    _places(source, order, descending)
    if places is not None and direct is None:
        _each(places, lambda index: BufferLoad(order, index))
    if values is not None:
        _gather(source, values, order)


def _tile(shape, dtype: str, name: str):
    builder = Builder.current("a sort")
    return builder.alloc(shape, dtype, "local.fragment", builder.unique(name))


def _each(target: TileOperand, value) -> None:
    """``target[index] = value(index)`` for all elements; `index` counts inside the target."""

    def body(index):
        stored = cast(as_scalar(value(index)), target.dtype)
        Builder.current().store(target.buffer, stored, offset(target, index))

    parallel(list(target.extents), body)


def _carrier(dtype: str) -> str:
    """A dtype with lanes of at least 16 bits that holds the same numbers."""
    return dtype if itemsize(dtype) > 1 else "bfloat16" if dtype == "float8_e8m0fnu" else "float16"


def _gather(source: TileOperand, values: TileOperand, order) -> None:
    """``values[…, j] = source[…, order[…, j]]``; through a copy when they may be the same tile or have lanes of 8 bits."""
    read, narrow = source, itemsize(source.dtype) == 1
    if narrow or values.buffer.same_as(source.buffer):
        read = _whole(_tile(_extents(source), _carrier(source.dtype), "unsorted"))
        _each(read, lambda index: BufferLoad(source.buffer, offset(source, index)))
    _each(values, lambda index: BufferLoad(read.buffer, offset(read, [*index[:-1], BufferLoad(order, index)])))


def _whole(buffer) -> TileOperand:
    return tile_operand(buffer, "a tile")


def _places(source: TileOperand, order, descending: bool) -> None:
    """`order` = places of the first elements of the sorted rows."""
    extents = _extents(source)

    def element(index):
        return BufferLoad(source.buffer, offset(source, index))

    if source.dtype in _EXACT:
        _by_key(extents, lambda index: _key(element(index), descending), order)
        return
    # 32-bit integers in two stable passes: by their low 16 bits, then by the others.
    first = _tile(extents, "int32", "places")
    _by_key(extents, lambda index: _signed(_low_bits(element(index)), descending), first)
    second = _tile((*extents[:-1], order.ty.shape[-1]), "int32", "places")
    _by_key(extents, lambda index: _signed(_high_bits(element([*index[:-1], BufferLoad(first, index)])), descending), second)
    _each(_whole(order), lambda index: BufferLoad(first, [*index[:-1], BufferLoad(second, index)]))


def _by_key(extents, key, order) -> None:
    """Rows of float32 scores, filled up with -inf, which sorts behind everything, and their order."""
    width = -(-extents[-1] // _GROUP) * _GROUP
    scores = _tile((*extents[:-1], width), "float32", "scores")
    if width != extents[-1]:
        fill(scores, float("-inf"))
    inside = TileOperand(scores, (0,) * len(extents), extents, "slice")
    _each(inside, key)
    builder = Builder.current("a sort")
    builder.emit(tile_op("argsort", full_region(scores), full_region(order), span=builder.span()))


def _key(value, descending: bool):
    """A float32 score whose descending order is the order asked for."""
    score = cast(value, "float32")
    if is_float(dtype_of(value)):
        score = math.if_then_else(math.isnan(score), float("inf"), score)
    return _signed(score, descending)


def _signed(score, descending: bool):
    return score if descending else binop("Sub", 0.0, score)


def _low_bits(value):
    return cast(cast(binop("BitAnd", value, (1 << _LOW_BITS) - 1), "int32"), "float32")


def _high_bits(value):
    return cast(cast(binop("RShift", value, _LOW_BITS), "int32"), "float32")


NAMES = ("sort", "argsort", "topk")
