"""The CSV table that msprof calls op_summary, of a simulated kernel: one row for each launch, under msprof's column names.

Pipe times are averages over the cores that take part, cycles are sums over them, as msprof has them. What a simulation does not know is
``N/A``, msprof's word for it.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..recording import LaunchAnalysis, Recording
from .waits import core_type

PIPE_COLUMNS = {
    "AIC": {"M": "aic_mac", "S": "aic_scalar", "MTE1": "aic_mte1", "MTE2": "aic_mte2", "FIX": "aic_fixpipe"},
    "AIV": {"V": "aiv_vec", "S": "aiv_scalar", "MTE2": "aiv_mte2", "MTE3": "aiv_mte3"},
}
COLUMNS = (
    "Device_id", "Model ID", "Task ID", "Stream ID", "Op Name", "OP Type", "Task Type",
    "Task Start Time(us)", "Task Duration(us)", "Task Wait Time(us)", "Block Dim", "Mix Block Dim",
    "Input Shapes", "Input Data Types", "Input Formats", "Output Shapes", "Output Data Types", "Output Formats",
    "aicore_time(us)", "aic_total_cycles", "aic_mac_time(us)", "aic_mac_ratio", "aic_scalar_time(us)", "aic_scalar_ratio",
    "aic_mte1_time(us)", "aic_mte1_ratio", "aic_mte2_time(us)", "aic_mte2_ratio", "aic_fixpipe_time(us)", "aic_fixpipe_ratio",
    "aic_icache_miss_rate",
    "aiv_time(us)", "aiv_total_cycles", "aiv_vec_time(us)", "aiv_vec_ratio", "aiv_scalar_time(us)", "aiv_scalar_ratio",
    "aiv_mte2_time(us)", "aiv_mte2_ratio", "aiv_mte3_time(us)", "aiv_mte3_ratio", "aiv_icache_miss_rate", "cube_utilization(%)",
)  # fmt: skip
"""Columns of msprof with its PipeUtilization metrics."""
NOT_KNOWN = "N/A"


@dataclass(frozen=True)
class Operand:
    """A tensor of the call."""

    shape: tuple[int, ...]
    dtype: str
    written: bool


def write_op_summary(recording: Recording, path: str | Path, names: Sequence[str], operands: Sequence[Operand] = ()) -> Path:
    """Write one row for each launch. `names` are those of the kernels; `operands` those of the call, shown when it is one launch."""
    path = Path(path)
    launches = recording.analysis.launches
    assert len(names) >= len(launches), f"{len(launches)} launches of {names}"
    start = 0.0
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, restval=NOT_KNOWN)
        writer.writeheader()
        for i, (launch, name) in enumerate(zip(launches, names)):
            row = {
                "Device_id": 0, "Stream ID": 0, "Task ID": i, "Op Name": name, "OP Type": name,
                "Task Start Time(us)": f"{start:.3f}", "Task Wait Time(us)": "0.000",
                **_task(launch), **_pipes(recording, launch), **(_shapes(operands) if len(launches) == 1 else {}),
            }  # fmt: skip
            writer.writerow(row)
            start += launch.time["simulated_us"]
    return path


def _cores(launch: LaunchAnalysis, kind: str) -> list:
    return [core for core in launch.time["cores"] if core_type(core["name"]) == kind]


def _task(launch: LaunchAnalysis) -> dict[str, object]:
    aic, aiv = len(_cores(launch, "AIC")), len(_cores(launch, "AIV"))
    kind = "MIX_AIC" if aic and aiv else "AI_CORE" if aic else "AI_VECTOR_CORE"
    return {
        "Task Type": kind,
        "Task Duration(us)": f"{launch.time['simulated_us']:.3f}",
        "Block Dim": aic or aiv,
        "Mix Block Dim": aiv if aic else 0,
    }


def _pipes(recording: Recording, launch: LaunchAnalysis) -> dict[str, object]:
    us = 1e6 / recording.chip.clock_hz
    row: dict[str, object] = {}
    for kind, total in (("AIC", "aicore_time(us)"), ("AIV", "aiv_time(us)")):
        cores = _cores(launch, kind)
        cycles = sum(core["end_cycles"] for core in cores)
        row[total] = f"{cycles / max(1, len(cores)) * us:.3f}"
        row[f"{kind.lower()}_total_cycles"] = round(cycles)
        for pipe, column in PIPE_COLUMNS[kind].items():
            busy = sum(core["busy_cycles"].get(pipe, 0.0) for core in cores)
            row[f"{column}_time(us)"] = f"{busy / max(1, len(cores)) * us:.3f}"
            row[f"{column}_ratio"] = f"{busy / cycles if cycles else 0.0:.3f}"
    mac = sum(core["busy_cycles"]["M"] for core in _cores(launch, "AIC"))
    whole = recording.chip.num_aic * launch.time["cycles"]
    row["cube_utilization(%)"] = f"{100 * mac / whole if whole else 0.0:.3f}"
    return row


_DTYPES = {"float16": "FLOAT16", "bfloat16": "DT_BF16", "float32": "FLOAT"}


def _shapes(operands: Sequence[Operand]) -> dict[str, object]:
    row: dict[str, object] = {}
    for side, part in (("Input", [o for o in operands if not o.written]), ("Output", [o for o in operands if o.written])):
        row[f"{side} Shapes"] = ";".join(",".join(map(str, o.shape)) for o in part) or NOT_KNOWN
        row[f"{side} Data Types"] = ";".join(_DTYPES.get(o.dtype, o.dtype.upper()) for o in part) or NOT_KNOWN
        row[f"{side} Formats"] = ";".join("ND" for _ in part) or NOT_KNOWN
    return row
