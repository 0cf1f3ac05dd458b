"""Small constructors: constants, loops, calls to tile ops and intrinsics."""

from __future__ import annotations

import functools
from typing import Iterable

from .base import (
    Call,
    Evaluate,
    FloatImm,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    PrimType,
    Range,
    SeqStmt,
    Stmt,
    StringImm,
    TensorLoad,
    TensorRegion,
    elements,
    register_op,
    tirx,
)

DIRECTIONS = ("rn", "rz", "ru", "rd")
"""Endings of the calls `ieee.<op>_<direction>`: rounded to the nearest number, towards zero, up, down."""


@functools.lru_cache(maxsize=None)
def _registered(name: str):
    return register_op(name)


def op(name: str):
    """The operator `name`, registered on first use."""
    # Names read from IR are a subclass of str, which the cache would take for other keys.
    return _registered(str(name))


def is_if_then_else(e) -> bool:
    """True for a conditional expression, of which one side is evaluated."""
    return (op_name(e) or "").endswith(".if_then_else")


def is_choice(e) -> bool:
    """True for `Select` and conditional expressions, whose children are a condition and two values."""
    return isinstance(e, tirx.Select) or is_if_then_else(e)


def choice_of(e) -> tuple | None:
    """(condition, value, other value) of what computes only the one that counts: choices, `and`, `or`. None for other expressions."""
    if is_if_then_else(e):
        return tuple(e.args)
    if isinstance(e, tirx.Select):
        return e.condition, e.true_value, e.false_value
    if isinstance(e, (tirx.And, tirx.Or)):
        known = imm(isinstance(e, tirx.Or), "bool")
        return (e.a, known, e.b) if isinstance(e, tirx.Or) else (e.a, e.b, known)
    return None


def op_name(node) -> str | None:
    """Name of the operator called by `node` (an `Evaluate` or a `Call`), or None."""
    if type(node) is Evaluate:
        node = node.value
    return getattr(node.op, "name", None) if type(node) is Call else None


def attrs_of(node) -> dict:
    """Attributes of a call (or of the call a statement evaluates) as a dict; empty if it has none."""
    if isinstance(node, Evaluate):
        node = node.value
    return dict(node.attrs) if node.attrs is not None else {}


def imm(value, dtype: str = "int32"):
    """A constant of `dtype`."""
    return tirx.const(value, dtype)


def as_expr(value, dtype: str = "int32"):
    """Python numbers become constants, expressions stay."""
    if isinstance(value, bool):
        return tirx.const(value, "bool")
    if isinstance(value, int):
        return IntImm(dtype, value)
    if isinstance(value, float):
        return FloatImm("float32" if dtype.startswith("int") else dtype, value)
    if isinstance(value, str):
        return StringImm(value)
    return value


def as_dtype(e, dtype: str):
    """An expression as one of `dtype`, converted if it is another one."""
    return e if dtype_of(e) == dtype else tirx.Cast(dtype, e)


def call(name: str, args: Iterable, attrs: dict | None = None, dtype: str = "void", span=None) -> Call:
    """`Call(name, args, attrs)`; a `void` call is a statement, any other dtype a value."""
    return Call(op(name), [as_expr(a) for a in args], attrs=attrs or None, ret_ty=dtype, span=span)


def intrin(name: str, *args, span=None, **attrs) -> Evaluate:
    """Statement `ascend.<name>(args)`: one Ascend C instruction."""
    return Evaluate(call("ascend." + name, args, attrs, span=span), span=span)


def parallel_nest(loops, body: Stmt, span=None, **notes) -> Stmt:
    """A `Parallel` nest of `loops`, (variable, extent) from the outermost on, around `body`; annotations `notes` belong to its first loop."""
    for depth, (var, extent) in reversed(list(enumerate(loops))):
        first = {"tl.parallel": len(loops), **notes} if depth == 0 else {}
        body = For(var, imm(0), extent, ForKind.PARALLEL, body, annotations=first, span=span)
    return body


def region(buffer, mins: Iterable, extents: Iterable) -> TensorRegion:
    """`buffer[min : min + extent, …]`."""
    return tirx.BufferRegion(buffer, [Range.from_min_extent(m, e) for m, e in zip(mins, extents)])


def full_region(buffer) -> TensorRegion:
    """The whole of `buffer` as a region."""
    shape = list(buffer.ty.shape)
    return region(buffer, [0] * len(shape), shape)


def seq(*stmts) -> Stmt:
    """Flatten statements (lists, `SeqStmt`s, None) into one statement; nothing at all is a no-op."""
    flat: list[Stmt] = []

    def add(s):
        if s is None:
            return
        if isinstance(s, (list, tuple)):
            for x in s:
                add(x)
        elif type(s) is SeqStmt:
            for x in elements(s.seq):
                add(x)
        elif not is_noop(s):
            flat.append(s)

    add(list(stmts))
    if not flat:
        return Evaluate(IntImm("int32", 0))
    return flat[0] if len(flat) == 1 else SeqStmt(flat)


