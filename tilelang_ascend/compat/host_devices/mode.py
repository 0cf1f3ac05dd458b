"""The function mode that sends tensors of absent devices to host memory.

A tensor that a script put on a device has that device's family as its *home*: it carries a mark that results computed
from it inherit. The mark decides what cannot be seen from the memory, which is the host's anyway: `.cuda()` of such a
tensor is the tensor itself and of any other tensor a copy, `.cpu()` the other way round, and `device`, `is_cuda`,
`is_cpu` and `get_device()` answer as they would for a tensor on that device. This package sees the truth: it asks for
`device` to learn where the memory is.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Callable

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _device

LANDINGS = {"cuda": torch.device("cpu", 1), "npu": torch.device("cpu", 2)}
"""Stand for absent devices wherever torch wants a device object that works: host memory, but equal to nothing a script
may name."""

_MARK = "_home_on_absent_device"
_PACKAGE = str(Path(__file__).resolve().parents[2])
_HERE = str(Path(__file__).resolve().parents[1])


class HostDevices(TorchFunctionMode):
    """Every torch call made below it sees the families of devices in `absent` as host memory."""

    def __init__(self, absent: frozenset[str]):
        self.absent = absent
        # What `tensor.device` says. torch without an NPU plug-in has no device of that name.
        self._devices = {"cuda": torch.device("cuda", 0), "npu": LANDINGS["npu"]}
        self._special: dict[Any, Callable] = {
            torch.device: self._device,
            torch.Tensor.to: self._to,
            torch.Tensor.cuda: self._cuda,
            torch.Tensor.cpu: self._cpu,
            torch.Tensor.pin_memory: lambda func, args, kwargs: args[0],
            torch.Tensor.data.__set__: self._set_data,
            torch.Tensor.device.__get__: self._answer(lambda home: self._devices[home]),
            torch.Tensor.is_cuda.__get__: self._answer(lambda home: home == "cuda"),
            torch.Tensor.is_cpu.__get__: self._answer(lambda home: False),
            torch.Tensor.get_device: self._answer(lambda home: 0),
        }
        self._constructors = _device._device_constructors()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        special = self._special.get(func)
        if special is not None:
            return special(func, args, kwargs)
        home = self._landing(func, kwargs)
        if home and "device" in kwargs:
            kwargs = {**kwargs, "device": "cpu"}
        if kwargs.get("pin_memory"):
            kwargs = {**kwargs, "pin_memory": False}
        result = func(*args, **kwargs)
        if home is None and kwargs.get("device") is None:
            home = home_of_any(args)
        if home:
            _mark_results(func, result, home)
        return result

    def family_of(self, device: Any) -> str | None:
        """The absent family that `device` names, in any form torch takes; None for every other device."""
        if isinstance(device, bool) or device is None:
            return None
        if isinstance(device, int):
            family = "cuda"
        elif isinstance(device, torch.device):
            family = next((f for f, landing in LANDINGS.items() if device == landing), device.type)
        else:
            family = device.partition(":")[0] if isinstance(device, str) else None
        return family if family in self.absent else None

    def is_absent(self, device: Any) -> bool:
        """True for everything torch takes as a device that names one of the absent families."""
        return self.family_of(device) is not None

    def visible(self, device: torch.device) -> torch.device:
        """`device` as a script may see it: landings are shown as what they stand for."""
        family = self.family_of(device)
        return device if family is None else self._devices[family]

    def forget_default_device(self) -> None:
        """Undo a script's `torch.set_default_device` of an absent device."""
        if self.is_absent(_device.CURRENT_DEVICE):
            torch.set_default_device(None)

    def _landing(self, func: Any, kwargs: dict) -> str | None:
        """The absent family the result of a call is meant for because its arguments or the default device say so."""
        device = kwargs.get("device")
        if device is not None:
            return self.family_of(device)
        if func not in self._constructors:
            return None
        family = self.family_of(_device.CURRENT_DEVICE)
        if family is None and _called_from_package():
            # What a kernel returns and what the profiler makes up is on the device.
            family = "cuda" if "cuda" in self.absent else "npu"
        return family

    def _device(self, func, args, kwargs):
        """A device object; torch without an NPU plug-in does not know the name ``npu``."""
        given = args[0] if args else kwargs.get("type", kwargs.get("device"))
        if isinstance(given, str) and given.partition(":")[0] == "npu" and "npu" in self.absent:
            return LANDINGS["npu"]
        return func(*args, **kwargs)

    def _to(self, func, args, kwargs):
        tensor, rest = args[0], list(args[1:])
        by_name = "device" in kwargs
        target = kwargs["device"] if by_name else rest[0] if rest else kwargs.get("tensor")
        if isinstance(target, torch.Tensor):
            wanted = home_of(target)
        elif isinstance(target, (str, int, torch.device)) and not isinstance(target, bool):
            wanted = self.family_of(target)
        else:
            return mark(func(*args, **kwargs), home_of(tensor))
        if not isinstance(target, torch.Tensor) and wanted:
            kwargs, rest = ({**kwargs, "device": "cpu"}, rest) if by_name else (kwargs, ["cpu", *rest[1:]])
        moves = wanted != home_of(tensor)
        result = func(tensor, *rest, **kwargs)
        return mark(result.clone() if moves and result is tensor else result, wanted)

    def _cuda(self, func, args, kwargs):
        if "cuda" not in self.absent:
            return func(*args, **kwargs)
        layout = {"memory_format": kwargs["memory_format"]} if "memory_format" in kwargs else {}
        return args[0] if home_of(args[0]) == "cuda" else mark(args[0].clone(**layout), "cuda")

    def _set_data(self, func, args, kwargs):
        func(*args, **kwargs)
        mark(args[0], home_of(args[1]))

    def _cpu(self, func, args, kwargs):
        return mark(args[0].clone(), None) if home_of(args[0]) else func(*args, **kwargs)

    def _answer(self, of_home: Callable[[str], Any]) -> Callable:
        """A question about a tensor whose answer follows from its home; torch answers for tensors without one."""

        def answer(func, args, kwargs):
            home = home_of(args[0])
            return func(*args, **kwargs) if home is None or _called_from_package() else of_home(home)

        return answer


