"""Element types as objects: ``T.float16``, ``T.dtype('float16')``, ``T.float32(x)``."""

from __future__ import annotations

from ..frontend.annotations import _ALIASES, DTYPE_NAMES, DType, dtype_name

dtype = DType
globals().update({name: DType(name) for name in DTYPE_NAMES})
globals().update({alias: DType(name) for alias, name in _ALIASES.items()})


def get_tvm_dtype(value) -> DType:
    """The dtype object for a name, a Python, NumPy or torch type."""
    return DType(dtype_name(value))


NAMES = ("dtype", "get_tvm_dtype", *DTYPE_NAMES, *_ALIASES)
