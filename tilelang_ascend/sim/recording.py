"""What the time of a run was computed from: why it is what it is, and what it would be at other prices."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from ..arch import ChipSpec

PIPES = ("S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX")
"""Names behind `STEP.slot`."""
EVENT = np.dtype([("core", "i4"), ("slot", "i4"), ("op", "i4"), ("line", "i4"), ("start", "f8"), ("duration", "f8")])
"""One row of `RunResult.events`: an executed instruction of the time line. Times in cycles; `PIPES` has the names behind `slot`."""
SYNC = np.dtype([(name, "i4") for name in ("core", "kind", "event", "id", "mode", "line", "slot", "place")])
"""One row of `RunResult.syncs`, in the order of issue of its core: a set (kind 0), a wait (1), a cross-core set (2) or wait (3). `event`: code, -1
between cores; `slot` and `place` the last instruction in front of a set, the next one behind a wait, counted per pipe; place -1: none."""
STEP = np.dtype(
    [("core", "i4"), ("slot", "i4"), ("op", "i4"), ("line", "i4"), ("kind", "i4"), ("count", "i4"), ("start", "f8"), ("cycles", "f8")]
)
"""One step of a critical path: `PathStep` of src/machine/causes.h. Times in cycles of the launch."""
STEP_KINDS = ("busy", "bandwidth", "latency", "issue", "flag", "cross")
"""Names behind `STEP.kind`."""
COSTS = ("busy", "latency", "conflict", "rate", "wait", "cross_wait", "barrier", "hbm", "l2", "issue", "flag", "cross", "queue")


@dataclass(frozen=True)
class TimeLine:
    """What was executed when, and the flags: rows of `EVENT` and of `SYNC`."""

    events: np.ndarray = field(default_factory=lambda: np.empty(0, EVENT))
    syncs: np.ndarray = field(default_factory=lambda: np.empty(0, SYNC))

    @classmethod
    def of(cls, events: bytes, syncs: bytes) -> TimeLine:
        """From what the native library returns."""
        return cls(np.frombuffer(events, EVENT), np.frombuffer(syncs, SYNC))


@dataclass(frozen=True)
class Scale:
    """A cost, and what becomes of it in a replay.

    what: of selected instructions ``busy`` (cycles a pipe needs for them), ``latency``, ``conflict`` (part of `busy` due to conflicts of UB
        banks) and ``rate`` (time of their bytes on their own path to or from GM); of waits ``wait`` (for flags of this core),
        ``cross_wait`` (for those of others) and ``barrier``: a factor below 1 means that they wait for nothing; of the chip ``hbm`` and ``l2`` (time of bytes there), ``issue``, ``flag``, ``cross`` (cycles of
        these names) and ``queue`` (a factor below 1: queues never fill).
    factor: the cost is multiplied with it.
    core, pipe, source, line: which instructions; ``""`` and -1 select all. `source` is the pipe a flag is waited for.
    """

    what: str
    factor: float = 0.0
    core: str = ""
    pipe: str = ""
    source: str = ""
    line: int = -1

    def __post_init__(self):
        if self.what not in COSTS:
            raise ValueError(f"there is no cost {self.what!r}; there are {', '.join(COSTS)}")
        for pipe in (self.pipe, self.source):
            if pipe not in ("", *PIPES):
                raise ValueError(f"there is no pipe {pipe!r}; there are {', '.join(PIPES)}")
        if self.core not in ("", "AIC", "AIV"):
            raise ValueError(f"core is AIC or AIV, not {self.core!r}")
        if self.factor < 0:
            raise ValueError(f"a cost is multiplied with at least 0, not {self.factor}")


@dataclass(frozen=True)
class LaunchAnalysis:
    """One launch: `time` and `stalls` as the machine tells them, and the steps of the critical path, rows of `STEP`."""

    time: Mapping
    stalls: Sequence[Mapping]
    path: np.ndarray
    assumed_cycles: float


@dataclass(frozen=True)
class Analysis:
    """All launches, and what they used together: `tensors` and `ops` as the machine tells them (`usage_json` of src/ffi)."""

    launches: Sequence[LaunchAnalysis]
    tensors: Sequence[Mapping]
    ops: Sequence[Mapping]


class Recording:
    """The streams of a run, held by the native library. Replays depend on nothing else: tensors may be gone."""

    def __init__(self, replay: Callable, chip: ChipSpec, warm: bool):
        self.chip, self.warm = chip, warm
        self._replay = replay

    def simulated_us(self, *scales: Scale) -> float:
        """Time of all launches, overheads included, in microseconds, with costs scaled.

        A launch that never ends (`RunResult.stuck`) has no time that means something.
        """
        times, *_ = self._replay([asdict(s) for s in scales], False, False)
        return sum(json.loads(text)["simulated_us"] for text in times)

    def time_lines(self) -> list[TimeLine]:
        """The time line of each launch."""
        return [TimeLine.of(bytes(events), bytes(syncs)) for events, syncs in self._replay([], False, True)[3]]

    @functools.cached_property
    def analysis(self) -> Analysis:
        """Why the time is what it is."""
        times, paths, used, _ = self._replay([], True, False)
        launches = []
        for text, path in zip(times, paths):
            time = json.loads(text)
            launches.append(LaunchAnalysis(time, time.pop("stalls"), np.frombuffer(bytes(path), STEP), time.pop("assumed_cycles")))
        return Analysis(tuple(launches), **json.loads(used))
