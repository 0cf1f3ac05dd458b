"""Tensors and tiles of the oracle, and what the tile operations mean. Boxes are given by origins and extents."""

from __future__ import annotations

import numpy as np

from .numbers import (
    EPS,
    UNKNOWN,
    Numbers,
    absolute,
    as_numbers,
    cast,
    is_float,
    maximum,
    minimum,
    of,
    reinterpret,
    settle,
)


class Memory(Numbers):
    """Numbers that can be written. On-chip memory is unknown until then; what lies outside of a tensor reads as zero."""

    __slots__ = ("tile",)

    def __init__(self, dtype: str, v, e, tile: bool):
        super().__init__(dtype, v, e)
        self.tile = tile

    @property
    def shape(self):
        return self.v.shape


class Bits(Memory):
    """A tile seen with another dtype of the same width."""

    __slots__ = ("source",)

    def __init__(self, source: Memory, dtype: str):
        self.source, self.dtype, self.tile = source, dtype, True

    @property
    def v(self):
        return reinterpret(self.source, self.dtype).v

    @property
    def e(self):
        return reinterpret(self.source, self.dtype).e


def tensor(array: np.ndarray, dtype: str) -> Memory:
    """A tensor in GM."""
    n = of(dtype, array)
    return Memory(dtype, n.v.copy(), np.zeros(n.v.shape), tile=False)


def tile(shape, dtype: str) -> Memory:
    """A fresh buffer on chip."""
    n = of(dtype, np.zeros(shape))
    return Memory(dtype, n.v, np.full(shape, UNKNOWN), tile=True)


def space(*extents):
    """Loop variables of a nest, one axis each."""
    return np.ogrid[tuple(slice(0, n) for n in extents)] if len(extents) > 1 else [np.arange(extents[0])]


def _places(m: Memory, at, *more):
    """Broadcast indices, whether they are inside, and `more` arrays of the same shape."""
    whole = np.broadcast_arrays(*at, *more)
    at, more = whole[: len(at)], whole[len(at) :]
    inside = np.ones(at[0].shape, bool)
    for i, n in zip(at, m.shape):
        inside &= (i >= 0) & (i < n)
    return at, inside, more


def at(m: Memory, *indices) -> Numbers:
    """Elements of a memory."""
    places, inside, _ = _places(m, indices)
    if not m.v.size:
        return Numbers(m.dtype, np.zeros(inside.shape, m.v.dtype))
    safe = tuple(np.where(inside, i, 0) for i in places)
    return Numbers(m.dtype, np.where(inside, m.v[safe], m.v.dtype.type(0)), np.where(inside, m.e[safe], UNKNOWN if m.tile else 0))


def put(m: Memory, indices, value, mask=True) -> None:
    """Store `value`, converted, where the mask holds; elements outside of a tensor are dropped."""
    value = value if isinstance(value, Numbers) else of(m.dtype, value)
    value, mask = cast(value, m.dtype), as_numbers(mask)
    if isinstance(m, Bits):
        put(m.source, indices, reinterpret(value, m.source.dtype), mask)
        return
    places, inside, (v, e, chosen, doubt) = _places(m, indices, value.v, value.e, mask.v, mask.e)
    sure = inside & chosen & (doubt == 0)
    target = tuple(i[sure] for i in places)
    m.v[target], m.e[target] = v[sure], e[sure]
    m.e[tuple(i[inside & (doubt > 0)] for i in places)] = UNKNOWN


