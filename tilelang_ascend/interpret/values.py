"""Scalars: a number and its dtype, with the promotion rules of the language and the arithmetic of C.

A float is kept as a Python float that the dtype holds exactly, an integer as a Python integer in the range of the dtype.

A scalar may be *faulty*: an element that nobody wrote, that lies outside of its buffer, or a quotient by zero. Faults travel through
expressions, since `T.if_then_else` may not choose them, and are errors as soon as a store, a branch or an index uses them; the
error names the line of the read.
"""

from __future__ import annotations

import functools
import math
import operator
from typing import Any, Callable

import ml_dtypes
import numpy as np

from ..errors import DtypeMismatch, InvalidArgument, UnsupportedConstruct
from ..frontend.annotations import DType, dtype_name
from ..runtime.dtypes import NIBBLES
from .state import InterpretError, current, here

FLOAT_BITS = {"float16": 16, "bfloat16": 16, "float32": 32, "float64": 64}
FLOAT_LIMITS = {"uint16": (-(2**31), 2**31 - 1), "uint32": (-(2**31), 2**32 - 1)}
"""Ends of the range of conversions from floats where they are not those of the dtype."""
_ALIASES = {"half": "float16", "float": "float32", "double": "float64", "int": "int32", "uint": "uint32", "long": "int64"}


def numpy_dtype(name: str) -> np.dtype:
    """The NumPy dtype of a dtype name; those NumPy does not have come from ml_dtypes."""
    found = _NUMPY.get(name)
    if found is None:
        name = str(name)
        kind = getattr(ml_dtypes, name) if name.startswith(("bfloat", "float8", "float4")) else _HELD_IN.get(name, name)
        found = _NUMPY[name] = np.dtype(kind)
    return found


_HELD_IN = {"int4": "int8", "uint4": "uint8"}
"""Integers NumPy calculates with, where it does not with those of the dtype; elements stay in the range of theirs."""


_NUMPY: dict[str, np.dtype] = {}


@functools.lru_cache(maxsize=None)
def is_float(dtype: str) -> bool:
    """True for floating-point dtypes."""
    return dtype.startswith(("float", "bfloat"))


@functools.lru_cache(maxsize=None)
def bits(dtype: str) -> int:
    """Bits of one element."""
    return 4 if dtype in NIBBLES else numpy_dtype(dtype).itemsize * 8


@functools.lru_cache(maxsize=None)
def integer_range(dtype: str) -> tuple[int, int]:
    """Smallest and largest value of an integer dtype."""
    n = bits(dtype)
    return (0, 2**n - 1) if dtype.startswith("u") else (-(2 ** (n - 1)), 2 ** (n - 1) - 1)


@functools.lru_cache(maxsize=None)
def join(a: str, b: str) -> str:
    """The dtype two operands meet in: bool < integers < floats, the wider one wins, unequal equals widen."""
    if a == b or b == "bool":
        return a
    if a == "bool":
        return b
    if is_float(a) != is_float(b):
        return a if is_float(a) else b
    if is_float(a):
        wa, wb = FLOAT_BITS.get(a, 8), FLOAT_BITS.get(b, 8)
        return "float32" if wa == wb else a if wa > wb else b
    wa, wb = bits(a), bits(b)
    ua, ub = a.startswith("u"), b.startswith("u")
    if ua == ub:
        return a if wa >= wb else b
    return f"int{min(64, max(wa, wb, 2 * (wa if ua else wb)))}"


def fit(value, dtype: str):
    """A number as `dtype` holds it: floats are rounded, integers wrap, floats are truncated to integers."""
    if is_float(dtype):
        if dtype == "float32":
            return float(np.float32(value)) if type(value) is float else _rounded(value, dtype)
        return _rounded(value, dtype)
    if dtype == "bool":
        return bool(value)
    low, high = integer_range(dtype)
    if type(value) is int and low <= value <= high:
        return value
    if isinstance(value, float):
        # Negative numbers wrap in unsigned integers of 16 and 32 bits, down to the end of int32.
        least, most = FLOAT_LIMITS.get(dtype, (low, high))
        value = 0 if value != value else least if value <= least else most if value >= most else int(value)
    value = int(value)
    if low <= value <= high:
        return value
    return (value - low) % (high - low + 1) + low


