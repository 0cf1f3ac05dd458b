"""Float functions as instruction sequences: which function has which sequence, and in which dtype it is computed.

The sequences live in math_*.py and state their error bounds; tests sweep them against float64. They take typed operations
(`VectorOps`, or a NumPy twin in the tests). Sequences that would lose accuracy in float16 run in float32 and are rounded once.
"""

from __future__ import annotations

import math

from ...base.unsupported import Unsupported
from ..graph.graph import Node
from . import directed as math_directed
from . import exponential as math_exponential
from . import remainder as math_remainder
from . import special as math_special
from . import trigonometric as math_trigonometric

DIRECT = {"exp": "exp", "log": "ln", "sqrt": "sqrt", "fabs": "abs", "abs": "abs"}
"""One instruction, float16 and float32. exp, ln, sqrt: 1 ulp (doc: precision standard of the vector interfaces)."""

ROUNDING = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "round", "nearbyint": "rint", "rint": "rint"}
"""Rounding to integers: a float32 to float32 cast."""


def rsqrt(o, x):
    """1 / sqrt(x): two roundings, 2 ulp. The hardware Rsqrt is an approximation of unstated accuracy and is not used."""
    return o.div(1.0, o.unary("sqrt", x))


def isnan(o, x):
    """NaN is the only value that does not equal itself."""
    return o.g.mask_not(o.cond("eq", x, x))


def copysign(o, x, y):
    """|x| with the sign bit of y, which -0 and NaN have as well."""
    sign = o.cast(o.shift_right(o.bits(y, "int32"), 31), "float32", "rint")
    return o.mul(o.unary("abs", x), o.add(o.mul(sign, 2.0), 1.0))


NATIVE = {"rsqrt": rsqrt, "isnan": isnan, **math_directed.FUNCTIONS}
IN_FLOAT32 = {
    **math_exponential.FUNCTIONS, **math_remainder.FUNCTIONS, **math_trigonometric.FUNCTIONS, **math_special.FUNCTIONS, "copysign": copysign,
}  # fmt: skip


def function(o, name: str, args: list[Node]) -> Node:
    """The value of a TIR math function. Raises `Unsupported` for functions without a sequence."""
    x = args[0]
    if x.dtype in ("int16", "int32") and name in ("abs", "fabs"):
        return o.maximum(x, o.mul(x, -1))
    if x.dtype not in ("float16", "float32"):
        raise Unsupported(f"{name} of {x.dtype} values")
    if name in DIRECT:
        return o.unary(DIRECT[name], x)
    if name in ROUNDING:
        return through_float32(o, lambda o, v: o.cast(v, "float32", ROUNDING[name]), args)
    if name in NATIVE:
        return NATIVE[name](o, *args)
    if o.fast and name in math_special.FAST_NATIVE:
        return math_special.FAST_NATIVE[name](o, *args)
    if name in IN_FLOAT32:
        out = through_float32(o, IN_FLOAT32[name], args)
        if name in math_special.ONE_PLUS:
            o.odd[out] = (name, x)
        return out
    known = ", ".join(sorted({*DIRECT, *NATIVE, *IN_FLOAT32} - {"fabs"}))
    raise Unsupported(f"T.{name} has no instruction sequence", f"functions that have one: {known}")


def one_plus(o, name: str, a: Node, b: Node) -> Node | None:
    """``1 + f(x)`` and ``1 - f(x)`` of functions that have a sequence for this sum, else None."""
    if name == "add" and a in o.odd:
        a, b = b, a
    if name not in ("add", "sub") or b not in o.odd or o.constant(a) != 1:
        return None
    function, x = o.odd[b]
    x = x if name == "add" else o.mul(x, -1.0)
    return through_float32(o, math_special.ONE_PLUS[function], [x])


def through_float32(o, build, args: list[Node]) -> Node:
    """`build` on the arguments in float32; a float16 result is rounded once."""
    if args[0].dtype == "float32":
        return build(o, *args)
    return o.cast(build(o, *(o.widen(a) for a in args)), "float16", "rint")


def float_division(o, name: str, a: Node, b: Node) -> Node:
    """``/`` and the floor / truncated forms of floats. ``//`` and ``%`` are what CUDA makes of them: the floor of the rounded quotient, and
    ``a - floor(a / b) * b``, rounded after every operation. float16 whole quotients and remainders are computed in float32: rounded to
    float16, a quotient may reach the next integer."""
    if name == "truncdiv":
        return o.div(a, b)
    if name == "truncmod":
        return through_float32(o, math_remainder.fmod, [a, b])
    return through_float32(o, lambda o, x, y: _whole_division(o, name, x, y), [a, b])


def _whole_division(o, name: str, a: Node, b: Node) -> Node:
    whole = o.cast(o.div(a, b), "float32", "floor")
    return whole if name == "floordiv" else o.sub(a, o.mul(whole, b))


def fused_select(o, m: Node, a: Node, b: Node) -> Node | None:
    """``x > 0 ? x : s * x`` (also >=) is one LeakyRelu, which keeps zeros: so does a product with a positive number."""
    if m.op != "compare_scalar" or dict(m.attrs)["mode"] not in ("gt", "ge") or a.dtype not in ("float16", "float32"):
        return None
    x, zero = m.args
    if x is not a or zero.op != "const" or zero.value != 0 or b.op != "muls" or b.args[0] is not x:
        return None
    slope = o.constant(b.args[1])
    if slope is None or not 0 <= slope < math.inf:
        return None
    return o.g.with_scalar("leaky_relu", x, b.args[1])
