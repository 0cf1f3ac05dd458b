"""`tl.reduce`: sum, max, min, abssum, absmax, any, all, bitand, bitor, bitxor along one dimension of a tile.

The reduced dimension is folded in halves by whole-tile instructions; along the innermost dimension the last 256 bytes of a row are
finished by few instructions for all rows. float16 and bfloat16 sums accumulate in float32 and are rounded once, at the end. Maxima and minima
of bfloat16 are folded as they are where the chip has lanes of it (3510): up to the last repeat of a row, for which there is no instruction.

    dim is not the innermost:  x[0:h] op= x[h:2h] on planes, log2(n) steps
    dim is the innermost:      long float32 rows to an eighth by BlockReduce over the tile; parts of one repeat folded with the repeat
                               running over rows; then WholeReduce, or BlockReduce where there are many rows
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...analysis.index.sums import add as add_sums
from ...analysis.index.sums import as_sum, constant, is_integer, scale
from ...ir import Evaluate, Stmt, attrs_of, const_int, dtype_of, itemsize, seq
from ...isa.table import instructions_of
from ...isa.units import REPEAT_BYTES, round_up
from ..base.context import VectorContext
from ..base.unsupported import Unsupported
from ..vector.emit.emitter import Unreadable, Unwritable
from ..vector.emit.views import View
from ..vector.fold.fold import FOLD_DTYPE, Fold
from ..vector.fold.rows import fold_columns, fold_planes, shorten
from ..vector.graph.convert import HOPS, ROUTES
from .reduce_column import is_column, load_column, store_column
from .reduce_nest import reduce_nest
from .reduce_scalar import scalar_reduce


@dataclass(frozen=True)
class Kind:
    """combine: operation that joins two values; prepare: unary instruction applied first; boolean: works on 0 / 1."""

    combine: str
    prepare: str | None = None
    boolean: bool = False


KINDS = {
    "sum": Kind("add"), "max": Kind("max"), "min": Kind("min"), "abssum": Kind("add", "abs"), "absmax": Kind("max", "abs"),
    "any": Kind("max", boolean=True), "all": Kind("min", boolean=True),
    "bitand": Kind("and"), "bitor": Kind("or"), "bitxor": Kind("xor"),
}  # fmt: skip

_FLAG_DTYPE = {
    "float16": "float16",
    "bfloat16": "float32",
    "float32": "float32",
    "bool": "float16",
    "int8": "float16",
    "uint8": "float16",
    "int16": "float32",
    "int32": "float32",
}
"""Any and all: integers as floats in which every non-zero value is at least 1; floats become 0 and 1 by a comparison."""

_SIGNED = {"uint16": "int16", "uint32": "int32"}
"""Unsigned lanes are reduced as signed ones: sums and bit operations have equal bits, orders are equal after flipping the top bit."""


_HOLDS = {
    "float16": ("float16", "int8", "uint8", "bool"),
    "bfloat16": ("bfloat16",),
    "float32": ("float16", "bfloat16", "float32", "int8", "uint8", "int16", "bool"),
    "int16": ("int16", "int8", "uint8", "bool"),
    "int32": ("int32", "int16", "int8", "uint8", "bool"),
}
"""dtype of a reduction -> dtypes all of whose numbers it holds."""


def lower_reduce(s: Evaluate, ctx: VectorContext) -> Stmt:
    """Lower `tl.reduce(src region, dst region)` with attrs `kind`, `dim`, `clear`; what has no vector form becomes scalar loops."""
    ways = [lambda: _Reduce(s, ctx).lower(), lambda: reduce_nest(s, ctx)]
    if any(dtype_of(r.source) in ("int64", "uint64") for r in s.value.args):
        del ways[0]
    for way in ways:
        try:
            return way()
        except (Unsupported, Unreadable, Unwritable) as e:
            reason = getattr(e, "reason", "a tile of it does not start at a 32-byte boundary")
    ctx.warn(
        s.span, f"this reduction ({attrs_of(s)['kind']}) runs as scalar loops: {reason}; reduce a whole float16, float32 or int32 tile"
    )
    return scalar_reduce(s, ctx, reason)


class _Reduce(Fold):
    """One reduction: source view over (outer, reduced, inner) extents, destination over (outer, inner)."""

    def __init__(self, s: Evaluate, ctx: VectorContext):
        source, target = s.value.args
        attrs = attrs_of(s)
        self.kind = KINDS[str(attrs["kind"])]
        self.clear = bool(int(attrs.get("clear", 1)))
        shape = [const_int(r.extent) for r in source.region]
        if None in shape:
            raise Unsupported("the reduced region has a size known only at run time")
        dim = int(attrs["dim"]) % len(shape)
        dtypes = [dtype_of(r.source) for r in (source, target)]
        self.narrow = self._narrow(ctx, *dtypes)
        """The dtype in which lanes are folded before they are converted."""
        along_rows = dim == len(shape) - 1
        dtype = self.narrow if self.narrow and not along_rows else self._compute_dtype(*dtypes)
        super().__init__(ctx, shape, dim, dtype, self.kind.combine, s.span)
        self.cut = not self.clear and not self.kind.boolean and is_integer(dtypes[1]) and not is_integer(dtypes[0])
        self.joined_in = self._join_dtype(dtypes[1])
        self.unsigned = dtypes[0].startswith("uint")
        self.flip = dtypes[0] in _SIGNED and self.kind.combine in ("max", "min") and not self.kind.boolean
        self.src = as_signed(region_view(ctx, source, range(len(shape))))
        kept = [d for d in range(len(shape)) if d != dim]
        same_rank = len(target.region) == len(shape)
        self.dst = as_signed(region_view(ctx, target, range(len(shape)) if same_rank else kept, len(shape)))
        # Rows give packed results; along other dimensions rows of one element stay padded like those of the source.
        self.kept = {a: shape[a] for a in kept if shape[a] > 1 or not along_rows}
        self.column = None
        # WholeReduce writes single elements anywhere.
        direct = self.clear and self.dtype == self.dst.dtype in ("float16", "float32")
        if along_rows and not direct and is_column(self.dst, kept, self.shape):
            self.column, self.dst = self.dst, self.temporary(self.dst.dtype, self.kept, "results")
        self.target = self.dst if self.clear and not self.flip else None

    def _narrow(self, ctx: VectorContext, dtype: str, result: str) -> str | None:
        """bfloat16 where the chip has all instructions of this reduction for it."""
        needed = {self.kind.combine, *([self.kind.prepare] if self.kind.prepare else [])}
        native = self.kind.combine in ("max", "min") and needed <= instructions_of("bfloat16", ctx.chip.generation)
        return dtype if native and not self.kind.boolean and dtype == "bfloat16" and result in ("bfloat16", "float32") else None

    def _compute_dtype(self, dtype: str, result: str) -> str:
        if self.kind.boolean:
            if not self.clear and dtype != result != "bool":
                raise Unsupported(f"flags joined with numbers of {result}")
            dtype = _SIGNED.get(dtype, dtype)
        elif dtype in _SIGNED or result in _SIGNED:
            if dtype != result:
                raise Unsupported(f"this reduction of {dtype} to {result}")
            return _SIGNED[dtype]
        elif not self._wraps_alike(dtype, result):
            raise Unsupported(f"{result} does not hold all results of this reduction of {dtype}")
        if self.kind.combine == "add" and dtype == "int32" and not is_integer(result):
            return "float32"  # The range of the result, as in every sum.
        table = _FLAG_DTYPE if self.kind.boolean else FOLD_DTYPE[self.kind.combine]
        if dtype not in table:
            raise Unsupported(f"reductions of {dtype}")
        return table[dtype]

    def _wraps_alike(self, dtype: str, result: str) -> bool:
        """False for integers that are wrapped on the way to the result where conversions would saturate: of sums `_finish` takes care, the
        magnitude of the lowest number is what a dtype of its width makes of it."""
        if self.kind.prepare and self.kind.combine == "max" and dtype in ("int16", "int32") and not is_integer(result):
            return False  # A float holds the magnitude of the lowest number, lanes of the source do not.
        if self.kind.combine == "add" or not (is_integer(dtype) and is_integer(result)):
            return True
        if self.kind.prepare and dtype.startswith("int"):
            return dtype == result != "int8" or dtype == "int8" and result in ("int16", "int32")
        return bool(np.can_cast(dtype, result))

    def _join_dtype(self, result: str) -> str:
        """dtype in which the result meets what the destination holds, without loss for that."""
        if self.clear or self.kind.boolean or result in _SIGNED or result in _HOLDS[self.dtype] and not self.cut:
            return self.dtype
        if result not in FOLD_DTYPE[self.kind.combine]:
            raise Unsupported(f"reductions into {result}")
        return FOLD_DTYPE[self.kind.combine][result]

    def lower(self) -> Stmt:
        work = self._source_values()
        axes = tuple(range(len(self.shape)))
        where = fold_columns(self, work) if self.dim == len(self.shape) - 1 else fold_planes(self, work)
        self._finish(where, tuple(a for a in axes if a != self.dim))
        return seq(self.emitter.out)

    # -- pieces -------------------------------------------------------------------------------------------------------

    def _source_values(self) -> View:
        """The source in the dtype of the reduction, prepared (abs)."""
        axes, extents = tuple(range(len(self.shape))), dict(enumerate(self.shape))
        view = self.src
        if self.narrow:
            view = self._absolute(view, axes, extents) if self.kind.prepare else view
            if self.dtype == self.narrow:
                return view
            return self._cast(self._shortened(view), self.dtype, "wide", axes, dict(enumerate(self.shape)))
        view = self._cast(view, self.dtype, "wide", axes, extents)
        if self.flip:
            view = self._flipped(view, axes, extents)
        if self.kind.boolean:
            view = self._as_bool(view, axes, extents)
        if self.kind.prepare and not self.unsigned:
            view = self._absolute(view, axes, extents)
        return view

    def _shortened(self, view: View) -> View:
        """Rows of the source folded to what one repeat of the reduction holds; they are those of the reduction from here on."""
        wide, self.dtype = self.dtype, self.narrow
        view, width = shorten(self, view, REPEAT_BYTES // itemsize(wide))
        self.dtype, self.shape = wide, (*self.shape[:-1], width)
        self.emitter.extents = self.shape
        return view

    def _flipped(self, view: View, axes, extents) -> View:
        """The top bit of every lane inverted: adding it wraps around."""
        out = self.temporary(view.dtype, extents, "flipped")
        self.emitter.run("adds", [out, view], axes, [-(1 << 8 * itemsize(view.dtype) - 1)])
        return out

    def _as_bool(self, view: View, axes, extents) -> View:
        """1 where the value is not zero. Integers: min(|x|, 1)."""
        if self.src.dtype in ("float16", "bfloat16", "float32"):
            return self._not_zero(view, axes, extents)
        out = self.temporary(view.dtype, extents, "flag") if self._given(view) else view
        self.emitter.run("abs", [out, view], axes)
        self.emitter.run("mins", [out, out], axes, [1.0])
        return out

    def _given(self, view: View) -> bool:
        """True for tiles of the user, which may hold any number and stay as they are."""
        return view is self.src or view is self.dst

    def _not_zero(self, view: View, axes, extents) -> View:
        """A comparison, exact for the smallest numbers and for NaN, and a selection; both take whole repeats, padding included."""
        out = self.temporary(view.dtype, extents, "flag")
        if self._given(view):
            self.emitter.run("copy", [out, view], axes)
            view = out
        lanes = int(out.buffer.ty.shape[1])
        mask = View(self.ctx.new_temp("uint8", round_up(lanes // 8, 32), "mask"), 0, constant(0), (), "uint8").head()
        # NaN equals nothing, and the hardware's "not equal" does not hold for it either.
        self.emitter.issue("compare_scalar", mask, view.head(), 0.0, lanes, mode="eq")
        self.emitter.issue("duplicate", out.head(), 0.0, lanes)
        self.emitter.issue("select_scalar", out.head(), mask, out.head(), 1.0, lanes, mode="tensor_scalar")
        return out

    def _absolute(self, view: View, axes, extents) -> View:
        out = view if view is not self.src else self.temporary(view.dtype, extents, "abs")
        if view.dtype in ("float16", "float32", self.narrow):
            self.emitter.run("abs", [out, view], axes)
            return out
        negative = self.temporary(view.dtype, extents, "negative")
        self.emitter.run("muls", [negative, view], axes, [-1])
        self.emitter.run("max", [out, view, negative], axes)
        return out

    def _finish(self, view: View, axes) -> None:
        """Combine with the old result if asked, convert, and store."""
        self.emitter.extents = tuple(1 if a == self.dim else n for a, n in enumerate(self.shape))
        extents = self.kept
        if self.flip:
            view = self._flipped(view, axes, extents)
        if not self.clear:
            if self.column is not None:
                load_column(self, self.dst, self.column, self.kept)
            view = self._with_old(view, axes, extents)
        hops = list(conversion(view.dtype, self.dst.dtype))
        if hops and view.dtype == "int32" and self.kind.combine == "add" and self.dst.dtype in WRAPPED:
            view = wrapped(self.emitter, view, self.dst.dtype, self.temporary("int32", extents, "wrapped"), axes)
        if not hops and view is self.src or not hops and not view.same_place(self.dst):
            self.emitter.run("copy", [self.dst, view], axes)
        for k, hop in enumerate(hops):
            out = self.dst if k == len(hops) - 1 else self.temporary(hop, extents, "narrow")
            self.emitter.run("cast", [out, view], axes, round=HOPS[view.dtype, hop])
            view = out
        if self.column is not None:
            store_column(self, self.column, self.dst, self.kept)

    def _with_old(self, view: View, axes, extents) -> View:
        """The result joined with what the destination holds."""
        old, dtype = self._cast(self.dst, self.joined_in, "old", axes, extents), self.joined_in
        if self.cut:  # Integers are what an accumulator of the destination's dtype adds up.
            view = self._cast(view, self.dst.dtype, "cut", axes, extents)
        view = self._cast(view, dtype, "found", axes, extents)
        if self.flip:
            old = self._flipped(old, axes, extents)
            view = self._flipped(view, axes, extents)
        if self.kind.boolean:
            old = self._as_bool(old, axes, extents)
        in_place = self.dst.dtype == dtype and not self.flip
        total = self.dst if in_place else self.temporary(dtype, extents, "total")
        self.combine(total, old, view, axes)
        return self._flipped(total, axes, extents) if self.flip else total

    def _cast(self, view: View, dtype: str, name: str, axes, extents) -> View:
        """`view` in another dtype, itself if it has that."""
        for hop in conversion(view.dtype, dtype):
            out = self.temporary(hop, extents, name)
            self.emitter.run("cast", [out, view], axes, round=HOPS[view.dtype, hop])
            view = out
        return view


def as_signed(view: View) -> View:
    """Unsigned lanes of 16 and 32 bits as signed ones."""
    return view.retyped(_SIGNED.get(view.dtype, view.dtype))


def conversion(src: str, dst: str) -> tuple[str, ...]:
    """Hops from one dtype to another; empty when they are equal. Raises `Unsupported` when there is no way."""
    src, dst = ("uint8" if d == "bool" else d for d in (src, dst))
    if src == dst:
        return ()
    way = (*ROUTES.get((src, dst), ()), dst)
    at = src
    for hop in way:
        if (at, hop) not in HOPS:
            raise Unsupported(f"no vector conversion from {src} to {dst}")
        at = hop
    return way


WRAPPED = ("int8", "uint8", "int16")
"""Integers narrower than the dtype of their sums: conversions saturate, sums wrap around."""


def wrapped(emitter, view: View, dtype: str, out: View, axes) -> View:
    """`view` (int32) with only the bits that `dtype` holds, extended by its sign."""
    shift = 32 - 8 * itemsize(dtype)
    emitter.run("shift_left", [out, view], axes, [shift])
    right = out if dtype.startswith("int") else out.retyped("uint32")
    emitter.run("shift_right", [right, right], axes, [shift])
    return out


def region_view(ctx: VectorContext, region, axes, rank: int | None = None) -> View:
    """A region as a view; dimension d of the region runs along axis `axes[d]`."""
    layout = ctx.layout(region.source)
    axes = list(axes)
    strides, base = [0] * (rank or len(axes)), constant(0)
    dense, open_dimension = True, False
    for d in range(len(region.region) - 1, -1, -1):
        r = region.region[d]
        low, extent = as_sum(r.min), const_int(r.extent)
        if extent is None:
            raise Unsupported("the reduced region has a size known only at run time")
        strides[axes[d]] = layout.strides[d]
        base = add_sums(base, scale(low, layout.strides[d]))
        dense = dense and not (open_dimension and extent != 1)
        open_dimension = open_dimension or extent != layout.shape[d] or low != constant(0)
    dtype = "uint8" if dtype_of(region.source) == "bool" else dtype_of(region.source)
    return View(layout.buffer, layout.version, base, tuple(strides), dtype, dense=dense)


__all__ = ["KINDS", "WRAPPED", "as_signed", "lower_reduce", "wrapped"]
