"""The memory of a call on its way: what a client sends of a launch, and what a server makes of it."""

from __future__ import annotations

import ctypes
from typing import Any, Callable, Mapping, Sequence

import numpy as np

from ..profiler.supply import TensorSupplyType, make_inputs
from ..runtime.arguments import GmBuffer, Launch, bind
from ..runtime.artifact import Artifact
from ..runtime.simulation import DEVICE_ALIGNMENT
from ..runtime.tensors import HostTensor
from .failures import ProtocolError

# -- the client ------------------------------------------------------------------------------------------------------------


def send(launch: Launch) -> tuple[dict[str, Any], list[bytes]]:
    """Request and blobs for a launch with given memory. Outputs the call allocated travel one way only."""
    rows, blobs = [], []
    for name, buffer in launch.buffers.items():
        rows.append({"name": name, "nbytes": buffer.nbytes, "sent": buffer.initialized})
        if buffer.initialized:
            blobs.append(ctypes.string_at(buffer.address, buffer.nbytes))
    return {"buffers": rows, "scalars": launch.scalars}, blobs


def receive(launch: Launch, found: Mapping[str, Any], blobs: Sequence[memoryview]) -> None:
    """Put what came back into the launch's memory.

    Raises:
        ProtocolError: it is not what the launch writes.
    """
    wanted = [b for b in launch.buffers.values() if b.parameter.writes]
    if found.get("written") != [b.name for b in wanted] or [len(blob) for blob in blobs] != [b.nbytes for b in wanted]:
        raise ProtocolError("the outputs that came back are not those of the kernel")
    for buffer, blob in zip(wanted, blobs):
        ctypes.memmove(buffer.address, bytes(blob), buffer.nbytes)


def seeded(seed: int, supply: TensorSupplyType, symbols: Mapping[str, int]) -> dict[str, Any]:
    """Request for a launch whose inputs the server makes."""
    return {"seed": seed, "supply": supply.name, "symbols": dict(symbols)}


# -- the server ------------------------------------------------------------------------------------------------------------


def prepare(artifact: Artifact, header: Mapping[str, Any], blobs: Sequence[memoryview]) -> tuple[Launch, Callable[[], tuple[dict, list]]]:
    """The launch a request describes, and a function that gives header and blobs of what it has written.

    Raises:
        ProtocolError: buffers or scalars are not those of the kernel. errors.ArgumentError: as for a local call.
    """
    launch = _seeded(artifact, header) if "seed" in header else _given(artifact, header, blobs)

    def written() -> tuple[dict, list]:
        buffers = [b for b in launch.buffers.values() if b.parameter.writes]
        if "seed" not in header:
            return {"written": [b.name for b in buffers]}, [ctypes.string_at(b.address, b.nbytes) for b in buffers]
        tensors = [HostTensor(launch.tensors[b.name]) for b in buffers]
        forms = [{"name": b.name, "dtype": t.dtype, "shape": t.shape} for b, t in zip(buffers, tensors)]
        return {"written": forms}, [t.tobytes() for t in tensors]

    return launch, written


def _seeded(artifact: Artifact, header: Mapping[str, Any]) -> Launch:
    symbols, seed, supply = header.get("symbols", {}), header["seed"], header.get("supply", "Auto")
    if type(seed) is not int or not isinstance(symbols, dict) or supply not in TensorSupplyType.__members__:
        raise ProtocolError("inputs are made from an integer seed, the values of shape variables and a supply")
    inputs = make_inputs(artifact.signature, TensorSupplyType[supply], symbols, seed, torch_like=False)
    return bind(artifact.signature, artifact.name, inputs)


def _given(artifact: Artifact, header: Mapping[str, Any], blobs: Sequence[memoryview]) -> Launch:
    by_name = {p.name: p for p in artifact.signature.parameters if p.is_buffer}
    rows, scalars = header.get("buffers"), header.get("scalars")
    rest = iter(blobs)
    launch = Launch({}, {}, [], {})
    try:
        for row in rows or ():
            name, nbytes, sent = row["name"], row["nbytes"], row["sent"]
            if type(nbytes) is not int or nbytes < 0:
                raise ValueError
            array = _aligned(nbytes)
            if sent:
                array[:] = np.frombuffer(next(rest), np.uint8)
            launch.buffers[name] = GmBuffer(by_name[name], array.ctypes.data, nbytes, array, bool(sent))
            launch.tensors[name] = array
        if set(launch.buffers) != set(by_name) or next(rest, None) is not None:
            raise ValueError
        needed = {slot.name for step in artifact.steps for slot in step.abi if slot.kind == "scalar"}
        launch.scalars = {str(name): value for name, value in dict(scalars or {}).items() if isinstance(value, (int, float))}
        if not needed <= set(launch.scalars):
            raise ValueError
    except (KeyError, ValueError, TypeError, StopIteration):
        raise ProtocolError(f"the buffers and scalars are not those of {artifact.name}") from None
    return launch


def _aligned(nbytes: int) -> np.ndarray:
    raw = np.empty(nbytes + DEVICE_ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % DEVICE_ALIGNMENT
    return raw[start : start + nbytes]
