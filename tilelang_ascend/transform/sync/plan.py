"""The synchronisation of one kernel as data: edges, barriers and the places they go to.

A *slot* is (block, gap, phase): gap g of a block lies before its statement number g. Within a gap the phases keep an
order that never makes a set wait for something it does not need.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...analysis.dependence.happens_before import BARRIER, BARRIER_ALL, CROSS_SET, CROSS_WAIT, SET, WAIT, WIDTH, Timeline, rows_of
from ...analysis.dependence.program import CORES, QUEUES, Block, Loop
from ...analysis.dependence.trace import Trace
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
    behind the earlier loop (not `drained`) and raise them again (not `primed`) is left out. `early`: raised in front of the first instruction
    of the kernel instead of right in front of the loop.
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
    early: bool = False

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

    @property
    def prime_at(self) -> Slot:
        """Where the flag is raised before the loop."""
        home = self.home
        return Slot(home.parent, home.parent.nodes[0].position if self.early else home.position, PRIME)

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

    @property
    def scarcity(self) -> tuple[int, int]:
        """Barriers for all pipes with a note, and rings that became single flags."""
        return len(self.notes), self.stopped


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
    """Puts the flags of a plan into traces. Edges and barriers are the owners of their events, so that single ones can be left out. What one of
    them adds to a trace is remembered there: plans that are tried differ in few."""

    def __init__(self, plan: SyncPlan):
        self.plan = plan

    def bind(self, trace: Trace) -> Timeline:
        """`trace` with the synchronisation in place of the gaps."""
        owners = [*self.plan.edges, *self.plan.barriers]
        added = [_added(trace, owner) for owner in owners]
        rows, at = rows_of(trace)
        own = np.repeat(np.arange(len(owners)), [len(x) for x in added])
        new = np.concatenate([*added, _NOTHING])
        order = np.argsort(np.concatenate([at * PHASES, new[:, 0]]), kind="stable")
        table = np.zeros((len(new), WIDTH), np.int64)
        table[:, 0], table[:, 2:4], table[:, 8] = new[:, 1], new[:, 3:5], own
        flagged = np.flatnonzero(new[:, 2] >= 0)
        flags: dict = {}
        of_owner = np.array([flags.setdefault(x.flags, len(flags)) if isinstance(x, Edge) else 0 for x in owners], np.int64)
        codes = np.zeros(len(rows) + len(new), np.int64)
        codes[len(rows) + flagged] = of_owner[own[flagged]] * _VALUES + new[flagged, 2] + 1
        table = np.concatenate([rows, table])[order]
        codes = codes[order]
        met = np.flatnonzero(codes)
        found, first, number = np.unique(codes[met], return_index=True, return_inverse=True)
        by_place = np.argsort(first)
        rank = np.empty(len(found), np.int64)
        rank[by_place] = np.arange(len(found))
        table[met, 1] = rank[number]
        edges = list(flags)
        keys = [(edges[(code - 1) // _VALUES], (code - 1) % _VALUES) for code in found[by_place].tolist()]
        return Timeline(trace, table, keys, owners)


PHASES = 8
"""More than there are in a gap."""
UNKNOWN = 1 << 15
"""The id of a flag nobody can tell: always the same one."""
_VALUES = 1 << 16
"""More than a flag has ids."""
_NOTHING = np.zeros((0, 5), np.int64)


def _added(trace: Trace, owner) -> np.ndarray:
    """Events that an edge or a barrier adds: place (event of the trace, phase), kind, value of the flag or -1, queue, core."""
    found = trace.memo.get(owner)
    if found is None:
        found = trace.memo[owner] = _of_barrier(trace, owner) if isinstance(owner, Barrier) else _of_edge(trace, owner)
    return found


def _of_barrier(trace: Trace, barrier: Barrier) -> np.ndarray:
    if barrier.queue is None:
        return _events(trace, barrier.at, BARRIER_ALL, 0, CORES.index(barrier.core), lambda env: (-1,))
    return _events(trace, barrier.at, BARRIER, barrier.queue, 0, lambda env: (-1,))


def _of_edge(trace: Trace, edge: Edge) -> np.ndarray:
    ring = edge.ring if not edge.cross else None
    raised = (CROSS_SET if edge.cross else SET, edge.src, 0)
    lowered = (CROSS_WAIT, 0, CORES.index(QUEUES[edge.dst][0])) if edge.cross else (WAIT, edge.dst, 0)
    found = [
        _events(trace, edge.set_at, *raised, lambda env: (_value(ring and ring.set_form, env),)),
        _events(trace, edge.wait_at, *lowered, lambda env: (_value(ring and ring.wait_form, env),)),
    ]
    if edge.distance:
        home = edge.home
        if edge.primed:
            found.append(_events(trace, edge.prime_at, *raised, lambda env: values_primed(edge, env)))
        if edge.drained:
            found.append(_events(trace, Slot(home.parent, home.position + 1, DRAIN), *lowered, lambda env: values_drained(edge, env)))
    return np.concatenate(found)


def _events(trace: Trace, slot: Slot, kind: int, queue: int, core: int, values) -> np.ndarray:
    """`values` of the flag each time the trace comes by `slot`."""
    visits = trace.gaps.get((id(slot.block), slot.gap), ())
    rows = [
        (number * PHASES + slot.phase, kind, UNKNOWN if value is None else value, queue, core)
        for number, env in visits
        for value in values(env)
    ]
    return np.array(rows, np.int64) if rows else _NOTHING


def _value(form: Linear | None, env: dict) -> int:
    return 0 if form is None else form.evaluate(env)


__all__ = [
    "BARRIERS", "Barrier", "Binder", "DRAIN", "Edge", "GUARD_SET", "GUARD_WAIT", "PRIME", "Ring", "SETS", "Slot",
    "SyncPlan", "WAITS", "values_drained", "values_primed",
]  # fmt: skip
