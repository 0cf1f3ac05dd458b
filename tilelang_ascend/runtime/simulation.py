"""Running an artifact on the machine model: plain calls, and simulations with a report."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping, Sequence

import numpy as np

from .. import env
from ..errors import DeviceAssertionError, Location, SimulationError
from ..log import get_logger
from . import dtypes, launches
from .arguments import Launch
from .artifact import AbiSlot, Artifact

DEVICE_ALIGNMENT = 512
"""Bytes; what a device allocator gives (assumed)."""


@dataclass(frozen=True)
class SimulationReport:
    """What a simulation found. All times are simulated.

    Attributes:
        chip: SKU that was simulated.
        kernel: name of the kernel.
        outputs: the written tensors, in parameter order; meaningless when simulated without values.
        run: the machine's own result with per-core times, traffic and events.
    """

    chip: str
    kernel: str
    outputs: tuple[Any, ...]
    run: Any
    source_file: str = ""

    @property
    def simulated_us(self) -> float:
        """Launch overhead plus run time, in microseconds."""
        return self.run.simulated_us

    @property
    def cycles(self) -> float:
        """Core clock cycles from the start of the kernel to the end of its last core."""
        return self.run.cycles

    @property
    def bound_pipe(self) -> str:
        """The busiest pipe."""
        return self.run.bound_pipe

    @property
    def occupancy(self) -> Mapping[str, float]:
        """Busy share of the run time of each pipe, averaged over the cores that have it."""
        return self.run.occupancy

    @property
    def hazards(self) -> Sequence[Any]:
        """Findings of the checks; empty for a correct kernel."""
        return self.run.hazards

    @property
    def unwritten(self) -> Sequence[Any]:
        """Outputs allocated by the launch of which the kernel left a part unwritten; empty when simulated without checks."""
        return self.run.unwritten

    def summary(self) -> str:
        """Findings, time and occupancy in a few lines."""
        return f"{self.kernel} on {self.chip}: {self.run.text()}"

    def save_trace(self, path: str | Path) -> Path:
        """Write the time line, one row per pipe of each core, for Perfetto; missing folders are made."""
        from ..sim.trace import write_chrome_trace

        Path(path).parent.mkdir(parents=True, exist_ok=True)
        return write_chrome_trace(self.run, path, self.source_file)

    def save_op_summary(self, path: str | Path) -> Path:
        """Write one CSV line per core: time and share of each pipe."""
        from ..sim.trace import write_op_summary

        Path(path).parent.mkdir(parents=True, exist_ok=True)
        return write_op_summary(self.run, path, self.kernel)


def execute(artifact: Artifact, launch: Launch) -> None:
    """A plain call: values; time only inside `launches.timing_launches`; checks as `TILELANG_SIM_CHECKS` says.

    By default initcheck runs: what was computed from undefined memory is an error when it reaches a tensor, a branch or an index. What
    the kernel never wrote of an output the call allocated is NaN (-1 in integers, False), and a warning tells so once.

    Raises:
        errors.DeviceAssertionError: an assertion of the kernel does not hold.
        errors.SimulationError: the program is wrong.
    """
    from ..sim.machine import CHECKS, SimOptions

    level = env.SIM_CHECKS.get()
    times = launches.wanted_times()
    checks = {"off": (), "initcheck": ("initcheck",), "on": CHECKS}[level]
    options = SimOptions(checks=checks, adversarial=level == "on", time=times is not None)
    result = _run(artifact, launch, options)
    if times is not None:
        times.simulated.append(result.simulated_us)
    stopped = next((h for h in result.hazards if h.check == "trap"), None)
    if stopped is not None:
        raise DeviceAssertionError(stopped.message, at=_source_line(artifact, stopped.first.line), notes=[f"on {stopped.first.core}"])
    for gap in result.unwritten:
        _tell_unwritten(artifact, launch, gap)
    if result.hazards:
        first = result.hazards[0]
        more = len(result.hazards) + result.suppressed - 1
        raise SimulationError(
            first.text() + (f"\nand {more} more" if more else ""),
            at=_source_line(artifact, first.first.line),
            hazards=result.hazards,
        )


def _tell_unwritten(artifact: Artifact, launch: Launch, gap) -> None:
    """Warn, once for each output of a kernel, of elements it never wrote. The machine has given their bytes a pattern."""
    buffer = launch.buffers[gap.tensor]
    if buffer.parameter.dtype == "bool":  # The pattern is no truth value.
        flags = np.ctypeslib.as_array((ctypes.c_uint8 * buffer.nbytes).from_address(buffer.address))
        flags[flags > 1] = 0
    if gap.tensor in artifact.told:
        return
    artifact.told.add(gap.tensor)
    get_logger().warning("%s: %s; such elements are %s", artifact.name, gap.text(), _unwritten_value(buffer.parameter.dtype))


def _unwritten_value(dtype: str) -> str:
    if dtypes.is_float(dtype):
        return "NaN"
    return "False" if dtype == "bool" else "-1" if dtype.startswith("int") else "the largest number of their dtype"


def simulate(artifact: Artifact, launch: Launch, *, values: bool = True, checks: bool = True) -> SimulationReport:
    """Run with time and, as asked, values and checks. Results are in the launch's memory, not yet written back."""
    from ..sim.machine import CHECKS, SimOptions

    # Without values initcheck has nothing to look at.
    chosen = tuple(c for c in CHECKS if values or c != "initcheck") if checks else ()
    options = SimOptions(values=values, checks=chosen, adversarial=values and checks, trace=True)
    result = _run(artifact, launch, options)
    written = [launch.tensors[p.name] for p in artifact.signature.parameters if p.is_buffer and p.writes]
    return SimulationReport(artifact.chip, artifact.name, tuple(written), result, _source_file(artifact))