def is_noop(stmt) -> bool:
    """True for `Evaluate(constant)`."""
    return type(stmt) is Evaluate and type(stmt.value) is IntImm


def stmts_of(stmt) -> list:
    """The statements of a block as a Python list."""
    if type(stmt) is SeqStmt:
        return elements(stmt.seq)
    return [] if stmt is None or is_noop(stmt) else [stmt]


def loop(var, extent, body, kind=ForKind.SERIAL, span=None, **annotations) -> For:
    """`for var in range(extent): body`; annotation keys may use '__' for '.'."""
    notes = {k.replace("__", "."): v for k, v in annotations.items()}
    return For(
        var, IntImm(var.ty.dtype if hasattr(var.ty, "dtype") else "int32", 0), as_expr(extent), kind, body, annotations=notes, span=span
    )


def if_then(cond, then, otherwise=None, span=None) -> IfThenElse:
    """`if cond: then else: otherwise`."""
    return IfThenElse(cond, then, otherwise, span=span)


def const_int(expr) -> int | None:
    """The value of an integer constant (Python int or IntImm), else None."""
    if isinstance(expr, int):
        return int(expr)
    return int(expr.value) if type(expr) is IntImm else None


_dtype_names: dict[int, tuple] = {}
"""Address of a type of tvm -> its name, which takes tvm long to find, and the type itself: nothing else can have the address meanwhile. Most
types of a dtype are one object."""


def dtype_of(x) -> str:
    """dtype name of a buffer (element type) or an expression."""
    if isinstance(x, (bool, int)):
        return "int32"
    if isinstance(x, float):
        return "float32"
    ty = x.ty
    dtype = ty if type(ty) is PrimType else getattr(ty, "dtype", None)
    if type(dtype) is not PrimType:
        return str(ty if dtype is None else dtype)
    address = dtype.__chandle__()
    known = _dtype_names.get(address)
    if known is None:
        if len(_dtype_names) >= 1000:
            _dtype_names.clear()
        known = _dtype_names[address] = (str(dtype), dtype)
    return known[0]


_BITS = {"bool": 8, "int4": 8, "uint4": 8, "float4_e2m1fn": 8}
"""Where the name does not say it. Numbers of 4 bits alone take a byte; tensors of them are bytes before anything counts them."""


def itemsize(dtype) -> int:
    """Bytes of one element in memory (`bool` is one byte)."""
    return _bytes(str(dtype))


@functools.lru_cache(maxsize=None)
def _bytes(name: str) -> int:
    if name in _BITS:
        return _BITS[name] // 8
    for prefix in ("float8", "bfloat", "float", "uint", "int"):
        if name.startswith(prefix):
            if prefix == "float8":
                return 1
            digits = "".join(c for c in name[len(prefix) :].split("_")[0] if c.isdigit())
            return int(digits) // 8
    raise AssertionError(f"no element size for dtype {name}")


_scopes: dict[int, tuple] = {}
"""Address of a buffer -> its scope, and the buffer itself."""


def scope_of(buffer) -> str:
    """Storage scope of a buffer, `global` for parameters."""
    address = buffer.__chandle__()
    known = _scopes.get(address)
    if known is None:
        if len(_scopes) >= 1000:
            _scopes.clear()
        known = _scopes[address] = (buffer.scope() if callable(buffer.scope) else str(buffer.scope), buffer)
    return known[0]


def reinterpret(operand, dtype: str):
    """The operand (a `BufferLoad`, reinterpreted or not) with its bytes seen as elements of `dtype`; itself if it has that dtype."""
    if op_name(operand) == "ascend.reinterpret":
        operand = operand.args[0]
    return operand if dtype_of(operand) == dtype else call("ascend.reinterpret", [operand], dtype=dtype)


def same_bits(value, dtype: str):
    """The bits of a scalar expression as another dtype of its size. A bool is a byte: 0 or 1 when written, true if any bit is set when read."""
    have = dtype_of(value)
    if have == dtype:
        return value
    if have == "bool":
        return same_bits(tirx.Cast("uint8", value), dtype)
    if dtype == "bool":
        return tirx.NE(same_bits(value, "uint8"), imm(0, "uint8"))
    return tirx.reinterpret(dtype, value)


def operand_parts(operand):
    """(BufferLoad, dtype) of an Ascend IR operand, whether or not it is reinterpreted; None if it is no operand."""
    if op_name(operand) == "ascend.reinterpret":
        return operand.args[0], dtype_of(operand)
    return (operand, dtype_of(operand)) if type(operand) is TensorLoad else None


__all__ = [
    "as_dtype", "as_expr", "attrs_of", "call", "choice_of", "const_int", "dtype_of", "full_region", "if_then", "imm", "intrin", "is_choice",
    "is_if_then_else", "is_noop", "itemsize", "loop", "op", "op_name", "operand_parts", "parallel_nest", "region",
    "reinterpret", "same_bits", "scope_of", "seq", "stmts_of",
]  # fmt: skip
