"""Integer expressions in the form LLVM code generation takes: division, constants that wrap, unsigned sums that do.

TVM lowers floor division with `Let` and folds conversions of constants in its simplifier; both fail on legal programs
(a repeated `Let` variable, a constant the target dtype does not hold). Its sums of 32 and 64 bits promise LLVM that they do not wrap; those of data
and unsigned ones may.
A division by a zero of run time ends the process, as does one of the most negative number by -1. Here they are rewritten before
TVM sees them: a divisor that is no constant goes to a function of the native library, which tells the machine of a zero.
"""

from __future__ import annotations

from ..analysis.index.data_names import DataNames
from ..analysis.index.magnitude import magnitude
from ..analysis.index.signs import Known, is_below, is_nonnegative, is_nonzero
from ..ir import IntImm, choice_of, const_int, dtype_of, itemsize, op_name, tirx, walk_expr

DIVISIONS = {
    tirx.FloorDiv: (tirx.truncdiv, "tla_floor_div"),
    tirx.FloorMod: (tirx.truncmod, "tla_floor_mod"),
    tirx.Div: (tirx.truncdiv, "tla_trunc_div"),
    tirx.Mod: (tirx.truncmod, "tla_trunc_mod"),
}
"""node -> (node that rounds towards zero, function of the native library)."""

EAGER = (tirx.Select, tirx.And, tirx.Or)
"""Nodes all of whose operands LLVM code computes: a quotient in one of them may be there only because another guards it."""

WRAPPING = {tirx.Add: "tla_add", tirx.Sub: "tla_sub", tirx.Mul: "tla_mul"}
"""node -> function of the native library, for 64 bits."""


def wrapped(value: int, dtype: str) -> int:
    """`value` as an integer dtype holds it."""
    bits = 8 * itemsize(dtype)
    value %= 1 << bits
    return value - (1 << bits) if dtype.startswith("int") and value >> (bits - 1) else value


def needs_rewrite(e, bounds: dict, data: DataNames) -> bool:
    """True for the nodes `rewrite` changes (its operands aside). `bounds`: of the absolute values of variables."""
    selects = isinstance(e, EAGER) and _may_divide(e)
    converts = isinstance(e, tirx.Cast) and "int" in dtype_of(e) and "int" in dtype_of(e.value)
    return (
        _divides(e)
        or is_integer_power(e)
        or wraps(e, bounds, data)
        or _shifts_out(e)
        or _saturates(e)
        or selects
        or converts
        or _is_zero_as(e)
    )


def rewrite(e, known: Known, line: int = 0, wraps: bool = False):
    """`e` (operands already rewritten) without divisions and constants LLVM does not take; other nodes unchanged.

    wraps: `e` is a sum or product whose result may wrap.
    line: the source line a division by zero is told of.
    """
    if _divides(e):
        truncating, function = DIVISIONS[type(e)]
        if is_nonzero(e.b) and all(is_nonnegative(x, known) for x in (e.a, e.b)):
            return truncating(e.a, e.b)
        if type(e) in (tirx.Div, tirx.Mod) and const_int(e.b) not in (None, 0, -1):
            return e
        unsigned = "_unsigned" if dtype_of(e) == "uint64" else ""
        result = tirx.call_extern("int64", function + unsigned, _i64(e.a), _i64(e.b), IntImm("int32", line))
        return result if dtype_of(e) == "int64" else tirx.Cast(e.ty.dtype, result)
    if is_integer_power(e):
        return _power(e)
    if isinstance(e, EAGER) and _may_divide(e):
        return tirx.if_then_else(*choice_of(e))
    if _saturates(e):
        return _saturated(e)
    if _shifts_out(e):
        bits, dtype = 8 * itemsize(dtype_of(e)), dtype_of(e.b)
        most = tirx.const(bits - 1, dtype)
        inside = tirx.all(tirx.const(0, dtype) <= e.b, e.b <= most)
        if isinstance(e, tirx.RShift) and dtype_of(e).startswith("int"):
            return e.a >> tirx.Select(inside, e.b, most)
        return tirx.Select(inside, type(e)(e.a, tirx.Select(inside, e.b, most)), tirx.const(0, dtype_of(e)))
    if wraps:
        return _wrapping(e)
    if _is_zero_as(e):
        return tirx.const(0, dtype_of(e))
    if isinstance(e, tirx.Cast) and isinstance(e.value, IntImm) and "int" in dtype_of(e):
        return IntImm(e.ty.dtype, wrapped(int(e.value.value), dtype_of(e)))
    if _narrows(e) and not _holds(dtype_of(e), e.value, known):
        # TVM's analysis of intervals converts their ends, of which the dtype holds none either.
        bits = dtype_of(e.value).removeprefix("u")
        other = f"u{bits}" if bits == dtype_of(e.value) else bits
        return tirx.Cast(e.ty.dtype, tirx.reinterpret(dtype_of(e.value), tirx.reinterpret(other, e.value)))
    return e


def _saturated(e):
    """A float as an integer."""
    if dtype_of(e) == "uint64":
        return tirx.reinterpret("uint64", tirx.call_pure_extern("int64", "tla_to_uint64", tirx.Cast("float64", e.value)))
    low, high = _limits(dtype_of(e))
    result = tirx.call_pure_extern("int64", "tla_to_integer", tirx.Cast("float64", e.value), IntImm("int64", low), IntImm("int64", high))
    return result if dtype_of(e) == "int64" else tirx.Cast(e.ty.dtype, result)


