"""What a kernel's caller passes: one record per parameter, free of tvm so that a cached kernel loads without it."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import Any, Mapping

from ..errors import Location

Dim = int | str
"""A static extent, or a Python expression over the kernel's shape variables (``"m"``, ``"m * 2"``)."""

_NAME = re.compile(r"[A-Za-z_]\w*\Z")


@dataclass(frozen=True)
class Parameter:
    """One parameter of the kernel function, in the user's order.

    Attributes:
        name: the user's name for it.
        dtype: element type, or type of the scalar.
        shape: extents of a buffer; None for a scalar.
        strides: element strides of a buffer declared with explicit strides; None means row-major. Of dtypes of 4 bits they count numbers, the last
            one bytes.
        writes: whether the lowered program writes the buffer.
        location: where it is declared, if known.
        even: whether rows of two numbers in a byte must be whole bytes.
        pitches: (rows, elements in memory from one to the next, bytes of an element) where run time tells the second, and the kernel computes with an int32 of bytes.
    """

    name: str
    dtype: str
    shape: tuple[Dim, ...] | None = None
    strides: tuple[Dim, ...] | None = None
    writes: bool = True
    location: Location | None = None
    even: bool = False
    pitches: tuple[tuple[Dim, Dim, int], ...] = ()

    @property
    def is_buffer(self) -> bool:
        return self.shape is not None

    @property
    def extents(self) -> tuple[Dim, ...]:
        """The shape of a buffer."""
        assert self.shape is not None, f"{self.name} is a scalar"
        return self.shape

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `from_json` reverses it."""
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Parameter":
        """Inverse of `to_json`."""
        location = data["location"]
        fields = dict(data, location=Location(**location) if location else None)
        for key in ("shape", "strides"):
            fields[key] = None if data[key] is None else tuple(data[key])
        fields["pitches"] = tuple((rows, pitch, size) for rows, pitch, size in data.get("pitches", ()))
        return Parameter(**fields)


@dataclass(frozen=True)
class Signature:
    """All parameters of a kernel, its shape variables and which buffers the kernel allocates itself.

    Attributes:
        parameters: in the user's order, buffers of `T.empty` last.
        symbols: names and dtypes of the shape variables.
        out_idx: indices of the parameters that a call allocates and returns.
    """

    parameters: tuple[Parameter, ...]
    symbols: tuple[tuple[str, str], ...] = ()
    out_idx: tuple[int, ...] = ()
    _inputs: tuple[int, ...] = field(init=False, repr=False, compare=False, default=())

    def __post_init__(self):
        inputs = tuple(i for i in range(len(self.parameters)) if i not in self.out_idx)
        object.__setattr__(self, "_inputs", inputs)

    @property
    def inputs(self) -> list[Parameter]:
        """The parameters a caller passes."""
        return [self.parameters[i] for i in self._inputs]

    @property
    def outputs(self) -> list[Parameter]:
        """The parameters a call allocates, in the order they are returned."""
        return [self.parameters[i] for i in self.out_idx]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `from_json` reverses it."""
        return {
            "parameters": [p.to_json() for p in self.parameters],
            "symbols": [list(s) for s in self.symbols],
            "out_idx": list(self.out_idx),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Signature":
        """Inverse of `to_json`."""
        return Signature(
            tuple(Parameter.from_json(p) for p in data["parameters"]),
            tuple((name, dtype) for name, dtype in data["symbols"]),
            tuple(data["out_idx"]),
        )


def normalize_out_idx(out_idx: int | list[int] | tuple[int, ...] | None, count: int) -> tuple[int, ...]:
    """`out_idx` as non-negative indices into `count` parameters.

    Raises:
        TypeError: it is something else than indices.
        ValueError: an index is out of range or appears twice.
    """
    if out_idx is None:
        return ()
    given = list(out_idx) if isinstance(out_idx, (list, tuple)) else [out_idx]
    if not all(isinstance(i, int) for i in given):
        raise TypeError(f"out_idx is an index of a parameter or a list of indices, such as -1 or [2, 3], not {out_idx!r}")
    indices = []
    for i in given:
        if not -count <= i < count:
            raise ValueError(f"out_idx {i} is out of range: the kernel has {count} parameters")
        indices.append(i % count)
    if len(set(indices)) != len(indices):
        raise ValueError(f"out_idx {out_idx} names a parameter twice")
    return tuple(indices)


def is_symbol(dim: Dim) -> bool:
    """True for an extent that is one shape variable, such as ``"m"``."""
    return isinstance(dim, str) and _NAME.match(dim) is not None


def names_in(dim: Dim) -> list[str]:
    """The shape variables of an extent."""
    return [name for name in re.findall(r"[A-Za-z_]\w*", str(dim)) if name not in ("min", "max")]


def evaluate(dim: Dim, values: Mapping[str, int | float]) -> int:
    """The extent for known shape variables. Expressions come from our own printer, never from the user.

    Raises:
        KeyError: a shape variable has no value.
    """
    if isinstance(dim, int):
        return dim
    if dim in values:
        return int(values[dim])
    try:
        return int(eval(dim, {"__builtins__": {}, "min": min, "max": max}, dict(values)))  # noqa: S307
    except NameError as missing:
        raise KeyError(missing.name) from None
