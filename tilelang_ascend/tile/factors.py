"""Dtypes of products: what operands of a gemm can become without loss."""

from __future__ import annotations

FACTORS = ("float16", "bfloat16", "float32")
"""Floats that operands are converted to, the fastest first."""

_EXACT = {
    "float16": {"float16", "int8", "uint8", "float8_e4m3fn", "float8_e4m3", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"},
    "bfloat16": {"bfloat16", "int8", "uint8", "float8_e4m3fn", "float8_e4m3", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"},
}
for _held in _EXACT.values():
    _held |= {"int4", "uint4", "float4_e2m1fn"}
_EXACT["float32"] = {*FACTORS, *_EXACT["float16"], "int16", "uint16"}
"""Dtype -> dtypes all of whose numbers it holds."""

BYTES = {"int8", "uint8"}
"""Integers whose products the cube core adds up exactly."""


def factors(a: str, b: str) -> list[str]:
    """Floats that hold all numbers of both dtypes."""
    return [dtype for dtype in FACTORS if {a, b} <= _EXACT[dtype]]


def factor_dtype(a: str, b: str) -> str | None:
    """The dtype in which numbers of both are multiplied; None if there is none that holds both."""
    if a == b or {a, b} == BYTES:
        return "int8" if {a, b} == BYTES else a
    return next(iter(factors(a, b)), None)


__all__ = ["BYTES", "factor_dtype", "factors"]
