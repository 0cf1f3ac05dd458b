"""Integer operations the hardware lacks: exact division, bit operations on 32-bit lanes, shifts by tiles."""

from __future__ import annotations

from ...base.unsupported import Unsupported
from . import int64 as vector_int64
from .convert import compare_exact, convert
from .graph import Node
from .operations import VectorOps
from .words import bit_and, bit_not, bit_or, bit_xor, logical_right

BITS = {"int16": 16, "int32": 32}


def bitwise(o: VectorOps, name: str, args: list[Node], logical: str) -> Node:
    """``bitwise_and`` … ``shift_right`` on values in compute dtype; bool operands are masks."""
    if logical == "bool":
        a, b = args if len(args) == 2 else (args[0], None)
        if name == "bitwise_xor":
            return o.compare("ne", a, b)
        return o.g.mask_not(a) if b is None else o.g.mask_binary("and" if name == "bitwise_and" else "or", a, b)
    if logical in ("int64", "uint64"):
        return _bitwise64(o, name, logical, *args)
    if name in ("shift_left", "shift_right"):
        return _shift(o, name, *args, logical)
    if name == "bitwise_not":
        # Wider lanes of an unsigned dtype: the bits above it stay zero.
        return bit_not(o.g, args[0]) if logical == "int8" else o.in_range(bit_not(o.g, args[0]), logical)
    return {"bitwise_and": bit_and, "bitwise_or": bit_or, "bitwise_xor": bit_xor}[name](o.g, *args)


def _bitwise64(o: VectorOps, name: str, logical: str, *args: Node) -> Node:
    if name not in ("shift_left", "shift_right"):
        return vector_int64.bitwise(o.g, name, list(args))
    a, b = args
    amount = b.value if b.op == "const" and b.value >= 0 else None
    if (name, logical) == ("shift_right", "uint64"):
        if amount is None:
            raise Unsupported("right shifts of uint64 by amounts that vary")
        return _logical_right64(o, a, amount)
    return vector_int64.shift_lanes(o, name, a, b) if amount is None else vector_int64.shift(o.g, name, a, amount)


def _logical_right64(o: VectorOps, a: Node, amount: int) -> Node:
    """Right shift of int64 lanes that brings in zeros."""
    if amount == 0:
        return a
    shifted = vector_int64.shift(o.g, "shift_right", a, amount)
    return vector_int64.bitwise(o.g, "bitwise_and", [shifted, o.g.const(2 ** max(64 - amount, 0) - 1, "int64")])


def _shift(o: VectorOps, name: str, a: Node, b: Node, logical: str) -> Node:
    """Shifts as of unbounded integers: by the width or more, bits are gone and the sign (or 0) remains. Amounts count as unsigned."""
    out = _shift_scalar(o, name, a, b, logical) if b.is_scalar else _shift_lanes(o, name, a, b, logical)
    return o.in_range(out, logical) if name == "shift_left" else out


def _keeps_sign(name: str, logical: str) -> bool:
    """True for right shifts of the compute dtype that repeat its sign bit."""
    return name == "shift_right" and logical != "uint32"


def _shift_once(o: VectorOps, name: str, a: Node, b: Node, logical: str) -> Node:
    if logical == "uint32" and name == "shift_right":
        return logical_right(o.g, a, b)
    return o.g.with_scalar(name, o.g.tile(a), b)


def _shift_scalar(o: VectorOps, name: str, a: Node, b: Node, logical: str) -> Node:
    """All lanes by one amount; instructions shift by less than the width."""
    most = o.g.const(BITS[a.dtype] - 1, b.dtype)
    if b.op == "const" and 0 <= b.value <= most.value:
        return _shift_once(o, name, a, b, logical)
    if not (b.op == "const" and b.value > 0):
        negative = o.g.scalar_cast(o.g.compare("lt", b, o.g.const(0, b.dtype)), b.dtype)
        b = o.g.binary("max", b, o.g.binary("mul", negative, o.g.const(BITS[a.dtype], b.dtype)))
    a = _shift_once(o, name, a, o.g.binary("min", b, most), logical)
    if _keeps_sign(name, logical):
        return a
    beyond = o.g.scalar_cast(o.g.compare("gt", b, most), b.dtype)
    return _shift_once(o, name, a, beyond, logical)


