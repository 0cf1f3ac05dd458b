"""Functions of numbers, and of whole tiles element by element."""

from __future__ import annotations

import builtins
import math
from typing import Any, Callable

import ml_dtypes
import numpy as np

from ..errors import InvalidArgument, ShapeMismatch
from ..language.npu import ON_TILES
from ..runtime.dtypes import NIBBLES
from . import directed
from .halves import Halves
from .memory import Region, is_tile_like_many, operand
from .state import here
from .values import (
    Fault,
    Scalar,
    as_number,
    binary,
    bits,
    cast,
    dtype_of,
    fit,
    integer_range,
    is_float,
    match,
    numpy_dtype,
    pick_max,
    pick_min,
    power,
    power_of_two,
    promoted,
    scalar,
    select,
    widened,
)


def _erf(x):
    return math.erf(x)


def _numpy(function: Callable) -> Callable:
    def apply(x):
        return float(function(np.float64(x)))

    return apply


def _sigmoid(x):
    return 1.0 / (1.0 + float(np.exp(np.float64(-x))))


def _reciprocal(x):
    return float(np.float64(1.0) / np.float64(x))


def _gelu(x):
    return 0.5 * x * (1 + math.erf(x / math.sqrt(2.0)))


def _silu(x):
    return x * _sigmoid(x)


_rsqrt = _numpy(lambda x: 1.0 / np.sqrt(x))
_sqrt = _numpy(np.sqrt)

FLOAT: dict[str, Callable] = {
    "exp": _numpy(np.exp), "exp2": _numpy(np.exp2), "exp10": _numpy(lambda x: np.power(10.0, x)), "log": _numpy(np.log),
    "log2": _numpy(np.log2), "log10": _numpy(np.log10), "log1p": _numpy(np.log1p), "sqrt": _sqrt, "rsqrt": _rsqrt,
    "sin": _numpy(np.sin), "cos": _numpy(np.cos), "tan": _numpy(np.tan), "sinh": _numpy(np.sinh), "cosh": _numpy(np.cosh),
    "tanh": _numpy(np.tanh), "asin": _numpy(np.arcsin), "acos": _numpy(np.arccos), "atan": _numpy(np.arctan),
    "asinh": _numpy(np.arcsinh), "acosh": _numpy(np.arccosh), "atanh": _numpy(np.arctanh), "sigmoid": _sigmoid, "erf": _erf,
    "reciprocal": _reciprocal, "fast_rcp": _reciprocal, "ieee_frcp": _reciprocal, "ieee_fsqrt": _sqrt, "ieee_frsqrt": _rsqrt,
    "silu": _silu, "gelu": _gelu,
}  # fmt: skip
"""Float functions: computed in float64, rounded once to the dtype of the argument (integers and narrow floats: float32)."""

ANY: dict[str, Callable] = {"abs": builtins.abs, "fabs": builtins.abs, "relu": lambda x: x if x != x or x > 0 else type(x)(0)}
"""Functions that keep integers."""


def _whole(function: Callable) -> Callable:
    """Conversions between floats make 0 of -0."""
    return _numpy(lambda x: function(x) + 0.0)


ROUNDING: dict[str, Callable] = {
    "floor": _whole(np.floor), "ceil": _whole(np.ceil), "trunc": _whole(np.trunc), "round": _whole(np.rint), "nearbyint": _whole(np.rint),
}  # fmt: skip
"""Rounding: integers stay what they are."""


_POWERS_OF_TWO = "float8_e8m0fnu"
"""They have no 0: numbers rounded to whole ones and remainders are float32."""


