"""float32 arithmetic with a direction of rounding: what `T.ieee_add(x, y, "rd")` and its relatives are made of.

The hardware rounds to nearest. Every function takes that result, finds out on which side of it the exact one lies, and moves one step where it
is the wrong side. The side comes from the error of the operation, which float32 holds exactly: of a sum by two differences, of a product by
products of halves of the mantissas, of a quotient or a root by multiplying back. Operands are scaled by powers of two first wherever a
part could leave the range. An infinite result of finite operands lies above the exact one; steps in bits give the largest number.

Quotients and roots need `Div` and `Sqrt` to err by less than 1 ulp; sums and products to be rounded to nearest.
"""

from __future__ import annotations

from ....ir.build import DIRECTIONS
from ..graph.convert import compare_exact
from ..graph.graph import Node
from ..graph.words import bit_and, bit_or

_SIGN, _EXPONENT, _MANTISSA, _ONE = -(2**31), 0x7F800000, 0x7FFFFF, 0x3F800000
_UPPER_HALF = ~0xFFF
"""Of the 24 bits of a mantissa: products of halves have no more."""

_STICKY = -80
"""Power of two that is less than every bit of a product whose factors are in [1, 2): what is smaller only says on which side a sum lies."""

_INFINITY = float("inf")


class _Mask:
    """A condition on every lane."""

    def __init__(self, o, node: Node):
        self.o, self.node = o, node

    def __and__(self, other: _Mask) -> _Mask:
        return _Mask(self.o, self.o.g.mask_binary("and", self.node, other.node))

    def __or__(self, other: _Mask) -> _Mask:
        return _Mask(self.o, self.o.g.mask_binary("or", self.node, other.node))

    def __invert__(self) -> _Mask:
        return _Mask(self.o, self.o.g.mask_not(self.node))

    def differs(self, other: _Mask) -> _Mask:
        return (self & ~other) | (~self & other)

    def choose(self, a, b) -> _Lanes:
        """a where the condition holds, else b."""
        like = a if isinstance(a, _Lanes) else b
        return like.of(self.o.select(self.node, like.node_of(a), like.node_of(b)))


class _Lanes:
    """float32 or int32 numbers on the lanes of a tile, each operation one instruction: nothing is merged, regrouped or folded."""

    def __init__(self, o, node: Node):
        self.o, self.node = o, o.g.tile(node)

    def of(self, node: Node) -> _Lanes:
        return _Lanes(self.o, node)

    def node_of(self, x) -> Node:
        return x.node if isinstance(x, _Lanes) else self.o.g.tile(self.o.g.const(x, self.node.dtype))

    def _binary(self, name: str, other) -> _Lanes:
        return self.of(self.o.g.node(name, self.node.dtype, (self.node, self.node_of(other))))

    def __add__(self, other) -> _Lanes:
        return self._binary("add", other)

    def __sub__(self, other) -> _Lanes:
        return self._binary("sub", other)

    def __mul__(self, other) -> _Lanes:
        return self._binary("mul", other)

    def __truediv__(self, other) -> _Lanes:
        return self._binary("div", other)

    def __neg__(self) -> _Lanes:
        return self._binary("mul", -1.0)

    def __abs__(self) -> _Lanes:
        return self.of(self.o.g.unary("abs", self.node))

    def __and__(self, bits: int) -> _Lanes:
        return self.of(bit_and(self.o.g, self.node, self.node_of(bits)))

    def __or__(self, other) -> _Lanes:
        return self.of(bit_or(self.o.g, self.node, self.node_of(other)))

    def __lt__(self, other) -> _Mask:
        return self._compare("lt", other)

    def __gt__(self, other) -> _Mask:
        return self._compare("gt", other)

    def __ge__(self, other) -> _Mask:
        return self._compare("ge", other)

    def equals(self, other) -> _Mask:
        return self._compare("eq", other)

    def _compare(self, mode: str, other) -> _Mask:
        return _Mask(self.o, compare_exact(self.o.g, mode, self.node, self.node_of(other)))

    def at_least(self, other) -> _Lanes:
        return self._binary("max", other)

    def at_most(self, other) -> _Lanes:
        return self._binary("min", other)

    def root(self) -> _Lanes:
        return self.of(self.o.g.unary("sqrt", self.node))

    def shifted(self, name: str, by: int) -> _Lanes:
        return self.of(self.o.g.with_scalar(name, self.node, self.o.g.const(by, self.node.dtype)))

    @property
    def bits(self) -> _Lanes:
        return self.of(self.o.g.reinterpret(self.node, "int32"))

    @property
    def value(self) -> _Lanes:
        return self.of(self.o.g.reinterpret(self.node, "float32"))


