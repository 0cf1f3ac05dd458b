"""A kernel as an op of torch: `torch.compile` traces through its calls, because a second function gives the results' shapes only.

Nothing but torch is needed here: `kernel.export_library` leaves a copy of this file beside the library it loads.
"""

from __future__ import annotations

import ctypes
import json
import math
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

import torch

Signature = Mapping[str, Any]
"""Plain values: ``parameters`` (name, dtype, shape, strides, writes), ``symbols`` (name, dtype) and ``out_idx``."""

PACKED = {"int4": ("int8", "uint8"), "uint4": ("uint8", "int8"), "float4_e2m1fn": ("float4_e2m1fn_x2", "uint8", "int8")}
"""Dtypes of 4 bits -> dtypes of tensors each element of which holds two of their numbers, that of results first."""
_TO_DEVICE, _TO_HOST, _LEAST_BYTES = 1, 2, 32


def register(name: str, signature: Signature, run: Callable) -> Any:
    """Register ``namespace::op`` for all devices. Returns torch's `CustomOpDef`, which is called and takes `register_autograd`.

    Args:
        name: with its namespace.
        signature: of the kernel; parameters in ``out_idx`` are results, others it writes are changed in place.
        run: takes the inputs, returns None, the result, or a tuple of results.

    Raises:
        ValueError: the name has no namespace, or there is such an op.
    """
    space, _, short = name.partition("::")
    if not space.isidentifier() or not short.isidentifier():
        raise ValueError(f"The name of an op is namespace::name, such as tilelang::softmax, not {name!r}")
    if hasattr(getattr(torch.ops, space), short):
        raise ValueError(f"There is an op {name} already; give this kernel another name")
    changed = [p["name"] for p in _inputs(signature) if p["shape"] is not None and p["writes"]]
    op = torch.library.custom_op(name, run, mutates_args=changed, schema=schema(signature))
    op.register_fake(lambda *given: _returned(results(signature, given)))
    return op


def schema(signature: Signature) -> str:
    """The kernel in the words of torch: ``(Tensor A, Tensor(a1!) B, float s) -> Tensor``."""
    texts = []
    for i, p in enumerate(_inputs(signature)):
        if p["shape"] is None:
            kind = "bool" if p["dtype"] == "bool" else "SymInt" if p["dtype"].startswith(("int", "uint")) else "float"
        else:
            kind = f"Tensor(a{i}!)" if p["writes"] else "Tensor"
        texts.append(f"{kind} {p['name']}")
    count = len(signature["out_idx"])
    return f"({', '.join(texts)}) -> {'Tensor' if count == 1 else '(' + ', '.join(['Tensor'] * count) + ')'}"


def values(signature: Signature, given: Sequence[Any]) -> dict[str, Any]:
    """Scalars and shape variables of a call by name; extents stay symbols where they are some.

    Raises:
        TypeError, ValueError: a tensor has another dtype or rank than is declared.
    """
    wanted, found = {name for name, _ in signature["symbols"]}, {}
    # A row of bytes does not tell whether its last number is padding, so other tensors are asked first.
    for p, value in sorted(zip(_inputs(signature), given), key=lambda x: x[0]["dtype"] in PACKED):
        if p["shape"] is None:
            found[p["name"]] = value
            continue
        names = PACKED.get(p["dtype"], (p["dtype"],))
        if value.dtype not in [getattr(torch, name) for name in names]:
            expected = " or ".join(f"torch.{name}" for name in names)
            raise TypeError(f"Buffer dtype mismatch for parameter {p['name']}: expected {expected}, got {value.dtype}")
        if value.dim() != len(p["shape"]):
            raise ValueError(f"Buffer rank mismatch for parameter {p['name']}: expected {len(p['shape'])} dimensions, got {value.dim()}")
        for dim, extent in [*zip(p["shape"], _counted(p, value)), *zip(p["strides"] or (), _counted_strides(p, value))]:
            if dim in wanted:
                found.setdefault(dim, extent)
    return found


