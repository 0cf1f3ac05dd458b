"""Folding of tiles: what every reduction shares, whatever statement it comes from.

A `Fold` knows the shape, the folded dimension, the dtype and the operation, and makes temporaries; `reduce_rows` has the two
algorithms. The operations are instructions of the table, or bit operations on the 16-bit words of the lanes.
"""

from __future__ import annotations

from ....analysis.index.sums import constant
from ....ir import itemsize
from ....isa.units import REPEAT_BYTES, round_up
from ...base.context import VectorContext
from ..emit.emitter import Emitter
from ..emit.views import View

_PICK = {"float16": "float16", "bfloat16": "float32", "float32": "float32", "int64": "int64", "uint64": "int64", "int32": "int32", "int16": "int16",
         "int8": "float16", "uint8": "float16", "uint16": "int32", "uint32": "int32", "bool": "float16"}  # fmt: skip
_BITS = {"int64": "int64", "uint64": "int64", "int32": "int32", "int16": "int16", "int8": "int16", "uint8": "int16", "bool": "int16"}
_WIDE = {"float16": "float32", "bfloat16": "float32", "float32": "float32", "int64": "int64", "uint64": "int64", "int32": "int32", "int16": "int32",
         "int8": "int32", "uint8": "int32", "uint16": "int32", "uint32": "int32"}  # fmt: skip
FOLD_DTYPE = {
    "add": _WIDE, "mul": _WIDE,
    "max": _PICK, "min": _PICK, "and": _BITS, "or": _BITS, "xor": _BITS,
}  # fmt: skip
"""operation -> dtype of a tile -> dtype in which its lanes are folded."""


class Fold:
    """One folding of a tile of `shape` along `dim` in `dtype` by `operation` (``add mul max min and or xor``)."""

    target: View | None = None
    """Where the result may be written directly."""

    def __init__(self, ctx: VectorContext, shape: tuple[int, ...], dim: int, dtype: str, operation: str, span=None):
        self.ctx, self.shape, self.dim, self.dtype, self.operation = ctx, tuple(shape), dim, dtype, operation
        self.emitter = Emitter(self.shape, span)

    def temporary(self, dtype: str, extents: dict, name: str) -> View:
        """A canonical tile; `extents` maps axes to sizes (replaces the shape of the source along the reduced axis)."""
        axes = sorted(extents)
        unit = max(self.ctx.pitch_unit, REPEAT_BYTES // 8 // min(4, itemsize(dtype)))
        strides, step = {}, 1
        for k, a in enumerate(reversed(axes)):
            strides[a] = step
            step *= round_up(extents[a], unit) if k == 0 and len(axes) > 1 else extents[a]
        buffer = self.ctx.new_temp(dtype, round_up(step, REPEAT_BYTES // itemsize(dtype)), name)
        full = tuple(strides.get(a, 0) for a in range(len(self.shape)))
        return View(buffer, 0, constant(0), full, dtype, dense=True)

    def result(self, extents: dict) -> View:
        """The destination itself when the reduction can write there, else a temporary."""
        if self.target is not None and self.target.dtype == self.dtype:
            return self.target
        return self.temporary(self.dtype, extents, "reduced")

    def combine(self, out: View, a: View, b: View, axes) -> None:
        """`out` = `a` <operation> `b` over the present extents of the emitter; `out` may be `a` or `b`."""
        if self.operation != "xor":
            self.emitter.run(self.operation, [out, a, b], axes)
            return
        # a ^ b = (a | b) - (a & b): the bits of the second are a subset of the first, nothing borrows.
        common = self.temporary(out.dtype, {a: self.emitter.extents[a] for a in axes}, "common")
        self.emitter.run("and", [common, a, b], axes)
        self.emitter.run("or", [out, a, b], axes)
        self.emitter.run("sub", [out, out, common], axes)


__all__ = ["FOLD_DTYPE", "Fold"]
