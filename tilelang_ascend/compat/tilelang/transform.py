"""`tilelang.transform`: keys of compiler options. The passes of another compiler are not part of it."""

from __future__ import annotations

from typing import Any, Callable

from tilelang_ascend.jit.pass_config import PassConfigKey

__all__ = ["PassConfigKey", "apply_simplify", "simplify_prim_func"]


def simplify_prim_func(func: Callable) -> Callable:
    """Decorator that asks for simplified IR, which kernels always get here."""
    return func


def apply_simplify(stmt: Any, inline_let: bool = False) -> Any:
    """The kernel itself; simplification is part of compiling it."""
    return stmt


def __getattr__(name: str) -> Any:
    if name == "PassContext":
        from tilelang_ascend.ir.door import tvm

        return tvm.ir.transform.PassContext
    raise AttributeError(f"module 'tilelang.transform' has no attribute {name!r}; passes of the GPU compiler do not exist here")
