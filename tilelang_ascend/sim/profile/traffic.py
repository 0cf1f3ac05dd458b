"""Bytes by path and by tensor, what L2 served, and achieved rates beside what the chip has."""

from __future__ import annotations

from collections import Counter

from ...isa.table import TABLE
from ..recording import Recording
from ..report import RunResult
from .bound import shared_rates
from .layout import L2, DataPath, Roof, TensorTraffic


def path_of(op: str) -> str:
    """``GM->UB``: from the first operand an instruction reads to the first it writes; ``->L1`` of one that reads none."""
    operands = TABLE[op].operands
    source = next((o.spaces[0].name for o in operands if not o.writes), "")
    return f"{source}->{next(o.spaces[0].name for o in operands if o.writes)}"


def _unit(recording: Recording, op: str) -> str:
    """What the work of an instruction is counted in: ``bytes``, ``lanes``, ``flops`` or nothing."""
    rates = recording.chip.prices[TABLE[op].cost_class].rates
    if "bytes" in rates:
        return "bytes"
    if any(key in rates for key in ("b8", "b16", "b32", "b64")):
        return "lanes"
    return "flops" if rates else ""


def data_paths(recording: Recording) -> list[DataPath]:
    """All ways data took, the one with most bytes first."""
    nbytes: Counter = Counter()
    cycles: Counter = Counter()
    for row in recording.analysis.ops:
        moved = row["gm_bytes"] or (row["work"] if _unit(recording, row["op"]) == "bytes" else 0)
        if moved:
            nbytes[path_of(row["op"])] += int(moved)
            cycles[path_of(row["op"])] += row["cycles"]
    return [{"path": path, "bytes": moved, "cycles": cycles[path]} for path, moved in nbytes.most_common()]


def tensor_traffic(recording: Recording) -> list[TensorTraffic]:
    """All tensors that were touched, the one with most traffic first."""
    touched = [row for row in recording.analysis.tensors if row["read_bytes"] or row["written_bytes"]]
    return [_tensor(row) for row in sorted(touched, key=lambda row: -row["read_bytes"] - row["written_bytes"])]


def _tensor(row) -> TensorTraffic:
    return {
        "name": row["name"],
        "scratch": row["scratch"],
        "nbytes": row["nbytes"],
        "read_bytes": row["read_bytes"],
        "written_bytes": row["written_bytes"],
        "least_read_bytes": row["least_read_bytes"],
        "least_written_bytes": row["least_written_bytes"],
        "hbm_read_bytes": row["hbm_read_bytes"],
        "hbm_written_bytes": row["hbm_written_bytes"],
    }


def l2_use(run: RunResult, warm: bool) -> L2:
    """Hits are bytes read that did not come from HBM; HBM moves whole lines, so that the rest can be more than what was asked for."""
    read, hbm_read = run.traffic["l2_read"], run.traffic["hbm_read"]
    return {
        "hit_share": max(0.0, 1 - hbm_read / read) if read else 0.0,
        "read_bytes": read,
        "written_bytes": run.traffic["l2_write"],
        "hbm_read_bytes": hbm_read,
        "hbm_written_bytes": run.traffic["hbm_write"],
        "warm": warm,
    }


def roofline(recording: Recording, run: RunResult) -> list[Roof]:
    """Rates without launch overhead. The roofs of computation are those of all cores of the chip, at the mix of dtypes of the kernel."""
    chip = recording.chip
    seconds = run.cycles / chip.clock_hz
    rows: list[Roof] = []
    for name, unit, what, cores in (("cube", "TFLOPS", "flops", chip.num_aic), ("vector", "TOPS", "lanes", chip.num_aiv)):
        ops = [row for row in recording.analysis.ops if row["least_cycles"] and _unit(recording, row["op"]) == what]
        work, least = sum(row["work"] for row in ops), sum(row["least_cycles"] for row in ops)
        if work and seconds:
            rows.append(_roof(name, unit, work / seconds / 1e12, work / least * chip.clock_hz * cores / 1e12))
    for name, (had, most) in shared_rates(chip, run).items():
        rows.append(_roof(name, "GB/s", had / 1e9, most / 1e9))
    return rows


def _roof(name: str, unit: str, achieved: float, roof: float) -> Roof:
    return {"name": name, "unit": unit, "achieved": achieved, "roof": roof, "share": achieved / roof}