def home_of(tensor: torch.Tensor) -> str | None:
    """The absent family a script put the tensor on, or computed it on; None for a tensor that is where torch says."""
    return tensor.__dict__.get(_MARK)


def mark(tensor: torch.Tensor, home: str | None) -> torch.Tensor:
    """Note where a script believes the tensor to be. Returns it."""
    if home:
        tensor.__dict__[_MARK] = home
    else:
        tensor.__dict__.pop(_MARK, None)
    return tensor


def home_of_any(values: Any) -> str | None:
    """The home of the first tensor in nested lists and tuples that has one."""
    for value in values:
        if isinstance(value, torch.Tensor):
            home = home_of(value)
        else:
            home = home_of_any(value) if isinstance(value, (list, tuple)) else None
        if home:
            return home
    return None


def _mark_results(func: Any, result: Any, home: str) -> None:
    """Mark new tensors. In-place operations return their operand, which stays where it is."""
    if isinstance(result, torch.Tensor):
        name = getattr(func, "__name__", "")
        if not name.endswith("_") or name.endswith("__"):
            result.__dict__[_MARK] = home
    elif isinstance(result, (list, tuple)):
        for item in result:
            if isinstance(item, torch.Tensor):
                item.__dict__[_MARK] = home


def _called_from_package() -> bool:
    """True when this package, not the script or torch, made the call that a function mode sees."""
    file = sys._getframe(3).f_code.co_filename
    return file.startswith(_PACKAGE) and not file.startswith(_HERE)