def _shift_lanes(o: VectorOps, name: str, a: Node, b: Node, logical: str) -> Node:
    """A different amount in every lane: one shift by 1, 2, 4, … in the lanes whose amount has that bit."""
    most, zero = o.g.const(BITS[b.dtype] - 1, b.dtype), o.g.const(0, b.dtype)
    beyond = o.compare("ne", bit_and(o.g, b, o.g.const(~most.value, b.dtype)), zero)
    amount = o.select(beyond, most, b) if _keeps_sign(name, logical) else b
    for bit in range(BITS[b.dtype].bit_length() - 1):
        step = o.g.const(1 << bit, b.dtype)
        chosen = o.compare("ne", bit_and(o.g, amount, step), zero)
        a = o.select(chosen, _shift_once(o, name, a, step, logical), a)
    return a if _keeps_sign(name, logical) else o.select(beyond, zero, a)


def power(o: VectorOps, a: Node, n: Node, logical: str) -> Node:
    """a ** n of 32-bit integers, whose products wrap: the product of the squares a, a ** 2, a ** 4, … whose bit is set in n. To a negative power, whose
    last bit is its own, only 1 and -1 are not 0."""
    if a.dtype != "int32":
        raise Unsupported(f"powers of {logical}")
    a = a if a.op == "const" else o.g.tile(a)
    out, square = o.g.const(1, "int32"), a
    for bit in range(32 if logical == "uint32" else 31):
        if n.op == "const":
            out = o.mul(out, square) if n.value >> bit & 1 else out
        else:
            chosen = compare_exact(
                o.g, "ne", bit_and(o.g, n, o.g.const(1 << bit if bit < 31 else -(2**31), "int32")), o.g.const(0, "int32")
            )
            out = o.select(chosen, o.mul(out, square), out)
        square = o.g.const(_wrapped(square.value**2), "int32") if square.op == "const" else o.mul(square, square)
    if logical == "uint32" or n.op == "const" and n.value >= 0:
        return out
    size_one = o.g.mask_binary("or", o.cond("eq", a, 1), o.cond("eq", a, -1))
    vanishes = o.g.mask_binary("and", compare_exact(o.g, "lt", n, o.g.const(0, "int32")), o.g.mask_not(size_one))
    return o.select(vanishes, o.g.const(0, "int32"), out)


