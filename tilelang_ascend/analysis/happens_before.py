"""Happens-before over a `Trace`: what every lane knows to be complete, and which dependences nothing orders.

The state is one vector clock per lane: `clock[p][q] = t` says that all instructions of lane q up to trace position t are complete
before the next instruction of lane p starts. Pipes complete as a prefix, so one number per pair of lanes is enough. Where control
flow joins, the clocks meet (element-wise minimum): what holds afterwards holds on every path.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .program import LANES, LANES_OF, SCALAR_LANE
from .trace import ELSE, FORK, INSTR, JOIN, JUMP

#: Synchronisation events: (SET, key, src, dst) · (WAIT, key, src, dst) · (BARRIER, lane) · (BARRIER_ALL, core) ·
#: (CROSS_SET, key, src) · (CROSS_WAIT, key, core). A key names one binary flag, or one cross-core counter.
SET, WAIT, BARRIER, BARRIER_ALL, CROSS_SET, CROSS_WAIT = range(10, 16)

_CORE_OF_LANE = tuple(core for core, _ in LANES)
_COUNT = len(LANES)


@dataclass(eq=False)
class Findings:
    """What a simulation of one trace found.

    Attributes:
        uncovered: dependence instances nothing orders.
        unsafe: keys of flags that may be set again before their last wait has completed.
        broken: texts about flags that are set twice, waited for without a set, or differ between paths.
        leftover: flags still up, counters not zero, at the end.
    """

    uncovered: list = field(default_factory=list)
    unsafe: list = field(default_factory=list)
    broken: list = field(default_factory=list)
    leftover: list = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """True when everything is ordered and every flag is used correctly."""
        return not (self.uncovered or self.unsafe or self.broken or self.leftover)


class _State:
    """Vector clocks and raised flags at one point of the trace. `alive` is False after a jump."""

    __slots__ = ("clock", "flags", "queues", "alive")

    def __init__(self, clock, flags, queues, alive=True):
        self.clock, self.flags, self.queues, self.alive = clock, flags, queues, alive

    def copy(self) -> _State:
        flags = {key: row[:] for key, row in self.flags.items()}
        queues = {key: [row[:] for row in rows] for key, rows in self.queues.items()}
        return _State([row[:] for row in self.clock], flags, queues, self.alive)


class Simulation:
    """Runs one bound trace.

    first_only: stop at the first finding (enough to know that something is missing).
    assume_barriers: report dependent instructions of one lane once, as if a barrier had been put before the second.
    credit: sets of one cross-core flag that may be ahead of its waits; more must be impossible, because counters are shallow.
    """

    def __init__(self, events: list, first_only: bool = False, assume_barriers: bool = False, credit: int = 2):
        self.events, self.first_only, self.assume_barriers, self.credit = events, first_only, assume_barriers, credit
        self.findings = Findings()
        self.state = _State([[0] * _COUNT for _ in range(_COUNT)], {}, {})
        self.last = [0] * _COUNT
        self.now = 0
        self.saved: list = []
        self.waited: dict = {}
        self.cross_sets: dict = {}
        self.cross_waits: dict = {}

    def run(self) -> Findings:
        found = self.findings
        for event in self.events:
            kind = event[0]
            if kind == INSTR:
                self._instr(event)
            else:
                _HANDLERS[kind](self, event)
            if self.first_only and (found.uncovered or found.unsafe or found.broken):
                return found
        found.leftover.extend(self.state.flags)
        found.leftover.extend(k for k, q in self.state.queues.items() if q)
        return found

    def _instr(self, event) -> None:
        _, lane, position, needs = event
        self.now = position
        row = self.state.clock[lane]
        for need in needs:
            if row[need.lane] < need.position:
                self.findings.uncovered.append(need)
                if self.assume_barriers and need.lane == lane:
                    row[lane] = position - 1
        self.last[lane] = position

    def _set(self, event) -> None:
        key, src, dst = event[1:4]
        state = self.state
        if key in state.flags:
            self.findings.broken.append(f"flag {key} is set twice")
        if self.waited.get(key, 0) > state.clock[src][dst]:
            self.findings.unsafe.append(key)
        state.flags[key] = self._snapshot(src)

    def _snapshot(self, lane: int) -> list:
        snapshot = self.state.clock[lane][:]
        snapshot[lane] = self.now
        return snapshot

    def _wait(self, event) -> None:
        key, dst = event[1], event[3]
        snapshot = self.state.flags.pop(key, None)
        if snapshot is None:
            self.findings.broken.append(f"flag {key} is waited for but not set")
            return
        self.now += 1
        self.waited[key] = self.last[dst] = self.now
        core = _CORE_OF_LANE[dst]
        # The scalar pipe issues for all pipes: what it has waited for is done before anything it issues later.
        self._learn(LANES_OF[core] if dst == SCALAR_LANE[core] else (dst,), snapshot)

    def _learn(self, lanes, snapshot: list) -> None:
        clock = self.state.clock
        for lane in lanes:
            clock[lane] = [a if a > b else b for a, b in zip(clock[lane], snapshot)]

    def _barrier(self, event) -> None:
        lane = event[1]
        self.state.clock[lane][lane] = self.now

    def _barrier_all(self, event) -> None:
        lanes = LANES_OF[event[1]]
        merged = [max(column) for column in zip(*(self.state.clock[lane] for lane in lanes))]
        for lane in lanes:
            merged[lane] = self.now
        self._learn(lanes, merged)

    def _cross_set(self, event) -> None:
        key, src = event[1], event[2]
        waits, sets = self.cross_waits.get(key, ()), self.cross_sets.get(key, 0)
        self.cross_sets[key] = sets + 1
        if sets >= self.credit and not self._knows_wait(src, waits[sets - self.credit] if len(waits) > sets - self.credit else None):
            self.findings.unsafe.append(key)
        self.state.queues.setdefault(key, []).append(self._snapshot(src))

    def _knows_wait(self, lane: int, wait) -> bool:
        if wait is None:
            return False
        core, position = wait
        return any(self.state.clock[lane][q] >= position for q in LANES_OF[core])

    def _cross_wait(self, event) -> None:
        key, core = event[1], event[2]
        queue = self.state.queues.get(key)
        if not queue:
            self.findings.broken.append(f"cross-core flag {key} is waited for but not set")
            return
        self.now += 1
        for lane in LANES_OF[core]:
            self.last[lane] = self.now
        self.cross_waits.setdefault(key, []).append((core, self.now))
        self._learn(LANES_OF[core], queue.pop(0))

    def _fork(self, event) -> None:
        self.saved.append((self.state.copy(), self.last[:]))

    def _else(self, event) -> None:
        other, last = self.saved.pop()
        self.saved.append((self.state, self.last[:]))
        self.state = self._lift(other, last)

    def _join(self, event) -> None:
        self.state = self._meet(self.state, self._lift(*self.saved.pop()))

    def _lift(self, state: _State, last: list) -> _State:
        """On the path of `state` nothing of the arm just traced exists: who knew all before it knows all up to here."""
        now = self.now
        for row in (*state.clock, *state.flags.values(), *(s for q in state.queues.values() for s in q)):
            for lane, limit in enumerate(last):
                if row[lane] >= limit:
                    row[lane] = now
        return state

    def _meet(self, a: _State, b: _State) -> _State:
        if not a.alive or not b.alive:
            return b if not a.alive else a
        if a.flags.keys() != b.flags.keys() or _depths(a.queues) != _depths(b.queues):
            self.findings.broken.append("flags differ between two paths")
        clock = [_lower(x, y) for x, y in zip(a.clock, b.clock)]
        flags = {k: _lower(v, b.flags[k]) for k, v in a.flags.items() if k in b.flags}
        queues = {k: [_lower(x, y) for x, y in zip(q, b.queues.get(k, ()))] for k, q in a.queues.items()}
        return _State(clock, flags, queues)

    def _jump(self, event) -> None:
        self.state.alive = False


def _lower(a: list, b: list) -> list:
    return [x if x < y else y for x, y in zip(a, b)]


def _depths(queues: dict) -> dict:
    return {key: len(rows) for key, rows in queues.items() if rows}


_HANDLERS = {
    SET: Simulation._set,
    WAIT: Simulation._wait,
    BARRIER: Simulation._barrier,
    BARRIER_ALL: Simulation._barrier_all,
    CROSS_SET: Simulation._cross_set,
    CROSS_WAIT: Simulation._cross_wait,
    FORK: Simulation._fork,
    ELSE: Simulation._else,
    JOIN: Simulation._join,
    JUMP: Simulation._jump,
}

__all__ = ["BARRIER", "BARRIER_ALL", "CROSS_SET", "CROSS_WAIT", "SET", "WAIT", "Findings", "Simulation"]
