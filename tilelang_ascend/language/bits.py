"""Counts of bits, in arithmetic that every unit has: the vector unit has no instruction for them."""

from __future__ import annotations

from ..errors import InvalidArgument
from ..frontend.annotations import DType, is_float
from ..frontend.operators import as_scalar, binop, cast, plain, select, unop
from ..frontend.values import is_expr
from ..ir import dtype_of, itemsize, tirx
from .tiles import elementwise, is_tile


def popcount(x, *rest):
    """Bits of an integer that are set, in the dtype of x. `T.popcount(A, B)` does so for whole tiles."""
    return _each("popcount", _popcount, x, rest)


def clz(x, *rest):
    """Zeros above the highest bit of an integer that is set, as int32; the number of its bits for 0. `T.clz(A, B)` for tiles."""
    return _each("clz", _clz, x, rest)


def _each(name: str, scalar, x, rest):
    if rest and is_tile(rest[0]):
        return elementwise(name, scalar, [x], rest[0])
    return scalar(x)


def _integer(x, what: str):
    x = plain(x)
    dtype = dtype_of(x) if is_expr(x) else type(x).__name__
    if is_float(dtype) or dtype not in ("int", "bool") and not is_expr(x):
        raise InvalidArgument(
            f"T.{what} of a {dtype}: only integers have bits to count", hint="T.reinterpret gives the bits of a number as an integer"
        )
    return as_scalar(x)


def _popcount(x):
    x = _integer(x, "popcount")
    return cast(_ones(x), dtype_of(x))


def _clz(x):
    x = _integer(x, "clz")
    bits = DType(dtype_of(x)).bits
    if bits == 64:
        high, low = _words(x)
        above = _clz(high)
        return binop("Add", above, binop("Mult", cast(tirx.EQ(above, as_scalar(32)), "int32"), _clz(low)))
    x = _in_word(x)
    # The exponent of a float32 is the place of the highest bit. Without the bit below that, no rounding carries into the next power.
    number = cast(binop("BitAnd", x, unop("Invert", binop("RShift", x, 1))), "float32")
    place = binop("RShift", tirx.reinterpret("int32", number), 23)
    zeros = tirx.min(binop("Sub", 127 + 31, place), as_scalar(32))
    return binop("Sub", select(tirx.LT(x, as_scalar(0)), 0, zeros), 32 - bits)


def _ones(x):
    """Bits that are set, as int32: of pairs, of groups of four, of eight, and their sum."""
    if itemsize(dtype_of(x)) == 8:
        high, low = _words(x)
        return binop("Add", _ones(high), _ones(low))
    x = _in_word(x)
    pairs = binop("Sub", x, _masked(binop("RShift", x, 1), 0x55555555))
    fours = binop("Add", _masked(pairs, 0x33333333), _masked(binop("RShift", pairs, 2), 0x33333333))
    eights = _masked(binop("Add", fours, binop("RShift", fours, 4)), 0x0F0F0F0F)
    return binop("RShift", binop("Mult", eights, 0x01010101), 24)


def _masked(x, mask: int):
    return binop("BitAnd", x, mask)


def _in_word(x):
    """The bits of x as int32, zeros above those of narrower dtypes."""
    bits = DType(dtype_of(x)).bits
    word = cast(x, "int32")
    return word if bits == 32 or dtype_of(x) == "bool" else _masked(word, (1 << bits) - 1)


def _words(x):
    """High and low half of a 64-bit integer as int32."""
    return cast(binop("RShift", x, 32), "int32"), cast(x, "int32")


NAMES = ("popcount", "clz")
