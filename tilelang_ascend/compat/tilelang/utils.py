"""`tilelang.utils`: comparing tensors, naming dtypes and devices."""

from __future__ import annotations

import os
from typing import Any, Callable

from tilelang_ascend.profiler import TensorSupplyType
from tilelang_ascend.runtime import dtypes as _dtypes

__all__ = [
    "TensorSupplyType", "check_cuda_availability", "check_hip_availability", "determine_target",
    "get_available_cpu_count", "get_current_device", "get_tensor_supply", "map_torch_type", "torch_assert_close",
]  # fmt: skip


def map_torch_type(intype: Any) -> Any:
    """The torch dtype of a dtype's name."""
    return _dtypes.torch_dtype(_dtypes.dtype_name(intype))


def torch_assert_close(
    tensor_a: Any,
    tensor_b: Any,
    rtol: float = 1e-2,
    atol: float = 1e-3,
    max_mismatched_ratio: float = 0.001,
    verbose: bool = False,
    equal_nan: bool = True,
    check_device: bool = True,
    check_dtype: bool = True,
    check_stride: bool = False,
    base_name: str = "LHS",
    ref_name: str = "RHS",
) -> bool:
    """Compare two tensors, allowing a share of the elements to differ.

    Raises:
        AssertionError: shapes or dtypes differ, or more than `max_mismatched_ratio` of the elements do.
    """
    import torch

    assert tensor_a.shape == tensor_b.shape, f"{base_name} has shape {tuple(tensor_a.shape)}, {ref_name} {tuple(tensor_b.shape)}"
    if check_dtype:
        assert tensor_a.dtype == tensor_b.dtype, f"{base_name} is {tensor_a.dtype}, {ref_name} is {tensor_b.dtype}"
    if check_stride:
        assert tensor_a.stride() == tensor_b.stride(), f"{base_name} has strides {tensor_a.stride()}, {ref_name} {tensor_b.stride()}"
    a, b = tensor_a.detach().double(), tensor_b.detach().double()
    differs = ~torch.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)
    count, size = int(differs.sum()), differs.numel()
    if verbose:
        print(f"{base_name} and {ref_name}: {count} of {size} elements differ")
    if count > max_mismatched_ratio * size:
        where = tuple(int(i) for i in differs.nonzero()[0])
        raise AssertionError(
            f"{count} of {size} elements ({count / size:.2%}) differ by more than atol={atol}, rtol={rtol}; "
            f"allowed are {max_mismatched_ratio:.2%}; first at {where}: "
            f"{base_name} {a[where].item()}, {ref_name} {b[where].item()}"
        )
    return True


def get_tensor_supply(supply_type: TensorSupplyType = TensorSupplyType.Integer) -> Callable[[Any], Any]:
    """A function that makes up the tensor of one parameter."""
    from tilelang_ascend.profiler.supply import make_inputs
    from tilelang_ascend.runtime.params import Signature

    return lambda parameter: make_inputs(Signature((parameter,)), supply_type)[0]


def determine_target(target: Any = "auto", return_object: bool = False) -> Any:
    """The target kernels are compiled for."""
    from ..targets import replace_foreign

    return replace_foreign("auto" if target is None else target)


def check_cuda_availability() -> bool:
    """Whether kernels are compiled for CUDA: never."""
    return False


def check_hip_availability() -> bool:
    """Whether kernels are compiled for HIP: never."""
    return False


def get_current_device() -> Any:
    """Where the tensors of a kernel live."""
    import torch

    return torch.device("cuda")


def get_available_cpu_count() -> int:
    """CPUs this process may use."""
    return len(os.sched_getaffinity(0))
