"""The parts of torch that function modes do not reach, replaced for the time of a session."""

from __future__ import annotations

import contextlib
import contextvars
import sys
import threading
import types
from typing import Any, Callable, Iterator

import torch
from torch.autograd.function import BackwardCFunction
from torch.testing._comparison import TensorLikePair
from torch.utils import _device

from .mode import LANDINGS, HostDevices, home_of, home_of_any, mark
from .module import CUDA_VERSION, accelerator, device_module


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
    yield torch.autograd, "_engine_run_backward", _run_backward(mode)
    yield BackwardCFunction, "apply", _backward_of_function()
    yield torch.library, "custom_op", _custom_op(mode)
    yield torch.autograd.profiler.profile, "__init__", _profile_init(mode)
    yield torch.nn.Parameter, "__new__", _parameter_new()
    yield _device.DeviceContext, "__init__", _context_init(mode)
    yield threading.Thread, "start", _thread_start(mode)
    # Its argument parser wants a stream of a real device before any function mode is asked.
    yield torch.Tensor, "record_stream", lambda tensor, stream: None
    yield torch, "get_default_device", _default_device(mode)
    yield TensorLikePair, "__init__", _comparison_init()
    for name, value in accelerator(mode.absent).items():
        yield torch.accelerator, name, value
    if "cuda" in mode.absent:
        yield torch.version, "cuda", CUDA_VERSION
        for name, value in device_module("cuda").items():
            if name not in _OF_SUBMODULES:
                yield torch.cuda, name, value
            for module in (torch.cuda.memory, torch.cuda.profiler, torch.cuda.random):
                if hasattr(module, name):
                    yield module, name, value
        for name in _LEGACY_TYPES:
            yield torch.cuda, name, getattr(torch, name)
        for name in ("range_push", "range_pop", "mark"):
            yield torch.cuda.nvtx, name, lambda *args, **kwargs: 0


_OF_SUBMODULES = ("_record_memory_history", "start", "stop")

_LEGACY_TYPES = tuple(f"{kind}Tensor" for kind in ("BFloat16", "Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short"))


def _add_npu(undo: contextlib.ExitStack) -> None:
    """`torch.npu`, `Tensor.npu()`, `Tensor.is_npu` and `Module.npu()`, which only the plug-in for a real NPU defines."""
    module = types.ModuleType("torch.npu")
    vars(module).update(device_module("npu"))
    _replace(undo, torch, "npu", module)
    sys.modules["torch.npu"] = module
    undo.callback(sys.modules.pop, "torch.npu", None)

    def npu(self, *args, **kwargs):
        """Moves to the NPU."""
        return self.to("npu")

    _replace(undo, torch.Tensor, "npu", npu)
    _replace(undo, torch.Tensor, "is_npu", property(lambda tensor: home_of(tensor) == "npu"))
    _replace(undo, torch.nn.Module, "npu", lambda self, *args, **kwargs: self._apply(lambda t: t.npu()))


def _generator_class(mode: HostDevices) -> type:
    class Generator(torch.Generator):
        """A random generator; those of absent devices are generators of the host."""

        def __new__(cls, device: Any = "cpu"):
            self = super().__new__(cls, "cpu" if mode.is_absent(device) else device)
            self._asked_for = torch.device(device)
            return self

        @property
        def device(self) -> torch.device:
            """Where a script believes it to be."""
            return self._asked_for if mode.is_absent(self._asked_for) else super().device

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
        if mode.is_absent(use_device):
            use_device, kwargs["use_cpu"] = None, True
        original(self, *args, use_device=use_device, **kwargs)

    return init


def _parameter_new() -> staticmethod:
    """Parameters are made of a tensor without a call that function modes see; they are where the tensor is."""
    original = torch.nn.Parameter.__new__

    def new(cls, data=None, requires_grad: bool = True):
        return mark(original(cls, data, requires_grad), None if data is None else home_of(data))

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
        original(self, LANDINGS.get(mode.family_of(device), device))

    return init


def _default_device(mode: HostDevices) -> Callable:
    original = torch.get_default_device

    def get_default_device() -> torch.device:
        """As `torch.get_default_device`; an absent device is called by its name."""
        return mode.visible(_device.CURRENT_DEVICE) if mode.is_absent(_device.CURRENT_DEVICE) else original()

    return get_default_device


def _comparison_init() -> Callable:
    """`torch.testing.assert_close`. Tensors that are all in host memory can be compared, wherever a script believes them
    to be: a tensor may lose its mark on a way that function modes do not see."""
    original = TensorLikePair.__init__

    def init(self, actual, expected, *, check_device: bool = True, **options):
        ours = any(isinstance(t, torch.Tensor) and home_of(t) for t in (actual, expected))
        original(self, actual, expected, check_device=check_device and not ours, **options)

    return init


_backward_home: contextvars.ContextVar[str | None] = contextvars.ContextVar("backward_home", default=None)
"""Home of the tensors a running backward pass began with."""


def _run_backward(mode: HostDevices) -> Callable:
    run_with_mode = _under(mode, torch.autograd._engine_run_backward)

    def run(outputs, *args, **kwargs):
        """The backward pass, with the mode on: torch runs it with all modes off."""
        token = _backward_home.set(home_of_any(outputs))
        try:
            return run_with_mode(outputs, *args, **kwargs)
        finally:
            _backward_home.reset(token)

    return run


def _backward_of_function() -> Callable:
    original = BackwardCFunction.apply

    def apply(self, *gradients):
        """Hands gradients that torch made to a backward function of the user."""
        for gradient in gradients:
            if isinstance(gradient, torch.Tensor) and home_of(gradient) is None:
                mark(gradient, _backward_home.get())
        return original(self, *gradients)

    return apply


def _custom_op(mode: HostDevices) -> Callable:
    original = torch.library.custom_op

    def custom_op(name, fn=None, /, *, device_types=None, **options):
        """As `torch.library.custom_op`; what is meant for an absent device works on host memory."""
        types = [device_types] if isinstance(device_types, str) else device_types
        if types is not None:
            types = sorted({"cpu" if mode.is_absent(t) else t for t in types})
        return original(name, fn, device_types=types, **options)

    return custom_op


def _under(mode: HostDevices, function: Callable) -> Callable:
    """`function` with the mode on."""

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
