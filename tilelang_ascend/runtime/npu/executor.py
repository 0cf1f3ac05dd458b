"""Running a kernel on the board: compile, copy, launch, wait, copy back."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ... import arch, env
from ...errors import ArgumentValueError, DeviceError, DeviceTimeoutError, TargetError
from ...log import get_logger
from .. import dtypes, launches
from ..arguments import GmBuffer, Launch
from ..artifact import AbiSlot, Artifact
from . import build
from .board import Board, DeviceMemory, current_device, find_board

_SCALARS: dict[str, Any] = {
    "bool": ctypes.c_bool,
    "int8": ctypes.c_int8,
    "uint8": ctypes.c_uint8,
    "int16": ctypes.c_int16,
    "uint16": ctypes.c_uint16,
    "int32": ctypes.c_int32,
    "uint32": ctypes.c_uint32,
    "int64": ctypes.c_int64,
    "uint64": ctypes.c_uint64,
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
}
"""dtype -> type in the C interface of the launcher."""

_BITS: dict[int, Any] = {1: ctypes.c_uint8, 2: ctypes.c_uint16}
"""Bytes of a narrower float -> type of its bits, as which the launcher takes it."""


class NpuExecutor:
    """The local board."""

    name = "npu"
    devices: tuple[str, ...] = ("cpu", "npu")

    def unavailable(self, artifact: Artifact | None = None) -> str | None:
        board = find_board()
        if isinstance(board, DeviceError):
            return " ".join([board.message, *(f"({text})" for text, _ in board.notes)])
        return _misfit(board, artifact) if artifact is not None else None

    def label(self) -> str:
        """What runs kernels: chip and release of CANN."""
        board = find_board()
        return board.label if isinstance(board, Board) else "no NPU"

    def launch(self, artifact: Artifact, launch: Launch) -> None:
        """Run the kernel on the launch's memory and return when it is done. Tensors on the device are used in place.

        Raises:
            errors.DeviceCompileError: bisheng does not compile the text.
            errors.DeviceError: the driver, or the kernel on the device, failed; DeviceMemoryError, DeviceTimeoutError say how.
        """
        board = find_board()
        assert isinstance(board, Board), "chosen only where there is one"
        with _placed(board, artifact, launch) as (start, memory, places):
            start()
            for b in launch.buffers.values():
                if b.parameter.writes and b.device == "cpu":
                    memory.copy_back(b.address, places[b.name], b.nbytes)

    def prepare(self, artifact: Artifact) -> None:
        """Compile the kernel now and not at its first launch.

        Raises:
            errors.DeviceCompileError: bisheng does not compile the text.
        """
        board = find_board()
        assert isinstance(board, Board), "chosen only where there is one"
        board.load(build.binary(artifact, board.cann))

    @contextlib.contextmanager
    def measuring(self, artifact: Artifact, launch: Launch) -> Iterator[launches.Measure]:
        """Gives what measures the kernel in a `with` block, between two events around each launch. The launch's memory is copied to the device
        once and nothing is copied back, so a launch finds what the one before has written.

        Raises:
            as for `launch`.
        """
        board = find_board()
        assert isinstance(board, Board), "chosen only where there is one"
        with _placed(board, artifact, launch) as (start, _, _):

            def measure(warmup: int, repeats: int) -> tuple[list[float], str]:
                with launches.timing_launches() as told:
                    for _ in range(warmup + repeats):
                        start()
                return told.measured[warmup:], "device"

            yield measure


@contextlib.contextmanager
def _placed(board: Board, artifact: Artifact, launch: Launch) -> Iterator[tuple[Callable[[], None], DeviceMemory, dict[str, int]]]:
    """The launch's memory on the device: a function that runs the kernel and waits for it, the memory, and addresses by parameter."""
    _tell_silent(artifact)
    device = _device_of(launch)
    board.acl.set_device(device)
    library = board.load(build.binary(artifact, board.cann))
    stream = board.stream(device)
    with DeviceMemory(board.acl) as memory:
        places = {b.name: _place(memory, b) for b in launch.buffers.values()}
        arguments = _arguments(artifact, launch, memory, places, library, stream)
        try:
            yield lambda: _run(board, artifact.name, library, arguments, stream), memory, places
        except DeviceTimeoutError:
            memory.abandon()
            board.forget_stream(device)
            raise


