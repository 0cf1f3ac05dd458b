"""From a call's arguments to what an executor needs: values, addresses, shape variables, copies to write back."""

from __future__ import annotations

import contextlib
import math
import numbers
from dataclasses import dataclass, field
from typing import Any, Sequence

import numpy as np

from ..errors import AliasingOutput, ArgumentTypeError, ArgumentValueError
from . import dtypes, tensors
from .params import Parameter, Signature, evaluate, is_symbol, names_in
from .tensors import HostTensor


@dataclass(frozen=True)
class GmBuffer:
    """Global memory of one buffer parameter.

    Attributes:
        parameter: the declaration.
        address: address of the first element, on its device.
        nbytes: bytes the kernel may touch from there.
        keep_alive: the object that owns the memory.
        initialized: False for an output nobody has written yet.
        device: where it is: ``cpu``, ``npu:0``.
    """

    parameter: Parameter
    address: int
    nbytes: int
    keep_alive: Any
    initialized: bool = True
    device: str = "cpu"

    @property
    def name(self) -> str:
        return self.parameter.name


@dataclass
class Launch:
    """One checked call.

    Attributes:
        buffers: by parameter name.
        scalars: runtime scalars and shape variables by name; floats already rounded to their dtype.
        outputs: the tensors the call returns.
        tensors: every tensor of the call, given or allocated, by parameter name.
    """

    buffers: dict[str, GmBuffer]
    scalars: dict[str, int | float]
    outputs: list[Any]
    tensors: dict[str, Any]
    _copies: list[tuple[HostTensor, Any, tuple[int, ...]]] = field(default_factory=list)

    def write_back(self) -> None:
        """Copy results into the caller's tensors that could not be used in place, and tell autograd of those that were."""
        for tensor, flat, strides in self._copies:
            tensor.copy_from(flat, strides)
        for buffer in self.buffers.values():
            if buffer.parameter.writes and buffer.initialized:
                HostTensor(self.tensors[buffer.name]).note_write()

    @property
    def wants_gradient(self) -> bool:
        """True when a caller might expect gradients of the results."""
        return any(HostTensor(t).wants_gradient for t in self.tensors.values())

    @property
    def result(self) -> Any:
        """What the call returns: None, one tensor, or a tuple of tensors."""
        if not self.outputs:
            return None
        return self.outputs[0] if len(self.outputs) == 1 else tuple(self.outputs)


def bind(
    signature: Signature,
    kernel: str,
    args: Sequence[Any],
    kwargs: dict[str, Any] | None = None,
    devices: Sequence[str] = ("cpu",),
) -> Launch:
    """Check a call's arguments and prepare its memory. `devices`: kinds of devices whose tensors the executor takes.

    Raises:
        errors.ArgumentError: wrong count, type, dtype, rank, extent, device, or memory that overlaps an output.
    """
    given = _match(signature, kernel, args, kwargs or {})
    values: dict[str, int | float] = {}
    inputs: dict[str, HostTensor] = {}
    for p, value in given:
        if p.is_buffer:
            inputs[p.name] = _check_tensor(p, value, devices)
        else:
            values[p.name] = _check_scalar(p, value)
    _bind_symbols(signature, inputs, values)
    for name, tensor in inputs.items():
        _check_shape(_by_name(signature, name), tensor, values)
        _check_rows(_by_name(signature, name), tensor.shape, values)
    outputs = _allocate(signature, inputs, values)
    _check_aliasing(signature, inputs)
    return _assemble(signature, inputs, outputs, values)


def _match(signature: Signature, kernel: str, args: Sequence[Any], kwargs: dict[str, Any]) -> list[tuple[Parameter, Any]]:
    """Pair each input parameter with its argument, as a Python call would."""
    params = signature.inputs
    names = [p.name for p in params]
    if len(args) > len(params) or (not kwargs and len(args) < len(params)):
        made = ""
        if signature.out_idx:
            made = f"; {', '.join(p.name for p in signature.outputs)} is allocated by the call"
        wanted = ", ".join(names) or "none"
        count = f"{len(params)} argument{'' if len(params) == 1 else 's'}"
        raise ArgumentValueError(f"{kernel} expects {count} ({wanted}), got {len(args)}{made}")
    values = dict(zip(names, args))
    for name, value in kwargs.items():
        if name not in names:
            raise ArgumentValueError(f"{kernel} has no parameter {name} to pass; its parameters are {', '.join(names)}")
        if name in values:
            raise ArgumentValueError(f"{kernel} got two values for parameter {name}")
        values[name] = value
    missing = [name for name in names if name not in values]
    if missing:
        raise ArgumentValueError(f"{kernel} misses an argument for parameter {', '.join(missing)}")
    return [(p, values[p.name]) for p in params]


