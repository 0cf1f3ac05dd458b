"""Operations on whole tiles: copies, fills, products, atomics, patches of images."""

from __future__ import annotations

import numpy as np

from ..errors import DtypeMismatch, InvalidArgument, ShapeMismatch
from ..tile.factors import factor_dtype
from .memory import Region, Tile, is_tile_like_many, operand, view
from .state import here
from .values import FLOAT_LIMITS, Scalar, bits, cast, integer_range, is_float, numpy_dtype, power_of_two, scalar, size_of


def convert(values: np.ndarray, dtype: str) -> np.ndarray:
    """Elements as another dtype: floats are truncated (and saturate) to integers, integers wrap, numbers to bool by `!= 0`."""
    target = numpy_dtype(dtype)
    floating = values.dtype.kind in "fV"
    if dtype in ("int4", "uint4") and not floating:
        low, _ = integer_range(dtype)
        return ((values.astype(np.int64) - low) % 16 + low).astype(target)
    if values.dtype == target:
        return values
    if dtype == "bool":
        return (values.astype(np.float32) if values.dtype.kind == "V" else values) != 0
    if is_float(dtype):
        if target.kind == "V" and values.dtype != np.float32:
            values = values.astype(np.float32)
        if dtype == "float4_e2m1fn":
            values = np.where(np.isnan(values), np.float32(6), values)
        if dtype == "float8_e8m0fnu":
            return np.array([power_of_two(float(v)) for v in values.flat], np.float32).reshape(values.shape).astype(target)
        return values.astype(target)
    if floating:
        wide = values.astype(np.float64)
        least, most = FLOAT_LIMITS.get(dtype, integer_range(dtype))
        out = np.trunc(np.nan_to_num(wide, nan=0.0, posinf=np.inf, neginf=-np.inf))
        low, high = out <= float(least), out >= float(most)
        out = np.where(low | high, 0, out).astype(np.int64 if least < 0 else np.uint64)
        out[low], out[high] = least, most
        return out.astype(target)
    return values.astype(target)


def copy(src, dst, size=None, **_hints) -> None:
    """`T.copy`."""
    a, b = operand(src, "the source of T.copy"), operand(dst, "the destination of T.copy")
    if size is not None:
        a, b = sized(a, size), sized(b, size)
        transfer(a, b)
        return
    if a.kind == b.kind == "head":
        b.tile.store(tuple(b.mins), cast(a.tile.element(tuple(a.mins)), b.tile._dtype))
        return
    if a.kind == b.kind == "buffer" and squeeze(a.extents) != squeeze(b.extents):
        raise ShapeMismatch(
            f"T.copy between buffers of different shapes: {a.describe()} and {b.describe()}",
            at=here(),
            hint="slice the larger one, or give its head address: A[i, j]",
        )
    transfer(*paired(a, b))


def transfer(a: Region, b: Region) -> None:
    """Copy elements in row-major order of the dimensions larger than one."""
    values, defined = a.read()
    if values.size != _count(b):
        raise _mismatch(a, b)
    shape = tuple(b.extents)
    b.write(convert(values.reshape(shape), b.tile._dtype), None if defined is None else defined.reshape(shape))


def _count(r: Region) -> int:
    n = 1
    for e in r.extents:
        n *= e
    return n


def squeeze(extents) -> list:
    """Extents without ones."""
    return [e for e in extents if e != 1]


def sized(op: Region, size) -> Region:
    """An operand with an explicit size list, aligned at the right."""
    size = [int(scalar(s).get()) for s in size]
    rank = len(op.mins)
    if len(size) > rank:
        if any(s != 1 for s in size[: len(size) - rank]):
            raise ShapeMismatch(f"{op.describe()} has {rank} dimensions, the size list {size} has {len(size)}", at=here())
        size = size[len(size) - rank :]
    extents = [1] * (rank - len(size)) + size
    if op.kind != "head" and any(w > h for w, h in zip(extents, op.extents)):
        raise ShapeMismatch(f"the size list {size} is larger than {op.describe()}", at=here())
    return Region(op.tile, op.mins, extents)


def _aligned(op: Region, extents) -> Region:
    rank = len(op.mins)
    extents = list(extents)
    if len(extents) > rank:
        if any(e != 1 for e in extents[: len(extents) - rank]):
            raise ShapeMismatch(f"{op.describe()} has {rank} dimensions, a tile of shape {extents} does not fit", at=here())
        extents = extents[len(extents) - rank :]
    return Region(op.tile, op.mins, [1] * (rank - len(extents)) + extents)


