"""Integer expressions in the form LLVM code generation takes: floor division, constants that wrap, unsigned sums that do.

TVM lowers floor division with `Let` and folds conversions of constants in its simplifier; both fail on legal programs
(a repeated `Let` variable, a constant the target dtype does not hold). Its unsigned 32-bit sums promise LLVM that they do not wrap.
Here they are rewritten before TVM sees them.
"""

from __future__ import annotations

from ..codegen.signs import is_nonnegative
from ..ir import IntImm, dtype_of, itemsize, tirx

#: node -> (truncating node that equals it for operands that are not negative, function of the native library)
FLOOR = {tirx.FloorDiv: (tirx.truncdiv, "tla_floor_div"), tirx.FloorMod: (tirx.truncmod, "tla_floor_mod")}

WRAPPING = (tirx.Add, tirx.Sub, tirx.Mul)


def wrapped(value: int, dtype: str) -> int:
    """`value` as an integer dtype holds it."""
    bits = 8 * itemsize(dtype)
    value %= 1 << bits
    return value - (1 << bits) if dtype.startswith("int") and value >> (bits - 1) else value


def needs_rewrite(e) -> bool:
    """True for the nodes `rewrite` changes (its operands aside)."""
    return type(e) in FLOOR or _wraps(e) or (isinstance(e, tirx.Cast) and "int" in dtype_of(e) and "int" in dtype_of(e.value))


def rewrite(e, nonnegative: set):
    """`e` (operands already rewritten) without floor division and wrapping constants; other nodes unchanged."""
    if type(e) in FLOOR:
        truncating, function = FLOOR[type(e)]
        if is_nonnegative(e.a, nonnegative) and is_nonnegative(e.b, nonnegative):
            return truncating(e.a, e.b)
        result = tirx.call_pure_extern("int64", function, _i64(e.a), _i64(e.b))
        return result if dtype_of(e) == "int64" else tirx.Cast(e.ty.dtype, result)
    if _wraps(e):
        a, b = (tirx.Cast("uint64", x) for x in (e.a, e.b))
        # 2**32 keeps a difference from wrapping.
        a = a + tirx.const(1 << 32, "uint64") if isinstance(e, tirx.Sub) else a
        return tirx.Cast("uint32", type(e)(a, b))
    if isinstance(e, tirx.Cast) and isinstance(e.value, IntImm) and "int" in dtype_of(e):
        return IntImm(e.ty.dtype, wrapped(int(e.value.value), dtype_of(e)))
    return e


def _wraps(e) -> bool:
    return isinstance(e, WRAPPING) and dtype_of(e) == "uint32"


def _i64(e):
    return e if dtype_of(e) == "int64" else tirx.Cast("int64", e)
