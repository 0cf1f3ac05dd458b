"""What bounds a run, in the classes in which docs/calibration.md compares rows."""

from __future__ import annotations

from ...arch import ChipSpec
from ..report import RunResult

SHARED = 0.85
"""HBM or L2 bounds a run when it uses this share of their bandwidth."""
PIPE = 0.5
"""Else its busiest pipe does, when it is busy for this share of the time."""


def shared_rates(chip: ChipSpec, run: RunResult) -> dict[str, tuple[float, float]]:
    """Bytes per second that the kernel (without launch overhead) had, and what the chip has, of each shared resource."""
    seconds = run.cycles / chip.clock_hz
    moved = {
        "HBM": (run.traffic["hbm_read"] + run.traffic["hbm_write"], chip.hbm_bytes_per_second),
        "L2 read": (run.traffic["l2_read"], chip.l2_read_bytes_per_second),
        "L2 write": (run.traffic["l2_write"], chip.l2_write_bytes_per_second),
    }
    return {name: (nbytes / seconds if seconds else 0.0, roof) for name, (nbytes, roof) in moved.items()}


def bound_of(chip: ChipSpec, run: RunResult) -> tuple[str, float]:
    """``HBM``, ``L2 read``, ``L2 write``, a pipe or ``latency``, and the share of the time it is in use (of ``latency``: the busiest pipe)."""
    shares = {name: had / roof for name, (had, roof) in shared_rates(chip, run).items()}
    best = max(shares, key=lambda name: shares[name])
    if shares[best] > SHARED:
        return best, shares[best]
    share = run.occupancy.get(run.bound_pipe, 0.0)
    return (run.bound_pipe if share > PIPE else "latency"), share
