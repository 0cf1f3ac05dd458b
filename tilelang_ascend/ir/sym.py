"""What TVM's analyzer may be told and asked: it takes floats for real numbers, and integers for numbers without end.

There `x != x` is false, `not x < y` is `y <= x`, and `int8(i)` is not negative where i is not. Here comparisons and arithmetic of floats,
and integers that may wrap, are unknown numbers to it: the same one wherever the same expression stands. int32 and int64 arithmetic is
indices, which do not wrap (`wrap_products` sees to what does), except for bits that are shifted out.
"""

from __future__ import annotations

import math

import tvm_ffi
from tvm import sym as _sym

from .base import FloatImm, IntImm, Range, Var, tirx
from .build import dtype_of, itemsize
from .visit import LONGEST_INDEX, expr_children, map_children, nodes_in, substitute_expr

ProofStrength = _sym.ProofStrength

COMPARISONS = (tirx.EQ, tirx.NE, tirx.LT, tirx.LE, tirx.GT, tirx.GE)
_ORDERS = (tirx.LT, tirx.LE, tirx.GT, tirx.GE)
"""Those TVM adds 1 to a side of, which no bool holds."""
_GROWING = (tirx.Add, tirx.Sub, tirx.Mul)
_LEAVES = (int, Var, IntImm, FloatImm)
_INFINITE = (1 << 63) - 1
"""TVM's bound of what has none."""


class Analyzer:
    """TVM's `Analyzer`, which believes nothing of floats and of integers that wrap. Its methods are those of TVM. data: the names of what
    is no index (`analysis/index/data_names.py`): sums and products of int32 and int64 wrap, too, where they are made of data."""

    def __init__(self, data=None):
        self._analyzer, self.data = _sym.Analyzer(), data
        self._names: dict = {}
        self._meanings: dict = {}
        self._sizes: dict = {}
        """Name -> nodes of what it is, written out."""

    def bind(self, var: Var, value, allow_override: bool = False) -> None:
        """`var` is `value`, or lies in the range `value`."""
        if isinstance(value, Range):
            known = Range.from_min_extent(self._told(value.min), self._told(value.extent))
        else:
            known = self._told(value)
            size = nodes_in(known, self._sizes)
            if size > LONGEST_INDEX and var not in self._sizes:
                # TVM writes names out wherever they stand, and goes on to with what it has written out before.
                self._analyzer.update(var, self._analyzer.const_int_bound(known), allow_override)
                return
            self._sizes[var] = size
        self._analyzer.bind(var, known, allow_override)

    def between(self, var: Var, low: int, high: int) -> None:
        """`var` is a number from `low` to `high`. Unlike a range, which has an extent, that can be said of any numbers of its dtype."""
        self._analyzer.update(var, _sym.ConstIntBound(low, high))

    def constraint_scope(self, condition):
        """A context in which `condition` holds."""
        return self._analyzer.constraint_scope(self._told(condition))

    def can_prove(self, condition, strength=ProofStrength.DEFAULT) -> bool:
        """True if `condition` surely holds."""
        return bool(self._analyzer.can_prove(self._told(condition), strength))

    def can_prove_equal(self, a, b) -> bool:
        """True if two integers surely are equal."""
        return bool(self._analyzer.can_prove_equal(self._told(a), self._told(b)))

    def const_int_bound(self, e):
        """Numbers between which `e` lies."""
        return self._analyzer.const_int_bound(self._told(e))

    def simplify(self, e):
        """`e`, shorter."""
        out = self._analyzer.simplify(self._told(e))
        return substitute_expr(out, self._meanings) if self._meanings else out

    def set_z3_rlimit(self, steps: int) -> None:
        """Work after which the solver gives up."""
        self._analyzer.set_z3_rlimit(steps)

    def _told(self, e):
        """`e` with unknown numbers for what TVM would be wrong about."""
        if isinstance(e, _LEAVES):
            return e
        if isinstance(e, COMPARISONS) and (_is_float(dtype_of(e.a)) or isinstance(e, _ORDERS) and dtype_of(e.a) == "bool"):
            return self.unknown(e)
        if isinstance(e, COMPARISONS) and _constants_overflow(e):
            return self.unknown(e)
        dtype = dtype_of(e)
        if _is_float(dtype):
            return self.unknown(e)
        out = map_children(e, self._told)
        if isinstance(e, COMPARISONS) and dtype_of(e.a).startswith("uint"):
            # TVM subtracts one side from the other, and fails where the difference of unsigned constants is negative.
            fit = all(self._fits(x, "int64") for x in (out.a, out.b))
            return type(e)(tirx.Cast("int64", out.a), tirx.Cast("int64", out.b)) if fit else self._beside_zero(e)
        if isinstance(e, tirx.Cast):
            return out if _is_float(dtype_of(e.value)) or self._fits(out.value, dtype) else self.unknown(e)
        if isinstance(e, tirx.LShift):
            return out if self._shift_fits(out, dtype) else self.unknown(e)
        if not isinstance(e, _GROWING):
            return out
        fits = self._fits(out, dtype) if _wraps(dtype) else self.data is None or self._bounded(out) or not self.data.is_data(e)
        return out if fits else self.unknown(e)

    def holds(self, e) -> bool:
        """True if a signed integer, taken for a number without end, surely is one of its dtype."""
        return self._bounded(map_children(e, self._told))

    def _bounded(self, e) -> bool:
        bound, largest = self._analyzer.const_int_bound(e), _ends(dtype_of(e))[1]
        return -largest <= int(bound.min_value) and int(bound.max_value) < largest  # The largest int64 stands for no bound.

    def name_data(self, name) -> None:
        """A variable holds an element of memory."""
        if self.data is not None:
            self.data.names.add(name)

    def _fits(self, e, dtype: str) -> bool:
        """True if the integer `e`, taken for a number without end, surely is one `dtype` holds."""
        low, high = _ends(dtype)
        if isinstance(e, IntImm):
            return low <= int(e.value) <= high  # TVM's bounds end at int64.
        of = _ends(dtype_of(e))
        if not isinstance(e, _GROWING) and low <= of[0] and of[1] <= high:
            return True
        bound = self._analyzer.const_int_bound(e)
        if dtype_of(e) == "uint64" and int(bound.max_value) >= _INFINITE:
            return False  # Half of the numbers it holds lie beyond what TVM counts.
        return low <= int(bound.min_value) and int(bound.max_value) <= high

    def _shift_fits(self, e, dtype: str) -> bool:
        """True if `e`, a shift to the left, surely loses no bit: bits that leave an int32 are gone, whatever it counts."""
        low, high = _ends(dtype)
        value, amount = self._analyzer.const_int_bound(e.a), self._analyzer.const_int_bound(e.b)
        most = int(amount.max_value)
        if int(amount.min_value) < 0 or most >= 8 * itemsize(dtype):
            return False
        return low <= int(value.min_value) << most and int(value.max_value) << most <= high

    def _beside_zero(self, e):
        """An unknown comparison of unsigned numbers, unless it asks whether one of them is negative."""
        zero = e.a if isinstance(e, (tirx.LE, tirx.GT)) else e.b
        if not isinstance(e, _ORDERS) or not isinstance(zero, IntImm) or int(zero.value) != 0:
            return self.unknown(e)
        return IntImm("bool", int(isinstance(e, (tirx.LE, tirx.GE))))

    def unknown(self, e) -> Var:
        """A number of which nothing is known in place of `e`: the same one wherever that stands, and `e` again in what is simplified."""
        key = tvm_ffi.StructuralKey(e)
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = Var("unknown", dtype_of(e))
            self._meanings[name] = e
        return name


