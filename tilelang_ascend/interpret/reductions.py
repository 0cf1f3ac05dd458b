"""Reductions, scans, sorts."""

from __future__ import annotations

import operator

import numpy as np

from ..errors import InvalidArgument, ShapeMismatch
from ..runtime.dtypes import NIBBLES
from ..tile.atomics import outermost
from ..tile.table import REDUCTIONS
from .memory import Region, operand
from .state import here
from .tileops import convert, copy, fill
from .values import Scalar, cast, integer_range, is_float, numpy_dtype, pick_max, pick_min, scalar


def _axis(op: Region, dim, what: str) -> int:
    dim, rank = int(scalar(dim).get()), len(op.extents)
    if not -rank <= dim < rank:
        raise InvalidArgument(f"{what}: dimension {dim} of {op.describe()} does not exist", at=here())
    return dim % rank


def _wide(values: np.ndarray) -> np.ndarray:
    """What sums and comparisons are computed in: float32, float64 or 64-bit integers."""
    if values.dtype.kind in "fV":
        return values if values.dtype in (np.float32, np.float64) else values.astype(np.float32)
    return values.astype(np.uint64 if values.dtype == np.uint64 else np.int64)


def reduce(buffer, out, reduce_type: str, dim: int, clear: bool = True, *_hints, skips: bool = False, **_more) -> None:
    """`T.reduce`: combined in float32 or integers, rounded once to the dtype of `out`. `skips`: without NaN."""
    what = f"T.reduce_{reduce_type}"
    if reduce_type not in REDUCTIONS:
        raise InvalidArgument(f"T.reduce has no kind '{reduce_type}'", at=here(), hint="use one of: " + ", ".join(REDUCTIONS))
    src, dst = operand(buffer, "the source of a reduction"), operand(out, "the destination of a reduction")
    axis = _axis(src, dim, what)
    dropped = [e for k, e in enumerate(src.extents) if k != axis] or [1]
    kept = [1 if k == axis else e for k, e in enumerate(src.extents)]
    if list(dst.extents) not in (dropped, kept):
        raise ShapeMismatch(
            f"{what} of {src.describe()} over dimension {axis} gives {dropped}, the destination is {dst.describe()}", at=here()
        )
    if reduce_type.startswith("bit") and is_float(src.tile._dtype):
        raise InvalidArgument(f"{what} needs integers, {src.describe()} is {src.tile._dtype}", at=here())
    values = _wide(src.values(what))
    if reduce_type in ("sum", "abssum") and is_float(dst.tile._dtype) and values.dtype.kind in "iu":
        values = values.astype(np.float64)
    if skips:
        values = _without_nan(reduce_type, values, src.tile._dtype)
    if reduce_type in ("abssum", "absmax"):
        if values.dtype == np.int64 and not is_float(dst.tile._dtype) and src.tile._dtype not in NIBBLES:
            # The magnitude of the lowest number is itself where neither dtype holds a larger one.
            wide = np.promote_types(src.tile._dtype, numpy_dtype(dst.tile._dtype))
            values = values.astype(wide if wide.kind in "iu" else np.int64)
        values = _wide(np.abs(values))
    result = _reduced(reduce_type, values, axis, src.tile._dtype).reshape(tuple(dst.extents))
    if not bool(clear):
        old = _wide(dst.values(f"{what} with clear=False"))
        if skips:
            old = _without_nan(reduce_type, old, dst.tile._dtype)
        old, result = _meeting(old, result, dst.tile._dtype)
        result = _joined(reduce_type, old, result)
    dst.write(convert(result, dst.tile._dtype))


def _without_nan(kind: str, v: np.ndarray, dtype: str) -> np.ndarray:
    """`v`, of elements of `dtype`, with what changes no result in the place of NaN."""
    if v.dtype.kind != "f":
        return v
    return np.where(np.isnan(v), 0 if kind == "absmax" else outermost(kind, dtype), v).astype(v.dtype)


def _meeting(old: np.ndarray, new: np.ndarray, target: str) -> tuple[np.ndarray, np.ndarray]:
    """What a destination of dtype `target` holds and a result, in the dtype in which they are joined: what no dtype holds together meets as an
    accumulator of the destination's dtype would have it."""
    if old.dtype == new.dtype:
        return old, new
    if old.dtype.kind == "f":
        wide = np.float64 if np.float64 in (old.dtype, new.dtype) else np.float32
        return old.astype(wide), new.astype(wide)
    if new.dtype == np.uint64 and target.startswith("uint"):
        return old.astype(np.uint64), new
    return old, _wide(convert(new, target))


