"""Scalar expressions as C++ text: exact types whatever C++ promotes, division and remainder as TIR defines them."""

from __future__ import annotations

import math
from typing import Callable

import numpy as np

from ..analysis.index.signs import Known, is_below, is_nonnegative, is_nonzero
from ..ir import Call, FloatImm, IntImm, TensorLoad, Var, const_int, dtype_of, itemsize, op_name, tirx
from ..isa import CTYPES
from ..isa.stream import round_to

# Division and remainder bind like multiplication in C++; a level of their own keeps them in parentheses next to it.
ATOM, UNARY, MUL, DIV, ADD, SHIFT, RELATION, EQUALITY, BIT_AND, BIT_XOR, BIT_OR, AND, OR, TERNARY = range(14, 0, -1)

BINARY = {
    tirx.Add: ("+", ADD),
    tirx.Sub: ("-", ADD),
    tirx.Mul: ("*", MUL),
    tirx.Div: ("/", DIV),
    tirx.Mod: ("%", DIV),
    tirx.LShift: ("<<", SHIFT),
    tirx.RShift: (">>", SHIFT),
    tirx.LT: ("<", RELATION),
    tirx.LE: ("<=", RELATION),
    tirx.GT: (">", RELATION),
    tirx.GE: (">=", RELATION),
    tirx.EQ: ("==", EQUALITY),
    tirx.NE: ("!=", EQUALITY),
    tirx.BitwiseAnd: ("&", BIT_AND),
    tirx.BitwiseXor: ("^", BIT_XOR),
    tirx.BitwiseOr: ("|", BIT_OR),
    tirx.And: ("&&", AND),
    tirx.Or: ("||", OR),
}
"""node -> (C++ operator, precedence)."""
_ARITHMETIC = frozenset({MUL, DIV, ADD})
_RELATIONS = frozenset({RELATION, EQUALITY})

HELPED = {
    tirx.Min: ("Min",),
    tirx.Max: ("Max",),
}
"""node -> helper."""

DIVISIONS = {
    tirx.FloorDiv: ("FloorDiv", "/", False),
    tirx.FloorMod: ("FloorMod", "%", False),
    tirx.Div: ("TruncDiv", "/", True),
    tirx.Mod: ("TruncMod", "%", True),
}
"""integer division -> (helper, operator that does the same where both operands are not negative and the divisor is not 0, whether it
always does where the divisor is a constant)."""

_SHIFTS = {tirx.LShift: "ShiftLeft", tirx.RShift: "ShiftRight"}
"""shift -> helper for amounts that may lie outside of the width."""