def _constants_overflow(e) -> bool:
    """True if a constant of a comparison may leave its dtype on the way to the other side, where TVM brings it: of every variable it would be sure that it
    is neither the least int32 nor another number, and that `-1 - x` is the largest one."""
    dtype = dtype_of(e.a)
    if _wraps(dtype) or dtype == "bool":
        return False
    (a, by_a), (b, by_b) = map(_constants, (e.a, e.b))
    return a * by_b + b * by_a + max(by_a, by_b) - 1 > _ends(dtype)[1]


def constants_fit(e) -> bool:
    """True if an int32 or int64 surely holds the constants of a sum together: where it does not, `simplify` fails."""
    return _constants(e)[0] <= _ends(dtype_of(e))[1]


def _constants(e) -> tuple[int, int]:
    """(how large the constants of an integer expression may become together, what those of the other side are multiplied by)."""
    if isinstance(e, IntImm):
        return abs(int(e.value)), 1
    if isinstance(e, _LEAVES):
        return 0, 1
    parts = [_constants(x) for x in expr_children(e)]
    by = max((n for _, n in parts), default=1)
    if isinstance(e, tirx.Mul):
        return math.prod(max(n, 1) for n, _ in parts), by
    if isinstance(e, (tirx.FloorDiv, tirx.Div)) and isinstance(e.b, IntImm):
        divisor = max(abs(int(e.b.value)), 1)
        return parts[0][0] // divisor + 1, by * divisor
    return sum(n for n, _ in parts), by


def _is_float(dtype: str) -> bool:
    return "float" in dtype


def _wraps(dtype: str) -> bool:
    return dtype.startswith("uint") or dtype.startswith("int") and itemsize(dtype) < 4


def _ends(dtype: str) -> tuple[int, int]:
    """Smallest and largest integer of a dtype; of int64 what TVM calls infinite counts."""
    if dtype == "bool":
        return 0, 1
    bits = 8 * itemsize(dtype)
    return (0, (1 << bits) - 1) if dtype.startswith("uint") else (-(1 << bits - 1), (1 << bits - 1) - 1)


__all__ = ["COMPARISONS", "Analyzer", "ProofStrength", "constants_fit"]
