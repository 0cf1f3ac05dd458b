"""Typed operations on graph nodes: what an expression of a TIR dtype means on hardware that has fewer dtypes.

logical dtype   compute dtype
float16         float16
bfloat16        float32 (rounded to bfloat16 where it is stored or cast explicitly; one instruction where that is the same, `Graph.bfloats`)
float32         float32
float8          float32 (rounded where it is stored or cast explicitly)
int8, uint8     int16, wrapped to 8 bits after every operation that can leave the range
int16           int16
int32           int32
int64           int64, as pairs of int32 words where the chip has no instruction for them (`Graph.longs`)
uint16          int32, wrapped to 16 bits
uint32          int32: equal bits for + - *, orders and right shifts flip or shift the top bit
uint64          int64: the same
bool            mask
"""

from __future__ import annotations

import math

import numpy as np

from ....ir import itemsize, tirx
from ...base.unsupported import Unsupported
from . import int64 as vector_int64
from .convert import compare_exact, convert, wrap
from .fp8 import FORMATS, code
from .graph import MASK, Graph, Node, power_of_two

COMPUTE = {
    "float16": "float16", "bfloat16": "float32", "float32": "float32", "int8": "int16", "uint8": "int16", "int16": "int16",
    "int32": "int32", "int64": "int64", "uint16": "int32", "uint32": "int32", "uint64": "int64", "float8_e4m3fn": "float32",
    "float8_e5m2": "float32", "float8_e8m0fnu": "float32", "bool": MASK,
}  # fmt: skip


BITS_OF = {"uint32": "int32", "uint64": "int64"}
"""Unsigned dtypes that are computed as the signed ones of the same bits."""


def compute_dtype(logical: str) -> str:
    """dtype in which values of a TIR dtype are computed."""
    if logical not in COMPUTE:
        raise Unsupported(f"there is no vector arithmetic on {logical}", "compute in float32 or int32 and cast at the end")
    return COMPUTE[logical]


_FOLD_UNARY = {"exp": np.exp, "ln": np.log, "sqrt": np.sqrt, "abs": np.abs}
_FOLD_ROUND = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint}


