"""The last resort: a parallel nest as scalar loops with element reads and writes."""

from __future__ import annotations

from contextlib import nullcontext

from ...analysis.index.value_facts import believable
from ...errors import UnsupportedConstruct
from ...ir import (
    AllocBuffer,
    Bind,
    Break,
    BufferLoad,
    BufferStore,
    Call,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    Range,
    Stmt,
    StmtMutator,
    TensorLoad,
    TensorRegion,
    Var,
    While,
    as_expr,
    call,
    const_int,
    decl_buffer,
    dtype_of,
    if_then,
    imm,
    intrin,
    is_if_then_else,
    itemsize,
    map_children,
    op_name,
    reinterpret,
    scope_of,
    seq,
    sym,
    tirx,
    walk_expr,
)
from ...isa.units import BLOCK_BYTES
from ...tile import with_args
from ...tile.uses import COUNT, is_element_atomic, is_output
from ..base.atomic import atomic_operand, atomically
from ..base.context import VectorContext
from ..base.elements import guarded_read, move_element, store_element
from ..base.layout import element_read, element_written, moved_element
from ..base.tensor_bounds import all_of, unproven
from ..base.tiles import is_tile
from .output import lower_output

BITWISE = ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "shift_left", "shift_right")
SCALAR_CALLS = ("if_then_else", "likely", "reinterpret", *BITWISE)
"""Calls the scalar unit can evaluate."""


def is_function(e) -> bool:
    """True for a call of a function the scalar unit does not have (exp, tanh, …)."""
    if not isinstance(e, Call) or op_name(e).startswith("ascend."):
        return False
    name = op_name(e).split(".")[-1]
    return name not in SCALAR_CALLS and not (name == "pow" and "int" in dtype_of(e))


def scalar_loops(stmt: For, ctx: VectorContext, reason: str = "", vector=None) -> Stmt:
    """`stmt` element by element, in order. Functions the scalar unit does not have are computed by `vector`, which lowers a
    statement on one lane; without it they raise `UnsupportedConstruct`."""
    return _Scalar(ctx, reason, vector)(stmt)


def bound_indices(ctx: VectorContext, indices, out: list, span) -> list:
    """`indices`, with reads of memory in them bound by statements appended to `out`."""
    scalar = _Scalar(ctx, "an index")
    return [scalar.rewrite(i, out, span) for i in indices]


def element_address(ctx: VectorContext, buffer, indices):
    """Head address of one element. `indices` read no memory."""
    return _Scalar(ctx, "an index").address(buffer, indices)


def bound_elements(ctx: VectorContext, e, out: list, span):
    """`e`, which calls no function of vectors, with reads of memory bound by statements appended to `out`."""
    return _Scalar(ctx, "an expression without lanes").rewrite(e, out, span)


