"""close_cores: a core ends when all its pipes have ended.

Before:  copy_ub_to_gm(y, u, …)
After:   copy_ub_to_gm(y, u, …); pipe_barrier {pipe: ALL}

A `TPipe` does this where it is destroyed; those of emitted text are destroyed at their beginning.

Requires: one function for each core. Ensures: the last statement of each is a barrier for all pipes.
"""

from __future__ import annotations

from ...ir import IRModule, intrin, seq


def close_cores(module: IRModule) -> IRModule:
    """Apply to all functions."""
    functions = {gv: f.with_body(seq(f.body, intrin("pipe_barrier", pipe="ALL", span=f.span))) for gv, f in module.functions.items()}
    return IRModule(functions)


__all__ = ["close_cores"]