class VectorOps:
    """Operations on nodes; operands are in the compute dtype of `logical` (see `value`)."""

    def __init__(self, graph: Graph, fast: bool = False):
        self.g = graph
        self.fast = fast
        """Shorter sequences whose error grows with the argument (the user asked for fast math)."""
        self.odd: dict[Node, tuple[str, Node]] = {}
        """Values of odd functions that have a sequence for 1 + f(x), too: value -> (f, x)."""

    def value(self, a: Node, logical: str) -> Node:
        """A node (as loaded, e.g. bfloat16 or int8) in the compute dtype of its logical dtype."""
        dtype = compute_dtype(logical)
        if a.op == "const" and logical in BITS_OF:
            return self.g.const(a.value, dtype)
        if a.is_scalar and a.dtype != dtype:
            if dtype != MASK:
                return self.scalar_cast(a, dtype)
            # A boolean read from a tile is a byte.
            return a if a.dtype == "bool" else self.g.scalar_op(lambda e: tirx.NE(e, tirx.const(0, a.dtype)), a)
        return convert(self.g, a, dtype)

    def scalar_cast(self, a: Node, dtype: str) -> Node:
        """A scalar node in another dtype, converted by the scalar unit."""
        return self.g.scalar_cast(a, dtype)

    def converted(self, a: Node, dtype: str) -> Node:
        """A value in another dtype: scalars by the scalar unit, tiles by instructions."""
        return self.scalar_cast(a, dtype) if a.is_scalar else convert(self.g, a, dtype)

    def arithmetic(self, name: str, a: Node, b: Node, logical: str) -> Node:
        """``add sub mul max min`` and float ``div``."""
        if MASK in (a.dtype, b.dtype) and name in ("max", "min"):
            return self.g.mask_binary("or" if name == "max" else "and", self.g.lane_mask(a), self.g.lane_mask(b))
        if logical in BITS_OF and a.is_scalar and b.is_scalar and not a.op == b.op == "const":
            return self._unsigned(name, a, b, logical)
        if logical in BITS_OF and name in ("max", "min"):
            return self.flipped(self.arithmetic(name, self.flipped(a), self.flipped(b), BITS_OF[logical]))
        if a.dtype == "int64" and not (a.is_scalar and b.is_scalar):
            return vector_int64.arithmetic(self, name, a, b)
        out = self.g.binary(name, a, b)
        return self.in_range(out, logical) if name in ("add", "sub", "mul") else out

    def in_range(self, a: Node, logical: str) -> Node:
        if logical not in ("int8", "uint8", "uint16") or a.op == "const":
            return a
        if a.is_scalar:
            return self.scalar_cast(self.scalar_cast(a, logical), a.dtype)
        return wrap(self.g, a, 16 if logical == "uint16" else 8, signed=logical == "int8")

    def _unsigned(self, name: str, a: Node, b: Node, logical: str) -> Node:
        """uint32 or uint64 scalars (as the signed dtype of their bits), computed as what they are: sums of signed ones must not overflow."""
        a, b = (self.g.const(x.value, logical) if x.op == "const" else self.g.scalar_cast(x, logical) for x in (a, b))
        return self.g.scalar_cast(self.g.binary(name, a, b), BITS_OF[logical])

    def flipped(self, a: Node) -> Node:
        """A uint32 or uint64 value (as the signed dtype of its bits) with the top bit inverted: signed order of the results is unsigned order of the
        values."""
        top = -(2 ** (8 * itemsize(a.dtype) - 1))
        if a.op == "const":
            return self.g.const(a.value + top, a.dtype)
        if a.is_scalar:
            return self.g.scalar_op(lambda x: tirx.bitwise_xor(x, tirx.const(top, a.dtype)), a)
        if a.dtype == "int64":
            return vector_int64.arithmetic(self, "add", a, self.g.const(top, a.dtype))
        return self.g.binary("add", a, self.g.const(top, a.dtype))

    def compare(self, mode: str, a: Node, b: Node) -> Node:
        """Mask of a <mode> b; int16 goes through float32, where it is exact, unless the chip compares it."""
        if a.dtype == "int16" and "int16" not in self.g.orders and not (a.is_scalar and b.is_scalar):
            a, b = (self.converted(x, "float32") for x in (a, b))
        if a.dtype == MASK or b.dtype == MASK:
            return self._compare_masks(mode, a, b)
        if a.dtype == "int64" and not (a.is_scalar and b.is_scalar):
            return vector_int64.compare(self.g, mode, a, b)
        return compare_exact(self.g, mode, a, b)

    def _compare_masks(self, mode: str, a: Node, b: Node) -> Node:
        a, b = (convert(self.g, self.g.lane_mask(x), "float16") for x in (a, b))
        return self.g.compare(mode, a, b)

    def select(self, m: Node, a: Node, b: Node) -> Node:
        """m ? a : b. Integers are selected as the float of the same width: a select moves bits. 8-bit floats are selected as numbers of
        their bits."""
        if a.dtype in FORMATS and not (m.is_scalar and a.is_scalar and b.is_scalar):
            codes = [self.converted(code(self.g, x, a.dtype), "float16") for x in (a, b)]
            return self.g.reinterpret(convert(self.g, self.g.select(m, *codes), "uint8"), a.dtype)
        if a.dtype == MASK or (a.dtype == "bool" and a.is_scalar):
            return self.g.mask_binary("or", self.g.mask_binary("and", m, a), self.g.mask_binary("and", self.g.mask_not(m), b))
        if a.dtype == "int64" and not (m.is_scalar and a.is_scalar and b.is_scalar):
            return vector_int64.select(self, m, a, b)
        carrier = {"int16": "float16", "int32": "float32", "uint16": "float16", "uint32": "float32"}.get(a.dtype)
        if carrier is None or (m.is_scalar and a.is_scalar and b.is_scalar):
            return self.g.select(m, a, b)
        parts = [self.g.reinterpret(self.g.tile(x), carrier) for x in (a, b)]
        return self.g.reinterpret(self.g.select(m, *parts), a.dtype)

    # -- functions used by the math sequences -------------------------------------------------------------------------

    def _operand(self, x, like: Node) -> Node:
        return x if isinstance(x, Node) else self.g.const(x, like.dtype)

    def _pair(self, a, b):
        like = a if isinstance(a, Node) else b
        return self._operand(a, like), self._operand(b, like)

    def add(self, a, b) -> Node:
        return self.g.binary("add", *self._pair(a, b))

    def sub(self, a, b) -> Node:
        return self.g.binary("sub", *self._pair(a, b))

    def mul(self, a, b) -> Node:
        """A product. Sequences of functions stay away from what is denormal or overflows, where a power of two rounds: two factors
        become one."""
        a, b = self._pair(a, b)
        if a.op == "muls" and a.dtype == "float32" and a.args[1].op == b.op == "const" and power_of_two(b.value):
            merged = self.g.const(a.args[1].value * b.value, "float32")
            if 2.0**-64 <= abs(merged.value) <= 2.0**64:
                return self.g.with_scalar("muls", a.args[0], merged)
        return self.g.binary("mul", a, b)

    def product_in_factors(self, a: Node, factor: float) -> Node | None:
        """a * factor where that costs no instruction on the whole tile: `a` is a sum of products with constants, and `factor` goes into these.

        None unless the sum contains a product with a constant of more than half a float32's digits and a fraction. Such a product is
        rounded whatever the values are, so that the sum is no exact number by design (two to the power of an exact exponent has to be
        exact), and with the other factors as near to the true value as with the written ones: what `a * factor` adds is at
        most as much as the roundings of the terms and of the sum, which both have."""
        if a.dtype != "float32" or a.is_scalar:
            return None
        product, rounds = _with_factor(self, a, factor, set(a.axes)) or (None, False)
        return _in_one_pass(self, product) if rounds else None

    def div(self, a, b) -> Node:
        return self.g.binary("div", *self._pair(a, b))

    def maximum(self, a, b) -> Node:
        return self.g.binary("max", *self._pair(a, b))

    def minimum(self, a, b) -> Node:
        return self.g.binary("min", *self._pair(a, b))

    def unary(self, name: str, a: Node) -> Node:
        if a.op == "const" and a.dtype == "float32" and name in _FOLD_UNARY:
            with np.errstate(all="ignore"):
                return self.g.const(float(_FOLD_UNARY[name](np.float32(a.value))), a.dtype)
        return self.g.unary(name, a)

    def cast(self, a: Node, dtype: str, round: str) -> Node:
        if a.op == "const" and a.dtype == dtype == "float32" and round in _FOLD_ROUND:
            return self.g.const(float(_FOLD_ROUND[round](np.float32(a.value))), dtype)
        return self.g.cast(a, dtype, round)

    def widen(self, a: Node) -> Node:
        """A float16 value in float32, exact."""
        return self.converted(a, "float32")

    def constant(self, a) -> float | None:
        """The number of a constant operand, else None."""
        return a.value if isinstance(a, Node) and a.op == "const" else None

    def splat(self, value: float, like: Node) -> Node:
        """A number in the dtype of another value."""
        return self.g.const(value, like.dtype)

    def shift_left(self, a: Node, bits: int) -> Node:
        return self.g.with_scalar("shift_left", a, self.g.const(bits, a.dtype))

    def shift_right(self, a: Node, bits: int) -> Node:
        return self.g.with_scalar("shift_right", a, self.g.const(bits, a.dtype))

    def bits(self, a: Node, dtype: str) -> Node:
        """The same bits as another dtype of the same width."""
        return self.g.reinterpret(a, dtype)

    def cond(self, mode: str, a, b) -> Node:
        return self.g.compare(mode, *self._pair(a, b))

    def where(self, m: Node, a, b) -> Node:
        a, b = self._pair(a, b)
        return self.g.select(m, a, b)


