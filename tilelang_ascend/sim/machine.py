"""Run core programs on the machine model: values, hazards and simulated time.

The machine itself is C++ (src/machine). This module is its Python face: options in, `RunResult` out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from .. import native
from ..arch import ChipSpec
from ..isa.base import KERNEL_TYPES
from .recording import Recording, TimeLine
from .report import RunResult, joined, joined_line

CHECKS = ("memcheck", "initcheck", "racecheck", "synccheck")


@dataclass(frozen=True)
class SimOptions:
    """What a run observes, and how it schedules."""

    values: bool = True
    """Simulate the contents of memories. Without values, on-chip reads give 0."""

    checks: tuple[str, ...] = CHECKS
    """Checks to run: `memcheck` (accesses outside of tensors or memories, misaligned, writes to read-only tensors),
    `initcheck` (undefined values that reach GM or a decision; needs `values`), `racecheck` (accesses that no flag,
    barrier or cross-core flag orders), `synccheck` (misuse of flags). Deadlocks and malformed instructions are
    always reported."""

    adversarial: bool = True
    """Transfers land as late as flags allow and cores start in shuffled order, so a missing wait shows as wrong data.
    Otherwise every instruction executes as soon as it can."""

    seed: int = 0
    """Seed of the shuffles of the adversarial schedule."""

    time: bool = True
    """Simulate time."""

    trace: bool = False
    """Keep the time line of every instruction in `RunResult.events` (needs `time`). With `keep_record` it is made when it is asked for."""

    record_stream: bool = False
    """Keep the issued instructions of every core in `RunResult.streams`."""

    record_tiles: bool = False
    """Keep the number of its tile in every operand word of `RunResult.streams` (`isa.stream.operand_base`), which streams that are
    compared or issued again must not have."""

    count_writes: bool = False
    """Count how often every byte of the tensors is written: `RunResult.writes` (needs `values`)."""

    max_reports: int = 20
    """Hazards kept; further distinct ones are only counted."""

    max_instructions: int = 0
    """Stop a core that issues more instructions than this (a loop that never ends); 0: no limit."""

    every_step: bool = False
    """Time: issue and replay every iteration. Otherwise a run of times alone counts the iterations of loops that repeat themselves once
    it has seen their rhythm; its times are within 1 % of those of every step."""

    warm: bool = False
    """Time: L2 starts with what an earlier run of the same launches on the same tensors left in it, as on a board that repeats a
    measurement. Otherwise it starts empty."""

    keep_record: bool = False
    """Keep what time was computed from (needs `time`): `RunResult.recording` says where the time goes, and replays it at other prices."""

    def __post_init__(self):
        unknown = set(self.checks) - set(CHECKS)
        if unknown:
            raise ValueError(f"unknown checks {', '.join(sorted(unknown))}; known are {', '.join(CHECKS)}")
        if self.trace and not self.time:
            raise ValueError("trace=True needs time=True")
        if self.keep_record and not self.time:
            raise ValueError("keep_record=True needs time=True")
        if self.count_writes and not self.values:
            raise ValueError("count_writes=True needs values=True")

    @classmethod
    def time_only(cls, **more: Any) -> SimOptions:
        """The fast mode: no values and no checks."""
        return cls(**{"values": False, "checks": (), "adversarial": False, **more})


class Tensor(NamedTuple):
    """One tensor in GM. `scratch` memory (workspaces) starts undefined, and undefined values may pass through it. Of
    `fresh` ones (outputs the launch allocated) `RunResult.unwritten` tells what was never written. Traffic with one that
    bypasses L2 (`SetL2CacheHint` of Ascend C) goes to HBM and leaves nothing in L2.
    """

    address: int
    nbytes: int
    name: str
    writable: bool = True
    scratch: bool = False
    fresh: bool = False
    bypass_l2: bool = False


class Launch(NamedTuple):
    """One launch on a chip.

    kernel_type: ``aic_only``, ``aiv_only`` or ``mix_1_2`` (block b = AIC b and AIV 2b, 2b+1).
    block_dim: number of blocks, at least 1.
    entries: ``"aic"``/``"aiv"`` -> program of that core type: a `tvm_ffi.Function` of `len(args)` ints, the address of a C function
        ``void (const int64_t*, int32_t)``, or a list of recorded streams (bytes; one for all cores of the type, or one each). Programs
        must be native code: a core may stop in the middle while others run.
    args: int64 words of the entry: scalars (floats as float64 bits) and addresses.
    """

    kernel_type: str
    block_dim: int
    entries: Mapping[str, Any]
    args: Sequence[int]


def run(
    chip: ChipSpec,
    kernel_type: str,
    block_dim: int,
    entries: Mapping[str, Any],
    args: Sequence[int],
    gm: Sequence[Tensor | tuple],
    options: SimOptions = SimOptions(),
) -> RunResult:
    """Run one launch to its end, to a deadlock, or to an error. Arguments and errors: see `Launch` and `run_in_order`."""
    return run_in_order(chip, [Launch(kernel_type, block_dim, entries, args)], gm, options)


def run_in_order(chip: ChipSpec, launches: Sequence[Launch], gm: Sequence[Tensor | tuple], options: SimOptions = SimOptions()) -> RunResult:
    """Run launches that stand one after the other in a stream: each begins when the one before has ended.

    Contents of GM, what of it is undefined, and what L2 holds pass from one to the next. What follows a deadlock or a program that stopped
    itself is not run.

    Args:
        chip: the chip.
        launches: at least one.
        gm: tensors in GM, those of all launches. They must stay alive and must not overlap.
        options: what to observe.

    Raises:
        ValueError: impossible launch parameters.
        RuntimeError: a program failed (threw an exception); the message names the core.
        NativeLibraryError: the native library is missing or stale.
    """
    given = []
    for kernel_type, block_dim, entries, args in launches:
        _check_launch(chip, kernel_type, block_dim, entries)
        given.append([kernel_type, block_dim, _entry(entries.get("aic")), _entry(entries.get("aiv")), [_int64(value) for value in args]])
    rows = [list(Tensor(*row)) for row in gm]
    spec = {**asdict(options), "checks": list(options.checks)}
    done, replay = native.function("machine.run")(chip.to_json(), given, rows, spec)
    found = [_result(*parts, rows, chip) for parts in done]
    result = found[0] if len(launches) == 1 else joined(found)
    if replay is None:
        return result
    recording = Recording(replay, chip, options.warm)
    if options.trace:
        return replace(result, recording=recording)
    return replace(result, recording=recording, time_line=lambda: joined_line(found, recording.time_lines()))


def _result(report: str, streams, events, writes, syncs, rows: list, chip: ChipSpec) -> RunResult:
    parsed = json.loads(report)
    if parsed["error"]:
        raise RuntimeError(f"the program of core {parsed['error']}")
    counts = {row[2]: bytes(n) for row, n in zip(rows, writes)}
    line = TimeLine.of(bytes(events), bytes(syncs))
    return RunResult.from_json(parsed, chip.clock_hz, [bytes(s) for s in streams], line, counts)


def _check_launch(chip: ChipSpec, kernel_type: str, block_dim: int, entries: Mapping[str, Any]) -> None:
    if kernel_type not in KERNEL_TYPES:
        raise ValueError(f"kernel type {kernel_type!r} is none of {', '.join(KERNEL_TYPES)}")
    if block_dim < 1:
        raise ValueError(f"block_dim is {block_dim}, it must be at least 1")
    limit = chip.num_aiv if kernel_type == "aiv_only" else chip.num_aic
    if block_dim > limit:
        raise ValueError(f"block_dim {block_dim} is more than the {limit} cores of {chip.name} that run at a time")
    needed = KERNEL_TYPES[kernel_type]
    missing = [core for core in needed if entries.get(core) is None]
    if missing:
        raise ValueError(f"a {kernel_type} kernel needs an entry for {' and '.join(missing)}")


def _entry(entry: Any) -> Any:
    return list(entry) if isinstance(entry, (list, tuple)) else entry


def _int64(value: int) -> int:
    """Two's complement: bit patterns with the top bit set are negative int64."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value
