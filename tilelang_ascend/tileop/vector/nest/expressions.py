"""TIR expressions inside a parallel nest -> graph nodes.

Sub-expressions that do not vary from lane to lane and read no tile stay scalar expressions. Loads become views; indices that
are not sums of axis multiples become gathers. Conditions become masks; under a condition, loads that could leave their buffer
are clamped into it, because all lanes are read whatever the condition says.
"""

from __future__ import annotations

from typing import Any

from ....analysis.index.affine import difference_fits, far_difference
from ....analysis.index.sums import Sum, as_sum, constant, is_integer, is_variable, scale
from ....analysis.index.sums import add as add_sums
from ....ir import (
    Call,
    TensorLoad,
    Var,
    const_int,
    dtype_of,
    expr_children,
    is_buffer_var,
    is_if_then_else,
    itemsize,
    map_children,
    op_name,
    scope_of,
    sym,
    tirx,
    walk_expr,
)
from ....isa.units import BLOCK_BYTES
from ....tile.uses import loads_in
from ...base.context import VectorContext
from ...base.tiles import is_tile, memory_dtype
from ...base.unsupported import Unsupported
from ...scalar.loops import BITWISE, bound_elements, is_function
from ..emit.views import View
from ..graph import integers as vector_int
from ..graph.convert import convert
from ..graph.graph import COMPARE_EXPR, MASK, Graph, Node
from ..graph.operations import BITS_OF, VectorOps, compute_dtype
from ..graph.words import pair
from ..math import functions as elementwise_math
from .thresholds import EXACT, by_columns

_ARITHMETIC = {tirx.Add: "add", tirx.Sub: "sub", tirx.Mul: "mul", tirx.Max: "max", tirx.Min: "min"}
_COMPARE = {kind: mode for mode, kind in COMPARE_EXPR.items()}
_DIVISION = {tirx.FloorDiv: "floordiv", tirx.FloorMod: "floormod", tirx.Div: "truncdiv", tirx.Mod: "truncmod"}
_BLOCK_F16 = BLOCK_BYTES // itemsize("float16")

_INT32_END = 1 << 31


def has_function(e) -> bool:
    """True when an expression calls a function the scalar unit does not have."""
    found = []
    walk_expr(e, lambda x: found.append(x) if is_function(x) else None)
    return bool(found)


