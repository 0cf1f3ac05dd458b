"""Other shapes and dtypes of the same storage."""

from __future__ import annotations

import math

from ..errors import InvalidArgument, ShapeMismatch
from ..frontend.annotations import dtype_name
from ..frontend.builder import Builder
from ..frontend.operators import plain
from ..frontend.values import is_buffer
from ..ir import const_int, full_region, itemsize, scope_of, tile_op
from .alloc import _static


def view(src, shape=None, dtype=None, strides=None):
    """The storage of the on-chip buffer `src` seen with another shape or dtype; the sizes in bytes must agree."""
    if not is_buffer(src):
        raise InvalidArgument(f"T.view takes a whole buffer, got {src!r}")
    if strides is not None:
        raise InvalidArgument("T.view with strides", hint="index the original buffer instead")
    old = [const_int(s) for s in src.ty.shape]
    if None in old or scope_of(src) == "global":
        raise InvalidArgument(
            f"T.view of {src.name}, which is a tensor in GM", hint="declare the argument with the shape you need"
        )
    new_dtype = dtype_name(dtype) if dtype is not None else str(src.ty.dtype)
    have = math.prod(old) * itemsize(src.ty.dtype)
    if shape is None:
        last = old[-1] * itemsize(src.ty.dtype) // itemsize(new_dtype)
        shape = (*old[:-1], last)
    builder = Builder.current("T.view")
    name = builder.hinted_name(f"{src.name}_view")
    dims = _static([plain(s) for s in (shape if isinstance(shape, (tuple, list)) else (shape,))], f"'{name}'")
    want = math.prod(dims) * itemsize(new_dtype)
    if have != want:
        raise ShapeMismatch(
            f"{src.name} has {have} bytes ({'x'.join(map(str, old))} {src.ty.dtype}), the view needs {want} "
            f"({'x'.join(map(str, dims))} {new_dtype})"
        )
    buffer = builder.alloc(dims, new_dtype, scope_of(src), name)
    builder.emit(tile_op("view", full_region(buffer), full_region(src), span=builder.span()))
    return buffer


def reshape(src, shape):
    """The storage of `src` seen with another shape of as many elements."""
    return view(src, shape)


NAMES = ("view", "reshape")
