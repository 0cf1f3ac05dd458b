"""The expression graph of vector work: one node = one value over (some of) the axes of a nest, mostly one instruction.

Nodes are hash-consed, so equal sub-expressions are one node. A node knows along which axes it varies; an operand that lacks
an axis of the operation is broadcast when the instruction is emitted. Nodes that vary along no axis and come from scalar
expressions are scalar nodes (`const`, `scalar`, `element`): they become scalar arguments, never tiles.

dtype `mask` is a bit mask, one bit for each lane, the result of compares and the condition of selects.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass

from ....ir import FloatImm, IntImm, Var, dtype_of, itemsize, structural_hash, tirx
from ....isa.stream import round_to
from ....isa.table import instructions_of, ordered_on
from ....isa.vector_convert import CASTS

MASK = "mask"
SCALAR_OPS = ("const", "scalar", "element")
FLOAT_DTYPES = ("float16", "float32")


def _largest(a, b):
    """The larger of two numbers as instructions have it: NaN wins, and -0 lies below 0."""
    if a != a or b != b:
        return math.nan
    return max(a, b, key=lambda x: (x, math.copysign(1, x)))


_FOLD = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "max": _largest, "min": lambda a, b: -_largest(-a, -b),
}  # fmt: skip
_SCALAR_EXPR = {"add": tirx.Add, "sub": tirx.Sub, "mul": tirx.Mul, "div": tirx.Div, "max": tirx.Max, "min": tirx.Min}
SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}
COMPARE_EXPR = {"lt": tirx.LT, "gt": tirx.GT, "le": tirx.LE, "ge": tirx.GE, "eq": tirx.EQ, "ne": tirx.NE}


@dataclass(frozen=True, eq=False)
class Node:
    """A value along `axes`. `args` are nodes, `attrs` whatever else the operation needs (hashable or compared by identity)."""

    op: str
    dtype: str
    args: tuple = ()
    attrs: tuple = ()
    axes: tuple = ()

    @property
    def is_scalar(self) -> bool:
        return self.op in SCALAR_OPS

    @property
    def value(self):
        """Number of a `const`."""
        assert self.op == "const"
        return self.attrs[0]

    def __repr__(self):
        return f"{self.op}:{self.dtype}{list(self.axes)}({', '.join(map(repr, self.args))})"


def in_memory(view, axes, dtype: str | None = None) -> Node:
    """The lanes of a view along `axes`: a value of no graph, that nobody has to compute."""
    return Node("load", dtype or view.dtype, (), (view,), tuple(axes))


def as_held(value, dtype: str):
    """A Python number as a dtype holds it: floats rounded to nearest even, integers wrapped."""
    if dtype.startswith(("float", "bfloat")):
        return round_to(value, dtype)
    if dtype == "bool":
        return int(value != 0)
    low, high = _ends(dtype)
    return (int(value) - low) % (high - low + 1) + low


def truncated(value: float, dtype: str):
    """A float as `dtype`: integers are truncated towards zero, and what they do not hold is the nearest they do; NaN is 0. uint16 and uint32
    are the low bits of a wider integer."""
    if dtype == "bool" or "int" not in dtype:
        return value
    if math.isnan(value):
        return 0
    low, high = _ends(dtype)
    if dtype in ("uint16", "uint32"):
        low, high = -(1 << 31), max(high, (1 << 31) - 1)
    return int(min(max(value, low), high))


def _ends(dtype: str) -> tuple[int, int]:
    """Smallest and largest value of an integer dtype."""
    bits = 8 * itemsize(dtype)
    return (0, (1 << bits) - 1) if dtype.startswith("uint") else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def expr_key(e):
    """Structural key of a scalar expression."""
    if isinstance(e, (int, float)):
        return e
    if isinstance(e, (IntImm, FloatImm)):
        return (dtype_of(e), e.value)

    return ("expr", structural_hash(e), str(e))


class Graph:
    """Builder of nodes. Every method takes and returns nodes; legality of dtypes is the business of `VectorOps`. `casts`: conversions the chip
    has, (source, destination), beyond those of all chips. `longs` and `bfloats`: instructions it has for lanes of int64 and bfloat16. `orders`:
    dtypes it compares in every mode."""

    def __init__(self, casts=frozenset(), longs=frozenset(), bfloats=frozenset(), orders=frozenset()):
        self.known: dict = {}
        self.casts = casts
        self.longs = longs
        self.bfloats = bfloats
        self.orders = orders

    @staticmethod
    def of(generation: str) -> Graph:
        """A graph for chips of a generation."""
        instructions = (instructions_of(d, generation) for d in ("int64", "bfloat16"))
        return Graph(frozenset(CASTS[generation]), *instructions, ordered_on(generation))

    def __len__(self) -> int:
        return len(self.known)

    @property
    def nodes(self) -> list[Node]:
        """All nodes in the order of their creation."""
        return list(self.known.values())

    def node(self, op: str, dtype: str, args=(), attrs=(), key=None, axes=None) -> Node:
        """The node with these contents; created on first use. `axes`: those of its arguments, unless given."""
        key = (op, dtype, tuple(id(a) for a in args), attrs if key is None else key)
        found = self.known.get(key)
        if found is None:
            if axes is None:
                axes = sorted({x for a in args for x in a.axes})
            found = self.known[key] = Node(op, dtype, tuple(args), tuple(attrs), tuple(axes))
        return found

    # -- scalars ------------------------------------------------------------------------------------------------------

    def const(self, value, dtype: str) -> Node:
        """A number known at compile time, as its dtype holds it: rounded or wrapped."""
        value = as_held(value, dtype)
        return self.node("const", dtype, attrs=(value,), key=(repr(value),))

    def scalar(self, e, args=()) -> Node:
        """A lane-invariant expression evaluated by the scalar unit; `args` are the `element` nodes it uses."""
        if isinstance(e, (IntImm, FloatImm)):
            return self.const(e.value, dtype_of(e))
        return self.node("scalar", dtype_of(e), args, (e,), key=expr_key(e))

    def element(self, var, view, key) -> Node:
        """A scalar read from the first lane of a view into `var` (a `get_value`)."""
        return self.node("element", dtype_of(var), (), (var, view), key=key)

    def scalar_expr(self, n: Node):
        """The expression of a scalar node."""
        if n.op == "const":
            return tirx.const(n.value, n.dtype)
        return n.attrs[0]

    def scalar_op(self, make, *nodes: Node) -> Node:
        elements = [e for n in nodes for e in ((n,) if n.op == "element" else n.args)]
        unique = list({id(e): e for e in elements}.values())
        return self.scalar(make(*(self.scalar_expr(n) for n in nodes)), unique)

    def scalar_cast(self, a: Node, dtype: str) -> Node:
        """A scalar in another dtype, converted by the scalar unit."""
        if a.op == "const":
            return self.const(truncated(a.value, dtype) if isinstance(a.value, float) else a.value, dtype)
        return self.scalar_op(lambda x: tirx.Cast(dtype, x), a)

    def scalar_reinterpret(self, a: Node, dtype: str) -> Node:
        """The bits of a scalar as another dtype of the same width. Those of an element of a tile are read as that, through no register of
        its own dtype, which may not exist or know one NaN only."""
        if a.op == "element":
            return self.element(Var(a.attrs[0].name, dtype), a.attrs[1].retyped(dtype), key=("bits", a, dtype))
        return self.scalar_op(lambda x: tirx.reinterpret(dtype, x), a)

    # -- instructions -------------------------------------------------------------------------------------------------

    def binary(self, name: str, a: Node, b: Node) -> Node:
        """``add sub mul div max min`` of two values of the same dtype."""
        assert a.dtype == b.dtype, (name, a, b)
        if a.is_scalar and b.is_scalar:
            if a.op == b.op == "const" and name in _FOLD and a.dtype in ("float32", "int32"):
                return self.const(_FOLD[name](a.value, b.value), a.dtype)
            return self.scalar_op(_SCALAR_EXPR[name], a, b)
        if name in _WITH_SCALAR and (a.is_scalar or b.is_scalar):
            return _WITH_SCALAR[name](self, a, b)
        return self.node(name, a.dtype, (self.tile(a), self.tile(b)))

    def with_scalar(self, name: str, a: Node, s: Node) -> Node:
        """An instruction with a scalar operand: ``adds muls maxs mins leaky_relu shift_left shift_right``."""
        assert s.is_scalar
        return self.node(name, a.dtype, (self.tile(a), s))

    def multiply_add(self, a: Node, factor: Node, b: Node) -> Node:
        """a * factor + b for a scalar factor, both rounded."""
        return self.node("fused_mul_add", a.dtype, (a, self.tile(factor), self.tile(b)))

    def unary(self, name: str, a: Node) -> Node:
        """``exp ln abs sqrt relu not …``."""
        return self.node(name, a.dtype, (self.tile(a),))

    def cast(self, a: Node, dtype: str, round: str) -> Node:
        """One hardware conversion."""
        return self.node("cast", dtype, (self.tile(a),), (("round", round),))

    def reinterpret(self, a: Node, dtype: str) -> Node:
        """The same bits as another dtype of the same width."""
        if a.op == "reinterpret":
            a = a.args[0]
        return a if a.dtype == dtype else self.node("reinterpret", dtype, (self.tile(a),))

    def tile(self, a: Node) -> Node:
        """A scalar as a tile (one lane that is broadcast); tiles unchanged."""
        return self.node("duplicate", a.dtype, (a,)) if a.is_scalar else a

    def neg(self, a: Node) -> Node:
        """-a, exact."""
        if a.op == "const":
            return self.const(-a.value, a.dtype)
        if a.is_scalar:
            # 0 - x is +0 for x = 0, but adding that is not subtracting zero: -0 - 0 is -0.
            negative = (lambda x: x * tirx.const(-1, a.dtype)) if a.dtype in FLOAT_DTYPES else (lambda x: tirx.const(0, a.dtype) - x)
            return self.scalar_op(negative, a)
        return self.with_scalar("muls", a, self.const(-1, a.dtype))

    # -- masks --------------------------------------------------------------------------------------------------------

    def compare(self, mode: str, a: Node, b: Node) -> Node:
        """Bit mask of a <mode> b (float dtypes, or int32 eq/ne)."""
        if a.op == b.op == "const":
            return self.const(getattr(operator, mode)(a.value, b.value), "bool")
        if a.is_scalar and b.is_scalar:
            return self.scalar_op(COMPARE_EXPR[mode], a, b)
        if a.is_scalar:
            a, b, mode = b, a, SWAPPED[mode]
        if b.is_scalar:
            return self.node("compare_scalar", MASK, (a, b), (("mode", mode),))
        return self.node("compare", MASK, (a, b), (("mode", mode),))

    def mask_not(self, m: Node) -> Node:
        """Complement of a mask or of a scalar condition."""
        if m.is_scalar:
            return self.scalar_op(tirx.Not, m) if m.op != "const" else self.const(1 - m.value, "bool")
        if m.op == "compare_columns":  # of numbers, none of them NaN
            return self.node(m.op, MASK, m.args, (("mode", "lt" if dict(m.attrs)["mode"] == "ge" else "ge"),))
        return m.args[0] if m.op == "mask_not" else self.node("mask_not", MASK, (m,))

    def mask_binary(self, name: str, a: Node, b: Node) -> Node:
        """`and` / `or` of two conditions."""
        if a.is_scalar and b.is_scalar:
            return self.scalar_op(tirx.And if name == "and" else tirx.Or, a, b)
        absorbing = 0 if name == "and" else 1
        for s, other in ((a, b), (b, a)):
            if s.op == "const":
                return s if s.value == absorbing else other
        return a if a is b else self.node("mask_" + name, MASK, (self.lane_mask(a), self.lane_mask(b)))

    def lane_mask(self, m: Node) -> Node:
        """A scalar condition as a mask (all lanes equal)."""
        if not m.is_scalar:
            return m
        as_float = self.scalar_op(lambda c: tirx.Cast("float32", c), m)
        return self.compare("ne", self.tile(as_float), self.const(0.0, "float32"))

    def select(self, m: Node, a: Node, b: Node) -> Node:
        """m ? a : b for float16 / float32 values."""
        assert a.dtype == b.dtype
        if a is b or (m.op == "const" and m.value):
            return a
        if m.op == "const":
            return b
        if m.is_scalar and a.is_scalar and b.is_scalar:
            return self.scalar_op(tirx.Select, m, a, b)
        m = self.lane_mask(m)
        if a.is_scalar and not b.is_scalar:
            return self.node("select_scalar", a.dtype, (self.mask_not(m), b, a))
        if b.is_scalar:
            return self.node("select_scalar", a.dtype, (m, self.tile(a), b))
        return self.node("select", a.dtype, (m, a, b))


def _add(g: Graph, a: Node, b: Node) -> Node:
    a, s = (b, a) if a.is_scalar else (a, b)
    # x + 0 is kept for floats (-0 + 0 is +0), and dropped for integers, where it is x.
    if s.op == "const" and s.value == 0 and a.dtype not in FLOAT_DTYPES:
        return a
    return g.with_scalar("adds", a, s)


def _sub(g: Graph, a: Node, b: Node) -> Node:
    if b.is_scalar:
        # x - 0 is x, but x - -0 is x + 0.
        return a if b.op == "const" and b.value == 0 and math.copysign(1, b.value) > 0 else _add(g, a, g.neg(b))
    return g.with_scalar("adds", g.neg(b), a)


def _mul(g: Graph, a: Node, b: Node) -> Node:
    a, s = (b, a) if a.is_scalar else (a, b)
    if s.op == "const" and s.value == 1:
        return a
    return g.with_scalar("muls", a, s)


def _div(g: Graph, a: Node, b: Node) -> Node:
    if b.op == "const" and power_of_two(b.value):
        return _mul(g, a, g.const(1.0 / b.value, b.dtype))
    return g.node("div", a.dtype, (g.tile(a), g.tile(b)))


def power_of_two(value: float) -> bool:
    """True when 1 / value is exact in float16 and float32 without becoming denormal."""
    return value != 0 and math.isfinite(value) and abs(math.frexp(value)[0]) == 0.5 and 2.0**-14 <= abs(value) <= 2.0**14


def _minmax(name: str):
    def build(g: Graph, a: Node, b: Node) -> Node:
        a, s = (b, a) if a.is_scalar else (a, b)
        return g.with_scalar(name, a, s)

    return build


_WITH_SCALAR = {"add": _add, "sub": _sub, "mul": _mul, "div": _div, "max": _minmax("maxs"), "min": _minmax("mins")}