class ExprLowering:
    """Nodes of the expressions of one block.

    axes:    the variables of the nest, outermost first (in the order chosen for the instructions)
    env:     Var -> Node for lets, mutable-scalar buffer -> Node for their present value
    variables: per-lane variables kept in a tile, buffer -> View
    stored:  buffer -> number of stores so far; loads before and after a store are different nodes
    """

    def __init__(self, ctx: VectorContext, graph: Graph, axes: list, extents: tuple[int, ...], env: dict):
        self.ctx, self.g, self.ops = ctx, graph, VectorOps(graph, bool(ctx.options.get("fast_math")))
        self.axes, self.extents, self.env = axes, extents, env
        self.stored: dict = {}
        self.variables: dict = {}
        self.guarded = 0
        """Conditions of lanes around what is read at present."""
        self.guarded_alike = 0
        """Conditions around it that are the same for all lanes."""
        self.lets: dict = {}
        """Var -> expression, for lets whose tiles have not been stored since."""
        self.pinned: list = []
        """Buffers read when rows are fetched, which happens at their first use: they may not be stored in this block."""

    # -- classification -----------------------------------------------------------------------------------------------

    def is_scalar(self, e) -> bool:
        """True when `e` is the same for all lanes and needs no tile."""
        scalar = True

        def see(x):
            nonlocal scalar
            if isinstance(x, TensorLoad):
                scalar = scalar and not is_tile(x.source) and x.source not in self.env and x.source not in self.variables
            elif isinstance(x, Var) and not is_buffer_var(x):
                scalar = scalar and x not in self.env and not any(x.same_as(a) for a in self.axes)

        walk_expr(e, see)
        return scalar

    def bound(self, e, out: list, span, guarded: bool = False):
        """`e` with elements of GM that are the same for all lanes bound by statements appended to `out`. `guarded`: only some lanes get there."""
        if not any(not is_tile(x.source) and scope_of(x.source) != "local.var" for x in loads_in(e)):
            return e
        if self.is_scalar(e) and not has_function(e):
            if guarded and any(loads_in(i) for x in loads_in(e) for i in x.indices):
                raise Unsupported("an element that data chooses is read where a condition of some lanes holds")
            return bound_elements(self.ctx, e, out, span)
        if isinstance(e, (tirx.Select, tirx.And, tirx.Or)) or is_if_then_else(e):
            first = expr_children(e)[0]
            return map_children(e, lambda x: self.bound(x, out, span, guarded or not x.same_as(first)))
        return map_children(e, lambda x: self.bound(x, out, span, guarded))

    def axis_of(self, var) -> int | None:
        """Position of an axis variable."""
        return next((k for k, a in enumerate(self.axes) if var.same_as(a)), None)

    # -- values -------------------------------------------------------------------------------------------------------

    def value(self, e) -> Node:
        """The value of `e` in the compute dtype of its dtype."""
        return self.ops.value(self.natural(e), dtype_of(e))

    def natural(self, e) -> Node:
        """The value of `e` as it comes: loads and casts in their own dtype, everything else in the compute dtype."""
        if self.is_scalar(e) and not has_function(e):
            return self.g.scalar(e)
        if is_variable(e):
            return self._variable(e)
        if is_integer(dtype_of(e)):
            index = self._index_value(e)
            if index is not None:
                return index
        for kind, handler in _HANDLERS.items():
            if isinstance(e, kind):
                return handler(self, e)
        raise Unsupported(f"`{type(e).__name__}` expressions have no vector form")

    def _variable(self, var) -> Node:
        axis = self.axis_of(var)
        if axis is not None:
            return self.iota(axis, "int32")
        return self.env[var]

    def iota(self, axis: int, dtype: str) -> Node:
        """Index along an axis."""
        if self.extents[axis] == 1:
            return self.g.const(0, dtype)
        return self.g.node("iota", dtype, attrs=(axis,), axes=(axis,))

    def split(self, e, exact: bool = False) -> tuple[dict, Sum] | None:
        """`e` as ({axis: coefficient}, lane-invariant rest), None when it is no such sum. `exact`: see `as_sum`."""
        sum_ = as_sum(e, exact)
        coefficients: dict = {}
        rest = Sum(sum_.const, ())
        for atom, c in sum_.terms:
            axis = self.axis_of(atom) if is_variable(atom) else None
            if axis is not None:
                coefficients[axis] = coefficients.get(axis, 0) + c
            elif self.is_scalar(atom) and not has_function(atom):
                rest = add_sums(rest, Sum(0, ((atom, c),)))
            else:
                return None
        return {a: c for a, c in coefficients.items() if c}, rest

    def _ends(self, coefficients: dict) -> tuple[int, int]:
        """Smallest and largest value of ``sum(coefficient * axis)``."""
        ends = [c * (self.extents[a] - 1) for a, c in coefficients.items()]
        return sum(min(x, 0) for x in ends), sum(max(x, 0) for x in ends)

    def _index_value(self, e) -> Node | None:
        """Integer sums of axes as int32 values; int64 sums whose varying part int32 does not hold are no such sum."""
        parts = self.split(e, exact=dtype_of(e) == "int64") if dtype_of(e) != "uint64" else None
        if parts is None or not parts[0] and as_sum(e).terms == ():
            return None
        coefficients, rest = parts
        if max([abs(rest.const), *map(abs, coefficients.values())]) >= _INT32_END:
            return None
        if dtype_of(e) != "int64":
            return self.index_node(coefficients, rest, "int32")
        if not coefficients or sum(abs(c) * (self.extents[a] - 1) for a, c in coefficients.items()) >= _INT32_END:
            return None
        varying = convert(self.g, self.index_node(coefficients, constant(0), "int32"), "int64")
        offset = rest.expr("int64")
        offset = self.g.const(offset, "int64") if isinstance(offset, int) else self.g.scalar(offset)
        return self.ops.arithmetic("add", varying, offset, "int64")

    def index_node(self, coefficients: dict, rest: Sum, dtype: str) -> Node:
        """``sum(coefficient * axis) + rest``."""
        out = None
        for axis in sorted(coefficients):
            part = self.g.binary("mul", self.iota(axis, dtype), self.g.const(coefficients[axis], dtype))
            out = part if out is None else self.g.binary("add", out, part)
        base = rest.expr("int32") if dtype == "int32" else None
        if dtype != "int32":
            assert rest == constant(0)
            return out
        node = self.g.const(base, dtype) if isinstance(base, int) else self.g.scalar(base)
        return node if out is None else self.g.binary("add", out, node)

    # -- conditions ---------------------------------------------------------------------------------------------------

    def condition(self, e) -> Node:
        """`e` as a mask or a scalar condition."""
        found = by_columns(self, e)
        return self.value(e) if found is None else found

    def _affine_condition(self, e, mode: str) -> Node | None:
        """Compare of two integer index sums: the varying part is small and exact, the rest is one scalar."""
        parts = self.affine_parts(e)
        if parts is None:
            return None
        coefficients, bound = parts
        dtype = self.number_dtype(coefficients)
        return self.g.compare(mode, self.index_node(coefficients, constant(0), dtype), self.number(bound, dtype))

    def affine_parts(self, e) -> tuple[dict, Any] | None:
        """({axis: coefficient}, number) of a comparison of two integer index sums: that of a sum of axes with a number that is the same for all lanes, an int or
        an expression, and at most one beyond what the sum can be. None if float32 does not hold that."""
        if not is_integer(dtype_of(e.a)) or dtype_of(e.a) == "uint64":
            return None
        sides = [self.split(x, exact=True) for x in (e.a, e.b)]
        # Elements of tiles on both sides may wrap on one of them.
        parts = self.split(tirx.Sub(e.a, e.b), exact=True) if None not in sides else None
        if parts is None or not parts[0]:
            return None
        coefficients, rest = parts
        low, high = self._ends(coefficients)
        if max(-low, high) + 1 >= EXACT["float32"]:
            return None
        bound = self._difference(*(part for _, part in sides), rest, dtype_of(e.a))
        if isinstance(bound, int):
            return coefficients, min(max(bound, low - 1), high + 1)
        dtype = dtype_of(bound)
        return coefficients, tirx.Min(tirx.Max(bound, tirx.const(low - 1, dtype)), tirx.const(high + 1, dtype))

    def number_dtype(self, coefficients: dict) -> str:
        """In what sums of axes are compared: float16, if it holds them and rows of numbers are whole blocks, so that none is padded for it."""
        low, high = self._ends(coefficients)
        short = max(-low, high, *map(abs, coefficients.values())) < EXACT["float16"]
        return "float16" if short and self.extents[-1] % _BLOCK_F16 == 0 else "float32"

    def number(self, value, dtype: str) -> Node:
        """An int or integer expression as a float."""
        if isinstance(value, int):
            return self.g.const(value, dtype)
        return self.g.scalar_cast(self.g.scalar(tirx.Cast("float32", value)), dtype)

    def _difference(self, a: Sum, b: Sum, rest: Sum, dtype: str):
        """`b - a` = -`rest` of the lane-invariant parts of the sides of a comparison of `dtype`: as an int32 where it surely is one, else as an int64, which may be
        another number where no lane is near. Products of data may have wrapped by then."""
        plain = scale(rest, -1)
        if not rest.terms:
            return plain.expr("int64")
        analyzer, (a, b) = self.ctx.analyzer or sym.Analyzer(), (part.expr(dtype) for part in (a, b))
        if dtype != "int64" and difference_fits(b, a, analyzer):
            return plain.expr("int32")
        return far_difference(b, a, 0, analyzer)

    def under(self, m: Node, build):
        """`build()` with loads guarded, because they may be reached only where `m` holds."""
        lanes, alike = not m.is_scalar, m.is_scalar and m.op != "const"
        self.guarded, self.guarded_alike = self.guarded + lanes, self.guarded_alike + alike
        try:
            return build()
        finally:
            self.guarded, self.guarded_alike = self.guarded - lanes, self.guarded_alike - alike

    # -- loads --------------------------------------------------------------------------------------------------------

    def place(self, buffer, indices, inside: bool = False) -> View | None:
        """The lanes of an access, None when an index is not a sum of axis multiples. `inside`: all lanes together are moved into the
        buffer where they are not; None if they do not fit."""
        layout = self.ctx.layout(buffer)
        base, strides = constant(0), [0] * len(self.axes)
        coverage = []
        for index, stride, extent in zip(indices, layout.strides, layout.shape):
            parts = self.split(index)
            if parts is None:
                return None
            coefficients, rest = parts
            low, high = self._ends(coefficients)
            if inside and high - low >= extent:
                return None
            rest = _between(rest, -low, extent - 1 - high) if inside else rest
            base = add_sums(base, scale(rest, stride))
            for a, c in coefficients.items():
                strides[a] += c * stride
            coverage.append((coefficients, rest))
        dense = self._covers(layout, coverage)
        whole = dense and self._reaches_end(layout, coverage)
        return View(layout.buffer, layout.version, base, tuple(strides), memory_dtype(buffer), dense=dense, whole=whole)

    def _covers(self, layout, coverage) -> bool:
        """True when an access leaves out only padding between its first and its last lane."""
        open_dimension = False
        used: set = set()
        for d in range(len(coverage) - 1, -1, -1):
            coefficients, rest = coverage[d]
            varying = [(a, c) for a, c in coefficients.items()]
            if open_dimension:
                if varying:
                    return False
                continue
            if len(varying) > 1 or any(c != 1 or a in used for a, c in varying):
                return False
            used.update(a for a, _ in varying)
            extent = self.extents[varying[0][0]] if varying else 1
            open_dimension = extent != layout.shape[d] or rest != constant(0)
        return True

    def _reaches_end(self, layout, coverage) -> bool:
        """True when the last lane of an access is the last element of the tile."""
        for (coefficients, rest), extent in zip(coverage, layout.shape):
            if rest.terms or rest.const + sum(c * (self.extents[a] - 1) for a, c in coefficients.items()) != extent - 1:
                return False
        return True

    def in_bounds(self, buffer, indices) -> bool:
        """True when every lane of the access is provably inside the buffer."""
        for index, extent in zip(indices, self.ctx.layout(buffer).shape):
            parts = self.split(index)
            if parts is None:
                return False
            low, high = (parts[1].const + end for end in self._ends(parts[0]))
            if parts[1].terms:
                if not self.lies_between(Sum(0, parts[1].terms).expr(dtype_of(index)), -low, extent - high):
                    return False
            elif low < 0 or high >= extent:
                return False
        return True

    def lies_between(self, e, first: int, end: int) -> bool:
        """True when the lane-invariant `e`, which reads no memory, is at least `first` and less than `end`."""
        found: list = []
        walk_expr(e, lambda x: found.append(x) if isinstance(x, TensorLoad) else None)
        analyzer = self.ctx.analyzer
        if found or analyzer is None:
            return False
        dtype = dtype_of(e)
        return all(analyzer.can_prove(c) for c in (e >= tirx.const(first, dtype), e < tirx.const(end, dtype)))

    def load(self, e) -> Node:
        """A tile load."""
        buffer, indices = e.source, list(e.indices)
        if buffer in self.env:
            return self.env[buffer]
        if buffer in self.variables:
            return self.view_node(self.variables[buffer], self.stored.get(buffer, 0))
        if not is_tile(buffer):
            return self._rows(buffer, indices)
        safe = not (self.guarded or self.guarded_alike) or self.in_bounds(buffer, indices)
        # Where a condition of all lanes does not hold nothing counts, and where it does they are inside: they are moved as one.
        view = self.place(buffer, indices, inside=not safe) if safe or not self.guarded else None
        version = self.stored.get(buffer, 0)
        if view is None:
            return self._indirect(buffer, indices, clamp=not safe)
        if not any(view.strides):
            return self._element(e, view, version)
        return self.view_node(view, version)

    def view_node(self, view: View, version: int) -> Node:
        """The lanes of a view as they are after `version` stores."""
        key = (id(view.buffer), version, view.strides, view.base.const, tuple((id(a), c) for a, c in view.base.terms))
        return self.g.node("load", view.dtype, attrs=(view,), key=key, axes=[a for a, s in enumerate(view.strides) if s])

    def _element(self, e, view: View, version: int) -> Node:
        key = (id(view.buffer), version, view.base.const, tuple((id(a), c) for a, c in view.base.terms))
        return self.g.element(Var(e.source.name, view.dtype), view, key)

    def remember(self, var, value) -> None:
        """A let that may be written out where it is used, as long as nothing it reads was stored before."""
        read: list = []
        walk_expr(value, lambda x: read.append(x.source) if isinstance(x, TensorLoad) else None)
        if all(is_tile(b) and b not in self.stored for b in read):
            self.lets[var] = value

    def _rows(self, buffer, indices) -> Node:
        """Rows of a GM tensor chosen by data."""
        from ..schedule.elements import outside_word
        from ..schedule.rows import rows_of, tiles_in

        rows = rows_of(self, buffer, indices, load=True)
        outside_word(self.ctx, buffer)
        read = tiles_in(rows)
        if any(b in self.stored for b in read):
            raise Unsupported(f"`{buffer.name}` or the choice of its rows changes in the same nest", "split the nest")
        self.pinned += read
        key = ("rows", len(self.g))
        return self.g.node("rows", memory_dtype(buffer), attrs=(rows, self.axes), key=key, axes=rows.axes(self.extents))

    def _indirect(self, buffer, indices, clamp: bool) -> Node:
        """A gather: byte offsets are computed like any other integer value."""
        layout = self.ctx.layout(buffer)
        size = itemsize(dtype_of(buffer))
        total = None
        for index, stride, extent in zip(indices, layout.strides, layout.shape):
            part = self.ops.value(self.natural(tirx.Cast("int32", index) if dtype_of(index) != "int32" else index), "int32")
            if clamp:
                part = self.ops.maximum(self.ops.minimum(part, extent - 1), 0)
            part = self.g.binary("mul", part, self.g.const(stride * size, "int32"))
            total = part if total is None else self.g.binary("add", total, part)
        view = View(layout.buffer, layout.version, constant(0), (0,) * len(self.axes), memory_dtype(buffer))
        if total.is_scalar:
            raise Unsupported("a guarded access to a single element of a tile")
        key = ("indirect", id(view.buffer), self.stored.get(buffer, 0))
        if view.dtype != "int64":
            return self.g.node("indirect", view.dtype, (total,), (view,), key=key)
        view = view.retyped("int32")
        offsets = (total, self.g.binary("add", total, self.g.const(4, "int32")))
        return pair(self.g, *(self.g.node("indirect", "int32", (t,), (view,), key=key) for t in offsets))

    # -- operators ----------------------------------------------------------------------------------------------------

    def _pair(self, e) -> tuple[Node, Node]:
        return self.value(e.a), self.value(e.b)

    def _arithmetic(self, e) -> Node:
        name, (a, b) = _ARITHMETIC[type(e)], self._pair(e)
        fused = elementwise_math.one_plus(self.ops, name, a, b)
        return fused if fused is not None else self.ops.arithmetic(name, a, b, dtype_of(e))

    def _comparison(self, e) -> Node:
        mode = _COMPARE[type(e)]
        by_index = self._affine_condition(e, mode)
        if by_index is not None:
            return by_index
        pair = self._pair(e)
        if dtype_of(e.a) in BITS_OF and mode not in ("eq", "ne"):
            pair = [self.ops.flipped(x) for x in pair]
        return self.ops.compare(mode, *pair)

    def _division(self, e) -> Node:
        name, (a, b) = _DIVISION[type(e)], self._pair(e)
        if not dtype_of(e).startswith("int") and not dtype_of(e).startswith("uint"):
            return elementwise_math.float_division(self.ops, name, a, b)
        if dtype_of(e) in BITS_OF:
            return vector_int.divide_unsigned(self.ops, name, a, b, const_int(e.b))
        return vector_int.divide(self.ops, name, a, b, const_int(e.b))

    def _cast(self, e) -> Node:
        dtype, source = dtype_of(e), dtype_of(e.value)
        a = self.natural(e.value)
        if a.is_scalar and a.dtype == BITS_OF.get(source):
            a = self.g.scalar_cast(a, source)  # What is computed as a signed number has the bits of the number, not its value.
        elif source == "uint32" and a.dtype == "int32":
            a = self.g.reinterpret(a, source)
        if a.is_scalar:
            return self.ops.scalar_cast(a, dtype)
        if "uint64" in (source, dtype):
            if not all(is_integer(x) or x == "bool" for x in (source, dtype)):
                raise Unsupported(f"no vector conversion from {source} to {dtype}")
            dtype = BITS_OF[dtype] if dtype == "uint64" else dtype
        if a.dtype != source and a.dtype != compute_dtype(source):
            a = self.ops.value(a, source)
        return convert(self.g, a, MASK if dtype == "bool" else dtype)

    def _logic(self, e) -> Node:
        name = "and" if isinstance(e, tirx.And) else "or"
        a = self.condition(e.a)
        return self.g.mask_binary(name, a, self.under(a, lambda: self.condition(e.b)))

    def _not(self, e) -> Node:
        return self.g.mask_not(self.condition(e.a))

    def choose(self, cond, true_value, false_value) -> Node:
        """cond ? true_value : false_value."""
        m = self.condition(cond)
        a = self.under(m, lambda: self.value(true_value))
        b = self.under(m, lambda: self.value(false_value))
        fused = elementwise_math.fused_select(self.ops, m, a, b)
        return fused if fused is not None else self.ops.select(m, a, b)

    def _call(self, e) -> Node:
        name = op_name(e).split(".")[-1]
        args = list(e.args)
        if name == "if_then_else":
            return self.choose(*args)
        if name == "likely":
            return self.natural(args[0])
        if name in BITWISE:
            return vector_int.bitwise(self.ops, name, [self.value(a) for a in args], dtype_of(e))
        if name == "reinterpret" and itemsize(dtype_of(args[0])) == itemsize(dtype_of(e)):
            return self._bits(args[0], dtype_of(e))
        if name == "pow" and is_integer(dtype_of(e)):
            return vector_int.power(self.ops, *map(self.value, args), dtype_of(e))
        return elementwise_math.function(self.ops, name, [self.value(a) for a in args])

    def _bits(self, value, dtype: str) -> Node:
        """The bits of a value, which is computed in a wider dtype if need be, as another dtype of the same width."""
        a, stored = self.natural(value), dtype_of(value)
        if a.dtype != stored:
            a = self.ops.converted(a, "uint8" if stored == "bool" else stored)
        return self.g.scalar_reinterpret(a, dtype) if a.is_scalar else self.g.reinterpret(a, dtype)


