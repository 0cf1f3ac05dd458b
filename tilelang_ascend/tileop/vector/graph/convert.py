"""Conversions between dtypes as sequences of hardware casts.

A route lists the dtypes on the way; each hop uses the round mode of `HOPS`. Float to integer truncates, everything else
rounds to nearest even, integers that get narrower wrap (the wrap happens before the hop, because hardware saturates).
"""

from __future__ import annotations

from ...base.unsupported import Unsupported
from .fp8 import FORMATS, decode, encode
from .graph import MASK, SWAPPED, Graph, Node
from .words import bit_or, pair, words

HOPS = {
    ("float16", "float32"): "none", ("float32", "float16"): "rint",
    ("bfloat16", "float32"): "none", ("float32", "bfloat16"): "rint",
    ("float32", "int32"): "trunc", ("float16", "int32"): "trunc", ("float32", "int16"): "trunc", ("float16", "int16"): "trunc",
    ("bfloat16", "int32"): "trunc", ("float32", "int64"): "trunc",
    ("int16", "float16"): "rint", ("int16", "float32"): "none", ("int32", "float32"): "rint", ("int64", "float32"): "rint",
    ("int8", "float16"): "none", ("uint8", "float16"): "none", ("float16", "int8"): "trunc", ("float16", "uint8"): "trunc",
    ("int32", "int64"): "none", ("int32", "int16"): "none",
}  # fmt: skip
"""One hardware conversion -> round mode (doc: cast probe of the 8.1 headers; all of them exist on 3510 as well)."""

DIRECT = {
    ("float16", "bfloat16"): "rint", ("bfloat16", "float16"): "rint", ("int8", "int16"): "none", ("int8", "int32"): "none",
    ("int16", "int32"): "none", ("float8_e4m3fn", "float32"): "none", ("float8_e5m2", "float32"): "none",
}  # fmt: skip
"""The same of conversions that some chips have, and others by the routes below."""

ROUTES = {
    ("float16", "bfloat16"): ("float32",), ("bfloat16", "float16"): ("float32",),
    ("bfloat16", "int16"): ("float32",), ("bfloat16", "int8"): ("float32", "int16", "float16"),
    ("bfloat16", "uint8"): ("float32", "int16", "float16"),
    ("float32", "int8"): ("int16", "float16"), ("float32", "uint8"): ("int16", "float16"),
    ("int8", "float32"): ("float16",), ("int8", "bfloat16"): ("float16", "float32"), ("int8", "int16"): ("float16",),
    ("int8", "int32"): ("float16",), ("uint8", "float32"): ("float16",), ("uint8", "bfloat16"): ("float16", "float32"),
    ("uint8", "int16"): ("float16",), ("uint8", "int32"): ("float16",),
    ("int16", "bfloat16"): ("float32",), ("int16", "int32"): ("float32",), ("int16", "int8"): ("float16",),
    ("int16", "uint8"): ("float16",), ("int16", "int64"): ("float32", "int32"),
    ("int32", "float16"): ("float32",), ("int32", "bfloat16"): ("float32",), ("int32", "int8"): ("int16", "float16"),
    ("int32", "uint8"): ("int16", "float16"),
    ("int64", "float16"): ("float32",), ("int64", "bfloat16"): ("float32",), 
    ("float16", "int64"): ("float32",), ("bfloat16", "int64"): ("float32",),
    ("int8", "int64"): ("float16", "int32"), ("uint8", "int64"): ("float16", "int32"),
    ("int8", "uint8"): ("float16", "int16", "float16"), ("uint8", "int8"): ("float16", "int16", "float16"),
}  # fmt: skip
"""(source, destination) -> intermediate dtypes. A pair that is a hop needs no entry. With other modes than `HOPS` has, floats have a shorter
way to bytes (`_float_to_integer`)."""

_TO_BYTE = {"trunc": "trunc", "floor": "floor", "ceil": "ceil", "rint": "odd", "round": "odd"}
"""Rounding of a float to a byte -> how float32 becomes the float16 on the way. It keeps the side of whole and half numbers on which a value lies:
directed modes do so for their own direction, rounding to odd for all (float16 has three digits behind those of a byte, or more)."""

