"""Happens-before over a `Trace`: what every queue knows to be complete, and which dependences nothing orders.

The simulation itself is native (src/analysis/happens_before.cc): choosing flags runs it once for every flag that might be left out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ... import native
from .program import CORES, QUEUES
from .trace import ELSE, FORK, GAP, INSTR, JOIN, JUMP, STEP, Need, Trace

SET, WAIT, BARRIER, BARRIER_ALL, CROSS_SET, CROSS_WAIT = range(10, 16)
"""Synchronisation events: (SET, key, src, dst, owner) · (WAIT, key, src, dst, owner) · (BARRIER, queue, owner) · (BARRIER_ALL, core,
owner) · (CROSS_SET, key, src, owner) · (CROSS_WAIT, key, core, owner). A key names one binary flag, or one cross-core counter; an
owner is what can be left out, None if it cannot."""

_QUEUE_CORE = np.array([CORES.index(core) for core, _ in QUEUES], np.int64)

_HAS_KEY = np.isin(np.arange(CROSS_WAIT + 1), (SET, WAIT, CROSS_SET, CROSS_WAIT))

_BROKEN = (
    "flag {} is set twice",
    "flag {} is waited for but not set",
    "cross-core flag {} is waited for but not set",
    "flags differ between two paths",
)


@dataclass(eq=False)
class Findings:
    """What a simulation of one trace found.

    Attributes:
        trace: the execution.
        missing: numbers of the needs that nothing orders.
        unsafe: keys of flags that may be set again before their last wait has completed.
        broken: texts about flags that are set twice, waited for without a set, or differ between paths.
        leftover: flags still up, counters not zero, at the end.
    """

    trace: Trace
    missing: np.ndarray
    unsafe: list
    broken: list[str]
    leftover: list

    @property
    def clean(self) -> bool:
        """True when everything is ordered and every flag is used correctly."""
        return not (len(self.missing) or self.unsafe or self.broken or self.leftover)

    @cached_property
    def uncovered(self) -> list[Need]:
        """Dependence instances nothing orders."""
        return [self.trace.need(n) for n in self.missing]

    @cached_property
    def kinds(self) -> list[Need]:
        """The first of them of each dependence and level, in the order of the trace."""
        return [need for need, _ in self.often]

    @cached_property
    def often(self) -> list[tuple[Need, int]]:
        """The same, each with the number of instances."""
        of_kind = self.trace.needs[self.missing, 2] * (1 << 32) + self.trace.needs[self.missing, 3]
        _, first, counts = np.unique(of_kind, return_index=True, return_counts=True)
        return [(self.trace.need(self.missing[first[k]]), int(counts[k])) for k in np.argsort(first)]


class Timeline:
    """A trace with synchronisation events in place, ready to run any number of times.

    Args:
        trace: the execution.
        table: its events, with synchronisation events in the gaps, as rows for the native part.
        keys: the key of each number in `table`.
        owners: the same of owners.
    """

    def __init__(self, trace: Trace, table: np.ndarray, keys: list, owners: list):
        self.trace, self._table, self._key_names, self._owner_names = trace, table, keys, owners
        self._keys, self._owners = ({x: n for n, x in enumerate(names)} for names in (keys, owners))
        kinds = table[:, 0]
        waits = np.cumsum(kinds == WAIT)[kinds == INSTR]
        assert not (np.diff(waits) >= STEP).any(), "more waits between two instructions than there are positions"
        self._flags = np.flatnonzero(_HAS_KEY[kinds])

    @staticmethod
    def of(trace: Trace, events: list) -> Timeline:
        """`events`: those of the trace and synchronisation, as tuples."""
        numbers = _Numbers()
        return Timeline(trace, _rows(trace, events, numbers), list(numbers.keys), list(numbers.owners))

    def barriers(self) -> tuple[list, list]:
        """Trace positions and owners of the barriers of single queues, in order."""
        kinds = self._table[:, 0]
        now = np.maximum.accumulate(np.where(kinds == INSTR, self._table[:, 5], 0))
        found = np.flatnonzero(kinds == BARRIER)
        return now[found].tolist(), [self._owner_names[n] for n in self._table[found, 8]]

    def run(
        self,
        *,
        without: Collection = (),
        without_barriers: bool = False,
        first_only: bool = False,
        assume_barriers: bool = False,
        credit: int = 2,
        rename: Mapping | None = None,
    ) -> Findings:
        """Simulate.

        Args:
            without: owners whose events do not exist.
            without_barriers: barriers of single queues do not exist.
            first_only: stop at the first finding (enough to know that something is missing).
            assume_barriers: report dependent instructions of one queue once, as if a barrier had been put before the second.
            credit: sets of one cross-core flag that may be ahead of its waits; more must be impossible, because counters are shallow.
            rename: the names of some keys; flags of one name are one flag.
        """
        table, names = self._table, self._key_names
        if rename:
            table, names = self._renamed(rename)
        left_out = np.zeros(max(1, len(self._owners)), np.uint8)
        left_out[[self._owners[owner] for owner in without if owner in self._owners]] = 1
        missing, unsafe, broken, leftover = native.function("analysis.happens_before")(
            table, self.trace.need_table, self.trace.column_table, _QUEUE_CORE, len(names), self.trace.forked, left_out,
            without_barriers, first_only, assume_barriers, credit,
        )  # fmt: skip
        return Findings(
            self.trace,
            np.frombuffer(missing, np.int64),
            [names[k] for k in np.frombuffer(unsafe, np.int64).tolist()],
            [_BROKEN[what].format(names[k]) for what, k in np.frombuffer(broken, np.int64).reshape(-1, 2).tolist()],
            [names[k] for k in np.frombuffer(leftover, np.int64).tolist()],
        )

    def _renamed(self, rename: Mapping) -> tuple[np.ndarray, list]:
        """The table and the list of its keys after `rename`."""
        numbers: dict = {}
        new = np.arange(len(self._key_names))
        for key, name in rename.items():
            if key in self._keys:
                new[self._keys[key]] = len(new) + numbers.setdefault(name, len(numbers))
        table = self._table.copy()
        table[self._flags, 1] = new[table[self._flags, 1]]
        return table, self._key_names + list(numbers)


class _Numbers:
    """Numbers for keys and owners, in the order in which they are met."""

    def __init__(self):
        self.keys: dict = {}
        self.owners: dict = {}

    def key(self, key) -> int:
        return self.keys.setdefault(key, len(self.keys))

    def owner(self, owner) -> int:
        return -1 if owner is None else self.owners.setdefault(owner, len(self.owners))


def rows_of(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """(rows, numbers of the events) of a trace that has no synchronisation."""
    if rows_of not in trace.memo:
        events = [(n, event) for n, event in enumerate(trace.events) if event[0] != GAP]
        rows = _rows(trace, [event for _, event in events], None)
        trace.memo[rows_of] = rows, np.array([n for n, _ in events], np.int64)
    return trace.memo[rows_of]


def _rows(trace: Trace, events: list, numbers: _Numbers | None) -> np.ndarray:
    """`events` as rows of the native table."""
    rows = np.array([_ROWS[event[0]](numbers, event) for event in events], np.int64).reshape(-1, WIDTH)
    here = np.flatnonzero(rows[:, 0] == INSTR)
    ends = np.array([0, *trace.ends], np.int64)
    rows[here, 7] = ends[rows[here, 6] + 1]
    rows[here, 6] = ends[rows[here, 6]]
    return rows


# Rows of the native table: kind, key, queue, core, column, position, first need, end of needs, owner.
WIDTH = 9
_ROWS = {
    INSTR: lambda t, e: (INSTR, 0, e[1], 0, e[2], e[3], e[4], 0, -1),  # the number of the instance, until `_rows` knows its needs
    FORK: lambda t, e: (FORK, 0, 0, 0, 0, 0, 0, 0, -1),
    ELSE: lambda t, e: (ELSE, 0, 0, 0, 0, 0, 0, 0, -1),
    JOIN: lambda t, e: (JOIN, 0, 0, 0, 0, 0, 0, 0, -1),
    JUMP: lambda t, e: (JUMP, 0, 0, 0, 0, 0, 0, 0, -1),
    SET: lambda t, e: (SET, t.key(e[1]), e[2], 0, 0, 0, 0, 0, t.owner(e[4])),
    WAIT: lambda t, e: (WAIT, t.key(e[1]), e[3], 0, 0, 0, 0, 0, t.owner(e[4])),
    BARRIER: lambda t, e: (BARRIER, 0, e[1], 0, 0, 0, 0, 0, t.owner(e[2])),
    BARRIER_ALL: lambda t, e: (BARRIER_ALL, 0, 0, CORES.index(e[1]), 0, 0, 0, 0, t.owner(e[2])),
    CROSS_SET: lambda t, e: (CROSS_SET, t.key(e[1]), e[2], 0, 0, 0, 0, 0, t.owner(e[3])),
    CROSS_WAIT: lambda t, e: (CROSS_WAIT, t.key(e[1]), 0, CORES.index(e[2]), 0, 0, 0, 0, t.owner(e[3])),
}

__all__ = ["BARRIER", "BARRIER_ALL", "CROSS_SET", "CROSS_WAIT", "SET", "WAIT", "WIDTH", "Findings", "Timeline", "rows_of"]
