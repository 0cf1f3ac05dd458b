"""resolve_block_index: the last step after splitting a mixed kernel into its two programs.

Before (AIV of a mixed kernel):  block = get_block_idx()
After:                           block = get_block_idx() // 2

In combined form `get_block_idx` counts blocks; on the vector cores of a mixed kernel the hardware counts cores.
"""

from __future__ import annotations

from ..ir import Call, IRModule, StmtMutator, imm, map_children, op_name, tirx

VECTOR_CORES_PER_BLOCK = 2


class _HalfIndex(StmtMutator):
    def expr(self, e):
        if isinstance(e, Call) and op_name(e) == "ascend.get_block_idx":
            return tirx.floordiv(e, imm(VECTOR_CORES_PER_BLOCK))
        return map_children(e, self.expr)


def resolve_block_index(module: IRModule) -> IRModule:
    """Apply to the module made by split_cores."""
    functions = {}
    for gv, func in module.functions.items():
        mixed = str(func.attrs["ascend.kernel_type"]) == "mix_1_2" and str(func.attrs["ascend.core"]) == "aiv"
        functions[gv] = func.with_body(_HalfIndex()(func.body)) if mixed else func
    return IRModule(functions)


__all__ = ["resolve_block_index"]
