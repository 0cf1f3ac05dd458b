"""`tl.argsort`: where the largest elements of every row are, largest first, by the sorter of the vector core.

    sort32     groups of 32 scores become descending runs of 8-byte pairs (score, index)
    mrg_sort   four runs become one, log4(n / 32) times; the k best of a run suffice when fewer than n are wanted
    gather_mask  the indices of the first k pairs

Both instructions are stable, so equal scores keep the order of their indices. Rows are handled in batches: level after level over
all rows of a batch keeps the pipe full, the size of a batch bounds the temporaries.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...analysis.index.sums import Sum, add, constant
from ...errors import UnsupportedConstruct
from ...ir import Evaluate, Stmt, seq
from ...isa.units import MAX_REPEAT, round_up
from ..base.context import VectorContext
from ..base.unsupported import Unsupported
from ..vector.emit.emitter import UNROLL_LIMIT, Emitter
from ..vector.emit.views import View, offset_by
from .reduce import region_view

GROUP = 32
"""Scores `sort32` sorts at once."""

WAYS = 4
"""Queues of one merge."""

MAX_QUEUE = 4095
"""Pairs in one queue of a merge (doc: MrgSort, elementLengths)."""

_PAIR = 2
"""float32 lanes of one pair."""

_ALIGNED_PAIRS = 4
"""Queues start at 32-byte boundaries."""

_BATCH_PAIRS = 2048
"""Pairs of one batch of rows: two buffers of 16 KB."""

_CALL_CYCLES = 16
"""Pairs' worth of time that one more merge costs; only weighs fewer, longer merges against more, shorter ones."""

_AS_LOOP = UNROLL_LIMIT + 1
"""Cost of a body too long to be written out."""

_VALID = {2: 0b0011, 3: 0b0111, 4: 0b1111}
_ODD_LANES = 2


def lower_argsort(s: Evaluate, ctx: VectorContext) -> Stmt:
    """Lower `tl.argsort(src region, dst region)`: float32 scores, int32 places; the last extent of dst says how many."""
    try:
        return _Argsort(s, ctx).lower()
    except Unsupported as e:
        raise UnsupportedConstruct(f"this sort has no vector form: {e.reason}", at=s.span, hint=e.hint or None) from None


