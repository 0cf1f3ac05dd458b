"""shorten_steps: steps of an attention loop that L0C has no room for are several shorter ones.

Before:  for k in range(16): copy(Q[k * 128 : +128], q); gemm(k_s, q, s); …; gemm(ds, k_s, dq); atomic_add(dQ[k * 128 : +128], dq)    # s, dq: 64 KiB each
After:   for k in range(32): copy(Q[k * 64 : +64], q); gemm(k_s, q, s); …; gemm(ds, k_s, dq); atomic_add(dQ[k * 64 : +64], dq)

Results of one product would wait until those of another one have left. Only where sums over all steps stay in L0C, and nothing but what a step has rows or columns
for crosses to the vector cores (`room_beside_sums`): elsewhere longer steps spare ways between the cores. What it means is proven as for
`merge_steps`: the shorter steps, taken together again, are the steps there were.

Requires: Tile IR after merge_steps, before separate_products. Ensures: same values but for the rounding of sums.
"""

from __future__ import annotations

from functools import cached_property

from ...analysis.index.data_names import DataNames
from ...analysis.index.value_facts import at_loops
from ...analysis.tiles.running_sums import NoRunningSum, check_running_sums
from ...analysis.tiles.same_work import same_work
from ...analysis.tiles.split_axis import SplitPlan, plan_along
from ...ir import (
    AllocBuffer,
    For,
    ForKind,
    PrimFunc,
    Stmt,
    StmtMutator,
    Var,
    const_int,
    dtype_of,
    free_vars,
    imm,
    map_children,
    redeclared,
    seq,
    stmts_of,
    substitute,
    sym,
)
from ...isa.base import Space
from ...isa.units import FRACTAL_ROWS
from ...tile.uses import loads_in
from .divided_body import DividedBody
from .key_steps import LongStep, counts_otherwise, key_plans, products_of, room_beside_sums, used_outside

SHORTEST = 32
"""Keys of a step: shorter ones are mostly waiting."""
MOST_STEPS = 1 << 24
"""Of loops: so many times as many steps are a number, too."""


class _Shorten(StmtMutator):
    """shorter: tile -> the shorter one."""

    def __init__(self, func: PrimFunc, l0c: int, notes: list):
        self.func, self.l0c, self.notes, self.shorter = func, l0c, notes, {}

    def visit_For(self, s: For):
        if s.kind != ForKind.SERIAL or const_int(s.min) != 0 or len(products_of(s)) < 2:
            return self.generic(s)
        used, read = used_outside(self.func.body, s)
        for keys in key_plans(s):
            parts = self.parts(s, keys)
            if parts < 2 or any(b in used for b in keys.dims) or counts_otherwise(s.body, keys):
                continue
            shortened = self.shortened(s, keys, parts, read)
            if shortened is not None:
                return shortened
        return self.generic(s)

    @cached_property
    def most(self) -> dict:
        """Loop -> the most steps it has."""
        return at_loops(self.func, lambda facts, s: facts.most(s.extent))

    def parts(self, loop: For, keys: SplitPlan) -> int:
        """How many steps there should be for one: as few as L0C has room for."""
        beside = room_beside_sums(self.func, loop, keys, self.l0c)
        if beside is None or self.most[loop] > MOST_STEPS:
            return 1
        (left, need), n = beside, min(const_int(b.ty.shape[d]) for b, d in keys.dims.items())
        some = (p for p in (1, 2, 4, 8) if n % (p * FRACTAL_ROWS) == 0 and n // p >= SHORTEST and p * left >= need)
        return next(some, 1)

    def shortened(self, loop: For, keys: SplitPlan, parts: int, read: set) -> Stmt | None:
        """The loop with `parts` steps for one; None if these, together, are not surely what one was."""
        k, which = loop.loop_var, Var("part", dtype_of(loop.loop_var))
        divided = DividedBody(keys, which, parts)
        body = divided(seq([AllocBuffer(b) for b in keys.dims], loop.body))
        new = Var(k.name, dtype_of(k))
        body = _Simplified(new, DataNames(self.func.body))(substitute(body, {k: new // parts, which: new % parts}))
        body = seq(stmts_of(body)[len(keys.dims) :])
        extent = loop.extent * parts if const_int(loop.extent) is None else imm(const_int(loop.extent) * parts, dtype_of(k))
        short = For(new, loop.min, extent, loop.kind, body, annotations=dict(loop.annotations), span=loop.span)
        b, d = next(iter(keys.dims.items()))
        again = plan_along(short.body, divided.buffers[b], d)
        if len(again.dims) != len(keys.dims) or counts_otherwise(short.body, again):
            return None
        try:
            check_running_sums(short, again, read)
        except NoRunningSum:
            return None
        long = LongStep.of(short, again, parts)
        if long is None:
            return None
        whole = seq([AllocBuffer(long.buffers[divided.buffers[x]]) for x in keys.dims], substitute(long.body, {new: k}))
        if not same_work(seq([AllocBuffer(x) for x in keys.dims], loop.body), whole):
            return None
        self.shorter |= {old: divided.buffers[old] for old in keys.dims}
        n = const_int(b.ty.shape[d])
        self.notes.append(f"steps of a loop are larger than L0C: they are worked on as {parts} of {n // parts} keys each instead of {n}")
        return short


class _Simplified(StmtMutator):
    """Indices with a variable, simplified: numbers of steps and of their parts become those of shorter steps. Sums with data may wrap: they stay as they are."""

    def __init__(self, var: Var, data: DataNames):
        self.var, self.data, self.analyzer = var, data, sym.Analyzer()

    def expr(self, e):
        if dtype_of(e).startswith("int") and self.var in free_vars(e) and not loads_in(e) and not self.data.is_data(e):
            return self.analyzer.simplify(e)
        return map_children(e, self.expr)


def shorten_steps(func: PrimFunc, chip, notes: list, merging=None) -> PrimFunc:
    """Apply to a Tile IR function; what was done is told in `notes`. merging: an object whose `merged` becomes true then; None: nothing is done."""
    if merging is None:
        return func
    shorten = _Shorten(func, chip.capacity_bytes(Space.L0C), notes)
    body = shorten(func.body)
    if not shorten.shorter:
        return func
    merging.merged = True
    return func.with_body(redeclared(body, {b: [new] for b, new in shorten.shorter.items()}))


__all__ = ["shorten_steps"]
