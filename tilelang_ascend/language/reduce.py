"""Reductions and scans over one dimension of a tile."""

from __future__ import annotations

from ..errors import InvalidArgument, ShapeMismatch
from ..frontend.annotations import is_float
from ..frontend.builder import Builder, Region, constant
from ..frontend.keywords import Ignored
from ..frontend.operators import as_scalar, binop, cast, number, plain
from ..ir import BufferLoad, TensorLoad, dtype_of, itemsize, tirx
from ..tile import tile_op
from ..tile.atomics import outermost
from ..tile.table import REDUCTIONS
from .alloc import alloc_fragment
from .copy import copy, fill
from .math import max_value, min_value
from .regions import TileOperand, same, shape_text, tile_operand
from .tiles import elementwise, parallel


def reduce(buffer, out, reduce_type: str, dim: int, clear: bool = True, batch: Ignored = 1, annotations: Ignored = None) -> None:
    """Reduce dimension `dim` of `buffer` into `out`, whose shape is that of `buffer` without `dim` (or with 1 there).

    `reduce_type` is one of sum, max, min, abssum, absmax, any, all, bitand, bitor, bitxor. With ``clear=False`` the
    result is combined with what `out` holds.
    """
    if reduce_type not in REDUCTIONS:
        raise InvalidArgument(f"T.reduce has no kind '{reduce_type}'", hint="use one of: " + ", ".join(REDUCTIONS))
    src, dst = tile_operand(buffer, "the source of a reduction"), tile_operand(out, "the destination of a reduction")
    axis = _axis(src, dim, f"T.reduce_{reduce_type}")
    _check_shape(src, dst, axis, reduce_type)
    if reduce_type.startswith("bit") and is_float(src.dtype):
        raise InvalidArgument(f"T.reduce_{reduce_type} needs integers, {src.describe()} is {src.dtype}")
    if reduce_type.startswith("bit") and is_float(dst.dtype) and not bool(plain(clear)):
        raise InvalidArgument(
            f"T.reduce_{reduce_type} with clear=False combines bits of integers, {dst.describe()} is {dst.dtype}",
            hint="reduce into a tile of integers, and add that to the floats",
        )
    if dst.dtype == "bool" and reduce_type not in _OF_FLAGS and not (src.dtype == "bool" and reduce_type in ("max", "min")):
        numbers = _numbers(dst, src.dtype, f"T.reduce_{reduce_type}")
        if not bool(plain(clear)):
            elementwise("cast", lambda v: cast(v, dtype_of(numbers.source)), [out], numbers)
        reduce(buffer, numbers, reduce_type, axis, clear)
        elementwise("cast", lambda v: cast(v, "bool"), [numbers], out)
        return
    builder = Builder.current(f"T.reduce_{reduce_type}")
    op = tile_op(
        "reduce",
        src.region(),
        dst.region(),
        span=builder.span(),
        # Numbers without a sign are their magnitudes, also where the result has one and none of its numbers is as large.
        kind="sum" if reduce_type == "abssum" and src.dtype.startswith("uint") else reduce_type,
        dim=axis,
        clear=int(bool(plain(clear))),
    )
    builder.emit(op)


_OF_FLAGS = ("any", "all")


def _numbers(dst: TileOperand, dtype: str, what: str):
    """A tile of the shape of `dst` for the numbers of which that is told whether they are 0: a byte has no room for a sum of the numbers of `dtype`,
    and what it has room for is no flag yet."""
    known = [constant(e) for e in dst.extents]
    shape = known if None not in known else [constant(n) for n in dst.buffer.ty.shape]
    if None in shape:
        raise InvalidArgument(
            f"{what} into {dst.describe()}", hint="reduce to a tile of numbers, whose size is constant, and compare it with 0"
        )
    wide = "float32" if is_float(dtype) else "int32" if dtype == "bool" or itemsize(dtype) < 4 else dtype
    return _corner(alloc_fragment(tuple(shape), wide), dst)