def paired(a: Region, b: Region) -> tuple[Region, Region]:
    """Both sides of a copy with their extents.

    A head address takes the other side's; equally many extents other than 1 are kept; otherwise they are aligned at the right and
    ones are broadcast. Where one of two paired extents is known only at run time, both are cut to the smaller one.
    """
    if a.kind == "head":
        return _aligned(a, b.extents), b
    if b.kind == "head":
        return a, _aligned(b, a.extents)
    if squeeze(a.extents) == squeeze(b.extents):
        return a, b
    one_a = [e == 1 and not s for e, s in zip(a.extents, a.soft)]
    one_b = [e == 1 and not s for e, s in zip(b.extents, b.soft)]
    ea, eb, sa, sb = list(a.extents), list(b.extents), list(a.soft), list(b.soft)
    if one_a.count(False) != one_b.count(False):
        rank = max(len(ea), len(eb))
        pad_a, pad_b = rank - len(ea), rank - len(eb)
        ea, sa = [1] * pad_a + ea, [False] * pad_a + sa
        eb, sb = [1] * pad_b + eb, [False] * pad_b + sb
        for k in range(rank):
            if ea[k] == eb[k]:
                continue
            if ea[k] == 1:
                ea[k] = eb[k]
            elif eb[k] == 1:
                eb[k] = ea[k]
            elif sa[k] or sb[k]:
                ea[k] = eb[k] = max(ea[k], eb[k])
            else:
                raise _mismatch(a, b)
        return _aligned(a, ea), _aligned(b, eb)
    wide_a = [k for k, one in enumerate(one_a) if not one]
    wide_b = [k for k, one in enumerate(one_b) if not one]
    for i, j in zip(wide_a, wide_b):
        if ea[i] != eb[j]:
            if not (sa[i] or sb[j]):
                raise _mismatch(a, b)
            ea[i] = eb[j] = min(ea[i], eb[j])
    return Region(a.tile, a.mins, ea), Region(b.tile, b.mins, eb)


def _mismatch(a: Region, b: Region) -> ShapeMismatch:
    return ShapeMismatch(
        f"the source {a.describe()} and the destination {b.describe()} have different shapes",
        at=here(),
        hint="give one side as a head address (A[i, j]) to take the other side's shape, or slice the larger one",
    )


def fill(buffer, value, **_hints) -> None:
    """`T.fill`."""
    dst = operand(buffer, "the destination of T.fill")
    x = cast(value, dst.tile._dtype)
    dst.write(_filled(dst, x))


def _filled(dst: Region, x: Scalar) -> np.ndarray:
    out = np.empty(tuple(dst.extents), dst.tile.array.dtype)
    out[...] = x.get()
    return out


def clear(buffer, **_hints) -> None:
    """`T.clear`."""
    fill(buffer, 0)


def matrix_dims(op: Region) -> list[int]:
    """The dimensions of the matrix a region is: those larger than one, filled up to two from the end."""
    dims = [d for d, e in enumerate(op.extents) if e != 1 or op.soft[d]]
    for d in reversed(range(len(op.extents))):
        if len(dims) < 2 and d not in dims:
            dims.append(d)
    return sorted(dims)


def transpose(src, dst, **_hints) -> None:
    """`T.transpose`."""
    a, b = operand(src, "the source of T.transpose"), operand(dst, "the destination of T.transpose")
    da, db = matrix_dims(a), matrix_dims(b)
    sa, sb = [a.extents[d] for d in da], [b.extents[d] for d in db]
    if len(sa) != 2 or len(sb) != 2 or sa != sb[::-1]:
        raise ShapeMismatch(f"T.transpose: {a.describe()} does not transpose into {b.describe()}", at=here())
    values, defined = a.read()
    turn = lambda x: x.reshape(sa).T.reshape(tuple(b.extents))  # noqa: E731
    b.write(convert(turn(values), b.tile._dtype), None if defined is None else turn(defined))


