"""Give flags their ids within the few a program may use: 6 for each pair of pipes, 11 for each block across cores.

When ids run out, in this order: flags that can share one id share it; a loop takes over the flags of an earlier one as they are; flags of the
same statement list are merged (set later, waited for earlier); rotating flags stop rotating. What remains is a barrier for all pipes, with a
note.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import permutations

from ...analysis.dependence.happens_before import Timeline
from ...analysis.dependence.program import QUEUES, Branch
from ...analysis.dependence.trace import Trace
from ...errors import CompileError
from .plan import BARRIERS, Barrier, Binder, Edge, Slot, SyncPlan


class TurnsInTheWay(Exception):
    """There are too few ids, and flags that several statements use in turn cannot do with fewer."""


class IdAssigner:
    """Assigns ids to the edges of a plan; `traces` are used to prove that sharing an id is safe. `cross_flags`: ids there are across cores."""

    def __init__(self, plan: SyncPlan, traces: list, chip, credit: int, cross_flags: int):
        self.traces, self.credit = traces, credit
        self._set_plan(plan)
        self.telling = 0
        """The trace that refused something last: it is asked first."""
        self.settled: set = set()
        """Pools (queues) in which no loop takes over flags any more."""
        self.before: dict = {}
        """Pool -> the plan before loops took over flags there, oldest first."""
        self.limit = {False: chip.usable_event_ids, True: cross_flags}

    def assign(self) -> SyncPlan:
        """A plan with `ids`: edge -> first id."""
        while True:
            pools = self._pools()
            full = next((key for key, edges in pools.items() if sum(e.count for e in edges) > self._limit(key)), None)
            if full is None:
                break
            if not self._share(pools[full], self._limit(full)):
                self._shrink(pools[full])
        ids = dict(self.plan.ids)
        for edges in self._pools().values():
            taken = {i for e in edges if e in ids for i in range(ids[e], ids[e] + e.count)}
            for edge in edges:
                if edge in ids:
                    continue
                base = next(b for b in range(64) if not taken & set(range(b, b + edge.count)))
                ids[edge] = base
                taken |= set(range(base, base + edge.count))
        self.plan.ids = ids
        return self.plan

    def _set_plan(self, plan: SyncPlan, timelines: _Timelines | None = None) -> None:
        """`timelines`: those of `plan`, if it was tried and is right."""
        self.plan, self._bound, self.right = plan, timelines, timelines is not None

    def _limit(self, key) -> int:
        return self.limit[key == "cross"]

    def _pools(self) -> dict:
        """Edges that compete for the same ids; the ones whose ids are settled by sharing are left out."""
        pools = defaultdict(list)
        for edge in self.plan.edges:
            if edge not in self.plan.ids and edge.twin is None:
                pools["cross" if edge.cross else (edge.src, edge.dst)].append(edge)
        return pools

    def _timelines(self, plan: SyncPlan) -> _Timelines:
        return _Timelines(plan, self.traces)

    def _clean(self, timelines: _Timelines, rename=None) -> bool:
        for n in sorted(range(len(self.traces)), key=lambda n: n != self.telling):
            if not timelines[n].run(first_only=True, credit=self.credit, rename=rename).clean:
                self.telling = n
                return False
        return True

    def _share(self, edges: list[Edge], limit: int) -> bool:
        """First fit: give each edge the first ids that no conflicting edge uses. True (and ids set) when that is
        enough. A plan that is right as it is stays right where an edge gets ids that nobody has."""
        ids: dict[Edge, int] = {}
        names, right = _assigned(self.plan), self.right
        if self._bound is None:
            self._bound = self._timelines(self.plan)
        for edge in edges:
            for base in range(limit - edge.count + 1):
                if any(_meet_later(edge, base, other, first) for other, first in ids.items()):
                    continue
                new = _names(edge, base)
                trial = {**names, **new}
                alone = right and not set(new.values()) & set(names.values())
                if alone or self._clean(self._bound, trial):
                    ids[edge], names, right = base, trial, True
                    break
            else:
                return False
        self.plan.ids.update(ids)
        self.right = right
        return True

    def _shrink(self, edges: list[Edge]) -> None:
        """Need fewer ids: let a loop take over flags, or merge two edges, or stop one from rotating, or use a barrier for all pipes."""
        if self._take_over(edges[0]):
            return
        edges = self._without_twins(edges)
        if not edges:
            return
        alike = defaultdict(list)
        for edge in edges:
            alike[_kind(edge)].append(edge)
        for a in edges:
            for b in alike[_kind(a)]:
                merged = _merge(a, b) if a is not b else None
                if merged is not None and self._replace((a, b), [merged]):
                    return
        # Flags carried by a loop let transfers run ahead of it; those within one iteration lose little, those of a branch least.
        for edge in sorted(edges, key=lambda e: (e.distance > 0, not _in_branch(e), -e.count)):
            if edge.ring is not None and edge.distance in (0, edge.ring.count):
                plain = replace(edge, ring=None, distance=min(edge.distance, 1))
                if self._replace((edge,), [plain]):
                    self.plan.stopped += 1
                    return
        for edge in edges:
            if not edge.cross and self._replace((edge,), [], _fence(edge)):
                return
        if (edges[0].src, edges[0].dst) in self.before:
            return self._separate((edges[0].src, edges[0].dst))
        if self.plan.ids:
            # Flags that share ids elsewhere stand in the way: they are shared anew when these are fewer.
            self._set_plan(SyncPlan(self.plan.edges, self.plan.barriers, {}, self.plan.stopped))
            return self._shrink(edges)
        edge = edges[0]
        raise CompileError(
            f"the kernel needs {sum(e.count for e in edges)} flags between the cube and the vector core, {self.limit[edge.cross]} exist",
            at=getattr(edge.dst_stmt, "span", None),
            hint="pass fewer tiles from one core to the other, or divide the work between two launches, one `with T.Kernel(...)` after the other",
        )

    def _take_over(self, edge: Edge) -> bool:
        """Let a loop have the flags an earlier one had, of one pool with `edge`."""
        pool = [e for e in self.plan.edges if (e.src, e.dst) == (edge.src, edge.dst)]
        if edge.cross or (edge.src, edge.dst) in self.settled:
            return False
        followed = {e.twin for e in pool}
        before = SyncPlan(self.plan.edges, self.plan.barriers, dict(self.plan.ids), self.plan.stopped)
        for a, b in permutations(pool, 2):
            pair = _taken_over(a, b) if b not in followed else None
            if pair is not None and (pair[0] is a or a not in followed) and self._replace((a, b), [*pair]):
                self.before.setdefault((edge.src, edge.dst), before)
                # What ordered the two loops is needed no more.
                for e in pool:
                    if e.ring is None:
                        self._replace((e,), [])
                return True
        return False

    def _without_twins(self, edges: list[Edge]) -> list[Edge]:
        """Those of `edges` that may change alone. If there are none, the plan is again what it was before a loop took over flags of this pool:
        what orders two loops may have been left out since."""
        followed = {e.flags for e in self.plan.edges if e.twin is not None}
        alone = [e for e in edges if e not in followed]
        if not alone:
            self._separate((edges[0].src, edges[0].dst))
        return alone

    def _separate(self, pool: tuple) -> None:
        """No loop takes over flags of a pool any more."""
        if pool not in self.before:
            raise TurnsInTheWay
        self.settled.add(pool)
        self._set_plan(self.before[pool])
        older = list(self.before)
        self.before = {p: self.before[p] for p in older[: older.index(pool)]}

    def _replace(self, old: tuple, new: list, *barriers: Barrier) -> bool:
        edges = [e for e in self.plan.edges if e not in old] + new
        trial = SyncPlan(edges, [*self.plan.barriers, *barriers], self.plan.ids, self.plan.stopped)
        timelines = self._timelines(trial)
        if not self._clean(timelines, _assigned(trial)):
            return False
        self._set_plan(trial, timelines)
        return True


def refusing(plan: SyncPlan, traces: list[Trace], credit: int) -> list[Trace]:
    """Those of `traces` in which a plan with ids leaves something unordered, or a flag is misused."""
    binder, names = Binder(plan), _assigned(plan)
    return [t for t in traces if not binder.bind(t).run(first_only=True, credit=credit, rename=names).clean]


class _Timelines:
    """Traces with a plan in place, each made when somebody asks for it: one is enough to refuse a plan."""

    def __init__(self, plan: SyncPlan, traces: list):
        self.binder, self.traces, self.made = Binder(plan), traces, {}

    def __getitem__(self, n: int) -> Timeline:
        if n not in self.made:
            self.made[n] = self.binder.bind(self.traces[n])
        return self.made[n]


def _in_branch(edge: Edge) -> bool:
    return isinstance(edge.set_at.block.owner, Branch)


def _assigned(plan: SyncPlan) -> dict:
    """Names of the flags of the pools whose ids are settled: whatever changes elsewhere, flags that share ids there must stay apart."""
    return {key: name for edge in plan.edges if edge in plan.ids for key, name in _names(edge, plan.ids[edge]).items()}


def _names(edge: Edge, base: int) -> dict:
    """Names of the flags of an edge whose first id is `base`: flags of one pool with the same id are one flag."""
    pool = ("cross", QUEUES[edge.src][0]) if edge.cross else (edge.src, edge.dst)
    return {(edge, value): (*pool, base + value) for value in range(edge.count)}


def _meet_later(a: Edge, first_a: int, b: Edge, first_b: int) -> bool:
    """True if flags that rotate through some of the same ids meet in iterations that traces do not reach: those cover one turn of the longest
    ring, and all there is only if a turn of one is some turns of the other."""
    overlap = first_a < first_b + b.count and first_b < first_a + a.count
    return overlap and bool(a.count % b.count and b.count % a.count)


def _kind(edge: Edge) -> tuple:
    """Edges of one kind stand in the same statement lists and work alike."""
    return id(edge.set_at.block), edge.set_at.phase, edge.wait_at.phase, id(edge.loop), edge.distance, edge.ring and edge.ring.count


def _merge(a: Edge, b: Edge) -> Edge | None:
    """One edge that implies both, which are of one kind, if they rotate in the same way."""
    set_at = a.set_at if a.set_at.gap >= b.set_at.gap else b.set_at
    wait_at = a.wait_at if a.wait_at.gap <= b.wait_at.gap else b.wait_at
    if not a.distance and set_at.gap > wait_at.gap or a.ring != b.ring:
        return None
    return replace(a, set_at=set_at, wait_at=wait_at)


def _taken_over(a: Edge, b: Edge) -> tuple[Edge, Edge] | None:
    """`a` and `b` with the flags of `a` for both, if `b` belongs to a later loop, and outside of their loops all flags of both are up. Then
    nothing but the order of use tells them apart."""
    if a.cross or not (a.distance == a.count == b.distance == b.count) or not (a.drained and b.primed):
        return None
    first, second = a.home, b.home
    if first is second:
        if a.loop is b.loop:
            return None
        # One pair of sets and waits around both.
        return a, replace(b, twin=a, primed=False, drained=False)
    if first.parent is not second.parent or first.position > second.position:
        return None
    a = replace(a, drained=False)
    return a, replace(b, twin=a, primed=False)


def _fence(edge: Edge) -> Barrier:
    core = QUEUES[edge.dst][0]
    slot = Slot(edge.wait_at.block, edge.wait_at.gap, BARRIERS)
    note = f"more than the available flag ids from {QUEUES[edge.src][1]} to {QUEUES[edge.dst][1]}"
    return Barrier(core, None, slot, edge.dst_stmt, note=note)


__all__ = ["IdAssigner", "TurnsInTheWay", "refusing"]
