"""Element functions and scalar arithmetic.

Each takes Python numbers (and stays Python), IR scalars, or tiles: ``T.exp(x)`` is a value, ``T.exp(A, B)`` applies
the function to every element of A and stores into B (see `tiles`).
"""

from __future__ import annotations

import builtins
import math as _math
from typing import Callable, Sequence

import ml_dtypes

from ..errors import InvalidArgument, UnsupportedConstruct
from ..frontend import calls, operators
from ..frontend.annotations import dtype_name, is_float
from ..frontend.builder import constant
from ..frontend.flow import iterable
from ..frontend.operators import as_scalar, binop, cast, match, number, plain, promoted_from
from ..frontend.values import is_expr
from ..ir import dtype_of, itemsize, same_bits, tirx
from ..ir.build import DIRECTIONS
from ..runtime.dtypes import NIBBLES
from . import directed
from .regions import tile_operand
from .rounding import check_mode, rounded_cast, saturated
from .tiles import elementwise, is_tile

_SQRT2 = _math.sqrt(2.0)
_EXACT_INTEGERS = 2**24
"""Below it float32 holds every integer."""


def _python_rsqrt(x):
    return 1.0 / _math.sqrt(x)


def _python_sigmoid(x):
    return 1.0 / (1.0 + _math.exp(-x))


def _relu(x):
    return tirx.max(x, number(0, dtype_of(x)))


def _silu(x):
    return x * tirx.sigmoid(x)


def _reciprocal(x):
    return number(1, dtype_of(x)) / x


def _gelu(x):
    return x * 0.5 * (tirx.erf(x * (1.0 / _SQRT2)) + 1.0) if dtype_of(x) == "float32" else cast(_gelu(cast(x, "float32")), dtype_of(x))


_UNARY: dict[str, tuple[Callable, Callable, str]] = {
    "exp": (tirx.exp, _math.exp, "e to the power x."),
    "exp2": (tirx.exp2, lambda x: 2.0**x, "2 to the power x."),
    "exp10": (tirx.exp10, lambda x: 10.0**x, "10 to the power x."),
    "log": (tirx.log, _math.log, "Natural logarithm."),
    "log2": (tirx.log2, _math.log2, "Logarithm to base 2."),
    "log10": (tirx.log10, _math.log10, "Logarithm to base 10."),
    "log1p": (tirx.log1p, _math.log1p, "log(1 + x)."),
    "sqrt": (tirx.sqrt, _math.sqrt, "Square root."),
    "rsqrt": (tirx.rsqrt, _python_rsqrt, "1 / sqrt(x)."),
    "sin": (tirx.sin, _math.sin, "Sine."),
    "cos": (tirx.cos, _math.cos, "Cosine."),
    "tan": (tirx.tan, _math.tan, "Tangent."),
    "sinh": (tirx.sinh, _math.sinh, "Hyperbolic sine."),
    "cosh": (tirx.cosh, _math.cosh, "Hyperbolic cosine."),
    "tanh": (tirx.tanh, _math.tanh, "Hyperbolic tangent."),
    "asin": (tirx.asin, _math.asin, "Inverse sine."),
    "acos": (tirx.acos, _math.acos, "Inverse cosine."),
    "atan": (tirx.atan, _math.atan, "Inverse tangent."),
    "asinh": (tirx.asinh, _math.asinh, "Inverse hyperbolic sine."),
    "acosh": (tirx.acosh, _math.acosh, "Inverse hyperbolic cosine."),
    "atanh": (tirx.atanh, _math.atanh, "Inverse hyperbolic tangent."),
    "sigmoid": (tirx.sigmoid, _python_sigmoid, "1 / (1 + exp(-x))."),
    "erf": (tirx.erf, _math.erf, "Error function."),
    "reciprocal": (_reciprocal, lambda x: 1.0 / x, "1 / x."),
    "fast_rcp": (_reciprocal, lambda x: 1.0 / x, "1 / x."),
    "ieee_frcp": (_reciprocal, lambda x: 1.0 / x, "1 / x."),
    "ieee_fsqrt": (tirx.sqrt, _math.sqrt, "Square root."),
    "ieee_frsqrt": (tirx.rsqrt, _python_rsqrt, "1 / sqrt(x)."),
    "silu": (_silu, lambda x: x * _python_sigmoid(x), "x * sigmoid(x)."),
    "gelu": (
        _gelu,
        lambda x: 0.5 * x * (1 + _math.erf(x / _SQRT2)),
        "x * Phi(x), with the exact normal distribution function.",
    ),
}
"""name -> (IR builder for a float operand, Python function, one-line doc)."""