def _axis(op: TileOperand, dim, what: str) -> int:
    dim, rank = plain(dim), len(op.extents)
    if not isinstance(dim, int) or not -rank <= dim < rank:
        raise InvalidArgument(f"{what}: dimension {dim} of {op.describe()} does not exist", hint=f"dimensions are {-rank} to {rank - 1}")
    return dim % rank


def _check_shape(src: TileOperand, dst: TileOperand, axis: int, kind: str) -> None:
    dropped = [e for k, e in enumerate(src.extents) if k != axis]
    kept = [1 if k == axis else e for k, e in enumerate(src.extents)]
    if not dropped:
        dropped = [1]
    for wanted in (dropped, kept):
        if len(wanted) == len(dst.extents) and all(same(a, b) for a, b in zip(wanted, dst.extents)):
            return
    raise ShapeMismatch(
        f"T.reduce_{kind} of {src.describe()} over dimension {axis} gives {shape_text(dropped)}, the destination is {dst.describe()}",
        hint=f"allocate the destination as {tuple(constant(e) if constant(e) is not None else e for e in dropped)}",
    )


def _reduction(kind: str):
    def reduction(
        buffer,
        out,
        dim: int = -1,
        clear: bool = True,
        batch: Ignored = 1,
        nan_propagate: bool | None = None,
        annotations: Ignored = None,
    ):
        if nan_propagate is not None and not bool(plain(nan_propagate)) and kind in _SKIPPING:
            buffer = _without_nan(buffer, kind)
            if not bool(plain(clear)):
                _replace_nan(tile_operand(out, "the destination of a reduction"), kind)
        reduce(buffer, out, kind, dim, clear)

    reduction.__name__ = f"reduce_{kind}"
    reduction.__doc__ = (
        f"Reduce dimension `dim` with {kind}; see `reduce`. A NaN reaches the result of a maximum or minimum, which is what the instructions do; "
        "with ``nan_propagate=False`` maxima and minima are those of the other elements."
    )
    return reduction


_SKIPPING = ("max", "min", "absmax")
"""Reductions that may skip NaN."""


def _without_nan(buffer, kind: str):
    """A tile with the elements of `buffer`, NaN replaced by what changes no result."""
    src = tile_operand(buffer, "the source of a reduction")
    shape = [constant(e) for e in src.extents]
    if not is_float(src.dtype):
        return buffer
    if None in shape:
        shape = [constant(n) for n in src.buffer.ty.shape]
        if None in shape:
            raise InvalidArgument(
                f"T.reduce_{kind} of {src.describe()} with nan_propagate=False",
                hint="copy it to a tile first (T.copy), whose size is constant",
            )
    tile = alloc_fragment(tuple(shape), src.dtype)
    copy(buffer, tile if all(constant(e) is not None for e in src.extents) else _corner(tile, src))
    part = tile if all(constant(e) is not None for e in src.extents) else _corner(tile, src)
    _replace_nan(tile_operand(part, "the source of a reduction"), kind)
    return part


def _corner(tile, src: TileOperand):
    """The part of a tile that a region of run-time extents fills."""
    return TileOperand(tile, (0,) * len(src.extents), src.extents, "slice").region()


def _replace_nan(op: TileOperand, kind: str) -> None:
    if not is_float(op.dtype):
        return
    neutral = number(0.0 if kind == "absmax" else outermost(kind, op.dtype), "float32")

    def store(index):
        place = [as_scalar(binop("Add", m, i)) for m, i in zip(op.mins, index)]
        value = cast(BufferLoad(op.buffer, place), "float32")
        Builder.current("a reduction").store(op.buffer, cast(tirx.Select(tirx.isnan(value), neutral, value), op.dtype), place)

    parallel(list(op.extents), store)


globals().update({f"reduce_{kind}": _reduction(kind) for kind in REDUCTIONS})