def results(signature: Signature, given: Sequence[Any]) -> list[torch.Tensor]:
    """Fresh tensors for the results of a call, on the device of its first tensor: undefined, or zeros where a byte is two numbers."""
    known = values(signature, given)
    like = next((t for t in given if isinstance(t, torch.Tensor)), torch.empty(0))
    made = [signature["parameters"][i] for i in signature["out_idx"]]
    return [_result(p, like, _stored(p, known)) for p in made]


def _result(p: Mapping[str, Any], like: torch.Tensor, shape: tuple) -> torch.Tensor:
    if p["dtype"] in PACKED:
        return like.new_zeros(shape, dtype=torch.uint8).view(getattr(torch, PACKED[p["dtype"]][0]))
    return like.new_empty(shape, dtype=getattr(torch, p["dtype"]))


def load(folder: Path) -> Any:
    """Register the kernel of an exported folder under the name in its ``kernel.json``. Returns the op."""
    kernel = Library(folder)
    return register(kernel.described["op"], kernel.described["signature"], kernel)


class Library:
    """A built kernel: takes tensors of the host, or of one NPU, which it uses in place on the current stream of torch_npu."""

    def __init__(self, folder: Path):
        self.described = json.loads((folder / "kernel.json").read_text(encoding="utf-8"))
        name = self.described["name"]
        places = [place / f"lib{name}_kernel.so" for place in (folder, folder / "build")]
        path = next((place for place in places if place.is_file()), None)
        if path is None:
            raise FileNotFoundError(
                f"{places[1]} is missing; build it: cmake -S {folder} -B {folder}/build && cmake --build {folder}/build"
            )
        library = ctypes.CDLL(str(path))
        self._launch, self._workspace_bytes = library[f"{name}_launch"], library[f"{name}_workspace_bytes"]
        self._workspace_bytes.restype = ctypes.c_uint64
        self._host: _Host | None = None

    def __call__(self, *given: Any) -> Any:
        signature = self.described["signature"]
        known, made = values(signature, given), results(signature, given)
        named = {p["name"]: value for p, value in zip(_inputs(signature), given)}
        named |= {signature["parameters"][i]["name"]: t for i, t in zip(signature["out_idx"], made)}
        _refuse_rows_far_apart(signature, named, known)
        tensors = {p["name"]: _laid_out(p, named[p["name"]], known) for p in signature["parameters"] if p["shape"] is not None}
        _refuse_shared_memory(signature, tensors)
        places = {str(t.device) for t in tensors.values()}
        if len(places) > 1:
            raise ValueError(f"The tensors of a call are on several devices: {', '.join(sorted(places))}")
        device = next(iter(tensors.values())).device
        if device.type == "cpu":
            self._host = self._host or _Host()
            self._host.run(signature, tensors, lambda addresses, stream, room: self._start(signature, known, addresses, stream, room))
        else:
            import torch_npu  # type: ignore[import-not-found]

            like = next(iter(tensors.values()))
            stream = torch_npu.npu.current_stream(device).npu_stream
            addresses = {name: t.data_ptr() for name, t in tensors.items()}
            self._start(signature, known, addresses, stream, lambda n: like.new_empty((n,), dtype=torch.uint8).data_ptr())
        for p in signature["parameters"]:
            if p["shape"] is not None and p["writes"] and tensors[p["name"]] is not named[p["name"]]:
                named[p["name"]].copy_(tensors[p["name"]])
        return _returned(made)

    def _start(self, signature: Signature, known: Mapping, addresses: Mapping, stream: int, room: Callable[[int], int]) -> None:
        """Queue the kernel. room: gives the address of so many bytes on the device."""
        scalars = {p["name"]: p["dtype"] for p in signature["parameters"] if p["shape"] is None} | dict(signature["symbols"])
        order = list(dict.fromkeys([*(p["name"] for p in signature["parameters"]), *scalars]))
        words = [_scalar(scalars[n], known[n]) if n in scalars else ctypes.c_void_p(addresses[n]) for n in order]
        workspace = ctypes.c_void_p(room(max(self._workspace_bytes(), _LEAST_BYTES)))
        code = self._launch(*words, workspace, ctypes.c_void_p(stream))
        if code:
            raise RuntimeError(f"kernel {self.described['name']} cannot be launched: its launcher returned {code}")


