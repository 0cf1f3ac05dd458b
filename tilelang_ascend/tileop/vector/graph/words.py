"""64-bit values as two 32-bit words.

No instruction of C220 computes on 64-bit lanes, and few of 3510 do. A `word` node is one half of an int64 value, a `pair` node is the int64 value of two
halves, so that chains of operations stay in halves; `vector_pair` takes the words from memory and puts them there. Bit operations on
words live here, too.
"""

from __future__ import annotations

from ....ir import tirx
from .graph import Graph, Node

_WORD_BITS = 32


def pair(g: Graph, low: Node, high: Node) -> Node:
    """The int64 value of two int32 words."""
    return g.node("pair", "int64", (g.tile(low), g.tile(high)))


def words(g: Graph, a: Node) -> tuple[Node, Node]:
    """(low, high) of an int64 value, both int32; scalars stay scalars."""
    if a.op == "duplicate":
        a = a.args[0]
    if a.op == "const":
        return tuple(g.const(signed32(a.value >> shift), "int32") for shift in (0, _WORD_BITS))
    if a.is_scalar:
        low = g.scalar_op(lambda x: tirx.Cast("int32", x), a)
        return low, g.scalar_op(lambda x: tirx.Cast("int32", x >> tirx.const(_WORD_BITS, "int64")), a)
    if a.op == "pair":
        return a.args
    if a.op == "cast" and a.args[0].dtype == "int32":
        return a.args[0], g.with_scalar("shift_right", a.args[0], g.const(_WORD_BITS - 1, "int32"))
    return tuple(g.node("word", "int32", (a,), (half,)) for half in (0, 1))


def signed32(value: int) -> int:
    """The low 32 bits as int32 holds them."""
    return (int(value) + 2**31) % 2**32 - 2**31


def bit_and(g: Graph, a: Node, b: Node) -> Node:
    return g.node("and", a.dtype, (g.tile(a), g.tile(b)))


def bit_or(g: Graph, a: Node, b: Node) -> Node:
    return g.node("or", a.dtype, (g.tile(a), g.tile(b)))


def bit_not(g: Graph, a: Node) -> Node:
    return g.node("not", a.dtype, (g.tile(a),))


def bit_xor(g: Graph, a: Node, b: Node) -> Node:
    """(a | b) - (a & b): the bits of the second are a subset of the first, nothing borrows."""
    return g.binary("sub", bit_or(g, a, b), bit_and(g, a, b))


def logical_right(g: Graph, a: Node, b: Node) -> Node:
    """Right shift of int32 lanes that brings in zeros: the shift of a uint32."""
    shifted = g.with_scalar("shift_right", g.reinterpret(g.tile(a), "uint32"), g.scalar_cast(b, "uint32"))
    return g.reinterpret(shifted, "int32")
