"""What a lowered kernel takes on the machine model: of two ways to lower it, the faster one is known before anybody calls it."""

from __future__ import annotations

import numpy as np

from .steps import describe_steps

MOST_BYTES = 1 << 32
"""Of all tensors: nothing is read there but what scalars are made of, but they need addresses."""
ALIGNMENT = 512
"""Bytes; of addresses of tensors."""
_KINDS = ("buffer", "workspace", "shared")
"""Of parameters that are memory: what a scalar is only a call tells."""


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
    steps, memory = describe_steps(ascend_ir), _Memory(sizes)
    if any(slot.kind not in _KINDS for step in steps for slot in step.abi):
        return None
    options = machine.SimOptions.time_only()
    runs = [
        machine.Launch(step.kernel_type, step.block_dim, program.entries, [memory.address(slot, step.block_dim) for slot in step.abi])
        for step, program in zip(steps, build_programs(ascend_ir))
    ]
    try:
        found = machine.run_in_order(chip, runs, memory.tensors, options)
    except TilelangAscendError:
        return None
    return None if found.hazards else found.cycles


class _Memory:
    """The tensors of a call, `sizes` of which are known by name, and the workspaces of its steps."""

    def __init__(self, sizes: dict[str, int]):
        self.sizes = sizes
        self.addresses: dict[str, int] = {}
        self.tensors: list = []
        self.keep_alive: list = []

    def address(self, slot, block_dim: int) -> int:
        """Of what a step with so many blocks is given for a parameter."""
        if slot.kind == "workspace":
            return self._add(slot, slot.nbytes * block_dim)
        if slot.name not in self.addresses:
            self.addresses[slot.name] = self._add(slot, slot.nbytes if slot.kind == "shared" else self.sizes[slot.name])
        return self.addresses[slot.name]

    def _add(self, slot, nbytes: int) -> int:
        from ..sim.machine import Tensor

        raw = np.zeros(nbytes + ALIGNMENT, np.uint8)
        self.keep_alive.append(raw)
        address = raw.ctypes.data + -raw.ctypes.data % ALIGNMENT
        self.tensors.append(Tensor(address, nbytes, slot.name, scratch=slot.kind != "buffer", bypass_l2=slot.past_l2))
        return address


__all__ = ["cycles"]
