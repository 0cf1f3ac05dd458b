"""Compiled kernels as ops of torch."""

from __future__ import annotations

from typing import Any

from .kernel import JITKernel


def register_op(kernel: JITKernel, name: str | None = None) -> Any:
    """Register a kernel with `torch.library`, so that functions under `torch.compile` call it without a break of their graph.

    Args:
        kernel: compiled; the outputs in its `out_idx` are results of the op, other tensors it writes are changed in place.
        name: ``namespace::name``; ``tilelang::`` and the kernel's name when None.

    Returns:
        The op, to be called as the kernel (by position); also ``torch.ops.namespace.name``. Gradients: its `register_autograd`.

    Raises:
        TypeError: it is not a compiled kernel.
        ValueError: there is an op of this name, or the name has no namespace.
    """
    if not isinstance(kernel, JITKernel):
        raise TypeError(f"register_op takes a compiled kernel, not {type(kernel).__name__}; call the function or tilelang.compile first")
    from ..runtime import torch_op

    artifact = kernel.artifact

    def run(*given: Any) -> Any:
        return kernel(*given)

    return torch_op.register(name or f"tilelang::{artifact.name}", artifact.signature.to_json(), run)