@dataclass(frozen=True)
class Runs:
    """Sorted runs of one row: `count` runs of `length` pairs, the last one of `last`, `pitch` pairs apart."""

    count: int
    length: int
    last: int
    pitch: int

    def first(self, keep: int) -> Runs:
        """The same runs cut to their first `keep` pairs."""
        return Runs(self.count, min(self.length, keep), min(self.last, keep), self.pitch)

    def merged(self) -> Runs:
        """What four-way merges make of them: back to back."""
        count, pitch = -(-self.count // WAYS), WAYS * self.length
        last = self.pairs - (count - 1) * pitch
        return Runs(count, pitch if count > 1 else last, last, pitch)

    @property
    def pairs(self) -> int:
        return (self.count - 1) * self.length + self.last

    @property
    def cost(self) -> int:
        """Relative time of merging these runs by fours."""
        merges = 1 if self.length == self.pitch else -(-self.count // WAYS)
        return self.pairs + merges * _CALL_CYCLES


class _Argsort:
    def __init__(self, s: Evaluate, ctx: VectorContext):
        source, target = s.value.args
        self.ctx = ctx
        rank = len(source.region)
        self.src, self.dst = region_view(ctx, source, range(rank)), region_view(ctx, target, range(rank))
        self.shape = tuple(int(r.extent) for r in source.region)
        self.width, self.wanted = self.shape[-1], int(target.region[-1].extent)
        if self.src.dtype != "float32" or self.dst.dtype != "int32" or self.width % GROUP:
            raise Unsupported(f"the sorter takes float32 rows of a multiple of {GROUP} scores and gives int32 places")
        for view, what in ((self.src, "scores"), (self.dst, "places")):
            rows = [view.strides[a] for a in range(rank - 1) if self.shape[a] > 1]
            if not view.base.multiple_of(view.block) or any(s % view.block for s in rows):
                raise Unsupported(f"a row of the {what} does not start at a 32-byte boundary", "sort whole tiles")
        self.emitter = Emitter(self.shape, s.span)

    def lower(self) -> Stmt:
        outer, (rows, steps) = self._row_axes()
        self.table = self._indices()
        batch = max(1, min(rows, _BATCH_PAIRS // self.width))

        def nest(k: int, at):
            if k < len(outer):
                extent, strides = outer[k]
                self.emitter.repeat(extent, lambda i: nest(k + 1, _moved(at, strides, i)), _AS_LOOP)
                return
            whole = [s * batch for s in steps]
            self.emitter.repeat(rows // batch, lambda b: self._batch(_moved(at, whole, b), steps, batch), _AS_LOOP)
            if rows % batch:
                self._batch(_moved(at, whole, rows // batch), steps, rows % batch)

        nest(0, (constant(0), constant(0)))
        return seq(self.emitter.out)

    def _row_axes(self):
        """(outer loops, innermost loop), each (extent, strides of src and dst): axes that both sides step alike are one."""
        axes = [(n, (self.src.strides[a], self.dst.strides[a])) for a, n in enumerate(self.shape[:-1]) if n > 1]
        axes = axes or [(1, (0, 0))]
        while len(axes) > 1 and all(o == i * axes[-1][0] for o, i in zip(axes[-2][1], axes[-1][1])):
            axes[-2:] = [(axes[-2][0] * axes[-1][0], axes[-1][1])]
        return axes[:-1], axes[-1]

    def _indices(self) -> View:
        """0, 1, 2, …: the place of every score in its row."""
        table = View(self.ctx.new_temp("int32", round_up(self.width, 64), "places"), 0, constant(0), (), "int32")
        self.emitter.issue("create_vec_index", table.head(), 0, self.width)
        return table.retyped("uint32")

    # -- one batch ----------------------------------------------------------------------------------------------------

    def _batch(self, at, steps, rows: int) -> None:
        """Sort `rows` rows; `at` are the offsets of the first one in src and dst."""
        source, target = at
        current = self._pairs(rows)
        self.emitter.repeat(rows, lambda r: self._sort_groups(current, self._row(r), add(source, offset_by(r, steps[0]))))
        runs, keep = Runs(self.width // GROUP, GROUP, GROUP, GROUP), round_up(self.wanted, _ALIGNED_PAIRS)
        while runs.count > 1:
            short = runs.first(keep)
            runs = short if short.cost < runs.cost else runs
            if runs.length > MAX_QUEUE:
                reason = f"rows of {self.width} elements need merges of runs of {runs.length}, the limit is {MAX_QUEUE}"
                raise Unsupported(reason, "sort parts of the rows, then the winners of all parts")
            merged = self._pairs(rows)
            self._merge(runs, current, merged, rows)
            runs, current = runs.merged(), merged
        if steps[1] == self.wanted:
            self._take(current, constant(0), target, rows)
            return
        self.emitter.repeat(rows, lambda r: self._take(current, self._row(r), add(target, offset_by(r, steps[1])), 1))

    def _pairs(self, rows: int) -> View:
        buffer = self.ctx.new_temp("float32", rows * self.width * _PAIR, "pairs")
        return View(buffer, 0, constant(0), (), "float32")

    def _row(self, r) -> Sum:
        """Where row r of a batch starts among the pairs."""
        return offset_by(r, self.width * _PAIR)

    def _sort_groups(self, pairs: View, row: Sum, source: Sum) -> None:
        groups = self.width // GROUP
        for start in range(0, groups, MAX_REPEAT):
            at, n = constant(start * GROUP), min(MAX_REPEAT, groups - start)
            heads = [pairs.head(add(row, constant(start * GROUP * _PAIR))), self.src.head(add(source, at)), self.table.head(at)]
            self.emitter.issue("sort32", *heads, n)

    def _take(self, pairs: View, row: Sum, target: Sum, rows: int) -> None:
        """The places of the first pairs of some rows, one row after the other."""
        heads, pitch = [self.dst.head(target), pairs.retyped("int32").head(row)], self.width * _PAIR // pairs.block
        self.emitter.issue("gather_mask", *heads, _ODD_LANES, self.wanted * _PAIR, rows, 1, pitch)

    # -- merging ------------------------------------------------------------------------------------------------------

    def _merge(self, runs: Runs, source: View, out: View, rows: int) -> None:
        """Runs by fours, in every row of a batch."""
        fours, rest = divmod(runs.count, WAYS)
        if rest == 0 and runs.last != runs.length:
            fours, rest = fours - 1, WAYS
        if rest == 0 and runs.length == runs.pitch:
            # Full runs back to back: one instruction goes through the whole batch.
            self._merge_repeated(source, out, constant(0), runs.length, rows * fours)
            return
        self.emitter.repeat(rows, lambda r: self._merge_row(runs, source, out, self._row(r), fours, rest), fours + 1)

    def _merge_row(self, runs: Runs, source: View, out: View, row: Sum, fours: int, rest: int) -> None:
        if runs.length == runs.pitch:
            self._merge_repeated(source, out, row, runs.length, fours)
        else:
            step, lengths = WAYS * runs.pitch * _PAIR, [runs.length] * WAYS

            def one(g):
                self._merge_some(source, out, add(row, offset_by(g, step)), add(row, offset_by(g, sum(lengths) * _PAIR)), runs, lengths)

            self.emitter.repeat(fours, one)
        if rest:
            start = constant(fours * WAYS * runs.pitch * _PAIR), constant(fours * WAYS * runs.length * _PAIR)
            self._merge_some(source, out, add(row, start[0]), add(row, start[1]), runs, [runs.length] * (rest - 1) + [runs.last])

    def _merge_repeated(self, source: View, out: View, at: Sum, length: int, repeats: int) -> None:
        for start in range(0, repeats, MAX_REPEAT):
            first = add(at, constant(start * WAYS * length * _PAIR))
            queues = [source.head(add(first, constant(q * length * _PAIR))) for q in range(WAYS)]
            self.emitter.issue("mrg_sort", out.head(first), *queues, *[length] * WAYS, _VALID[WAYS], min(MAX_REPEAT, repeats - start))

    def _merge_some(self, source: View, out: View, at: Sum, to: Sum, runs: Runs, lengths: list[int]) -> None:
        """Merge the runs of these lengths that start at `at`; a single one is copied."""
        if len(lengths) == 1:
            blocks = lengths[0] * _PAIR // source.block
            self.emitter.issue("copy_ub_to_ub", out.head(to), source.head(at), 1, blocks, 0, 0)
            return
        # Queues that take no part have length 0 and any address.
        present = [q if q < len(lengths) else 0 for q in range(WAYS)]
        queues = [source.head(add(at, constant(q * runs.pitch * _PAIR))) for q in present]
        sizes = lengths + [0] * (WAYS - len(lengths))
        self.emitter.issue("mrg_sort", out.head(to), *queues, *sizes, _VALID[len(lengths)], 1)


def _moved(at, strides, index):
    return tuple(add(a, offset_by(index, s)) for a, s in zip(at, strides))


__all__ = ["GROUP", "lower_argsort"]
