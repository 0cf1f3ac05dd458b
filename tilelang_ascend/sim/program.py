"""A program the machine can run: one entry for each kind of core."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping

from ..ir import IRModule, PrimFunc, is_buffer_var


@dataclass(frozen=True)
class HostProgram:
    """Entries of a compiled program.

    entries: ``"aic"`` and/or ``"aiv"`` -> a `tvm_ffi.Function` of `num_args` int64 arguments (docs/ir.md section 4),
    or, for a program compiled from emitted text, the address of a C function ``void (const int64_t*, int32_t)``.
    Entries stay valid as long as the program object lives. Calling one issues instructions into the machine that runs on
    the calling thread; outside of a run there is no such machine and the process is told so by the native library.
    """

    entries: Mapping[str, Any]
    num_args: int
    keep_alive: Any = field(default=None, repr=False, compare=False)


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
