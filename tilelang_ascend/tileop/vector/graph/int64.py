"""int64 arithmetic on pairs of 32-bit words (see vector_pair). Results wrap, as on every other integer dtype.

Where the chip has the instruction for 64-bit lanes (3510: sums, products, quotients, maxima, minima, shifts), and the operands vary along the same axes, that
is one instruction. It has a count form only, which broadcasts nothing, so operands of fewer axes go through words.
"""

from __future__ import annotations

from ...base.unsupported import Unsupported
from .convert import compare_exact
from .graph import Graph, Node
from .words import bit_and, bit_not, bit_or, bit_xor, logical_right, pair, words

_LOW_HALF = 0xFFFF


def arithmetic(o, name: str, a: Node, b: Node) -> Node:
    """``add sub mul max min``; `o` are the typed operations."""
    if _in_one(o.g, name, a, b):
        return o.g.binary(name, a, b)
    if name in ("max", "min"):
        return o.select(compare(o.g, "ge" if name == "max" else "le", a, b), a, b)
    return {"add": _add, "sub": _sub, "mul": _mul}[name](o.g, a, b)


_WITH_NUMBER = {"add": ("adds",), "sub": ("adds", "muls"), "mul": ("muls",), "max": ("maxs",), "min": ("mins",)}
"""Operation -> the instructions it becomes when an operand is a scalar (`Graph.binary`)."""


def _in_one(g: Graph, name: str, a: Node, b: Node) -> bool:
    """Whether an operation is one of the chip's instructions on 64-bit lanes, or two."""
    names = _WITH_NUMBER[name] if a.is_scalar or b.is_scalar else (name,)
    return g.longs.issuperset(names) and _alike(a, b)


def _alike(*args: Node) -> bool:
    """Whether tiles among the operands vary along the same axes, and none is at hand as words."""
    tiles = [x for x in args if not x.is_scalar]
    return all(x.op not in _HALVES and x.axes == tiles[0].axes for x in tiles)


_HALVES = ("pair", "duplicate")
"""Values whose words are at hand."""


def _add(g: Graph, a: Node, b: Node) -> Node:
    (al, ah), (bl, bh) = words(g, a), words(g, b)
    low = g.binary("add", al, bl)
    carry = _top_bit(g, bit_or(g, bit_and(g, al, bl), bit_and(g, bit_or(g, al, bl), bit_not(g, low))))
    return pair(g, low, g.binary("add", g.binary("add", ah, bh), carry))


def _sub(g: Graph, a: Node, b: Node) -> Node:
    (al, ah), (bl, bh) = words(g, a), words(g, b)
    low = g.binary("sub", al, bl)
    other = bit_not(g, al)
    borrow = _top_bit(g, bit_or(g, bit_and(g, other, bl), bit_and(g, bit_or(g, other, bl), low)))
    return pair(g, low, g.binary("sub", g.binary("sub", ah, bh), borrow))


def _mul(g: Graph, a: Node, b: Node) -> Node:
    for x, s in ((a, b), (b, a)):
        if s.op == "const" and s.value == -1:
            return _sub(g, g.const(0, "int64"), x)
        if s.op == "const" and s.value > 0 and s.value & (s.value - 1) == 0:
            return shift(g, "shift_left", x, s.value.bit_length() - 1)
    (al, ah), (bl, bh) = words(g, a), words(g, b)
    low, carry = _long_product(g, al, bl)
    cross = g.binary("add", g.binary("mul", al, bh), g.binary("mul", ah, bl))
    return pair(g, low, g.binary("add", carry, cross))


def _long_product(g: Graph, a: Node, b: Node) -> tuple[Node, Node]:
    """The 64 bits of an unsigned 32-bit product, from products of 16-bit halves."""
    (a0, a1), (b0, b1) = ((_low_half(g, x), _logical_right(g, x, 16)) for x in (a, b))
    first = g.binary("mul", a0, b0)
    middle = g.binary("add", g.binary("mul", a0, b1), _logical_right(g, first, 16))
    other = g.binary("add", g.binary("mul", a1, b0), _low_half(g, middle))
    high = g.binary("add", g.binary("mul", a1, b1), _logical_right(g, middle, 16))
    return g.binary("mul", a, b), g.binary("add", high, _logical_right(g, other, 16))


def compare(g: Graph, mode: str, a: Node, b: Node) -> Node:
    """Mask of a <mode> b: the high words decide, equal high words leave it to the low words as unsigned numbers. One instruction where the chip
    has it."""
    if "int64" in g.orders and _alike(a, b):
        return g.compare(mode, a, b)
    if mode in ("gt", "le"):
        a, b, mode = b, a, {"gt": "lt", "le": "ge"}[mode]
    (al, ah), (bl, bh) = words(g, a), words(g, b)
    if mode in ("eq", "ne"):
        same = g.mask_binary("and", compare_exact(g, "eq", al, bl), compare_exact(g, "eq", ah, bh))
        return same if mode == "eq" else g.mask_not(same)
    if b.op == "const" and b.value == 0:
        return compare_exact(g, mode, ah, bh)
    flip = g.const(-(2**31), "int32")
    below = compare_exact(g, "lt", g.binary("add", al, flip), g.binary("add", bl, flip))
    tie = g.mask_binary("and", compare_exact(g, "eq", ah, bh), below)
    less = g.mask_binary("or", compare_exact(g, "lt", ah, bh), tie)
    return less if mode == "lt" else g.mask_not(less)


