"""NPU spellings of tile operations: ``T.vexp(A, B)``, ``T.vadd(A, B, C)``, ``T.vbrc(value, A)``."""

from __future__ import annotations

from ..frontend.operators import plain
from . import math
from .copy import fill
from .tiles import elementwise, is_tile

ON_TILES = {
    "vadd": "add",
    "vsub": "sub",
    "vmul": "mul",
    "vdiv": "div",
    "vmax": "max",
    "vmin": "min",
    "vand": "bitwise_and",
    "vor": "bitwise_or",
    "vexp": "exp",
    "vexp2": "exp2",
    "vln": "log",
    "vlog2": "log2",
    "vabs": "abs",
    "vrelu": "relu",
    "vsqrt": "sqrt",
    "vrsqrt": "rsqrt",
    "vrec": "reciprocal",
    "vsigmoid": "sigmoid",
    "vtanh": "tanh",
    "verf": "erf",
    "vsin": "sin",
    "vcos": "cos",
}
"""NPU name -> name in `math`; the last operand is the destination."""

globals().update({npu: getattr(math, name) for npu, name in ON_TILES.items()})


def vbrc(value, dst) -> None:
    """Broadcast a number, or a tile with dimensions of size 1, into `dst`."""
    if is_tile(plain(value)):
        elementwise("vbrc", lambda v: v, [value], dst)
    else:
        fill(dst, value)


def vcast(src, dst, round_mode: str | None = None) -> None:
    """Convert every element of `src` to the dtype of `dst`."""
    elementwise("vcast", lambda v: v, [src], dst)


NAMES = (*ON_TILES, "vbrc", "vcast")