def programs_of(artifact: Artifact):
    """The compiled host programs of an artifact, one for each step; built at the first run."""
    if not artifact.programs:
        artifact.programs = build_programs(artifact.ascend_ir)
    return artifact.programs


def build_programs(ascend_ir):
    """Compile Ascend IR for this machine, launch by launch."""
    from .. import native
    from ..ir.functions import launches as split
    from ..sim.lower import host_program

    native.load()
    return tuple(map(host_program, split(ascend_ir)))


def _run(artifact: Artifact, launch: Launch, options):
    from .. import arch
    from ..sim import machine

    memory = _Memory(launch)
    runs = [
        machine.Launch(step.kernel_type, step.block_dim, program.entries, [memory.word(slot, step.block_dim) for slot in step.abi])
        for step, program in zip(artifact.steps, programs_of(artifact))
    ]
    result = machine.run_in_order(arch.get_chip(artifact.chip), runs, memory.tensors, options)
    if result.output and sys.stdout is not None:  # a script may have been started without
        sys.stdout.write(result.output)
    return result


class _Memory:
    """The tensors of one call: the user's, the workspaces of every step, and those that the steps share."""

    def __init__(self, launch: Launch):
        self.launch = launch
        self.tensors: list = []
        self.addresses: dict[str, int] = {}
        self.keep_alive: list = []

    def word(self, slot: AbiSlot, block_dim: int) -> int:
        """What a step with so many blocks is given for a parameter."""
        from ..sim.machine import Tensor

        if slot.kind == "scalar":
            return _scalar_word(slot, self.launch.scalars[slot.name])
        if slot.kind == "workspace":
            return self._add(Tensor(self._workspace(slot.nbytes * block_dim), slot.nbytes * block_dim, slot.name, scratch=True))
        if slot.name not in self.addresses:
            if slot.kind == "shared":
                tensor = Tensor(self._workspace(slot.nbytes), slot.nbytes, slot.name, scratch=True)
            else:
                buffer = self.launch.buffers[slot.name]
                tensor = Tensor(buffer.address, buffer.nbytes, slot.name, buffer.parameter.writes, fresh=not buffer.initialized)
            self.addresses[slot.name] = self._add(tensor)
        return self.addresses[slot.name]

    def _add(self, tensor) -> int:
        if tensor.nbytes:
            self.tensors.append(tensor)
        return tensor.address

    def _workspace(self, nbytes: int) -> int:
        raw = np.empty(nbytes + DEVICE_ALIGNMENT, np.uint8)
        self.keep_alive.append(raw)
        return raw.ctypes.data + -raw.ctypes.data % DEVICE_ALIGNMENT


def _scalar_word(slot: AbiSlot, value: int | float) -> int:
    from ..isa.stream import float_bits, is_float

    return float_bits(float(value)) if is_float(slot.dtype) else int(value)


def _source_file(artifact: Artifact) -> str:
    return next((p.location.file for p in artifact.signature.parameters if p.location), "")


def _source_line(artifact: Artifact, line: int) -> Location | None:
    file = _source_file(artifact)
    return Location(file, line) if file and line else None