HELPERS = {
    "FloorDiv": """\
// Division that rounds towards minus infinity; 0 where b is 0, and the most negative number by -1 is itself.
template <typename T>
__aicore__ inline T FloorDiv(T a, T b) {
  if (b == 0) return 0;
  if (a < 0 && b + 1 == 0) return static_cast<T>(0 - static_cast<uint64_t>(a));
  const T q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}
""",
    "FloorMod": """\
// Remainder with the sign of the divisor; a where b is 0.
template <typename T>
__aicore__ inline T FloorMod(T a, T b) {
  if (b == 0) return a;
  if (a < 0 && b + 1 == 0) return 0;
  const T r = a % b;
  return (r != 0 && (r < 0) != (b < 0)) ? r + b : r;
}
""",
    "ShiftLeft": """\
// Shift by an amount that counts as unsigned; 0 beyond the width.
template <typename T, typename N>
__aicore__ inline T ShiftLeft(T a, N amount) {
  return static_cast<uint64_t>(amount) < sizeof(T) * 8 ? static_cast<T>(static_cast<uint64_t>(a) << amount) : 0;
}
""",
    "ShiftRight": """\
// Shift by an amount that counts as unsigned; beyond the width the sign remains.
template <typename T, typename N>
__aicore__ inline T ShiftRight(T a, N amount) {
  return static_cast<uint64_t>(amount) < sizeof(T) * 8 ? static_cast<T>(a >> amount) : (a < 0 ? ~static_cast<T>(0) : 0);
}
""",
    "TruncDiv": """\
// Division that rounds towards zero; 0 where b is 0, and the most negative number by -1 is itself.
template <typename T>
__aicore__ inline T TruncDiv(T a, T b) {
  if (b == 0) return 0;
  if (a < 0 && b + 1 == 0) return static_cast<T>(0 - static_cast<uint64_t>(a));
  return a / b;
}
""",
    "TruncMod": """\
// Remainder with the sign of the dividend; a where b is 0.
template <typename T>
__aicore__ inline T TruncMod(T a, T b) {
  if (b == 0) return a;
  if (a < 0 && b + 1 == 0) return 0;
  return a % b;
}
""",
    "Power": """\
// Power of an integer, whose products wrap; to a negative power only 1 and -1 are not 0.
template <typename T>
__aicore__ inline T Power(T a, T n) {
  if (n < 0) return a == 1 || a + 1 == 0 ? ((n & 1) != 0 ? a : 1) : 0;
  uint64_t power = 1;
  uint64_t square = static_cast<uint64_t>(a);
  for (uint64_t left = static_cast<uint64_t>(n); left != 0; left >>= 1) {
    if ((left & 1) != 0) power *= square;
    square *= square;
  }
  return static_cast<T>(power);
}
""",
    "Min": """\
template <typename T>
__aicore__ inline T Min(T a, T b) {
  return a < b ? a : b;
}
""",
    "Max": """\
template <typename T>
__aicore__ inline T Max(T a, T b) {
  return a > b ? a : b;
}
""",
    "FloatMin": """\
// The smaller number as the vector unit has it: NaN wins, and -0 lies below 0.
__aicore__ inline float FloatMin(float a, float b) {
  if (a == 0.0f && b == 0.0f) return -(-a - b);
  return a < b || a != a ? a : b;
}
""",
    "FloatMax": """\
// The larger number as the vector unit has it: NaN wins, and 0 lies above -0.
__aicore__ inline float FloatMax(float a, float b) {
  if (a == 0.0f && b == 0.0f) return a + b;
  return a > b || a != a ? a : b;
}
""",
    "ToInteger": """\
// Truncated towards zero; where T does not hold the number the nearest it does (uint32 wraps negative ones), and 0 for NaN.
template <typename T>
__aicore__ inline T ToInteger(float value) {
  constexpr bool is_signed = static_cast<T>(-1) < 0;
  constexpr int bits = sizeof(T) * 8 - is_signed;
  constexpr float beyond = 2 * static_cast<float>(1ULL << (bits - 1));
  constexpr float least = is_signed ? -beyond : sizeof(T) == 4 ? -2147483648.0f : 0.0f;
  if (value != value) return 0;
  if (value >= beyond) return static_cast<T>(~0ULL >> (64 - bits));
  if (value <= least) value = least;
  return value < 0 ? static_cast<T>(static_cast<int64_t>(value)) : static_cast<T>(value);
}
""",
    "BitCast": """\
// The same bits as another type.
template <typename To, typename From>
__aicore__ inline To BitCast(From from) {
  union {
    From from;
    To to;
  } bits{from};
  return bits.to;
}
""",
}
"""Definitions of the helpers a kernel may use; only used ones are emitted."""

_NARROW = frozenset({"int8", "uint8", "int16", "uint16"})
_SMALL_FLOATS = frozenset({"float16", "bfloat16"})


def cast_text(text: str, source: str, target: str) -> str:
    """`text` of dtype `source` converted to `target` with C++ semantics that equal TIR's."""
    if source == target:
        return text
    if target == "bool":
        return f"({text} != 0)"
    if source in _SMALL_FLOATS and target != "float32":
        return cast_text(cast_text(text, source, "float32"), "float32", target)
    if target in _SMALL_FLOATS and source != "float32":
        return cast_text(cast_text(text, source, "float32"), "float32", target)
    if source == "bfloat16":
        return f"AscendC::ToFloat({text})"
    if target == "bfloat16":
        return f"AscendC::ToBfloat16({text})"
    return f"static_cast<{CTYPES[target]}>({text})"


def _is_literal(e) -> bool:
    """True for arithmetic of integer constants."""
    return isinstance(e, IntImm) or hasattr(e, "a") and hasattr(e, "b") and _is_literal(e.a) and _is_literal(e.b)


def _needs_type(e) -> bool:
    """True for arithmetic of constants of 64 bits: C++ gives literals the smallest type that holds them, and computes in it."""
    return dtype_of(e) in ("int64", "uint64") and _is_literal(e)


def float_literal(value: float, dtype: str) -> str:
    """A constant of a floating-point dtype, rounded to it first."""
    value = round_to(value, dtype)
    if dtype == "float64":
        wide, suffix = repr(value), ""
    else:
        wide, suffix = str(np.float32(value)), "f"
    if math.isnan(value):
        text = "__builtin_nan" + suffix + '("")'
    elif math.isinf(value):
        text = ("-" if value < 0 else "") + "__builtin_inf" + suffix + "()"
    else:
        text = wide + suffix
    return text if dtype in ("float32", "float64") else cast_text(text, "float32", dtype)


