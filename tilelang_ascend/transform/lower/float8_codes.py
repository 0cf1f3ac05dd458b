"""float8_codes: 8-bit floats are bytes to the scalar unit, and to every instruction of a chip that does not know them.

Before:  x = get_value(X[2]) : float8; set_value(Y[3], cast(float8, cast(float32, x) * 2))
After:   x = get_value(reinterpret(X[2], uint8)) : uint8; set_value(reinterpret(Y[3], uint8), code(value(x) * 2))

`value` and `code` are integer arithmetic and exact, code rounds to nearest even. Where no copy moves a dtype (C220; e8m0 anywhere), its
buffers are declared as uint8.

Requires: Ascend IR without addresses. Ensures: no expression has an 8-bit float dtype but operands of instructions that take it.
"""

from __future__ import annotations

from ...ir import (
    AllocBuffer,
    Bind,
    BufferLoad,
    BufferStore,
    Call,
    FloatImm,
    IntImm,
    PrimFunc,
    StmtMutator,
    TensorLoad,
    Var,
    call,
    decl_buffer,
    dtype_of,
    elements,
    exprs,
    imm,
    is_buffer_var,
    is_if_then_else,
    map_children,
    op_name,
    operand_parts,
    reinterpret,
    scope_of,
    statements,
    tirx,
    walk_expr,
)
from ...isa import lookup
from ...tileop.vector.graph.fp8 import FORMATS, Format, Powers, code_of

CODE = "uint8"


def value_of(code, f: Format | Powers):
    """float32 value of a code."""
    if isinstance(f, Powers):
        code = tirx.Cast("int32", code)
        power = tirx.max(tirx.shift_left(code, imm(23)), imm(1 << 22))
        return tirx.reinterpret("float32", tirx.Select(code == 255, imm(_NAN), power))
    magnitude = tirx.bitwise_and(tirx.Cast("int32", code), imm(0x7F))
    sign = tirx.shift_left(tirx.bitwise_and(tirx.Cast("int32", code), imm(0x80)), imm(24))
    normal = tirx.shift_left(magnitude, imm(23 - f.mantissa)) + imm(_rebias(f) << 23)
    counted = tirx.Cast("float32", magnitude) * imm(2.0 ** (f.least - f.mantissa), "float32")
    number = tirx.Select(magnitude < (1 << f.mantissa), tirx.reinterpret("int32", counted), normal)
    if f.finite:
        number = tirx.Select(magnitude >= 0x7F, imm(_NAN), number)
    else:
        number = tirx.Select(magnitude >= 0x7C, tirx.Select(magnitude > 0x7C, imm(_NAN), imm(_INFINITY)), number)
    return tirx.reinterpret("float32", tirx.bitwise_or(number, sign))


def code_from(value, f: Format | Powers):
    """Code (uint8) of a float32 value, rounded to nearest even; what is too large is infinite, or NaN where there is no infinity."""
    bits = tirx.reinterpret("int32", value)
    magnitude = tirx.bitwise_and(bits, imm(0x7FFFFFFF))
    if isinstance(f, Powers):
        size = tirx.min(magnitude, imm(_INFINITY))
        half = tirx.Select(size < 0x800000, imm(0x3FFFFF), imm(0x400000))
        return tirx.Cast(CODE, tirx.shift_right(size + half, imm(23)))
    drop = 23 - f.mantissa
    sign = tirx.bitwise_and(tirx.shift_right(bits, imm(24)), imm(0x80))
    odd = tirx.bitwise_and(tirx.shift_right(magnitude, imm(drop)), imm(1))
    normal = tirx.shift_right(magnitude + imm((1 << (drop - 1)) - 1) + odd, imm(drop)) - imm(_rebias(f) << f.mantissa)
    least = imm(2.0**f.least, "float32")
    size = tirx.reinterpret("float32", magnitude)
    # Adding 2**23 leaves the rounded number of steps in the low bits.
    steps = tirx.min(size, least) * imm(2.0 ** (f.mantissa - f.least), "float32") + imm(2.0**23, "float32")
    code = tirx.Select(size < least, tirx.reinterpret("int32", steps) - imm(0x4B000000), normal)
    nan = imm(0x7F if f.finite else 0x7E)
    code = tirx.min(code, nan if f.finite else imm(0x7C))
    code = tirx.Select(magnitude > _INFINITY, nan, code)
    return tirx.Cast(CODE, tirx.bitwise_or(code, sign))