def _rounded(value, dtype: str) -> float:
    if dtype == "float64":
        return float(value)
    if type(value) is int and 1 << 53 < abs(value) < 1 << 64:
        # NumPy makes a float64 of an integer of Python first: it would be rounded twice.
        value = float(np.array(value, np.uint64 if value > 0 else np.int64).astype(np.float32)) if value >= -(1 << 63) else value
    if dtype == "float32" or dtype == "float16":
        try:
            return float(numpy_dtype(dtype).type(value))
        except OverflowError:  # an integer beyond every float
            return math.copysign(math.inf, value)
    if dtype == "float4_e2m1fn" and value != value:
        return 6.0  # the largest number, which everything too large is
    return power_of_two(float(np.float32(value))) if dtype == "float8_e8m0fnu" else float(numpy_dtype(dtype).type(np.float32(value)))


def power_of_two(value: float, mode: str = "rn") -> float:
    """The size of a float32 as float8_e8m0fnu holds it: a power of two from 2**-127 to 2**127, or NaN. Halfway goes up; below the smallest
    normal float32 the fraction is that of the bits, as in torch. `mode` as in `T.cast`: "ru" up, "rz" and "rd" down."""
    size, least = abs(value), 2.0**-126
    if not math.isfinite(size):
        return math.nan
    if size < least:
        up = size > least / 2 if mode in ("", "rn", "rna", "ru") else False
        return least if up else least / 2
    fraction, exponent = math.frexp(size)
    up = {"ru": fraction > 0.5, "rz": False, "rd": False}.get(mode, fraction >= 0.75)
    exponent += 0 if up else -1
    return math.ldexp(1.0, exponent) if exponent <= 127 else math.nan


class Fault:
    """Why a scalar has no value. `copied` is True as long as it is the element itself and nothing computed from it."""

    __slots__ = ("text", "where", "hint", "copied", "undefined")

    def __init__(self, text: str, hint: str | None = None, undefined: bool = False, where=None):
        self.text, self.hint, self.undefined, self.copied = text, hint, undefined, True
        self.where = here() if where is None else where

    def computed(self) -> Fault:
        """The fault of a value computed from this one."""
        if not self.copied:
            return self
        new = Fault(self.text, self.hint, self.undefined, self.where)
        new.copied = False
        return new

    def error(self) -> InterpretError:
        """The error to raise."""
        return InterpretError(self.text, at=self.where, hint=self.hint)


class Scalar:
    """A number of a kernel. Immutable.

    Attributes:
        value: Python number.
        dtype: name of the dtype.
        literal: a constant of the program; as an integer it takes the dtype of what it meets.
        fault: `Fault`, or None.
        origin: (tile, index) of an element that was read, else None.
        narrow: of int32 arithmetic on integers of 8 and 16 bits, the widest dtype of these, else None.
        whole: what a sum, product or quotient of indices comes to where an int32 does not hold it, as an int64; None where `value` is that.
    """

    __slots__ = ("value", "dtype", "literal", "fault", "origin", "narrow", "whole")

    def __init__(
        self,
        value,
        dtype: str,
        literal: bool = False,
        fault: Fault | None = None,
        origin=None,
        narrow: str | None = None,
        whole: int | None = None,
    ):
        self.value, self.dtype, self.literal, self.fault, self.origin = value, dtype, literal, fault, origin
        self.narrow, self.whole = narrow, whole

    @property
    def number(self) -> int:
        """The value, or what it would be as an int64."""
        return self.value if self.whole is None else self.whole

    def get(self):
        """The number. Raises InterpretError if there is none."""
        if self.fault is not None:
            raise self.fault.error()
        return self.value

    def numpy(self):
        """The number as a NumPy scalar."""
        return numpy_dtype(self.dtype).type(self.get())

    # -- Python's protocols

    def __bool__(self):
        return bool(self.get())

    def __index__(self):
        if is_float(self.dtype):
            raise InvalidArgument(f"an index is {self.dtype}, integers are needed", at=here(), hint="convert it: T.cast(i, 'int32')")
        return int(self.get())

    def __int__(self):
        return int(self.get())

    def __float__(self):
        return float(self.get())

    def __hash__(self):
        return hash(self.value)

    def __str__(self):
        return "undefined" if self.fault is not None else str(self.numpy())

    def __repr__(self):
        return "undefined" if self.fault is not None else repr(self.numpy()).replace("np.", "")

    def __format__(self, spec):
        return format(self.get(), spec) if spec else str(self)

    def __round__(self, digits=None):
        return self if not is_float(self.dtype) else unary(self, lambda x: float(round(x)) if math.isfinite(x) else x)

    def __abs__(self):
        return unary(as_number(self), abs)

    def __neg__(self):
        x = computed(promoted("-", as_number(self)))
        out = unary(x, operator.neg)
        return out if is_float(x.dtype) or out.fault is not None else _with_whole(out, operator.neg, x)

    def __pos__(self):
        return self

    def __invert__(self):
        if is_float(self.dtype):
            raise DtypeMismatch(f"'~' needs an integer, the operand is {self.dtype}", at=here())
        return unary(self, operator.not_) if self.dtype == "bool" else unary(computed(promoted("~", self)), operator.invert)

    def astype(self, dtype):
        """`T.cast(self, dtype)`"""
        from .values import dtype_of

        return cast(self, dtype_of(dtype))


