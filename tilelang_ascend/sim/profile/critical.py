"""The critical path: what the last core waited for, back to the first instruction."""

from __future__ import annotations

from collections import Counter

from ...isa.table import TABLE
from ..recording import STEP_KINDS, Analysis, LaunchAnalysis, Recording
from ..report import PIPES
from .layout import CriticalPath, PathEntry, PathStep
from .waits import core_type

_OPS = list(TABLE)


def critical_path(recording: Recording, max_steps: int) -> CriticalPath:
    """All launches one after the other, each behind its overhead."""
    analysis = recording.analysis
    overhead = [launch.time["launch_us"] * 1e-6 * recording.chip.clock_hz for launch in analysis.launches]
    total = sum(overhead) + sum(launch.time["cycles"] for launch in analysis.launches)
    steps: list[PathStep] = []
    left = max_steps
    for i in reversed(range(len(analysis.launches))):
        begin = sum(launch.time["cycles"] for launch in analysis.launches[:i])
        part = _steps(analysis, i, begin, left)
        if len(part) < left:
            part = [_launch_step(begin, overhead[i]), *part]
        left -= len(part)
        steps = part + steps
    num_steps = sum(len(launch.path) + 1 for launch in analysis.launches)
    return {"cycles": total, "entries": _entries(analysis, sum(overhead), total), "num_steps": num_steps, "steps": steps}


def _launch_step(start: float, cycles: float) -> PathStep:
    return {"core": "", "pipe": "", "op": "", "line": 0, "kind": "launch", "start_cycles": start, "cycles": cycles}


def _steps(analysis: Analysis, i: int, begin: float, most: int) -> list[PathStep]:
    """The last steps of launch `i`, which begins at `begin` of the time line."""
    launch = analysis.launches[i]
    names = [core["name"] for core in launch.time["cores"]]
    if len(analysis.launches) > 1:
        names = [f"launch {i + 1} {name}" for name in names]
    out: list[PathStep] = []
    for core, slot, op, line, kind, _, start, cycles in launch.path[len(launch.path) - min(most, len(launch.path)) :].tolist():
        out.append(
            {
                "core": names[core], "pipe": PIPES[slot], "op": _OPS[op], "line": line, "kind": STEP_KINDS[kind],
                "start_cycles": begin + start, "cycles": cycles,
            }
        )  # fmt: skip
    return out


def _entries(analysis: Analysis, overhead: float, total: float) -> list[PathEntry]:
    cycles: Counter = Counter({("", "", "", 0, "launch"): overhead})
    count: Counter = Counter({("", "", "", 0, "launch"): len(analysis.launches)})
    for launch in analysis.launches:
        for key, (spent, times) in _grouped(launch).items():
            cycles[key] += spent
            count[key] += times
    rows: list[PathEntry] = []
    for key, spent in cycles.most_common():
        core, pipe, op, line, kind = key
        share = spent / total if total else 0.0
        rows.append(
            {"core": core, "pipe": pipe, "op": op, "line": line, "kind": kind, "cycles": spent, "share": share, "count": count[key]}
        )
    return rows


def _grouped(launch: LaunchAnalysis) -> dict[tuple, tuple[float, int]]:
    """Cycles and number of the steps by (core type, pipe, op, line, kind)."""
    types = [core_type(core["name"]) for core in launch.time["cores"]]
    out: dict[tuple, tuple[float, int]] = {}
    for core, slot, op, line, kind, count, _, cycles in launch.path.tolist():
        # Only issues and flags are named by their kind alone: what S issues is not what it does.
        key = (types[core], PIPES[slot], _OPS[op] if STEP_KINDS[kind] != "issue" else "", line, STEP_KINDS[kind])
        spent, times = out.get(key, (0.0, 0))
        out[key] = spent + cycles, times + count
    return out
