"""Happens-before over a `Trace`: what every queue knows to be complete, and which dependences nothing orders.

The simulation itself is native (src/analysis/happens_before.cc): choosing flags runs it once for every flag that might be left out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from ... import native
from .program import CORES, QUEUES
from .trace import ELSE, FORK, INSTR, JOIN, JUMP, STEP, Need, Trace

SET, WAIT, BARRIER, BARRIER_ALL, CROSS_SET, CROSS_WAIT = range(10, 16)
"""Synchronisation events: (SET, key, src, dst, owner) · (WAIT, key, src, dst, owner) · (BARRIER, queue, owner) · (BARRIER_ALL, core,
owner) · (CROSS_SET, key, src, owner) · (CROSS_WAIT, key, core, owner). A key names one binary flag, or one cross-core counter; an
owner is what can be left out, None if it cannot."""

_QUEUE_CORE = np.array([CORES.index(core) for core, _ in QUEUES], np.int64)

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
        uncovered: dependence instances nothing orders.
        unsafe: keys of flags that may be set again before their last wait has completed.
        broken: texts about flags that are set twice, waited for without a set, or differ between paths.
        leftover: flags still up, counters not zero, at the end.
    """

    uncovered: list[Need] = field(default_factory=list)
    unsafe: list = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    leftover: list = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """True when everything is ordered and every flag is used correctly."""
        return not (self.uncovered or self.unsafe or self.broken or self.leftover)


class Timeline:
    """A trace with synchronisation events in place, ready to run any number of times.

    Args:
        trace: the execution.
        events: its events, with synchronisation events in the gaps.
    """

    def __init__(self, trace: Trace, events: list):
        self.trace, self.events = trace, events
        self._keys: dict = {}
        self._owners: dict = {}
        rows = [_ROWS[event[0]](self, event) for event in events]
        self._table = np.array(rows, np.int64).reshape(-1, _WIDTH)
        waits = np.cumsum(self._table[:, 0] == WAIT)[self._table[:, 0] == INSTR]
        assert not (np.diff(waits) >= STEP).any(), "more waits between two instructions than there are positions"
        self._columns = np.array(trace.columns, np.int64)
        self._key_names = list(self._keys)
        self._flags = np.flatnonzero(np.isin(self._table[:, 0], (SET, WAIT, CROSS_SET, CROSS_WAIT)))

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
        uncovered, unsafe, broken, leftover = native.function("analysis.happens_before")(
            table, self.trace.need_table, self._columns, _QUEUE_CORE, len(names), self.trace.forked, left_out,
            without_barriers, first_only, assume_barriers, credit,
        )  # fmt: skip
        return Findings(
            [self.trace.needs[n] for n in uncovered],
            [names[k] for k in unsafe],
            [_BROKEN[what].format(names[k]) for what, k in zip(broken[::2], broken[1::2])],
            [names[k] for k in leftover],
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

    def _key(self, key) -> int:
        return self._keys.setdefault(key, len(self._keys))

    def _owner(self, owner) -> int:
        return -1 if owner is None else self._owners.setdefault(owner, len(self._owners))


# Rows of the native table: kind, key, queue, core, column, position, first need, end of needs, owner.
_WIDTH = 9
_ROWS = {
    INSTR: lambda t, e: (INSTR, 0, e[1], 0, e[2], e[3], e[4], e[5], -1),
    FORK: lambda t, e: (FORK, 0, 0, 0, 0, 0, 0, 0, -1),
    ELSE: lambda t, e: (ELSE, 0, 0, 0, 0, 0, 0, 0, -1),
    JOIN: lambda t, e: (JOIN, 0, 0, 0, 0, 0, 0, 0, -1),
    JUMP: lambda t, e: (JUMP, 0, 0, 0, 0, 0, 0, 0, -1),
    SET: lambda t, e: (SET, t._key(e[1]), e[2], 0, 0, 0, 0, 0, t._owner(e[4])),
    WAIT: lambda t, e: (WAIT, t._key(e[1]), e[3], 0, 0, 0, 0, 0, t._owner(e[4])),
    BARRIER: lambda t, e: (BARRIER, 0, e[1], 0, 0, 0, 0, 0, t._owner(e[2])),
    BARRIER_ALL: lambda t, e: (BARRIER_ALL, 0, 0, CORES.index(e[1]), 0, 0, 0, 0, t._owner(e[2])),
    CROSS_SET: lambda t, e: (CROSS_SET, t._key(e[1]), e[2], 0, 0, 0, 0, 0, t._owner(e[3])),
    CROSS_WAIT: lambda t, e: (CROSS_WAIT, t._key(e[1]), 0, CORES.index(e[2]), 0, 0, 0, 0, t._owner(e[3])),
}

__all__ = ["BARRIER", "BARRIER_ALL", "CROSS_SET", "CROSS_WAIT", "SET", "WAIT", "Findings", "Timeline"]