def _between(value: Sum, low: int, high: int) -> Sum:
    """`value`, or the end of the range it is beyond."""
    if not value.terms:
        return constant(min(max(value.const, low), high))
    least, most = (tirx.const(end, "int32") for end in (low, high))
    return as_sum(tirx.Min(tirx.Max(value.expr("int32"), least), most))


_HANDLERS = {
    TensorLoad: ExprLowering.load,
    tirx.Cast: ExprLowering._cast,
    tuple(_ARITHMETIC): ExprLowering._arithmetic,
    tuple(_COMPARE): ExprLowering._comparison,
    tuple(_DIVISION): ExprLowering._division,
    (tirx.And, tirx.Or): ExprLowering._logic,
    tirx.Not: ExprLowering._not,
    tirx.Select: lambda self, e: self.choose(e.condition, e.true_value, e.false_value),
    Call: ExprLowering._call,
}
_BIT_NODES = {"BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or", "BitwiseXor": "bitwise_xor", "BitwiseNot": "bitwise_not",
              "LShift": "shift_left", "RShift": "shift_right"}  # fmt: skip


def _bit_node(self: ExprLowering, e) -> Node:
    operands = [self.value(x) for x in ((e.a, e.b) if hasattr(e, "b") else (e.a,))]
    return vector_int.bitwise(self.ops, _BIT_NODES[type(e).__name__], operands, dtype_of(e))


def _bit_node_types() -> tuple:
    from ....ir import imm

    i = Var("i", "int32")
    samples = (tirx.bitwise_and(i, imm(1)), tirx.bitwise_or(i, imm(1)), tirx.bitwise_xor(i, imm(1)), tirx.bitwise_not(i),
               tirx.shift_left(i, imm(1)), tirx.shift_right(i, imm(1)))  # fmt: skip
    return tuple({type(s) for s in samples} - {Call})


_HANDLERS[_bit_node_types()] = _bit_node