_UNARY_ANY: dict[str, tuple[Callable, Callable, str]] = {
    "abs": (operators.magnitude, builtins.abs, "Absolute value."),
    "fabs": (operators.magnitude, builtins.abs, "Absolute value."),
    "relu": (_relu, lambda x: builtins.max(x, 0), "max(x, 0)."),
}
"""Functions that also take integers (and give integers back)."""

_ROUNDING: dict[str, tuple[Callable, Callable, str]] = {
    "floor": (tirx.floor, _math.floor, "Largest whole number not above x."),
    "ceil": (tirx.ceil, _math.ceil, "Smallest whole number not below x."),
    "trunc": (tirx.trunc, _math.trunc, "Whole number next to x towards zero."),
    "round": (tirx.nearbyint, builtins.round, "Nearest whole number, halves to even."),
    "nearbyint": (tirx.nearbyint, builtins.round, "Nearest whole number, halves to even."),
}
"""Rounding: integers are unchanged; the result of a float is a float."""


def _scalar_unary(ir: Callable, python: Callable, integers: str) -> Callable:
    """`integers`: "float" converts them to float32, "keep" applies the function, "same" returns them unchanged. With "float" narrow floats give
    float32, too; what the others give of a bfloat16 is one."""

    def apply(x):
        x = plain(x)
        known = constant(x) if is_expr(x) else x
        if isinstance(known, (int, float)) and not is_expr(x):
            return python(known)
        x = as_scalar(x)
        if not is_float(dtype_of(x)):
            if integers == "same":
                return x
            if integers == "float" or dtype_of(x) == "bool" or dtype_of(x) in NIBBLES:
                x = cast(x, "float32" if integers == "float" else "int32")
        prepared = {"float": operators.widened, "same": operators.with_zero}.get(integers)
        return ir(x if prepared is None else prepared(x))

    return apply


def _directed(name: str, scalar: Callable, rest: Sequence, mode) -> tuple[Callable, tuple]:
    """(the function of scalars that rounds as asked for, `rest` without the mode)."""
    if mode is None and rest and isinstance(rest[-1], str):
        *rest, mode = rest
    if mode in (None, "", "rn"):
        return scalar, tuple(rest)
    if name not in directed.NAMES:
        raise InvalidArgument(
            f"T.{name} rounds to nearest, not with {mode!r}", hint="functions with a direction: T." + ", T.".join(directed.NAMES)
        )
    if mode not in DIRECTIONS:
        raise InvalidArgument(f"T.{name} does not round with {mode!r}", hint="use one of: " + ", ".join(map(repr, DIRECTIONS)))
    return directed.function(name, mode), tuple(rest)


def _make_unary(name: str, ir: Callable, python: Callable, doc: str, integers: str) -> Callable:
    scalar = _scalar_unary(ir, python, integers)

    def function(x, *rest, span=None, rounding_mode=None):
        compute, rest = _directed(name, scalar, rest, rounding_mode)
        return elementwise(name, compute, [x], rest[0]) if rest else compute(x)

    function.__name__, function.__doc__ = name, doc + f" `T.{name}(A, B)` does so for whole tiles."
    return function


for _table, _of_integers in ((_UNARY, "float"), (_UNARY_ANY, "keep"), (_ROUNDING, "same")):
    for _name, (_ir, _py, _doc) in _table.items():
        globals()[_name] = _make_unary(_name, _ir, _py, _doc, _of_integers)


def _pick(ir: Callable, python: Callable) -> Callable:
    def apply(a, b):
        a, b = plain(a), plain(b)
        if not is_expr(a) and not is_expr(b) and not is_tile(a) and not is_tile(b):
            return python(a, b)
        a, b = match(a, b)
        if dtype_of(a) == "bool" and ir in _OF_BOOLS:
            return _OF_BOOLS[ir](a, b)
        return ir(a, b)

    return apply


_OF_BOOLS = {tirx.max: tirx.Or, tirx.min: tirx.And}


def _integers(ir: Callable, python: Callable) -> Callable:
    """A quotient or remainder of integers."""

    def apply(a, b):
        a, b = (operators.as_integer(v, "an operand of an integer division") for v in (a, b))
        if isinstance(a, int) and isinstance(b, int) and b:
            return python(a, b)
        a, b = match(*(operators.promoted("FloorDiv", v) for v in operators.literals(a, b)))
        operators.check_divisor("FloorDiv", a, b)
        return ir(a, b)

    return apply


