"""The functions of an Ascend IR module and their parameters (docs/ir.md section 2)."""

from __future__ import annotations

from ..isa import lookup
from . import IRModule, PrimFunc, is_buffer_var, op_name


def core_functions(ascend_ir: IRModule) -> dict[str, PrimFunc]:
    """``"aic"``/``"aiv"`` -> function of an Ascend IR module, cube core first."""
    found = {str(f.attrs["ascend.core"]): f for f in ascend_ir.functions.values()}
    assert found and set(found) <= {"aic", "aiv"}, f"cores of an Ascend IR module are aic and aiv, found {sorted(found)}"
    return {core: found[core] for core in ("aic", "aiv") if core in found}


def split_params(func: PrimFunc) -> tuple[list, list, list]:
    """(scalar variables, GM buffers of the user, workspace buffers) of an Ascend IR function."""
    scalars = [p for p in func.params if not is_buffer_var(p)]
    buffers = [p for p in func.params if is_buffer_var(p)]
    count = int(func.attrs["ascend.num_workspaces"]) if "ascend.num_workspaces" in func.attrs else 0
    split = len(buffers) - count
    return scalars, buffers[:split], buffers[split:]


def is_core_index(value) -> bool:
    """True for queries without operands (`get_block_idx`, …): they return indices and counts."""
    name = op_name(value) or ""
    return name.startswith("ascend.") and not lookup(name).operands