_NAN, _INFINITY = 0x7FC00000, 0x7F800000


def _rebias(f: Format) -> int:
    """Difference of the exponent fields of a float32 and of a code."""
    return 127 + f.least - 1


def _computes(e) -> bool:
    """True for arithmetic of 8-bit floats, largest and smallest included."""
    return isinstance(e, (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Max, tirx.Min)) and dtype_of(e) in FORMATS


class _Codes(StmtMutator):
    """`byte_moves` = dtypes whose instructions do not exist: they become bytes."""

    def __init__(self, func: PrimFunc, chip):
        self.names: dict = {}
        self.byte_moves = FORMATS.keys() - set(lookup("copy_gm_to_ub").dtypes(chip.generation))
        for buffer in [p for p in func.params if is_buffer_var(p)]:
            self.see(buffer)
        for s in statements(func.body):
            if isinstance(s, AllocBuffer):
                self.see(s.buffer)

    def see(self, buffer) -> None:
        if dtype_of(buffer) in FORMATS and (dtype_of(buffer) in self.byte_moves or scope_of(buffer) == "local.var"):
            scope = scope_of(buffer)
            self.names[buffer] = decl_buffer(list(buffer.ty.shape), CODE, buffer.name, scope="" if scope == "global" else scope)

    # -- statements
    def visit_AllocBuffer(self, s: AllocBuffer):
        new = self.names.get(s.buffer)
        return s if new is None else AllocBuffer(new, annotations=dict(s.annotations), span=s.span)

    def visit_Bind(self, s: Bind):
        value = self.expr(s.value)
        if dtype_of(s.var) not in FORMATS:
            return s if value.same_as(s.value) else Bind(s.var, value, span=s.span)
        var = self.names[s.var] = Var(s.var.name, CODE)
        return Bind(var, value, span=s.span)

    def visit_BufferStore(self, s: BufferStore):
        return BufferStore(self.names.get(s.buffer, s.buffer), self.expr(s.value), [self.expr(i) for i in s.indices], span=s.span)

    # -- expressions
    def expr(self, e):
        if isinstance(e, Call) and (op_name(e) or "").startswith("ascend."):
            return self.instruction(e)
        return self.scalar(e)

    def scalar(self, e):
        """An expression with codes in place of 8-bit floats."""
        dtype = dtype_of(e)
        if isinstance(e, Var):
            return self.names.get(e, e)
        if isinstance(e, TensorLoad):
            return BufferLoad(self.names.get(e.source, e.source), [self.expr(i) for i in e.indices])
        if isinstance(e, FloatImm) and dtype in FORMATS:
            return IntImm(CODE, code_of(float(e.value), dtype))
        if isinstance(e, tirx.Cast):
            return self.cast(e, dtype)
        if isinstance(e, Call):
            return self.function(e, dtype)
        if _computes(e):
            return code_from(self.number(e), FORMATS[dtype])
        if hasattr(e, "a") and hasattr(e, "b") and dtype_of(e.a) in FORMATS:
            return type(e)(self.number(e.a), self.number(e.b))  # a comparison
        return map_children(e, self.expr)

    def function(self, e: Call, dtype: str):
        """A call that is no instruction: bits stay what they are, choices are made among codes, other functions take numbers."""
        if op_name(e) == "tirx.reinterpret" and not {dtype, dtype_of(e.args[0])}.isdisjoint(FORMATS):
            value, wanted = self.expr(e.args[0]), CODE if dtype in FORMATS else dtype
            return value if dtype_of(value) == wanted else tirx.reinterpret(wanted, value)
        if not is_if_then_else(e) and any(dtype_of(a) in FORMATS for a in e.args if hasattr(a, "ty")):
            return Call(
                e.op, [self.number(a) if dtype_of(a) in FORMATS else self.expr(a) for a in e.args], attrs=e.attrs, span=e.span, ret_ty=dtype
            )
        if dtype in FORMATS:
            return Call(e.op, [self.expr(a) for a in e.args], attrs=e.attrs, span=e.span, ret_ty=CODE)
        return map_children(e, self.expr)

    def number(self, e):
        """float32 value of an expression of 8-bit floats; only stores and casts round it."""
        if _computes(e):
            return type(e)(self.number(e.a), self.number(e.b))
        if is_if_then_else(e):
            cond, *sides = e.args
            return Call(e.op, [self.expr(cond), *map(self.number, sides)], attrs=e.attrs, span=e.span, ret_ty="float32")
        if isinstance(e, tirx.Select):
            return tirx.Select(self.expr(e.condition), self.number(e.true_value), self.number(e.false_value))
        if isinstance(e, FloatImm):
            return value_of(imm(code_of(float(e.value), dtype_of(e)), CODE), FORMATS[dtype_of(e)])
        return value_of(self.expr(e), FORMATS[dtype_of(e)])

    def cast(self, e, dtype: str):
        source = dtype_of(e.value)
        if source in FORMATS and dtype == "bool":
            return tirx.NE(self.number(e.value), imm(0.0, "float32"))
        value = self.number(e.value) if source in FORMATS and dtype != source else self.expr(e.value)
        if source in FORMATS and dtype != source:
            source = "float32"
        if dtype not in FORMATS:
            return value if dtype == source else tirx.Cast(dtype, value)
        if source == dtype:
            return value
        return code_from(value if source == "float32" else tirx.Cast("float32", value), FORMATS[dtype])

    def instruction(self, e: Call):
        """Scalar accesses see bytes; operands of bytes are bytes."""
        record = lookup(op_name(e)) if op_name(e) != "ascend.reinterpret" else None
        if record is None:
            return self.operand(e)
        count = len(record.operands)
        old = elements(e.args)
        before = [operand_parts(a)[1] for a in old[:count]]
        operands, args = [self.operand(a) for a in old[:count]], [self.expr(a) for a in old[count:]]
        if record.name in ("get_value", "set_value") and before[0] in FORMATS:
            operands = [reinterpret(operand_parts(operands[0])[0], CODE)]
        if before and before[-1] in FORMATS and operand_parts(operands[-1])[1] == CODE:
            floats = [i for i, a in enumerate(record.args) if a.kind == "float" and isinstance(args[i], FloatImm)]
            for i in floats:
                args[i] = IntImm(CODE, code_of(float(args[i].value), before[-1]))
        dtype = CODE if dtype_of(e) in FORMATS else dtype_of(e)
        return call(e.op.name, [*operands, *args], dict(e.attrs or {}), dtype=dtype, span=e.span)

    def operand(self, operand):
        load, dtype = operand_parts(operand)
        new = self.scalar(load)
        wanted = CODE if dtype in self.byte_moves else dtype
        return reinterpret(new, wanted)


def _mentions(s) -> bool:
    """Whether a statement allocates 8-bit floats or computes with one: a view of bytes may be the only place where they occur."""
    if isinstance(s, AllocBuffer):
        return dtype_of(s.buffer) in FORMATS
    found = []
    for e in exprs(s):
        walk_expr(e, lambda x: found.append(x) if str(getattr(x.ty, "dtype", "")) in FORMATS else None)
    return bool(found)


def float8_codes(func: PrimFunc, chip) -> PrimFunc:
    """Apply to combined Ascend IR; functions without 8-bit floats stay as they are."""
    if not any(dtype_of(p) in FORMATS for p in func.params if is_buffer_var(p)) and not any(map(_mentions, statements(func.body))):
        return func
    codes = _Codes(func, chip)
    body = codes(func.body)
    return PrimFunc([codes.names.get(p, p) for p in func.params], body, attrs=func.attrs, span=func.span)


__all__ = ["float8_codes"]
