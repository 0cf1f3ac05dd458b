"""The NPU of this machine: its chip, its streams, its memory, and the libraries of kernels it has loaded."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from pathlib import Path
from types import TracebackType

from ... import arch, env
from ...errors import DeviceError, TargetError
from ...targets import register_board
from . import cann
from .acl import TO_DEVICE, TO_HOST, Acl

LINE_BYTES = 32
"""Least that is allocated: tensors may be empty, allocations may not."""


class Board:
    """A driver with at least one device."""

    def __init__(self, found: cann.Cann):
        self.cann = found
        self.acl = Acl(found)
        if self.acl.device_count() == 0:
            raise DeviceError("the driver sees no NPU", hint="look at npu-smi info, and at ASCEND_RT_VISIBLE_DEVICES")
        self.acl.set_device(current_device())
        self.soc = self.acl.soc_name()
        self._streams: dict[int, int] = {}
        self._libraries: dict[Path, ctypes.CDLL] = {}

    @property
    def label(self) -> str:
        """``Ascend910B3 with CANN 8.1.RC1``."""
        return f"{self.soc or 'a chip without a name'} with {self.cann.label}"

    def stream(self, device: int) -> int:
        """The current stream of torch_npu where it is loaded, so that a kernel follows what torch has queued; else one of our own."""
        theirs = _torch_npu()
        if theirs is not None:
            return int(theirs.current_stream(device).npu_stream)
        if device not in self._streams:
            self._streams[device] = self.acl.create_stream()
        return self._streams[device]

    def forget_stream(self, device: int) -> None:
        """The next kernel gets a stream of its own: on this one something hangs."""
        self._streams.pop(device, None)

    def load(self, path: Path) -> ctypes.CDLL:
        """A kernel's library.

        Raises:
            errors.DeviceError: the loader refuses it.
        """
        if path not in self._libraries:
            try:
                self._libraries[path] = ctypes.CDLL(str(path), mode=os.RTLD_NOW)
            except OSError as reason:
                raise DeviceError(
                    f"the library that bisheng of {self.cann.label} made of the kernel cannot be loaded",
                    notes=[str(reason)],
                    hint="source set_env.sh of the same CANN the kernel is compiled with",
                ) from None
        return self._libraries[path]


class DeviceMemory:
    """What one call allocates on the device; given back at the end of the `with` block."""

    def __init__(self, acl: Acl):
        self._acl = acl
        self._held: list[int] = []

    def allocate(self, nbytes: int) -> int:
        """Address of undefined memory."""
        address = self._acl.malloc(max(nbytes, LINE_BYTES))
        self._held.append(address)
        return address

    def copy_of(self, host: int, nbytes: int) -> int:
        """Address of a copy of what lies at a host address."""
        address = self.allocate(nbytes)
        if nbytes:
            self._acl.copy(address, host, nbytes, TO_DEVICE)
        return address

    def copy_back(self, host: int, device: int, nbytes: int) -> None:
        """Overwrite what lies at a host address."""
        if nbytes:
            self._acl.copy(host, device, nbytes, TO_HOST)

    def abandon(self) -> None:
        """Give nothing back: a kernel that hangs may still write there."""
        self._held.clear()

    def __enter__(self) -> DeviceMemory:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        for address in self._held:
            try:
                self._acl.free(address)
            except DeviceError:
                if error is None:  # else the first one says what happened
                    raise


def current_device() -> int:
    """Number of the device a call without tensors on one uses."""
    theirs = _torch_npu()
    return int(theirs.current_device()) if theirs is not None else env.NPU_DEVICE.get()


def _torch_npu():
    """`torch_npu.npu` where the process has it loaded (its names are assumed), else None; never imports it."""
    module = sys.modules.get("torch_npu")
    return getattr(module, "npu", None)


def find_board() -> Board | DeviceError:
    """The board, or why there is none. The driver is asked once in a process for every CANN and device."""
    found = cann.find()
    if found is None:
        return DeviceError(cann.why_absent(), hint=cann.SET_ENV)
    return _open(found, current_device())


def board_chip() -> str | None:
    """SKU of the board of this machine; None when there is no board, or one whose chip is not known here."""
    board = find_board()
    if isinstance(board, DeviceError):
        return None
    try:
        return arch.get_chip(board.soc).name
    except TargetError:
        return None


register_board(board_chip)


@functools.cache
def _open(found: cann.Cann, device: int) -> Board | DeviceError:
    try:
        return Board(found)
    except DeviceError as reason:
        return reason
