"""`tl.reduce`: sum, max, min, abssum, absmax, any, all, bitand, bitor, bitxor along one dimension of a tile.

The reduced dimension is folded in halves by whole-tile instructions; along the innermost dimension the last 256 bytes of a row are
finished by one WholeReduce for all rows. float16 and bfloat16 sums accumulate in float32 and are rounded once, at the end.

    dim is not the innermost:  x[0:h] op= x[h:2h] on planes, log2(n) steps
    dim is the innermost:      chunks of one repeat folded with the repeat running over rows, then WholeReduce
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import UnsupportedConstruct
from ..ir import Evaluate, Stmt, attrs_of, const_int, dtype_of, itemsize, seq
from .affine import Affine, affine, constant, scale
from .affine import add as add_affine
from .context import REPEAT_BYTES, VectorContext, round_up
from .reduce_rows import fold_columns, fold_planes
from .vector_convert import HOPS, ROUTES, Unsupported
from .vector_emit import Emitter, Unreadable, Unwritable
from .vector_views import View


@dataclass(frozen=True)
class Kind:
    """combine: instruction that joins two values; prepare: unary instruction applied first; boolean: works on 0 / 1."""

    combine: str
    prepare: str | None = None
    boolean: bool = False
    bits: bool = False


KINDS = {
    "sum": Kind("add"), "max": Kind("max"), "min": Kind("min"), "abssum": Kind("add", "abs"), "absmax": Kind("max", "abs"),
    "any": Kind("max", boolean=True), "all": Kind("min", boolean=True),
    "bitand": Kind("and", bits=True), "bitor": Kind("or", bits=True), "bitxor": Kind("xor", bits=True),
}  # fmt: skip

#: dtype of a tile -> dtype in which it is reduced, for sums and for selections (max, min).
_SUM_DTYPE = {"float16": "float32", "bfloat16": "float32", "float32": "float32", "int32": "int32", "int16": "int32", "int8": "int32",
              "uint8": "int32"}  # fmt: skip
_PICK_DTYPE = {"float16": "float16", "bfloat16": "float32", "float32": "float32", "int32": "int32", "int16": "int16", "int8": "float16",
               "uint8": "float16", "bool": "float16"}  # fmt: skip

#: any and all: integers as floats in which every non-zero value is at least 1.
_FLAG_DTYPE = {"bool": "float16", "int8": "float16", "uint8": "float16", "int16": "float32", "int32": "float32"}


def lower_reduce(s: Evaluate, ctx: VectorContext) -> Stmt:
    """Lower `tl.reduce(src region, dst region)` with attrs `kind`, `dim`, `clear`."""
    try:
        return _Reduce(s, ctx).lower()
    except (Unsupported, Unreadable, Unwritable) as e:
        reason = getattr(e, "reason", "a tile of it does not start at a 32-byte boundary")
        message = f"this reduction ({attrs_of(s)['kind']}) has no vector form: {reason}"
        raise UnsupportedConstruct(message, at=s.span, hint="reduce a whole float16, float32 or int32 tile") from None


class _Reduce:
    """One reduction: source view over (outer, reduced, inner) extents, destination over (outer, inner)."""

    def __init__(self, s: Evaluate, ctx: VectorContext):
        self.ctx, self.span = ctx, s.span
        source, target = s.value.args
        attrs = attrs_of(s)
        self.kind = KINDS[str(attrs["kind"])]
        self.clear = bool(int(attrs.get("clear", 1)))
        shape = [const_int(r.extent) for r in source.region]
        if None in shape:
            raise Unsupported("the reduced region has a size known only at run time")
        self.dim = int(attrs["dim"]) % len(shape)
        self.shape = tuple(shape)
        self.emitter = Emitter(self.shape, s.span)
        self.src = region_view(ctx, source, range(len(shape)))
        kept = [d for d in range(len(shape)) if d != self.dim]
        same_rank = len(target.region) == len(shape)
        self.dst = region_view(ctx, target, range(len(shape)) if same_rank else kept, len(shape))
        if self.kind.bits:
            raise Unsupported("bitwise reductions")
        self.dtype = self._compute_dtype(dtype_of(source.source))

    def _compute_dtype(self, dtype: str) -> str:
        table = _FLAG_DTYPE if self.kind.boolean else _SUM_DTYPE if self.kind.combine == "add" else _PICK_DTYPE
        if dtype not in table:
            raise Unsupported(f"reductions of {dtype}")
        return table[dtype]

    def lower(self) -> Stmt:
        work = self._source_values()
        axes = tuple(range(len(self.shape)))
        where = fold_columns(self, work) if self.dim == len(self.shape) - 1 else fold_planes(self, work)
        self._finish(where, tuple(a for a in axes if a != self.dim))
        return seq(self.emitter.out)

    # -- pieces -------------------------------------------------------------------------------------------------------

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

    def _source_values(self) -> View:
        """The source in the dtype of the reduction, prepared (abs)."""
        view, axes = self.src, tuple(range(len(self.shape)))
        extents = dict(enumerate(self.shape))
        for hop in conversion(view.dtype, self.dtype):
            out = self.temporary(hop, extents, "wide")
            self.emitter.run("cast", [out, view], axes, round=HOPS[view.dtype, hop])
            view = out
        if self.kind.boolean:
            view = self._as_bool(view, axes, extents)
        if self.kind.prepare:
            view = self._absolute(view, axes, extents)
        return view

    def _as_bool(self, view: View, axes, extents) -> View:
        """1 where the integer is not zero: min(|x|, 1)."""
        out = view if view is not self.src else self.temporary(view.dtype, extents, "flag")
        self.emitter.run("abs", [out, view], axes)
        self.emitter.run("mins", [out, out], axes, [1.0])
        return out

    def _absolute(self, view: View, axes, extents) -> View:
        out = view if view is not self.src else self.temporary(view.dtype, extents, "abs")
        if view.dtype in ("float16", "float32"):
            self.emitter.run("abs", [out, view], axes)
            return out
        negative = self.temporary(view.dtype, extents, "negative")
        self.emitter.run("muls", [negative, view], axes, [-1])
        self.emitter.run("max", [out, view, negative], axes)
        return out

    def _finish(self, view: View, axes) -> None:
        """Combine with the old result if asked, convert, and store."""
        self.emitter.extents = tuple(1 if a == self.dim else n for a, n in enumerate(self.shape))
        extents = {a: self.shape[a] for a in axes}
        if not self.clear:
            old = self.dst
            for hop in conversion(old.dtype, self.dtype):
                out = self.temporary(hop, extents, "old")
                self.emitter.run("cast", [out, old], axes, round=HOPS[old.dtype, hop])
                old = out
            if self.dst.dtype == self.dtype:
                self.emitter.run(self.kind.combine, [self.dst, old, view], axes)
                return
            total = self.temporary(self.dtype, extents, "total")
            self.emitter.run(self.kind.combine, [total, old, view], axes)
            view = total
        hops = list(conversion(view.dtype, self.dst.dtype))
        if not hops and view is self.src or not hops and not view.same_place(self.dst):
            self.emitter.run("copy", [self.dst, view], axes)
        for k, hop in enumerate(hops):
            out = self.dst if k == len(hops) - 1 else self.temporary(hop, extents, "narrow")
            self.emitter.run("cast", [out, view], axes, round=HOPS[view.dtype, hop])
            view = out


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


def region_view(ctx: VectorContext, region, axes, rank: int | None = None) -> View:
    """A region as a view; dimension d of the region runs along axis `axes[d]`."""
    layout = ctx.layout(region.source)
    axes = list(axes)
    strides, base = [0] * (rank or len(axes)), constant(0)
    dense, open_dimension = True, False
    for d in range(len(region.region) - 1, -1, -1):
        r = region.region[d]
        low, extent = affine(r.min), const_int(r.extent)
        if extent is None:
            raise Unsupported("the reduced region has a size known only at run time")
        strides[axes[d]] = layout.strides[d]
        base = add_affine(base, scale(low, layout.strides[d]))
        dense = dense and not (open_dimension and extent != 1)
        open_dimension = open_dimension or extent != layout.shape[d] or low != constant(0)
    dtype = "uint8" if dtype_of(region.source) == "bool" else dtype_of(region.source)
    return View(layout.buffer, layout.version, base, tuple(strides), dtype, dense=dense)


__all__ = ["KINDS", "Affine", "lower_reduce"]
