"""The synchronisation of one kernel as data: edges, barriers and the places they go to.

A *slot* is (block, gap, phase): gap g of a block lies before its statement number g. Within a gap the phases keep an
order that never makes a set wait for something it does not need.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from ...analysis.dependence.happens_before import BARRIER, BARRIER_ALL, CROSS_SET, CROSS_WAIT, SET, WAIT, Timeline
from ...analysis.dependence.program import QUEUES, Block, Loop
from ...analysis.dependence.trace import GAP, SYNC, Trace
from ...analysis.index.linear import Linear

GUARD_WAIT, SETS, BARRIERS, WAITS, GUARD_SET, DRAIN, PRIME = range(7)
"""Phases of a gap, in emission order."""


@dataclass(frozen=True)
class Slot:
    """A place between two statements."""

    block: Block
    gap: int
    phase: int

    def __hash__(self):
        return hash((id(self.block), self.gap, self.phase))


@dataclass(frozen=True)
class Ring:
    """Ids of a rotating flag: setters use `base + set_form`, waiters `base + wait_form`, both forms in 0 .. count-1."""

    count: int
    set_form: Linear
    wait_form: Linear


@dataclass(eq=False)
class Edge:
    """One flag (or ring of flags): everything queue `src` did before `set_at` is complete when queue `dst` passes
    `wait_at`.

    `distance` > 0: the wait of iteration i of `loop` takes the set of iteration i - distance; `distance` sets before
    the outermost loop ("prime") and as many waits after it ("drain") keep the count right. `cross`: between the two
    cores of a block. `twin`: the edge of an earlier loop whose flags this one takes over as they are, all up: what would take them down
    behind the earlier loop (not `drained`) and raise them again (not `primed`) is left out.
    """

    src: int
    dst: int
    set_at: Slot
    wait_at: Slot
    loop: Loop | None = None
    distance: int = 0
    ring: Ring | None = None
    src_stmt: object = None
    dst_stmt: object = None
    depth: int = 0
    twin: Edge | None = None
    primed: bool = True
    drained: bool = True

    @property
    def flags(self) -> Edge:
        """The edge whose ids this one uses."""
        return self if self.twin is None else self.twin.flags

    @property
    def cross(self) -> bool:
        return QUEUES[self.src][0] != QUEUES[self.dst][0]

    @property
    def count(self) -> int:
        """Flag ids the edge needs."""
        return self.ring.count if self.ring else 1

    @property
    def every_id_primed(self) -> bool:
        """All ids are up outside of the loop, so the primes may move out of enclosing loops."""
        return self.cross or self.ring is None or self.distance == self.ring.count

    @property
    def home(self) -> Loop:
        """The loop around which the flag is primed and drained: the outermost one when the state outside does not
        depend on where the loop stopped."""
        loop = self.loop
        if self.every_id_primed:
            block = loop.parent
            while block.owner is not None:
                if isinstance(block.owner, Loop):
                    loop = block.owner
                block = block.owner.parent
        return loop

    def __repr__(self):
        kind = f"distance {self.distance}" if self.distance else "forward"
        src, dst = (".".join(QUEUES[queue]) for queue in (self.src, self.dst))
        return f"<{src} -> {dst}, {kind}, gaps {self.set_at.gap}, {self.wait_at.gap}>"


@dataclass(eq=False)
class Barrier:
    """`PipeBarrier` of one queue, or of all pipes of `core` when `queue` is None. `note`: why nothing weaker was
    possible."""

    core: str
    queue: int | None
    at: Slot
    stmt: object = None
    fixed: bool = False
    note: str = ""


@dataclass(eq=False)
class SyncPlan:
    """All synchronisation of one kernel."""

    edges: list[Edge] = field(default_factory=list)
    barriers: list[Barrier] = field(default_factory=list)
    ids: dict = field(default_factory=dict)
    stopped: int = 0
    """Rings that became single flags for want of ids."""

    def without(self, *items) -> SyncPlan:
        """A copy that lacks some edges and barriers."""
        return SyncPlan([e for e in self.edges if e not in items], [b for b in self.barriers if b not in items], self.ids)

    @property
    def notes(self) -> list[str]:
        """Why there are barriers for all pipes."""
        return [b.note for b in self.barriers if b.note]


def values_primed(edge: Edge, env: dict) -> list:
    """Ids (without base) that are raised before the loop."""
    if edge.cross or edge.ring is None:
        return [0] * max(edge.distance, 1)
    if edge.distance == edge.ring.count:
        return list(range(edge.ring.count))
    return [edge.ring.wait_form.evaluate({**env, edge.loop.atom: i}) for i in range(edge.distance)]


def values_drained(edge: Edge, env: dict) -> list:
    """Ids (without base) that are still up after the loop."""
    if edge.every_id_primed:
        return values_primed(edge, env)
    trip = edge.loop.trip
    return [edge.ring.wait_form.evaluate({**env, edge.loop.atom: trip + i}) for i in range(edge.distance)]


class Binder:
    """Puts the flags of a plan into traces. Events carry their owner as last item, so that single edges can be left
    out."""

    def __init__(self, plan: SyncPlan):
        self.at: dict = defaultdict(list)
        for edge in plan.edges:
            self._edge(edge)
        for barrier in plan.barriers:
            self._add(barrier.at, lambda env, b=barrier: [_barrier_event(b)])
        for entries in self.at.values():
            entries.sort(key=lambda entry: entry[0])

    def _add(self, slot: Slot, make) -> None:
        self.at[id(slot.block), slot.gap].append((slot.phase, make))

    def _edge(self, edge: Edge) -> None:
        ring = edge.ring
        set_form = ring.set_form if ring and not edge.cross else None
        wait_form = ring.wait_form if ring and not edge.cross else None
        self._add(edge.set_at, lambda env: [self._set(edge, _value(set_form, env))])
        self._add(edge.wait_at, lambda env: [self._wait(edge, _value(wait_form, env))])
        if edge.distance:
            home = edge.home
            before = Slot(home.parent, home.position, PRIME)
            after = Slot(home.parent, home.position + 1, DRAIN)
            if edge.primed:
                self._add(before, lambda env: [self._set(edge, v) for v in values_primed(edge, env)])
            if edge.drained:
                self._add(after, lambda env: [self._wait(edge, v) for v in values_drained(edge, env)])

    def _set(self, edge: Edge, value):
        key = edge.flags, value
        return (CROSS_SET, key, edge.src, edge) if edge.cross else (SET, key, edge.src, edge.dst, edge)

    def _wait(self, edge: Edge, value):
        key = edge.flags, value
        return (CROSS_WAIT, key, QUEUES[edge.dst][0], edge) if edge.cross else (WAIT, key, edge.src, edge.dst, edge)

    def bind(self, trace: Trace) -> Timeline:
        """`trace` with the synchronisation in place of the gaps."""
        out = []
        at = self.at
        for event in trace.events:
            if event[0] != GAP:
                assert event[0] != SYNC, "the kernel has flags already"
                out.append(event)
                continue
            entries = at.get((id(event[1]), event[2]))
            if entries:
                for _, make in entries:
                    out.extend(make(event[3]))
        return Timeline(trace, out)


def _value(form: Linear | None, env: dict) -> int:
    return 0 if form is None else form.evaluate(env)


def _barrier_event(barrier: Barrier):
    return (BARRIER_ALL, barrier.core, barrier) if barrier.queue is None else (BARRIER, barrier.queue, barrier)


__all__ = [
    "BARRIERS", "Barrier", "Binder", "DRAIN", "Edge", "GUARD_SET", "GUARD_WAIT", "PRIME", "Ring", "SETS", "Slot",
    "SyncPlan", "WAITS", "values_drained", "values_primed",
]  # fmt: skip
