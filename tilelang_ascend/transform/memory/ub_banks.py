"""Where in the banks of UB a buffer should start.

A vector instruction reads one 256-byte repeat of each source per cycle. With 16 groups of 32 bytes, one repeat covers
half of the groups; two sources that start in the same half read the same groups in every cycle and take twice as long
(doc: UB banks, hardware section 1.4). The result of a repeat is written one cycle later, so a destination does best in
the half of its only source. A destination and a source that cannot be kept apart in this way belong into different
banks, because a write waits for a read of its own bank.
"""

from __future__ import annotations

from ...analysis.dependence.liveness import LiveBuffer
from ...analysis.dependence.program import QUEUES, Program
from ...ir import dtype_of, itemsize
from ...isa.units import REPEAT_BYTES


def bank_phases(buffers: list[LiveBuffer], program: Program, chip) -> dict:
    """buffer -> (period, offset) in bytes that its address should have; empty when one repeat touches all groups
    anyway."""
    banks = chip.ub_banks
    period = banks.groups * banks.row_bytes
    if period // REPEAT_BYTES != 2:
        return {}
    colours = _Colours()
    vector = [i for i in program.instrs if QUEUES[i.queue][1] == "V"]
    for instr in vector:
        sources = list(dict.fromkeys(a.buffer for a in instr.accesses if a.read))
        if len(sources) == 2:
            colours.relate(*sources, different=True)
    for instr in vector:
        sources = {a.buffer for a in instr.accesses if a.read}
        targets = {a.buffer for a in instr.accesses if a.write}
        if len(sources) == 1 and len(targets) == 1:
            colours.relate(*sources, *targets, different=False)
    return {b.buffer: (period, REPEAT_BYTES * colours.of(b.buffer)) for b in buffers if b.buffer in colours}


def bank_rivals(program: Program, phases: dict) -> dict:
    """buffer -> {other buffer: bytes}: how much is written to one while the other is read in the same bank groups."""
    rivals: dict = {}
    for instr in program.instrs:
        if QUEUES[instr.queue][1] != "V":
            continue
        for write in (a for a in instr.accesses if a.write and a.size is not None):
            for read in (a for a in instr.accesses if a.read and not a.buffer.same_as(write.buffer)):
                if _in_step(write.buffer, read.buffer, phases):
                    continue
                for a, b in ((write.buffer, read.buffer), (read.buffer, write.buffer)):
                    others = rivals.setdefault(a, {})
                    others[b] = others.get(b, 0) + write.size
    return rivals


def _in_step(a, b, phases: dict) -> bool:
    """True when equal repeats of two buffers lie in the same half of the groups."""
    return a in phases and b in phases and phases[a] == phases[b] and itemsize(dtype_of(a)) == itemsize(dtype_of(b))


class _Colours:
    """Two-colouring by union-find with parity; a relation that contradicts earlier ones is dropped."""

    def __init__(self):
        self.parent: dict = {}

    def __contains__(self, item) -> bool:
        return item in self.parent

    def _find(self, item):
        """(root, parity of `item` against it)."""
        parent, parity = self.parent.setdefault(item, (item, 0))
        if parent == item:
            return item, 0
        root, more = self._find(parent)
        self.parent[item] = (root, parity ^ more)
        return self.parent[item]

    def relate(self, a, b, different: bool) -> None:
        """`a` and `b` should have different (or equal) colours."""
        (root_a, parity_a), (root_b, parity_b) = self._find(a), self._find(b)
        if root_a != root_b:
            self.parent[root_b] = (root_a, parity_a ^ parity_b ^ int(different))

    def of(self, item) -> int:
        """0 or 1."""
        return self._find(item)[1]


__all__ = ["bank_phases", "bank_rivals"]