def _reduced(kind: str, v: np.ndarray, axis: int, dtype: str) -> np.ndarray:
    if kind in ("sum", "abssum"):
        return v.sum(axis, initial=-0.0 if v.dtype.kind == "f" and v.shape[axis] else 0)
    if kind in ("max", "absmax", "min"):
        if v.shape[axis] == 0:  # the number that changes no other
            ends = (-np.inf, np.inf) if v.dtype.kind == "f" else integer_range(dtype)
            return np.full([n for k, n in enumerate(v.shape) if k != axis], {"max": ends[0], "min": ends[1], "absmax": 0}[kind], v.dtype)
        return _signed_zeros(kind, v, axis)
    if kind in ("any", "all"):
        return getattr(np, kind)(v != 0, axis=axis).astype(np.int64)
    return {"bitand": np.bitwise_and, "bitor": np.bitwise_or, "bitxor": np.bitwise_xor}[kind].reduce(v, axis=axis)


def _signed_zeros(kind: str, v: np.ndarray, axis: int) -> np.ndarray:
    """Maxima or minima along an axis; NumPy takes -0 and 0 for equal, here -0 lies below."""
    out = v.min(axis) if kind == "min" else v.max(axis)
    if v.dtype.kind != "f" or (out != 0).all():
        return out
    other = 0.0 if kind != "min" else -0.0
    found = ((v == 0) & (np.signbit(v) == np.signbit(other))).any(axis)
    return np.where(out == 0, np.where(found, other, -other), out).astype(v.dtype)


def _joined(kind: str, old: np.ndarray, new: np.ndarray) -> np.ndarray:
    if kind in ("sum", "abssum"):
        return old + new
    if kind in ("max", "absmax", "min"):
        return _signed_zeros(kind, np.stack([old, new]), 0)
    if kind == "any":
        return ((old != 0) | (new != 0)).astype(np.int64)
    if kind == "all":
        return ((old != 0) & (new != 0)).astype(np.int64)
    return {"bitand": np.bitwise_and, "bitor": np.bitwise_or, "bitxor": np.bitwise_xor}[kind](old, new)


def reduction(kind: str):
    """`T.reduce_sum` and its kin."""

    def apply(buffer, out, dim=-1, clear=True, batch=1, nan_propagate=None, **_more):
        skips = nan_propagate is not None and not nan_propagate and kind in ("max", "min", "absmax")
        reduce(buffer, out, kind, dim, clear, skips=skips)

    return apply


def _running_maxima(v: np.ndarray, axis: int) -> np.ndarray:
    """The largest element so far; of zeros 0 as soon as there is one."""
    out = np.maximum.accumulate(v, axis)
    if v.dtype.kind != "f":
        return out
    found = np.logical_or.accumulate((v == 0) & ~np.signbit(v), axis)
    return np.where(out == 0, np.where(found, 0.0, -0.0), out).astype(v.dtype)


def scan(op: str):
    """`T.cumsum`, `T.cummax`."""

    def apply(src, dst=None, dim=0, reverse=False, **_hints):
        source = operand(src, f"the source of T.{op}")
        target = source if dst is None else operand(dst, f"the destination of T.{op}")
        axis = _axis(source, dim, f"T.{op}")
        if list(source.extents) != list(target.extents):
            raise ShapeMismatch(f"T.{op}: {source.describe()} and {target.describe()} have different shapes", at=here())
        values = _wide(source.values(f"T.{op}"))
        values = values.astype(np.float64) if values.dtype == np.uint64 and is_float(target.tile._dtype) else values
        turned = np.flip(values, axis) if bool(reverse) else values
        turned = np.cumsum(turned, axis, dtype=values.dtype) if op == "cumsum" else _running_maxima(turned, axis)
        target.write(convert(np.ascontiguousarray(np.flip(turned, axis) if bool(reverse) else turned), target.tile._dtype))

    return apply


# -- reducers: `T.alloc_reducer`