def _power(e):
    """The power of an integer."""
    function, dtype = "tla_power_unsigned" if dtype_of(e).startswith("uint") else "tla_power", dtype_of(e)
    bits = tirx.call_pure_extern("int64", function, *map(_bits64, e.args))
    if dtype == "uint64":
        return tirx.reinterpret("uint64", bits)
    return bits if dtype == "int64" else _low_word(bits, e.ty.dtype)


def _wrapping(e):
    """A sum or product whose result wraps."""
    if dtype_of(e) in ("int64", "uint64"):
        bits = tirx.call_pure_extern("int64", WRAPPING[type(e)], *(_bits64(x) for x in (e.a, e.b)))
        return bits if dtype_of(e) == "int64" else tirx.reinterpret("uint64", bits)
    a, b = map(_word, (e.a, e.b))
    # 2**32 keeps a difference from wrapping.
    a = a + tirx.const(1 << 32, "uint64") if isinstance(e, tirx.Sub) else a
    return _low_word(type(e)(a, b), e.ty.dtype)


def _low_word(bits, dtype):
    """The low bits of an integer of 64 bits as one of 32."""
    # Masked, because TVM's simplifier may find out that it is a constant, and converts none that the dtype does not hold.
    word = tirx.Cast("uint32", bits & tirx.const((1 << 32) - 1, dtype_of(bits)))
    return word if str(dtype) == "uint32" else tirx.Cast(dtype, word)


def _divides(e) -> bool:
    return type(e) in DIVISIONS and "int" in dtype_of(e)


def is_integer_power(e) -> bool:
    """True for the power of an integer, of which TVM knows those of floats."""
    return op_name(e) == "tirx.pow" and "int" in dtype_of(e)


def _shifts_out(e) -> bool:
    """True for shifts by an amount of run time that may lie outside of the width: bits are gone then, and the sign (or 0) remains."""
    return isinstance(e, (tirx.LShift, tirx.RShift)) and not is_below(e.b, 8 * itemsize(dtype_of(e)))


def _saturates(e) -> bool:
    """True for conversions of floats to integers: what the integer does not hold is the nearest it does, NaN is 0."""
    return isinstance(e, tirx.Cast) and "float" in dtype_of(e.value) and "int" in dtype_of(e)


def _limits(dtype: str) -> tuple[int, int]:
    """Ends of the range a conversion to `dtype` keeps; uint16 and uint32 are low bits of it, as they are in vectors."""
    bits = 8 * itemsize(dtype)
    if dtype in ("uint16", "uint32"):
        return -(1 << 31), (1 << 31 if bits == 16 else 1 << 32) - 1
    if dtype.startswith("uint"):
        return 0, (1 << bits) - 1
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def _may_divide(e) -> bool:
    found = []
    walk_expr(e, lambda x: found.append(x) if _divides(x) or is_division(x) else None)
    return bool(found)


def is_division(e) -> bool:
    """True for a call of one of the functions behind divisions."""
    return (op_name(e) or "").endswith("call_extern") and any(str(e.args[0].value).startswith(f) for _, f in DIVISIONS.values())


def wraps(e, bounds: dict, data: DataNames) -> bool:
    """True for sums and products that may not fit: unsigned ones, those of 32 bits, and those of data of 64."""
    if type(e) not in WRAPPING or dtype_of(e) not in ("uint32", "uint64", "int32", "int64"):
        return False
    return dtype_of(e).startswith("uint") or magnitude(e, bounds) is None and (dtype_of(e) == "int32" or data.is_data(e))


def _is_zero_as(e) -> bool:
    """True for the bits of an integer zero as another dtype: LLVM code generation knows that of pointers alone."""
    return op_name(e) == "tirx.reinterpret" and isinstance(e.args[0], IntImm) and int(e.args[0].value) == 0


def _narrows(e) -> bool:
    """True for conversions of integers to a dtype that does not hold all of them."""
    if not isinstance(e, tirx.Cast) or "int" not in dtype_of(e) or "int" not in dtype_of(e.value):
        return False
    source, target = dtype_of(e.value), dtype_of(e)
    wider = itemsize(target) > itemsize(source) and not (target.startswith("uint") and source.startswith("int"))
    return source != target and not wider


def _holds(dtype: str, e, known: Known) -> bool:
    """True if `dtype` surely holds the integer `e`."""
    most = magnitude(e, known.bounds)
    return most is not None and most < 1 << (8 * itemsize(dtype) - 1) and (dtype.startswith("int") or is_nonnegative(e, known))


def _word(e):
    """The bits of a 32-bit integer in a uint64."""
    known = const_int(e)
    if known is not None:
        return tirx.const(known % (1 << 32), "uint64")
    # TVM's simplifier converts no negative number that it finds an int32 to be.
    return tirx.Cast("uint64", e if dtype_of(e) == "uint32" else tirx.reinterpret("uint32", e))


def _bits64(e):
    """The bits of an integer of 64 bits as an int64; shorter ones as they are."""
    if dtype_of(e) == "int64":
        return e
    if itemsize(dtype_of(e)) < 8:
        return tirx.Cast("int64", e)
    known = const_int(e)
    return tirx.reinterpret("int64", e) if known is None else IntImm("int64", wrapped(known, "int64"))


def _i64(e):
    return e if dtype_of(e) == "int64" else tirx.Cast("int64", e)