def gemm(A, B, C, transpose_A=False, transpose_B=False, policy=None, clear_accum=False, *, initC=None, size=None, **_hints) -> None:
    """`T.gemm`: products are summed in float32 (integers: int32)."""
    if isinstance(transpose_A, (list, tuple)):
        size, transpose_A = transpose_A, False
    ta, tb = bool(transpose_A), bool(transpose_B)
    a, b, c = (operand(v, f"operand {n} of T.gemm") for v, n in ((A, "A"), (B, "B"), (C, "C")))
    if size is not None:
        m, k, n = size
        a, b, c = sized(a, [k, m] if ta else [m, k]), sized(b, [n, k] if tb else [k, n]), sized(c, [m, n])
    for op, name in ((a, "A"), (b, "B"), (c, "C")):
        if op.tile.scope == "global":
            raise InvalidArgument(f"T.gemm works on tiles; {name} = {op.describe()} is in global memory", at=here())
        batch = [e for e in op.extents[:-2] if e != 1]
        if len(op.extents) < 2 or (batch and batch != [e for e in c.extents[:-2] if e != 1]):
            raise ShapeMismatch(f"T.gemm: {name} = {op.describe()} is not a matrix", at=here())
    dtypes = [op.tile._dtype for op in (a, b, c)]
    if factor_dtype(*dtypes[:2]) is None:
        raise DtypeMismatch(f"T.gemm: A is {dtypes[0]}, B is {dtypes[1]}", at=here())
    wide = np.float32 if any(map(is_float, dtypes)) else np.int64
    x, y = (_matrix(op, f"T.gemm: {n}").astype(wide) for op, n in ((a, "A"), (b, "B")))
    x, y = x.swapaxes(-1, -2) if ta else x, y.swapaxes(-1, -2) if tb else y
    if x.shape[-1] != y.shape[-2] or (x.shape[-2], y.shape[-1]) != tuple(c.extents[-2:]):
        raise ShapeMismatch(f"T.gemm: {a.describe()} times {b.describe()} does not give {c.describe()}", at=here())
    product = x @ y
    if not bool(scalar(clear_accum if initC is None else initC)):
        old = _matrix(c, "T.gemm: the accumulator C")
        product = old.astype(wide if wide is np.int64 and old.dtype.kind in "iu" else np.float32) + product
    elif product.ndim < 3:
        product = np.broadcast_to(product, (*(e for e in c.extents[:-2] if e != 1), *product.shape))
    if product.dtype == np.int64:
        product = product.astype(np.int32)
    c.write(convert(product.reshape(tuple(c.extents)), c.tile._dtype))


def _matrix(op: Region, what: str) -> np.ndarray:
    """The matrix, or several along the leading dimensions that are not 1."""
    return op.values(what).reshape((*(e for e in op.extents[:-2] if e != 1), *op.extents[-2:]))


def atomic(kind: str):
    """`T.atomic_add`, `T.atomic_max`, `T.atomic_min`: blocks run one after the other, so nothing more than an update."""

    def update(dst, value, size=None, memory_order=None, return_prev=False, **_hints):
        what = f"T.atomic_{kind}"
        size = None if isinstance(size, str) else size
        target = operand(dst, f"the destination of {what}")
        source = value
        if size is not None:
            target = sized(target, size)
            if is_tile_like_many(value) or (isinstance(value, Scalar) and value.origin is not None):
                source = sized(operand(value, f"the source of {what}"), size)
        elif is_tile_like_many(value):
            source, target = paired(operand(value, f"the source of {what}"), target)
        if isinstance(source, Region) and is_tile_like_many(source) and (size is not None or is_tile_like_many(value)):
            amounts = convert(source.values(what).reshape(tuple(target.extents)), target.tile._dtype)
        else:
            amounts = _filled(target, cast(value, target.tile._dtype))
        if target.tile.scope != "global":
            _check_element(target, what)
        old = target.values(what)
        target.write(convert(_combine(kind, old, amounts), target.tile._dtype))
        return scalar(old.reshape(-1)[0].item()) if return_prev else None

    return update


def _check_element(target: Region, what: str) -> None:
    for m, e, n in zip(target.mins, target.extents, target.tile._shape):
        if m < 0 or m + e > n:
            raise target.tile._outside(tuple(target.mins), f"{what} to an element").error()


