"""Time lines for people's tools: Chrome/Perfetto JSON, and a summary in the shape of msprof's op_summary."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np

from ..isa.table import TABLE
from .report import PIPES, RunResult

_SUMMARY_PIPES = {
    "S": "scalar", "V": "vec", "M": "mac", "MTE1": "mte1", "MTE2": "mte2", "MTE3": "mte3", "FIX": "fixpipe",
}  # fmt: skip


def write_chrome_trace(result: RunResult, path: str | Path, source: str = "") -> Path:
    """Write the time line of a run made with ``trace=True``: one process for each core, one row for each of its pipes.

    Times are microseconds of simulated time. `source` is the file the lines belong to; it becomes ``file:line`` in the
    details of an event. The file opens in Perfetto and in chrome://tracing.
    """
    path = Path(path)
    names = list(TABLE)
    us = 1e6 / result.clock_hz if result.clock_hz else 0.0
    rows: list[dict] = []
    for core, slot in np.unique(result.events[["core", "slot"]]).tolist():
        rows.append({"ph": "M", "pid": core, "name": "process_name", "args": {"name": result.core_names[core]}})
        rows.append({"ph": "M", "pid": core, "tid": slot, "name": "thread_name", "args": {"name": PIPES[slot]}})
        rows.append({"ph": "M", "pid": core, "tid": slot, "name": "thread_sort_index", "args": {"sort_index": slot}})
    for event in result.events.tolist():
        core, slot, op, line, start, duration = event
        details = {"source": f"{source}:{line}" if source else line, "cycles": duration}
        span = {"ts": start * us, "dur": duration * us}
        rows.append({"ph": "X", "pid": core, "tid": slot, "name": names[op], **span, "args": details})
    summary = {"simulated_us": result.simulated_us, "cycles": result.cycles, "bound_pipe": result.bound_pipe}
    path.write_text(json.dumps({"traceEvents": rows, "displayTimeUnit": "ns", "otherData": summary}))
    return path


def write_op_summary(result: RunResult, path: str | Path, name: str = "kernel") -> Path:
    """Write a CSV with one line for each core: times of its pipes in microseconds and shares of its time."""
    path = Path(path)
    us = 1e6 / result.clock_hz if result.clock_hz else 0.0
    header = ["Op Name", "Core", "Task Duration(us)", "Total Cycles"]
    for label in _SUMMARY_PIPES.values():
        header += [f"{label}_time(us)", f"{label}_ratio"]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        for core in result.per_core:
            row = [name, core.name, f"{core.end_cycles * us:.3f}", f"{core.end_cycles:.0f}"]
            for pipe in _SUMMARY_PIPES:
                busy = core.busy_cycles.get(pipe, 0.0)
                row += [f"{busy * us:.3f}", f"{busy / core.end_cycles if core.end_cycles else 0.0:.3f}"]
            writer.writerow(row)
    return path
