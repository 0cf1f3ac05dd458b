"""Types a kernel signature can name: element types and tensor annotations.

A dtype is a `str` ("float16"), so it can be handed to anything that takes a dtype name; it can also be called
(``T.float32(x)`` converts) and used as the annotation of a run-time scalar.
"""

from __future__ import annotations

import dataclasses
import operator
from typing import Any, Callable, SupportsIndex

from ..errors import DtypeMismatch, InvalidArgument
from ..ir import const_int, dtype_of, itemsize
from ..runtime.dtypes import NIBBLES, torch_dtype
from .locations import user_location
from .values import is_expr

_ALIASES = {
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "short": "int16",
    "int": "int32",
    "uint": "uint32",
    "long": "int64",
    "float8_e4m3": "float8_e4m3fn",
    "bfloat": "bfloat16",
    "tfloat32": "float32",
    "boolean": "bool",
}

DTYPE_NAMES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 "
    "float8_e4m3fn float8_e4m3fnuz float8_e4m3b11fnuz float8_e3m4 float8_e5m2 float8_e5m2fnuz float8_e8m0fnu "
    "int4 uint4 float4_e2m1fn"
).split()


UNKNOWN_FLOATS = ("float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e3m4", "float8_e5m2fnuz")
"""Names of dtypes no instruction knows; a kernel can hold their bytes."""


def known_to_kernels(dtype: str) -> str:
    """`dtype`, if a kernel can hold and convert it. Raises DtypeMismatch for other names."""
    if dtype in UNKNOWN_FLOATS:
        raise DtypeMismatch(
            f"kernels do not hold {dtype}: nothing on the chips converts it",
            hint="declare it as uint8 and pass X.view(torch.uint8), which are the same bytes; T.reinterpret gives bits",
            at=user_location(),
        )
    return dtype


class DType(str):
    """Name of an element type. `DType(x)` accepts a name, a Python, NumPy or torch type, or another DType."""

    # Set by the language: how a value is converted to a dtype. Kept here so that dtypes need no builder.
    convert: Callable[[Any, str], Any] | None = None
    declare: Callable[[str], Any] | None = None

    def __new__(cls, value: Any = "float32"):
        return str.__new__(cls, dtype_name(value))

    def __call__(self, value: Any = None):
        """`T.float32(x)`: x converted to this dtype. `T.float32()`: a mutable scalar without a value, as from `T.alloc_var`."""
        if value is None:
            return DType.declare(self)
        return DType.convert(value, self)

    @property
    def bits(self) -> int:
        """Bits of one element in memory."""
        return 4 if self in NIBBLES else itemsize(self) * 8

    @property
    def bytes(self) -> int:
        """Bytes of one element in memory; of dtypes of 4 bits of one alone."""
        return itemsize(self)

    itemsize = bytes
    lanes = 1

    @property
    def name(self) -> str:
        """The name alone, as a plain string."""
        return str(self)

    def as_torch(self):
        """The dtype of torch with this name: ``torch.empty(n, dtype=T.float16.as_torch())``. Dtypes of 4 bits are passed two in an element."""
        import torch

        found = torch_dtype(str(self)) if self in NIBBLES else getattr(torch, str(self), None)
        if found is None:
            raise DtypeMismatch(f"torch has no dtype {self}", at=user_location())
        return found

    def as_numpy(self):
        """The NumPy dtype with this name; bfloat16 and the 8-bit floats are those of `ml_dtypes`."""
        import numpy

        if hasattr(numpy, str(self)):
            return numpy.dtype(str(self))
        import ml_dtypes

        return numpy.dtype(getattr(ml_dtypes, str(self)))

    def __eq__(self, other) -> bool:
        """Equal to its name, and to the torch or NumPy dtype of that name."""
        if isinstance(other, str):
            return str.__eq__(self, other)
        kind = other if isinstance(other, type) else type(other)
        if not kind.__module__.startswith(("torch", "numpy")) or not (other is kind or kind.__name__.lower().endswith("dtype")):
            return NotImplemented
        try:
            return str.__eq__(self, dtype_name(other))
        except DtypeMismatch:
            return False

    def __ne__(self, other) -> bool:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    __hash__ = str.__hash__

    def __repr__(self) -> str:
        return f"T.{str(self)}"


def dtype_name(value: Any) -> str:
    """Canonical dtype name of a name, a `DType`, a Python / NumPy / torch / TVM type."""
    known = {bool: "bool", int: "int32", float: "float32"}
    if getattr(value, "_tl_annotation", False) or isinstance(value, PointerSpec):  # T.ptr, or what it makes
        raise DtypeMismatch(
            "addresses are no numbers of a tensor: what they point at is no argument of the kernel, so nothing of it can be checked or moved",
            hint="pass one tensor in which the parts follow each other, and where each begins as int32: `A[start[g] + i, k]`; T.ptr alone is an argument",
            at=user_location(),
        )
    if isinstance(value, type) and value in known:
        return known[value]
    name = str(getattr(value, "dtype", value)) if not isinstance(value, (str, type)) else value
    if isinstance(name, type):
        name = name.__name__
    name = str(name).removeprefix("torch.")
    name = _ALIASES.get(name, name)
    if name not in DTYPE_NAMES:
        raise DtypeMismatch(f"{value!r} is not a dtype", hint="use one of: " + ", ".join(DTYPE_NAMES), at=user_location())
    return name


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """What `T.Tensor(shape, dtype)` says: a tensor in GM. Row-major when `strides` (in elements) is None."""

    shape: tuple
    dtype: str
    strides: tuple | None = None


