"""Element types by name (`float16`, `bfloat16`, …) and their torch and numpy objects.

torch is optional: nothing here imports it unless the caller already uses it.
"""

from __future__ import annotations

import functools

import numpy as np

_ALIASES = {"float": "float32", "half": "float16", "double": "float64", "int": "int32", "bfloat": "bfloat16"}
_ML_DTYPES = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu")


@functools.lru_cache(maxsize=None)
def numpy_dtype(name: str) -> np.dtype:
    """The numpy dtype called `name`; bfloat16 and float8 come from `ml_dtypes`."""
    if name in _ML_DTYPES:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))
    return np.dtype(name)


@functools.lru_cache(maxsize=None)
def torch_dtype(name: str):
    """The torch dtype called `name`."""
    import torch

    return getattr(torch, name)


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