def as_number(x: Scalar) -> Scalar:
    """Booleans compute as int32."""
    return cast(x, "int32") if x.dtype == "bool" else x


_NARROW = ("int4", "uint4", "int8", "uint8", "int16", "uint16")
_PROMOTING = ("+", "-", "*", "/", "//", "%", "<<", "~")
"""Operators whose result a narrow dtype may not hold."""


def promoted(op: str, x: Scalar) -> Scalar:
    """An operand in the dtype its operator computes in: narrow integers as int32, bfloat16 and 8-bit floats as float32."""
    if op not in _PROMOTING:
        return x
    if x.dtype in _NARROW:
        return x if x.literal else _widened(x, "int32")
    return cast(x, "float32") if _computes_as_float32(x.dtype) else x


def computed(x: Scalar) -> Scalar:
    """A constant in the dtype constants of its dtype are computed in, if no other operand is an element."""
    return cast(x, "int32") if x.literal and x.dtype in _NARROW else x


def _computes_as_float32(dtype: str) -> bool:
    return dtype == "bfloat16" or dtype.startswith(("float8", "float4"))


def widened(x: Scalar) -> Scalar:
    """The operand of a function whose results bfloat16 and the floats of 8 and 4 bits do not hold."""
    return cast(x, "float32") if _computes_as_float32(x.dtype) else x


def _widened(x: Scalar, dtype: str) -> Scalar:
    """An operand in the dtype of its operation."""
    out = cast(x, dtype)
    if dtype == "int32" and not x.literal and x.dtype in ("int8", "uint8", "int16", "uint16"):
        out = Scalar(out.value, dtype, False, out.fault, None, x.dtype)
    return out


def _narrow_of(x: Scalar, y: Scalar) -> str | None:
    """`narrow` of a result."""
    kinds = [v.narrow for v in (x, y) if not v.literal]
    return None if None in kinds else max(kinds, key=bits, default=None)


def unary(x: Scalar, function: Callable) -> Scalar:
    """`function` of the value, in the dtype of x."""
    if x.fault is not None:
        return Scalar(0, x.dtype, fault=x.fault.computed())
    return Scalar(fit(function(x.value), x.dtype), x.dtype, x.literal, narrow=x.narrow)


class _Hash(int):
    """What a product with a factor that no index has comes to."""


def _with_whole(out: Scalar, function: Callable, *operands: Scalar) -> Scalar:
    """`out`, the int32 or int64 that `function` of `operands` is, with what it is as an int64 of their numbers without end."""
    if out.dtype not in _INDEX:
        return out
    whole = fit(int(function(*(x.number for x in operands))), "int64")
    hashed = function is operator.mul and _is_hash(*operands) or any(type(x.whole) is _Hash for x in operands)
    out.whole = None if whole == out.value else _Hash(whole) if hashed else whole
    return out


def _is_hash(*factors: Scalar) -> bool:
    sizes = [abs(x.value) for x in factors if x.literal]
    return any(n >= _LEAST_HASH_FACTOR and n % 2 for n in sizes)


_INDEX = ("int32", "int64")
_LEAST_HASH_FACTOR = 1 << 20
"""Odd factors from here on are no strides."""


def size_of(dim: Any) -> int:
    """The number of elements that a dimension has, however large."""
    x = scalar(dim)
    return int(x.get() if x.whole is None else x.whole)


def is_tile_like(value) -> bool:
    """True for buffers and slices."""
    return getattr(type(value), "is_tile_like", False)


_FOREIGN: list[Callable] = []  # values of other kinds -> Scalar or None (constants of the IR from outside of the kernel)


def is_scalar(value) -> bool:
    """True for everything that counts as one number."""
    return isinstance(value, (Scalar, bool, int, float, np.generic)) or hasattr(value, "load_scalar")


