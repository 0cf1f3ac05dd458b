"""What a lowered kernel takes on the machine model: of two ways to lower it, the faster one is known before anybody calls it."""

from __future__ import annotations

import numpy as np

from .steps import describe_steps

MOST_BYTES = 1 << 32
"""Of all tensors: nothing is read there but what scalars are made of, but they need addresses."""
ALIGNMENT = 512
"""Bytes; of addresses of tensors."""


def cycles(ascend_ir, chip) -> float | None:
    """Cycles of the steps of a lowered program on `chip`, L2 empty; None where only a call tells, as what scalars are."""
    from ..errors import TilelangAscendError
    from ..ir import const_int
    from ..ir.functions import fixed_bytes, split_params
    from ..runtime.simulation import build_programs
    from ..sim import machine

    functions = list(ascend_ir.functions.values())
    if any(const_int(n) is None for f in functions for p in split_params(f)[1] for n in p.ty.shape):
        return None
    sizes = {str(p.name): fixed_bytes(p) for f in functions for p in split_params(f)[1]}
    if sum(sizes.values()) > MOST_BYTES:
        return None
    steps, memory, tensors = describe_steps(ascend_ir), [], {}
    for slot in (slot for step in steps for slot in step.abi):
        if slot.kind != "buffer":
            return None
        if slot.name not in tensors:
            memory.append(np.zeros(sizes[slot.name] + ALIGNMENT, np.uint8))
            address = memory[-1].ctypes.data
            tensors[slot.name] = machine.Tensor(address + -address % ALIGNMENT, sizes[slot.name], slot.name, bypass_l2=slot.past_l2)
    options = machine.SimOptions.time_only()
    runs = [
        machine.Launch(step.kernel_type, step.block_dim, program.entries, [tensors[slot.name].address for slot in step.abi])
        for step, program in zip(steps, build_programs(ascend_ir))
    ]
    try:
        found = machine.run_in_order(chip, runs, list(tensors.values()), options)
    except TilelangAscendError:
        return None
    return None if found.hazards else found.cycles


__all__ = ["cycles"]
