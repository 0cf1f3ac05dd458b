"""What a call of a lowered program launches."""

from __future__ import annotations

from ..runtime.artifact import AbiSlot, Step


def describe_steps(ascend_ir) -> tuple[Step, ...]:
    """What a call of a lowered program launches."""
    from ..ir.functions import launches

    return tuple(map(_step, launches(ascend_ir)))


def _step(ascend_ir) -> Step:
    from .. import ir
    from ..ir.functions import fixed_bytes, past_l2, shared_buffers, split_params

    first = next(iter(ascend_ir.functions.values()))
    scalars, buffers, workspaces = split_params(first)
    shared = shared_buffers(first)
    sizes = [int(n) for n in first.attrs["ascend.workspace_bytes"]] if workspaces else []
    slots = [AbiSlot("scalar", p.name, ir.dtype_of(p)) for p in scalars]
    hinted = past_l2(first)
    for p in buffers:
        kept, dtype = any(p.same_as(s) for s in shared), ir.dtype_of(p)
        slots.append(
            AbiSlot("shared", p.name, dtype, fixed_bytes(p)) if kept else AbiSlot("buffer", p.name, dtype, past_l2=p.name in hinted)
        )
    slots += [AbiSlot("workspace", p.name, ir.dtype_of(p), size) for p, size in zip(workspaces, sizes)]
    name, kernel_type = (str(first.attrs[f"ascend.{key}"]) for key in ("kernel_name", "kernel_type"))
    shows = any(_shows(func) for func in ascend_ir.functions.values())
    return Step(name, kernel_type, int(first.attrs["ascend.block_dim"]), tuple(slots), shows)


def _shows(func) -> bool:
    """True for a function of Ascend IR that prints."""
    from .. import isa
    from ..ir import Evaluate, op_name
    from ..ir.visit import statements

    names = [op_name(s.value) for s in statements(func.body) if isinstance(s, Evaluate)]
    return any(isa.lookup(name).shows for name in names if name is not None)


__all__ = ["describe_steps"]