def scalar(value: Any, what: str = "this value") -> Scalar:
    """`value` as a Scalar; Python numbers are literals."""
    if type(value) is Scalar:
        return value
    kind = type(value)
    if kind is bool:
        return Scalar(value, "bool", True)
    if kind is int:
        return Scalar(value, "int32" if -(2**31) <= value < 2**31 else "int64", True)
    if kind is float:
        return Scalar(fit(value, "float32"), "float32", True)
    if isinstance(value, Scalar):
        return value
    if hasattr(value, "load_scalar"):  # a mutable scalar, or a region of one element
        return value.load_scalar(what)
    if isinstance(value, (bool, int, float)):
        return scalar(bool(value) if isinstance(value, bool) else int(value) if isinstance(value, int) else float(value))
    if isinstance(value, np.generic) or (type(value).__module__ in ("numpy", "torch") and getattr(value, "shape", None) == ()):
        return scalar(value.item())
    for convert in _FOREIGN:
        found = convert(value)
        if found is not None:
            return found
    raise DtypeMismatch(f"{what} is {value!r} of type {type(value).__name__}, a number is needed here", at=here())


def cast(value: Any, dtype: str) -> Scalar:
    """`value` converted to `dtype` as C does it."""
    x = scalar(value)
    if x.dtype == dtype:
        return x
    if x.fault is not None:
        # A converted element is still a copy of it.
        return Scalar(0, dtype, fault=x.fault)
    if x.literal and not is_float(dtype) and dtype != "bool":
        low, high = integer_range(dtype)
        if not low - 1 < x.value < high + 1:
            raise InvalidArgument(
                f"{x.value} does not fit {dtype}, which holds {low} to {high}",
                at=here(),
                hint="use a wider dtype, or write the number it should wrap to",
            )
    if x.literal and is_float(dtype):
        most = float(ml_dtypes.finfo(dtype).max)
        if most < abs(x.value) < math.inf:
            raise InvalidArgument(
                f"{x.value} does not fit {dtype}, whose largest number is {most:g}", at=here(), hint=f"T.infinity('{dtype}') is infinity"
            )
        if x.value < 0 and dtype == "float8_e8m0fnu":
            raise InvalidArgument(
                f"{x.value} does not fit {dtype}, whose numbers have no sign", at=here(), hint="scale by a positive power of two and negate"
            )
    if x.literal and type(value) is float:  # rounded once
        return Scalar(fit(value, dtype), dtype, True)
    if x.dtype in _INDEX and dtype in _INDEX:
        value = fit(x.value, dtype)
        return Scalar(value, dtype, x.literal, whole=None if x.number == value else x.number)
    return Scalar(fit(x.value, dtype), dtype, x.literal)


def _holds(dtype: str, value: int) -> bool:
    low, high = integer_range(dtype)
    return low <= value <= high


def match(a: Any, b: Any) -> tuple[Scalar, Scalar]:
    """Both operands in their common dtype. An int32 literal takes the dtype of an integer it meets, or of a float that holds it, and an integer of Python
    beyond int32 that of an integer that holds it."""
    x, y = scalar(a), scalar(b)
    x, y = _literal_beside(a, x, y), _literal_beside(b, y, x)
    da, db = x.dtype, y.dtype
    if da == db:
        return x, y
    # A number of Python that the other dtype does not hold was not written as a literal: it was counted up in a loop.
    if x.literal and da == "int32" and db != "bool" and not is_float(db) and _holds(db, x.value):
        return cast(x, db), y
    if y.literal and db == "int32" and da != "bool" and not is_float(da) and _holds(da, y.value):
        return x, cast(y, da)
    common = join(da, db)
    # Nor does a literal that such a float does not hold become another number.
    if _computes_as_float32(common) and any(v.literal and type(v.value) is int and fit(v.value, common) != v.value for v in (x, y)):
        common = "float32"
    return (cast(a, common) if type(a) is float else _widened(x, common)), (cast(b, common) if type(b) is float else _widened(y, common))


def _literal_beside(value: Any, x: Scalar, other: Scalar) -> Scalar:
    beyond = type(value) is int and x.dtype != "int32" and other.dtype != "bool" and not is_float(other.dtype)
    return cast(x, other.dtype) if beyond and _holds(other.dtype, value) else x


def _divide(a, b):
    if b:
        return a / b
    if a != a or a == 0:
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _left(a, b):
    return a << b if 0 <= b < 64 else 0  # the amount counts as unsigned: beyond the width nothing is left