def _check_tensor(p: Parameter, value: Any, devices: Sequence[str]) -> HostTensor:
    if not tensors.is_tensor(value):
        hint = "; pass a torch tensor or a numpy array"
        raise ArgumentTypeError(f"Expected a tensor for parameter {p.name}, got {type(value).__name__}{hint}", at=p.location)
    tensor = HostTensor(value)
    missing = tensor.missing_memory
    if missing is not None:
        raise ArgumentValueError(f"The tensor passed for parameter {p.name} has no elements in memory: {missing}", at=p.location)
    if tensor.dtype not in dtypes.packed(p.dtype, tensor.is_torch):
        raise ArgumentValueError(
            f"Buffer dtype mismatch for parameter {p.name}: expected {tensor.label_of(p.dtype)}, got {tensor.dtype_label}",
            at=p.location,
        )
    if tensor.is_torch and str(value.layout) != "torch.strided":
        raise ArgumentValueError(
            f"Buffer layout mismatch for parameter {p.name}: expected torch.strided, got {value.layout}", at=p.location
        )
    if tensor.device.partition(":")[0] not in devices:
        expected = " or ".join(devices)
        raise ArgumentValueError(f"Buffer device mismatch for parameter {p.name}: expected {expected}, got {tensor.device}", at=p.location)
    if len(tensor.shape) != len(p.extents):
        raise ArgumentValueError(
            f"Buffer rank mismatch for parameter {p.name}: "
            f"expected {len(p.extents)} dimensions, got {len(tensor.shape)} (shape {tensor.shape})",
            at=p.location,
        )
    if p.writes and not tensor.writable:
        raise ArgumentValueError(f"Parameter {p.name} is written by the kernel, but the array passed for it is read-only", at=p.location)
    if p.writes and tensor.overlaps_itself():
        raise ArgumentValueError(
            f"Parameter {p.name} is written by the kernel, but elements of the tensor passed for it share memory "
            f"(shape {tensor.shape}, strides {tensor.strides})",
            at=p.location,
        )
    return tensor


def _check_scalar(p: Parameter, value: Any) -> int | float:
    """The argument as a Python number that `p.dtype` holds exactly (floats: rounded to it)."""
    if tensors.is_tensor(value) and math.prod(value.shape) == 1:
        value = value.item()
    elif isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, numbers.Real):
        raise ArgumentTypeError(f"Expected a number of dtype {p.dtype} for parameter {p.name}, got {type(value).__name__}", at=p.location)
    if p.dtype == "float4_e2m1fn":
        return dtypes.nearest_float4(float(value))
    if dtypes.is_float(p.dtype):
        try:
            with np.errstate(over="ignore"):
                return float(dtypes.numpy_dtype(p.dtype).type(float(value)))
        except OverflowError:
            raise ArgumentValueError(
                f"Scalar out of range for parameter {p.name}: {p.dtype} does not hold {value}", at=p.location
            ) from None
    number = 0
    with contextlib.suppress(OverflowError, ValueError):  # infinity, NaN
        number = int(value)  # type: ignore[call-overload]  # numbers.Real, which int() takes
    if number != value:
        kind = type(value).__name__
        raise ArgumentValueError(f"Scalar dtype mismatch for parameter {p.name}: expected {p.dtype}, got the {kind} {value}", at=p.location)
    low, high = (0, 1) if p.dtype == "bool" else _int_limits(p.dtype)
    if not low <= number <= high:
        raise ArgumentValueError(f"Scalar out of range for parameter {p.name}: {p.dtype} holds {low}..{high}, got {number}", at=p.location)
    return number


