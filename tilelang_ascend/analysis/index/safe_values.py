"""What elements outside of the tensors of a function read as."""

from __future__ import annotations

from ...ir import PrimFunc


def safe_values(func: PrimFunc) -> dict:
    """GM buffer -> number its outside reads as, for those where it is not 0."""
    values = func.attrs.get("tl.safe_values", []) if func.attrs else []
    pairs = [(func.params[int(index)], getattr(value, "value", value)) for index, value in values]
    return {buffer: value for buffer, value in pairs if value != 0}


__all__ = ["safe_values"]
