"""The TileLang language: what a kernel may say. ``import tilelang_ascend.language as T``.

Names only; how they are lowered is decided elsewhere. Names of GPU TileLang that have no counterpart here are refused with the
line and what to write instead (`refused`); hints are accepted and ignored (`hints`).
"""

from __future__ import annotations

import difflib

from ..errors import GpuOnlyApi, NotYetAvailable, UnknownName
from ..frontend import Ref, inline, macro, prim_func
from ..frontend.builder import user_location
from ..frontend.types import Buffer, StridedTensor, Tensor
from . import alloc, atomic, copy as _copy, debug, dtypes, gemm as _gemm, hints, loops, math, npu, reduce as _reduce, symbols, views
from .kernel import Kernel
from .layouts import Fragment, Layout
from .refused import LATER, REFUSED

_LOOPS = (
    "serial", "Serial", "unroll", "Unroll", "vectorized", "Vectorized", "Parallel", "parallel", "Pipelined", "Persistent", "grid",
    "loop_break",
)  # fmt: skip

_MODULES = (
    (dtypes, dtypes.NAMES),
    (alloc, alloc.NAMES),
    (loops, _LOOPS),
    (_copy, _copy.NAMES),
    (_gemm, _gemm.NAMES),
    (_reduce, _reduce.NAMES),
    (atomic, atomic.NAMES),
    (views, views.NAMES),
    (debug, debug.NAMES),
    (hints, hints.NAMES),
    (symbols, symbols.NAMES),
    (math, math.NAMES),
    (npu, npu.NAMES),
)

__all__ = ["Buffer", "Fragment", "Kernel", "Layout", "Ref", "StridedTensor", "Tensor", "cast", "inline", "macro", "prim_func", "print"]
for _module, _names in _MODULES:
    for _name in _names:
        globals()[_name] = getattr(_module, _name)
        __all__.append(_name)
cast = math.cast_
print = debug.print_

SharedBuffer = FragmentBuffer = LocalBuffer = Buffer


def __getattr__(name: str):
    """Names that do not exist: an explanation instead of a bare AttributeError."""
    if name.startswith("__") and name not in REFUSED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in REFUSED:
        kind, advice = REFUSED[name]
        raise GpuOnlyApi(name=name, kind=kind, hint=advice, at=user_location())
    if name in LATER:
        raise NotYetAvailable(name=name, hint=LATER[name], at=user_location())
    near = difflib.get_close_matches(name, __all__, n=3, cutoff=0.6)
    hint = "did you mean " + " or ".join(f"T.{n}" for n in near) + "?" if near else None
    raise UnknownName(api="T", name=name, hint=hint, at=user_location())


def __dir__() -> list[str]:
    return sorted(__all__)
