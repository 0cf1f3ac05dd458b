"""resolve_block_index: block numbers on the vector cores of mixed kernels, where the hardware counts cores.

Before (AIV of a mixed kernel):  block = get_block_idx()
After:                           core = get_block_idx(); block = core // 2

In combined form `get_block_idx` counts blocks.
"""

from __future__ import annotations

from ...ir import Bind, IRModule, StmtMutator, Var, imm, op_name, seq, tirx
from ...isa.base import VECTOR_CORES_PER_BLOCK


class _HalfIndex(StmtMutator):
    def visit_Bind(self, s: Bind):
        if op_name(s.value) != "ascend.get_block_idx":
            return s
        core = Var("core", "int32")
        return seq(Bind(core, s.value, span=s.span), Bind(s.var, tirx.floordiv(core, imm(VECTOR_CORES_PER_BLOCK)), span=s.span))


def resolve_block_index(module: IRModule) -> IRModule:
    """Apply to the module made by split_cores."""
    functions = {}
    for gv, func in module.functions.items():
        mixed = str(func.attrs["ascend.kernel_type"]) == "mix_1_2" and str(func.attrs["ascend.core"]) == "aiv"
        functions[gv] = func.with_body(_HalfIndex()(func.body)) if mixed else func
    return IRModule(functions)


__all__ = ["resolve_block_index"]
