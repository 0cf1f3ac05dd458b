"""Element-wise vector instructions."""

from __future__ import annotations

from typing import Callable

import numpy as np

from .memory import Execution, np_dtype
from .number import convert, is_float, scalar_of, to_float, widen


def _float_max(a, b):
    """NaN wins; max(+0, -0) = +0."""
    larger = np.where((a > b) | ((a == b) & ~np.signbit(a)), a, b)
    return np.where(np.isnan(a) | np.isnan(b), np.nan, larger)


def _float_min(a, b):
    """NaN wins; min(+0, -0) = -0."""
    smaller = np.where((a < b) | ((a == b) & np.signbit(a)), a, b)
    return np.where(np.isnan(a) | np.isnan(b), np.nan, smaller)


def _truncated_quotient(a, b):
    """Towards zero; -1 for a divisor of 0, as the machine model has it."""
    by = np.where(b == 0, np.ones_like(b), b)
    quotient = a // by  # the lowest number by -1 wraps
    rest = a - quotient * by
    return np.where(b == 0, -np.ones_like(a), quotient + ((rest != 0) & ((rest < 0) != (a < 0))))


def _rsqrt(a):
    """rsqrt(+0) = inf and rsqrt(-0) = -inf."""
    return np.where(a == 0, np.copysign(np.inf, a), 1.0 / np.sqrt(a))


# name -> (on float64, on integers of the dtype). Results are rounded once to the operand's dtype.
BINARY: dict[str, tuple[Callable | None, Callable | None]] = {
    "add": (np.add, np.add),
    "sub": (np.subtract, np.subtract),
    "mul": (np.multiply, np.multiply),
    "div": (np.divide, _truncated_quotient),
    "max": (_float_max, np.maximum),
    "min": (_float_min, np.minimum),
    "and": (None, np.bitwise_and),
    "or": (None, np.bitwise_or),
}
UNARY: dict[str, tuple[Callable | None, Callable | None]] = {
    "exp": (np.exp, None),
    "ln": (np.log, None),
    "abs": (np.abs, np.abs),
    "sqrt": (np.sqrt, None),
    "rsqrt": (_rsqrt, None),
    "reciprocal": (lambda a: 1.0 / a, None),
    "relu": (lambda a: np.where(np.isnan(a), a, np.where(a > 0, a, 0.0)), lambda a: np.maximum(a, 0)),
    "not": (None, np.bitwise_not),
}


def _leaky_relu(a, slope):
    """The sign bit decides: +0 stays, -0 is multiplied."""
    return np.where(np.signbit(a), a * slope, a)


def _shift_left(a, amount):
    return np.left_shift(a, amount) if int(amount) < 8 * a.dtype.itemsize else np.zeros_like(a)


def _shift_right(a, amount):
    return np.right_shift(a, min(int(amount), 8 * a.dtype.itemsize - 1)) if a.dtype.kind == "i" else _logical_right(a, amount)


def _logical_right(a, amount):
    return np.right_shift(a, amount) if int(amount) < 8 * a.dtype.itemsize else np.zeros_like(a)


SCALAR: dict[str, tuple[Callable | None, Callable | None]] = {
    "adds": BINARY["add"],
    "muls": BINARY["mul"],
    "maxs": BINARY["max"],
    "mins": BINARY["min"],
    "leaky_relu": (_leaky_relu, None),
    "shift_left": (None, _shift_left),
    "shift_right": (None, _shift_right),
}


def apply(functions: tuple[Callable | None, Callable | None], dtype: str, *values):
    """Evaluate on float64 with one final rounding, or on wrapping integers."""
    on_float, on_int = functions
    with np.errstate(all="ignore"):
        if is_float(dtype):
            assert on_float is not None
            return to_float(on_float(*(widen(np.asarray(v)) if np.ndim(v) else v for v in values)), dtype)
        assert on_int is not None
        return on_int(*values).astype(np_dtype(dtype))


def binary(name: str) -> Callable[[Execution], None]:
    def run(x: Execution) -> None:
        d, s0, s1 = x.operands
        for to, a, b in x.lanes():
            d.write(to, apply(BINARY[name], d.dtype, s0.read(a), s1.read(b)))

    return run


def unary(name: str) -> Callable[[Execution], None]:
    def run(x: Execution) -> None:
        d, s = x.operands
        for to, a in x.lanes():
            d.write(to, apply(UNARY[name], d.dtype, s.read(a)))

    return run


def with_scalar(name: str) -> Callable[[Execution], None]:
    def run(x: Execution) -> None:
        d, s = x.operands
        scalar = scalar_of(x.a["scalar"], d.dtype)
        for to, a in x.lanes():
            d.write(to, apply(SCALAR[name], d.dtype, s.read(a), scalar))

    return run


def _multiply_add(dtype: str, a, b, c):
    """a * b + c. The product is rounded to the dtype before the sum: MAX * MAX + -inf is NaN, not -inf."""
    with np.errstate(all="ignore"):
        product = to_float(widen(a) * widen(b), dtype)
        return to_float(widen(product) + widen(c), dtype)


def axpy(x: Execution) -> None:
    d, s = x.operands
    for to, a in x.lanes():
        values = s.read(a)
        factor = np.full(values.shape, x.a["scalar"], dtype=np.float64)
        d.write(to, _multiply_add(d.dtype, values, factor, d.read(to)))


def mul_add_dst(x: Execution) -> None:
    d, s0, s1 = x.operands
    for to, a, b in x.lanes():
        d.write(to, _multiply_add(d.dtype, s0.read(a), s1.read(b), d.read(to)))


def fused_mul_add(x: Execution) -> None:
    d, s0, s1 = x.operands
    for to, a, b in x.lanes():
        d.write(to, _multiply_add(d.dtype, s0.read(a), d.read(to), s1.read(b)))


def cast(x: Execution) -> None:
    d, s = x.operands
    for to, a in x.lanes():
        with np.errstate(all="ignore"):
            d.write(to, convert(s.read(a), s.dtype, d.dtype, x.attrs["round"]))


def duplicate(x: Execution) -> None:
    (d,) = x.operands
    value = scalar_of(x.a["scalar"], d.dtype)
    for (to,) in x.lanes():
        d.write(to, constant(value, d.dtype, len(to)))


def constant(value, dtype: str, count: int) -> np.ndarray:
    """`count` copies of a scalar argument."""
    if is_float(dtype):
        with np.errstate(over="ignore"):
            return to_float(np.full(count, value, dtype=np.float64), dtype)
    return np.full(count, value, dtype=np_dtype(dtype))


def copy(x: Execution) -> None:
    d, s = x.operands
    for to, a in x.lanes():
        d.write(to, s.read(a))


def create_vec_index(x: Execution) -> None:
    """Each value is first + i computed in the dtype's compute type and rounded once."""
    (d,) = x.operands
    first = scalar_of(x.a["first_value"], d.dtype)
    index = np.arange(x.a["count"])
    if is_float(d.dtype):
        d.write_n(to_float(first + index, d.dtype))
    else:
        d.write_n((int(first) + index).astype(np_dtype(d.dtype)))


ELEMENTWISE: dict[str, Callable[[Execution], None]] = {
    **{name: binary(name) for name in BINARY},
    **{name: unary(name) for name in UNARY},
    **{name: with_scalar(name) for name in SCALAR},
    "axpy": axpy,
    "mul_add_dst": mul_add_dst,
    "fused_mul_add": fused_mul_add,
    "cast": cast,
    "duplicate": duplicate,
    "copy": copy,
    "create_vec_index": create_vec_index,
}