_BITS = {"int8": 8, "uint8": 8, "int16": 16, "int32": 32, "int64": 64}


def convert(g: Graph, a: Node, dtype: str) -> Node:
    """`a` in another dtype. Raises `Unsupported` when the hardware has no way."""
    if a.dtype == dtype:
        return a
    if a.is_scalar and MASK not in (a.dtype, dtype):
        return g.scalar_cast(a, dtype)
    if MASK in (a.dtype, dtype):
        return _from_mask(g, a, dtype) if a.dtype == MASK else to_mask(g, a)
    native = _native(g, a, dtype)
    if native is not None:
        return native
    if a.dtype in FORMATS:
        return convert(g, decode(g, a, lambda x: convert(g, x, "int16")), dtype)
    if dtype in FORMATS:
        codes = encode(g, convert(g, a, "float32"), dtype)
        return g.reinterpret(g.cast(g.cast(codes, "float16", "rint"), "uint8", "trunc"), dtype)  # 0 to 255: nothing wraps
    if a.dtype == "int64" and dtype.startswith(("int", "uint")):
        return convert(g, words(g, a)[0], dtype)
    if a.dtype in UNSIGNED or dtype in UNSIGNED:
        return convert_unsigned(g, a, dtype)
    if (known := _in_narrow_lanes(g, a, dtype)) is not None:
        return known
    if a.dtype in _FLOATS and dtype in _BITS:
        return _float_to_integer(g, a, dtype)
    way = (*ROUTES.get((a.dtype, dtype), ()), dtype)
    if dtype in ("int8", "uint8", "int16") and a.dtype in _BITS and _needs_wrap(a.dtype, dtype):
        carrier = "int32" if a.dtype == "int32" else "int16"
        a = wrap(g, convert(g, a, carrier), _BITS[dtype], signed=dtype != "uint8")
        way = (*ROUTES.get((carrier, dtype), ()), dtype) if carrier != dtype else ()
    for hop in way:
        if (a.dtype, hop) not in HOPS:
            raise Unsupported(f"no vector conversion from {a.dtype} to {dtype}")
        a = g.cast(a, hop, HOPS[a.dtype, hop])
    return a


_FLOATS = ("float16", "bfloat16", "float32")


def _float_to_integer(g: Graph, a: Node, dtype: str) -> Node:
    """Truncation, or the rounding that made `a` a whole number: one conversion rounds as well as two."""
    a, mode = _rounded(a)
    if a.dtype == "float16" and dtype == "int64" or a.dtype == "bfloat16" and dtype != "int32":
        a = convert(g, a, "float32")
    if a.dtype == "float32" and dtype in ("int8", "uint8"):
        a = g.cast(a, "float16", _TO_BYTE[mode])
    return g.cast(a, dtype, mode)


def _rounded(a: Node) -> tuple[Node, str]:
    """(x, mode) where `a` is x rounded to a whole number by an instruction, else (a, "trunc")."""
    whole = a.args[0] if _is_cast(a, "float32", "float16") and _is_cast(a.args[0], "float32", "float32") else a
    if not _is_cast(whole, "float32", "float32"):
        return a, "trunc"
    x = whole.args[0]
    exact = _is_cast(x, "float16", "float32")
    if whole is not a and not exact:
        return a, "trunc"  # rounded twice: whole numbers above 2048 may not be float16
    return x.args[0] if exact else x, dict(whole.attrs)["round"]


def _is_cast(a: Node, source: str, dtype: str) -> bool:
    return a.op == "cast" and a.dtype == dtype and a.args[0].dtype == source


def _native(g: Graph, a: Node, dtype: str) -> Node | None:
    """The conversion by instructions only some chips have, None where the chip has none or they are no shorter way."""
    if (a.dtype, dtype) in g.casts and (a.dtype, dtype) in DIRECT:
        return g.cast(a, dtype, DIRECT[a.dtype, dtype])
    byte_to_bfloat = dtype == "bfloat16" and a.dtype in ("int8", "uint8")
    through = "float32" if a.dtype in FORMATS else "float16" if byte_to_bfloat else None
    if through is None or not {(a.dtype, through), (through, dtype)} & g.casts & DIRECT.keys():
        return None
    return convert(g, convert(g, a, through), dtype)