def _tell_silent(artifact: Artifact) -> None:
    """Say once that a kernel's text is not printed there."""
    if any(step.shows for step in artifact.steps) and "silent" not in artifact.told:
        artifact.told.add("silent")
        get_logger().warning("%s: what it prints is not shown on the NPU; kernel.simulate(...) prints it", artifact.name)


def _misfit(board: Board, artifact: Artifact) -> str | None:
    """Why a kernel cannot run on the board; None when it can."""
    try:
        there = arch.get_chip(board.soc)
    except TargetError:
        return f"the NPU is {board.label}, a chip this release does not know"
    if arch.get_chip(artifact.chip).generation != there.generation:
        return f"kernel {artifact.name} is compiled for {artifact.chip}, the NPU is {board.label}"
    for step in artifact.steps:
        cores = there.num_aiv if step.kernel_type == "aiv_only" else there.num_aic
        if step.block_dim > cores:  # cores that wait for each other run at a time
            return f"kernel {artifact.name} launches {step.block_dim} blocks, as {artifact.chip} has; the NPU, {board.label}, has {cores}"
    return None


def _device_of(launch: Launch) -> int:
    """Number of the device that has the call's tensors."""
    there = {b.device: b.name for b in launch.buffers.values() if b.device != "cpu"}
    if len(there) > 1:
        told = ", ".join(f"{name} on {device}" for device, name in there.items())
        raise ArgumentValueError(f"The tensors of a call are on several devices: {told}")
    for device in there:
        return int(device.partition(":")[2] or 0)
    return current_device()


def _place(memory: DeviceMemory, buffer: GmBuffer) -> int:
    """Address on the device: of the tensor itself, of a copy, or of memory for what nobody has written yet."""
    if buffer.device != "cpu":
        return buffer.address
    return memory.copy_of(buffer.address, buffer.nbytes) if buffer.initialized else memory.allocate(buffer.nbytes)


def _arguments(artifact: Artifact, launch: Launch, memory: DeviceMemory, places: dict[str, int], library: ctypes.CDLL, stream: int) -> list:
    """What the launcher `call` takes (codegen/host.py), as ctypes values."""
    first = artifact.steps[0].abi
    values: list = [ctypes.c_void_p(places[slot.name]) for slot in first if slot.kind == "buffer"]
    values += [_scalar(slot, launch) for slot in first if slot.kind == "scalar"]
    blocks = [ctypes.c_uint32(step.block_dim) for step in artifact.steps]
    if any(slot.kind in ("workspace", "shared") for step in artifact.steps for slot in step.abi):
        size = library.workspace_bytes
        size.restype = ctypes.c_uint64
        values.append(ctypes.c_void_p(memory.allocate(size(*blocks))))
    return [*values, *blocks, ctypes.c_void_p(stream)]


def _scalar(slot: AbiSlot, launch: Launch) -> Any:
    value = launch.scalars[slot.name]
    if slot.dtype in _SCALARS:
        return _SCALARS[slot.dtype](value)
    narrow = np.asarray(value).astype(dtypes.numpy_dtype(slot.dtype))
    return _BITS[narrow.itemsize](int.from_bytes(narrow.tobytes(), "little"))


def _run(board: Board, name: str, library: ctypes.CDLL, arguments: list, stream: int) -> None:
    """Launch and wait; between two events where somebody wants to know the time."""
    times = launches.wanted_times()
    events = [board.acl.create_event() for _ in range(2)] if times is not None else []
    if events:
        board.acl.record(events[0], stream)
    code = library.call(*arguments)
    if code:
        raise DeviceError(
            f"kernel {name} cannot be launched: the driver gives no address for flags between cores",
            notes=[f"the launcher returned {code} after rtGetC2cCtrlAddr"],
        )
    if events:
        board.acl.record(events[1], stream)
    board.acl.synchronize(stream, env.NPU_TIMEOUT.get(), f"kernel {name}")
    if times is not None:
        times.measured.append(board.acl.elapsed_us(*events))
        for event in events:
            board.acl.destroy_event(event)