@dataclasses.dataclass(frozen=True)
class PointerSpec:
    """What `T.ptr` says: a tensor argument whose shape and dtype the kernel gives by `T.make_tensor`."""

    dtype: str | None = None


class Pointer:
    """An argument declared as `T.ptr`; `tensor` is what the kernel makes of it first."""

    def __init__(self, name: str):
        self.name, self.tensor = name, None


def make_spec(shape, dtype="float32", strides=None) -> TensorSpec:
    """Normalise the arguments of `T.Tensor`.

    Raises: InvalidArgument for a dimension or stride that is no integer or is negative.
    """
    shape, strides = _dims(shape, "dimension"), None if strides is None else _dims(strides, "stride")
    if strides is not None and len(strides) != len(shape):
        text = f"a tensor of {len(shape)} dimensions has {len(strides)} strides"
        raise InvalidArgument(text, hint="one stride, in elements, for each dimension", at=user_location())
    return TensorSpec(shape, known_to_kernels(dtype_name(dtype)), strides)


def _dims(values, what: str) -> tuple:
    alone = isinstance(values, str) or not hasattr(values, "__iter__")
    return tuple(_dim(v, k, what) for k, v in enumerate((values,) if alone else tuple(values)))


def _dim(value, axis: int, what: str):
    """An integer as a Python one, an expression of the IR as it is."""
    number = const_int(value)
    if number is None and isinstance(value, SupportsIndex):
        number = operator.index(value)
    if number is not None and number < 0:
        raise InvalidArgument(f"{what} {axis} of a tensor is {number}", hint="sizes are 0 or more", at=user_location())
    if number is not None and number >= 2**63:
        raise InvalidArgument(f"{what} {axis} of a tensor is {number}", hint="sizes fit 64 bits", at=user_location())
    if number is not None:
        return number
    if not is_expr(value) or not dtype_of(value).startswith(("int", "uint")):
        hint = f"T.dynamic({value!r}) declares a size known at run time" if isinstance(value, str) and value.isidentifier() else None
        what = f"{what} {axis} of a tensor is {value!r} of type {type(value).__name__}, an integer is needed"
        raise InvalidArgument(what, hint=hint, at=user_location())
    return value


class _TensorAnnotation:
    """`T.Tensor((M, N), dtype)` or `T.Tensor[[M, N], dtype]`: a tensor argument in GM, contiguous and row-major."""

    # Set by the language: `data` seen with another shape and dtype.
    view: Callable[..., Any] | None = None

    def __call__(self, shape, dtype="float32", data=None, scope=None) -> TensorSpec:
        spec = make_spec(shape, dtype)
        return spec if data is None else _TensorAnnotation.view(data, spec)

    def __getitem__(self, item) -> TensorSpec:
        if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], (tuple, list)):
            return make_spec(*item)
        if isinstance(item, tuple) and item and isinstance(item[-1], str):
            return make_spec(item[:-1], item[-1])
        return make_spec(item)


class _StridedTensorAnnotation(_TensorAnnotation):
    """`T.StridedTensor(shape, strides, dtype)`: strides are in elements."""

    def __call__(self, shape, strides, dtype="float32", scope=None, *, data=None) -> TensorSpec:
        spec = make_spec(shape, dtype, strides)
        return spec if data is None else _TensorAnnotation.view(data, spec)

    def __getitem__(self, item) -> TensorSpec:
        shape, strides, *dtype = item
        return make_spec(shape, *(dtype or ["float32"]), strides=strides)


class _BufferAnnotation(_TensorAnnotation):
    """`T.Buffer(shape, dtype)`: the older spelling of `T.Tensor`."""

    def __call__(self, shape, dtype="float32", data=None, strides=None, *_args, **_kwargs) -> TensorSpec:
        spec = make_spec(shape, dtype, strides)
        return spec if data is None else _TensorAnnotation.view(data, spec)


Tensor = _TensorAnnotation()
StridedTensor = _StridedTensorAnnotation()
Buffer = _BufferAnnotation()


class Ref:
    """Parameter annotation of a macro: the argument (a mutable scalar or an element) is passed by reference."""


_FLOAT_RANK = {"float16": 16, "bfloat16": 16, "float32": 32, "float64": 64}


def is_float(dtype: str) -> bool:
    """True for every floating-point type, 8-bit ones included."""
    return str(dtype).startswith(("float", "bfloat"))


def join_dtypes(a: str, b: str) -> str:
    """The narrowest dtype that holds values of both: bool < integers < floats; float16 with bfloat16 gives float32."""
    a, b = str(a), str(b)
    if a == b:
        return a
    if is_float(a) or is_float(b):
        if not is_float(a):
            return b
        if not is_float(b):
            return a
        wide = max(_FLOAT_RANK.get(a, 8), _FLOAT_RANK.get(b, 8))
        if _FLOAT_RANK.get(a, 8) == _FLOAT_RANK.get(b, 8):
            wide = 32
        return next(n for n in (a, b, f"float{wide}") if _FLOAT_RANK.get(n, 8) == wide)
    if a == "bool":
        return b
    if b == "bool":
        return a
    signed = not (a.startswith("u") and b.startswith("u"))
    bits = max(DType(a).bits, DType(b).bits)
    if a.startswith("u") != b.startswith("u"):
        unsigned = DType(a if a.startswith("u") else b).bits
        bits = min(64, max(bits, 2 * unsigned))
    return f"{'int' if signed else 'uint'}{bits}"
