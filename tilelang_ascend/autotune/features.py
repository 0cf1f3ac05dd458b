"""What a program looks like to the machine model, in numbers that mean the same for every kernel."""

from __future__ import annotations

import math
from typing import Sequence

from ..sim.report import PIPES, CoreTime, RunResult

_KINDS = ("AIC", "AIV")


def features_of(run: RunResult) -> dict[str, float]:
    """Features of a time-only run, for what a chip and its model disagree about.

    A correction learnt from them may use what it learnt of one kernel for another one, so nothing in here depends on names or on what is
    computed: only on how much of the time each pipe of each kind of core works, in what portions, and on what is moved.

    Args:
        run: result of `machine.run_in_order` with `SimOptions.time_only()`; other options give the same.

    Returns:
        Plain finite floats; the same names for every run: ``log_us`` (of simulated us), ``launch_share`` and ``assumed_share`` (of it),
        ``log_hbm_read`` and so on (bytes), and for each kind of core (AIC, AIV), 0 where none runs: ``…_cores``, ``…_imbalance`` (last end
        over mean end, less 1), ``…_idle`` (share of time in which its busiest pipe waits), and by pipe ``…_busy_…`` (share of time),
        ``…_log_count_…`` (instructions of all its cores) and ``…_log_cycles_…`` (per instruction).
    """
    us = run.simulated_us
    features = {
        "log_us": math.log(max(us, 1e-3)),
        "launch_share": run.launch_us / us if us else 0.0,
        "assumed_share": run.assumed_share,
        **{f"log_{path}": math.log1p(run.traffic.get(path, 0)) for path in ("hbm_read", "hbm_write", "l2_read", "l2_write")},
    }
    for kind in _KINDS:
        cores = [core for core in run.per_core if kind in core.name and core.end_cycles > 0]
        features.update({f"{kind}_{name}": value for name, value in _of_cores(cores, run.cycles).items()})
    return {name: float(value) for name, value in features.items()}


def _of_cores(cores: Sequence[CoreTime], cycles: float) -> dict[str, float]:
    """Features of the cores of one kind."""
    ends = [core.end_cycles for core in cores]
    busy = {pipe: sum(core.busy_cycles.get(pipe, 0.0) for core in cores) for pipe in PIPES}
    count = {pipe: sum(core.instructions.get(pipe, 0) for core in cores) for pipe in PIPES}
    whole = cycles * len(cores)
    features = {
        "cores": len(cores),
        "imbalance": max(ends) * len(ends) / sum(ends) - 1 if ends else 0.0,
        "idle": 1 - max(busy.values()) / whole if whole else 0.0,
    }
    for pipe in PIPES:
        features[f"busy_{pipe}"] = busy[pipe] / whole if whole else 0.0
        features[f"log_count_{pipe}"] = math.log1p(count[pipe])
        features[f"log_cycles_{pipe}"] = math.log1p(busy[pipe] / count[pipe]) if count[pipe] else 0.0
    return features
