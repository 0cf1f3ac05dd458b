"""Scalars as the values of a printf."""

from __future__ import annotations

from .base import tirx
from .build import dtype_of, itemsize

__all__ = ["conversion", "printable"]


def printable(value):
    """`value` as a number every printf takes: an integer of 32 or 64 bits, or a float32."""
    dtype = dtype_of(value)
    if "float" in dtype:
        return value if dtype == "float32" else tirx.Cast("float32", value)
    if dtype == "bool" or itemsize(dtype) < 4:
        return tirx.Cast("uint32" if dtype.startswith("uint") else "int32", value)
    return value


def conversion(value) -> str:
    """The conversion that prints a printable value."""
    dtype = dtype_of(value)
    if dtype == "float32":
        return "%f"
    return "%" + ("l" if itemsize(dtype) == 8 else "") + ("u" if dtype.startswith("uint") else "d")
