"""The table of operations and conversions on every dtype: what a kernel says, and what NumPy says it means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

import ml_dtypes
import numpy as np

import tilelang_ascend.language as T

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32")
INTEGERS = (*SIGNED, *UNSIGNED)
FLOATS = ("float16", "bfloat16", "float32")
FP8 = ("float8_e4m3fn", "float8_e5m2")
ALL = (*INTEGERS, *FLOATS, *FP8, "bool")


def numpy_dtype(name: str) -> np.dtype:
    """The NumPy dtype called `name`."""
    return np.dtype(getattr(ml_dtypes, name) if name in ("bfloat16", *FP8) else name)


def bits_of(name: str) -> int:
    return 8 * numpy_dtype(name).itemsize


def _wide(x):
    """Integers as arithmetic has them: narrow ones are int32 (docs/numbers.md)."""
    return x.astype(np.int32) if x.dtype.itemsize < 4 else x


@dataclass(frozen=True)
class Case:
    """One operation on x, y and a shift amount a. `predicate`: the result is a bool."""

    name: str
    dtypes: tuple[str, ...]
    kernel: Callable
    reference: Callable
    predicate: bool = False


def _in(wide, dtype):
    """Float results rounded once to the dtype."""
    return np.asarray(wide).astype(dtype)


def _float(function):
    """A NumPy function computed in float32 and rounded to the dtype of its first operand."""

    def apply(x, *rest):
        return _in(function(*(v.astype(np.float32) for v in (x, *rest))), x.dtype)

    return apply


def _truncdiv(x, y):
    wide = [v.astype(object) for v in (x, y)]
    return np.array([abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) for a, b in zip(*wide)], object)


def _wrapped(values, dtype):
    bits = bits_of(dtype.name)
    return np.array([int(v) % (1 << bits) for v in values], np.uint64).astype(dtype)


def _shift(direction):
    """Shifts as of unbounded integers, cut to the width: amounts of the width or more give 0, or the sign."""

    def apply(x, a):
        move = (lambda v, n: v << n) if direction == "left" else (lambda v, n: v >> n)
        return _wrapped([move(int(v), int(n)) for v, n in zip(x, np.broadcast_to(a, x.shape))], x.dtype)

    return apply


CASES = (
    # arithmetic
    Case("add", ALL[:-1], lambda x, y, a: x + y, lambda x, y, a: x + y),
    Case("sub", ALL[:-1], lambda x, y, a: x - y, lambda x, y, a: x - y),
    Case("mul", ALL[:-1], lambda x, y, a: x * y, lambda x, y, a: x * y),
    Case("neg", (*SIGNED, *FLOATS), lambda x, y, a: -x, lambda x, y, a: -x),
    Case("abs", (*SIGNED, *FLOATS), lambda x, y, a: T.abs(x), lambda x, y, a: np.abs(x)),
    Case("min", ALL[:-1], lambda x, y, a: T.min(x, y), lambda x, y, a: np.minimum(x, y)),
    Case("max", ALL[:-1], lambda x, y, a: T.max(x, y), lambda x, y, a: np.maximum(x, y)),
    Case("div", FLOATS, lambda x, y, a: x / y, lambda x, y, a: _float(np.divide)(x, y)),
    Case("floordiv", INTEGERS, lambda x, y, a: T.floordiv(x, y), lambda x, y, a: x // y),
    Case("floormod", INTEGERS, lambda x, y, a: T.floormod(x, y), lambda x, y, a: x % y),
    Case("truncdiv", INTEGERS, lambda x, y, a: T.truncdiv(x, y), lambda x, y, a: _wrapped(_truncdiv(x, y), x.dtype)),
    Case("truncmod", INTEGERS, lambda x, y, a: T.truncmod(x, y), lambda x, y, a: np.fmod(x, y)),
    Case("float //", FLOATS, lambda x, y, a: x // y, lambda x, y, a: _float(lambda x, y: np.floor(x / y))(x, y)),
    Case("float %", FLOATS, lambda x, y, a: x % y, lambda x, y, a: _float(lambda x, y: x - np.floor(x / y) * y)(x, y)),
    Case("fmod", FLOATS, lambda x, y, a: T.fmod(x, y), lambda x, y, a: _float(np.fmod)(x, y)),
    Case("// 2.0", FLOATS, lambda x, y, a: x // 2.0, lambda x, y, a: _float(lambda x: np.floor(x / 2))(x)),
    # with constants
    Case("plus 5", INTEGERS, lambda x, y, a: x + 5, lambda x, y, a: x + 5),
    Case("times 3", INTEGERS, lambda x, y, a: x * 3, lambda x, y, a: x * 3),
    Case("100 minus", INTEGERS, lambda x, y, a: 100 - x, lambda x, y, a: 100 - x),
    Case("// 7", INTEGERS, lambda x, y, a: x // 7, lambda x, y, a: x // 7),
    Case("% 7", INTEGERS, lambda x, y, a: x % 7, lambda x, y, a: x % 7),
    Case("// 8", INTEGERS, lambda x, y, a: x // 8, lambda x, y, a: x // 8),
    Case("% 8", INTEGERS, lambda x, y, a: x % 8, lambda x, y, a: x % 8),
    Case("// -3", SIGNED, lambda x, y, a: x // -3, lambda x, y, a: x // -3),
    Case("% -3", SIGNED, lambda x, y, a: x % -3, lambda x, y, a: x % -3),
    Case("max 9", INTEGERS, lambda x, y, a: T.max(x, 9), lambda x, y, a: np.maximum(x, 9)),
    Case("square", INTEGERS, lambda x, y, a: T.pow(x, 2), lambda x, y, a: x * x),
    Case("fifth power", INTEGERS, lambda x, y, a: x**5, lambda x, y, a: x * x * x * x * x),
    # bits
    Case("and", (*INTEGERS, "bool"), lambda x, y, a: x & y, lambda x, y, a: x & y),
    Case("or", (*INTEGERS, "bool"), lambda x, y, a: x | y, lambda x, y, a: x | y),
    Case("xor", (*INTEGERS, "bool"), lambda x, y, a: x ^ y, lambda x, y, a: x ^ y),
    Case("not", (*INTEGERS, "bool"), lambda x, y, a: ~x, lambda x, y, a: ~x),
    # results that other operations go on with: nothing is left above the bits of the dtype
    Case("not >> 1", INTEGERS, lambda x, y, a: (~x) >> 1, lambda x, y, a: _shift("right")(~_wide(x), 1)),
    Case("not, max", INTEGERS, lambda x, y, a: T.max(~x, y), lambda x, y, a: np.maximum(~_wide(x), _wide(y))),
    Case("xor // 3", INTEGERS, lambda x, y, a: (x ^ ~y) // 3, lambda x, y, a: (_wide(x) ^ ~_wide(y)) // 3),
    Case("* as uint8", ("int8",), lambda x, y, a: T.cast(x * y, "uint8") // 3, lambda x, y, a: (x * y).astype(np.uint8) // 3),
    Case("- >> 1", INTEGERS, lambda x, y, a: (x - y) >> 1, lambda x, y, a: _shift("right")(_wide(x) - _wide(y), 1)),
    Case("and 12", INTEGERS, lambda x, y, a: x & 12, lambda x, y, a: x & 12),
    Case("<< lanes", INTEGERS, lambda x, y, a: x << a, lambda x, y, a: _shift("left")(x, a)),
    Case(">> lanes", INTEGERS, lambda x, y, a: x >> a, lambda x, y, a: _shift("right")(x, a)),
    Case("<< 3", INTEGERS, lambda x, y, a: x << 3, lambda x, y, a: _shift("left")(x, 3)),
    Case(">> 3", INTEGERS, lambda x, y, a: x >> 3, lambda x, y, a: _shift("right")(x, 3)),
    # choices
    Case("select", ALL, lambda x, y, a: T.if_then_else(x != y, x, y), lambda x, y, a: np.where(x != y, x, y)),
    # predicates
    Case("lt", ALL, lambda x, y, a: x < y, lambda x, y, a: x < y, True),
    Case("le", ALL, lambda x, y, a: x <= y, lambda x, y, a: x <= y, True),
    Case("gt", ALL, lambda x, y, a: x > y, lambda x, y, a: x > y, True),
    Case("ge", ALL, lambda x, y, a: x >= y, lambda x, y, a: x >= y, True),
    Case("eq", ALL, lambda x, y, a: x == y, lambda x, y, a: x == y, True),
    Case("ne", ALL, lambda x, y, a: x != y, lambda x, y, a: x != y, True),
    Case("gt 5", ALL[:-1], lambda x, y, a: x > 5, lambda x, y, a: x > _in(5, x.dtype), True),
)


def values(dtype: str, n: int, seed: int) -> np.ndarray:
    """Edge values first, then ordinary ones; floats stay where the results of one operation are finite."""
    rng = np.random.default_rng([seed, n])
    kind = numpy_dtype(dtype)
    if dtype == "bool":
        return rng.integers(0, 2, n).astype(bool)
    if dtype in INTEGERS:
        info = np.iinfo(kind)
        edges = [info.min, info.max, 0, 1, info.max - 1, info.max // 2 + 1, info.min + 1, 5, 8]
        wide = rng.integers(info.min, info.max, n, dtype=kind, endpoint=True)
        small = rng.integers(max(info.min, -100), 100, n).astype(kind)
        out = np.where(rng.random(n) < 0.6, wide, small)
        at = rng.permutation(n)[: len(edges)]
        out[at] = np.array(edges).astype(kind) if info.max < 2**63 else np.array(edges, kind)
        return out
    out = rng.uniform(-12, 12, n).astype(np.float32).astype(kind)
    out[rng.permutation(n)[:4]] = np.array([0.0, -1.0, 5.0, 0.5]).astype(kind)
    return out