def _python(name: str, function: Callable) -> Callable:
    """What the function gives for a Python number."""
    own = {"floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "round": builtins.round, "nearbyint": builtins.round}
    return own.get(name, function)


def _unary(name: str, function: Callable, integers: str) -> Callable:
    python = _python(name, function)

    def value(x):
        if isinstance(x, (int, float)):
            return python(x)
        x = scalar(x)
        if not is_float(x.dtype):
            if integers == "same":
                return x
            if integers == "float" or x.dtype in NIBBLES:
                x = cast(x, "float32" if integers == "float" else "int32")
            x = as_number(x)
        if integers == "float" or (integers == "same" and x.dtype == _POWERS_OF_TWO):
            x = widened(x)
        if x.fault is not None:
            return Scalar(0, x.dtype, fault=x.fault.computed())
        return Scalar(fit(function(x.value), x.dtype), x.dtype, x.literal)

    def apply(x, *rest, span=None, rounding_mode=None):
        compute, rest = directed.chosen(name, value, rest, rounding_mode)
        tiles = [v for v in rest if is_tile_like_many(v)]
        return elementwise(name, compute, [x], tiles[0]) if tiles else compute(x)

    return apply


def _number(x) -> bool:
    return isinstance(x, (int, float))


def _op(op: str) -> Callable:
    import operator

    python = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv, "%": operator.mod,
              "&": operator.and_, "|": operator.or_, "^": operator.xor, "<<": operator.lshift, ">>": operator.rshift}[op]  # fmt: skip
    return lambda a, b: python(a, b) if _number(a) and _number(b) else binary(op, a, b)


def _float2(function: Callable, python: Callable) -> Callable:
    """A function of two numbers computed in float64 and rounded once; integers are float32."""

    def apply(a, b):
        if _number(a) and _number(b):
            return python(a, b)
        x, y = _as_floats(a, b)
        fault = x.fault or y.fault
        if fault is not None:
            return Scalar(0, x.dtype, fault=fault.computed())
        return Scalar(fit(float(function(np.float64(x.value), np.float64(y.value))), x.dtype), x.dtype)

    return apply


def _as_floats(a, b) -> list:
    return [widened(x) if is_float(x.dtype) else cast(x, "float32") for x in match(a, b)]


def _trunc(quotient: bool) -> Callable:
    def apply(a, b):
        if _number(a) and _number(b):
            return int(a / b) if quotient else math.fmod(a, b)
        x, y = match(a, b)
        if x.dtype == _POWERS_OF_TWO:
            x, y = widened(x), widened(y)
        if not is_float(x.dtype):
            x, y = match(*(v if type(v) is int else promoted("//", scalar(v)) for v in (a, b)))
        fault = x.fault or y.fault
        if fault is None and y.value == 0 and not is_float(x.dtype):
            fault = Fault(f"{x.value} divided by zero")
        if fault is not None:
            return Scalar(0, x.dtype, fault=fault.computed())
        if is_float(x.dtype):
            value = float(np.trunc(np.float64(x.value) / np.float64(y.value))) if quotient else float(np.fmod(x.value, y.value))
        else:
            q = abs(x.value) // abs(y.value) * (1 if (x.value < 0) == (y.value < 0) else -1)
            value = q if quotient else x.value - q * y.value
        return Scalar(fit(value, x.dtype), x.dtype)

    return apply


def maximum(a, b):
    """`T.max`."""
    return builtins.max(a, b) if _number(a) and _number(b) else pick_max(a, b)


def minimum(a, b):
    """`T.min`."""
    return builtins.min(a, b) if _number(a) and _number(b) else pick_min(a, b)


def _hypot(a, b):
    if not (_number(a) and _number(b)):
        a, b = _as_floats(a, b)
    square = _op("+")(_op("*")(a, a), _op("*")(b, b))
    return math.sqrt(square) if _number(square) else UNARY["sqrt"](square)


BINARY: dict[str, Callable] = {
    "max": maximum, "min": minimum, "pow": lambda a, b: a**b if _number(a) and _number(b) else power(a, b), "add": _op("+"),
    "sub": _op("-"), "mul": _op("*"), "div": _op("/"), "floordiv": _op("//"), "floormod": _op("%"), "bitwise_and": _op("&"),
    "bitwise_or": _op("|"), "bitwise_xor": _op("^"), "shift_left": _op("<<"), "shift_right": _op(">>"),
    "atan2": _float2(np.arctan2, math.atan2), "fmod": _trunc(False), "copysign": _float2(np.copysign, math.copysign),
    "hypot": _hypot, "fmul": _op("*"), "ieee_add": _op("+"), "ieee_sub": _op("-"), "ieee_mul": _op("*"), "ieee_fdiv": _op("/"),
    "truncdiv": _trunc(True), "truncmod": _trunc(False),
}  # fmt: skip


def _binary(name: str, value: Callable) -> Callable:
    def apply(a, b, *rest, span=None, rounding_mode=None):
        compute, rest = directed.chosen(name, value, rest, rounding_mode)
        tiles = [v for v in rest if is_tile_like_many(v)]
        if tiles:
            return elementwise(name, compute, [a, b], tiles[0])
        a = compute(a, b)
        for c in rest:
            a = compute(a, c)
        return a

    return apply


