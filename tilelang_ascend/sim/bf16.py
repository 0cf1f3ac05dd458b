"""bfloat16 scalars as float32 scalars that only ever hold bfloat16 values.

LLVM code generation has no bfloat16, and TVM's own legalisation does not accept `Bind` of such a variable. Every
operation is done in float32 and rounded to nearest even at once, which is what bfloat16 arithmetic means.
"""

from __future__ import annotations

from ..ir import (
    AllocBuffer,
    Bind,
    BufferLoad,
    BufferStore,
    FloatImm,
    PrimType,
    Stmt,
    StmtMutator,
    TensorLoad,
    Var,
    decl_buffer,
    dtype_of,
    exprs,
    imm,
    is_buffer_var,
    map_children,
    op_name,
    statements,
    tirx,
    walk_expr,
)
from ..isa.stream import round_to

_BF16, _REINTERPRET = "bfloat16", "tirx.reinterpret"


def lower_bf16(body: Stmt) -> Stmt:
    """`body` without bfloat16 scalars; unchanged when it has none."""
    return _Bf16()(body) if _uses_bf16(body) else body


def _uses_bf16(body: Stmt) -> bool:
    found = False

    def see(e):
        nonlocal found
        found = found or (type(e.ty) is PrimType and dtype_of(e) == _BF16)

    for s in statements(body):
        for e in exprs(s):
            walk_expr(e, see)
    return found


def round_bf16(value):
    """A float32 expression rounded to the nearest bfloat16 value, ties to even, by a function of the native library."""
    return tirx.call_pure_extern("float32", "tla_round_bf16", value)


class _Bf16(StmtMutator):
    def __init__(self):
        self.vars: dict = {}

    def renamed(self, var):
        """The float32 stand-in of a bfloat16 variable or mutable scalar."""
        if var not in self.vars:
            buffer = is_buffer_var(var)
            self.vars[var] = decl_buffer((1,), "float32", var.name, scope="local.var") if buffer else Var(var.name, "float32")
        return self.vars[var]

    # ---- statements

    def visit_Bind(self, s: Bind):
        var = self.renamed(s.var) if dtype_of(s.var) == _BF16 else s.var
        return Bind(var, self.expr(s.value), span=s.span)

    def visit_AllocBuffer(self, s: AllocBuffer):
        return AllocBuffer(self.renamed(s.buffer)) if dtype_of(s.buffer) == _BF16 else s

    def visit_BufferStore(self, s: BufferStore):
        buffer = self.renamed(s.buffer) if dtype_of(s.buffer) == _BF16 else s.buffer
        return BufferStore(buffer, self.expr(s.value), list(s.indices), span=s.span)

    # ---- expressions

    def expr(self, e):
        return self.small(e) if dtype_of(e) == _BF16 else self.other(e)

    def other(self, e):
        """An expression of another dtype, with bfloat16 parts replaced."""
        if isinstance(e, tirx.Cast) and dtype_of(e.value) == _BF16:
            value = self.expr(e.value)
            return value if dtype_of(e) == "float32" else tirx.Cast(e.ty.dtype, value)
        if op_name(e) == _REINTERPRET and dtype_of(e.args[0]) == _BF16:
            bits = tirx.Cast("uint16", tirx.shift_right(tirx.reinterpret("uint32", self.expr(e.args[0])), imm(16, "uint32")))
            return bits if dtype_of(e) == "uint16" else tirx.reinterpret(dtype_of(e), bits)
        return map_children(e, self.expr)

    def small(self, e):
        """A bfloat16 expression as float32."""
        if isinstance(e, Var):
            return self.renamed(e)
        if isinstance(e, FloatImm):
            return FloatImm("float32", round_to(float(e.value), _BF16))
        if isinstance(e, TensorLoad):
            return BufferLoad(self.renamed(e.source), list(e.indices))
        if isinstance(e, tirx.Cast):
            value = self.expr(e.value)
            return round_bf16(value if dtype_of(value) == "float32" else tirx.Cast("float32", value))
        if op_name(e) == _REINTERPRET:
            value = self.expr(e.args[0])
            bits = value if dtype_of(value) == "uint16" else tirx.reinterpret("uint16", value)
            return tirx.reinterpret("float32", tirx.shift_left(tirx.Cast("uint32", bits), imm(16, "uint32")))
        if isinstance(e, (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div)):
            return round_bf16(type(e)(self.expr(e.a), self.expr(e.b)))
        if isinstance(e, (tirx.Min, tirx.Max)):
            return type(e)(self.expr(e.a), self.expr(e.b))
        if isinstance(e, tirx.Select):
            return tirx.Select(self.expr(e.condition), self.expr(e.true_value), self.expr(e.false_value))
        condition, yes, no = e.args  # what is left is if_then_else
        return tirx.if_then_else(self.expr(condition), self.expr(yes), self.expr(no))
