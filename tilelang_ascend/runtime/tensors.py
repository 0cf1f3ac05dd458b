"""One view on torch tensors and numpy arrays: shape, strides, address, copy, write back."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import dtypes


def is_torch(x: Any) -> bool:
    """True for torch tensors, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def is_tensor(x: Any) -> bool:
    """True for the array types a kernel accepts."""
    return isinstance(x, np.ndarray) or is_torch(x)


@dataclass(frozen=True)
class HostTensor:
    """A torch tensor or numpy array as the executors see it; strides are in elements, addresses in bytes, on the device that has it."""

    value: Any

    @property
    def is_torch(self) -> bool:
        return is_torch(self.value)

    @property
    def dtype(self) -> str:
        return dtypes.dtype_name(self.value.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.value.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        if self.is_torch:
            return tuple(self.value.stride())
        size = self.value.itemsize
        # A byte stride that is no multiple of the element (a field of a record array) never equals a declared stride.
        return tuple(s // size if s % size == 0 else 0 for s in self.value.strides)

    @property
    def device(self) -> str:
        return str(self.value.device) if self.is_torch else "cpu"

    @property
    def writable(self) -> bool:
        return True if self.is_torch else bool(self.value.flags.writeable)

    @property
    def address(self) -> int:
        return self.value.data_ptr() if self.is_torch else self.value.ctypes.data

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def dtype_label(self) -> str:
        """The dtype as the tensor's own library spells it."""
        return str(self.value.dtype)

    def label_of(self, dtype: str) -> str:
        """`dtype` as this tensor's library spells it; of 4 bits, what two of them are an element of."""
        names = dtypes.packed(dtype, self.is_torch)
        text = " or ".join(f"torch.{name}" if self.is_torch else name for name in names)
        return text if names == (dtype,) else f"{text} (two {dtype} in each element)"

    def byte_range(self) -> tuple[int, int]:
        """First address and one past the last address any element uses; equal when there is no element."""
        if self.size == 0:
            return (0, 0)
        item = dtypes.itemsize(self.dtype)
        strides = [s * item for s in self.value.stride()] if self.is_torch else self.value.strides
        low = sum(min(0, (n - 1) * s) for n, s in zip(self.shape, strides))
        high = sum(max(0, (n - 1) * s) for n, s in zip(self.shape, strides))
        return (self.address + low, self.address + high + item)

    def shares_memory(self, other: "HostTensor") -> bool:
        """True when some element of one is (or, where that is too hard to decide, may be) an element of the other."""
        (a0, a1), (b0, b1) = self.byte_range(), other.byte_range()
        if self.device != other.device or a1 <= b0 or b1 <= a0:
            return False
        if self.device != "cpu":
            return True
        try:
            return bool(np.shares_memory(self._as_numpy(), other._as_numpy(), max_work=100_000))  # type: ignore[arg-type]  # numpy's annotation knows -1 and 0 only
        except np.exceptions.TooHardError:
            return True

    @property
    def missing_memory(self) -> str | None:
        """Why there are no elements in memory to read or write; None when there are."""
        if not self.is_torch:
            masked = isinstance(self.value, np.ma.MaskedArray)
            return "it is a masked array, whose mask says which elements count; pass X.filled(0), or X.data" if masked else None
        import torch

        if torch._C._get_tracing_state() is not None:
            return "torch.jit.trace records operators of torch alone"
        if self.value.is_nested:
            return "it is a nested tensor"
        if str(self.value.layout) != "torch.strided" or self.value.device.type != "cpu":
            return None
        if torch._C._functorch.is_functorch_wrapped_tensor(self.value):
            return "it is a tensor of torch.func; use torch.library.custom_op to call a kernel there"
        try:
            return None if self.size == 0 or self.value.data_ptr() else f"this {type(self.value).__name__} has no storage"
        except RuntimeError:
            return f"this {type(self.value).__name__} has no storage"

    @property
    def wants_gradient(self) -> bool:
        """True when autograd would record what is done with the tensor."""
        if not self.is_torch or not self.value.requires_grad:
            return False
        import torch

        return torch.is_grad_enabled()

    def note_write(self) -> None:
        """Tell autograd that the elements have changed, so that a gradient that needs the old ones is an error."""
        if self.is_torch and not self.value.is_inference():
            import torch

            torch.autograd.graph.increment_version(self.value)

    @property
    def is_negated(self) -> bool:
        """True for views of torch whose elements are the negatives of what is in memory."""
        return self.is_torch and self.value.is_neg()

    def has_strides(self, strides: tuple[int, ...]) -> bool:
        """True when walking the memory with `strides` meets the elements (dimensions of size 1 do not matter)."""
        if self.size == 0:
            return True
        if self.is_negated:
            return False
        if not self.is_torch and any(s % self.value.itemsize for s in self.value.strides):
            return False
        return all(n == 1 or have == want for n, have, want in zip(self.shape, self.strides, strides))

    def is_aligned(self) -> bool:
        """True when the first element lies at a multiple of its size."""
        return self.address % dtypes.itemsize(self.dtype) == 0

    def overlaps_itself(self) -> bool:
        """True when two indices may name the same element, as in an expanded tensor."""
        if 0 in self.shape:  # NumPy gives arrays without elements strides of 0.
            return False
        dims = sorted((abs(s), n) for s, n in zip(self.strides, self.shape) if n > 1)
        reach = 0
        for stride, n in dims:
            if stride <= reach:
                return True
            reach += stride * (n - 1)
        return False

    def empty(self, shape: tuple[int, ...], dtype: str) -> "HostTensor":
        """A fresh dense torch tensor on the same device; its contents are undefined."""
        return HostTensor(self.value.new_empty(shape, dtype=dtypes.torch_dtype(dtype)))

    def copy_to(self, flat: Any, strides: tuple[int, ...]) -> None:
        """Write every element into the flat array (for a tensor on a device, the flat tensor there) at the offsets given by `strides`."""
        if self.device != "cpu":
            flat.as_strided(self.shape, strides).copy_(self.value.detach())
            return
        plain = HostTensor(self.value.detach().resolve_neg()) if self.is_negated else self
        _strided(flat, self.shape, strides)[...] = plain._as_numpy()

    def copy_from(self, flat: Any, strides: tuple[int, ...]) -> None:
        """Read every element back from the flat array or tensor."""
        if self.device != "cpu":
            self.value.detach().copy_(flat.as_strided(self.shape, strides))
            return
        if self.is_negated:
            plain = HostTensor(empty(self.shape, self.dtype, True))
            plain.copy_from(flat, strides)
            self.value.detach().copy_(plain.value)
            return
        self._as_numpy()[...] = _strided(flat, self.shape, strides)

    def assign(self, data: np.ndarray) -> None:
        """Overwrite every element with those of a numpy array of the same shape and dtype."""
        self._as_numpy()[...] = data.view(_RAW[dtypes.itemsize(self.dtype)])

    def tobytes(self) -> bytes:
        """The elements in row-major order."""
        plain = HostTensor(self.value.detach().resolve_neg()) if self.is_negated else self
        return plain._as_numpy().tobytes()

    def _as_numpy(self) -> np.ndarray:
        """A numpy view of the same memory whose elements are raw bits, so that a copy converts nothing. Negated views lose their sign."""
        raw = _RAW[dtypes.itemsize(self.dtype)]
        if not self.is_torch:
            return self.value.view(raw)
        import torch

        value = torch._neg_view(self.value.detach()) if self.is_negated else self.value.detach()
        return value.view(getattr(torch, raw)).numpy()


_RAW = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}


def raw_buffer(elements: int, dtype: str) -> np.ndarray:
    """An aligned flat array for `elements` elements of `dtype`, as raw bits; never empty, so it has an address."""
    return np.empty(max(elements, 1), dtype=_RAW[dtypes.itemsize(dtype)])


def _strided(flat: np.ndarray, shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    return np.lib.stride_tricks.as_strided(flat, shape, tuple(s * flat.itemsize for s in strides))


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Element strides of a dense tensor."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def span_elements(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Elements of memory between the first and one past the last element."""
    if math.prod(shape) == 0:
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(shape, strides))


def empty(shape: tuple[int, ...], dtype: str, torch_like: bool):
    """A fresh dense tensor, torch or numpy; its contents are undefined."""
    if torch_like:
        import torch

        return torch.empty(shape, dtype=dtypes.torch_dtype(dtype))
    return np.empty(shape, dtype=dtypes.numpy_dtype(dtype))


def have_torch() -> bool:
    """True when torch can be imported."""
    if "torch" in sys.modules:
        return True
    import importlib.util

    return importlib.util.find_spec("torch") is not None