class _Scalar(StmtMutator):
    def __init__(self, ctx: VectorContext, reason: str, vector=None):
        self.ctx, self.reason, self.vector = ctx, reason, vector
        self.analyzer = ctx.analyzer or sym.Analyzer()

    def inside(self, buffer, indices):
        """The condition under which an access to GM lies inside of the tensor, as far as that is not known; else None."""
        if is_tile(buffer):
            return None
        return all_of(b.holds(indices) for b in unproven(buffer, indices, self.analyzer))

    def where(self, cond):
        """The analyzer knows that `cond` holds inside."""
        known = believable(cond)
        return nullcontext() if known is None else self.analyzer.constraint_scope(known)

    def address(self, buffer, indices):
        """Head address of one element."""
        if not is_tile(buffer):
            assert self.ctx.gm_address is not None, "elements of GM need ctx.gm_address"
            return self.ctx.gm_address(buffer, indices)
        layout = self.ctx.layout(buffer)
        total = imm(0)
        for i, stride in zip(indices, layout.strides):
            total = total + (i if stride == 1 else i * imm(stride))
        return BufferLoad(layout.buffer, [as_expr(layout.version), total])

    def rewrite(self, e, out: list, span):
        """`e` with tile loads bound to variables by `get_value` statements appended to `out`."""
        if (read := element_read(e)) is not None:
            load, dtype = read
            indices = [self.rewrite(i, out, span) for i in load.indices]
            var = Var(load.source.name + "_v", dtype)
            place = reinterpret(self.address(load.source, indices), dtype)
            read = Bind(var, call("ascend.get_value", [place], dtype=dtype, span=span), span=span)
            inside = self.inside(load.source, indices)
            self.analyzer.name_data(var)
            if inside is None:
                out.append(read)
                return var
            found = guarded_read(inside, read, self.ctx.outside(load.source), out)
            self.analyzer.name_data(found.source)
            return found
        if is_function(e):
            return self._function(e, out, span)
        if is_if_then_else(e) and any(_has_load(a) for a in e.args[1:]):
            return self._choose(*e.args, out, span)
        if isinstance(e, (tirx.And, tirx.Or)) and _has_load(e.b):
            # What the second condition reads may not exist where the first one decides.
            decided = imm(isinstance(e, tirx.Or), "bool")
            return self._choose(e.a, *((e.b, decided) if isinstance(e, tirx.And) else (decided, e.b)), out, span)
        return map_children(e, lambda x: self.rewrite(x, out, span))

    def _function(self, e, out: list, span):
        """A function of scalars, computed on one lane of the vector unit."""
        if self.vector is None:
            raise UnsupportedConstruct(
                f"{op_name(e).split('.')[-1]} exists on vectors only, and this statement runs on the scalar unit ({self.reason})",
                at=span, hint="compute the function in a nest of its own",
            )  # fmt: skip
        value = map_children(e, lambda x: self.rewrite(x, out, span))
        place, statements = self.vector(value, span)
        var = Var("f_v", dtype_of(e))
        out += [statements, Bind(var, call("ascend.get_value", [place], dtype=dtype_of(e), span=span), span=span)]
        return var

    def _choose(self, condition, true_value, false_value, out: list, span):
        """A lazy selection whose branches read tiles: a branch that stores into a variable."""
        cond = self.rewrite(condition, out, span)
        var = decl_buffer((1,), dtype_of(true_value), "chosen", scope="local.var")
        self.analyzer.name_data(var)
        sides = []
        for value, holds in zip((true_value, false_value), (cond, tirx.Not(cond))):
            stmts: list = []
            with self.where(holds):
                result = self.rewrite(value, stmts, span)
            sides.append(seq(stmts, BufferStore(var, result, [imm(0)], span=span)))
        out += [AllocBuffer(var), if_then(cond, *sides, span=span)]
        return BufferLoad(var, [imm(0)])

    def visit_For(self, s: For):
        out: list = []
        extent = self.rewrite(s.annotations.get(COUNT, s.extent), out, s.span)
        if const_int(extent) is not None:
            self.analyzer.bind(s.loop_var, Range.from_min_extent(s.min, extent))
        return [*out, For(s.loop_var, s.min, extent, ForKind.SERIAL, self.block(s.body), span=s.span)]

    def visit_While(self, s: While):
        out: list = []
        cond = self.rewrite(s.condition, out, s.span)
        if not out:
            return self.generic(s)
        # The condition reads memory: it is evaluated at the head of each iteration, also of one that `continue` begins.
        return While(imm(True, "bool"), seq(out, if_then(tirx.Not(cond), Break(), span=s.span), self.block(s.body)), span=s.span)

    def visit_IfThenElse(self, s: IfThenElse):
        out: list = []
        cond = self.rewrite(s.condition, out, s.span)
        with self.where(cond):
            then = self.block(s.then_case)
        other = self.block(s.else_case) if s.else_case is not None else None
        return [*out, if_then(cond, then, other, span=s.span)]

    def visit_Evaluate(self, s: Evaluate):
        if is_element_atomic(s):
            return self.atomic(s)
        if not is_output(s):
            return self.generic(s)
        out: list = []
        args = [a if isinstance(a, TensorRegion) else self.rewrite(a, out, s.span) for a in s.value.args]
        return [*out, lower_output(with_args(s, args), self.ctx)]

    def atomic(self, s: Evaluate):
        """An atomic update of one element of GM: a transfer from a place of its own in UB."""
        target, value = s.value.args
        dtype, out = dtype_of(target.source), []
        value = self.rewrite(value, out, s.span)
        indices = [self.rewrite(r.min, out, s.span) for r in target.region]
        place = BufferLoad(self.ctx.new_temp(dtype, BLOCK_BYTES // itemsize(dtype), f"{target.source.name}_v"), [imm(0), imm(0)])
        ends = (atomic_operand(s, x) for x in (self.address(target.source, indices), place))
        update = [
            intrin("set_value", place, value, span=s.span),
            atomically(s, move_element(*ends, dtype, s.span), dtype),
        ]
        inside = self.inside(target.source, indices)
        return [*out, *(update if inside is None else [if_then(inside, seq(update), span=s.span)])]

    def visit_Bind(self, s: Bind):
        out: list = []
        value = self.rewrite(s.value, out, s.span)
        return [*out, Bind(s.var, value, span=s.span)]

    def visit_BufferStore(self, s: BufferStore):
        out: list = []
        value = self.rewrite(s.value if scope_of(s.buffer) == "local.var" else moved_element(s.value), out, s.span)
        indices = [self.rewrite(i, out, s.span) for i in s.indices]
        if scope_of(s.buffer) == "local.var":
            return [*out, BufferStore(s.buffer, value, indices, span=s.span)]
        address = self.address(s.buffer, indices)
        if is_tile(s.buffer):
            stored = [intrin("set_value", *element_written(address, value), span=s.span)]
        else:
            stored = store_element(self.ctx, s.buffer.name, address, value, s.span)
        inside = self.inside(s.buffer, indices)
        return [*out, *(stored if inside is None else [if_then(inside, seq(stored), span=s.span)])]


def _has_load(e) -> bool:
    found = []
    walk_expr(e, lambda x: found.append(x) if isinstance(x, TensorLoad) and scope_of(x.source) != "local.var" else None)
    return bool(found)
