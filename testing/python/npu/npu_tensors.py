"""Tensors of torch_npu that are none: memory the stand-in of the driver gives, which says it is on an NPU."""

from __future__ import annotations

import ctypes
import math
import types

import torch


class NpuTensor(torch.Tensor):
    """A tensor whose storage is device memory of the stand-in."""

    driver: ctypes.CDLL
    number = 0

    @property
    def device(self):
        return _Device(f"npu:{self.number}")

    def numpy(self, **_):
        raise TypeError("can't convert npu:0 device type tensor to numpy")

    def cpu(self):
        return torch.tensor(self.tolist(), dtype=self.dtype)

    def new_empty(self, shape, dtype=None):
        return allocate(self.driver, shape, dtype or self.dtype, self.number)


class _Device(str):
    """As `torch.device` prints it where torch_npu is loaded."""

    @property
    def type(self) -> str:
        return self.partition(":")[0]


def allocate(driver: ctypes.CDLL, shape, dtype: torch.dtype, number: int = 0) -> NpuTensor:
    """A fresh tensor; its memory stays allocated."""
    place = ctypes.c_void_p()
    count = math.prod(shape)
    nbytes = max(count, 1) * torch.empty((), dtype=dtype).element_size()
    assert driver.aclrtSetDevice(number) == 0 and driver.aclrtMalloc(ctypes.byref(place), ctypes.c_size_t(nbytes), 0) == 0
    flat = torch.frombuffer((ctypes.c_uint8 * nbytes).from_address(place.value), dtype=dtype)
    made = flat[:count].view(tuple(shape)).as_subclass(NpuTensor)
    NpuTensor.driver, made.number = driver, number
    return made


def to_npu(driver: ctypes.CDLL, tensor: torch.Tensor, number: int = 0) -> NpuTensor:
    """A copy of a tensor of the host."""
    made = allocate(driver, tensor.shape, tensor.dtype, number)
    made.copy_(tensor)
    return made


def torch_npu(driver: ctypes.CDLL) -> types.ModuleType:
    """A module with what the launcher asks torch_npu: the current device and its current stream."""
    stream = ctypes.c_void_p()
    assert driver.aclrtSetDevice(0) == 0 and driver.aclrtCreateStream(ctypes.byref(stream)) == 0
    module = types.ModuleType("torch_npu")
    module.npu = types.SimpleNamespace(
        current_device=lambda: 0, current_stream=lambda device: types.SimpleNamespace(npu_stream=stream.value)
    )
    return module
