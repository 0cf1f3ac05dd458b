"""Comparisons in the form LLVM code generation takes.

TVM prints comparisons of booleans, their minimum and maximum as float instructions, which LLVM refuses, and ``!=`` of floats as an
ordered comparison, which is false for NaN. Here booleans are compared as 8-bit integers, and ``a != b`` becomes ``not a == b``. The
minimum and maximum of floats are those of the vector unit: NaN wins, and -0 lies below 0.
"""

from __future__ import annotations

from ..ir import dtype_of, tirx

ORDERS = (tirx.EQ, tirx.NE, tirx.LT, tirx.LE, tirx.GT, tirx.GE)
_OF_BOOLS = {tirx.Min: tirx.And, tirx.Max: tirx.Or}
_FLOATS = ("float32", "float16", "bfloat16")
_OF_FLOATS = {tirx.Min: "tla_min_float", tirx.Max: "tla_max_float"}


def needs_rewrite(e) -> bool:
    """True for the nodes `rewrite` changes (its operands aside)."""
    if type(e) in _OF_BOOLS:
        return dtype_of(e) in ("bool", *_FLOATS)
    return type(e) in ORDERS and (dtype_of(e.a) == "bool" or type(e) is tirx.NE and "float" in dtype_of(e.a))


def rewrite(e):
    """`e` (operands already rewritten) without comparisons LLVM code generation gets wrong; other nodes unchanged."""
    if not needs_rewrite(e):
        return e
    if type(e) in _OF_BOOLS and dtype_of(e) != "bool":
        a, b = (x if dtype_of(x) == "float32" else tirx.Cast("float32", x) for x in (e.a, e.b))
        result = tirx.call_pure_extern("float32", _OF_FLOATS[type(e)], a, b)
        return result if dtype_of(e) == "float32" else tirx.Cast(dtype_of(e), result)
    if type(e) in _OF_BOOLS:
        return _OF_BOOLS[type(e)](e.a, e.b)
    if dtype_of(e.a) == "bool":
        return type(e)(tirx.Cast("int8", e.a), tirx.Cast("int8", e.b))
    return tirx.Not(tirx.EQ(e.a, e.b))
