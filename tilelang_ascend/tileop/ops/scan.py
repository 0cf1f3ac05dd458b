"""`tl.cumsum` and `tl.cummax` along one dimension of a tile, forwards or backwards.

    dim is not the innermost:  plane after plane, y[k] = y[k - 1] op x[k]
    dim is the innermost:      log2(n) steps t'[k] = t[k] op t[k - s], s = 1, 2, 4, …; rows carry s neutral elements in front, so a
                               step is one instruction; steps shorter than a block read their shifted operand through a gather. Where
                               rows of 32-bit elements are groups of sixteen, only the totals of groups go this way (`scan_turned`)

float16 and bfloat16 accumulate in float32 and are rounded once. The largest of unsigned numbers are found with the top bit of every lane
inverted, where signed order is the same. int64 goes the same ways in words (`scan_pairs`).
"""

from __future__ import annotations

import copy
import math
from dataclasses import replace

from ...analysis.index.sums import add, constant, scale
from ...ir import Evaluate, FloatImm, IntImm, Stmt, attrs_of, const_int, dtype_of, itemsize, seq
from ...isa.units import BLOCK_BYTES, REPEAT_BYTES, round_up
from ...tile import CUMMAX, CUMSUM, tile_op_of
from ..base.context import VectorContext
from ..base.unsupported import Unsupported
from ..vector.emit.emitter import Emitter, Unreadable, Unwritable
from ..vector.emit.views import View, offset_by
from ..vector.graph.convert import HOPS
from .reduce import WRAPPED, as_signed, conversion, region_view, wrapped
from .reduce_scalar import is_float
from .scan_pairs import scan_pairs
from .scan_scalar import scalar_scan
from .scan_turned import ROWS, TurnedScan, can_turn, is_contiguous

_COMBINE = {CUMSUM: "add", CUMMAX: "max"}
_COMPUTE = {"float32": "float32", "float16": "float32", "bfloat16": "float32", "int32": "int32", "int16": "int32", "int8": "int32",
            "uint8": "int32"}  # fmt: skip
_UNSIGNED = {"uint32": "int32", "uint16": "int16"}
"""Unsigned lanes are scanned as signed ones: sums have equal bits, orders are equal after flipping the top bit."""

_NEUTRAL = {
    ("add", "float32"): -0.0, ("add", "int32"): 0, ("add", "int16"): 0,
    ("max", "float32"): -math.inf, ("max", "int32"): -(2**31), ("max", "int16"): -(2**15),
}  # fmt: skip
"""What changes nothing: 0 would make 0 of -0."""


def lower_scan(s: Evaluate, ctx: VectorContext) -> Stmt:
    """Lower `tl.cumsum` / `tl.cummax` (src region, dst region; attrs `dim`, `reverse`); what has no vector form becomes scalar loops."""
    try:
        return _Scan(s, ctx).lower()
    except (Unsupported, Unreadable, Unwritable) as e:
        reason = getattr(e, "reason", "a tile of it does not start at a 32-byte boundary")
    ctx.warn(s.span, f"this T.{tile_op_of(s).name} runs as scalar loops: {reason}; scan a whole float32, float16 or int32 tile")
    return scalar_scan(s, ctx, reason)


