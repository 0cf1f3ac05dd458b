"""The parts of torch that function modes do not reach, replaced for the time of a session."""

from __future__ import annotations

import contextlib
import sys
import threading
import types
from typing import Any, Callable, Iterator

import torch
from torch.utils import _device

from .mode import LANDING, HostDevices
from .module import device_module


@contextlib.contextmanager
def replaced(mode: HostDevices) -> Iterator[None]:
    """Replace what belongs to the absent families of `mode`; everything is put back afterwards."""
    with contextlib.ExitStack() as undo:
        for owner, name, value in _replacements(mode):
            _replace(undo, owner, name, value)
        if "npu" in mode.absent:
            _add_npu(undo)
        yield


def _replacements(mode: HostDevices) -> Iterator[tuple[Any, str, Any]]:
    """(owner, attribute, new value)."""
    yield torch, "Generator", _generator_class(mode)
    yield torch.autocast, "__init__", _autocast_init(mode)
    yield _device.DeviceContext, "__init__", _context_init(mode)
    yield torch.autograd, "_engine_run_backward", _under(mode, torch.autograd._engine_run_backward)
    yield threading.Thread, "start", _thread_start(mode)
    # Its argument parser wants a stream of a real device before any function mode is asked.
    yield torch.Tensor, "record_stream", lambda tensor, stream: None
    if "cuda" in mode.absent:
        for name, value in device_module("cuda").items():
            yield torch.cuda, name, value
        for name in ("range_push", "range_pop", "mark"):
            yield torch.cuda.nvtx, name, lambda *args, **kwargs: 0


def _add_npu(undo: contextlib.ExitStack) -> None:
    """`torch.npu`, `Tensor.npu()` and `Module.npu()`, which only the plug-in for a real NPU defines."""
    module = types.ModuleType("torch.npu")
    vars(module).update(device_module("npu"))
    _replace(undo, torch, "npu", module)
    sys.modules["torch.npu"] = module
    undo.callback(sys.modules.pop, "torch.npu", None)

    def npu(self, *args, **kwargs):
        """Moves to the NPU."""
        return self.to("npu")

    _replace(undo, torch.Tensor, "npu", npu)
    _replace(undo, torch.nn.Module, "npu", lambda self, *args, **kwargs: self._apply(lambda t: t.npu()))


def _generator_class(mode: HostDevices) -> type:
    class Generator(torch.Generator):
        """A random generator; those of absent devices are generators of the host."""

        def __new__(cls, device: Any = "cpu"):
            return super().__new__(cls, "cpu" if mode.is_absent(device) else device)

    return Generator


def _autocast_init(mode: HostDevices) -> Callable:
    original = torch.autocast.__init__

    def init(self, device_type: str, dtype=None, enabled: bool = True, cache_enabled=None):
        if mode.is_absent(device_type):
            # CUDA's own default; the host's would be bfloat16.
            device_type, dtype = "cpu", torch.float16 if dtype is None else dtype
        original(self, device_type, dtype, enabled, cache_enabled)

    return init


def _context_init(mode: HostDevices) -> Callable:
    """`torch.set_default_device` and ``with torch.device(…)`` both make a `DeviceContext`."""
    original = _device.DeviceContext.__init__

    def init(self, device):
        original(self, LANDING if mode.is_absent(device) else device)

    return init


def _under(mode: HostDevices, function: Callable) -> Callable:
    """`function` with the mode on: torch runs `backward` with all modes off, and user-written backward functions with it."""

    def run(*args, **kwargs):
        if mode in torch.overrides._get_current_function_mode_stack():
            return function(*args, **kwargs)
        with mode:
            return function(*args, **kwargs)

    return run


def _thread_start(mode: HostDevices) -> Callable:
    """Function modes belong to one thread; new threads get this one too."""
    original = threading.Thread.start

    def start(self):
        self.run = _under(mode, self.run)
        original(self)

    return start


_ABSENT = object()


def _replace(undo: contextlib.ExitStack, owner: Any, name: str, value: Any) -> None:
    before = vars(owner).get(name, _ABSENT)
    if before is _ABSENT:
        undo.callback(delattr, owner, name)
    else:
        undo.callback(setattr, owner, name, before)
    setattr(owner, name, value)
