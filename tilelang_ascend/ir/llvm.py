"""Machine code for scalar TIR functions through TVM's LLVM back end, with the fewest passes that do the job.

`tirx.build` runs some forty passes meant for tensor code; on long straight-line functions of calls one of them
(common subexpressions) alone takes most of the time. Host programs need only the packed calling convention.
"""

from __future__ import annotations

import functools
import threading
from typing import Any, Mapping, Sequence

import tvm
from tvm import tirx

from .base import IRModule

_SKIPPED = ("cgp", "lsr", "machine-cse", "machine-licm", "machine-sink", "peephole")
_OPTIONS = ["-fast-isel:bool=true", "-optimize-regalloc:int=2", *(f"-disable-{name}:bool=true" for name in _SKIPPED)]
"""TVM compiles what it runs in the process with the code generation of -O2, whatever the level of the target. With that of -O0 it takes half
the time. `int=2` is the "no" of an option that also knows "unset"."""

_lock = threading.Lock()
"""The options are LLVM's for the whole process: TVM sets them while it compiles a module, and sets them back."""


@functools.lru_cache(maxsize=1)
def _target():
    # No -mcpu: the baseline has no fused multiply-add, so scalar floats round as the Ascend C text does. opt-level 0:
    # the time goes into the calls, and LLVM's optimiser would take longer than it saves.
    target = tvm.target.Target({"kind": "llvm", "opt-level": 0, "cl-opt": _OPTIONS})
    return target.with_host(target)


@functools.lru_cache(maxsize=1)
def _pipeline():
    transform = tirx.transform
    return tvm.transform.Sequential(
        [
            transform.BindTarget(_target()),
            transform.AnnotateEntryFunc(),
            transform.MakePackedAPI(),
        ]
    )


def build_llvm(module: IRModule, names: Sequence[str]) -> tuple[Mapping[str, Any], Any]:
    """Compile functions of scalar parameters; returns them by name, and what must live as long as they. Thread-safe.

    The functions have their global symbols set and use neither bfloat16 nor floor division.

    External C symbols are looked up in the process: load their library with global visibility first.
    """
    module = _pipeline()(module)
    with _lock:
        built = tvm.get_global_func("target.build.llvm")(module, _target())
        return {name: built.get_function(name) for name in names}, built
