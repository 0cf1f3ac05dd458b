"""Float functions as instruction sequences. Every sequence states its error bound; tests sweep it against float64.

The functions take the typed operations (`VectorOps`, or the NumPy twin in the tests) and a float16 or float32 value. Sequences that
would lose accuracy in float16 are computed in float32 and rounded once.
"""

from __future__ import annotations

import math

from .vector_convert import Unsupported
from .vector_graph import Node

_LN2 = math.log(2.0)


def _cast_round(mode: str):
    def rounded(o, x: Node) -> Node:
        return o.cast(x, "float32", mode)

    return rounded


def sqrt(o, x: Node) -> Node:
    """Hardware instruction (1 ulp)."""
    return o.unary("sqrt", x)


def rsqrt(o, x: Node) -> Node:
    """1 / sqrt(x): two roundings, 2 ulp. The hardware Rsqrt is an approximation of unstated accuracy and is not used."""
    return o.div(1.0, o.unary("sqrt", x))


def sigmoid(o, x: Node) -> Node:
    """1 / (1 + exp(-x)): 2 ulp plus the error of exp; exact limits at both ends because exp overflows to inf."""
    return o.div(1.0, o.add(o.unary("exp", o.mul(x, -1.0)), 1.0))


_DIRECT = {"exp": "exp", "log": "ln", "sqrt": "sqrt", "fabs": "abs", "abs": "abs"}
_FUNCTIONS = {"rsqrt": rsqrt, "sigmoid": sigmoid}
_IN_FLOAT32 = {"floor": _cast_round("floor"), "ceil": _cast_round("ceil"), "trunc": _cast_round("trunc"), "round": _cast_round("rint"),
               "nearbyint": _cast_round("rint")}  # fmt: skip


def function(o, name: str, args: list[Node]) -> Node:
    """The value of a TIR math function. Raises `Unsupported` for functions without a sequence."""
    x = args[0]
    if x.dtype in ("int16", "int32") and name in ("abs", "fabs"):
        return o.maximum(x, o.mul(x, -1))
    if x.dtype not in ("float16", "float32"):
        raise Unsupported(f"{name} of {x.dtype} values")
    args = [o.g.tile(a) for a in args]
    if name in _DIRECT:
        return o.unary(_DIRECT[name], args[0])
    if name in _FUNCTIONS:
        return _FUNCTIONS[name](o, *args)
    if name in _IN_FLOAT32:
        return _through_float32(o, _IN_FLOAT32[name], args)
    raise Unsupported(f"no vector sequence for {name}")


def _through_float32(o, build, args: list[Node]) -> Node:
    if args[0].dtype == "float32":
        return build(o, *args)
    return o.cast(build(o, *(o.cast(a, "float32", "none") for a in args)), "float16", "rint")


def float_division(o, name: str, a: Node, b: Node) -> Node:
    """``/`` and the floor / truncated forms of floats."""
    quotient = o.div(a, b)
    if name == "truncdiv":
        return quotient
    mode = "floor" if name.startswith("floor") else "trunc"
    whole = _through_float32(o, _cast_round(mode), [o.g.tile(quotient)])
    return whole if name == "floordiv" else o.sub(a, o.mul(whole, b))


def fused_select(o, m: Node, a: Node, b: Node) -> Node | None:
    """``x > 0 ? x : s * x`` (also >=) is one LeakyRelu."""
    if m.op != "compare_scalar" or dict(m.attrs)["mode"] not in ("gt", "ge") or a.dtype not in ("float16", "float32"):
        return None
    x, zero = m.args
    if x is not a or zero.op != "const" or zero.value != 0 or b.op != "muls" or b.args[0] is not x:
        return None
    return o.g.with_scalar("leaky_relu", x, b.args[1])
