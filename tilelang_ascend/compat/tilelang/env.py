"""`tilelang.env`: environment variables as attributes, and switches of the kernel cache."""

from __future__ import annotations

import os
from typing import Any

from tilelang_ascend import cache as _cache
from tilelang_ascend import env as _env

__all__ = ["Environment", "disable_cache", "enable_cache", "env", "is_cache_enabled"]

_KNOBS = {knob.name: knob for knob in _env.KNOBS}
_PREFIXES = ("TILELANG_", "TL_", "CUDA_", "ROCM_", "TVM_", "CUTLASS_", "COMPOSABLE_KERNEL_", "SKIP_LOADING_")


class Environment:
    """``env.TILELANG_CACHE_DIR``: the value of a variable this package reads, the text (or None) of any other one."""

    enable_cache = staticmethod(_cache.enable_cache)
    disable_cache = staticmethod(_cache.disable_cache)
    is_cache_enabled = staticmethod(_cache.is_cache_enabled)

    def __getattr__(self, name: str) -> Any:
        if name in _KNOBS:
            value = _KNOBS[name].get()
            return value if isinstance(value, bool) else str(value)
        if name.startswith(_PREFIXES):
            return os.environ.get(name)
        raise AttributeError(f"tilelang.env has no {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        os.environ[name] = str(int(value)) if isinstance(value, bool) else str(value)

    def get_default_target(self) -> str:
        """Target of kernels that do not name one."""
        return _env.DEFAULT_TARGET.get()

    def get_default_execution_backend(self) -> str:
        """Where kernels run that do not say."""
        return _env.EXECUTION_BACKEND.get()

    def get_default_verbose(self) -> bool:
        """Nothing here is verbose; `TILELANG_LOG_LEVEL` says what is printed."""
        return False

    def is_cache_globally_disabled(self) -> bool:
        """Whether `TILELANG_DISABLE_CACHE` is set."""
        return _env.DISABLE_CACHE.get()

    def is_autotune_cache_disabled(self) -> bool:
        """Whether every process measures anew."""
        return _env.AUTO_TUNING_DISABLE_CACHE.get()

    def should_cleanup_temp_files(self) -> bool:
        """Compiling leaves no files behind."""
        return True

    def use_gemm_v1(self) -> bool:
        """There is one lowering of gemm."""
        return False

    def is_print_on_compilation_enabled(self) -> bool:
        """Whether every compiled kernel prints a line."""
        return _env.PRINT_ON_COMPILATION.get()


env = Environment()
enable_cache, disable_cache, is_cache_enabled = env.enable_cache, env.disable_cache, env.is_cache_enabled


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(env, name)