def update(m: Memory, indices, value, kind: str, mask=True, extents=()) -> None:
    """Atomic add, max or min of elements that several of the iterations over `extents` may share."""
    value = cast(value if isinstance(value, Numbers) else of(m.dtype, value), m.dtype)
    mask = as_numbers(mask)
    every = np.zeros(extents)
    places, inside, (v, e, chosen, doubt, _) = _places(m, indices, value.v, value.e, mask.v, mask.e, every)
    sure = inside & chosen & (doubt == 0)
    target = tuple(i[sure] for i in places)
    if kind == "add":
        size = np.abs(m.v.astype(np.float64))
        even = _grids(m, target, v[sure])
        np.add.at(m.v, target, v[sure])
        np.add.at(m.e, target, e[sure])
        np.add.at(size, target, np.abs(v[sure]))
        # Every addition rounds to the dtype of the memory.
        fits = [whole & (size <= step * 2 / EPS.get(m.dtype, 1.0)) for step, whole in even]
        inexact = np.where(np.any(fits, axis=0), 0, 1e-300) if even else 0
        settled = _sum(m.dtype, m.v, m.e + inexact, size, 2 * EPS.get(m.dtype, 0) * v.size)
        m.v[...], m.e[...] = settled.v, settled.e
    else:
        (np.maximum if kind == "max" else np.minimum).at(m.v, target, v[sure])
        np.maximum.at(m.e, target, e[sure])
    m.e[tuple(i[inside & (doubt > 0)] for i in places)] = UNKNOWN


def _grids(m: Memory, target, v):
    """For some steps: the elements that are a multiple of it, as are all that is added to them."""
    found = []
    for step in (1.0, 2.0**-2, 2.0**-4, 2.0**-10) if is_float(m.dtype) else ():
        whole = np.round(m.v / step) * step == m.v
        np.logical_and.at(whole, target, np.round(v / step) * step == v)
        found.append((step, whole))
    return found


def box(origin, extents):
    """Index arrays of a box; extents belong to the last dimensions."""
    lead = len(origin) - len(extents)
    grids = space(*extents)
    return [*origin[:lead], *(o + g for o, g in zip(origin[lead:], grids))]


def copy(dst: Memory, dst_origin, src: Memory, src_origin, extents) -> None:
    """T.copy of a box."""
    put(dst, box(dst_origin, extents), at(src, *box(src_origin, extents)))


def fill(m: Memory, value) -> None:
    """T.fill."""
    put(m, box((0,) * len(m.shape), m.shape), value)


def _sum(dtype: str, v, e, size, relative: float) -> Numbers:
    """A sum: exact when all partial sums are multiples of 1/1024 that fit 24 bits, whatever their order."""
    if not is_float(dtype):
        return settle(dtype, v, e)
    exact = (e == 0) & (size < 2.0**14) & (np.round(v * 1024) == v * 1024)
    return settle(dtype, v, np.where(exact, 0, e + relative * size))


def _exact_grid(m: Numbers, dim: int):
    """Where every term is a multiple of 1/1024."""
    return (np.round(m.v * 1024) == m.v * 1024).all(axis=dim)


def _total(x: Numbers, dim: int, running=None) -> Numbers:
    """Sums over a dimension (or running ones), accumulated in float32."""
    add = (lambda a: running(a, axis=dim)) if running else (lambda a: a.sum(axis=dim))
    v, e, size = add(x.v), add(x.e), add(np.abs(x.v))
    if not is_float(x.dtype):
        return settle(x.dtype, v, e)
    grid = _exact_grid(x, dim)
    grid = np.expand_dims(grid, dim) if running else grid
    return _sum(x.dtype, v, np.where(grid, e, e + 1e-300), size, EPS["float32"] * 2 * x.v.shape[dim])


def reduced(x: Numbers, kind: str, dim: int) -> Numbers:
    """A reduction of one dimension."""
    if kind.startswith("abs"):
        x, kind = absolute(x), kind[3:]
    if kind == "sum":
        return _total(x, dim)
    if kind in ("max", "min"):
        return Numbers(x.dtype, getattr(x.v, kind)(axis=dim), x.e.max(axis=dim))
    unknown = np.where((x.e > 0).any(axis=dim), UNKNOWN, 0)
    if kind in ("any", "all"):
        return settle(x.dtype, getattr((x.v != 0), kind)(axis=dim).astype(x.v.dtype), unknown)
    function = {"bitand": np.bitwise_and, "bitor": np.bitwise_or, "bitxor": np.bitwise_xor}[kind]
    return settle(x.dtype, function.reduce(x.v, axis=dim), unknown)


