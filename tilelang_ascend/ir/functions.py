"""The functions of a module, their order, and their parameters (docs/ir.md section 2)."""

from __future__ import annotations

from math import prod

from ..isa import lookup
from . import IRModule, PrimFunc, dtype_of, elements, is_buffer_var, itemsize, op_name


def core_functions(ascend_ir: IRModule) -> dict[str, PrimFunc]:
    """``"aic"``/``"aiv"`` -> function of an Ascend IR module, cube core first."""
    found = {str(f.attrs["ascend.core"]): f for f in ascend_ir.functions.values()}
    assert found and set(found) <= {"aic", "aiv"}, f"cores of an Ascend IR module are aic and aiv, found {sorted(found)}"
    return {core: found[core] for core in ("aic", "aiv") if core in found}


LAUNCH = "ascend.launch"
"""Attribute of the functions of a kernel with several launches: which one, from 0."""
SHARED = "ascend.num_shared"
"""Attribute of the same functions: how many of the last tensors are workspaces that outlive a launch; none without it."""
PAST_L2 = "ascend.past_l2"
"""Attribute of functions: names of the tensors whose traffic goes past L2; none without it."""


def launch_of(ir: PrimFunc | IRModule) -> int:
    """Number of the launch a function, or the functions of a module, belong to; of a module with several the first."""
    if isinstance(ir, IRModule):
        return min(map(launch_of, ir.functions.values()))
    return int(ir.attrs[LAUNCH]) if ir.attrs and LAUNCH in ir.attrs else 0


def launches(ir: PrimFunc | IRModule) -> list[IRModule]:
    """The functions of each launch of a kernel, in the order in which they run."""
    if isinstance(ir, PrimFunc):
        return [IRModule({str(ir.attrs["global_symbol"]): ir})]
    found: dict[int, dict] = {}
    for name, func in ir.functions.items():
        found.setdefault(launch_of(func), {})[name] = func
    return [IRModule(found[k]) for k in sorted(found)]


def split_params(func: PrimFunc) -> tuple[list, list, list]:
    """(scalar variables, GM buffers of the user, workspace buffers of this launch) of an Ascend IR function."""
    scalars = [p for p in func.params if not is_buffer_var(p)]
    buffers = [p for p in func.params if is_buffer_var(p)]
    count = int(func.attrs["ascend.num_workspaces"]) if "ascend.num_workspaces" in func.attrs else 0
    split = len(buffers) - count
    return scalars, buffers[:split], buffers[split:]


def shared_buffers(func: PrimFunc) -> list:
    """Those of the user's GM buffers that are no parameters of the kernel, but workspaces its launches share."""
    count = int(func.attrs[SHARED]) if func.attrs and SHARED in func.attrs else 0
    buffers = split_params(func)[1]
    return buffers[len(buffers) - count :]


def past_l2(func: PrimFunc) -> list[str]:
    """Names of the tensors whose traffic goes past L2."""
    return [str(name) for name in func.attrs[PAST_L2]] if func.attrs and PAST_L2 in func.attrs else []


def fixed_bytes(buffer) -> int:
    """Bytes of a buffer of a constant shape."""
    return prod(int(n) for n in elements(buffer.ty.shape)) * itemsize(dtype_of(buffer))


def is_core_index(value) -> bool:
    """True for queries without operands (`get_block_idx`, …): they return indices and counts."""
    name = op_name(value) or ""
    return name.startswith("ascend.") and not lookup(name).operands
