"""The mode of atomic transfers."""

from __future__ import annotations

from ...errors import UnsupportedConstruct
from ...ir import Evaluate, Stmt, dtype_of, intrin, reinterpret, seq
from ...isa.sync import ATOMIC_DTYPES
from ...tile import tile_op_of

_MODES = {"sum": "add", "max": "max", "min": "min"}
_SIGNED = {"uint8": "int8", "uint16": "int16", "uint32": "int32"}


def atomic_mode(stmt: Evaluate, dtype: str) -> tuple[str, str]:
    """(operation, dtype) of the transfers to GM that update elements of `dtype` as `stmt` asks for.

    Sums of unsigned numbers have the bits of signed ones. A bool is a byte 0 or 1: the sum of two is the greater one.
    """
    mode = _MODES[tile_op_of(stmt).combine]
    if dtype in ATOMIC_DTYPES:
        return mode, dtype
    if dtype == "bool":
        return ("min" if mode == "min" else "max"), "int8"
    if mode == "add" and dtype in _SIGNED:
        return mode, _SIGNED[dtype]
    known = (*ATOMIC_DTYPES, "bool", *(_SIGNED if mode == "add" else ()))
    what = "sums" if mode == "add" else f"{mode}ima"
    raise UnsupportedConstruct(f"no atomic {what} of {dtype} in global memory", at=stmt.span, hint="use one of: " + ", ".join(known))


def atomic_operand(stmt: Evaluate, operand):
    """An operand of the transfer of an atomic update, as the dtype whose elements it updates."""
    _, dtype = atomic_mode(stmt, dtype_of(operand))
    return operand if dtype == dtype_of(operand) else reinterpret(operand, dtype)


def atomically(stmt: Evaluate, transfer: Stmt, dtype: str) -> Stmt:
    """`transfer` of elements of `dtype` to GM (see `atomic_operand`) in the mode the atomic update `stmt` asks for."""
    mode, carrier = atomic_mode(stmt, dtype)
    start = intrin("set_atomic", op=mode, dtype=carrier, span=stmt.span)
    return seq(start, transfer, intrin("set_atomic", op="none", dtype="float32", span=stmt.span))


__all__ = ["atomic_operand", "atomically"]
