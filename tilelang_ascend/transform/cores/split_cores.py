"""split_cores: from one kernel for both cores together to one program for each core.

Before:  for k: fixpipe_to_gm(ws, …); cross_core_set_flag {core: aic}; cross_core_wait_flag {core: aiv};
copy_gm_to_ub(u, ws, …)
After:   kernel_aic:  for k: fixpipe_to_gm(ws, …); cross_core_set_flag
         kernel_aiv:  for k: cross_core_wait_flag; copy_gm_to_ub(u, ws, …)

Requires: Ascend IR for both cores together, with synchronisation. Ensures: an `IRModule` of one function for each core
that has an instruction (docs/ir.md section 2); loops, branches and scalars only where something needs them; attributes
`ascend.core`, `ascend.kernel_type` and `ascend.kernel_name`.
"""

from __future__ import annotations

from ...analysis.dependence.core_use import AIC, AIV, CoreUse, call_of, core_of_operands
from ...errors import UnsupportedConstruct
from ...ir import Bind, Evaluate, IRModule, StmtMutator, call, op_name, operand_parts, statements
from ...isa.base import KERNEL_TYPES

TYPE_OF_CORES = {frozenset(cores): kernel_type for kernel_type, cores in KERNEL_TYPES.items()}


def split_cores(func) -> IRModule:
    """The functions `<kernel>_aic` and / or `<kernel>_aiv`."""
    use = CoreUse(func)
    _refuse_foreign_elements(func, use)
    present = set(use.present)
    if any(op_name(s.value) == "ascend.get_sub_block_idx" for s in statements(func.body) if isinstance(s, Bind)):
        # Work divided between the vector cores of a block needs both of them, also where nothing is left for the cube core.
        present |= {AIC, AIV}
    kernel_type = TYPE_OF_CORES[frozenset(present)]
    name = str(func.attrs["global_symbol"])
    functions = {}
    for core in sorted(present):
        body = _OneCore(use, core)(func.body)
        part = func.with_body(body)
        for key, value in (
            ("global_symbol", f"{name}_{core}"), ("ascend.core", core), ("ascend.kernel_type", kernel_type),
            ("ascend.kernel_name", name),
        ):  # fmt: skip
            part = part.with_attr(key, value)
        functions[f"{name}_{core}"] = part
    return IRModule(functions)


def _refuse_foreign_elements(func, use: CoreUse) -> None:
    """A scalar that one core reads in its memory reaches no other core."""
    for s in statements(func.body):
        owner = core_of_operands(call_of(s)) if isinstance(s, Bind) and call_of(s) is not None else None
        if owner is None or use.of(s) <= {owner}:
            continue
        name = operand_parts(s.value.args[0])[0].source.name
        raise UnsupportedConstruct(
            f"whether or how a matrix product is computed depends on an element of '{name}', which the vector cores have computed: "
            "the cube core does not see their memory, and no pass has carried it there",
            at=s.span,
            hint=f"read what decides in a tensor in global memory instead of '{name}', or multiply always and choose between the results in a T.Parallel loop",
        )


class _OneCore(StmtMutator):
    """Keeps the statements of one core."""

    def __init__(self, use: CoreUse, core: str):
        self.use, self.core = use, core

    def visit(self, stmt):
        return super().visit(stmt) if self.core in self.use.of(stmt) else None

    def visit_Evaluate(self, s: Evaluate):
        if call_of(s) is None or "core" not in (s.value.attrs or {}):
            return self.generic(s)
        attrs = {key: value for key, value in dict(s.value.attrs).items() if key != "core"}
        return Evaluate(call(str(s.value.op.name), s.value.args, attrs, span=s.value.span), span=s.span)


__all__ = ["split_cores"]
