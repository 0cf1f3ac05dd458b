"""The TileLang language: what a kernel may say. ``import tilelang_ascend.language as T``.

Names only; how they are lowered is decided elsewhere. Names of GPU TileLang that have no counterpart here are refused
with the line and what to write instead (`refused`); hints are accepted and ignored (`hints`).
"""

from __future__ import annotations

import difflib
from types import FunctionType

from ..errors import GpuOnlyApi, NotYetAvailable, UnknownName
from ..frontend import Ref, inline, macro, prim_func
from ..frontend.annotations import Buffer, StridedTensor, Tensor
from ..frontend.keywords import checked
from ..frontend.locations import user_location
from . import (
    alloc,
    atomic,
    bits,
    convolution,
    debug,
    dtypes,
    hints,
    kernel,
    layouts,
    loops,
    math,
    npu,
    quantifiers,
    safe_values,
    schedule,
    symbols,
    types,
    views,
)
from . import copy as _copy
from . import gemm as _gemm
from . import reduce as _reduce
from . import sort as _sort
from .kernel import Kernel
from .layouts import Fragment, Layout
from .refused import LATER, refusal

_LOOPS = (
    "serial", "Serial", "unroll", "Unroll", "vectorized", "Vectorized", "Parallel", "parallel", "Pipelined",
    "Persistent", "grid",
    "loop_break", "break_loop", "continue_loop",
)  # fmt: skip

_MODULES = (
    (dtypes, dtypes.NAMES),
    (alloc, alloc.NAMES),
    (kernel, kernel.NAMES),
    (types, types.NAMES),
    (loops, _LOOPS),
    (_copy, _copy.NAMES),
    (_gemm, _gemm.NAMES),
    (convolution, convolution.NAMES),
    (_reduce, _reduce.NAMES),
    (_sort, _sort.NAMES),
    (quantifiers, quantifiers.NAMES),
    (atomic, atomic.NAMES),
    (views, views.NAMES),
    (debug, debug.NAMES),
    (hints, hints.NAMES),
    (safe_values, safe_values.NAMES),
    (schedule, schedule.NAMES),
    (symbols, symbols.NAMES),
    (layouts, layouts.NAMES),
    (math, math.NAMES),
    (bits, bits.NAMES),
    (npu, npu.NAMES),
)

__all__ = [
    "Buffer",
    "Fragment",
    "Kernel",
    "Layout",
    "Ref",
    "StridedTensor",
    "Tensor",
    "cast",
    "inline",
    "macro",
    "prim_func",
    "print",
]
for _module, _names in _MODULES:
    for _name in _names:
        _value = getattr(_module, _name)
        globals()[_name] = checked(_value, f"T.{_name}") if isinstance(_value, FunctionType) else _value
        __all__.append(_name)
cast = checked(math.cast_, "T.cast")
print = checked(debug.print_, "T.print")

SharedBuffer = FragmentBuffer = LocalBuffer = Buffer
__all__ += ["SharedBuffer", "FragmentBuffer", "LocalBuffer"]


def __getattr__(name: str):
    """Names that do not exist: an explanation instead of a bare AttributeError."""
    refused = refusal(name)
    if name.startswith("__") and refused is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if refused is not None:
        kind, advice = refused
        raise GpuOnlyApi(name=name, kind=kind, hint=advice, at=user_location())
    if name in LATER:
        raise NotYetAvailable(name=name, hint=LATER[name], at=user_location())
    near = difflib.get_close_matches(name, __all__, n=3, cutoff=0.6)
    hint = "did you mean " + " or ".join(f"T.{n}" for n in near) + "?" if near else None
    raise UnknownName(api="T", name=name, hint=hint, at=user_location())


def __dir__() -> list[str]:
    return sorted(__all__)
