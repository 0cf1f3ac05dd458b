"""merge_steps: let one step of an attention loop work on the keys of several.

Before:  for k in range(16): copy(K[k * 64 : +64], k_s); gemm(q_s, k_s, s); …  # s: 64 x 64, a running maximum, sums relative to it
After:   for k in range(4): copy(K[k * 256 : +256], k_s); gemm(q_s, k_s, s); …  # s: 64 x 256, the same statements

GPU kernels have tiles for the registers of a GPU. Here every step costs a way from the cube core to the vector cores and back, and the output
crosses once a step, whatever the number of keys. Tiles and loops of nests that count keys get longer. That means the same

* if each part of a longer statement is what the step it stands for did (`same_work`), or combines the keys of all of them by the sum, maximum or
  product that it is, and
* if what goes from step to step is a running maximum and sums relative to it (analysis/tiles/running_sums.py): several steps that follow each
  other, and one with the keys of all, then leave the same but for rounding.

Where the number of steps is no multiple, or known at run time only, the last long step has fewer keys than it has room for (fewer_keys.py). Where
something would see that, steps that are left over stay as they are, in a loop behind. A loop that may have no step at all gets one without any key, so that
it may follow others without a pause (`chain_tiles`), and what that leaves is filled again as it was:
    fill(o, 0); for k in range(n): …  ->  fill(o, 0); for k in range(max(ceildiv(n, 4), 1)): …
                                          if n <= 0: fill(o, 0)

Steps whose keys lie in pages load them page by page, and ask for each key whose it is (keyed_body.py); loops that go from the last key to the first, and
masks of some steps only, are written in other words for that (step_forms.py).

Requires: Tile IR after coarsen_blocks, before separate_products. Ensures: same values but for the rounding of sums; unless products may be made in
parts, two accumulators of scores fit L0C, and two versions of every longer operand L1.
"""

from __future__ import annotations

from functools import cached_property

from ...analysis.index.data_names import DataNames
from ...analysis.index.known_lets import known_lets
from ...analysis.index.safe_values import safe_values
from ...analysis.index.value_facts import at_loops
from ...analysis.tiles.running_sums import NoRunningSum, check_running_sums
from ...analysis.tiles.split_axis import SplitPlan
from ...ir import (
    Bind,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    PrimFunc,
    Stmt,
    StmtMutator,
    Var,
    const_int,
    dtype_of,
    imm,
    redeclared,
    renew,
    seq,
    statements,
    stmts_of,
    substitute,
    sym,
    tirx,
)
from ...ir.functions import fixed_bytes
from ...ir.grids import Grid
from ...ir.wellformed import elements_of
from ...isa.base import Space
from ...tile import FILL, GEMM, is_op, tile_op
from ...tile.uses import covers_whole, loads_in, uses_of
from .fewer_keys import with_fewer_keys
from .key_steps import LongStep, counts_otherwise, key_plans, number_of, products_of, room_beside_sums, used_outside
from .product_grid import ACCUMULATOR_BYTES
from .step_forms import most_by_tables, other_form

VERSIONS = 2
"""Of accumulators of scores in L0C and of operands in L1, that have to fit."""
LONG_STEPS = ((512, 6, 2), (1024, 16, 16))
"""(keys of a step whose products are made in parts, steps a core has to have of them, steps of a tile if their number is not known or keys are values, too,
and come twice): as the best hand-written kernels take. What crosses once a step costs less with longer ones, filling and draining the pipeline more;
keys that a step has room for and a tile has not got are worked on all the same."""
FEWEST_STEPS, FEWEST_EXPECTED = 4, 2
"""The same of shorter ones: a core with fewer has nothing that could go on beside each other on both kinds of core."""
MOST_LEFT = 3
"""Steps behind a loop with an unknown number of steps: they are worth no schedule of their own."""
NOBODY_KNOWS = 1 << 24
"""Steps that no kernel has: nothing but a dtype limits their number."""


def merge_steps(func: PrimFunc, chip, notes: list, merging=None) -> PrimFunc:
    """`func` with fewer and longer steps where that is legal; what was done is told in `notes`. merging: an object whose `merged` becomes true
    then, and whose `in_pieces` says how much longer than fits products may be (`part_products`): 1: `LONG_STEPS`, n: an n-th of that, 0: not at all;
    whose `following` says that tiles follow each other without a pause: steps of all of them are there to be worked on side by side, and whose `relied`
    becomes true if steps are so long for that reason alone; None: nothing is done."""
    if merging is None:
        return func
    merge = _Merge(func, chip, notes, merging)
    body = merge(func.body)
    if not merge.longer:
        return func
    merging.merged = True
    return func.with_body(redeclared(body, {b: [b, new] if both else new for b, (new, both) in merge.longer.items()}))


