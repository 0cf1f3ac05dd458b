"""Inputs made up for a kernel's parameters."""

from __future__ import annotations

from enum import Enum
from typing import Any, Mapping

import numpy as np

from ..errors import ArgumentValueError
from ..runtime import dtypes, tensors
from ..runtime.params import Parameter, Signature, evaluate


class TensorSupplyType(Enum):
    """How `Profiler` fills input tensors. `Auto`: small integers for integer dtypes, uniform in [-1, 1) for floats."""

    Integer = 1
    Uniform = 2
    Normal = 3
    Randn = 4
    Zero = 5
    One = 6
    Auto = 7


def make_inputs(
    signature: Signature,
    supply: TensorSupplyType,
    constraints: Mapping[str, int] | None = None,
    seed: int = 0,
    torch_like: bool | None = None,
) -> list[Any]:
    """One tensor or number for every input parameter; the same for the same seed.

    Args:
        constraints: values of shape variables.
        torch_like: tensors of torch, or of numpy. None: torch if it is installed.

    Raises:
        errors.ArgumentValueError: a shape variable has no value.
    """
    rng = np.random.default_rng(seed)
    values = dict(constraints or {})
    missing = [name for name, _ in signature.symbols if name not in values]
    if missing:
        raise ArgumentValueError(
            f"No value for the dynamic extent {', '.join(missing)}",
            hint="pass dynamic_symbolic_constraints={'" + missing[0] + "': 1024} or input_tensors",
        )
    torch_like = tensors.have_torch() if torch_like is None else torch_like
    return [_make(p, supply, values, rng, torch_like) for p in signature.inputs]


def _make(p: Parameter, supply: TensorSupplyType, values: Mapping[str, int], rng: np.random.Generator, torch_like: bool) -> Any:
    if not p.is_buffer:
        return values.get(p.name, 1)
    shape = dtypes.stored(p.dtype, tuple(evaluate(d, values) for d in p.extents))
    if p.dtype in dtypes.NIBBLES:
        one = 0x22 if dtypes.is_float(p.dtype) else 0x11
        same = {TensorSupplyType.Zero: 0, TensorSupplyType.One: one}.get(supply)
        data = rng.integers(0, 256, shape) if same is None else np.full(shape, same)
    else:
        data = _FILL[_resolve(supply, p.dtype)](rng, shape, p.dtype)
    if p.dtype == "float8_e8m0fnu":  # has neither a sign nor 0
        data = np.maximum(np.abs(data), np.float32(2.0**-127))
    data = data.astype(dtypes.numpy_dtype(p.dtype))
    if not torch_like:
        return data
    out = tensors.empty(shape, p.dtype, torch_like=True)
    tensors.HostTensor(out).assign(data)
    return out


def _resolve(supply: TensorSupplyType, dtype: str) -> TensorSupplyType:
    if supply is not TensorSupplyType.Auto:
        return supply
    return TensorSupplyType.Uniform if dtypes.is_float(dtype) else TensorSupplyType.Integer


def _integers(rng, shape, dtype):
    low, high = (0, 2) if dtype == "bool" else (0, 4) if dtype.startswith("uint") else (-2, 3)
    return rng.integers(low, high, shape)


def _uniform(rng, shape, dtype):
    return rng.random(shape, dtype=np.float32) * 2 - 1 if dtypes.is_float(dtype) else _integers(rng, shape, dtype)


def _normal(rng, shape, dtype):
    return rng.standard_normal(shape, dtype=np.float32) if dtypes.is_float(dtype) else _integers(rng, shape, dtype)


_FILL = {
    TensorSupplyType.Integer: _integers,
    TensorSupplyType.Uniform: _uniform,
    TensorSupplyType.Normal: _normal,
    TensorSupplyType.Randn: _normal,
    TensorSupplyType.Zero: lambda rng, shape, dtype: np.zeros(shape),
    TensorSupplyType.One: lambda rng, shape, dtype: np.ones(shape),
}