UNARY = {
    **{n: _unary(n, f, "float") for n, f in FLOAT.items()},
    **{n: _unary(n, f, "keep") for n, f in ANY.items()},
    **{n: _unary(n, f, "same") for n, f in ROUNDING.items()},
}


def _squeezed(extents) -> list:
    extents = list(extents)
    while len(extents) > 1 and extents[0] == 1:
        extents.pop(0)
    return extents


def elementwise(name: str, function: Callable, sources: list, target) -> None:
    """``target[i, …] = function(source[i, …], …)``; a source may be a number or have dimensions of size 1."""
    dst = operand(target, f"the destination of T.{name}")
    shape = _squeezed(dst.extents)
    operands = [operand(s, f"an operand of T.{name}") if is_tile_like_many(s) else s for s in sources]
    for op in operands:
        if isinstance(op, Region):
            own = _squeezed(op.extents)
            if len(own) > len(shape) or any(e not in (1, s) for e, s in zip(reversed(own), reversed(shape))):
                raise ShapeMismatch(f"T.{name}: the operand {op.describe()} does not match the destination {dst.describe()}", at=here())
    # Operands may overlap the target: nothing is stored before everything is computed, as the iterations have no order.
    places = list(np.ndindex(*shape))
    results = [function(*[_element(o, i) for o in operands]) for i in places]
    for i, value in zip(places, results):
        dst.tile.store(_at(dst, i), value)


def _element(op, index):
    return op.tile.element(_at(op, index)) if isinstance(op, Region) else op


def _at(op: Region, index) -> tuple:
    own = _squeezed(op.extents)
    inside = [0 if e == 1 else i for e, i in zip(own, index[len(index) - len(own) :])]
    full = [0] * (len(op.mins) - len(inside)) + inside
    return tuple(m + i for m, i in zip(op.mins, full))


def bitwise_not(x, *rest):
    """`T.bitwise_not`."""
    value = lambda v: ~v if not isinstance(v, bool) else not v  # noqa: E731
    return elementwise("bitwise_not", value, [x], rest[0]) if rest and is_tile_like_many(rest[0]) else value(x)


def _of_bits(name: str, count: Callable, own_dtype: bool) -> Callable:
    """`count(bits, width)` of the bits of an integer, in the dtype of the integer or as int32."""

    def value(x):
        x = scalar(x)
        if is_float(x.dtype):
            hint = "T.reinterpret gives the bits of a number as an integer"
            raise InvalidArgument(f"T.{name} of a {x.dtype}: only integers have bits to count", at=here(), hint=hint)
        dtype = x.dtype if own_dtype else "int32"
        if x.fault is not None:
            return Scalar(0, dtype, fault=x.fault.computed())
        width = bits(x.dtype)
        return cast(Scalar(count(int(x.value) & ((1 << width) - 1), width), "int32"), dtype)

    def apply(x, *rest):
        return elementwise(name, value, [x], rest[0]) if rest and is_tile_like_many(rest[0]) else value(x)

    return apply


popcount = _of_bits("popcount", lambda bits, width: bits.bit_count(), True)
clz = _of_bits("clz", lambda bits, width: width - bits.bit_length(), False)


