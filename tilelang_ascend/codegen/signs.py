"""What is known of the sign of an integer expression."""

from __future__ import annotations

from ..ir import IntImm, TensorLoad, Var, dtype_of, itemsize, tirx


def is_nonnegative(e, known: set) -> bool:
    """True when an integer expression cannot be negative, given variables `known` not to be."""
    if isinstance(e, IntImm):
        return int(e.value) >= 0
    if isinstance(e, (Var, TensorLoad)):
        return e in known or dtype_of(e).startswith("uint")
    if isinstance(e, tirx.Cast):
        source, target = dtype_of(e.value), dtype_of(e)
        # Half of the unsigned numbers of a width are negative as signed ones.
        spare = 1 if source.startswith("uint") and target.startswith("int") else 0
        return "int" in source and itemsize(source) + spare <= itemsize(target) and is_nonnegative(e.value, known)
    if isinstance(e, tirx.FloorMod):
        return is_nonnegative(e.b, known)
    if isinstance(e, (tirx.Add, tirx.Mul, tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.Min)):
        return is_nonnegative(e.a, known) and is_nonnegative(e.b, known)
    if isinstance(e, tirx.Max):
        return is_nonnegative(e.a, known) or is_nonnegative(e.b, known)
    return False


def is_below(e, limit: int) -> bool:
    """True when an integer expression is known to lie in 0 … limit - 1."""
    if isinstance(e, IntImm):
        return 0 <= int(e.value) < limit
    if isinstance(e, tirx.FloorMod):
        return isinstance(e.b, IntImm) and 0 < int(e.b.value) <= limit
    if isinstance(e, tirx.BitwiseAnd):
        return any(isinstance(x, IntImm) and 0 <= int(x.value) < limit for x in (e.a, e.b))
    if isinstance(e, tirx.Mul):
        return isinstance(e.b, IntImm) and int(e.b.value) > 0 and is_below(e.a, (limit - 1) // int(e.b.value) + 1)
    return isinstance(e, tirx.Cast) and "int" in dtype_of(e.value) and is_below(e.value, min(limit, 128))


def is_nonzero(e) -> bool:
    """True when an integer expression cannot be 0."""
    if isinstance(e, IntImm):
        return int(e.value) != 0
    if isinstance(e, tirx.Max):
        return any(isinstance(x, IntImm) and int(x.value) > 0 for x in (e.a, e.b))
    widens = isinstance(e, tirx.Cast) and "int" in dtype_of(e.value) and itemsize(dtype_of(e.value)) <= itemsize(dtype_of(e))
    return widens and is_nonzero(e.value)