class _Host:
    """Runs kernels on copies of tensors of the host, on a stream of its own of device 0."""

    def __init__(self) -> None:
        self._acl = ctypes.CDLL("libascendcl.so")
        self._acl.aclInit(None)  # another user of the process may have done it: what it returns does not matter
        self._call("aclrtSetDevice", 0)
        self._stream = ctypes.c_void_p()
        self._call("aclrtCreateStream", ctypes.byref(self._stream))

    def run(self, signature: Signature, tensors: Mapping[str, torch.Tensor], start: Callable) -> None:
        """start: takes addresses by name, the stream, and a function that gives memory."""
        self._call("aclrtSetDevice", 0)  # which holds for a thread
        held: list[int] = []

        def room(nbytes: int) -> int:
            place = ctypes.c_void_p()
            self._call("aclrtMalloc", ctypes.byref(place), ctypes.c_size_t(max(nbytes, _LEAST_BYTES)), 0)
            held.append(place.value or 0)
            return held[-1]

        try:
            addresses = {}
            for name, t in tensors.items():
                addresses[name] = room(_nbytes(t))
                self._copy(addresses[name], t.data_ptr(), _nbytes(t), _TO_DEVICE)
            start(addresses, self._stream.value, room)
            self._call("aclrtSynchronizeStreamWithTimeout", self._stream, -1)
            for p in signature["parameters"]:
                if p["shape"] is not None and p["writes"]:
                    t = tensors[p["name"]]
                    self._copy(t.data_ptr(), addresses[p["name"]], _nbytes(t), _TO_HOST)
        finally:
            for address in held:
                self._acl.aclrtFree(ctypes.c_void_p(address))

    def _copy(self, to: int, source: int, nbytes: int, kind: int) -> None:
        if nbytes:
            size = ctypes.c_size_t(nbytes)
            self._call("aclrtMemcpy", ctypes.c_void_p(to), size, ctypes.c_void_p(source), size, kind)

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._acl, name)(*arguments)
        if code:
            self._acl.aclGetRecentErrMsg.restype = ctypes.c_char_p
            raise RuntimeError(f"{name} returned {code}: {(self._acl.aclGetRecentErrMsg() or b'').decode(errors='replace')}")


def _inputs(signature: Signature) -> list[Mapping[str, Any]]:
    return [p for i, p in enumerate(signature["parameters"]) if i not in signature["out_idx"]]


def _returned(tensors: list) -> Any:
    return tuple(tensors) if len(tensors) > 1 else tensors[0] if tensors else None


def _extent(dim: int | str, known: Mapping[str, Any]) -> Any:
    """Value of an extent, a number or an expression over shape variables; texts are the compiler's own."""
    if not isinstance(dim, str):
        return dim
    return eval(dim, {"__builtins__": {}, "min": torch.sym_min, "max": torch.sym_max}, dict(known))  # noqa: S307


def _counted(p: Mapping[str, Any], tensor: torch.Tensor) -> tuple:
    """Shape of a tensor in numbers of the parameter's dtype."""
    return (*tensor.shape[:-1], 2 * tensor.shape[-1]) if p["dtype"] in PACKED else tuple(tensor.shape)


def _counted_strides(p: Mapping[str, Any], tensor: torch.Tensor) -> tuple:
    """Strides of a tensor as those of the parameter are declared."""
    *outer, step = tensor.stride() or (1,)
    return (*(2 * s for s in outer), step) if p["dtype"] in PACKED else tensor.stride()


