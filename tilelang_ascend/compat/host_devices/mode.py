"""The function mode that sends tensors of absent devices to host memory.

A tensor that a script put on a device is *resident*: it carries a mark that results computed from it inherit. The
mark decides what cannot be seen from the memory, which is the host's anyway: `.cuda()` of a resident tensor is the
tensor itself and of any other tensor a copy, `.cpu()` the other way round, and `is_cuda` is true for resident tensors
only.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Callable

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _device

LANDING = torch.device("cpu", 0)
"""Stands for an absent device wherever torch wants a device object: host memory, but not equal to plain ``cpu``."""

_MARK = "_resident_on_absent_device"
_PACKAGE = str(Path(__file__).resolve().parents[2])
_HERE = str(Path(__file__).resolve().parents[1])


class HostDevices(TorchFunctionMode):
    """Every torch call made below it sees the families of devices in `absent` as host memory."""

    def __init__(self, absent: frozenset[str]):
        self.absent = absent
        self._special: dict[Any, Callable] = {
            torch.device: self._device,
            torch.Tensor.to: self._to,
            torch.Tensor.cuda: self._cuda,
            torch.Tensor.cpu: self._cpu,
            torch.Tensor.pin_memory: lambda func, args, kwargs: args[0],
            torch.Tensor.data.__set__: self._set_data,
            torch.Tensor.is_cuda.__get__: self._is_cuda,
        }
        self._constructors = _device._device_constructors()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        special = self._special.get(func)
        if special is not None:
            return special(func, args, kwargs)
        lands = self._lands(func, kwargs)
        if lands and "device" in kwargs:
            kwargs = {**kwargs, "device": "cpu"}
        if kwargs.get("pin_memory"):
            kwargs = {**kwargs, "pin_memory": False}
        result = func(*args, **kwargs)
        if lands or _any_resident(args):
            _mark_results(func, result)
        return result

    def is_absent(self, device: Any) -> bool:
        """True for everything torch takes as a device that names one of the absent families."""
        if isinstance(device, bool) or device is None:
            return False
        if isinstance(device, int):
            return "cuda" in self.absent
        if isinstance(device, torch.device):
            return device.type in self.absent or device == LANDING
        return isinstance(device, str) and device.partition(":")[0] in self.absent

    def _lands(self, func: Any, kwargs: dict) -> bool:
        """True when the result of a call is meant to be on an absent device because its arguments say so."""
        device = kwargs.get("device")
        if device is not None:
            return self.is_absent(device)
        if func not in self._constructors:
            return False
        return _device.CURRENT_DEVICE == LANDING or _called_from_package()

    def _device(self, func, args, kwargs):
        """A device object; torch without an NPU plug-in does not know the name ``npu``."""
        given = args[0] if args else kwargs.get("type", kwargs.get("device"))
        if isinstance(given, str) and given.partition(":")[0] == "npu" and "npu" in self.absent:
            return LANDING
        return func(*args, **kwargs)

    def _to(self, func, args, kwargs):
        tensor, rest = args[0], list(args[1:])
        by_name = "device" in kwargs
        target = kwargs["device"] if by_name else rest[0] if rest else kwargs.get("tensor")
        if isinstance(target, torch.Tensor):
            wanted = is_resident(target)
        elif self.is_absent(target):
            wanted = True
        elif isinstance(target, (str, torch.device)):
            wanted = False
        else:
            return mark(func(*args, **kwargs), is_resident(tensor))
        if not isinstance(target, torch.Tensor) and wanted:
            kwargs, rest = ({**kwargs, "device": "cpu"}, rest) if by_name else (kwargs, ["cpu", *rest[1:]])
        moves = wanted != is_resident(tensor)
        result = func(tensor, *rest, **kwargs)
        return mark(result.clone() if moves and result is tensor else result, wanted)

    def _cuda(self, func, args, kwargs):
        if "cuda" not in self.absent:
            return func(*args, **kwargs)
        layout = {"memory_format": kwargs["memory_format"]} if "memory_format" in kwargs else {}
        return args[0] if is_resident(args[0]) else mark(args[0].clone(**layout), True)

    def _set_data(self, func, args, kwargs):
        func(*args, **kwargs)
        mark(args[0], is_resident(args[1]))

    def _cpu(self, func, args, kwargs):
        return mark(args[0].clone(), False) if is_resident(args[0]) else func(*args, **kwargs)

    def _is_cuda(self, func, args, kwargs):
        return "cuda" in self.absent and is_resident(args[0])


def is_resident(tensor: torch.Tensor) -> bool:
    """Whether a script put the tensor on an absent device, or computed it from one that is there."""
    return _MARK in tensor.__dict__


def mark(tensor: torch.Tensor, resident: bool) -> torch.Tensor:
    """Note whether the tensor is resident. Returns it."""
    if resident:
        tensor.__dict__[_MARK] = True
    else:
        tensor.__dict__.pop(_MARK, None)
    return tensor


def _any_resident(values: Any) -> bool:
    for value in values:
        if isinstance(value, torch.Tensor):
            if _MARK in value.__dict__:
                return True
        elif isinstance(value, (list, tuple)) and _any_resident(value):
            return True
    return False


def _mark_results(func: Any, result: Any) -> None:
    """Mark new tensors. In-place operations return their operand, which stays where it is."""
    if isinstance(result, torch.Tensor):
        name = getattr(func, "__name__", "")
        if not name.endswith("_") or name.endswith("__"):
            result.__dict__[_MARK] = True
    elif isinstance(result, (list, tuple)):
        for item in result:
            if isinstance(item, torch.Tensor):
                item.__dict__[_MARK] = True


def _called_from_package() -> bool:
    """True when this package makes the tensor: what a kernel returns and what the profiler makes up is on the
    device."""
    file = sys._getframe(3).f_code.co_filename
    return file.startswith(_PACKAGE) and not file.startswith(_HERE)
