"""The time of pipes without a rest, and the reasons of what they wait for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ..recording import Analysis, LaunchAnalysis
from ..report import PIPES
from .layout import PipeTime, Stall

KINDS = ("bandwidth", "flag", "barrier", "issue", "queue", "cross", "scalar", "end")
"""Reasons for which a pipe waits; with ``busy`` they are all of its time."""


def core_type(name: str) -> str:
    """``AIC`` of ``AIC 3``."""
    return name.split(" ")[0]


def _numbers_of_cores(launch: LaunchAnalysis) -> Counter:
    return Counter(core_type(core["name"]) for core in launch.time["cores"])


def _used(launch: LaunchAnalysis) -> dict[tuple[str, str], tuple[float, float]]:
    """(core type, pipe) -> cycles and instructions, of pipes that execute something, S always; sums over the cores."""
    busy: Counter = Counter()
    count: Counter = Counter()
    for core in launch.time["cores"]:
        for pipe, cycles in core["busy_cycles"].items():
            busy[core_type(core["name"]), pipe] += cycles
            count[core_type(core["name"]), pipe] += core["instructions"][pipe]
    return {key: (busy[key], count[key]) for key in busy if count[key] or key[1] == "S"}


def pipe_times(analysis: Analysis) -> list[PipeTime]:
    """One row for each pipe that executes something, AIC first."""
    rows: dict[tuple[str, str], Counter] = {}
    cores: Counter = Counter()
    for launch in analysis.launches:
        number = _numbers_of_cores(launch)
        for (core, pipe), (busy, count) in _used(launch).items():
            row = rows.setdefault((core, pipe), Counter())
            n = number[core]
            cores[core, pipe] = max(cores[core, pipe], n)
            waited = Counter()
            for stall in launch.stalls:
                if (stall["core"], stall["pipe"]) == (core, pipe):
                    waited[stall["kind"]] += stall["cycles"]
            row.update({"instructions": count / n, "elapsed": launch.time["cycles"], "busy": (busy - waited["bandwidth"]) / n})
            row.update({kind: waited[kind] / n for kind in KINDS})
    return [_pipe_time(*key, cores[key], rows[key]) for key in sorted(rows, key=lambda key: (key[0], PIPES.index(key[1])))]


def _pipe_time(core: str, pipe: str, cores: int, row: Mapping[str, float]) -> PipeTime:
    return {
        "core": core,
        "pipe": pipe,
        "cores": cores,
        "instructions": row["instructions"],
        "elapsed_cycles": row["elapsed"],
        "busy_cycles": row["busy"],
        "bandwidth_cycles": row["bandwidth"],
        "flag_cycles": row["flag"],
        "barrier_cycles": row["barrier"],
        "issue_cycles": row["issue"],
        "queue_cycles": row["queue"],
        "cross_cycles": row["cross"],
        "scalar_cycles": row["scalar"],
        "end_cycles": row["end"],
    }


def stalls(analysis: Analysis, pipes: Sequence[PipeTime]) -> list[Stall]:
    """Every reason for which a pipe of `pipes` waits, the most expensive one first."""
    cycles: Counter = Counter()
    count: Counter = Counter()
    for launch in analysis.launches:
        number, used = _numbers_of_cores(launch), _used(launch)
        for s in launch.stalls:
            if (s["core"], s["pipe"]) in used:
                key = (s["core"], s["pipe"], s["kind"], s["line"], s["resource"], s["set_line"])
                cycles[key] += s["cycles"] / number[s["core"]]
                count[key] += s["count"] / number[s["core"]]
    elapsed = {(p["core"], p["pipe"]): p["elapsed_cycles"] for p in pipes}
    rows: list[Stall] = []
    for key, waited in cycles.most_common():
        core, pipe, kind, line, resource, set_line = key
        share = waited / elapsed[core, pipe]
        rows.append(
            {
                "core": core, "pipe": pipe, "kind": kind, "line": line, "resource": resource, "set_line": set_line,
                "cycles": waited, "share": share, "count": count[key],
            }
        )  # fmt: skip
    return rows
