"""`tilelang.engine`: lowering without a callable kernel, and hooks into generated CUDA, which never fire."""

from __future__ import annotations

from typing import Any, Callable

from tilelang_ascend.jit import CompiledArtifact, lower
from tilelang_ascend.log import get_logger
from tilelang_ascend.runtime.params import Parameter as KernelParam

__all__ = ["CompiledArtifact", "KernelParam", "lower"]


def _register(name: str) -> Callable:
    def register(func: Callable | None = None, override: bool = True) -> Any:
        get_logger().debug("%s: no such source is generated here, so the function is never called", name)
        return func

    register.__name__ = name
    register.__doc__ = "Accepted; there is no such source to process."
    return register


def _register_callback(name: str) -> Callable:
    register = _register(name)

    def decorator(func: Callable | bool | None = None, override: bool = True) -> Any:
        return register(func) if callable(func) else register

    decorator.__name__ = name
    decorator.__doc__ = "Decorator, with or without arguments. Accepted; there is no such source to process."
    return decorator


for _language in ("cuda", "hip", "c", "metal"):
    for _name, _make in (
        (f"register_{_language}_postproc", _register),
        (f"register_{_language}_postproc_callback", _register_callback),
    ):
        globals()[_name] = _make(_name)
        __all__.append(_name)