def _operation(tile) -> str:
    if getattr(tile, "reducer", None) is None:
        raise InvalidArgument(f"{getattr(tile, 'name', tile)} was not made by T.alloc_reducer", at=here())
    return tile.reducer


def reducer_init(reducer, init=None) -> None:
    """`T.reducer_init`."""
    dst = operand(reducer, "the reducer")
    op, dtype = _operation(dst.tile), dst.tile._dtype
    if init is None:
        if op in ("sum", "bitor", "bitxor"):
            init = 0
        elif op == "bitand":
            init = integer_range(dtype)[1] if dtype.startswith("uint") else -1
        elif is_float(dtype):
            init = outermost(op, dtype)
        else:
            init = integer_range(dtype)[0 if op == "max" else 1]
    fill(reducer, init)


_COMBINE = {"sum": operator.add, "max": pick_max, "min": pick_min, "bitand": operator.and_, "bitor": operator.or_, "bitxor": operator.xor}


def reducer_update(target, value) -> None:
    """`T.reducer_update`."""
    op = operand(target, "the element of T.reducer_update")
    kind = _operation(op.tile)
    old = op.tile.element(tuple(op.mins))
    new = cast(value, op.tile._dtype)
    op.tile.store(tuple(op.mins), _COMBINE[kind](old, new))


def finalize_reducer(reducer, dst=None, *_hints, **_more) -> None:
    """`T.finalize_reducer`."""
    if dst is not None:
        copy(reducer, dst)


def quantifier(name: str, kind):
    """`T.any_of`, `T.all_of`."""

    def condition(buffer) -> Scalar:
        return Scalar(bool(kind(operand(buffer, f"the argument of T.{name}").values(f"T.{name}") != 0)), "bool")

    return condition


# -- sorting


def _order(values: np.ndarray, descending: bool) -> np.ndarray:
    """Places of the elements of the last dimension in order, equal elements by place; NaN counts as +inf."""
    keys = values
    if values.dtype.kind in "fV":
        keys = values.astype(np.float64)
        keys = np.where(np.isnan(keys), np.inf, keys)
    else:
        keys = values.astype(np.int64)
    return np.argsort(-keys if descending else keys, axis=-1, kind="stable")


def _sort(src, dim, values, indices, descending: bool, what: str) -> None:
    source = operand(src, f"the source of {what}")
    axis = _axis(source, dim, what)
    data = np.moveaxis(source.values(what), axis, -1)
    order = _order(data, descending)
    for out, result in ((values, np.take_along_axis(data, order, -1)), (indices, order)):
        if out is None:
            continue
        op = operand(out, f"a destination of {what}")
        length = op.extents[axis] if len(op.extents) == data.ndim else op.extents[-1]
        wanted = np.moveaxis(result[..., :length], -1, axis) if len(op.extents) == data.ndim else result[..., :length]
        if list(wanted.shape) != list(op.extents):
            raise ShapeMismatch(f"{what} of {source.describe()}: the destination is {op.describe()}", at=here())
        op.write(convert(np.ascontiguousarray(wanted), op.tile._dtype))


def sort(src, dst=None, dim=-1, descending=False, indices=None, stable=True) -> None:
    """`T.sort`."""
    _sort(src, dim, src if dst is None else dst, indices, bool(descending), "T.sort")


def argsort(src, indices, dim=-1, descending=False, stable=True) -> None:
    """`T.argsort`."""
    _sort(src, dim, None, indices, bool(descending), "T.argsort")


def topk(src, values=None, indices=None, k=None, dim=-1, largest=True, sorted=True) -> None:
    """`T.topk`."""
    if values is None and indices is None:
        raise InvalidArgument("T.topk has no destination", at=here(), hint="T.topk(x, values, indices)")
    _sort(src, dim, values, indices, bool(largest), "T.topk")


MEANINGS = {
    "reduce": reduce, **{f"reduce_{kind}": reduction(kind) for kind in REDUCTIONS}, "cumsum": scan("cumsum"), "cummax": scan("cummax"),
    "reducer_init": reducer_init, "reducer_update": reducer_update, "finalize_reducer": finalize_reducer, "sort": sort,
    "argsort": argsort, "topk": topk, "any_of": quantifier("any_of", np.any), "all_of": quantifier("all_of", np.all),
}  # fmt: skip
