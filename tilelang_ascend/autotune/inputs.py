"""Inputs to tune with: made or given once in this process, seen by every worker through one unnamed file."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import tempfile
from functools import cached_property
from typing import Any, Callable, Mapping, Sequence

import numpy as np

from ..errors import ArgumentValueError
from ..runtime import dtypes, tensors
from ..runtime.params import Signature
from ..runtime.simulation import DEVICE_ALIGNMENT
from .settings import ProfileArgs

Outputs = dict[str, tuple[str, tuple[int, ...], bytes]]
"""Written tensors by parameter name: dtype, shape and bytes in row-major order."""


def packed(tensor: Any) -> tuple[str, tuple[int, ...], bytes]:
    """A tensor as `Outputs` have it."""
    host = tensors.HostTensor(tensor)
    return host.dtype, host.shape, host.tobytes()


_numbers = itertools.count()


class InputSet:
    """The arguments of one kernel call. `name` is that of no other set of this process: descriptors of files are used again.

    Args:
        key: digest of what can influence the kernel's time.
        make: called once, when the values are first needed.
        supply: how `profiler.make_inputs` makes them anywhere from seed 0; None for values of the user.
    """

    def __init__(self, key: str, make: Callable[[], list[Any]], supply: Any = None):
        self.key = key
        self.supply = supply
        self.name = f"inputs {next(_numbers)}"
        self._make = make

    @cached_property
    def values(self) -> list[Any]:
        """Tensors and numbers in parameter order; never written."""
        return self._make()

    def copies(self) -> list[Any]:
        """Fresh copies of the values, which a kernel or a reference may write."""
        return [_copy(v) for v in self.values]

    @cached_property
    def records(self) -> list[dict[str, Any]]:
        """For `open_inputs`: one record per value, tensors as places in `file`."""
        return self._shared[1]

    @cached_property
    def file(self) -> int:
        """Descriptor of an unnamed file with the tensors; it lives as long as this object."""
        return self._shared[0].fileno()

    @cached_property
    def _shared(self):
        file, records = tempfile.TemporaryFile(), []
        for value in self.values:
            if not tensors.is_tensor(value):
                records.append({"number": value})
                continue
            file.write(b"\0" * (-file.tell() % DEVICE_ALIGNMENT))
            records.append({"offset": file.tell(), "torch": tensors.is_torch(value), **_write(file, tensors.HostTensor(value))})
        file.write(b"\0")  # an empty file cannot be mapped
        file.flush()
        return file, records


def open_inputs(records: Sequence[Mapping[str, Any]], file: int) -> list[Any]:
    """The values of an `InputSet` in another process, as numpy arrays; writing to them changes no other copy."""
    memory = np.memmap(open(file, "rb", closefd=False), np.uint8, mode="c")
    return [r["number"] if "number" in r else _read(memory, r) for r in records]


def as_given(records: Sequence[Mapping[str, Any]], values: Sequence[Any]) -> list[Any]:
    """What `open_inputs` gives, as tensors of torch where those of the user were."""
    found = []
    for record, value in zip(records, values):
        if record.get("torch"):
            tensor = tensors.empty(value.shape, record["dtype"], torch_like=True)
            tensors.HostTensor(tensor).assign(value)
            value = tensor
        found.append(value)
    return found


def _write(file, tensor: tensors.HostTensor) -> dict[str, Any]:
    shape, strides = tensor.shape, tensor.strides
    if any(s < 0 for s in strides):
        strides = tensors.row_major(shape)
    elements = tensors.span_elements(shape, strides)
    flat = tensors.raw_buffer(elements, tensor.dtype)
    flat.fill(0)
    if elements:
        tensor.copy_to(flat, strides)
    file.write(flat.data)
    return {"dtype": tensor.dtype, "shape": shape, "strides": strides, "nbytes": flat.nbytes}


def _read(memory: np.memmap, record: Mapping[str, Any]) -> np.ndarray:
    dtype = dtypes.numpy_dtype(record["dtype"])
    flat = np.asarray(memory[record["offset"] : record["offset"] + record["nbytes"]]).view(dtype)
    strides = tuple(s * dtype.itemsize for s in record["strides"])
    return np.lib.stride_tricks.as_strided(flat, record["shape"], strides)


class InputSupply:
    """Chooses the inputs for kernels: given ones, else those of `supply_prog`, else made-up ones.

    Args:
        given: what the caller or `set_autotune_inputs` passed, None for nothing.
        call: calls the user's `supply_prog` with its argument, somewhere.
    """

    def __init__(self, profile: ProfileArgs, given: Sequence[Any] | None, call: Callable[[Callable, Any], Any] = lambda f, x: f(x)):
        self._profile = profile
        self._call = call
        self._given = None if given is None else _given_set(given)
        self._made: dict[tuple, InputSet] = {}

    def inputs_for(self, signature: Signature) -> InputSet:
        """Inputs of a kernel. Equal declarations get the same ones, so that configurations compete on equal terms.

        Raises:
            errors.ArgumentValueError: a shape variable has no value.
        """
        if self._given is not None:
            return self._given
        declared = tuple((p.name, p.dtype, p.shape, p.strides) for p in signature.inputs)
        if declared not in self._made:
            self._made[declared] = self._supply(signature)
        return self._made[declared]

    def _supply(self, signature: Signature) -> InputSet:
        from ..profiler.supply import TensorSupplyType, make_inputs

        if self._profile.supply_prog is not None:
            return _given_set(self._call(self._profile.supply_prog, list(signature.inputs)))
        if signature.symbols:
            names = ", ".join(name for name, _ in signature.symbols)
            raise ArgumentValueError(
                f"the tuner cannot make up inputs: the extent {names} is dynamic",
                hint="call the kernel inside `with set_autotune_inputs(a, b):`, or give autotune a supply_prog",
            )
        supply = self._profile.supply_type or TensorSupplyType.Auto
        return InputSet(supply.name, lambda: make_inputs(signature, supply), supply)


def _given_set(values: Sequence[Any]) -> InputSet:
    """Values of the user. Those on a device are copied to the host: other processes, and other machines, cannot reach them there."""
    there = [tensors.is_torch(value) and tensors.HostTensor(value).device != "cpu" for value in values]
    host = [value.detach().cpu() if away else value for value, away in zip(values, there)]
    return InputSet(_digest(host), lambda: host)


def _digest(values: Sequence[Any]) -> str:
    """Digest of numbers, the form of tensors, and the contents of integer tensors, which may steer control flow."""
    digest = hashlib.sha256()
    for value in values:
        if not tensors.is_tensor(value):
            digest.update(f"{value!r};".encode())
            continue
        tensor = tensors.HostTensor(value)
        digest.update(json.dumps([tensor.dtype, tensor.shape, tensor.strides]).encode())
        if not dtypes.is_float(tensor.dtype) and math.prod(tensor.shape) > 0:
            digest.update(tensor.tobytes())
    return digest.hexdigest()


def _copy(value: Any) -> Any:
    if tensors.is_torch(value):
        return value.detach().clone()
    return value.copy() if isinstance(value, np.ndarray) else value
