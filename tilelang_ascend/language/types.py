"""IR classes under the names users know, for annotations and `isinstance` in helper functions."""

from __future__ import annotations

from ..ir import Call, Expr, PrimFunc, Range, StringImm, TensorLoad, Var, tirx

PrimExpr = Expr
BufferLoad = TensorLoad
IntImm, FloatImm = tirx.IntImm, tirx.FloatImm
Add, Sub, Mul, Div, Mod = tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Mod
FloorDiv, FloorMod, Min, Max = tirx.FloorDiv, tirx.FloorMod, tirx.Min, tirx.Max
EQ, NE, LT, LE, GT, GE = tirx.EQ, tirx.NE, tirx.LT, tirx.LE, tirx.GT, tirx.GE

__all__ = [
    "PrimFunc", "PrimExpr", "Range", "StringImm", "Var", "BufferLoad", "Call", "IntImm", "FloatImm", "Add", "Sub",
    "Mul", "Div", "Mod",
    "FloorDiv", "FloorMod", "Min", "Max", "EQ", "NE", "LT", "LE", "GT", "GE",
]  # fmt: skip

NAMES = tuple(__all__)