def _stored(p: Mapping[str, Any], known: Mapping[str, Any]) -> tuple:
    """Shape of the tensor that holds a parameter."""
    shape = tuple(_extent(d, known) for d in p["shape"])
    if p.get("even") and shape[-1] % 2:
        raise ValueError(
            f"Shape mismatch for parameter {p['name']}: rows of {shape[-1]} {p['dtype']} end with half a byte of padding, and the kernel sees the tensor "
            "in another form, which has none"
        )
    return (*shape[:-1], (shape[-1] + 1) // 2) if p["dtype"] in PACKED else shape


def _laid_out(p: Mapping[str, Any], tensor: torch.Tensor, known: Mapping[str, Any]) -> torch.Tensor:
    """The tensor, or a copy whose elements lie as the kernel expects them."""
    shape = tuple(_extent(d, known) for d in p["shape"])
    if tuple(tensor.shape) != _stored(p, known):
        raise ValueError(f"Shape mismatch for parameter {p['name']}: expected {shape}, got {_counted(p, tensor)}")
    tensor = tensor.resolve_neg()
    if p["strides"] is None:
        return tensor if tensor.is_contiguous() else tensor.contiguous()
    strides = tuple(_extent(s, known) for s in p["strides"])
    if _counted_strides(p, tensor) != strides:
        raise ValueError(f"Stride mismatch for parameter {p['name']}: expected {strides}, got {_counted_strides(p, tensor)}")
    return tensor


def _refuse_rows_far_apart(signature: Signature, tensors: Mapping[str, torch.Tensor], known: Mapping[str, Any]) -> None:
    """Rows that are an int32 of elements apart are less than 2^31 bytes apart: transfers of several compute with that."""
    for p in signature["parameters"]:
        for rows, pitch, size in p.get("pitches", ()):
            nbytes = _extent(pitch, known) * size
            if nbytes >= 1 << 31 and _extent(rows, known) > 1 and tensors[p["name"]].numel():
                raise ValueError(
                    f"Rows of parameter {p['name']} are {nbytes} bytes apart, but {pitch} is int32, which says {(1 << 31) - 1} at most"
                )


def _refuse_shared_memory(signature: Signature, tensors: Mapping[str, torch.Tensor]) -> None:
    """The compiler moves loads across stores of other parameters: what is written needs its memory for itself."""
    for p in signature["parameters"]:
        mine = tensors.get(p["name"])
        if mine is None or not p["writes"]:
            continue
        for name, other in tensors.items():
            apart = mine.device != other.device or not (_nbytes(mine) and _nbytes(other))
            begin, end = mine.data_ptr(), other.data_ptr()
            if name != p["name"] and not apart and begin < end + _nbytes(other) and end < begin + _nbytes(mine):
                raise ValueError(f"Parameter {p['name']} is written by the kernel, but shares memory with the tensor passed for {name}")


def _nbytes(t: torch.Tensor) -> int:
    """Bytes from the first to the last element."""
    return 0 if t.numel() == 0 else (1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride()))) * t.element_size()


_FLOAT4 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""Sizes of the codes of float4_e2m1fn."""


def _scalar(dtype: str, value: Any) -> Any:
    if dtype in ("int4", "uint4"):  # in a byte
        word = _scalar("int8", value)
        if not (-8 <= value <= 7 if dtype == "int4" else 0 <= value <= 15):
            raise ValueError(f"Scalar out of range: {dtype} does not hold {value}")
        return word
    if dtype == "float4_e2m1fn":  # rounded, halves to the even code, as float16
        size = 6.0 if value != value else min(abs(value), 6.0)
        nearest = _FLOAT4[min(range(8), key=lambda k: (abs(_FLOAT4[k] - size), k % 2))]
        return _scalar("float16", math.copysign(nearest, 1.0 if value != value else value))
    kinds = {"float32": ctypes.c_float, "float64": ctypes.c_double}
    kind = kinds.get(dtype) or getattr(ctypes, f"c_{dtype}", None)
    if kind is not None:
        word = kind(value)
        if dtype not in kinds and word.value != value:
            raise ValueError(f"Scalar out of range: {dtype} does not hold {value}")
        return word
    narrow = torch.tensor(value, dtype=torch.float64).to(getattr(torch, dtype))  # passed as its bits
    unsigned = {1: (torch.uint8, ctypes.c_uint8), 2: (torch.int16, ctypes.c_uint16)}[narrow.element_size()]
    return unsigned[1](int(narrow.view(unsigned[0])))
