"""Instructions over boxes of lanes: the choice between count form and high-dimension form, splits by the hardware limits, loops.

The emitter knows nothing of expressions. It takes an instruction name, one `View` for each operand (destination first) and
scalars, and appends statements. `Unreadable` / `Unwritable` tell the caller which operand cannot be addressed by the
instruction (unaligned, strided in the innermost axis); the caller then copies it to a place that can.
"""

from __future__ import annotations

from contextlib import contextmanager

from .... import isa
from ....analysis.index.sums import Sum, add, constant
from ....ir import IntImm, Var, intrin, loop, seq
from ....isa.units import BLOCK_BYTES, MAX_REPEAT, REPEAT_BYTES
from .views import Axis, View, dtype_width, merged_axes, offset_by

_LOGIC = ("and", "or", "not")
"""Instructions on 16-bit lanes (doc: And, Or, Not of C220): wider lanes are several words."""

_LONG = 8
"""Bytes of lanes that no high-dimension form has."""

UNROLL_LIMIT = 4
"""Loops of up to this many instructions are written out."""


class Unreadable(Exception):
    """Source operand `index` (0 = first source) cannot be addressed by the instruction."""

    def __init__(self, index: int):
        super().__init__(index)
        self.index = index


class Unwritable(Exception):
    """The destination cannot be addressed by the instruction."""


def mask_words(lanes: int, first: int = 0, step: int = 1) -> tuple[IntImm, IntImm]:
    """(mask_hi, mask_lo) that select the lanes ``first, first + step, … < lanes``."""
    bits = 0
    for lane in range(first, lanes, step):
        bits |= 1 << lane
    return signed64(bits >> 64), signed64(bits & (1 << 64) - 1)


def signed64(word: int) -> IntImm:
    return IntImm("int64", word - (1 << 64) if word >> 63 else word)


class Emitter:
    """Collects the statements of one vector statement over a nest with these axis extents."""

    def __init__(self, extents: tuple[int, ...], span=None):
        self.extents = extents
        self.span = span
        self.out: list = []

    # -- statements ---------------------------------------------------------------------------------------------------

    def issue(self, name: str, *args, **attrs) -> None:
        """Append one instruction."""
        self.out.append(intrin(name, *args, span=self.span, **attrs))

    @contextmanager
    def block(self):
        """Collect the statements of a nested block: ``with emitter.block() as stmts``."""
        outer, self.out = self.out, []
        try:
            yield self.out
        finally:
            self.out = outer

    def repeat(self, extent: int, body, cost: int = 1, **notes) -> None:
        """`body(index)` for every index below `extent`: written out when short, else as a loop with these annotations."""
        if extent * cost <= UNROLL_LIMIT or extent == 1:
            for k in range(extent):
                body(k)
            return
        var = Var("r", "int32")
        with self.block() as stmts:
            body(var)
        self.out.append(loop(var, extent, seq(stmts), span=self.span, **notes))

    # -- shapes -------------------------------------------------------------------------------------------------------

    def run(self, name: str, views: list[View], axes: tuple[int, ...], scalars=(), **attrs) -> None:
        """Emit `name` over the given axes of the nest."""
        shape = merged_axes(self.extents, views, axes)
        self._check(shape, views)
        _Plan(self, name, views, shape, scalars, attrs).emit()

    def _check(self, shape: list[Axis], views: list[View]) -> None:
        for k, view in enumerate(views):
            unit = view.block
            aligned = view.base.multiple_of(unit) and all(a.strides[k] % unit == 0 for a in shape[:-1])
            inner = shape[-1].strides[k] == (0 if view.spread else 1)
            if not (aligned and inner):
                raise Unwritable() if k == 0 else Unreadable(k - 1)

    def linear(self, name: str, heads: list, count, scalars=(), **attrs) -> None:
        """Count form on operand expressions."""
        self.issue(name, *heads, *scalars, count, **attrs)