class _Merge(StmtMutator):
    """longer: tile -> (the longer one, is the old one still used?)."""

    def __init__(self, func: PrimFunc, chip, notes: list, merging):
        self.func, self.body, self.chip, self.notes, self.merging, self.longer = func, func.body, chip, notes, merging, {}

    @cached_property
    def numbers(self) -> dict:
        """Loop -> (does it surely have a step whenever the kernel comes by, the most steps it has)."""
        return at_loops(self.func, lambda facts, s: (facts.positive(s.extent), facts.analyzer.const_int_bound(s.extent).max_value))

    @cached_property
    def lets(self) -> sym.Analyzer:
        """What names stand for."""
        return known_lets(self.body, DataNames(self.body))

    def divides(self, times: int, loop: For) -> bool:
        """True if the number of steps surely is a multiple of `times`."""
        return bool(
            self.lets.can_prove(tirx.EQ(tirx.floormod(loop.extent, imm(times, dtype_of(loop.loop_var))), imm(0, dtype_of(loop.loop_var))))
        )

    def visit_For(self, s: For):
        if s.kind != ForKind.SERIAL or loads_in(s.min) or sum(is_op(x, GEMM) for x in stmts_of(s.body)) < 2:
            return self.generic(s)
        used, read = used_outside(self.body, s)
        merged = self.steps_merged(s, used, read)
        if merged is None and (other := other_form(s, self.numbers[s][1])) is not None:
            self.numbers[other] = self.numbers[s]
            merged = self.steps_merged(other, used, read, apart=True)
        return self.generic(s) if merged is None else merged

    def steps_merged(self, s: For, used: set, read: set, apart: bool = False) -> Stmt | None:
        """A loop with fewer and longer steps; None if that is not possible. used, read: what statements outside of the loop use and read. apart: see
        `LongStep.of`."""
        for keys in key_plans(s):
            times = self.times(s, keys, Grid.of(self.body).most_of_core(self.chip.num_aic) if self.merging.following else 1)
            if times < 2 or any(b in used for b in keys.dims) or counts_otherwise(s.body, keys):
                continue
            try:
                check_running_sums(s, keys, read)
            except NoRunningSum:
                continue
            merged = self.merged(s, keys, times, apart)
            if merged is not None:
                self.merging.relied |= times != self.times(s, keys, 1)
                return merged
        return None

    def times(self, loop: For, keys: SplitPlan, tiles: int) -> int:
        """How many steps may become one, where the steps of so many `tiles` follow each other: as many as fit, rather a divisor of the number of steps."""
        products, steps = products_of(loop), const_int(loop.extent)
        scores = {s.value.args[2].source for s in products} & set(keys.dims)
        if not scores:
            return 1
        beside = room_beside_sums(self.func, loop, keys, self.chip.capacity_bytes(Space.L0C))
        limits = self.limits(products, keys, scores, beside)
        most, known = min(limits), steps is not None
        tables = most_by_tables(loop)
        # Half of them, as under a causal mask.
        expected = steps if known else min(self.numbers[loop][1], tables) // 2
        in_all = tiles * expected
        # Where operands fill L1 first, there are few scores, and loads are what counts; keys that are values, too, fill it until the last product.
        twice = _shared(products, keys)
        if self.merging.in_pieces and beside is None and (limits[0] <= limits[1] or twice):
            self.merging.pieced = True
            one = min(const_int(b.ty.shape[d]) for b, d in keys.dims.items())
            long = max(min(n // one, in_all // fewest, expected // (1 if known and not twice else some)) for n, fewest, some in LONG_STEPS)
            most = max(most, long // self.merging.in_pieces)
        most = min(most, in_all // FEWEST_STEPS, expected // (1 if known else FEWEST_EXPECTED))
        if known or beside is None and tables < NOBODY_KNOWS:
            return next((n for n in range(most, most // 2, -1) if (steps or tables) % n == 0), most)
        if beside is not None:  # A last step of another length would need products of its own.
            return next((n for n in range(most, 1, -1) if self.divides(n, loop)), 1)
        return most if expected < NOBODY_KNOWS else min(most, MOST_LEFT + 1)

    def limits(self, products: list, keys: SplitPlan, scores: set, beside: tuple[int, int] | None) -> tuple[int, int]:
        """How many steps L0C and L1 have room for. `beside`: what there is of L0C beside sums, and how much of that a step takes."""
        operands = {x.source for s in products for x in s.value.args[:2]}
        l0c, need = beside or (self.chip.capacity_bytes(Space.L0C), VERSIONS * sum(ACCUMULATOR_BYTES * elements_of(b) for b in scores))
        rest = self.chip.capacity_bytes(Space.L1) - sum(fixed_bytes(b) for b in operands if b not in keys.dims)
        return l0c // need, rest // (VERSIONS * sum(fixed_bytes(b) for b in operands if b in keys.dims))

    def merged(self, loop: For, keys: SplitPlan, times: int, apart: bool) -> Stmt | None:
        """The loop with `times` steps in one, and one for the steps that are left over; None if a longer statement does not surely do what the
        steps did."""
        k, long = loop.loop_var, LongStep.of(loop, keys, times, apart)
        if long is None:
            return None
        b, d = next(iter(keys.dims.items()))
        n = const_int(b.ty.shape[d])
        if const_int(loop.extent) is not None and const_int(loop.extent) % times == 0:
            out, left = [_steps(loop, imm(const_int(loop.extent) // times, dtype_of(k)), long.body)], False
        elif const_int(loop.extent) is None and self.divides(times, loop):
            out, left = [_steps(loop, tirx.floordiv(loop.extent, imm(times, dtype_of(k))), long.body)], False
        elif (out := self.last_shorter(loop, long.body, long.keys, n, times)) is not None:
            left = False
        elif const_int(loop.extent) is None and times > MOST_LEFT + 1:
            return self.merged(loop, keys, MOST_LEFT + 1, apart)
        else:
            out, left = _some_left(loop, long.body, times), True
        self.longer |= {b: (new, left) for b, new in long.buffers.items()}
        self.notes.append(
            f"steps of a loop are worked on together: {times * n} keys in one instead of {n} cross less often between the cores"
        )
        return seq(out)

    def last_shorter(self, loop: For, whole: Stmt, keys: SplitPlan, n: int, times: int) -> list[Stmt] | None:
        """The loop with long steps (`whole`, whose keys are `keys`), of which the last one may have fewer than `times` times `n` keys, and further ones
        none; None if something would see more."""
        k, kind = loop.loop_var, dtype_of(loop.loop_var)
        total, here = Var("steps", kind), Var("steps_here", kind)
        body = with_fewer_keys(stmts_of(whole), keys, n * times, here * n, safe_values(self.func))
        if body is None:
            return None
        left = Bind(here, tirx.max(tirx.min(total - k * times, imm(times, kind)), imm(0, kind)), span=loop.span)
        number, known = tirx.floordiv(total + (times - 1), imm(times, kind)), const_int(loop.extent) is not None
        again = [] if known or self.numbers[loop][0] else self.fills(loop, total)
        if not known and again is not None:
            number = tirx.max(number, imm(1, kind))
        return [Bind(total, tirx.max(loop.extent, imm(0, kind)), span=loop.span), _steps(loop, number, seq(left, body)), *(again or [])]

    def fills(self, loop: For, total) -> list[Stmt] | None:
        """Statements that fill what `loop` writes and others read as it was in front of it, if its number of steps, `total`, is none; None if
        that is no constant."""
        front = next((stmts_of(s)[: stmts_of(s).index(loop)] for s in [self.body, *statements(self.body)] if loop in stmts_of(s)), [])
        fills = []
        for b in sorted(uses_of(loop.body).writes & used_outside(self.body, loop)[1], key=lambda b: b.name):
            last = next((s for s in reversed(front) if b in uses_of(s).writes), None)
            if last is None or not is_op(last, FILL) or not covers_whole(last.value.args[0]) or loads_in(last.value.args[1]):
                return None
            fills.append(tile_op("fill", *last.value.args, span=last.span))  # A statement stands in one place.
        return [IfThenElse(tirx.LE(total, imm(0, dtype_of(total))), seq(fills), None, span=loop.span)] if fills else []


def _steps(loop: For, number, body: Stmt) -> For:
    """The loop with `number` steps of another body."""
    return For(loop.loop_var, imm(0, dtype_of(loop.loop_var)), number, loop.kind, body, annotations=dict(loop.annotations), span=loop.span)


def _some_left(loop: For, whole: Stmt, times: int) -> list[Stmt]:
    """The loop with long steps (`whole`), and one for the steps that are left over."""
    known, kind = const_int(loop.extent), dtype_of(loop.loop_var)
    if known is not None:
        return [
            _steps(loop, imm(known // times, kind), whole),
            _behind(loop, number_of(loop, imm(known // times * times, kind)), imm(known % times, kind)),
        ]
    # Names of their own: what is numbered by one of them does not depend on the other.
    number, some, zero = Var("steps", kind), Var("steps_left", kind), imm(0, kind)
    rest = tirx.min(tirx.max(loop.extent - number * times, zero), imm(times - 1, kind))
    return [
        Bind(number, tirx.max(tirx.floordiv(loop.extent, imm(times, kind)), zero), span=loop.span),
        Bind(some, rest, span=loop.span),
        _steps(loop, number, whole),
        _behind(loop, number_of(loop, number * times), some),
    ]


def _behind(loop: For, first, steps) -> Stmt:
    """`steps` iterations of `loop` from `first` on, with variables of their own."""
    k = Var(loop.loop_var.name, dtype_of(loop.loop_var))
    body = renew(substitute(loop.body, {loop.loop_var: first + k}))
    return For(k, imm(0, dtype_of(k)), steps, loop.kind, body, annotations=dict(loop.annotations), span=loop.span)


def _shared(products: list[Evaluate], keys: SplitPlan) -> bool:
    """Do products into several accumulators have an operand with keys in common? Each may load it for itself (own_loads.py)."""
    into: dict = {}
    for s in products:
        for x in s.value.args[:2]:
            into.setdefault(x.source, set()).add(s.value.args[2].source)
    return any(len(into.get(b, ())) > 1 for b in keys.dims)


__all__ = ["merge_steps"]
