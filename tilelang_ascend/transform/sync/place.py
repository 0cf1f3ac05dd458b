"""Write the flags and barriers of a `SyncPlan` into the IR."""

from __future__ import annotations

from collections import defaultdict

from ...analysis.dependence.program import QUEUES, Block, Branch, Loop, Program
from ...analysis.index.linear import Linear
from ...ir import For, IfThenElse, While, imm, intrin, seq, stmts_of, substitute_expr
from .plan import DRAIN, Edge, Slot, SyncPlan

SCALAR_SETS = {"aic": "FIX", "aiv": "MTE3"}
"""Which pipe sets flags between cores for the scalar unit."""


def place_sync(func, program: Program, plan: SyncPlan):
    """`func` with the synchronisation of `plan`. Statements carry the attr `core`, which `split_cores` takes off
    again."""
    return func.with_body(_Writer(plan).block(program.root, func.body))


class _Writer:
    def __init__(self, plan: SyncPlan):
        self.ids = plan.ids
        self.at: dict = defaultdict(list)
        for edge in plan.edges:
            self._edge(edge)
        for b in plan.barriers:
            pipe = "ALL" if b.queue is None else QUEUES[b.queue][1]
            self._add(b.at, intrin("pipe_barrier", pipe=pipe, core=b.core, span=_span(b.stmt)))
        for entries in self.at.values():
            entries.sort(key=lambda entry: entry[0])

    def _add(self, slot: Slot, *stmts) -> None:
        self.at[id(slot.block), slot.gap].extend((slot.phase, s) for s in stmts)

    def _edge(self, e: Edge) -> None:
        rotate = e.ring if not e.cross else None
        self._add(e.set_at, *self._set(e, rotate.set_form.expr() if rotate else 0, e.src_stmt))
        self._add(e.wait_at, self._wait(e, rotate.wait_form.expr() if rotate else 0, e.dst_stmt))
        if e.distance:
            home = e.home
            if e.primed:
                self._add(e.prime_at, *(s for v in _primes(e) for s in self._set(e, v, e.dst_stmt)))
            if e.drained:
                self._add(Slot(home.parent, home.position + 1, DRAIN), *(self._wait(e, v, e.src_stmt) for v in _drains(e)))

    def _set(self, e: Edge, value, stmt) -> list:
        (core, source), (_, destination) = QUEUES[e.src], QUEUES[e.dst]
        span = _span(stmt)
        if not e.cross:
            return [intrin("set_flag", self._id(e, value), event=f"{source}_{destination}", core=core, span=span)]
        # No flag between cores is set by the scalar unit: it waits until another pipe may do it.
        first = [intrin("pipe_barrier", pipe="ALL", core=core, span=span)] if source == "S" else []
        pipe = SCALAR_SETS[core] if source == "S" else source
        return [*first, intrin("cross_core_set_flag", self._id(e, 0), mode="2", pipe=pipe, core=core, span=span)]

    def _wait(self, e: Edge, value, stmt):
        (_, source), (core, destination) = QUEUES[e.src], QUEUES[e.dst]
        if e.cross:
            return intrin("cross_core_wait_flag", self._id(e, 0), core=core, span=_span(stmt))
        return intrin("wait_flag", self._id(e, value), event=f"{source}_{destination}", core=core, span=_span(stmt))

    def _id(self, e: Edge, value):
        base = self.ids[e.flags]
        if isinstance(value, int):
            return imm(base + value)
        return value + base if base else value

    # ---- rebuilding the statement tree

    def block(self, block: Block, stmt):
        items = stmts_of(stmt)
        nested = {n.position: n for n in block.nodes if isinstance(n, (Loop, Branch))}
        out = []
        for position, item in enumerate(items):
            out += self._gap(block, position)
            node = nested.get(position)
            out.append(item if node is None else self._nested(node, item))
        return seq(out + self._gap(block, len(items)))

    def _gap(self, block: Block, gap: int) -> list:
        return [s for _, s in self.at.get((id(block), gap), ())]

    def _nested(self, node, s):
        if isinstance(s, IfThenElse):
            other = None if s.else_case is None else self.block(node.other, s.else_case)
            return IfThenElse(s.condition, self.block(node.then, s.then_case), other, span=s.span)
        body = self.block(node.body, s.body)
        if isinstance(s, While):
            return While(s.condition, body, span=s.span)
        return For(s.loop_var, s.min, s.extent, s.kind, body, annotations=dict(s.annotations), span=s.span)


def _span(stmt):
    return getattr(stmt, "span", None)


def _primes(e: Edge) -> list:
    if e.cross or e.ring is None:
        return [0] * e.distance
    if e.distance == e.ring.count:
        return list(range(e.ring.count))
    return [_at_iteration(e, Linear(i)) for i in range(e.distance)]


def _drains(e: Edge) -> list:
    if e.every_id_primed:
        return _primes(e)
    return [_at_iteration(e, Linear(e.loop.trip + i)) for i in range(e.distance)]


def _at_iteration(e: Edge, iteration: Linear):
    """The id the wait of `e` uses at one iteration of its loop."""
    return substitute_expr(e.ring.wait_form.expr(), {e.loop.atom.expr: iteration.expr()})


__all__ = ["place_sync"]
