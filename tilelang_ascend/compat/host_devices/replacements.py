"""The parts of torch that function modes do not reach, replaced for the time of a session."""

from __future__ import annotations

import contextlib
import sys
import threading
import types
from typing import Any, Callable, Iterator

import torch
from torch.utils import _device

from .mode import LANDING, HostDevices, is_resident, mark
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
    yield torch, "compile", _run_uncompiled
    yield torch, "load", _load(mode)
    yield torch.autocast, "__init__", _autocast_init(mode)
    yield torch.autograd, "_engine_run_backward", _under(mode, torch.autograd._engine_run_backward)
    yield torch.autograd.profiler.profile, "__init__", _profile_init(mode)
    yield torch.nn.Parameter, "__new__", _parameter_new()
    yield _device.DeviceContext, "__init__", _context_init(mode)
    yield threading.Thread, "start", _thread_start(mode)
    # Its argument parser wants a stream of a real device before any function mode is asked.
    yield torch.Tensor, "record_stream", lambda tensor, stream: None
    if "cuda" in mode.absent:
        for name, value in device_module("cuda").items():
            yield torch.cuda, name, value
        for name in _LEGACY_TYPES:
            yield torch.cuda, name, getattr(torch, name)
        for name in ("range_push", "range_pop", "mark"):
            yield torch.cuda.nvtx, name, lambda *args, **kwargs: 0


_LEGACY_TYPES = tuple(
    f"{kind}Tensor" for kind in ("BFloat16", "Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short")
)


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


def _run_uncompiled(model: Callable | None = None, **options: Any) -> Callable:
    """`torch.compile`: a reference for a GPU is not worth a C++ compiler on the host."""
    return model if model is not None else lambda function: function


def _load(mode: HostDevices) -> Callable:
    original = torch.load

    def load(f, map_location: Any = None, *args, **kwargs):
        """As `torch.load`; tensors saved from or meant for an absent device are loaded to the host."""
        lands = map_location is None or mode.is_absent(map_location)
        return original(f, "cpu" if lands else map_location, *args, **kwargs)

    return load


def _profile_init(mode: HostDevices) -> Callable:
    original = torch.autograd.profiler.profile.__init__

    def init(self, *args, use_device: str | None = None, **kwargs):
        original(self, *args, use_device=None if mode.is_absent(use_device) else use_device, **kwargs)

    return init


def _parameter_new() -> staticmethod:
    """Parameters are made of a tensor without a call that function modes see; they are where the tensor is."""
    original = torch.nn.Parameter.__new__

    def new(cls, data=None, requires_grad: bool = True):
        return mark(original(cls, data, requires_grad), data is not None and is_resident(data))

    return staticmethod(new)


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
    """`function` with the mode on: torch runs `backward` with all modes off, and user-written backward functions with
    it."""

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