def _int_limits(dtype: str) -> tuple[int, int]:
    if dtype in dtypes.NIBBLES:
        return (-8, 7) if dtype == "int4" else (0, 15)
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


_WIDER = 'declare it as T.symbolic("{}", "int64")'


def _check_rows(p: Parameter, shape: tuple[int, ...], values: dict[str, int | float]) -> None:
    """Rows that are an int32 of elements apart are less than 2^31 bytes apart: transfers of several compute with that."""
    for rows, pitch, size in p.pitches:
        nbytes = evaluate(pitch, values) * size
        if nbytes >= 1 << 31 and evaluate(rows, values) > 1 and 0 not in shape:
            raise ArgumentValueError(
                f"Rows of parameter {p.name} are {nbytes} bytes apart, but {pitch} is int32, which says {(1 << 31) - 1} at most",
                hint=_WIDER.format(names_in(pitch)[0]),
                at=p.location,
            )


def _bind_symbols(signature: Signature, inputs: dict[str, HostTensor], values: dict[str, int | float]) -> None:
    """Give every shape variable the extent (or stride) of the first dimension that is just this variable."""
    wanted = dict(signature.symbols)
    # A row of bytes does not tell whether its last number is padding, so other tensors are asked first.
    for p in sorted((p for p in signature.inputs if p.is_buffer), key=lambda p: p.dtype in dtypes.NIBBLES):
        tensor = inputs[p.name]
        strides = zip(p.strides or (), dtypes.counted_strides(p.dtype, tensor.strides))
        for dim, extent in [*zip(p.extents, dtypes.counted(p.dtype, tensor.shape)), *strides]:
            if is_symbol(dim) and dim in wanted and dim not in values:
                low, high = _int_limits(wanted[dim])
                if not low <= extent <= high:
                    raise ArgumentValueError(
                        f"Dynamic extent {dim} of parameter {p.name} is {extent}, but {dim} is {wanted[dim]}",
                        hint=_WIDER.format(dim),
                        at=p.location,
                    )
                values[dim] = extent
    unbound = [name for name in wanted if name not in values]
    if unbound:
        raise ArgumentValueError(
            f"Cannot tell the value of the dynamic extent {', '.join(unbound)}: no argument has it as a whole dimension"
        )


def _check_shape(p: Parameter, tensor: HostTensor, values: dict[str, int | float]) -> None:
    for axis, (dim, extent) in enumerate(zip(p.extents, dtypes.counted(p.dtype, tensor.shape))):
        expected = evaluate(dim, values)
        packed = p.dtype in dtypes.NIBBLES and axis == len(p.extents) - 1
        if packed:
            _check_even(p, expected)
        if extent == expected or (packed and extent == expected + expected % 2):
            continue
        kind, shown = ("Static", f"{expected}") if isinstance(dim, int) else ("Dynamic", f"{dim} = {expected}")
        had = f"{extent} numbers in {extent // 2} elements, two of {p.dtype} in each" if packed else extent
        raise ArgumentValueError(
            f"{kind} shape mismatch for parameter {p.name}: expected {shown} at index {axis}, got {had}",
            at=p.location,
        )


def _check_even(p: Parameter, length: int) -> None:
    """Rows of numbers of 4 bits have an even length where the kernel sees them in another form."""
    if p.even and length % 2:
        raise ArgumentValueError(
            f"Dynamic shape mismatch for parameter {p.name}: rows of {length} {p.dtype} end with half a byte of padding, and the kernel sees the tensor "
            "in another form, which has none",
            hint="pass tensors for rows of an even length, or copy the tensor to tiles instead of T.view and T.Tensor(shape, dtype, data)",
            at=p.location,
        )


def _allocate(signature: Signature, inputs: dict[str, HostTensor], values: dict[str, int | float]) -> dict[str, HostTensor]:
    """Fresh tensors for the parameters in `out_idx`, of the same library and device as the inputs."""
    like = next((t for t in inputs.values() if t.device != "cpu"), None)
    torch_like = any(t.is_torch for t in inputs.values()) or (not inputs and tensors.have_torch())
    made = {}
    for p in signature.outputs:
        numbers = tuple(evaluate(dim, values) for dim in p.extents)
        if numbers:
            _check_even(p, numbers[-1])
        shape = dtypes.stored(p.dtype, numbers)
        _check_rows(p, shape, values)
        made[p.name] = like.empty(shape, p.dtype) if like else HostTensor(tensors.empty(shape, p.dtype, torch_like))
        if p.dtype in dtypes.NIBBLES:
            _clear(made[p.name].value)
    return made


