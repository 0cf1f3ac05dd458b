"""Python's operators on values of a kernel: Python numbers stay Python, everything else becomes IR.

Types follow TVM: the wider float wins, an integer meets a float as that float, a Python float literal is float32. Arithmetic on integers
of 8 and 16 bits gives int32, as in C++, and on bfloat16 and 8-bit floats float32: the result is rounded (or wraps) where it is stored.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import ml_dtypes

from ..errors import DtypeMismatch, InvalidArgument, UnsupportedConstruct
from ..ir import Call, EqualOp, FloatImm, IntImm, NotEqualOp, Op, Var, dtype_of, expr_children, free_vars, itemsize, op_name, tirx
from ..isa.stream import round_to
from ..runtime.dtypes import NIBBLES
from .annotations import DType, dtype_name, is_float, join_dtypes, known_to_kernels
from .builder import Builder, constant
from .keywords import other_meaning
from .values import ScalarVar, choice, element, is_buffer, is_expr, is_region, reads_memory

PYTHON = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mult": operator.mul,
    "Div": operator.truediv,
    "FloorDiv": operator.floordiv,
    "Mod": operator.mod,
    "Pow": operator.pow,
    "MatMult": operator.matmul,
    "LShift": operator.lshift,
    "RShift": operator.rshift,
    "BitAnd": operator.and_,
    "BitOr": operator.or_,
    "BitXor": operator.xor,
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Is": operator.is_,
    "IsNot": operator.is_not,
    "In": lambda a, b: a in b,
    "NotIn": lambda a, b: a not in b,
    "USub": operator.neg,
    "UAdd": operator.pos,
    "Invert": operator.invert,
    "Not": operator.not_,
}

INPLACE = {
    "Add": operator.iadd,
    "Sub": operator.isub,
    "Mult": operator.imul,
    "Div": operator.itruediv,
    "FloorDiv": operator.ifloordiv,
    "Mod": operator.imod,
    "Pow": operator.ipow,
    "MatMult": operator.imatmul,
    "LShift": operator.ilshift,
    "RShift": operator.irshift,
    "BitAnd": operator.iand,
    "BitOr": operator.ior,
    "BitXor": operator.ixor,
}

SYMBOLS = {
    "Add": "+", "Sub": "-", "Mult": "*", "Div": "/", "FloorDiv": "//", "Mod": "%", "Pow": "**", "MatMult": "@",
    "LShift": "<<", "RShift": ">>", "BitAnd": "&", "BitOr": "|", "BitXor": "^", "Lt": "<", "LtE": "<=", "Gt": ">",
    "GtE": ">=", "Eq": "==", "NotEq": "!=", "USub": "-", "UAdd": "+", "Invert": "~", "Not": "not",
}  # fmt: skip

_COMPARE_NODES = {"Lt": tirx.LT, "LtE": tirx.LE, "Gt": tirx.GT, "GtE": tirx.GE, "Eq": tirx.EQ, "NotEq": tirx.NE}
_FOLDING = {"Add": tirx.Add, "Sub": tirx.Sub, "Mult": tirx.Mul, "Div": tirx.Div}
_INT32_MAX = 2**31 - 1
_BITWISE = ("LShift", "RShift", "BitAnd", "BitOr", "BitXor")
_PROMOTING = ("Add", "Sub", "Mult", "Div", "FloorDiv", "Mod", "LShift", "USub", "Invert")
"""Operators whose result a narrow dtype may not hold; the others give the same number whatever the width."""
_NARROW_INTEGERS = ("int4", "uint4", "int8", "uint8", "int16", "uint16")
_MOST_FACTORS = 16
"""Factors up to which an integer power is written out."""
_MODULAR = (tirx.Add, tirx.Sub, tirx.Mul)
"""Operators whose low bits depend on the low bits of their operands alone."""


_EQUALITIES = {EqualOp: "Eq", NotEqualOp: "NotEq"}
"""What `==` and `!=` are in code that is not rewritten (`foreign`) -> what they mean."""


def plain(value: Any) -> Any:
    """Mutable scalars become loads, NumPy and one-element torch scalars Python numbers, IR constants Python numbers."""
    if isinstance(value, ScalarVar):
        return value.load()
    if type(value) in _EQUALITIES:
        return compare((_EQUALITIES[type(value)],), value.a, value.b)
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        return value.item()
    return value


def as_scalar(value: Any, what: str = "this value"):
    """`value` as an IR expression; refuses buffers and regions of more than one element."""
    value = plain(value)
    if isinstance(value, bool):
        return tirx.const(value, "bool")
    if isinstance(value, int):
        return IntImm("int32" if -(2**31) <= value < 2**31 else _literal_dtype(value), value)
    if isinstance(value, float):
        return FloatImm("float32", round_to(value, "float32"))
    if is_expr(value):
        return value
    if is_region(value) and all(constant(r.extent) == 1 for r in value.region):
        return element(value.source, [r.min for r in value.region])
    if is_buffer(value) or is_region(value):
        raise DtypeMismatch(
            f"{what} is a tile ({_describe(value)}), a scalar is needed here",
            hint="index one element of it inside `for i, j in T.Parallel(...)`",
        )
    raise DtypeMismatch(f"{what} is {_describe(value)}, a number is needed here")


def _literal_dtype(value: int) -> str:
    """The dtype of an integer beyond int32."""
    for dtype in ("int64", "uint64"):
        low, high = integer_range(dtype)
        if low <= value <= high:
            return dtype
    raise InvalidArgument(f"the integer {value} does not fit 64 bits")


def as_integer(value: Any, what: str):
    """`value` as a Python integer where it is known, else as an integer expression; `what` names it in the error."""
    value = plain(value)
    known = constant(value) if is_expr(value) else value
    if isinstance(known, int):
        return int(known)
    if known is None and is_expr(value) and dtype_of(value).startswith(("int", "uint")):
        return value
    if is_region(value) and all(constant(r.extent) == 1 for r in value.region):
        return as_integer(as_scalar(value), what)
    kind = f"'{value}', a {dtype_of(value)}" if is_expr(value) else _describe(value)
    hint = (
        "convert it: T.cast(x, 'int32')" if is_expr(value) else "use // for sizes that are quotients" if isinstance(value, float) else None
    )
    raise InvalidArgument(f"{what} is {kind}, an integer is needed", hint=hint)


def loop_extent(value):
    """`value` as the extent of a loop, whose variable is an int32: wider counts end at the largest int32."""
    value = as_integer(value, "the extent of a loop")
    if isinstance(value, int):
        if value > _INT32_MAX:
            raise InvalidArgument(f"a loop of {value} iterations, at most {_INT32_MAX} can be counted", hint="use two nested loops")
        return IntImm("int32", max(value, -1))
    dtype = dtype_of(value)
    if dtype in ("int64", "uint64", "uint32"):
        value = value if dtype.startswith("u") else tirx.max(value, number(0, dtype))
        return tirx.Cast("int32", tirx.min(value, number(_INT32_MAX, dtype)))
    return value if dtype == "int32" else cast(value, "int32")


def distance(high, low, step: int = 1):
    """How far a loop goes from `low` to `high` in steps of `step`. Negative or 0 if it has no iteration."""
    span = binop("Sub", high, low)
    simple = constant(low) == 0 and step == 1
    if (
        not simple
        and is_expr(span)
        and dtype_of(span) == "int32"
        and any(is_expr(x) and dtype_of(x) == "int32" and of_data(x) for x in (high, low))
    ):
        # Numbers that are data may be further from each other than an int32 counts.
        return binop("Sub", cast(high, "int64"), cast(low, "int64"))
    if is_expr(span) and dtype_of(span).startswith("uint") and constant(low) != 0:
        # No number of its dtype is negative: of a range without numbers it would be a large one.
        high, low = match(high, low)
        return tirx.max(high, low) - low
    return span


def _describe(value) -> str:
    if is_buffer(value):
        return f"buffer {value.name} of shape {tuple(_show(s) for s in value.ty.shape)}"
    if is_region(value):
        return f"a slice of buffer {value.source.name}"
    if value is None:
        return "None"
    return f"{value!r} of type {type(value).__name__}"


def _show(x):
    number = constant(x)
    return x if number is None else number


def cast(value, dtype):
    """`value` converted to `dtype` (constants are folded)."""
    dtype = known_to_kernels(dtype_name(dtype))
    value = plain(value)
    if isinstance(value, (bool, int, float)):
        return number(value, dtype)
    value = as_scalar(value)
    if dtype_of(value) == dtype:
        return value
    known = constant(value)
    if known is not None:
        return number(known, dtype)
    if dtype == "bool":
        return binary_compare("NotEq", value, 0)
    in_place = dtype in _NARROW_INTEGERS and dtype not in NIBBLES and dtype_of(value) == "int32"
    narrow = _narrowed(value, dtype) if in_place else None
    return tirx.Cast(dtype, value) if narrow is None else narrow


def promoted(op: str, value):
    """An operand in the dtype its operator computes in."""
    value = as_scalar(value)
    dtype = dtype_of(value)
    if op not in _PROMOTING:
        return value
    if dtype in _NARROW_INTEGERS and constant(value) is None:
        return tirx.Cast("int32", value)
    return cast(value, "float32") if computes_as_float32(dtype) else value


def computes_as_float32(dtype: str) -> bool:
    """True for floats whose arithmetic is that of float32."""
    return dtype == "bfloat16" or dtype.startswith(("float8", "float4"))


def widened(value):
    """The operand of a function whose results bfloat16 and the floats of 8 and 4 bits do not hold: these give float32."""
    value = as_scalar(value)
    return cast(value, "float32") if computes_as_float32(dtype_of(value)) else value


def with_zero(value):
    """The operand of a function that rounds to whole numbers, or gives a remainder: powers of two have no 0 and give float32."""
    value = as_scalar(value)
    return cast(value, "float32") if dtype_of(value) == "float8_e8m0fnu" else value


def magnitude(value):
    """``abs(value)`` in the dtype of the operand; of booleans it is an int32."""
    value = as_scalar(value)
    dtype = dtype_of(value)
    if dtype == "bool":
        return cast(value, "int32")
    return cast(tirx.abs(cast(value, "float32")), dtype) if dtype.startswith(("float8", "float4")) else tirx.abs(value)


def _promoted_alone(op: str, value):
    """The only operand of an operator, in the dtype it computes in."""
    value = promoted(op, value)
    return value if constant(value) is None else _computed(value)


def _computed(known):
    """A constant in the dtype constants of its dtype are computed in."""
    return cast(known, "int32") if dtype_of(known) in _NARROW_INTEGERS else known


def _narrowed(value, dtype: str):
    """The low bits of an int32 expression, computed in `dtype` itself; None when operands are not of that dtype."""
    known = constant(value)
    if known is not None:
        low, high = integer_range(dtype)
        return IntImm(dtype, (int(known) - low) % (high - low + 1) + low)
    if isinstance(value, tirx.Cast):
        return value.value if dtype_of(value.value) == dtype else None
    if not isinstance(value, _MODULAR):
        return None
    a, b = _narrowed(value.a, dtype), _narrowed(value.b, dtype)
    return None if a is None or b is None else type(value)(a, b)


def promoted_from(value) -> str | None:
    """The widest dtype of the operands, all of 8 or 16 bits, of int32 arithmetic; None for anything else."""
    builder = Builder.active()
    lets, known = ({} if builder is None else builder.lets), {}

    def operand(x) -> str | None:
        if isinstance(x, Var):
            if x not in known:
                known[x] = operand(lets[x]) if x in lets else None
            return known[x]
        if isinstance(x, tirx.Cast):
            dtype = dtype_of(x.value)
            return dtype if dtype in _NARROW_INTEGERS and dtype not in NIBBLES else None
        if (op_name(x) or type(x).__name__).removeprefix("tirx.") not in _PROMOTED:
            return None
        found = [operand(y) for y in expr_children(x) if constant(y) is None]
        return None if None in found else max(found, key=itemsize, default=None)

    return operand(value) if dtype_of(value) == "int32" else None


def of_data(value) -> bool:
    """True if elements of memory, or names of such, are part of a value of the kernel."""
    builder = Builder.active()
    lets: dict = {} if builder is None else builder.lets
    names, seen = [value], set()
    while names:
        e = names.pop()
        if reads_memory(e):
            return True
        new = {v for v in free_vars(e) if v in lets} - seen
        seen |= new
        names += [lets[v] for v in new]
    return False


_PROMOTED = {
    "Add", "Sub", "Mul", "Div", "Mod", "FloorDiv", "FloorMod", "LShift", "RShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot",
    "shift_left", "shift_right", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not",
}  # fmt: skip
"""Arithmetic as nodes and calls of the IR."""


def number(value, dtype: str):
    """A constant, rounded to what its dtype holds; floats are truncated towards zero when they become integers, as a C cast does."""
    if dtype == "bool":
        return tirx.const(bool(value), "bool")
    if is_float(dtype):
        most = float(ml_dtypes.finfo(dtype).max)
        if most < abs(value) < math.inf:
            raise InvalidArgument(
                f"{value} does not fit {dtype}, whose largest number is {most:g}", hint=f"T.infinity('{dtype}') is infinity"
            )
        if value < 0 and dtype == "float8_e8m0fnu":
            raise InvalidArgument(
                f"{value} does not fit {dtype}, whose numbers have no sign", hint="scale by a positive power of two and negate"
            )
        return FloatImm(dtype, round_to(value, dtype))
    low, high = integer_range(dtype)
    if not low - 1 < value < high + 1:
        raise InvalidArgument(
            f"{value} does not fit {dtype}, which holds {low} to {high}", hint="use a wider dtype, or write the number it should wrap to"
        )
    return IntImm(dtype, int(value))


def integer_range(dtype: str) -> tuple[int, int]:
    """Smallest and largest value of an integer dtype."""
    bits = int(dtype.removeprefix("u").removeprefix("int"))
    return (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _convert(value, dtype):
    return (other_meaning("to_dtype") or cast)(value, dtype)


DType.convert = staticmethod(_convert)


def match(a, b):
    """Both operands as expressions of their common dtype."""
    a, b = map(as_scalar, literals(a, b))
    da, db = dtype_of(a), dtype_of(b)
    if da == db:
        return a, b
    # An integer literal takes the other operand's type if it fits; anything else meets in the wider one.
    if _is_literal_of(a, db):
        return number(int(a.value), db), b
    if _is_literal_of(b, da):
        return a, number(int(b.value), da)
    common = join_dtypes(da, db)
    if any(_is_rounded_by(x, common) for x in (a, b)):
        common = "float32"
    return cast(a, common), cast(b, common)


def literals(a, b) -> tuple:
    """Two operands. An integer of Python beyond int32 is one of the integer dtype it meets, if that holds it; of no other is known how it was meant."""
    a, b = plain(a), plain(b)
    return _literal_beside(a, b), _literal_beside(b, a)


def _literal_beside(value, other):
    if type(value) is not int or -(2**31) <= value < 2**31 or not (is_expr(other) or is_region(other)):
        return value
    dtype = dtype_of(as_scalar(other))
    if dtype == "bool" or is_float(dtype):
        return value
    low, high = integer_range(dtype)
    return IntImm(dtype, value) if low <= value <= high else value


def _is_rounded_by(value, dtype: str) -> bool:
    """True for an integer literal that a float which is computed on as float32 does not hold."""
    if not isinstance(value, IntImm) or dtype_of(value) == "bool" or not computes_as_float32(dtype):
        return False
    return round_to(int(value.value), dtype) != int(value.value)


def _is_literal_of(value, dtype: str) -> bool:
    """True for an integer literal that is a number of the integer dtype `dtype`. There is no wider dtype than those of 64 bits."""
    if not isinstance(value, IntImm) or dtype_of(value) != "int32" or dtype == "bool" or is_float(dtype):
        return False
    low, high = integer_range(dtype)
    return low <= int(value.value) <= high or itemsize(dtype) == 8


def _needs_ir(*values) -> bool:
    return any(is_expr(v) or is_buffer(v) or is_region(v) for v in values)


def binop(op: str, a, b):
    """``a <op> b``."""
    a, b = plain(a), plain(b)
    if not _needs_ir(a, b):
        return PYTHON[op](a, b)
    if op == "MatMult":
        raise UnsupportedConstruct(what="the operator @", hint="write T.gemm(A, B, C), which accumulates into C")
    for v in (a, b):
        if is_buffer(v) or (is_region(v) and any(constant(r.extent) != 1 for r in v.region)):
            raise UnsupportedConstruct(
                f"'{SYMBOLS[op]}' on a whole tile ({_describe(v)})",
                hint="write `for i, j in T.Parallel(M, N): C[i, j] = A[i, j] " + SYMBOLS[op] + " B[i, j]`",
            )
    if op == "Pow":
        return power(a, b)
    a, b = (promoted(op, x) for x in literals(a, b))
    if op in _PROMOTING and None not in (constant(a), constant(b)):
        a, b = _computed(a), _computed(b)
    a, b = match(a, b)
    return _fold(op, *_arith_types(op, a, b))


def _arith_types(op: str, a, b):
    """Booleans compute as int32; `/` needs floats, bit operations need integers."""
    dtype = dtype_of(a)
    if dtype == "bool" and op not in ("BitAnd", "BitOr", "BitXor"):
        a, b, dtype = cast(a, "int32"), cast(b, "int32"), "int32"
    if op == "Div" and not is_float(dtype):
        raise UnsupportedConstruct(
            "'/' between two integers",
            notes=[f"both operands are {dtype}"],
            hint="write // for floor division, or convert one side first: T.cast(x, 'float32') / y",
        )
    if op in _BITWISE and is_float(dtype):
        raise DtypeMismatch(
            f"'{SYMBOLS[op]}' needs integers, the operands are {dtype}",
            hint="use T.reinterpret to see the bits of a float",
        )
    return a, b


def check_divisor(op: str, a, b) -> None:
    """Refuse what has no value whatever `a` is: an integer divided by zero, a shift by more bits than there are."""
    amount, dtype = constant(b), dtype_of(a)
    if amount is None or is_float(dtype):
        return
    if op in ("FloorDiv", "Mod") and amount == 0:
        raise InvalidArgument(f"'{a}' is divided by zero", hint="an integer has no quotient or remainder by zero")
    if op in ("LShift", "RShift") and not 0 <= amount < 8 * itemsize(dtype):
        raise InvalidArgument(f"'{a}' is shifted by {amount} bits; a {dtype} takes 0 to {8 * itemsize(dtype) - 1}")


def _fold(op: str, a, b):
    check_divisor(op, a, b)
    if op == "LShift" and None not in (constant(a), constant(b)):
        # TVM makes no constant of what leaves the dtype.
        low, high = integer_range(dtype_of(a))
        return IntImm(dtype_of(a), ((constant(a) << constant(b)) - low) % (high - low + 1) + low)
    if op == "Div" and constant(b) == 0:
        # The same for every a, and the IR folds no such product.
        return a * number(math.copysign(math.inf, constant(b)), dtype_of(a))
    if is_float(dtype_of(a)) and _folds_zero(op, a, b):
        return _FOLDING[op](a, b)
    if op == "Mod" and is_float(dtype_of(a)) and constant(b) == 0:
        return a * number(math.nan, dtype_of(a))
    if is_float(dtype_of(a)) and op in ("FloorDiv", "Mod"):
        # A quotient rounded to 16 bits may reach the next integer, and its product with b loses bits of the remainder.
        dtype, wide = dtype_of(a), join_dtypes(dtype_of(a), "float32")
        a, b = cast(a, wide), cast(b, wide)
        quotient = tirx.floor(_fold("Div", a, b))
        return cast(quotient if op == "FloorDiv" else a - quotient * b, dtype)
    if dtype_of(a) == "bool":
        as_logic = {"BitAnd": tirx.And, "BitOr": tirx.Or, "BitXor": tirx.NE}
        return as_logic[op](a, b)
    return PYTHON[op](a, b)


def _folds_zero(op: str, a, b) -> bool:
    """True for what TVM's operators make shorter, and some floats tell: zero times NaN is NaN, as zero divided by zero is, -0 + 0 is 0, and so is
    -0 - -0."""
    known = constant(a), constant(b)
    below = op == "Sub" and known[1] == 0 and math.copysign(1, known[1]) < 0
    return None in known and (op in ("Mult", "Add") and 0 in known or op == "Div" and known[0] == 0 or below)


def power(a, b):
    """``a ** b``: products for small whole exponents and for integers, else `pow` in floating point.

    An integer to an integer power is an integer, whose products wrap; to a negative one it is what is left of a fraction: 0, but for 1 and -1.
    """
    exponent = constant(b)
    base = as_scalar(a)
    base = cast(base, "int32") if dtype_of(base) == "bool" else base
    whole = isinstance(exponent, (int, float)) and math.isfinite(exponent) and exponent == int(exponent) and exponent >= 0
    if whole and (exponent <= 4 or isinstance(exponent, int) and exponent <= _MOST_FACTORS and not is_float(dtype_of(base))):
        if isinstance(exponent, float):
            base = base if is_float(dtype_of(base)) else cast(base, "float32")
        return _product(promoted("Mult", base), int(exponent))
    a, b = match(promoted("Mult", base), promoted("Mult", b))
    if is_float(dtype_of(a)):
        return tirx.pow(a, b)
    if None not in (constant(a), constant(b)):
        return number(_integer_power(constant(a), constant(b), dtype_of(a)), dtype_of(a))
    # Shifts by negative amounts, which count as unsigned, leave nothing.
    return number(1, dtype_of(a)) << b if constant(a) == 2 else Call(Op.get("tirx.pow"), [a, b], ret_ty=dtype_of(a))


def _integer_power(a: int, n: int, dtype: str) -> int:
    low, high = integer_range(dtype)
    if n < 0:
        return a if a in (1, -1) and n % 2 else int(a in (1, -1))
    return (pow(a, n, high - low + 1) - low) % (high - low + 1) + low


def _product(base, exponent: int):
    """``base ** exponent`` by squaring."""
    result, square = None, base
    while exponent:
        if exponent & 1:
            result = square if result is None else result * square
        exponent >>= 1
        square = square * square if exponent else square
    return number(1, dtype_of(base)) if result is None else result


def unop(op: str, a):
    """``<op> a``."""
    a = plain(a)
    if not _needs_ir(a):
        return PYTHON[op](a)
    a = as_scalar(a, f"the operand of '{SYMBOLS[op]}'")
    if op == "Not":
        return logical_not(a)
    if op == "UAdd":
        return a
    if op == "Invert":
        if is_float(dtype_of(a)):
            raise DtypeMismatch(f"'~' needs an integer, the operand is {dtype_of(a)}")
        return logical_not(a) if dtype_of(a) == "bool" else ~_promoted_alone(op, a)
    if dtype_of(a) == "bool":
        a = cast(a, "int32")
    a = _promoted_alone(op, a)
    if constant(a) is None and dtype_of(a).startswith("uint"):
        return number(0, dtype_of(a)) - a
    return number(-constant(a), dtype_of(a)) if constant(a) is not None else -a


def as_bool(value):
    """A condition: numbers are compared with zero."""
    value = plain(value)
    if is_buffer(value) or is_region(value):
        value = as_scalar(value, "the condition")
    return cast(value, "bool") if is_expr(value) else value


def logical_not(a):
    """``not a``."""
    a = as_bool(a)
    known = constant(a)
    return tirx.Not(a) if known is None else tirx.const(not known, "bool")


def binary_compare(op: str, a, b):
    """One comparison; constants are folded."""
    a, b = match(a, b)
    if constant(a) is not None and constant(b) is not None:
        return tirx.const(bool(PYTHON[op](constant(a), constant(b))), "bool")
    if a.same_as(b) and op in ("Eq", "LtE", "GtE") and not is_float(dtype_of(a)):
        return tirx.const(True, "bool")
    return _COMPARE_NODES[op](a, b)


def compare(ops: tuple, *values):
    """``a < b <= c``: the conjunction of the neighbouring comparisons."""
    values = tuple(plain(v) for v in values)
    result = None
    for op, a, b in zip(ops, values, values[1:]):
        if (
            op in _COMPARE_NODES
            and _needs_ir(a, b)
            and a is not None
            and b is not None
            and not isinstance(a, str)
            and not isinstance(b, str)
        ):
            term = binary_compare(op, a, b)
        elif op in ("In", "NotIn"):
            term = _contained(a, b)
            term = term if op == "In" else not term if isinstance(term, bool) else logical_not(term)
        elif op in ("Eq", "NotEq") and _holds_ir(a, b):
            term = _equal(a, b)
            term = term if op == "Eq" else not term if isinstance(term, bool) else logical_not(term)
        elif op in _COMPARE_NODES and _needs_ir(a, b) and op not in ("Eq", "NotEq"):
            odd = a if _needs_ir(b) else b
            raise DtypeMismatch(f"'{SYMBOLS[op]}' compares a value of the kernel with {_describe(odd)}")
        elif op in ("Eq", "NotEq") and _needs_ir(a, b):
            term = op == "NotEq"  # a number known only when the kernel runs is no string and not None
        else:
            term = PYTHON[op](a, b)
        result = term if result is None else logical_and(result, term)
        if result is False:
            return False
    return result


def _holds_ir(*values) -> bool:
    """True if one of `values` is a tuple or list with a value of the kernel in it."""
    return any(isinstance(v, (tuple, list)) and (_needs_ir(*map(plain, v)) or _holds_ir(*v)) for v in values)


def _equal(a, b):
    """``a == b`` of containers, element by element."""
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        if type(a) is not type(b) or len(a) != len(b):
            return False
        result: Any = True
        for x, y in zip(a, b):
            result = logical_and(result, _equal(plain(x), plain(y)))
        return result
    return compare(("Eq",), a, b)


def _contained(value, container):
    """``value in container``."""
    if _needs_ir(container):
        raise UnsupportedConstruct(f"'in' looks into Python's containers, not into {_describe(container)}", hint="compare in a loop")
    if not isinstance(container, (tuple, list, set, frozenset, dict, range)) or not (_needs_ir(value) or _holds_ir(value, list(container))):
        return value in container
    if isinstance(container, range):
        first, last = sorted((container[0], container[-1])) if container else (1, 0)
        inside = compare(("LtE", "LtE"), first, value, last)
        if is_expr(value) and is_float(dtype_of(value)):
            inside = logical_and(inside, compare(("Eq",), tirx.floor(value), value))
        step = abs(container.step)
        return inside if step == 1 else logical_and(inside, compare(("Eq",), binop("Mod", binop("Sub", value, first), step), 0))
    result: Any = False
    for x in container:
        result = logical_or(result, _equal(value, plain(x)))
    return result


def logical_and(a, b):
    """``a and b`` of two conditions, one of which may be a Python bool."""
    if not is_expr(a):
        return b if a else a
    if not is_expr(b):
        return a if b else tirx.const(False, "bool")
    return choice(tirx.And(as_bool(a), as_bool(b)))


def logical_or(a, b):
    """``a or b`` of two conditions, one of which may be a Python bool."""
    if not is_expr(a):
        return a if a else b
    if not is_expr(b):
        return tirx.const(True, "bool") if b else a
    return choice(tirx.Or(as_bool(a), as_bool(b)))


def select(cond, a, b):
    """``a if cond else b``: only the chosen side is evaluated when the kernel runs."""
    cond = as_bool(cond)
    known = constant(cond)
    if known is not None or not is_expr(cond):
        return _beside(*((a, b) if (known if known is not None else cond) else (b, a)))
    a, b = match(a, b)
    return choice(tirx.if_then_else(cond, a, b))


def _beside(chosen, other):
    """`chosen` in the dtype it has where it is not known that `other` is not."""
    chosen, other = plain(chosen), plain(other)
    if not (is_expr(chosen) or is_expr(other)) or not all(is_expr(x) or isinstance(x, (int, float)) for x in (chosen, other)):
        return chosen
    matched = match(chosen, other)[0]
    return chosen if dtype_of(matched) == dtype_of(as_scalar(chosen)) else matched
