"""Reductions in parts: what each part is combined with, and in which dtype, so that the result is that of the whole."""

from __future__ import annotations

from ..ir import imm, itemsize
from .atomics import neutral


def start(kind: str, dtype: str):
    """The value of `dtype` that changes no reduction of this kind."""
    if kind in ("max", "min", "bitand") and dtype == "bool":
        return imm(kind != "max", dtype)
    if kind == "bitand":
        return imm(-1, dtype) if dtype.startswith("int") else neutral("min", dtype)
    return neutral(kind, dtype) if kind in ("max", "min") else imm(kind == "all", dtype)


def carried_in(kind: str, source: str, result: str, clear: bool) -> str | None:
    """dtype in which the result of some parts waits for the next, so that only the last rounds or wraps; None where none would give what
    the whole gives."""
    if kind in ("any", "all"):
        return source if clear or source == result else None
    floats = ["float" in dtype for dtype in (source, result)]
    if floats[0] != floats[1]:
        return None  # Integers as floats round at each part, floats as integers are cut off.
    if floats[0]:
        holds = itemsize(result) >= max(2, itemsize(source)) and {source, result} != {"float16", "bfloat16"}
        exact = kind in ("max", "min", "absmax") and holds
        return result if exact or itemsize(result) >= 4 else "float32"
    if kind in ("sum", "abssum", "bitand", "bitor", "bitxor"):
        return result  # Modulo 2^n.
    return result if _holds(result, source) else source


def _holds(dtype: str, other: str) -> bool:
    """True if integers of `dtype` are enough for all of `other`."""
    signed, other_signed = dtype.startswith("int"), other.startswith("int")
    if signed == other_signed:
        return itemsize(dtype) >= itemsize(other)
    return signed and itemsize(dtype) > itemsize(other)


__all__ = ["carried_in", "start"]
