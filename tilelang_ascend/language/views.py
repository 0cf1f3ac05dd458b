"""Other shapes and dtypes of the same storage."""

from __future__ import annotations

import math

from ..errors import InvalidArgument, ShapeMismatch
from ..frontend.annotations import Pointer, Tensor, TensorSpec, dtype_name, make_spec
from ..frontend.builder import Builder, constant
from ..frontend.keywords import other_meaning
from ..frontend.locations import user_location
from ..frontend.operators import as_scalar, binop, plain
from ..frontend.values import Storage, is_buffer
from ..ir import Var, const_int, decl_buffer, dtype_of, free_vars, full_region, itemsize, scope_of
from ..runtime.dtypes import NIBBLES
from ..tile import tile_op
from .alloc import _static
from .regions import same, shape_text


def view(src, shape=None, dtype=None, strides=None):
    """The storage of `src` seen with another shape or dtype; the sizes in bytes must agree."""
    if not is_buffer(src):
        raise InvalidArgument(f"T.view takes a whole buffer, got {src!r}")
    if strides is not None:
        raise InvalidArgument("T.view with strides", hint="index the original buffer instead")
    old = [const_int(s) for s in src.ty.shape]
    if scope_of(src) == "global":
        if shape is None:
            shape = _as_dtype(src, dtype_name(dtype) if dtype is not None else dtype_of(src))
        return tensor_view(Storage(src), make_spec(shape, dtype if dtype is not None else dtype_of(src)))
    new_dtype = dtype_name(dtype) if dtype is not None else str(src.ty.dtype)
    have = _bits(dtype_of(src)) * math.prod(old)
    if shape is None:
        shape = (*old[:-1], old[-1] * _bits(dtype_of(src)) // _bits(new_dtype))
    builder = Builder.current("T.view")
    name = builder.hinted_name(f"{src.name}_view")
    dims = _static([plain(s) for s in (shape if isinstance(shape, (tuple, list)) else (shape,))], f"'{name}'")
    want = math.prod(dims) * _bits(new_dtype)
    if have != want:
        raise ShapeMismatch(
            f"{src.name} has {_in_bytes(have)} ({'x'.join(map(str, old))} {src.ty.dtype}), the view needs {_in_bytes(want)} "
            f"({'x'.join(map(str, dims))} {new_dtype})"
        )
    buffer = builder.alloc(dims, new_dtype, scope_of(src), name)
    builder.emit(tile_op("view", full_region(buffer), full_region(src), span=builder.span()))
    return buffer


def _bits(dtype: str) -> int:
    """Bits of one number in memory."""
    return 4 if dtype in NIBBLES else 8 * itemsize(dtype)


def _in_bytes(bits: int) -> str:
    return f"{bits // 8} bytes" if bits % 8 == 0 else f"{bits / 8} bytes"


def _as_dtype(src, dtype: str) -> tuple:
    """The shape of a tensor whose last dimension is counted in elements of `dtype`."""
    *rest, last = src.ty.shape
    return (*rest, binop("FloorDiv", binop("Mult", last, _bits(dtype_of(src))), _bits(dtype)))


def _whole_rows(name: str, shape, dtype: str) -> None:
    """Refuse numbers of 4 bits in rows of an odd length that other rows follow: these begin with a byte of their own, so no view has them."""
    last = constant(shape[-1])
    if dtype in NIBBLES and last is not None and last % 2:
        raise InvalidArgument(
            f"{name} seen in another form: its rows of {last} {dtype} end with half a byte of padding",
            hint="views are of rows with an even length; copy it to a tile",
            at=user_location(),
        )


def tensor_view(data, spec: TensorSpec):
    """``T.Tensor(shape, dtype, X.data)``: the memory of the tensor X under another name, with another shape or dtype.

    Errors: InvalidArgument for anything but the storage of a contiguous tensor in GM, ShapeMismatch for other sizes in bytes.
    """
    if (interpreted := other_meaning("T.view")) is not None:
        return interpreted(data, spec.shape, spec.dtype)
    builder = Builder.current("T.Tensor(shape, dtype, data)")
    if isinstance(data, Storage) and scope_of(data.buffer) != "global":
        return view(data.buffer, spec.shape, spec.dtype)
    if not isinstance(data, Storage):
        raise InvalidArgument(f"the data of T.Tensor is {data!r}", hint="give the storage of a tensor: T.Tensor(shape, dtype, X.data)")
    src = data.buffer
    _whole_rows(src.name, src.ty.shape, dtype_of(src))
    _whole_rows(f"a view of {src.name}", spec.shape, spec.dtype)
    if len(src.ty.strides) or spec.strides is not None:
        raise InvalidArgument(f"{src.name} seen with strides", hint="index the tensor as it is declared")
    if (
        builder.region.inside("loop")
        or builder.region.inside("parallel")
        or builder.region.inside("branch")
        or builder.region.inside("while")
    ):
        raise InvalidArgument(f"{src.name} is given another shape inside run-time control flow", hint="do so at the start of the kernel")
    have, want = (_size(shape, dtype) for shape, dtype in ((src.ty.shape, dtype_of(src)), (spec.shape, spec.dtype)))
    if not same(have, want) and (constant(have) is not None and constant(want) is not None):
        have, want = (_in_bytes(int(constant(n) or 0)) for n in (have, want))
        raise ShapeMismatch(f"{src.name} has {have}, T.Tensor of shape {shape_text(spec.shape)} {spec.dtype} needs {want}")
    name = builder.hinted_name(f"{src.name}_view")
    buffer = builder.alloc([as_scalar(d) for d in spec.shape], spec.dtype, "global", name)
    builder.emit(tile_op("view", full_region(buffer), full_region(src), span=builder.span()))
    return buffer


def _size(shape, dtype: str):
    """Bits of a tensor."""
    total = _bits(dtype)
    for d in shape:
        d = d if (known := const_int(d)) is None else known
        total = binop("Mult", total, d)
    return total


type(Tensor).view = staticmethod(tensor_view)


def make_tensor(ptr, shape, dtype="float32", strides=None):
    """The tensor behind an argument declared as `T.ptr`, of the shape of the tensor a call passes for it. A second one of the same pointer,
    and one of a tensor or its `data`, is a view of the first."""
    spec = make_spec(tuple(plain(d) for d in shape) if isinstance(shape, (tuple, list)) else plain(shape), dtype, strides)
    if isinstance(ptr, Storage) or is_buffer(ptr):
        return tensor_view(ptr if isinstance(ptr, Storage) else Storage(ptr), spec)
    if not isinstance(ptr, Pointer):
        hint = "give it a parameter declared as T.ptr, or a tensor; addresses in tensors and numbers cannot be followed: pass the tensors"
        raise InvalidArgument(f"T.make_tensor of {ptr!r}", hint=hint)
    builder = Builder.current("T.make_tensor")
    for dim in (*spec.shape, *(spec.strides or ())):
        if const_int(dim) is None and not all(_known_to_host(builder, v) for v in free_vars(dim)):
            raise InvalidArgument(
                f"T.make_tensor: {dim} is known to the kernel only", hint="dimensions are numbers and scalar parameters of the kernel"
            )
    if ptr.tensor is None:
        ptr.tensor = decl_buffer(
            list(spec.shape), spec.dtype, ptr.name, strides=None if spec.strides is None else list(spec.strides), scope="global"
        )
        if builder.eager is not None:
            builder.eager.made_tensor(ptr, spec)
        return ptr.tensor
    return tensor_view(Storage(ptr.tensor), spec)


def _known_to_host(builder: Builder, v) -> bool:
    """Scalar parameters, and in eager kernels names that are read off the tensors of a call."""
    known = any(v.same_as(p) for p in builder.scalars) if isinstance(v, Var) else False
    return known or (builder.eager is not None and builder.eager.reads(v))


def make_tensor_from_addr(addr, shape, dtype="float32", strides=None, storage_scope="global"):
    """`T.make_tensor`: the address is a parameter declared as `T.ptr`, a tensor or its `data`. Numbers are no addresses here."""
    if storage_scope != "global":
        raise InvalidArgument(f"T.make_tensor_from_addr in {storage_scope!r}", hint="tiles are allocated: T.alloc_shared(shape, dtype)")
    return make_tensor(addr, shape, dtype, strides)


def reshape(src, shape):
    """The storage of `src` seen with another shape of as many elements."""
    return view(src, shape)


NAMES = ("view", "reshape", "make_tensor", "make_tensor_from_addr")
