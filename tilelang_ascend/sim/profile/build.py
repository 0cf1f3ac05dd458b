"""From a report to the dict of `layout`."""

from __future__ import annotations

from typing import Any

from .bands import error_band
from .bound import bound_of
from .critical import critical_path
from .layout import LAYOUT_VERSION, ReportDict
from .traffic import data_paths, l2_use, roofline, tensor_traffic
from .waits import core_type, pipe_times, stalls


def report_dict(report: Any, max_steps: int) -> ReportDict:
    """`SimulationReport.to_dict()`."""
    run, recording = report.run, report.run.recording
    analysis = recording.analysis
    name, share = bound_of(recording.chip, run)
    pipes = pipe_times(analysis)
    path = critical_path(recording, max_steps)
    between_cores = any(e["kind"] == "cross" for e in path["entries"])
    cores = [[core_type(core["name"]) for core in launch.time["cores"]] for launch in analysis.launches]
    return {
        "version": LAYOUT_VERSION,
        "kernel": report.kernel,
        "chip": report.chip,
        "source_file": report.source_file,
        "launches": len(analysis.launches),
        "clock_hz": recording.chip.clock_hz,
        "cores": {kind: n for kind in ("AIC", "AIV") if (n := max(names.count(kind) for names in cores))},
        "simulated_us": run.simulated_us,
        "launch_us": run.launch_us,
        "cycles": run.cycles,
        "bound": {"name": name, "share": share},
        "error_band": error_band(name, share, run.simulated_us - run.launch_us, run.launch_us, between_cores),
        "assumed_share": assumed_share(recording, run),
        "roofline": roofline(recording, run),
        "pipes": pipes,
        "stalls": stalls(analysis, pipes),
        "critical_path": path,
        "paths": data_paths(recording),
        "tensors": tensor_traffic(recording),
        "l2": l2_use(run, recording.warm),
        "stuck": run.stuck,
        "hazards": [h.text() for h in report.hazards],
    }


def assumed_share(recording: Any, run: Any) -> float:
    """Of the critical path, launch included."""
    cycles = sum(launch.assumed_cycles for launch in recording.analysis.launches)
    us = cycles / recording.chip.clock_hz * 1e6
    if recording.chip.quantities["launch_seconds"].is_assumed:
        us += run.launch_us
    return us / run.simulated_us if run.simulated_us else 0.0