def _with_factor(o: VectorOps, a: Node, factor: float, axes: set) -> tuple[Node, bool] | None:
    """(a * factor, whether `a` is rounded whatever the values are), see `VectorOps.product_in_factors`; `axes`: those of the whole sum."""
    if a.op == "const":
        return o.g.const(a.value * factor, a.dtype), a.value == 0 or abs(a.value) > _FAR
    if a.op == "muls" and a.args[1].op == "const" and _always_rounds(a.args[1].value):
        merged = a.args[1].value * factor
        return (o.g.with_scalar("muls", a.args[0], o.g.const(merged, a.dtype)), True) if 2.0**-64 <= abs(merged) <= 2.0**64 else None
    if a.op in _LINEAR:
        operands, every = _LINEAR[a.op]
        parts = {k: _with_factor(o, a.args[k], factor, axes) for k in operands}
        if None not in parts.values():
            args = tuple(parts[k][0] if k in parts else x for k, x in enumerate(a.args))
            return o.g.node(a.op, a.dtype, args, a.attrs), (all if every else any)(rounds for _, rounds in parts.values())
    # A scalar, or a row of other axes such as the maximum of each row, costs next to nothing.
    return (o.mul(a, factor), False) if set(a.axes) < axes else None


def _in_one_pass(o: VectorOps, a: Node) -> Node:
    """A product with a constant plus or minus a row that is broadcast, `x * c - r`, as one instruction. It costs as much as the broadcast."""
    if a.op not in ("add", "sub") or a.args[0].op != "muls" or a.args[0].args[1].op != "const" or not set(a.args[1].axes) < set(a.axes):
        return a
    (x, factor), row = a.args[0].args, a.args[1]
    if a.op == "sub":
        scaled = row.op == "muls" and row.args[1].op == "const"
        row = o.g.with_scalar("muls", row.args[0], o.g.neg(row.args[1])) if scaled else o.g.neg(row)
    return o.g.multiply_add(x, factor, row)


_FAR = 200
"""Beyond it exp2 and exp10 of a float32, and exp of it in float32 too, are 0 or infinite."""

_LINEAR = {
    "add": ((0, 1), False), "sub": ((0, 1), False), "adds": ((0, 1), False), "muls": ((0,), False), "div": ((0,), False),
    "select": ((1, 2), True), "select_scalar": ((1, 2), True),
}  # fmt: skip
"""Operation -> (operands whose products with a factor make its product with it, whether each of them has to be rounded or only one)."""


def _always_rounds(c: float) -> bool:
    """Whether a product with the constant is rounded for nearly every float32, and no integer by design."""
    if not math.isfinite(c) or c == int(c):
        return False
    digits = int(abs(math.frexp(c)[0]) * 2**24)
    return digits % 2**12 != 0