def _combine(kind: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype == bool:
        a, b = a.astype(np.int32), b.astype(np.int32)
        return _combine(kind, a, b) != 0
    if a.dtype.kind == "V":
        return convert(_combine(kind, a.astype(np.float32), b.astype(np.float32)), a.dtype.name)
    if kind == "add":
        return a + b
    out = np.maximum(a, b) if kind == "max" else np.minimum(a, b)
    if a.dtype.kind != "f":
        return out
    # NumPy takes -0 and 0 for equal, here -0 lies below.
    other = kind == "min"
    found = ((a == 0) & (np.signbit(a) == other)) | ((b == 0) & (np.signbit(b) == other))
    return np.where(out == 0, np.where(found == other, -0.0, 0.0), out).astype(a.dtype)


def atomic_pair(count: int):
    """`T.atomic_addx2`, `T.atomic_addx4`."""
    add = atomic("add")
    return lambda dst, value, return_prev=False: add(dst, value, [count])


def im2col(img, col, nhw_step, c_step, kernel, stride, dilation, pad, *_hints, **_more) -> None:
    """`T.im2col`: rows of patches, zero outside of the image."""
    image, tile = operand(img, "the image of T.im2col"), operand(col, "the tile of T.im2col")
    if image.kind != "buffer" or len(image.extents) != 4 or image.tile.scope != "global":
        raise InvalidArgument(f"T.im2col needs a global tensor of shape (N, H, W, C), got {image.describe()}", at=here())
    kernel, stride, dilation, pad = (int(scalar(v).get()) for v in (kernel, stride, dilation, pad))
    n, h, w, c = image.extents
    oh, ow = ((s + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1 for s in (h, w))
    rows, columns = tile.extents
    first_row, first_column = int(scalar(nhw_step).get()) * rows, int(scalar(c_step).get()) * columns
    pixels = image.values("T.im2col")
    out = np.zeros((rows, columns), pixels.dtype)
    for r in range(rows):
        p = first_row + r
        if not 0 <= p < n * oh * ow:
            continue
        b, y, x = p // (oh * ow), p // ow % oh, p % ow
        for k in range(columns):
            q = first_column + k
            if not 0 <= q < kernel * kernel * c:
                continue
            iy, ix = y * stride - pad + q // c // kernel * dilation, x * stride - pad + q // c % kernel * dilation
            if 0 <= iy < h and 0 <= ix < w:
                out[r, k] = pixels[b, iy, ix, q % c]
    tile.write(out)


def view_of(src, shape=None, dtype=None, strides=None) -> Tile:
    """`T.view`, `T.reshape`: other names for the same memory."""
    from .values import dtype_of

    if not isinstance(src, Tile):
        raise InvalidArgument(f"T.view takes a whole buffer, got {src!r}", at=here())
    new = src._dtype if dtype is None else dtype_of(dtype)
    have = src.array.size * bits(src._dtype)
    if shape is None:
        shape = (*src._shape[:-1], src._shape[-1] * bits(src._dtype) // bits(new))
    dims = tuple(size_of(s) for s in (shape if isinstance(shape, (tuple, list)) else (shape,)))
    want = int(np.prod(dims, dtype=np.int64)) * bits(new)
    if have != want:
        raise ShapeMismatch(f"{src.name} has {have / 8:g} bytes, the view needs {want / 8:g} ({'x'.join(map(str, dims))} {new})", at=here())
    return view(src, dims, new, f"{src.name}_view")


def make_tensor(ptr, shape, dtype="float32", strides=None) -> Tile:
    """`T.make_tensor`."""
    from .values import dtype_of

    if isinstance(ptr, Tile) and strides is None:
        return view_of(ptr, shape, dtype)
    if not hasattr(ptr, "tensor") or strides is not None:
        raise InvalidArgument(
            f"T.make_tensor of {ptr!r}", at=here(), hint="give it a parameter declared as T.ptr or a tensor, and no strides"
        )
    dims = tuple(scalar(d) if not isinstance(d, int) else d for d in (shape if isinstance(shape, (tuple, list)) else (shape,)))
    return ptr.tensor(dims, dtype_of(dtype)) or view_of(ptr.made, shape, dtype)


MEANINGS = {
    "make_tensor": make_tensor, "make_tensor_from_addr": lambda addr, shape, dtype="float32", strides=None, storage_scope="global": make_tensor(addr, shape, dtype, strides),
    "copy": copy, "async_copy": copy, "fill": fill, "clear": clear, "transpose": transpose, "gemm": gemm, "im2col": im2col,
    "c2d_im2col": im2col, "view": view_of, "reshape": lambda src, shape: view_of(src, shape),
    "atomic_add": atomic("add"), "atomic_max": atomic("max"), "atomic_min": atomic("min"),
    "atomic_addx2": atomic_pair(2), "atomic_addx4": atomic_pair(4),
}  # fmt: skip
