"""Element types by name (`float16`, `bfloat16`, …) and their torch and numpy objects.

torch is optional: nothing here imports it unless the caller already uses it.
"""

from __future__ import annotations

import functools

import numpy as np

_ALIASES = {"float": "float32", "half": "float16", "double": "float64", "int": "int32", "bfloat": "bfloat16"}
_ML_DTYPES = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu")
NIBBLES = frozenset(("int4", "uint4", "float4_e2m1fn"))
"""Dtypes of 4 bits. Two numbers share a byte, the one with the even index in its low half."""
_PACKED = {"int4": ("int8", "uint8"), "uint4": ("uint8", "int8"), "float4_e2m1fn": ("float4_e2m1fn_x2", "uint8", "int8")}


@functools.lru_cache(maxsize=None)
def numpy_dtype(name: str) -> np.dtype:
    """The numpy dtype called `name`; bfloat16 and float8 come from `ml_dtypes`. For dtypes of 4 bits, that of their bytes."""
    if name in NIBBLES or name.endswith("_x2"):
        return np.dtype("int8" if name == "int4" else "uint8")
    if name in _ML_DTYPES:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))
    return np.dtype(name)


@functools.lru_cache(maxsize=None)
def torch_dtype(name: str):
    """The torch dtype called `name`; for dtypes of 4 bits, that of their bytes."""
    import torch

    return getattr(torch, packed(name, True)[0])


def packed(name: str, is_torch: bool) -> tuple[str, ...]:
    """Names of the dtypes of tensors that hold `name`, the one such tensors are made of first."""
    names = _PACKED.get(name, (name,))
    return names if is_torch else tuple(n for n in names if not n.endswith("_x2"))


def nearest_float4(value: float) -> float:
    """The float4_e2m1fn next to a number, halves to the even code; 6 or -6 where it is too large, and 6 for NaN (docs/numbers.md)."""
    import ml_dtypes

    return 6.0 if value != value else float(ml_dtypes.float4_e2m1fn(value))


def counted(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Shape in numbers of `name` of a tensor of this shape that holds them."""
    return (*shape[:-1], 2 * shape[-1]) if name in NIBBLES else shape


def stored(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Shape of the tensor that holds a shape of numbers of `name`; reverses `counted`."""
    return (*shape[:-1], (shape[-1] + 1) // 2) if name in NIBBLES else shape


def counted_strides(name: str, strides: tuple[int, ...]) -> tuple[int, ...]:
    """Strides as those of a parameter of dtype `name` are declared, of a tensor that holds it."""
    return (*(2 * s for s in strides[:-1]), *strides[-1:]) if name in NIBBLES else strides


def stored_strides(name: str, strides: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of the tensor that holds a parameter; reverses `counted_strides`."""
    return (*(s // 2 for s in strides[:-1]), *strides[-1:]) if name in NIBBLES else strides


def dtype_name(dtype) -> str:
    """Canonical name of a torch or numpy dtype, of a dtype's name, or of anything whose `str` is one."""
    if isinstance(dtype, np.dtype):
        return dtype.name if dtype.isnative else dtype.str
    text = str(dtype)
    text = text.removeprefix("torch.")
    return _ALIASES.get(text, text)


@functools.lru_cache(maxsize=None)
def itemsize(name: str) -> int:
    """Bytes of one element in memory."""
    return numpy_dtype(name).itemsize


def is_float(name: str) -> bool:
    """True for floating-point element types."""
    return name.startswith(("float", "bfloat"))