class _Scan:
    def __init__(self, s: Evaluate, ctx: VectorContext):
        source, target = s.value.args
        attrs = attrs_of(s)
        self.ctx, self.combine = ctx, _COMBINE[tile_op_of(s)]
        self.reverse = bool(int(attrs.get("reverse", 0)))
        self.shape = tuple(const_int(r.extent) for r in source.region)
        if None in self.shape:
            raise Unsupported("the region has a size known only at run time")
        self.dim = int(attrs.get("dim", 0)) % len(self.shape)
        self.axes = tuple(range(len(self.shape)))
        self.src, self.dst = region_view(ctx, source, self.axes), region_view(ctx, target, self.axes)
        dtype, result = dtype_of(source.source), dtype_of(target.source)
        self.flip = dtype == result in _UNSIGNED and self.combine == "max"
        self.emitter = Emitter(self.shape, s.span)
        self.wide = "int64" in (dtype, result)
        if is_float(dtype) and (result in _UNSIGNED or self.wide and self.combine == "add"):
            raise Unsupported(f"scans of {dtype} that end as {result}")
        if self.wide:
            return
        table = {**_COMPUTE, **_UNSIGNED} if dtype == result else _COMPUTE
        if dtype not in table:
            raise Unsupported(f"scans of {dtype} into {result}")
        # Sums have the range of the result.
        self.dtype = "float32" if self.combine == "add" and dtype == "int32" and is_float(result) else table[dtype]
        self.src, self.dst = as_signed(self.src), as_signed(self.dst)

    def lower(self) -> Stmt:
        if self.wide:
            return scan_pairs(self.ctx, self.combine, self.src, self.dst, self.shape, self.dim, self.reverse, self.emitter.span)
        if self.dim == len(self.shape) - 1:
            self._along_rows()
        else:
            self._along_planes()
        return seq(self.emitter.out)

    # -- dtypes -------------------------------------------------------------------------------------------------------

    def _tile(self, dtype: str, name: str) -> View:
        """A canonical tile of the shape of the scan."""
        return self._padded(dtype, 0, name)

    def _padded(self, dtype: str, pad: int, name: str) -> View:
        """A tile whose rows have `pad` more elements; the base is the first real one (pad in front unless reversed)."""
        unit = max(self.ctx.pitch_unit, BLOCK_BYTES // min(itemsize(dtype), 4))
        width = round_up(self.shape[-1] + pad, unit)
        strides, step = [1], width
        for n in reversed(self.shape[:-1]):
            strides.append(step)
            step *= n
        buffer = self.ctx.new_temp(dtype, round_up(step, REPEAT_BYTES // itemsize(dtype)), name)
        return View(buffer, 0, constant(0 if self.reverse else pad), tuple(reversed(strides)), dtype, dense=pad == 0)

    def _convert(self, view: View, dtype: str, last: View | None = None) -> View:
        hops = conversion(view.dtype, dtype)
        if hops and view.dtype == "int32" and dtype in WRAPPED:
            view = wrapped(self.emitter, view, dtype, self._tile("int32", "wrapped"), self.axes)
        for k, hop in enumerate(hops):
            out = last if last is not None and k == len(hops) - 1 else self._tile(hop, "cast")
            self.emitter.run("cast", [out, view], self.axes, round=HOPS[view.dtype, hop])
            view = out
        if not hops and last is not None and not view.same_place(last):
            self.emitter.run("copy", [last, view], self.axes)
        return last if last is not None else view

    def _source(self) -> View:
        """The elements in the dtype of the scan."""
        view = self._convert(self.src, self.dtype)
        return self._flipped(view, self._tile(self.dtype, "flipped")) if self.flip else view

    def _finish(self, view: View) -> None:
        """The result in the destination."""
        if self.flip:
            self._flipped(view, self.dst)
        else:
            self._convert(view, self.dst.dtype, self.dst)

    def _flipped(self, view: View, out: View) -> View:
        """The top bit of every lane inverted: adding it wraps around."""
        self.emitter.run("adds", [out, view], self.axes, [-(1 << 8 * itemsize(view.dtype) - 1)])
        return out

    @property
    def _direct(self) -> bool:
        """True when the last step may write the destination."""
        return self.dst.dtype == self.dtype and not self.flip

    # -- outer dimensions ---------------------------------------------------------------------------------------------

    def _along_planes(self) -> None:
        """In place in the destination when it has the dtype of the scan."""
        n = self.shape[self.dim]
        out = self.dst if self._direct else self._tile(self.dtype, "scan")
        source = self._source()
        plane = tuple(1 if a == self.dim else m for a, m in enumerate(self.shape))
        first, step = (n - 1, -1) if self.reverse else (0, 1)
        self.emitter.extents = plane
        views = [replace(v, dense=False) for v in (out, source)]
        if not source.same_place(out):
            self.emitter.run("copy", [self._plane(v, first) for v in views], self.axes)

        def one(k):
            index = offset_by(k, step * out.strides[self.dim]), offset_by(k, step * source.strides[self.dim])
            here, there = (replace(v, base=add(self._plane(v, first + step).base, i)) for v, i in zip(views, index))
            before = replace(here, base=add(here.base, constant(-step * out.strides[self.dim])))
            self.emitter.run(self.combine, [here, before, there], self.axes)

        if n > 1:
            self.emitter.repeat(n - 1, one)
        self.emitter.extents = self.shape
        if not self._direct:
            self._finish(out)

    def _plane(self, view: View, k: int) -> View:
        return replace(view, base=add(view.base, constant(k * view.strides[self.dim])))

    # -- innermost dimension ------------------------------------------------------------------------------------------

    def _along_rows(self) -> None:
        source = self._source()
        if can_turn(source, self.shape):
            self._turned(source)
        else:
            self._in_steps(source)

    def _turned(self, source: View) -> None:
        """Groups of sixteen by transposes, their totals in steps."""
        direct = self._direct and is_contiguous(self.dst, self.shape)
        out = self.dst if direct else self._contiguous(self.shape, "scan")
        scan = TurnedScan(self.emitter, self.combine, self.shape, self.reverse, self._contiguous(self.shape, "planes"))
        scan.forth(source)
        groups = (*self.shape[:-1], self.shape[-1] // ROWS)
        if groups[-1] > 1:
            sums = copy.copy(self)
            sums.shape, sums.emitter = groups, Emitter(groups, self.emitter.span)
            totals, spread = (self._contiguous(groups, name) for name in ("totals", "before"))
            scan.take_totals(totals)
            sums.flip, sums.dst = False, totals
            sums._in_steps(totals, without_itself=True)
            self.emitter.out += sums.emitter.out
            scan.add(totals, spread)
        scan.back(out)
        if not direct:
            self._finish(out)

    def _contiguous(self, shape: tuple[int, ...], name: str) -> View:
        """A tile without padding between rows."""
        strides = tuple(math.prod(shape[a + 1 :]) for a in range(len(shape)))
        buffer = self.ctx.new_temp(self.dtype, round_up(math.prod(shape), REPEAT_BYTES // itemsize(self.dtype)), name)
        return View(buffer, 0, constant(0), strides, self.dtype, dense=True)

    def _in_steps(self, source: View, without_itself: bool = False) -> None:
        """Each element with those before it, itself among them or not, in as many steps as their number has digits."""
        width = self.shape[-1]
        steps = [1 << k for k in range((width - 1).bit_length())]
        if not steps:
            self._finish(source)
            return
        pad = round_up(steps[-1], source.block)
        places = [self._padded(self.dtype, pad, name) for name in ("scan", "scan")]
        for view in places:
            self.emitter.issue("duplicate", replace(view, base=constant(0)).head(), self._neutral(), int(view.buffer.ty.shape[1]))
        self.emitter.run("copy", [places[int(without_itself)], source], self.axes)
        table = self._table(width) if width > 1 else None
        if without_itself:
            self._shifted(places[1], 1, places[0], table)
        shifted = self._padded(self.dtype, pad, "shifted")
        current, other = places
        for s in steps:
            out = self.dst if self._direct and s == steps[-1] else other
            self.emitter.run(self.combine, [out, current, self._shifted(current, s, shifted, table)], self.axes)
            current, other = out, current
        if not self._direct:
            self._finish(current)

    def _neutral(self):
        value = _NEUTRAL[self.combine, self.dtype]
        return FloatImm(self.dtype, value) if self.dtype == "float32" else IntImm(self.dtype, value)

    def _table(self, width: int):
        """Byte offsets of consecutive elements."""
        table = View(self.ctx.new_temp("int32", round_up(width, 64), "table"), 0, constant(0), (), "int32")
        self.emitter.issue("create_vec_index", table.head(), 0, width)
        self.emitter.issue("muls", table.head(), table.head(), itemsize(self.dtype), width)
        return table.retyped("uint32").head()

    def _shifted(self, view: View, step: int, scratch: View, table) -> View:
        """The elements `step` places earlier (later when reversed): a view where aligned, else gathered row by row."""
        by = step if self.reverse else -step
        moved = replace(view, base=add(view.base, constant(by)), dense=False)
        if step % view.block == 0:
            return moved
        size, width = itemsize(self.dtype), self.shape[-1]
        outer = [a for a in self.axes[:-1] if self.shape[a] > 1]
        start = replace(view, base=constant(0)).head()

        def rows(k: int, at):
            if k < len(outer):
                a = outer[k]
                self.emitter.repeat(self.shape[a], lambda i: rows(k + 1, add(at, offset_by(i, view.strides[a]))))
                return
            offset = scale(add(moved.base, at), size).expr()
            self.emitter.issue("gather", scratch.head(at), start, table, offset, width)

        rows(0, constant(0))
        return scratch


__all__ = ["lower_scan"]
