"""Happens-before over a `Trace`: what every lane knows to be complete, and which dependences nothing orders.

The state is one vector clock per lane: `clock[p][c] = t` says that all instances in column c (see `Trace`) up to trace
position t are complete before the next instruction of lane p starts. Where control flow joins, the clocks meet
(element-wise minimum): what holds afterwards holds on every path.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .program import LANES, LANES_OF
from .trace import ELSE, FORK, INSTR, JOIN, JUMP, Trace

#: Synchronisation events: (SET, key, src, dst) · (WAIT, key, src, dst) · (BARRIER, lane) · (BARRIER_ALL, core) ·
#: (CROSS_SET, key, src) · (CROSS_WAIT, key, core). A key names one binary flag, or one cross-core counter.
SET, WAIT, BARRIER, BARRIER_ALL, CROSS_SET, CROSS_WAIT = range(10, 16)


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
    """Vector clocks and raised flags at one point of the trace. `alive` is False after a jump.

    Rows are shared between copies and therefore never changed in place.
    """

    __slots__ = ("clock", "flags", "queues", "alive")

    def __init__(self, clock, flags, queues, alive=True):
        self.clock, self.flags, self.queues, self.alive = clock, flags, queues, alive

    def copy(self) -> _State:
        return _State(self.clock[:], dict(self.flags), {key: rows[:] for key, rows in self.queues.items()}, self.alive)


class Simulation:
    """Runs one bound trace.

    first_only: stop at the first finding (enough to know that something is missing).
    assume_barriers: report dependent instructions of one lane once, as if a barrier had been put before the second.
    credit: sets of one cross-core flag that may be ahead of its waits; more must be impossible, because counters are
    shallow.
    """

    def __init__(
        self, trace: Trace, events: list, first_only: bool = False, assume_barriers: bool = False, credit: int = 2
    ):
        self.events, self.first_only, self.assume_barriers, self.credit = events, first_only, assume_barriers, credit
        self.findings = Findings()
        self._make_columns(trace)
        count = len(self.lane_of)
        self.state = _State([[0] * count for _ in LANES], {}, {})
        self.last = [0] * count
        self.now = 0
        self.saved: list = []
        self.waited: dict = {}
        self.cross_sets: dict = {}
        self.cross_waits: dict = {}

    def _make_columns(self, trace: Trace) -> None:
        """Columns of the trace, plus columns for the waits of flags: whoever sets a flag must know its last wait is
        over."""
        self.lane_of = list(trace.columns)
        self.columns_of = [[c for c, owner in enumerate(self.lane_of) if owner == lane] for lane in range(len(LANES))]
        self.wait_column: dict = {}
        for event in self.events:
            if event[0] == WAIT and event[1] not in self.wait_column:
                self.wait_column[event[1]] = self._new_column((event[3],)) if trace.forked else event[3]
            elif event[0] == CROSS_WAIT and event[1] not in self.wait_column:
                self.wait_column[event[1]] = self._new_column(LANES_OF[event[2]])

    def _new_column(self, lanes) -> int:
        column = len(self.lane_of)
        self.lane_of.append(lanes[0])
        for lane in lanes:
            self.columns_of[lane].append(column)
        return column

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
        _, lane, column, position, needs = event
        self.now = position
        row = self.state.clock[lane]
        missing: dict = {}
        for need in needs:
            if row[need.column] < need.position:
                source = self.lane_of[need.column]
                if source not in missing or missing[source].position < need.position:
                    missing[source] = need
        if missing:
            self.findings.uncovered.extend(missing.values())
            if self.assume_barriers and lane in missing:
                self.state.clock[lane] = self._completed(row, lane, position - 1)
        self.last[column] = position

    def _completed(self, row: list, lane: int, position: int) -> list:
        """`row` plus: all of `lane` up to `position` is complete."""
        row = row[:]
        for column in self.columns_of[lane]:
            row[column] = position
        return row

    def _set(self, event) -> None:
        key, src = event[1], event[2]
        state = self.state
        if key in state.flags:
            self.findings.broken.append(f"flag {key} is set twice")
        if key in self.waited and self.waited[key] > state.clock[src][self.wait_column[key]]:
            self.findings.unsafe.append(key)
        state.flags[key] = self._snapshot(src)

    def _snapshot(self, lane: int) -> list:
        return self._completed(self.state.clock[lane], lane, self.now)

    def _wait(self, event) -> None:
        key, dst = event[1], event[3]
        snapshot = self.state.flags.pop(key, None)
        if snapshot is None:
            self.findings.broken.append(f"flag {key} is waited for but not set")
            return
        self.now += 1
        self.waited[key] = self.last[self.wait_column[key]] = self.now
        # A wait of the scalar pipe teaches only the scalar pipe: nobody documents that issue order alone is an
        # ordering.
        self._learn((dst,), snapshot)

    def _learn(self, lanes, snapshot: list) -> None:
        clock = self.state.clock
        for lane in lanes:
            clock[lane] = [a if a > b else b for a, b in zip(clock[lane], snapshot)]

    def _barrier(self, event) -> None:
        lane = event[1]
        self.state.clock[lane] = self._snapshot(lane)

    def _barrier_all(self, event) -> None:
        lanes = LANES_OF[event[1]]
        merged = [max(column) for column in zip(*(self.state.clock[lane] for lane in lanes))]
        for lane in lanes:
            merged = self._completed(merged, lane, self.now)
        self._learn(lanes, merged)

    def _cross_set(self, event) -> None:
        key, src = event[1], event[2]
        waits, sets = self.cross_waits.get(key, ()), self.cross_sets.get(key, 0)
        self.cross_sets[key] = sets + 1
        behind = sets - self.credit
        if behind >= 0 and (len(waits) <= behind or self.state.clock[src][self.wait_column[key]] < waits[behind]):
            self.findings.unsafe.append(key)
        self.state.queues.setdefault(key, []).append(self._snapshot(src))

    def _cross_wait(self, event) -> None:
        key, core = event[1], event[2]
        queue = self.state.queues.get(key)
        if not queue:
            self.findings.broken.append(f"cross-core flag {key} is waited for but not set")
            return
        self.now += 1
        self.last[self.wait_column[key]] = self.now
        self.cross_waits.setdefault(key, []).append(self.now)
        self._learn(LANES_OF[core], queue.pop(0))

    def _fork(self, event) -> None:
        self.saved.append((self.state.copy(), self.last[:]))

    def _else(self, event) -> None:
        other, last = self.saved.pop()
        self.saved.append((self.state, self.last[:]))
        lift = self._lifter(last)
        other.clock = [lift(row) for row in other.clock]
        other.flags = {key: lift(row) for key, row in other.flags.items()}
        other.queues = {key: [lift(row) for row in rows] for key, rows in other.queues.items()}
        self.state = other

    def _lifter(self, last: list):
        """On the path that skipped the arm just traced nothing of the arm exists: who knew all of a column before it,
        knows all up to here."""
        now = self.now
        changed = [c for c, (x, y) in enumerate(zip(last, self.last)) if x != y]

        def lift(row: list) -> list:
            row = row[:]
            for c in changed:
                if row[c] >= last[c]:
                    row[c] = now
            return row

        return lift

    def _join(self, event) -> None:
        other, last = self.saved.pop()
        here = self.state
        if not here.alive or not other.alive:
            self.state = other if not here.alive else here
            return
        if here.flags.keys() != other.flags.keys() or _depths(here.queues) != _depths(other.queues):
            self.findings.broken.append("flags differ between two paths")
        lift = self._lifter(last)

        def meet(a: list, b: list) -> list:
            return a if a is b else [x if x < y else y for x, y in zip(a, lift(b))]

        flags = {k: meet(row, other.flags[k]) for k, row in here.flags.items() if k in other.flags}
        queues = {k: [meet(a, b) for a, b in zip(rows, other.queues.get(k, ()))] for k, rows in here.queues.items()}
        self.state = _State([meet(a, b) for a, b in zip(here.clock, other.clock)], flags, queues)

    def _jump(self, event) -> None:
        self.state.alive = False


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