def _scan(op: str):
    def scan(src, dst=None, dim: int = 0, reverse: bool = False, annotations: Ignored = None) -> None:
        source = tile_operand(src, f"the source of T.{op}")
        target = source if dst is None else tile_operand(dst, f"the destination of T.{op}")
        axis = _axis(source, dim, f"T.{op}")
        numbers = None
        if target.dtype == "bool" and not (source.dtype == "bool" and op == "cummax"):
            flags, numbers = target, _numbers(target, source.dtype, f"T.{op}")
            target = tile_operand(numbers, f"the destination of T.{op}")
        if len(source.extents) != len(target.extents) or not all(same(a, b) for a, b in zip(source.extents, target.extents)):
            raise ShapeMismatch(f"T.{op}: {source.describe()} and {target.describe()} have different shapes")
        builder = Builder.current(f"T.{op}")
        attrs = {"dim": axis, "reverse": int(bool(plain(reverse)))}
        builder.emit(tile_op(op, source.region(), target.region(), span=builder.span(), **attrs))
        if numbers is not None:
            elementwise("cast", lambda v: cast(v, "bool"), [numbers], flags.region())

    scan.__name__ = op
    scan.__doc__ = f"Running {op[3:]} along `dim`, in place if `dst` is None; from the end with `reverse`."
    return scan


cumsum, cummax = _scan("cumsum"), _scan("cummax")

_COMBINE = {
    "sum": lambda a, b: binop("Add", a, b),
    "max": lambda a, b: tirx.max(a, b),
    "min": lambda a, b: tirx.min(a, b),
    "bitand": lambda a, b: binop("BitAnd", a, b),
    "bitor": lambda a, b: binop("BitOr", a, b),
    "bitxor": lambda a, b: binop("BitXor", a, b),
}


def _reducer_op(buffer) -> str:
    """The operation of a buffer made by `T.alloc_reducer`."""
    from ..ir import AllocBuffer

    region: Region | None = Builder.current("a reducer").region
    while region is not None:
        for s in region.stmts:
            if isinstance(s, AllocBuffer) and s.buffer.same_as(buffer) and "tl.reducer" in s.annotations:
                return str(s.annotations["tl.reducer"])
        region = region.parent
    raise InvalidArgument(f"{buffer.name} was not made by T.alloc_reducer")


def reducer_init(reducer, init=None) -> None:
    """Set a reducer to `init`, or to the neutral element of its operation."""
    dst = tile_operand(reducer, "the reducer")
    fill(reducer, _neutral(_reducer_op(dst.buffer), dst.dtype) if init is None else init)


def _neutral(op: str, dtype: str):
    """The value that changes nothing: 0, all bits, or the lowest or highest value of the dtype."""
    if op in ("sum", "bitor", "bitxor"):
        return 0
    if op == "bitand":
        return max_value(dtype) if dtype.startswith("uint") else -1
    if is_float(dtype):
        return outermost(op, dtype)
    return min_value(dtype) if op == "max" else max_value(dtype)


def reducer_update(target, value) -> None:
    """``target = target <op> value`` for one element of a reducer."""
    if not isinstance(target, TensorLoad):
        raise InvalidArgument("T.reducer_update takes one element: T.reducer_update(acc[i], x)")
    combine = _COMBINE[_reducer_op(target.source)]
    dtype = dtype_of(target)
    Builder.current("T.reducer_update").store(
        target.source, cast(combine(target, cast(as_scalar(value), dtype)), dtype), list(target.indices)
    )


def finalize_reducer(reducer, dst=None, batch: Ignored = 1, annotations: Ignored = None) -> None:
    """End of accumulation: the result is in `reducer`, and copied to `dst` if that is given."""
    if dst is not None:
        copy(reducer, dst)


NAMES = (
    "reduce",
    *(f"reduce_{k}" for k in REDUCTIONS),
    "cumsum",
    "cummax",
    "reducer_init",
    "reducer_update",
    "finalize_reducer",
)