def _in_narrow_lanes(g: Graph, a: Node, dtype: str) -> Node | None:
    """`a` in `dtype` if it comes from there, or can be computed there, with no other result; else None."""
    if a.op == "cast" and a.args[0].dtype == dtype and _lossless(dtype, a.dtype):
        return a.args[0]
    return _in_bfloat16(g, a) if (a.dtype, dtype) == ("float32", "bfloat16") else None


_CHOICES = ("max", "min", "maxs", "mins")
_ROUNDED = ("add", "sub", "mul", "adds", "muls")
_MOVES = ("abs", "select", "select_scalar")
"""What may be done to a number before or after it is rounded."""


def _in_bfloat16(g: Graph, a: Node, rounds: bool = True) -> Node | None:
    """The float32 value `a`, rounded to bfloat16, by an instruction of the chip on bfloat16 lanes; None where that may differ or is none.

    Maxima and minima of bfloat16 numbers are such numbers. One sum or product (`rounds`) of them is rounded to float32 and then to bfloat16 in
    the sequence and once by the instruction: the same, as 24 digits are at least 2 * 8 + 2, and sums of denormal numbers and products above half of
    the smallest one are exact in float32. The operands of that have to be exact. Magnitudes and choices are those of what is rounded.
    """
    if _is_cast(a, "bfloat16", "float32"):
        return a.args[0]
    if a.op == "const" and g.const(a.value, "bfloat16").value == a.value:
        return g.const(a.value, "bfloat16")
    if a.op in _MOVES and a.op in g.bfloats:
        moved = [x if x.dtype == MASK else _in_bfloat16(g, x, rounds) for x in a.args]
        return None if None in moved else g.node(a.op, "bfloat16", moved)
    if a.op not in g.bfloats or a.op not in (*_CHOICES, *(_ROUNDED if rounds else ())):
        return None
    args = [_in_bfloat16(g, x, rounds=False) for x in a.args]
    return None if None in args else g.node(a.op, "bfloat16", args)


UNSIGNED = ("uint16", "uint32")
"""Unsigned dtypes the hardware cannot convert; uint8 has conversions of its own."""


def convert_unsigned(g: Graph, a: Node, dtype: str) -> Node:
    """Conversions from and to uint16 (through int32) and uint32 (the bits of an int32)."""
    if a.dtype == "uint16":
        return convert(g, wrap(g, convert(g, g.reinterpret(a, "int16"), "int32"), 16, signed=False), dtype)
    if dtype == "uint16":
        narrow = convert(g, wrap(g, convert(g, a, "int32"), 16, signed=True), "int16")
        return g.reinterpret(narrow, dtype)
    if a.dtype == "uint32":
        if dtype == "int64":
            return pair(g, g.reinterpret(a, "int32"), g.const(0, "int32"))
        if dtype.startswith(("float", "bfloat")):
            return convert(g, _float_of_uint32(g, a), dtype)
        return convert(g, g.reinterpret(a, "int32"), dtype)
    if a.dtype.startswith(("float", "bfloat")):
        return _uint32_of_float(g, convert(g, a, "float32"))
    return g.reinterpret(convert(g, a, "int32"), dtype)


def _float_of_uint32(g: Graph, a: Node) -> Node:
    """high * 2**16 + low in float32: both parts are exact, the sum rounds once."""
    sixteen = g.const(16, "uint32")
    high = g.with_scalar("shift_right", a, sixteen)
    low = g.with_scalar("shift_right", g.with_scalar("shift_left", a, sixteen), sixteen)
    high, low = (convert(g, g.reinterpret(x, "int32"), "float32") for x in (high, low))
    return g.binary("add", g.binary("mul", high, g.const(65536.0, "float32")), low)