def _right(a, b):
    return a >> (b if 0 <= b < 64 else 64)  # beyond the width the sign is left


_ARITHMETIC: dict[str, Callable] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": _divide, "//": operator.floordiv, "%": operator.mod,
    "<<": _left, ">>": _right, "&": operator.and_, "|": operator.or_, "^": operator.xor,
}  # fmt: skip
_COMPARE: dict[str, Callable] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_OF_INDICES = ("+", "-", "*", "//", "%")
_BITS = ("<<", ">>", "&", "|", "^")


def binary(op: str, a: Any, b: Any):
    """``a <op> b`` of two numbers of which one belongs to the kernel."""
    x, y = (v if type(v) in (int, float) else promoted(op, scalar(v)) for v in (a, b))
    if op in _PROMOTING and scalar(x).literal and scalar(y).literal:
        x, y = (v if type(v) in (int, float) else computed(v) for v in (x, y))
    x, y = match(x, y)
    dtype = x.dtype
    if dtype == "bool" and op not in ("&", "|", "^"):
        x, y, dtype = cast(x, "int32"), cast(y, "int32"), "int32"
    fault = x.fault or y.fault
    floating = is_float(dtype)
    if op == "/" and not floating:
        raise UnsupportedConstruct(
            "'/' between two integers",
            at=here(),
            notes=[f"both operands are {dtype}"],
            hint="write // for floor division, or convert one side first: T.cast(x, 'float32') / y",
        )
    if floating and op in _BITS:
        raise DtypeMismatch(
            f"'{op}' needs integers, the operands are {dtype}", at=here(), hint="use T.reinterpret to see the bits of a float"
        )
    if fault is not None:
        return Scalar(0, dtype, fault=fault.computed())
    u, v = x.value, y.value
    if not floating:
        if op in ("//", "%") and v == 0:
            return Scalar(0, dtype, fault=Fault(f"{u} {op} 0: division by zero").computed())
        narrow = _narrow_of(x, y) if dtype == "int32" else None
        exact = _ARITHMETIC[op](u, v)
        out = Scalar(fit(exact, dtype), dtype, x.literal and y.literal, narrow=narrow)
        if exact == out.value and x.whole is None and y.whole is None or op not in _OF_INDICES:
            return out
        return out if op in ("//", "%") and _divides_hash(x, y) else _with_whole(out, _ARITHMETIC[op], x, y)
    literal = x.literal and y.literal
    if op in ("//", "%"):
        wide = join(dtype, "float32")
        q = fit(_divide(u, v), wide)
        q = float(math.floor(q)) if math.isfinite(q) else q
        return Scalar(fit(q if op == "//" else fit(u - fit(q * v, wide), wide), dtype), dtype, literal)
    return Scalar(fit(_ARITHMETIC[op](u, v), dtype), dtype, literal)


def compare(op: str, a: Any, b: Any) -> Scalar:
    """One comparison."""
    x, y = match(a, b)
    fault = x.fault or y.fault
    if fault is not None:
        return Scalar(False, "bool", fault=fault.computed())
    if (x.whole is not None or y.whole is not None) and numbers_of_indices(x, y):
        return Scalar(_COMPARE[op](x.number, y.number), "bool")
    return Scalar(_COMPARE[op](x.value, y.value), "bool", x.literal and y.literal)


def _divides_hash(*operands: Scalar) -> bool:
    return any(type(x.whole) is _Hash or x.number == 0 for x in operands)


def numbers_of_indices(*operands: Scalar) -> bool:
    """True where comparisons are those of numbers without end: beside tensors that an int32 cannot number."""
    session = current()
    return session is not None and session.long and not any(type(x.whole) is _Hash for x in operands)


def power(a: Any, b: Any):
    """``a ** b``: products for whole constant exponents up to 4, integers for integers, else floating point."""
    x, e = scalar(a), scalar(b)
    known = b if type(b) in (int, float) else e.value if e.literal else None
    whole = known is not None and math.isfinite(known) and known == int(known) and known >= 0
    if whole and (known <= 4 or (type(known) is int and known <= _MOST_FACTORS and not is_float(x.dtype))):
        if isinstance(known, float) and not is_float(x.dtype):
            x = cast(x, "float32")
        result = Scalar(fit(1, x.dtype), x.dtype, True)
        for k in range(int(known)):
            result = x if k == 0 else binary("*", result, x)
        return result
    x, y = match(promoted("*", x), promoted("*", e))
    fault = x.fault or y.fault
    if fault is not None:
        return Scalar(0, x.dtype, fault=fault.computed())
    if not is_float(x.dtype):
        return Scalar(fit(_integer_power(x.value, y.value, x.dtype), x.dtype), x.dtype)
    with np.errstate(all="ignore"):
        value = float(np.float_power(x.value, y.value))  # `np.power` to 0.5 is a root
    return Scalar(fit(value, x.dtype), x.dtype)


