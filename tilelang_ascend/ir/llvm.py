"""Machine code for scalar TIR functions through TVM's LLVM back end, with the fewest passes that do the job.

`tirx.build` runs some forty passes meant for tensor code; on long straight-line functions of calls one of them
(common subexpressions) alone takes most of the time. Host programs need only the packed calling convention.
"""

from __future__ import annotations

import functools

import tvm
from tvm import tirx

from .base import IRModule


@functools.lru_cache(maxsize=1)
def _target():
    # No -mcpu: the baseline has no fused multiply-add, so scalar floats round as the Ascend C text does. opt-level 0:
    # the time goes into the calls, and LLVM's optimiser would take longer than it saves.
    target = tvm.target.Target({"kind": "llvm", "opt-level": 0})
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


def build_llvm(module: IRModule):
    """Compile functions of scalar parameters; returns a runtime module. Thread-safe.

    The functions have their global symbols set and use neither bfloat16 nor floor division.

    External C symbols are looked up in the process when a function is fetched: load their library with global
    visibility first.
    """
    return tvm.get_global_func("target.build.llvm")(_pipeline()(module), _target())