def _of_floats(ir: Callable) -> Callable:
    """`ir` for two numbers; integers and narrow floats become float32."""
    return lambda a, b: ir(*(operators.widened(x) if is_float(dtype_of(x)) else cast(x, "float32") for x in match(a, b)))


def _fmod(a, b):
    """Of integers it is the remainder of `truncdiv`, exactly."""
    a, b = match(a, b)
    if is_float(dtype_of(a)):
        return tirx.fmod(operators.with_zero(a), operators.with_zero(b))
    a, b = match(*(operators.promoted("Mod", v) for v in (a, b)))
    operators.check_divisor("Mod", a, b)
    return tirx.truncmod(a, b)


def _ir_hypot(a, b):
    return tirx.sqrt(binop("Add", binop("Mult", a, a), binop("Mult", b, b)))


def _op(name: str) -> Callable:
    return lambda a, b: binop(name, a, b)


_BINARY: dict[str, tuple[Callable, str]] = {
    "max": (_pick(tirx.max, builtins.max), "The larger of two values."),
    "min": (_pick(tirx.min, builtins.min), "The smaller of two values."),
    "pow": (operators.power, "a to the power b."),
    "add": (_op("Add"), "a + b."),
    "sub": (_op("Sub"), "a - b."),
    "mul": (_op("Mult"), "a * b."),
    "div": (_op("Div"), "a / b (floating point)."),
    "floordiv": (_op("FloorDiv"), "a / b, rounded down."),
    "floormod": (_op("Mod"), "a - b * floordiv(a, b)."),
    "bitwise_and": (_op("BitAnd"), "Bits set in both."),
    "bitwise_or": (_op("BitOr"), "Bits set in either."),
    "bitwise_xor": (_op("BitXor"), "Bits set in one."),
    "shift_left": (_op("LShift"), "a << b."),
    "shift_right": (_op("RShift"), "a >> b."),
    "atan2": (_pick(_of_floats(tirx.atan2), _math.atan2), "Angle of the point (b, a)."),
    "fmod": (_pick(_fmod, _math.fmod), "Remainder with the sign of a."),
    "copysign": (_pick(_of_floats(tirx.copysign), _math.copysign), "|a| with the sign of b."),
    "hypot": (_pick(_of_floats(_ir_hypot), _math.hypot), "sqrt(a * a + b * b)."),
    "fmul": (_op("Mult"), "a * b."),
    "ieee_add": (_op("Add"), "a + b, rounded to nearest, or for float32 with 'rz', 'ru', 'rd' towards zero, up, down."),
    "ieee_sub": (_op("Sub"), "a - b, rounded to nearest, or for float32 with 'rz', 'ru', 'rd' towards zero, up, down."),
    "ieee_mul": (_op("Mult"), "a * b, rounded to nearest, or for float32 with 'rz', 'ru', 'rd' towards zero, up, down."),
    "ieee_fdiv": (_op("Div"), "a / b, rounded to nearest, or for float32 with 'rz', 'ru', 'rd' towards zero, up, down."),
    "truncdiv": (
        _integers(tirx.truncdiv, lambda a, b: builtins.abs(a) // builtins.abs(b) * (1 if (a < 0) == (b < 0) else -1)),
        "a / b, rounded towards zero.",
    ),
    "truncmod": (
        _integers(tirx.truncmod, lambda a, b: builtins.abs(a) % builtins.abs(b) * (1 if a >= 0 else -1)),
        "Remainder of truncdiv.",
    ),
}
"""name -> (scalar function, doc)."""


def _make_binary(name: str, scalar: Callable, doc: str) -> Callable:
    def function(a, b, *rest, span=None, rounding_mode=None):
        compute, rest = _directed(name, scalar, rest, rounding_mode)
        tiles = [v for v in rest if is_tile(v)]
        if tiles:
            return elementwise(name, compute, [a, b], tiles[0])
        if rest:
            for c in (b, *rest):
                a = compute(a, c)
            return a
        return compute(a, b)

    function.__name__, function.__doc__ = (
        name,
        doc + f" `T.{name}(A, B, C)` does so for whole tiles (A or B may be a number).",
    )
    return function


for _name, (_scalar, _doc) in _BINARY.items():
    globals()[_name] = _make_binary(_name, _scalar, _doc)


def bitwise_not(x, *rest):
    """Bits not set. `T.bitwise_not(A, B)` for tiles."""
    scalar = lambda v: operators.unop("Invert", v)  # noqa: E731
    return elementwise("bitwise_not", scalar, [x], rest[0]) if rest else scalar(x)


def ceildiv(lhs, rhs, span=None):
    """`lhs / rhs`, rounded up. Python integers give a Python integer."""
    lhs, rhs = (operators.as_integer(v, "an argument of T.ceildiv") for v in (lhs, rhs))
    if isinstance(rhs, int) and rhs == 0:
        raise InvalidArgument(f"'{lhs}' is divided by zero", hint="an integer has no quotient by zero")
    if isinstance(lhs, int) and isinstance(rhs, int):
        return -(-lhs // rhs)
    if not isinstance(rhs, int):
        # In the dtype both have together, before 1 is taken from a divisor that may be the least of its own.
        rhs = operators.match(lhs, rhs)[1]
    return binop("FloorDiv", binop("Add", lhs, binop("Sub", rhs, 1)), rhs)


cdiv = ceildiv


def align_up(x, y):
    """The smallest multiple of `y` not below `x`."""
    return binop("Mult", ceildiv(x, y), y)


def if_then_else(cond, true_value, false_value, span=None):
    """`true_value` where `cond` holds, else `false_value`; only the chosen one is evaluated."""
    return operators.select(cond, true_value, false_value)


Select = if_then_else


def likely(cond):
    """`cond`; that it usually holds is of no use here."""
    return plain(cond)


def index_to_coordinates(index, shape) -> list:
    """Coordinates of element `index` of a row-major array of `shape`."""
    out: list = []
    for extent in reversed(list(shape)):
        out.insert(0, binop("Mod", index, extent))
        index = binop("FloorDiv", index, extent)
    return out


def clamp(x, min_val, max_val):
    """min(max(x, min_val), max_val)."""
    return globals()["min"](globals()["max"](x, min_val), max_val)


def fma(x, y, z):
    """x * y + z."""
    return binop("Add", binop("Mult", x, y), z)


def ieee_fmaf(x, y, z, rounding_mode="rn"):
    """x * y + z of float32 numbers, rounded once: to nearest ("rn"), towards zero ("rz"), up ("ru") or down ("rd")."""
    if rounding_mode not in DIRECTIONS:
        raise InvalidArgument(f"T.ieee_fmaf does not round with {rounding_mode!r}", hint="use one of: " + ", ".join(map(repr, DIRECTIONS)))
    return directed.function("ieee_fmaf", rounding_mode)(x, y, z)


def Cast(dtype, value, span=None):
    """`value` converted to `dtype`."""
    return cast(value, dtype)


def cast_(value, dtype, round: str = "", sat: bool | None = None, rbits=None, span=None):
    """`value` converted to `dtype`. `T.cast(A, B)` with tiles converts every element. `round`: "rn" to nearest, "rz" towards zero, "ru" up,
    "rd" down, "rna" to nearest with halves away from zero; by default floats round to nearest and integers towards zero. Too large
    8-bit floats become what their format has for it (NaN or infinity), with ``sat=True`` the largest number.
    """
    mode = check_mode(round, "T.cast")
    if rbits is not None:
        raise InvalidArgument("T.cast with random bits", hint="add them to the bits of the value (T.reinterpret) and cast with 'rz'")
    to = tile_operand(dtype, "the destination of T.cast").dtype if is_tile(dtype) else dtype_name(dtype)

    def convert(v):
        exact = is_float(to) and isinstance(plain(v), int) and abs(v) < _EXACT_INTEGERS
        v = float(v) if exact else v
        if sat and to.startswith("float8") and is_float(dtype_of(as_scalar(v))):
            v = saturated(v, to)
        if mode:
            v = rounded_cast(v, to, mode)
        return cast(v, to)

    if is_tile(dtype):
        return elementwise("cast", convert, [value], dtype)
    return convert(value)


def reinterpret(value, dtype, span=None):
    """The bits of `value` seen as another dtype of the same size. Arithmetic on integers of 8 or 16 bits counts as one of these: its low bits."""
    if isinstance(value, str) or (isinstance(value, type) and not is_expr(value)):
        value, dtype = dtype, value
    value, dtype = as_scalar(value), dtype_name(dtype)
    if (dtype_of(value) in NIBBLES) != (dtype in NIBBLES):
        raise InvalidArgument(
            f"T.reinterpret of a {dtype_of(value)} as {dtype}, which has another size",
            hint="T.cast converts; T.view sees the bytes of two numbers of 4 bits",
        )
    if itemsize(dtype_of(value)) != itemsize(dtype):
        narrow = promoted_from(value)
        if narrow is not None and itemsize(narrow) == itemsize(dtype):
            value = cast(value, narrow)  # A GPU's compiler gives such arithmetic the dtype of its operands.
    if itemsize(dtype_of(value)) != itemsize(dtype):
        raise InvalidArgument(
            f"T.reinterpret of a {dtype_of(value)} as {dtype}, which has another size",
            hint="the sizes in bytes must agree; T.cast converts",
        )
    return same_bits(value, dtype)


def infinity(dtype, span=None):
    """Positive infinity of a floating-point dtype."""
    name = dtype_name(dtype)
    if not is_float(name):
        raise InvalidArgument(f"{name} has no infinity", hint=f"use T.max_value('{name}')")
    return number(float("inf"), name)


def max_value(dtype, span=None):
    """The largest finite value of `dtype`."""
    name = dtype_name(dtype)
    return number(float(ml_dtypes.finfo(name).max), name) if is_float(name) else tirx.max_value(name)


def min_value(dtype, span=None):
    """The smallest (most negative) finite value of `dtype`."""
    name = dtype_name(dtype)
    return number(float(ml_dtypes.finfo(name).min), name) if is_float(name) else tirx.min_value(name)


def _classify(name: str, ir: Callable, python: Callable) -> Callable:
    def function(x):
        x = plain(x)
        if not is_expr(x):
            return python(x)
        x = as_scalar(x)
        # bfloat16 and the 8-bit floats are parts of float32, with the same NaN and infinities.
        return ir(cast(x, "float32") if is_float(dtype_of(x)) and dtype_of(x) not in ("float16", "float32", "float64") else x)

    function.__name__, function.__doc__ = name, f"True where x {name[2:]}."
    return function


isnan = _classify("isnan", tirx.isnan, _math.isnan)
isinf = _classify("isinf", tirx.isinf, _math.isinf)
isfinite = _classify("isfinite", tirx.isfinite, _math.isfinite)


def And(a, b, span=None):
    """Conjunction of two conditions."""
    return operators.logical_and(plain(a), plain(b))


def Or(a, b, span=None):
    """Disjunction of two conditions."""
    return operators.logical_or(plain(a), plain(b))


def Not(a, span=None):
    """Negation of a condition."""
    return operators.unop("Not", a)


def _replace_python() -> None:
    """Python's own functions, called in a kernel with IR values, mean the same as ours."""
    ours = globals()
    for python, name in (
        (builtins.max, "max"),
        (builtins.min, "min"),
        (builtins.abs, "abs"),
        (builtins.round, "round"),
    ):
        calls.REPLACEMENTS[python] = _many(python, ours[name])
    for name, python in calls.MATH_FUNCTIONS.items():
        calls.REPLACEMENTS[python] = calls.on_ir(python, ours[name])


def _many(python: Callable, ours: Callable) -> Callable:
    def choose(*args, **kwargs):
        picks = len(args) == 1 and python in (builtins.max, builtins.min)
        values = list(iterable(args[0]) if picks else args)
        if not any(is_expr(plain(v)) for v in values):
            return python(*([list(map(plain, values))] if picks else map(plain, args)), **kwargs)
        if kwargs or python is builtins.round and len(values) > 1:
            name = python.__name__
            what = f"`{next(iter(kwargs))}=`" if kwargs else "a number of digits"
            raise UnsupportedConstruct(f"{what} of `{name}` on values known only when the kernel runs", hint=f"compute with `{name}` alone")
        return plain(values[0]) if picks and len(values) == 1 else ours(*values)

    return choose


_replace_python()

NAMES = (
    *_UNARY, *_UNARY_ANY, *_ROUNDING, *_BINARY, "bitwise_not", "ceildiv", "cdiv", "align_up", "if_then_else",
    "Select", "likely", "index_to_coordinates", "clamp", "fma", "ieee_fmaf",
    "Cast", "reinterpret", "infinity", "max_value", "min_value", "isnan", "isinf", "isfinite", "And", "Or", "Not",
)  # fmt: skip
