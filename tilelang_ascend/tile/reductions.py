"""Reductions and scans in parts: what each part is combined with, and in which dtype, so that the result is that of the whole."""

from __future__ import annotations

from ..ir import imm, itemsize
from .atomics import neutral


def start(kind: str, dtype: str):
    """The value of `dtype` that changes no reduction of this kind."""
    if kind == "bitand":
        return imm(-1, dtype) if dtype.startswith("int") else neutral("min", dtype)
    if kind == "absmax" and dtype.startswith("int"):
        return neutral("max", dtype)  # The magnitude of the lowest number is itself.
    return neutral(kind, dtype) if kind in ("max", "min", "sum") else imm(kind == "all", dtype)


def carried_in(kind: str, source: str, result: str, clear: bool) -> str | None:
    """dtype in which the result of some parts waits for the next, so that only the last rounds or wraps; None where none would give what
    the whole gives."""
    if kind in ("any", "all"):
        return source if clear or source == result else result if result == "bool" else None
    floats = ["float" in dtype for dtype in (source, result)]
    if floats[1] and not floats[0]:
        return "float32" if not kind.startswith("bit") else source if clear else None
    if floats[0] and not floats[1]:
        return "float32" if clear else None  # The sum of all parts is cut off, before what the destination holds is added.
    if floats[0]:
        holds = itemsize(result) >= max(2, itemsize(source)) and {source, result} != {"float16", "bfloat16"}
        exact = kind in ("max", "min", "absmax") and holds
        return result if exact or itemsize(result) >= 4 else "float32"
    if kind in ("sum", "abssum", "bitand", "bitor", "bitxor"):
        return result  # Modulo 2^n.
    if kind == "absmax" and source.startswith("int") and itemsize(result) >= itemsize(source):
        return result  # Holds all magnitudes, or wraps like them.
    if _holds(result, source):
        return result
    if clear or _holds(source, result):
        return source
    bits = 16 * max(itemsize(source), itemsize(result))  # Of signed numbers beside unsigned ones.
    return f"int{bits}" if bits <= 64 else None


def scan_carried_in(maximum: bool, source: str, result: str, count: int) -> str | None:
    """dtype in which a running sum or maximum of some parts of `count` elements waits for the next; None where none would give what the whole
    gives."""
    if "float64" in (source, result):
        return None
    if maximum:
        return source
    if "float" in source:
        return "float32"
    if "float" not in result:
        return result  # Modulo 2^n.
    if itemsize(source) < 4:
        return "int32" if count << 8 * itemsize(source) <= 2**31 else "int64"
    return source if source == "int64" else "float32"


def _holds(dtype: str, other: str) -> bool:
    """True if integers of `dtype` are enough for all of `other`."""
    signed, other_signed = dtype.startswith("int"), other.startswith("int")
    if signed == other_signed:
        return itemsize(dtype) >= itemsize(other)
    return signed and itemsize(dtype) > itemsize(other)


__all__ = ["carried_in", "scan_carried_in", "start"]