def _wrapped(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def divide_unsigned(o: VectorOps, name: str, a: Node, b: Node, divisor: int | None) -> Node:
    """Exact uint32 quotient or remainder, or of uint64 by powers of two; both values are the bits of signed numbers.

    Half of a divided by b is a signed division when b is below 2**31; doubled, it is at most one too small. Larger divisors go in once
    or not at all.
    """
    if a.dtype == "int64":
        if divisor is None or divisor <= 0 or divisor & (divisor - 1):
            raise Unsupported("uint64 division by anything but a constant power of two")
        if name.endswith("div"):
            return _logical_right64(o, a, divisor.bit_length() - 1)
        return vector_int64.bitwise(o.g, "bitwise_and", [a, o.g.const(divisor - 1, "int64")])
    if divisor is not None and divisor > 0 and divisor & (divisor - 1) == 0:
        quotient = logical_right(o.g, a, o.g.const(divisor.bit_length() - 1, "int32")) if divisor > 1 else a
        return quotient if name.endswith("div") else o.sub(a, o.mul(quotient, divisor))
    if divisor is not None and divisor >> 31:
        quotient = o.g.const(0, "int32")
    else:
        half, _ = _floor_divide(o, logical_right(o.g, a, o.g.const(1, "int32")), b)
        quotient = o.shift_left(half, 1)
    if divisor is None:
        large = compare_exact(o.g, "lt", b, o.g.const(0, "int32"))
        quotient = o.select(large, o.g.tile(o.g.const(0, "int32")), quotient)
    rest = o.sub(a, o.mul(quotient, b))
    more = compare_exact(o.g, "ge", o.flipped(rest), o.flipped(b))
    if name.endswith("div"):
        return o.select(more, o.add(quotient, 1), quotient)
    return o.select(more, o.sub(rest, b), rest)


def divide(o: VectorOps, name: str, a: Node, b: Node, divisor: int | None) -> Node:
    """Exact integer ``floordiv floormod truncdiv truncmod`` of int16 / int32 values; of int64, see there."""
    if a.dtype == "int64":
        return vector_int64.divide(o, name, a, b, divisor)
    if name.startswith("floor") and divisor is not None and divisor > 0 and divisor & (divisor - 1) == 0:
        return _by_power_of_two(o, name, a, divisor)
    if a.dtype == "int16":
        wide = [convert(o.g, x, "int32") if not x.is_scalar else o.scalar_cast(x, "int32") for x in (a, b)]
        return convert(o.g, divide(o, name, *wide, divisor), "int16")
    quotient, rest = _floor_divide(o, a, b)
    if name in ("floordiv", "floormod"):
        return quotient if name == "floordiv" else rest
    # Truncation differs from floor by one where the remainder is not zero and the signs of the operands differ.
    zero = o.g.const(0, "int32")
    inexact = compare_exact(o.g, "ne", rest, zero)
    negative = o.g.mask_binary("and", inexact, _signs_differ(o, a, b))
    if name == "truncdiv":
        return o.select(negative, o.add(quotient, 1), quotient)
    return o.select(negative, o.sub(rest, b), rest)


def _by_power_of_two(o: VectorOps, name: str, a: Node, divisor: int) -> Node:
    if divisor == 1:
        return a if name == "floordiv" else o.mul(a, 0)
    shifted = o.shift_right(a, divisor.bit_length() - 1)
    return shifted if name == "floordiv" else o.sub(a, o.shift_left(shifted, divisor.bit_length() - 1))


def _signs_differ(o: VectorOps, a: Node, b: Node) -> Node:
    zero = o.g.const(0, "int32")
    return o.compare("ne", compare_exact(o.g, "lt", a, zero), compare_exact(o.g, "lt", b, zero))


def _estimate(o: VectorOps, a: Node, b: Node, rounding: str) -> Node:
    """int32 quotient from float32; off by less than ``1 + |a / b| / 2**22``."""
    fa, fb = (o.scalar_cast(x, "float32") if x.is_scalar else convert(o.g, x, "float32") for x in (a, b))
    return o.g.cast(o.g.tile(o.div(fa, fb)), "int32", rounding)


def _floor_divide(o: VectorOps, a: Node, b: Node) -> tuple[Node, Node]:
    """Floor quotient and remainder for every int32 a and every b with ``0 < |b| <= 2**30``.

    A float32 quotient leaves a remainder of at most ``|b| + |a| / 2**22`` in magnitude, a second one brings it below 2 |b|, and two
    corrections bring it into [0, |b|) (or (-|b|, 0] for negative b). Products and differences wrap, the remainders do not.
    """
    quotient = _estimate(o, a, b, "trunc")
    rest = o.sub(a, o.mul(quotient, b))
    step = _estimate(o, rest, b, "floor")
    quotient, rest = o.add(quotient, step), o.sub(rest, o.mul(step, b))
    for mode, sign in (("below", -1), ("above", 1)):
        off = _outside(o, rest, b, mode)
        quotient = o.select(off, o.add(quotient, sign), quotient)
        rest = o.select(off, o.sub(rest, b) if sign > 0 else o.add(rest, b), rest)
    return quotient, rest


def _outside(o: VectorOps, rest: Node, b: Node, mode: str) -> Node:
    """Lanes whose remainder has the sign opposite to b (`below`) or reaches b (`above`)."""
    zero = o.g.const(0, "int32")
    pairs = (
        (compare_exact(o.g, "gt", b, zero), ("lt", zero) if mode == "below" else ("ge", b)),
        (compare_exact(o.g, "lt", b, zero), ("gt", zero) if mode == "below" else ("le", b)),
    )
    parts = [o.g.mask_binary("and", sign, compare_exact(o.g, cmp, rest, limit)) for sign, (cmp, limit) in pairs]
    return o.g.mask_binary("or", *parts)