def ceildiv(lhs, rhs, span=None):
    """`T.ceildiv`."""
    for v in (lhs, rhs):
        if v is None or isinstance(v, float):
            raise InvalidArgument(f"T.ceildiv needs integers, got {v!r}", at=here())
    if _number(lhs) and _number(rhs):
        return -(-lhs // rhs)
    if not _number(rhs):
        rhs = match(lhs, rhs)[1]
    return binary("//", binary("+", lhs, _op("-")(rhs, 1)), rhs)


def align_up(x, y):
    """`T.align_up`."""
    return _op("*")(ceildiv(x, y), y)


def if_then_else(cond, true_value, false_value, span=None):
    """`T.if_then_else`."""
    return select(cond, true_value, false_value)


def index_to_coordinates(index, shape) -> list:
    """`T.index_to_coordinates`."""
    out = []
    for extent in reversed(list(shape)):
        out.insert(0, _op("%")(index, extent))
        index = _op("//")(index, extent)
    return out


def convert(value, dtype, round="", sat=None, rbits=None, span=None):
    """`T.cast(value, dtype)`, or of all elements of a tile."""
    if is_tile_like_many(dtype):
        to = operand(dtype, "the destination of T.cast").tile._dtype
        return elementwise("cast", lambda v: _rounded(v, to, round, sat), [value], dtype)
    return _rounded(value, dtype_of(dtype), round, sat)


def _rounded(value, dtype: str, mode: str, sat) -> Scalar:
    """A conversion in a direction: of the numbers of the dtype on both sides, the one that is asked for."""
    x = scalar(value)
    if x.fault is not None or not is_float(x.dtype) or (not mode and not sat):
        return cast(value, dtype)
    v = float(x.value)
    if dtype == "float4_e2m1fn":
        return cast(value, dtype) if mode in ("", "rn") else Scalar(_in_4_bits(v, mode), dtype)
    if sat and dtype.startswith("float8") and not math.isnan(v):
        most = float(ml_dtypes.finfo(dtype).max)
        v = min(max(v, -most), most)
    if not is_float(dtype):
        if math.isfinite(v) and mode in _WHOLE:
            v = _WHOLE[mode](v)
        return cast(Scalar(float(v), "float64"), dtype)
    if dtype == "float8_e8m0fnu":
        return Scalar(power_of_two(float(np.float32(v)), mode), dtype)
    near = float(np.float32(v).astype(numpy_dtype(dtype)))
    if math.isnan(near) and math.isfinite(v) and mode in ("rz", "ru", "rd"):
        inwards = mode == "rz" or (mode == "rd") == (v > 0)
        return Scalar(math.copysign(float(ml_dtypes.finfo(dtype).max), v) if inwards else math.nan, dtype)
    if mode in ("", "rn") or math.isnan(v) or math.isinf(v) or near == v:
        return Scalar(near, dtype)
    word = np.float32(v).astype(numpy_dtype(dtype)).view(f"uint{8 * numpy_dtype(dtype).itemsize}")
    other = float((word + word.dtype.type(1) if abs(near) < abs(v) else word - word.dtype.type(1)).view(numpy_dtype(dtype)))
    low, high = (near, other) if near < v else (other, near)
    if mode == "rna":
        tie = abs(v - near) == abs(other - v) and abs(other) > abs(near)
        return Scalar(other if tie else near, dtype)
    up = mode == "ru" or (mode == "rz" and v < 0)
    return Scalar(high if up else low, dtype)


def _in_4_bits(v: float, mode: str) -> float:
    """The float4_e2m1fn next to a number in a direction; the largest one if it lies beyond that, and for NaN."""
    numbers = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
    v = numbers[-1] if math.isnan(v) else v
    size = min(abs(v), numbers[-1])
    low, high = max(n for n in numbers if n <= size), min(n for n in numbers if n >= size)
    up = 2 * size >= low + high if mode == "rna" else mode == ("ru" if v > 0 else "rd")
    return math.copysign(high if up else low, v)


_WHOLE = {
    "rn": lambda v: float(np.rint(v)), "rz": math.trunc, "ru": math.ceil, "rd": math.floor,
    "rna": lambda v: math.copysign(math.floor(abs(v)) + (abs(v) - math.floor(abs(v)) >= 0.5), v),
}  # fmt: skip


def to_dtype(value, dtype):
    """`T.float32(x)`."""
    return cast(value, dtype_of(dtype))


def reinterpret(value, dtype, span=None):
    """`T.reinterpret`."""
    if isinstance(value, (str, type)):
        value, dtype = dtype, value
    x, name = scalar(value), dtype_of(dtype)
    if x.fault is not None:
        return Scalar(0, name, fault=x.fault.computed())
    if (x.dtype in NIBBLES) != (name in NIBBLES):
        raise InvalidArgument(f"T.reinterpret of {x.dtype} as {name}, which has another size", at=here())
    if name in NIBBLES:
        memory = np.zeros(1, np.uint8)
        Halves(memory, (1,), x.dtype, False)[(0,)] = x.value
        seen = Halves(memory, (1,), name, False)[(0,)]
        return Scalar(float(seen) if is_float(name) else int(seen), name)
    if x.narrow is not None and bits(x.dtype) != bits(name) == bits(x.narrow):
        x = cast(x, x.narrow)
    raw = np.array([x.value]).astype(np.float32 if numpy_dtype(x.dtype).kind == "V" else numpy_dtype(x.dtype)).astype(numpy_dtype(x.dtype))
    if raw.dtype.itemsize != numpy_dtype(name).itemsize:
        raise InvalidArgument(f"T.reinterpret of {x.dtype} as {name}, which has another size", at=here())
    seen = raw.view(numpy_dtype(name))[0]
    return Scalar(float(seen) if is_float(name) else seen.item(), name)


def infinity(dtype, span=None):
    """`T.infinity`."""
    name = dtype_of(dtype)
    if not is_float(name):
        raise InvalidArgument(f"{name} has no infinity", at=here(), hint=f"use T.max_value('{name}')")
    return Scalar(math.inf, name, True)


def _limit(largest: bool) -> Callable:
    def limit(dtype, span=None):
        name = dtype_of(dtype)
        if name == "bool":
            return Scalar(largest, name, True)
        if is_float(name):
            import ml_dtypes

            info = ml_dtypes.finfo(numpy_dtype(name))
            return Scalar(float(info.max if largest else info.min), name, True)
        return Scalar(integer_range(name)[int(largest)], name, True)

    return limit


max_value, min_value = _limit(True), _limit(False)


def _classify(test: Callable) -> Callable:
    def apply(x):
        if _number(x):
            return test(x)
        x = scalar(x)
        if x.fault is not None:
            return Scalar(False, "bool", fault=x.fault.computed())
        return Scalar(test(x.value), "bool")

    return apply


isnan, isinf, isfinite = _classify(math.isnan), _classify(math.isinf), _classify(math.isfinite)


def _logic(op: str) -> Callable:
    def apply(a, b, span=None):
        if isinstance(a, bool) and isinstance(b, bool):
            return (a and b) if op == "&" else (a or b)
        a, b = cast(a, "bool"), cast(b, "bool")
        if a.fault is None and a.value == (op == "|"):  # the right side is not evaluated
            return a
        return binary(op, a, b)

    return apply


def Not(a, span=None):
    """`T.Not`."""
    return not a if isinstance(a, bool) else ~cast(a, "bool")


MEANINGS: dict[str, Callable] = {
    **UNARY,
    **{n: _binary(n, f) for n, f in BINARY.items()},
    "bitwise_not": bitwise_not, "popcount": popcount, "clz": clz, "ceildiv": ceildiv, "cdiv": ceildiv, "align_up": align_up, "if_then_else": if_then_else,
    "Select": if_then_else, "likely": lambda cond: cond, "index_to_coordinates": index_to_coordinates,
    "clamp": lambda x, min_val, max_val: minimum(maximum(x, min_val), max_val),
    "fma": lambda x, y, z: _op("+")(_op("*")(x, y), z), "ieee_fmaf": directed.fused,
    "Cast": lambda dtype, value, span=None: to_dtype(value, dtype), "cast": convert, "reinterpret": reinterpret, "infinity": infinity,
    "max_value": max_value, "min_value": min_value, "isnan": isnan, "isinf": isinf, "isfinite": isfinite, "And": _logic("&"),
    "Or": _logic("|"), "Not": Not,
}  # fmt: skip
"""Name in the language -> meaning."""

MEANINGS.update({npu: MEANINGS[name] for npu, name in ON_TILES.items()})


def vbrc(value, dst) -> None:
    """`T.vbrc`."""
    from .tileops import fill

    if is_tile_like_many(value):
        elementwise("vbrc", lambda v: v, [value], dst)
    else:
        fill(dst, value)


MEANINGS["vbrc"] = vbrc
MEANINGS["vcast"] = lambda src, dst, round_mode=None: elementwise("vcast", lambda v: v, [src], dst)


def builtin_max(*args: Any, **kwargs: Any):
    """Python's `max` in a kernel."""
    return _many(builtins.max, maximum, args, kwargs)


def builtin_min(*args: Any, **kwargs: Any):
    """Python's `min` in a kernel."""
    return _many(builtins.min, minimum, args, kwargs)


def _many(python, ours, args, kwargs):
    values = list(args[0]) if len(args) == 1 and not is_tile_like_many(args[0]) else list(args)
    if kwargs or not any(isinstance(v, Scalar) or hasattr(v, "load_scalar") for v in values):
        return python(*([values] if len(args) == 1 else values), **kwargs)
    out = values[0]
    for v in values[1:]:
        out = ours(out, v)
    return out
