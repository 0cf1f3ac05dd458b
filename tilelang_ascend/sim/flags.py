"""Flags of a time line as links from one instruction to another."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from ..isa.sync import EVENTS
from .report import RunResult

LINK = np.dtype([("source", "i4"), ("destination", "i4"), ("event", "i4"), ("id", "i4")])
"""One link between rows of `RunResult.events`: the last instruction of its pipe in front of a set, the first one behind the wait that took it.
`event`: code, -1 for a flag between cores."""

_SET, _WAIT, _CROSS_SET, _CROSS_WAIT = range(4)
_ALL_CORES, _TO_OTHER_KIND = 0, 2  # modes of cross-core sets
_BLOCK = re.compile(r"(launch \d+ )?(AI[CV]) (\d+)")


def flag_name(event: int, number: int) -> str:
    """``MTE2_M 1`` for a flag between pipes, ``cross-core 3`` for one between cores."""
    return f"{EVENTS[event]} {number}" if event >= 0 else f"cross-core {number}"


def flag_links(run: RunResult) -> np.ndarray:
    """Rows of dtype `LINK`, one for each flag of a run made with ``trace=True`` that has instructions on both sides.

    Flags are taken in the order in which they were set. A flag that several cores raise together leads from the one of them that was last. Where
    two groups of cores raise the same flag of a core, and nothing tells which wait took whose, there are no links.
    """
    events = _Places(run)
    sets: dict[tuple, list] = defaultdict(list)
    waits: dict[tuple, list] = defaultdict(list)
    raised: dict[tuple, dict[int, list]] = defaultdict(lambda: defaultdict(list))
    for core, kind, event, number, mode, _, slot, place in run.syncs.tolist():
        row = events.row(core, slot, place)
        if kind == _SET:
            sets[core, event, number].append(row)
        elif kind == _WAIT or kind == _CROSS_WAIT:
            waits[core, event, number].append(row)
        else:
            raised[mode, number, _team(run.core_names[core], mode)][core].append(row)
    for receiver, rows in _deliveries(run, raised):
        sets[receiver].extend(rows)
    links = [(a, b, event, n) for (core, event, n), rows in waits.items() for a, b in zip(sets[core, event, n], rows) if a >= 0 and b >= 0]
    return np.array(links, LINK)


class _Places:
    """Finds rows of `RunResult.events`: the events of a pipe stand there in order."""

    def __init__(self, run: RunResult):
        key = run.events["core"].astype(np.int64) * 16 + run.events["slot"]
        self.order = np.argsort(key, kind="stable").tolist()
        numbers, counts = np.unique(key, return_counts=True)
        starts = np.cumsum(counts) - counts
        self.ranges = dict(zip(numbers.tolist(), zip(starts.tolist(), counts.tolist())))

    def row(self, core: int, slot: int, place: int) -> int:
        """Of the instruction number `place` of a pipe; -1 when there is none, or it was never executed."""
        start, count = self.ranges.get(core * 16 + slot, (0, 0))
        return self.order[start + place] if 0 <= place < count else -1


def _team(name: str, mode: int) -> tuple:
    """The cores that raise a flag of this mode together with core `name`, and only together."""
    launch, kind, block = _identity(name)
    return (launch, kind) if mode == _ALL_CORES else (launch, kind, block)


def _identity(name: str) -> tuple[str, str, int]:
    """(launch, kind, block) of a core of a kernel for both kinds of cores: two vector cores make a block."""
    launch, kind, number = _BLOCK.fullmatch(name).groups()
    return launch or "", kind, int(number) // (2 if kind == "AIV" else 1)


def _deliveries(run: RunResult, raised: dict) -> Iterator[tuple[tuple, list]]:
    """(core, -1, flag id) of every receiver, and the rows of the instructions that its counts came from, in order."""
    ends = run.events["start"] + run.events["duration"]
    of_receiver: dict[tuple, list] = defaultdict(list)
    for (mode, number, team), setters in raised.items():
        members = [core for core, name in enumerate(run.core_names) if _team(name, mode) == team]
        if set(members) - set(setters):
            continue  # it never came
        together = zip(*(setters[core] for core in members))
        rows = [max(parts, key=lambda row: ends[row] if row >= 0 else -1.0) for parts in together]
        for core, name in enumerate(run.core_names):
            launch, kind, block = _identity(name)
            same_block = mode == _ALL_CORES or block == team[2]
            if launch == team[0] and same_block and (kind != team[1]) == (mode == _TO_OTHER_KIND):
                of_receiver[core, -1, number].append(rows)
    for receiver, groups in of_receiver.items():
        if len(groups) == 1:
            yield receiver, groups[0]