def _power(k: _Lanes) -> _Lanes:
    """2**k, for -126 <= k <= 127."""
    return (k + 127).shifted("shift_left", 23).value


def _moved(r: _Lanes, mode: str, below: _Mask, above: _Mask) -> _Lanes:
    """The rounded number `r` or its neighbour; `below` and `above` say where the exact one lies."""
    if mode == "rn":
        return r
    bits = r.bits
    if mode == "rz":
        return ((r > 0.0) & below | (r < 0.0) & above).choose((bits - 1).value, r)
    down = mode == "rd"
    inner, outer = (bits - 1, bits + 1) if down else (bits + 1, bits - 1)
    step = (r > 0.0).choose(inner, (r < 0.0).choose(outer, _SIGN + 1 if down else 1))
    return (below if down else above).choose(step.value, r)


def _error_of_product(x: _Lanes, y: _Lanes, p: _Lanes) -> _Lanes:
    """x * y - p, exact, for p = x * y rounded and no part that leaves the range."""
    xh, yh = ((v.bits & _UPPER_HALF).value for v in (x, y))
    xl, yl = x - xh, y - yh
    return (((xh * yh - p) + xh * yl) + xl * yh) + xl * yl


def _two_sum(a: _Lanes, b: _Lanes) -> tuple[_Lanes, _Lanes]:
    """a + b rounded, and what is missing, for numbers far from the ends of the range."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _by_size(a: _Lanes, b: _Lanes) -> tuple[_Lanes, _Lanes]:
    first = abs(a) >= abs(b)
    return first.choose(a, b), first.choose(b, a)


def add(a: _Lanes, b: _Lanes, mode: str) -> _Lanes:
    """a + b. In direction "rd" an exact zero is -0, unless both are +0."""
    s = a + b
    large, small = _by_size(a, b)
    # With the larger one first nothing overflows but the sum itself; its error is then infinite, too.
    error = small - (s - large)
    out = _moved(s, mode, error < 0.0, error > 0.0)
    return out if mode != "rd" else s.equals(0.0).choose(((a.bits | b.bits) & _SIGN).value, out)


def sub(a: _Lanes, b: _Lanes, mode: str) -> _Lanes:
    """a - b."""
    return add(a, -b, mode)


def mul(a: _Lanes, b: _Lanes, mode: str) -> _Lanes:
    """a * b."""
    r = a * b
    large, small = _by_size(a, b)
    factor = (abs(r) < 2.0**-60).choose(large.of(large.node_of(2.0**120)), 1.0)
    scaled = small * factor
    p = scaled * large
    # Nothing is missing from p + error; r is p in another scale, or what is left of it below the smallest normal number.
    error, difference = _error_of_product(scaled, large, p), p - r * factor
    negative = (a < 0.0).differs(b < 0.0)
    lost, finite = r.equals(0.0) & (abs(small) > 0.0), abs(large) < _INFINITY
    below = (difference < -error) | (r.equals(_INFINITY) & finite) | (lost & negative)
    above = (difference > -error) | (r.equals(-_INFINITY) & finite) | (lost & ~negative)
    return _moved(r, mode, below, above)


def _parts(x: _Lanes) -> tuple[_Lanes, _Lanes]:
    """(mantissa with the sign, in [1, 2); exponent) of a number that is neither 0 nor infinite."""
    small = abs(x) < 2.0**-126
    bits = small.choose(x * 2.0**64, x).bits
    exponent = (bits & _EXPONENT).shifted("shift_right", 23) - small.choose(bits.of(bits.node_of(127 + 64)), 127)
    return (bits & (_MANTISSA | _SIGN) | _ONE).value, exponent


def _within(k: _Lanes, low: int, high: int) -> _Lanes:
    return k.at_most(high).at_least(low)


def div(a: _Lanes, b: _Lanes, mode: str) -> _Lanes:
    """a / b."""
    q = a / b
    (x, ea), (y, eb) = _parts(abs(a)), _parts(abs(b))
    k = eb - ea
    first = _within(k, -126, 127)
    size = abs(q) * _power(first) * _power(_within(k - first, -126, 127))
    p = size * y
    error, difference = _error_of_product(size, y, p), x - p
    numbers = (abs(a) < _INFINITY) & (abs(b) < _INFINITY) & (abs(a) > 0.0) & (abs(b) > 0.0)
    less = numbers & ((difference < error) | abs(q).equals(_INFINITY))
    more = numbers & (difference > error)
    negative = (a < 0.0).differs(b < 0.0)
    below, above = (~negative & one | negative & other for one, other in ((less, more), (more, less)))
    return _moved(q, mode, below, above)


def rcp(x: _Lanes, mode: str) -> _Lanes:
    """1 / x."""
    return div(x.of(x.node_of(1.0)), x, mode)


def sqrt(x: _Lanes, mode: str) -> _Lanes:
    """Square root."""
    r, small, large = x.root(), x < 2.0**-64, x > 2.0**64
    by = [
        small.choose(x.of(x.node_of(low)), large.choose(x.of(x.node_of(high)), 1.0))
        for low, high in ((2.0**50, 2.0**-20), (2.0**100, 2.0**-40))
    ]
    size = r * by[0]
    p = size * size
    error, difference = _error_of_product(size, size, p), x * by[1] - p
    return _moved(r, mode, difference < error, difference > error)


def _to_odd(a: _Lanes, b: _Lanes) -> _Lanes:
    """a + b; where it is not exact, of the numbers on both sides the one with an odd last bit. It keeps the side of every later rounding."""
    s, error = _two_sum(a, b)
    bits = s.bits
    even = ((error < 0.0) | (error > 0.0)) & (bits & 1).equals(0)
    inward = (s > 0.0).differs(error > 0.0)
    return even.choose(inward.choose(bits - 1, bits + 1).value, s)


def _scaled(x: _Lanes, exponent: _Lanes, mode: str) -> _Lanes:
    """x * 2**exponent: steps that each round in the same direction round like one."""
    for _ in range(3):
        k = _within(exponent, -126, 126)
        exponent = exponent - k
        y = x * _power(k)
        back = y * _power(k.of(k.node_of(0)) - k)
        x = _moved(y, mode, x < back, x > back)
    return x


def fma(a: _Lanes, b: _Lanes, c: _Lanes, mode: str) -> _Lanes:
    """a * b + c, rounded once."""
    (x, ea), (y, eb), (z, ec) = _parts(a), _parts(b), _parts(c)
    none = c.equals(0.0)
    of_product, of_sum = ea + eb, none.choose(ec.of(ec.node_of(-1000)), ec)
    top = of_product.at_least(of_sum)
    x = x * _power((of_product - top).at_least(_STICKY))
    z = none.choose(z.of(z.node_of(0.0)), z * _power((of_sum - top).at_least(_STICKY)))
    p = x * y
    high, low = _two_sum(z, _error_of_product(x, y, p))
    total, rest = _two_sum(p, high)
    rest = _to_odd(rest, low)
    total = total + rest if mode == "rn" else add(total, rest, mode)
    # Nothing is left of a product and its opposite.
    total = total.equals(0.0).choose(total.of(total.node_of(-0.0 if mode == "rd" else 0.0)), total)
    plainly = a * b
    out = (a.equals(0.0) | b.equals(0.0)).choose(add(plainly, c, mode), _scaled(total, top, mode))
    finite = (abs(a) < _INFINITY) & (abs(b) < _INFINITY)
    return finite.choose((abs(c) < _INFINITY).choose(out, c), plainly + c)


_OPERATIONS = {"add": add, "sub": sub, "mul": mul, "fdiv": div, "frcp": rcp, "fsqrt": sqrt, "fmaf": fma}


def function(name: str, mode: str):
    """The sequence of `ieee.<name>_<mode>`, of float32 values."""
    return lambda o, *args: _OPERATIONS[name](*(_Lanes(o, a) for a in args), mode).node


FUNCTIONS = {f"{name}_{mode}": function(name, mode) for name in _OPERATIONS for mode in DIRECTIONS}

__all__ = ["FUNCTIONS"]