def _clear(value: Any) -> None:
    """Zero in all bytes of a new tensor."""
    if tensors.is_torch(value):
        import torch

        value.view(torch.uint8).zero_()
    else:
        value.view(np.uint8).fill(0)


def _check_aliasing(signature: Signature, inputs: dict[str, HostTensor]) -> None:
    """The compiler moves loads across stores of other parameters: a written buffer needs its memory for itself."""
    params = [p for p in signature.inputs if p.is_buffer]
    for i, p in enumerate(params):
        for q in params[i + 1 :]:
            if not (p.writes or q.writes):
                continue
            if inputs[p.name].shares_memory(inputs[q.name]):
                out, other = (p, q) if p.writes else (q, p)
                raise AliasingOutput(
                    output=out.name,
                    other=other.name,
                    at=out.location,
                    notes=["the kernel writes " + out.name],
                    hint="pass a separate tensor, or let the kernel read and write one parameter",
                )


def _assemble(signature, inputs, outputs, values) -> Launch:
    given = {name: t.value for name, t in {**inputs, **outputs}.items()}
    launch = Launch({}, values, [given[p.name] for p in signature.outputs], given)
    for p in signature.parameters:
        if not p.is_buffer:
            continue
        # Bytes of two numbers of 4 bits have contents from the start: a store to one half keeps the other.
        fresh = p.name in outputs and p.dtype not in dtypes.NIBBLES
        tensor = outputs[p.name] if p.name in outputs else inputs[p.name]
        launch.buffers[p.name] = _place(p, tensor, values, launch, fresh)
    return launch


def _place(p: Parameter, tensor: HostTensor, values, launch: Launch, fresh: bool) -> GmBuffer:
    """Use the tensor's own memory when its layout is the declared one, else a copy."""
    shape = tensor.shape
    strides = tensors.row_major(shape)
    if p.strides is not None:
        strides = dtypes.stored_strides(p.dtype, tuple(evaluate(s, values) for s in p.strides))
    if any(s < 0 for s in strides):
        raise ArgumentValueError(f"Parameter {p.name} has a negative stride {strides}; pass a copy", at=p.location)
    elements = tensors.span_elements(shape, strides)
    nbytes = elements * dtypes.itemsize(p.dtype)
    # Global memory holds distinct buffers: an input passed twice gets a copy for its second parameter.
    there = [b for b in launch.buffers.values() if b.device == tensor.device]
    free = not any(tensor.address < b.address + b.nbytes and b.address < tensor.address + nbytes for b in there)
    if elements and free and tensor.has_strides(strides) and tensor.is_aligned():
        return GmBuffer(p, tensor.address, nbytes, tensor.value, not fresh, tensor.device)
    if tensor.device != "cpu":
        return _place_on_device(p, tensor, elements, strides, launch, fresh)
    flat = tensors.raw_buffer(elements, p.dtype)
    if elements and not fresh:
        tensor.copy_to(flat, strides)
    if elements and p.writes:
        launch._copies.append((tensor, flat, strides))
    return GmBuffer(p, flat.ctypes.data, nbytes, flat, not fresh)


def _place_on_device(p: Parameter, tensor: HostTensor, elements: int, strides: tuple[int, ...], launch: Launch, fresh: bool) -> GmBuffer:
    """A copy on the tensor's own device."""
    flat = tensor.empty((max(elements, 1),), p.dtype)
    if elements and not fresh:
        tensor.copy_to(flat.value, strides)
    if elements and p.writes:
        launch._copies.append((tensor, flat.value, strides))
    return GmBuffer(p, flat.address, elements * dtypes.itemsize(p.dtype), flat.value, not fresh, tensor.device)


def _by_name(signature: Signature, name: str) -> Parameter:
    return next(p for p in signature.parameters if p.name == name)
