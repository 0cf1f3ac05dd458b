"""The modules that `import tilelang…` gives a GPU script.

Importing this package turns the aliases on for the rest of the process, unless `TILELANG_DEFAULT_TARGET` names
another vendor's device: a script that begins with ``import tilelang_ascend.compat.tilelang`` chooses its machine by
that variable alone.
"""

from __future__ import annotations

import importlib
from typing import Any

import tilelang_ascend as _ours
from tilelang_ascend import env as _env
from tilelang_ascend import errors as _errors
from tilelang_ascend.frontend.locations import user_location as _user_location

from .. import aliases as _aliases
from ..targets import FOREIGN_KINDS as _FOREIGN_KINDS
from ..targets import kind_of as _kind_of

_foreign = _kind_of(_env.DEFAULT_TARGET.get())
if _foreign == "auto" or _foreign not in _FOREIGN_KINDS:
    _aliases.install()

__version__ = _ours.__version__
__all__ = _ours.__all__

_MODULES = (
    "autotuner",
    "carver",
    "contrib",
    "engine",
    "env",
    "language",
    "layout",
    "math",
    "profiler",
    "testing",
    "transform",
    "utils",
)
_ELSEWHERE = {
    "AutoTuner": "autotuner",
    "CompiledArtifact": "engine",
    "Fragment": "layout",
    "KernelParam": "engine",
    "Layout": "layout",
    "autotune": "autotuner",
    "dtypes": "language",
    "is_cache_enabled": "env",
    "register_c_postproc": "engine",
    "register_cuda_postproc": "engine",
    "register_hip_postproc": "engine",
}
"""Names of the package that come from one of its modules."""
_REFUSED = {
    **dict.fromkeys(("cuda", "rocm", "metal", "webgpu", "cpu"), "write the kernel with `tilelang.language`; --target chooses the chip"),
    "ascend": "write the kernel with `tilelang.language`, as for a GPU: cube and vector work, memories and flags are found by the compiler",
    **dict.fromkeys(
        ("analysis", "ir", "tileop"), "parts of the compiler differ; `tilelang.lower` and `tilelang-ascend inspect` show every stage"
    ),
    "tools": "`tilelang-ascend inspect` shows stages, memory and time of a kernel",
    "intrinsics": "T.gemm runs on the cube unit",
    "quantize": "unpack with shifts and casts in T.Parallel, see examples/dequantize_gemm",
    "libinfo": "there is no library to find: `tilelang_ascend.__file__` is where the package lies",
    "deprecated": "use warnings.warn",
    "build_date": "use `tilelang.__version__`",
}
"""Names of the package that have no counterpart -> what to write instead."""


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(_aliases.target_of(f"tilelang.{name}"))
    if name in _ELSEWHERE:
        return getattr(__getattr__(_ELSEWHERE[name]), name)
    if name == "DataType":
        return __getattr__("language").dtype
    if name == "tvm":
        from tilelang_ascend.ir.door import tvm

        return tvm
    if name.startswith("__"):
        raise AttributeError(f"module 'tilelang' has no attribute {name!r}")
    if name in _REFUSED:
        raise _errors.UnknownName(api="tilelang", name=name, hint=_REFUSED[name], at=_user_location())
    try:
        return getattr(_ours, name)
    except AttributeError:
        raise AttributeError(f"module 'tilelang' has no attribute {name!r}") from None


def __dir__() -> list[str]:
    return sorted({*dir(_ours), *_MODULES, *_ELSEWHERE})
