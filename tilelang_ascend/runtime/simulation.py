"""Running an artifact on the machine model: plain calls, and simulations with a report."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Mapping, Sequence

import numpy as np

from .. import env
from ..errors import DeviceAssertionError, Location, SimulationError
from ..log import get_logger
from . import dtypes, launches
from .arguments import Launch
from .artifact import AbiSlot, Artifact
from .npu.profile import kernels_of

if TYPE_CHECKING:
    from ..sim.profile.explain import Explanation
    from ..sim.profile.layout import ReportDict
    from ..sim.recording import Scale

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
        source_file: file the lines belong to, or empty.
        launch_names: names of the kernels the text has, one for each launch.
        operands: tensors of the call, `sim.profile.op_summary.Operand`.
    """

    chip: str
    kernel: str
    outputs: tuple[Any, ...]
    run: Any
    source_file: str = ""
    launch_names: tuple[str, ...] = ()
    operands: tuple[Any, ...] = ()

    def __str__(self) -> str:
        """Where the time goes, in less than a screen."""
        from ..sim.profile.text import report_text

        return report_text(self.to_dict(max_steps=0))

    def __repr__(self) -> str:
        return f"<SimulationReport of {self.kernel} on {self.chip}: {self.simulated_us:.2f} us simulated>"

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

    def to_dict(self, max_steps: int = 1000) -> "ReportDict":
        """Where the time goes, in plain JSON types; the keys are those of `sim.profile.layout`.

        Args:
            max_steps: so many steps of the critical path at most, the last ones.
        """
        from ..sim.profile.build import report_dict

        return report_dict(self, max_steps)

    def summary(self) -> str:
        """Findings, time and occupancy in a few lines."""
        return f"{self.kernel} on {self.chip}: {self.run.text()}"

    def save_trace(self, path: str | Path) -> Path:
        """Write the time line, one row per pipe of each core, for Perfetto; missing folders are made."""
        from ..sim.trace import write_chrome_trace

        Path(path).parent.mkdir(parents=True, exist_ok=True)
        return write_chrome_trace(self.run, path, self.source_file)

    def save_op_summary(self, path: str | Path) -> Path:
        """Write the table msprof calls op_summary: one line for each launch, msprof's column names (`sim.profile.op_summary`).

        `kernel.profile(folder)` reads it when it is named ``op_summary*.csv``.
        """
        from ..sim.profile.op_summary import write_op_summary

        Path(path).parent.mkdir(parents=True, exist_ok=True)
        return write_op_summary(self.run.recording, path, self.launch_names, self.operands)

    def explain(self) -> "Explanation":
        """What bounds the kernel, and what would help most: replays of this run without one cost each."""
        from ..sim.profile.explain import explain

        return explain(self)

    def replay(self, *scales: "Scale") -> float:
        """Microseconds this run would take with costs scaled, launch overheads included."""
        return self.run.recording.simulated_us(*scales)


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
    warm = times is not None and times.warm
    options = SimOptions(checks=checks, adversarial=level == "on", time=times is not None, warm=warm)
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


def simulate(
    artifact: Artifact, launch: Launch, *, values: bool = True, checks: bool = True, warm: bool = True, every_step: bool = False
) -> SimulationReport:
    """Run with time and, as asked, values and checks. Results are in the launch's memory, not yet written back.

    every_step: without values and checks, iterations that repeat others are counted once their rhythm is known, which keeps times within
    1 %; with it they are all issued and replayed.
    warm: L2 holds what an earlier call with the same tensors left in it, as on a board that repeats a measurement; otherwise nothing.
    """
    from ..sim.machine import CHECKS, SimOptions

    # Without values initcheck has nothing to look at.
    chosen = tuple(c for c in CHECKS if values or c != "initcheck") if checks else ()
    options = SimOptions(values=values, checks=chosen, adversarial=values and checks, keep_record=True, warm=warm, every_step=every_step)
    result = _run(artifact, launch, options)
    written = [launch.tensors[p.name] for p in artifact.signature.parameters if p.is_buffer and p.writes]
    names = kernels_of(artifact.kernel_source)
    return SimulationReport(artifact.chip, artifact.name, tuple(written), result, _source_file(artifact), tuple(names), _operands(launch))


def _operands(launch: Launch) -> tuple[Any, ...]:
    """The tensors of the call, in parameter order."""
    from ..sim.profile.op_summary import Operand

    found = []
    for name, buffer in launch.buffers.items():
        p = buffer.parameter
        found.append(Operand(tuple(int(n) for n in launch.tensors[name].shape), p.dtype, p.writes))
    return tuple(found)


def observe(artifact: Artifact, launch: Launch) -> SimulationReport:
    """Run on copies of the arguments, with everything a profile shows: the time line, and the streams with the numbers of their tiles.

    Nobody is told of the run, and what the kernel prints is not shown. Arguments on another device cannot be read: the run is one without values.
    """
    from ..sim.machine import SimOptions

    copies = _copies(launch)
    readable = all(b.device == "cpu" for b in launch.buffers.values())
    options = SimOptions(
        values=readable, checks=(), adversarial=False, trace=True, keep_record=True, warm=True, record_stream=True, record_tiles=True
    )
    result, names = _run(artifact, copies, options, show=False), kernels_of(artifact.kernel_source)
    return SimulationReport(artifact.chip, artifact.name, (), result, _source_file(artifact), tuple(names), _operands(launch))


def _copies(launch: Launch) -> Launch:
    """The launch on memory of its own."""
    buffers = {}
    for name, b in launch.buffers.items():
        raw = np.zeros(b.nbytes + DEVICE_ALIGNMENT, np.uint8)
        address = raw.ctypes.data + -raw.ctypes.data % DEVICE_ALIGNMENT
        if b.device == "cpu" and b.nbytes:
            ctypes.memmove(address, b.address, b.nbytes)
        buffers[name] = replace(b, address=address, keep_alive=raw, device="cpu")
    return replace(launch, buffers=buffers)


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


def _run(artifact: Artifact, launch: Launch, options, show: bool = True):
    from .. import arch
    from ..sim import machine

    memory = _Memory(launch)
    runs = [
        machine.Launch(step.kernel_type, step.block_dim, program.entries, [memory.word(slot, step.block_dim) for slot in step.abi])
        for step, program in zip(artifact.steps, programs_of(artifact))
    ]
    result = machine.run_in_order(arch.get_chip(artifact.chip), runs, memory.tensors, options)
    if show and result.output and sys.stdout is not None:  # a script may have been started without
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
                tensor = Tensor(
                    buffer.address, buffer.nbytes, slot.name, buffer.parameter.writes, fresh=not buffer.initialized, bypass_l2=slot.past_l2
                )
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
