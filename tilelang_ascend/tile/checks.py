"""What must hold between the operands of a tile op: each rule takes its arguments and attributes, and says what is wrong, or None.

Extents that are known only at run time agree with everything.
"""

from __future__ import annotations

import math

from ..ir import const_int, dtype_of, itemsize, scope_of


def _extents(r) -> list:
    return [const_int(x.extent) for x in r.region]


def _agree(a: list, b: list) -> bool:
    return len(a) == len(b) and all(x is None or y is None or x == y for x, y in zip(a, b))


def _shape(r) -> str:
    return f"{r.source.name} {[x.extent if n is None else n for x, n in zip(r.region, _extents(r))]}"


def moves(args, attrs) -> str | None:
    """Both sides have the same extents, ones aside; a value fits everywhere."""
    regions = [a for a in args if hasattr(a, "region")]
    if len(regions) < 2:
        return None
    a, b = ([n for n in _extents(r) if n != 1] for r in regions)
    if None in a or None in b or a == b:
        return None
    return f"{_shape(regions[0])} and {_shape(regions[1])} have different shapes"


def copies(args, attrs) -> str | None:
    """As `moves`; an end belongs to a dimension of a tensor, of which one side is a region."""
    if len(args) == 2:
        return moves(args, attrs)
    if len(args) != 4:
        return "an end is a dimension and an index"
    outside = [r for r in args[:2] if scope_of(r.source) in ("global", "")]
    d = const_int(args[2])
    if len(outside) != 1 or d is None or not 0 <= d < len(outside[0].region):
        return "an end belongs to a dimension of the one side in global memory"
    return moves(args, attrs)


def product(args, attrs) -> str | None:
    """M, N and K agree."""
    (a, b, c), ta, tb = args[:3], int(attrs["transpose_A"]), int(attrs["transpose_B"])
    if min(len(r.region) for r in (a, b, c)) < 2:
        return "its operands are matrices"
    (m, k), (k_, n) = (_extents(r)[-2:][:: -1 if turned else 1] for r, turned in ((a, ta), (b, tb)))
    return None if _agree([m, n, k], [*_extents(c)[-2:], k_]) else f"{_shape(a)} @ {_shape(b)} is not {_shape(c)}"


def reduces(args, attrs) -> str | None:
    """The destination has the shape of the source without `dim`, or with 1 there."""
    (src, dst), dim = args, int(attrs["dim"])
    extents = _extents(src)
    if not 0 <= dim < len(extents):
        return f"{_shape(src)} has no dimension {dim}"
    dropped, kept = extents[:dim] + extents[dim + 1 :] or [1], [*extents[:dim], 1, *extents[dim + 1 :]]
    return (
        None if _agree(dropped, _extents(dst)) or _agree(kept, _extents(dst)) else f"{_shape(src)} along {dim} does not give {_shape(dst)}"
    )


def scans(args, attrs) -> str | None:
    """Both sides have the same shape, which has the dimension."""
    (src, dst), dim = args, int(attrs["dim"])
    if not 0 <= dim < len(src.region):
        return f"{_shape(src)} has no dimension {dim}"
    return None if _agree(_extents(src), _extents(dst)) else f"{_shape(src)} and {_shape(dst)} have different shapes"


def sorts(args, attrs) -> str | None:
    """float32 rows of a multiple of 32, and int32 places of not more."""
    src, dst = args
    if dtype_of(src.source) != "float32" or dtype_of(dst.source) != "int32":
        return f"it gives int32 places of float32, not {dtype_of(dst.source)} of {dtype_of(src.source)}"
    (*rows, columns), (*rows_, wanted) = _extents(src), _extents(dst)
    if columns is None or columns % 32:
        return f"{_shape(src)} has no rows of a multiple of 32"
    return (
        None if _agree(rows, rows_) and (wanted is None or wanted <= columns) else f"{_shape(src)} does not have the places {_shape(dst)}"
    )


def patches(args, attrs) -> str | None:
    """An image of four dimensions, a tile of two, one dtype."""
    src, dst = args[:2]
    if len(src.region) != 4 or len(dst.region) != 2:
        return f"{_shape(src)} is no image (N, H, W, C), or {_shape(dst)} no matrix"
    return None if dtype_of(src.source) == dtype_of(dst.source) else f"{dtype_of(src.source)} patches in {dtype_of(dst.source)}"


def sees(args, attrs) -> str | None:
    """Whole buffers of the same size."""
    sizes = [None if None in _extents(r) else math.prod(_extents(r)) * itemsize(dtype_of(r.source)) for r in args]
    if None not in sizes and sizes[0] != sizes[1]:
        return f"{_shape(args[0])} has {sizes[0]} bytes, {_shape(args[1])} has {sizes[1]}"
    whole = all(_agree(_extents(r), [const_int(n) for n in r.source.ty.shape]) for r in args)
    return None if whole else "it names whole buffers"