class _Plan:
    """One operation over merged axes: pick the cheapest way to issue it."""

    def __init__(self, emitter: Emitter, name: str, views, shape: list[Axis], scalars, attrs):
        self.emitter, self.name, self.views, self.scalars, self.attrs = emitter, name, views, tuple(scalars), attrs
        self.inner, self.outer = shape[-1], shape[:-1]
        self.lanes = REPEAT_BYTES // max(dtype_width(v) for v in views)
        self.spread = any(v.spread for v in views)
        self.words = max(dtype_width(v) for v in views) // 2 if name in _LOGIC else None

    def emit(self) -> None:
        ways = [(cost, order, emit) for order, (cost, emit) in enumerate(self._ways()) if cost is not None]
        assert ways, f"{self.name} has no form for this shape"
        min(ways, key=lambda w: w[:2])[2]()

    def _ways(self):
        rows = 1
        for a in self.outer:
            rows *= a.extent
        if self.name in isa.TABLE and not self.spread:
            yield rows, lambda: self.rows(self.outer, self._count_form)
        if self.name + "_mask" not in isa.TABLE or (self.words is None and max(map(dtype_width, self.views)) == _LONG):
            return
        yield rows * self._inner_cost(), lambda: self.rows(self.outer, self._repeat_inner, self._inner_cost())
        for k, axis in enumerate(self.outer):
            if all(0 <= self._rep(s, v) <= self._rep_limit(i) for i, (s, v) in enumerate(zip(axis.strides, self.views))):
                each = -(-self.inner.extent // self.lanes) * -(-axis.extent // MAX_REPEAT)
                others = [a for i, a in enumerate(self.outer) if i != k]
                emit = lambda axis=axis, others=others, each=each: self.rows(others, lambda off: self._repeat_outer(axis, off), each)
                yield rows // axis.extent * each, emit

    def _rep_limit(self, operand: int) -> int:
        record = isa.TABLE[self.name + "_mask"]
        rep = record.operands[operand].name + "_rep"
        return next((a.hi for a in record.args if a.name == rep), 0)

    @staticmethod
    def _rep(stride: int, view: View) -> int:
        return stride * dtype_width(view) // BLOCK_BYTES

    def _inner_cost(self) -> int:
        full, tail = divmod(self.inner.extent, self.lanes)
        return -(-full // MAX_REPEAT) + (1 if tail else 0)

    def rows(self, axes: list[Axis], body, cost: int = 1) -> None:
        """Loop over the outer axes; `body(offsets)` gets the offset of every operand."""

        def nest(k: int, offsets: list[Sum]):
            if k == len(axes):
                body(offsets)
                return
            self.emitter.repeat(
                axes[k].extent,
                lambda i: nest(k + 1, [add(o, offset_by(i, s)) for o, s in zip(offsets, axes[k].strides)]),
                cost,
            )

        nest(0, [constant(0)] * len(self.views))

    def _heads(self, offsets: list[Sum]) -> list:
        views = self.views if self.words is None else [v.retyped("uint16") for v in self.views]
        return [v.head(o) for v, o in zip(views, offsets)]

    def _count_form(self, offsets: list[Sum]) -> None:
        self.emitter.linear(self.name, self._heads(offsets), self.inner.extent * (self.words or 1), self.scalars, **self.attrs)

    def _masked(self, offsets: list[Sum], lanes: int, repeat: int, reps: list[int]) -> None:
        blks = [0 if v.spread else 1 for v in self.views]
        words = mask_words(lanes * (self.words or 1))
        self.emitter.issue(self.name + "_mask", *self._heads(offsets), *self.scalars, *words, repeat, *blks, *reps, **self.attrs)

    def _repeat_inner(self, offsets: list[Sum]) -> None:
        """Repeats run along the innermost axis."""
        step = [0 if v.spread else self.lanes for v in self.views]
        reps = [self._rep(s, v) for s, v in zip(step, self.views)]
        full, tail = divmod(self.inner.extent, self.lanes)
        done = 0
        while done < full:
            n = min(MAX_REPEAT, full - done)
            self._masked([add(o, offset_by(done, s)) for o, s in zip(offsets, step)], self.lanes, n, reps)
            done += n
        if tail:
            self._masked([add(o, offset_by(full, s)) for o, s in zip(offsets, step)], tail, 1, reps)

    def _repeat_outer(self, axis: Axis, offsets: list[Sum]) -> None:
        """Repeats run along an outer axis; the innermost axis is split into parts of one repeat."""
        reps = [self._rep(s, v) for s, v in zip(axis.strides, self.views)]
        groups = [(g, min(MAX_REPEAT, axis.extent - g)) for g in range(0, axis.extent, MAX_REPEAT)]
        full, tail = divmod(self.inner.extent, self.lanes)
        steps = [0 if v.spread else self.lanes for v in self.views]

        def part(index, lanes: int):
            for start, n in groups:
                at = [add(add(o, offset_by(index, step)), offset_by(start, s)) for o, step, s in zip(offsets, steps, axis.strides)]
                self._masked(at, lanes, n, reps)

        if full:
            self.emitter.repeat(full, lambda c: part(c, self.lanes), len(groups))
        if tail:
            part(full, tail)