def select(o, m: Node, a: Node, b: Node) -> Node:
    """m ? a : b."""
    return pair(o.g, *(o.select(m, o.g.tile(x), o.g.tile(y)) for x, y in zip(words(o.g, a), words(o.g, b))))


def bitwise(g: Graph, name: str, args: list[Node]) -> Node:
    """``bitwise_and`` … ``bitwise_not``: instructions on bits take lanes of any size, but broadcast nothing."""
    if not any(x.is_scalar for x in args) and _alike(*args):
        if name != "bitwise_xor":
            return {"bitwise_and": bit_and, "bitwise_or": bit_or, "bitwise_not": bit_not}[name](g, *args)
        if "sub" in g.longs:
            return bit_xor(g, *args)
    if name == "bitwise_not":
        return pair(g, *(bit_not(g, w) for w in words(g, args[0])))
    build = {"bitwise_and": bit_and, "bitwise_or": bit_or, "bitwise_xor": bit_xor}[name]
    return pair(g, *(build(g, x, y) for x, y in zip(*(words(g, a) for a in args))))


def shift(g: Graph, name: str, a: Node, amount: int) -> Node:
    """A shift by a number; by 64 or more, bits are gone and the sign (or 0) remains."""
    if amount <= 0:
        return a
    if name in g.longs and amount < 64 and not a.is_scalar and a.op not in _HALVES:
        return g.with_scalar(name, a, g.const(amount, "int64"))
    low, high = words(g, a)
    zero = g.const(0, "int32")
    if name == "shift_left":
        if amount >= 32:
            return pair(g, zero, zero if amount >= 64 else _left(g, low, amount - 32))
        return pair(g, _left(g, low, amount), bit_or(g, _left(g, high, amount), _logical_right(g, low, 32 - amount)))
    if amount >= 32:
        return pair(g, _right(g, high, min(amount - 32, 31)), _right(g, high, 31))
    return pair(g, bit_or(g, _logical_right(g, low, amount), _left(g, high, 32 - amount)), _right(g, high, amount))


def shift_lanes(o, name: str, a: Node, b: Node) -> Node:
    """Shift by the amount of each lane: by 1, 2, 4, … 64 in the lanes whose amount has that bit; 64 stands for all from there on."""
    g = o.g
    low, high = words(g, b)
    most = g.const(64, "int32")
    small = compare_exact(g, "eq", high, g.const(0, "int32"))
    positive = compare_exact(g, "ge", low, g.const(0, "int32"))
    amount = o.select(g.mask_binary("and", small, positive), g.binary("min", low, most), g.tile(most))
    for bit in range(7):
        has = bit_and(g, amount, g.const(1 << bit, "int32"))
        a = select(o, compare_exact(g, "ne", has, g.const(0, "int32")), shift(g, name, a, 1 << bit), a)
    return a


def divide(o, name: str, a: Node, b: Node, divisor: int | None) -> Node:
    """``floordiv floormod truncdiv truncmod``: floor division by powers of two, others where the chip divides lanes of int64."""
    if name.startswith("floor") and divisor is not None and divisor > 0 and divisor & (divisor - 1) == 0:
        if name == "floordiv":
            return shift(o.g, "shift_right", a, divisor.bit_length() - 1)
        return bitwise(o.g, "bitwise_and", [a, o.g.const(divisor - 1, "int64")])
    if "div" not in o.g.longs:
        raise Unsupported("int64 division by anything but a constant power of two", "divide int32 values when they are small enough")
    b = _over(o, b, a)
    return _divide_lanes(o, name, _over(o, a, b), b)


def _over(o, a: Node, other: Node) -> Node:
    """`a` along the axes of `other`, too: the instruction broadcasts nothing."""
    if set(other.axes) <= set(a.axes) and not a.is_scalar:
        return a
    return arithmetic(o, "add", arithmetic(o, "mul", other, o.g.const(0, "int64")), a)


def _divide_lanes(o, name: str, a: Node, b: Node) -> Node:
    """The chip's quotient is truncated, and any number where b is 0: the remainder is a there."""
    quotient = o.g.binary("div", a, b)
    if name == "truncdiv":
        return quotient
    rest = arithmetic(o, "sub", a, arithmetic(o, "mul", quotient, b))
    if name == "truncmod":
        return rest
    zero = o.g.const(0, "int64")
    differ = o.compare("ne", compare(o.g, "lt", rest, zero), compare(o.g, "lt", b, zero))
    off = o.g.mask_binary("and", compare(o.g, "ne", rest, zero), differ)
    if name == "floormod":
        return select(o, off, arithmetic(o, "add", rest, b), rest)
    return select(o, off, arithmetic(o, "add", quotient, o.g.const(-1, "int64")), quotient)


# ---- words -------------------------------------------------------------------------------------------------------------


def _left(g: Graph, a: Node, amount: int) -> Node:
    return g.with_scalar("shift_left", a, g.const(amount, "int32")) if amount else a


def _right(g: Graph, a: Node, amount: int) -> Node:
    return g.with_scalar("shift_right", a, g.const(amount, "int32")) if amount else a


def _logical_right(g: Graph, a: Node, amount: int) -> Node:
    return logical_right(g, a, g.const(amount, "int32"))


def _top_bit(g: Graph, a: Node) -> Node:
    return _logical_right(g, a, 31)


def _low_half(g: Graph, a: Node) -> Node:
    return bit_and(g, a, g.const(_LOW_HALF, "int32"))
