"""TileLang kernels written for a GPU, compiled to Ascend C and run on a machine model of the chip.

>>> import tilelang_ascend as tilelang
>>> import tilelang_ascend.language as T

Names are loaded on first use, so importing this package is cheap and does not load tvm.
"""

from __future__ import annotations

import importlib
from typing import Any

# `jit` and `autotune` are sub-packages too: importing them here makes the names mean the decorators, whatever is
# imported later.
from .arith import cdiv, next_power_of_2
from .autotune import AutoTuner, autotune
from .jit import JITImpl, JITKernel, PassConfigKey, compile, jit, lower, par_compile  # noqa: A004
from .version import __version__ as __version__

_LAZY = {
    "Profiler": "profiler",
    "TensorSupplyType": "profiler",
    "do_bench": "profiler",
    "clear_cache": "cache",
    "disable_cache": "cache",
    "enable_cache": "cache",
    "register_op": "jit.ops",
    "set_log_level": "log",
}
_MODULES = ("arch", "autotuner", "cache", "env", "errors", "language", "layout", "profiler")

__all__ = [
    "AutoTuner", "JITImpl", "JITKernel", "PassConfigKey", "autotune", "cdiv", "compile", "jit", "language", "lower",
    "next_power_of_2", "par_compile", *_LAZY,
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    if name in _LAZY:
        return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_MODULES})
