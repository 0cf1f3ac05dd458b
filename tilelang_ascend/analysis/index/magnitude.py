"""How large integer expressions may become."""

from __future__ import annotations

from ...ir import For, IntImm, Var, as_dtype, const_int, dtype_of, expr_children, is_choice, itemsize, tirx, walk_expr

LEAST_HASH_FACTOR = 1 << 20
"""Odd factors from here on are no strides."""


def is_hash(e) -> bool:
    """True for a product with a factor that no index has."""
    factors = [abs(int(x.value)) for x in (e.a, e.b) if isinstance(x, IntImm)] if isinstance(e, tirx.Mul) else []
    return any(n >= LEAST_HASH_FACTOR and n % 2 == 1 for n in factors[:1])


def magnitude(e, bounds: dict, unknown: int | None = None) -> int | None:
    """A bound of the absolute value of an integer expression, None if there is none that its dtype holds (of 32 bits at least).

    bounds: those of variables. unknown: what counts as the bound of others.
    """
    found = _magnitude(e, bounds, unknown)
    return found if found is not None and found < 1 << (63 if dtype_of(e) in ("int64", "uint64") else 31) else None


def _magnitude(e, bounds: dict, unknown: int | None) -> int | None:
    bits = 8 * itemsize(dtype_of(e)) if "int" in dtype_of(e) else 64
    leaf = (1 << bits) - 1 if bits < 32 else unknown
    if isinstance(e, IntImm):
        return abs(int(e.value))
    if isinstance(e, Var):
        return bounds.get(e, leaf)
    if isinstance(e, tirx.Cast):
        inner = magnitude(e.value, bounds, unknown) if _keeps_size(dtype_of(e.value), dtype_of(e)) else None
        return inner if bits >= 32 and inner is not None else leaf
    if isinstance(e, tirx.FloorMod) and isinstance(e.b, IntImm):
        return abs(int(e.b.value))
    if isinstance(e, (tirx.FloorDiv, tirx.FloorMod, tirx.Div, tirx.Mod)):
        return magnitude(e.a, bounds, unknown) if not isinstance(e, tirx.FloorMod) else magnitude(e.b, bounds, unknown)
    if isinstance(e, tirx.BitwiseAnd):
        return min((int(x.value) for x in (e.a, e.b) if isinstance(x, IntImm) and int(x.value) >= 0), default=leaf)
    sides = _sides(e)
    if sides is None:
        return leaf
    if bits < 32:
        return leaf
    found = [magnitude(x, bounds, unknown) for x in sides]
    if None in found:
        return None
    return found[0] * found[1] if isinstance(e, tirx.Mul) else sum(found) if isinstance(e, (tirx.Add, tirx.Sub)) else max(found)


def is_long(size) -> bool:
    """True for the size of a dimension that an int32 need not hold, as a product of two sizes that are known when the kernel runs."""
    known = const_int(size)
    if known is not None:
        return known >= 1 << 31
    found: list = []
    walk_expr(size, lambda x: found.append(x) if isinstance(x, tirx.Mul) and None is const_int(x.a) is const_int(x.b) else None)
    return bool(found) or dtype_of(size) in ("int64", "uint64")


def long_size(size):
    """A size as an int64, however small the numbers are that it is made of."""
    return type(size)(long_size(size.a), long_size(size.b)) if isinstance(size, (tirx.Add, tirx.Sub, tirx.Mul)) else as_dtype(size, "int64")


def _keeps_size(source: str, target: str) -> bool:
    """May a bound of integers of one dtype be one of what they become? A negative number becomes a large unsigned one."""
    return source.startswith("uint") or source.startswith("int") and not target.startswith("uint")


def _sides(e) -> tuple | None:
    """The expressions whose bounds tell that of `e`, None if they do not. Differences of unsigned numbers wrap."""
    if is_choice(e):
        return tuple(expr_children(e)[1:])
    if isinstance(e, (tirx.Add, tirx.Mul, tirx.Min, tirx.Max)) or isinstance(e, tirx.Sub) and not dtype_of(e).startswith("uint"):
        return e.a, e.b
    return None


def loop_magnitude(s: For, bounds: dict) -> int | None:
    """A bound of the absolute value of a loop variable."""
    first, extent = magnitude(s.min, bounds), magnitude(s.extent, bounds)
    return None if None in (first, extent) else first + max(extent - 1, 0)


__all__ = ["is_hash", "is_long", "long_size", "loop_magnitude", "magnitude"]
