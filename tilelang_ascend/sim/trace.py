"""Time lines for people's tools: Chrome/Perfetto JSON."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from ..isa.table import TABLE
from .flags import flag_links, flag_name
from .report import PIPES, RunResult


def write_chrome_trace(result: RunResult, path: str | Path, source: str = "") -> Path:
    """Write the time line of a run made with ``trace=True``: one process for each core, one row for each of its pipes.

    Times are microseconds of simulated time. `source` is the file the lines belong to; it becomes ``file:line`` in the
    details of an event. Flags are flows: arrows from what was set behind to what waited. The file opens in Perfetto and in chrome://tracing.
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
    rows += _flows(result, us)
    summary = {"simulated_us": result.simulated_us, "cycles": result.cycles, "bound_pipe": result.bound_pipe}
    path.write_text(json.dumps({"traceEvents": rows, "displayTimeUnit": "ns", "otherData": summary}))
    return path


def _flows(result: RunResult, us: float) -> list[dict]:
    """Begin and end of the arrow of each flag; both lie in the slice of their instruction, by which viewers find it."""
    rows = []
    events = result.events
    for number, (source, destination, event, flag) in enumerate(flag_links(result).tolist()):
        name = flag_name(event, flag)
        for phase, at in (("s", source), ("f", destination)):
            core, slot, _, _, start, _ = events[at].tolist()
            rows.append({"ph": phase, "pid": core, "tid": slot, "ts": start * us, "id": number, "name": name, "cat": "flag"})
        rows[-1]["bp"] = "e"  # the slice around it, not the next one
    return rows