def _combine(kind: str, a: Numbers, b: Numbers) -> Numbers:
    kind = kind.removeprefix("abs")
    if kind == "sum":
        return a + b
    if kind in ("max", "min"):
        return (maximum if kind == "max" else minimum)(a, b)
    if kind in ("any", "all"):
        x, y = a != 0, b != 0
        return cast(Numbers("bool", x.v | y.v if kind == "any" else x.v & y.v, x.e + y.e), a.dtype)
    return {"bitand": a & b, "bitor": a | b, "bitxor": a ^ b}[kind]


def reduce(dst: Memory, src: Memory, kind: str, dim: int, clear: bool) -> None:
    """T.reduce_<kind>."""
    result = reduced(src, kind, dim)
    if not clear:
        result = _combine(kind, result, Numbers(dst.dtype, dst.v.copy(), dst.e.copy()))
    put(dst, box((0,) * len(dst.shape), dst.shape), Numbers(result.dtype, result.v.reshape(dst.shape), result.e.reshape(dst.shape)))


def scan(dst: Memory, src: Memory, kind: str, dim: int, reverse: bool) -> None:
    """T.cumsum and T.cummax."""
    turn = (lambda a: np.flip(a, dim)) if reverse else (lambda a: a)
    x = Numbers(src.dtype, turn(src.v), turn(src.e))
    if kind == "sum":
        r = _total(x, dim, running=np.cumsum)
    else:
        r = Numbers(x.dtype, np.maximum.accumulate(x.v, axis=dim), np.maximum.accumulate(x.e, axis=dim))
    put(dst, box((0,) * len(dst.shape), dst.shape), Numbers(r.dtype, turn(r.v), turn(r.e)))


def reshape(m: Memory, shape) -> Memory:
    """T.reshape: the same storage."""
    return Memory(m.dtype, m.v.reshape(shape), m.e.reshape(shape), m.tile)


def view(m: Memory, shape, dtype: str) -> Memory:
    """T.view."""
    shaped = reshape(m, shape)
    return shaped if dtype == m.dtype else Bits(shaped, dtype)


def sort(values: Memory | None, places: Memory | None, src: Memory, dim: int, descending: bool) -> None:
    """T.sort, T.topk and T.argsort: as many elements as `values` or `places` take; equal ones keep their order."""
    order = np.argsort(-src.v.astype(np.float64) if descending else src.v, axis=dim, kind="stable")
    worst = np.broadcast_to(src.e.max(axis=dim, keepdims=True), src.shape)  # sorted rows are no further apart than rows
    sorted_values = np.take_along_axis(src.v, order, dim)
    for m, v, e in ((values, sorted_values, worst), (places, order, np.where(worst > 0, UNKNOWN, 0))):
        if m is not None:
            first = tuple(slice(0, n) for n in m.shape)
            put(m, box((0,) * len(m.shape), m.shape), Numbers(m.dtype, v[first], e[first]))


def gemm(c: Memory, a: Memory, b: Memory, transpose_a: bool, transpose_b: bool) -> None:
    """c += a @ b in float32."""
    x, xe = (a.v.T, a.e.T) if transpose_a else (a.v, a.e)
    y, ye = (b.v.T, b.e.T) if transpose_b else (b.v, b.e)
    v, size = c.v + x @ y, np.abs(c.v) + np.abs(x) @ np.abs(y)
    if xe.any() or ye.any():
        e = c.e + np.abs(x) @ ye + xe @ np.abs(y) + xe @ ye
    else:
        e = c.e
    r = _sum("float32", v, np.nan_to_num(e, nan=UNKNOWN, posinf=UNKNOWN), size, EPS["float32"] * 2 * x.shape[1])
    c.v[...], c.e[...] = r.v, r.e


def transpose(dst: Memory, src: Memory) -> None:
    """T.transpose."""
    put(dst, box((0, 0), dst.shape), cast(Numbers(src.dtype, src.v.T, src.e.T), dst.dtype))


__all__ = [
    "at", "box", "copy", "fill", "gemm", "put", "reduce", "reshape", "scan", "sort", "space", "tensor", "tile", "transpose",
    "update", "view",
]  # fmt: skip
