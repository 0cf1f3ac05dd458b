"""What a run of the machine found: hazards, times, and the streams of issued instructions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from .recording import PIPES, Recording, TimeLine


@dataclass(frozen=True)
class Site:
    """One instruction of one core: its name, source line (0 = unknown), core (``"AIC 3"``) and pipe."""

    op: str
    line: int
    core: str
    pipe: str

    def __str__(self) -> str:
        where = f"line {self.line}, " if self.line else ""
        return f"{self.op or 'program'} ({where}{self.core}, pipe {self.pipe})"


@dataclass(frozen=True)
class Hazard:
    """One finding of a check.

    check: ``memcheck``, ``initcheck``, ``racecheck``, ``synccheck``, ``deadlock``, ``invalid`` (malformed) or ``trap`` (the program
    itself stopped; the message is the last line it printed).
    first is the instruction at fault, the later one of a pair; second the other one, if there is one.
    [lo, hi) are bytes of `space`, relative to the tensor for GM. Empty strings mean that no memory is involved.
    """

    check: str
    message: str
    first: Site
    second: Site | None = None
    space: str = ""
    lo: int = 0
    hi: int = 0
    tensor: str = ""

    def text(self) -> str:
        """The finding in words, one line for each instruction involved."""
        lines = [f"{self.check}: {self.message}", f"    by {self.first}"]
        if self.second is not None:
            lines.append(f"    and {self.second}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Unwritten:
    """An output the launch allocated of which `nbytes` bytes between `lo` and `hi` were never written."""

    tensor: str
    lo: int
    hi: int
    nbytes: int

    def text(self) -> str:
        """The finding in words."""
        return f"output {self.tensor}: {self.nbytes} bytes between byte {self.lo} and byte {self.hi} are never written"


@dataclass(frozen=True)
class CoreTime:
    """Simulated time of one core, in cycles, by pipe name."""

    name: str
    end_cycles: float
    busy_cycles: Mapping[str, float]
    assumed_cycles: Mapping[str, float]
    instructions: Mapping[str, int]


@dataclass(frozen=True)
class RunResult:
    """Outcome of `machine.run`. Times are simulated; they are 0 and empty when time was switched off.

    hazards: findings, in order of discovery, at most `SimOptions.max_reports`; `suppressed` more were found.
    unwritten: outputs the launch allocated and the kernel did not fill (with `initcheck`). Not a hazard: a kernel may
        leave padding as it is.
    cycles: from the start of the kernel to the end of its last core, at the core clock.
    simulated_us: launch overhead plus cycles.
    bound_pipe: the busiest pipe, averaged over the cores that have it; ``""`` without time.
    occupancy: busy share of `cycles` by pipe, averaged over the cores that have it.
    assumed_share: part of `simulated_us` that rests on constants marked as assumed in the chip data, estimated on the
        bound pipe and the launch.
    traffic: bytes moved: ``hbm_read``, ``hbm_write`` (misses and evictions of L2), ``l2_read``, ``l2_write``
        (all traffic).
    stuck: names a core that could not finish in the time model (a program that deadlocks), else ``""``.
    core_names: cores in machine order, as used by `streams` and `events`.
    streams: with `record_stream`, one int64 array for each core: op, line, n, arguments, and so on; GM addresses are
        written as tensor index (bits 47..40) and byte offset (bits 39..0).
    time_line: `line`, or what makes it.
    writes: with `count_writes`, tensor name -> how often each of its bytes was written (uint8, 255 means at least that).
    recording: with `keep_record`, what time was computed from.
    printed: (core, text, bytes lost) of every core that printed, block by block; `output` is the readable form.
    """

    hazards: Sequence[Hazard]
    suppressed: int = 0
    unwritten: Sequence[Unwritten] = ()
    cycles: float = 0.0
    simulated_us: float = 0.0
    launch_us: float = 0.0
    bound_pipe: str = ""
    occupancy: Mapping[str, float] = field(default_factory=dict)
    assumed_share: float = 0.0
    traffic: Mapping[str, int] = field(default_factory=dict)
    per_core: Sequence[CoreTime] = ()
    stuck: str = ""
    core_names: Sequence[str] = ()
    clock_hz: float = 0.0
    streams: Sequence[np.ndarray] = ()
    time_line: TimeLine | Callable[[], TimeLine] = field(default_factory=TimeLine)
    writes: Mapping[str, np.ndarray] = field(default_factory=dict)
    printed: Sequence[tuple[str, str, int]] = ()
    recording: Recording | None = field(default=None, repr=False, compare=False)

    @functools.cached_property
    def line(self) -> TimeLine:
        """The time line, of runs with `trace` or `keep_record`."""
        return self.time_line() if callable(self.time_line) else self.time_line

    @property
    def events(self) -> np.ndarray:
        """What every pipe executed when: rows of dtype `EVENT`."""
        return self.line.events

    @property
    def syncs(self) -> np.ndarray:
        """The flags: rows of dtype `SYNC`; `flags.flag_links` makes links between events of them."""
        return self.line.syncs

    @property
    def output(self) -> str:
        """What the kernel printed, core by core; each line starts with the name of its core."""
        lines = []
        for core, text, lost in self.printed:
            lines += [f"[{core}] {line}\n" for line in text.removesuffix("\n").split("\n")]
            if lost:
                lines.append(f"[{core}] ... {lost} bytes more are lost: a core keeps {len(text)} bytes of output\n")
        return "".join(lines)

    @property
    def ok(self) -> bool:
        """True when no check found anything."""
        return not self.hazards

    def text(self) -> str:
        """Report for people: findings, then time."""
        lines = [h.text() for h in self.hazards]
        if self.suppressed:
            lines.append(f"and {self.suppressed} more findings")
        lines += [u.text() for u in self.unwritten]
        if self.cycles:
            shares = ", ".join(f"{p} {100 * v:.0f}%" for p, v in self.occupancy.items() if v >= 0.005)
            lines.append(
                f"simulated {self.simulated_us:.2f} us ({self.cycles:.0f} cycles + {self.launch_us:.1f} us launch), "
                f"bound by {self.bound_pipe}; busy: {shares}; "
                f"{100 * self.assumed_share:.0f}% rests on assumed constants"
            )
        return "\n".join(lines)

    @classmethod
    def from_json(
        cls, report: Mapping, clock_hz: float, streams: Sequence[bytes], line: TimeLine, writes: Mapping[str, bytes]
    ) -> RunResult:
        """Build from what the native library returns."""
        time = report.get("time", {})
        cores = tuple(CoreTime(**core) for core in time.get("cores", ()))
        cycles = time.get("cycles", 0.0)
        occupancy = _occupancy(cores, cycles)
        return cls(
            hazards=tuple(_hazard(h) for h in report["hazards"]),
            suppressed=report["suppressed"],
            unwritten=tuple(Unwritten(**u) for u in report["unwritten"]),
            cycles=cycles,
            simulated_us=time.get("simulated_us", 0.0),
            launch_us=time.get("launch_us", 0.0),
            bound_pipe=max(occupancy, key=occupancy.get) if occupancy else "",
            occupancy=occupancy,
            assumed_share=time.get("assumed_share", 0.0),
            traffic={k: time[f"{k}_bytes"] for k in ("hbm_read", "hbm_write", "l2_read", "l2_write")} if time else {},
            per_core=cores,
            stuck=time.get("stuck", ""),
            core_names=tuple(report["cores"]),
            clock_hz=clock_hz,
            streams=tuple(np.frombuffer(s, np.int64) for s in streams),
            time_line=line,
            writes={name: np.frombuffer(n, np.uint8) for name, n in writes.items()},
            printed=tuple(tuple(row) for row in report["output"]),
        )


def joined(results: Sequence[RunResult]) -> RunResult:
    """The result of launches that ran one after the other on the same tensors, as one: findings, times, traffic and writes of all of them.

    Every launch pays its overhead. Cores stand once for each launch, named ``launch 2 AIV 0``; their times begin with their launch, those of
    `events` with the first one, launch overheads left out. Occupancy is the share of the time of all launches.
    """
    numbered = list(enumerate(results))
    return RunResult(
        hazards=tuple(_of_launch(h, k) for k, r in numbered for h in r.hazards),
        suppressed=sum(r.suppressed for r in results),
        unwritten=results[-1].unwritten,
        core_names=tuple(_numbered(name, k) for k, r in numbered for name in r.core_names),
        clock_hz=results[0].clock_hz,
        streams=tuple(s for r in results for s in r.streams),
        writes={name: _sum_of_counts([r.writes[name] for r in results]) for name in results[0].writes},
        printed=tuple((_numbered(core, k), text, lost) for k, r in numbered for core, text, lost in r.printed),
        **_joined_times(results),
    )


def _joined_times(results: Sequence[RunResult]) -> dict:
    """What `joined` says of time."""
    cycles, us = sum(r.cycles for r in results), sum(r.simulated_us for r in results)
    pipes = [pipe for pipe in PIPES if any(pipe in r.occupancy for r in results)]
    occupancy = {pipe: sum(r.occupancy.get(pipe, 0.0) * r.cycles for r in results) / cycles for pipe in pipes}
    return {
        "cycles": cycles,
        "simulated_us": us,
        "launch_us": sum(r.launch_us for r in results),
        "bound_pipe": max(occupancy, key=lambda pipe: occupancy[pipe], default=""),
        "occupancy": occupancy,
        "assumed_share": sum(r.assumed_share * r.simulated_us for r in results) / us if us else 0.0,
        "traffic": {key: sum(r.traffic[key] for r in results) for key in results[0].traffic},
        "per_core": tuple(replace(core, name=_numbered(core.name, k)) for k, r in enumerate(results) for core in r.per_core),
        "stuck": next((_numbered(r.stuck, k) for k, r in enumerate(results) if r.stuck), ""),
        "time_line": joined_line(results, [r.line for r in results]),
    }


def _numbered(core: str, k: int) -> str:
    """A core in launch `k`."""
    return f"launch {k + 1} {core}" if core else core


def _of_launch(hazard: Hazard, k: int) -> Hazard:
    second = hazard.second and replace(hazard.second, core=_numbered(hazard.second.core, k))
    return replace(hazard, first=replace(hazard.first, core=_numbered(hazard.first.core, k)), second=second)


def joined_line(results: Sequence[RunResult], lines: Sequence[TimeLine]) -> TimeLine:
    """The time lines of launches that ran one after the other, as one."""
    cores, start, events, syncs = 0, 0.0, [], []
    for r, line in zip(results, lines):
        events.append(line.events.copy())
        syncs.append(line.syncs.copy())
        events[-1]["core"] += cores
        events[-1]["start"] += start
        syncs[-1]["core"] += cores
        cores, start = cores + len(r.core_names), start + r.cycles
    return TimeLine(np.concatenate(events), np.concatenate(syncs))


def _sum_of_counts(counts: Sequence[np.ndarray]) -> np.ndarray:
    """Numbers of writes of the same bytes; 255 means at least that."""
    return np.minimum(np.sum(counts, axis=0, dtype=np.uint32), 255).astype(np.uint8)


def _hazard(row: Mapping) -> Hazard:
    second = row["second"]
    return Hazard(**{**row, "first": Site(**row["first"]), "second": Site(**second) if second else None})


def _occupancy(cores: Sequence[CoreTime], cycles: float) -> dict[str, float]:
    if not cycles:
        return {}
    out = {}
    for pipe in PIPES:
        busy = [core.busy_cycles[pipe] for core in cores if pipe in core.busy_cycles]
        if busy:
            out[pipe] = sum(busy) / len(busy) / cycles
    return out
