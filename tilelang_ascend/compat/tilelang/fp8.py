"""`tilelang.language.fp8`: which 8-bit floats a device has; those of CUDA here."""

from __future__ import annotations

from typing import Any

from tilelang_ascend.errors import InvalidArgument
from tilelang_ascend.frontend.annotations import DType

__all__ = ["determine_fp8_type", "determine_torch_fp8_type"]

_FORMATS = {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}


def determine_fp8_type(fp8_format: str = "e4m3", device: Any = None) -> DType:
    """The dtype of a format, ``e4m3`` or ``e5m2``."""
    if fp8_format not in _FORMATS:
        raise InvalidArgument(f"the 8-bit float format {fp8_format!r}", hint=f"use one of: {', '.join(_FORMATS)}")
    return DType(_FORMATS[fp8_format])


def determine_torch_fp8_type(fp8_format: str = "e4m3", device: Any = None) -> Any:
    """The dtype of torch of a format."""
    return determine_fp8_type(fp8_format, device).as_torch()
