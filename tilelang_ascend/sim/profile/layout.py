"""Lay-out of `SimulationReport.to_dict()`: plain JSON types, stable keys.

Times are simulated. Cycles are those of the core clock; those of a row of several cores are averages over these cores. A run of several
launches has the sums over its launches. Every list is sorted by what costs most, unless it says otherwise.
"""

from __future__ import annotations

from typing import TypedDict

LAYOUT_VERSION = 1
"""Goes up when a key changes its meaning or goes away; new keys may come."""


class Bound(TypedDict):
    """What bounds the kernel as a whole, in the classes of docs/calibration.md."""

    name: str  # HBM, L2 read, L2 write, a pipe, or latency (nothing is busy for half of the time)
    share: float  # of the time that it is in use


class ErrorBand(TypedDict):
    """How far simulated times of this bound class are from published measurements (docs/calibration.md, docs/profile.md)."""

    relative: float  # 0.1: a tenth too long, or as much too short; 9 of 10 rows are closer
    low_us: float
    high_us: float
    rows: int  # how many compared rows that rests on
    basis: str  # which rows: "MTE2-bound rows", "the worst of all rows: none is bound by FIX"


class Roof(TypedDict):
    """One resource: what was achieved and what the chip has."""

    name: str  # "cube", "vector", "HBM", "L2 read" or "L2 write"
    unit: str  # "TFLOPS", "TOPS" (lanes of vector instructions) or "GB/s"
    achieved: float
    roof: float
    share: float  # achieved / roof


class PipeTime(TypedDict):
    """The time of one pipe, averaged over the cores that have it. The parts from `busy` to `end` add up to `elapsed_cycles`."""

    core: str  # "AIC" or "AIV"
    pipe: str  # S, V, M, MTE1, MTE2, MTE3 or FIX
    cores: int
    instructions: float
    elapsed_cycles: float  # from the start of the launch to the end of its last core
    busy_cycles: float  # executes; of a transfer what it would take alone
    bandwidth_cycles: float  # transfers wait for bandwidth of HBM or L2 that other cores use
    flag_cycles: float  # a flag of another pipe of the core is not yet set
    barrier_cycles: float  # a pipe_barrier waits for results
    issue_cycles: float  # nothing to do: the scalar unit issues other instructions first
    queue_cycles: float  # the same: the scalar unit waits in front of a full queue
    cross_cycles: float  # the same: the scalar unit waits for a flag of another core
    scalar_cycles: float  # the same: the scalar unit waits for a flag or for all pipes
    end_cycles: float  # has nothing more to do; others have


class Stall(TypedDict):
    """One reason for which a pipe does not execute. The stalls of a pipe add up to what it is not busy."""

    core: str  # "AIC" or "AIV"
    pipe: str  # that waits
    kind: str  # bandwidth, flag, barrier, issue, queue, cross, scalar or end
    line: int  # source line of the wait; bandwidth: of the transfer; issue: of the instruction that came late; 0: unknown
    resource: str  # flag, queue, cross: the pipe waited for; bandwidth: "HBM" or "L2"; else ""
    set_line: int  # flag, cross: source line of what was waited for; else 0
    cycles: float
    share: float  # of elapsed_cycles
    count: float  # waits


class PathEntry(TypedDict):
    """Steps of the critical path that have everything but their time in common."""

    core: str  # "AIC" or "AIV"; "" for the launch
    pipe: str
    op: str
    line: int
    kind: str  # busy, bandwidth, latency, issue, flag, cross, launch
    cycles: float
    share: float  # of the path
    count: int


class PathStep(TypedDict):
    """One step of the critical path; a step begins when the one before ends."""

    core: str  # "AIC 3"; "launch 2 AIC 3" in a run of several launches; "" for the launch
    pipe: str
    op: str
    line: int
    kind: str
    start_cycles: float  # of the time line of `save_trace`
    cycles: float


class CriticalPath(TypedDict):
    """What the last core waited for, back to the first instruction. Cycles of all entries add up to `cycles`."""

    cycles: float  # the whole time, launch overheads included
    entries: list[PathEntry]
    num_steps: int
    steps: list[PathStep]  # in order of time; the last ones, as many as `to_dict(max_steps=...)` allows


class DataPath(TypedDict):
    """One way data take."""

    path: str  # "GM->L1"
    bytes: int
    cycles: float  # in which its instructions kept their pipes, summed over cores


class TensorTraffic(TypedDict):
    """What a tensor in GM costs against the least possible: every byte that is used, once."""

    name: str
    scratch: bool  # a workspace of the compiler
    nbytes: int
    read_bytes: int  # by all cores
    written_bytes: int
    least_read_bytes: int  # different bytes among those
    least_written_bytes: int
    hbm_read_bytes: int  # what L2 did not have, in whole lines
    hbm_written_bytes: int  # written back from L2 during the run


class L2(TypedDict):
    """What L2 served."""

    hit_share: float  # of bytes read; 0 without reads
    read_bytes: int
    written_bytes: int
    hbm_read_bytes: int
    hbm_written_bytes: int
    warm: bool  # it began with what an earlier run of the same launches left in it


class ReportDict(TypedDict):
    """`SimulationReport.to_dict()`."""

    version: int
    kernel: str
    chip: str
    source_file: str  # "" when unknown; lines are lines of it
    launches: int
    clock_hz: float
    cores: dict[str, int]  # "AIC", "AIV" -> how many the largest launch uses
    simulated_us: float
    launch_us: float
    cycles: float
    bound: Bound
    error_band: ErrorBand
    assumed_share: float  # of the critical path that rests on constants marked as assumed
    roofline: list[Roof]
    pipes: list[PipeTime]
    stalls: list[Stall]
    critical_path: CriticalPath
    paths: list[DataPath]
    tensors: list[TensorTraffic]
    l2: L2
    stuck: str  # names a core that never ends: times mean nothing; else ""
    hazards: list[str]