def int_literal(value: int, dtype: str) -> str:
    """A constant of an integer dtype (or bool)."""
    if dtype == "bool":
        return "true" if value else "false"
    if dtype.startswith("uint"):
        return f"{value}" if dtype in _NARROW else f"{value}{'ULL' if value >= 1 << 32 else 'U'}"
    if value in (-(1 << 31), -(1 << 63)):
        return f"({value + 1}{'LL' if value < -(1 << 31) else ''} - 1)"
    return f"{value}" if -(1 << 31) < value < 1 << 31 else f"{value}LL"


def int_text(value: int, dtype: str) -> str:
    """A constant that is converted to an integer dtype; plain where an int of C++ holds it."""
    return str(value) if -(1 << 31) < value < 1 << 31 else int_literal(value, dtype)


class ScalarText:
    """Prints expressions of one kernel.

    name_of: identifier of a variable; machine_call: text of an intrinsic that returns a value; `helpers` collects the
    names of the helper functions that were used; `known` is told of variables.
    """

    def __init__(self, name_of: Callable[[Var], str], machine_call: Callable[[Call], str], known: Known):
        self.name_of = name_of
        self.machine_call = machine_call
        self.helpers: set[str] = set()
        self.known = known

    def __call__(self, e) -> str:
        """C++ text of an expression."""
        return self.text(e)[0]

    def text(self, e) -> tuple[str, int]:
        """(text, precedence) of an expression."""
        kind = type(e)
        if kind in DIVISIONS and "int" in dtype_of(e):
            return self.division(e, *DIVISIONS[kind])
        if kind in _SHIFTS and not is_below(e.b, 8 * itemsize(dtype_of(e))):
            self.helpers.add(_SHIFTS[kind])
            return f"{_SHIFTS[kind]}<{CTYPES[dtype_of(e)]}>({self(e.a)}, {self(e.b)})", ATOM
        if kind in BINARY:
            return self.binary(e, *BINARY[kind])
        if kind in HELPED:
            return self.helped(e, *HELPED[kind])
        return getattr(self, "print_" + kind.__name__)(e)

    # ---- leaves

    def print_Var(self, e):
        return self.name_of(e), ATOM

    def print_IntImm(self, e: IntImm):
        text = int_literal(int(e.value), dtype_of(e))
        return text, UNARY if text.startswith("-") else ATOM

    def print_FloatImm(self, e: FloatImm):
        text = float_literal(float(e.value), dtype_of(e))
        return text, UNARY if text.startswith("-") else ATOM

    def print_TensorLoad(self, e: TensorLoad):
        # Only mutable scalars are read by a load; elements of memory are read by ascend.get_value.
        return self.name_of(e.source), ATOM

    # ---- operators

    def binary(self, e, symbol: str, precedence: int):
        dtype = dtype_of(e.a)
        if dtype in _SMALL_FLOATS and precedence in _ARITHMETIC:
            a, b = (self.widened(x, dtype) for x in (e.a, e.b))
            return cast_text(f"({a}) {symbol} ({b})", "float32", dtype), ATOM
        b = const_int(e.b)
        if symbol == "+" and b is not None and -(1 << 31) < b < 0:
            symbol, right = "-", (str(-b), ATOM)
        else:
            right = self.text(e.b)
        left = self.text(e.a)
        if _needs_type(e.a) and (precedence == SHIFT or _is_literal(e.b)) or symbol == "<<" and isinstance(e.a, IntImm):
            left = f"static_cast<{CTYPES[dtype]}>({left[0]})", ATOM
        text = f"{operand_text(left, precedence, False)} {symbol} {operand_text(right, precedence, True)}"
        if dtype in _NARROW and precedence not in _RELATIONS:
            return f"static_cast<{CTYPES[dtype]}>({text})", ATOM
        return text, precedence

    def typed(self, e) -> tuple[str, int]:
        """`text` of the type that belongs to its dtype, where C++ does not see it by itself."""
        text = self.text(e)
        return (f"static_cast<{CTYPES[dtype_of(e)]}>({text[0]})", ATOM) if _needs_type(e) else text

    def widened(self, e, dtype: str) -> str:
        """An operand of `dtype` as float32."""
        if isinstance(e, FloatImm):
            return float_literal(round_to(float(e.value), dtype), "float32")
        return cast_text(self(e), dtype, "float32")

    def division(self, e, helper: str, plain: str, truncates: bool):
        by = const_int(e.b)
        nonnegative = all(is_nonnegative(x, self.known) for x in (e.a, e.b))
        if is_nonzero(e.b) and (nonnegative or truncates and by is not None and by != -1):
            return self.binary(e, plain, DIV)
        # A divisor of run time: numbers that are not negative are rounded the same way in both directions.
        return self.helped(e, {"FloorDiv": "TruncDiv", "FloorMod": "TruncMod"}.get(helper, helper) if nonnegative else helper)

    def helped(self, e, helper: str):
        dtype = dtype_of(e)
        if dtype == "float32" or dtype in _SMALL_FLOATS:
            self.helpers.add("Float" + helper)
            a, b = (self.widened(x, dtype) for x in (e.a, e.b))
            return cast_text(f"Float{helper}({a}, {b})", "float32", dtype), ATOM
        self.helpers.add(helper)
        return f"{helper}<{CTYPES[dtype_of(e)]}>({self(e.a)}, {self(e.b)})", ATOM

    def print_Not(self, e):
        return f"!{operand_text(self.text(e.a), UNARY, False)}", UNARY

    def print_BitwiseNot(self, e):
        dtype = dtype_of(e)
        if dtype == "int32" and isinstance(e.a, tirx.Cast) and dtype_of(e.a.value) in ("uint8", "uint16"):
            # GCC warns of comparisons with `~` of what was unsigned.
            return f"-1 - {operand_text(self.text(e.a), ADD, True)}", ADD
        text = f"~{operand_text(self.typed(e.a), UNARY, False)}"
        return (f"static_cast<{CTYPES[dtype]}>({text})", ATOM) if dtype in _NARROW else (text, UNARY)

    def print_Cast(self, e):
        if dtype_of(e) == dtype_of(e.value):
            return self.text(e.value)
        source, target = dtype_of(e.value), dtype_of(e)
        if (source == "float32" or source in _SMALL_FLOATS) and "int" in target:
            self.helpers.add("ToInteger")
            value, wide = cast_text(self(e.value), source, "float32"), "int32" if target == "uint16" else target
            return cast_text(f"ToInteger<{CTYPES[wide]}>({value})", wide, target), ATOM
        # A comparison with 0 stands where C++ would take it into an operand of a weaker operator.
        text = operand_text(self.text(e.value), EQUALITY, False) if target == "bool" else self(e.value)
        return cast_text(text, source, target), ATOM

    def print_Select(self, e):
        return self.choose(e.condition, e.true_value, e.false_value)

    def choose(self, condition, yes, no):
        sides = [self.text(yes) if _is_literal(yes) and not _is_literal(no) else self.typed(yes), self.text(no)]
        parts = [operand_text(x, TERNARY + 1, True) for x in (self.text(condition), *sides)]
        text = f"({parts[0]} ? {parts[1]} : {parts[2]})"
        dtype = dtype_of(yes)
        return (f"static_cast<{CTYPES[dtype]}>{text}" if dtype in _NARROW else text), ATOM

    # ---- calls

    def print_Call(self, e: Call):
        name = op_name(e)
        if name.startswith("ascend."):
            return self.machine_call(e), ATOM
        assert name in _CALLS, f"{name} has no scalar form in Ascend C"
        return _CALLS[name](self, e)

    def reinterpret(self, e: Call):
        self.helpers.add("BitCast")
        return f"BitCast<{CTYPES[dtype_of(e)]}>({self.typed(e.args[0])[0]})", ATOM

    def power(self, e: Call):
        """Of integers: those of floats are no scalar work."""
        self.helpers.add("Power")
        return f"Power<{CTYPES[dtype_of(e)]}>({self(e.args[0])}, {self(e.args[1])})", ATOM


_CALLS = {
    "prim.if_then_else": lambda self, e: self.choose(*e.args),
    "prim.likely": lambda self, e: self.text(e.args[0]),
    "tirx.reinterpret": ScalarText.reinterpret,
    "tirx.pow": ScalarText.power,
}


def operand_text(part: tuple[str, int], outer: int, right: bool) -> str:
    """`part` as an operand of an operator of precedence `outer`, in parentheses where C++ or a reader needs them."""
    text, inner = part
    if inner >= UNARY:
        return text
    arithmetic = inner in _ARITHMETIC and outer in _ARITHMETIC
    if arithmetic:
        # C++ evaluates * and / from left to right: `a / (b * c)` is no `a / b * c`.
        plain = inner > outer and not (right and outer == DIV and inner == MUL) or (inner == outer and not right and inner != DIV)
    else:
        plain = (inner in _ARITHMETIC and outer in _RELATIONS) or (inner in _RELATIONS and outer in (AND, OR))
        plain = plain or (inner == outer and outer in (AND, OR))
    return text if plain else f"({text})"