def _uint32_of_float(g: Graph, a: Node) -> Node:
    """Truncation; from 2**31 on, the difference to it is converted and the top bit set."""
    top = g.compare("ge", a, g.const(2.0**31, "float32"))
    small = g.select(top, g.binary("sub", a, g.const(2.0**31, "float32")), a)
    bit = convert(g, g.select(top, g.const(-(2.0**31), "float32"), g.const(0.0, "float32")), "int32")
    return g.reinterpret(g.binary("add", convert(g, small, "int32"), bit), "uint32")


def _needs_wrap(src: str, dst: str) -> bool:
    return _BITS[src] > _BITS[dst] or {src, dst} == {"int8", "uint8"}


def _lossless(narrow: str, wide: str) -> bool:
    """True when narrow -> wide -> narrow is the identity."""
    return (narrow, wide) in (("float16", "float32"), ("bfloat16", "float32"), ("int8", "float16"), ("uint8", "float16"),
                              ("int16", "float32"), ("int32", "int64"))  # fmt: skip


def wrap(g: Graph, a: Node, bits: int, signed: bool) -> Node:
    """Keep the low `bits` of an int16 / int32 value, sign- or zero-extended."""
    amount = g.const(_BITS[a.dtype] - bits, a.dtype)
    if amount.value == 0 or (signed and _is_wrapped(a, amount)):
        return a
    up = g.with_scalar("shift_left", a, amount)
    if signed:
        return g.with_scalar("shift_right", up, amount)
    unsigned = g.reinterpret(up, "u" + a.dtype)
    return g.reinterpret(g.with_scalar("shift_right", unsigned, g.const(amount.value, "u" + a.dtype)), a.dtype)


def _is_wrapped(a: Node, amount: Node) -> bool:
    """True when `a` is already a sign extension by the same amount."""
    return a.op == "shift_right" and a.args[1] is amount and a.args[0].op == "shift_left" and a.args[0].args[1] is amount


def to_mask(g: Graph, a: Node) -> Node:
    """a != 0 as a mask."""
    if a.is_scalar:
        return g.compare("ne", a, g.const(0, a.dtype))
    if a.dtype == "int64":
        a = bit_or(g, *words(g, a))
    if a.dtype in UNSIGNED:
        a = g.reinterpret(a, a.dtype.removeprefix("u"))
    wide = {"int8": "float16", "uint8": "float16", "float16": "float16", "int32": "int32"}.get(a.dtype, "float32")
    return compare_exact(g, "ne", convert(g, a, wide), g.const(0, wide))


def _from_mask(g: Graph, m: Node, dtype: str) -> Node:
    carrier = dtype if dtype in ("float16", "float32") else ("float16" if dtype in ("int8", "uint8", "int16") else "float32")
    return convert(g, g.select(m, g.const(1, carrier), g.const(0, carrier)), dtype)


def compare_exact(g: Graph, mode: str, a: Node, b: Node) -> Node:
    """Compare of float16, float32 or integer values, exact. C220 compares int32 for equality only, so the order modes
    go through max / min: ``a >= b`` is ``max(a, b) == a``."""
    if (a.is_scalar and b.is_scalar) or (a.dtype in g.orders and "int" in a.dtype):
        return g.compare(mode, a, b)
    if a.dtype == "float32" and "compare" in g.bfloats:
        exact = [_in_bfloat16(g, x, rounds=False) for x in (a, b)]
        a, b = (a, b) if None in exact else exact
    if a.dtype != "int32":
        # The hardware says NaN != x is false; IEEE says true.
        return g.mask_not(g.compare("eq", a, b)) if mode == "ne" else g.compare(mode, a, b)
    if a.is_scalar:
        a, b, mode = b, a, SWAPPED[mode]
    if mode in ("eq", "ne"):
        equal = g.compare("eq", a, b)
        return equal if mode == "eq" else g.mask_not(equal)
    if mode in ("ge", "lt"):
        holds = g.compare("eq", g.binary("max", a, b), a)
        return holds if mode == "ge" else g.mask_not(holds)
    holds = g.compare("eq", g.binary("min", a, b), a)
    return holds if mode == "le" else g.mask_not(holds)