_MOST_FACTORS = 16
"""Factors up to which an integer power is a product of narrow integers, too."""


def _integer_power(a: int, n: int, dtype: str) -> int:
    """Some number that is `a ** n` as its dtype holds it; to a negative power only 1 and -1 are not 0."""
    if n < 0:
        return a if a in (1, -1) and n % 2 else int(a in (1, -1))
    return pow(a, n, 1 << bits(dtype))


def _operator(op: str, reflected: bool, function: Callable):
    def method(self, other):
        if not is_scalar(other):
            if is_tile_like(other) and not hasattr(other, "load_scalar"):
                return NotImplemented
            if not is_tile_like(other) and not (_FOREIGN and any(f(other) is not None for f in _FOREIGN)):
                return NotImplemented
        return function(op, other, self) if reflected else function(op, self, other)

    return method


for _name, _op in (("add", "+"), ("sub", "-"), ("mul", "*"), ("truediv", "/"), ("floordiv", "//"), ("mod", "%"), ("lshift", "<<"),
                   ("rshift", ">>"), ("and", "&"), ("or", "|"), ("xor", "^")):  # fmt: skip
    setattr(Scalar, f"__{_name}__", _operator(_op, False, binary))
    setattr(Scalar, f"__r{_name}__", _operator(_op, True, binary))
for _name, _op in (("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="), ("eq", "=="), ("ne", "!=")):
    setattr(Scalar, f"__{_name}__", _operator(_op, False, compare))
Scalar.__pow__ = _operator("**", False, lambda _, a, b: power(a, b))
Scalar.__rpow__ = _operator("**", True, lambda _, a, b: power(a, b))
Scalar.__divmod__ = lambda self, other: (self // other, self % other)


def select(cond: Any, a: Any, b: Any):
    """`a` where `cond` holds, else `b`, in the dtype both meet in; the other one may be faulty."""
    if not isinstance(cond, Scalar) and not hasattr(cond, "load_scalar"):
        return _beside(*((a, b) if cond else (b, a)))
    cond = scalar(cond)
    if cond.literal:
        return _beside(*((a, b) if cond else (b, a)))
    if cond.fault is not None:
        x, _ = match(a, b)
        return Scalar(0, x.dtype, fault=cond.fault.computed())
    x, y = match(a, b)
    chosen = x if cond.value else y
    return Scalar(chosen.value, chosen.dtype, False, chosen.fault, None, whole=chosen.whole)


def _beside(chosen: Any, other: Any):
    """`chosen` in the dtype it has where it is not known that `other` is not."""
    if not any(isinstance(x, Scalar) for x in (chosen, other)) or not all(isinstance(x, (Scalar, int, float)) for x in (chosen, other)):
        return chosen
    matched, _ = match(chosen, other)
    return chosen if matched.dtype == scalar(chosen).dtype else matched


def pick_max(a: Any, b: Any):
    """The larger one; NaN if one is NaN, 0 rather than -0."""
    return _extreme(a, b, lambda u, v: u if u != u or v < u or (u == v and not _negative(u)) else v)


def pick_min(a: Any, b: Any):
    """The smaller one; NaN if one is NaN, -0 rather than 0."""
    return _extreme(a, b, lambda u, v: u if u != u or u < v or (u == v and _negative(u)) else v)


def _negative(x) -> bool:
    return math.copysign(1.0, x) < 0


def _extreme(a, b, choose):
    x, y = match(a, b)
    fault = x.fault or y.fault
    if fault is not None:
        return Scalar(0, x.dtype, fault=fault.computed())
    out = Scalar(choose(x.value, y.value), x.dtype, x.literal and y.literal)
    return out if x.whole is None and y.whole is None else _with_whole(out, choose, x, y)


def dtype_of(value: Any) -> str:
    """The name of a dtype given as a name, a dtype of Python, NumPy, torch, or of the language."""
    return str(value) if type(value) is DType else dtype_name(value)
