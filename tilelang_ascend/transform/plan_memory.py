"""plan_memory: give every on-chip buffer an address.

Before:  a = alloc_buffer((2, 1024), "float32", scope="shared.ub")
After:   a = alloc_buffer((2, 1024), "float32", scope="shared.ub", annotations={"address": 0})

Buffers lie side by side as long as they fit: sharing an address costs synchronisation. If they do not fit, buffers
whose live ranges are disjoint share addresses; first only those that never meet in one loop, then all. In UB the
sources of one vector instruction are put into different halves of the bank groups, because two reads of one group in
one cycle conflict.

Declarations of on-chip buffers no statement mentions are dropped.

Requires: Ascend IR for both cores together. Ensures: alignment, capacity; live ranges that overlap have disjoint
addresses.
"""

from __future__ import annotations

from ..analysis.build_program import build_program
from ..analysis.liveness import LiveBuffer, live_buffers
from ..analysis.program import Program
from ..errors import OutOfMemory
from ..ir import AllocBuffer, PrimFunc, StmtMutator, exprs, free_vars, scope_of, statements
from ..isa import SCOPES, Space
from .memory_map import MapEntry, MemoryMap
from .ub_banks import bank_phases


def plan_memory(func: PrimFunc, chip) -> tuple[PrimFunc, MemoryMap]:
    """`func` with an `address` annotation on every on-chip declaration, and the map of all memories.

    Raises: OutOfMemory with the table of the buffers of the memory that is too small.
    """
    program = build_program(func, chip)
    live = live_buffers(program)
    declared = {s.buffer: s for s in statements(func.body) if isinstance(s, AllocBuffer)}
    entries = []
    for scope in dict.fromkeys(b.space for b in live):
        buffers = [b for b in live if b.space == scope]
        placed = _plan_space(buffers, SCOPES[scope], program, chip)
        entries += [MapEntry.of(b, placed[b.buffer], declared.get(b.buffer)) for b in buffers]
    memory_map = MemoryMap(chip.name, entries, {s: chip.capacity_bytes(s) for s in chip.memories})
    over = [space for space in chip.memories if memory_map.peak(space) > chip.capacity_bytes(space)]
    if over:
        raise _out_of_memory(over[0], memory_map, chip)
    addresses = {e.buffer: e.address for e in entries}
    return func.with_body(_Annotate(addresses, _mentioned(func.body))(func.body)), memory_map


def _plan_space(buffers: list[LiveBuffer], space: Space, program: Program, chip) -> dict:
    """Addresses in one memory; the last attempt is returned even when it does not fit."""
    capacity, alignment = chip.capacity_bytes(space), chip.memories[space].alignment_bytes
    phases = bank_phases(buffers, program, chip) if space is Space.UB else {}
    placed: dict = {}
    for lifetime in (lambda b: (0, 0), lambda b: b.wide, lambda b: b.tight):
        for preferred in (phases, {}) if phases else ({},):
            placed = _pack(buffers, lifetime, alignment, preferred)
            if _peak(buffers, placed) <= capacity:
                return placed
    return placed


def _pack(buffers: list[LiveBuffer], lifetime, alignment: int, phases: dict) -> dict:
    """First fit, large buffers first. `phases`: buffer -> (period, offset) its address should have."""
    placed: dict = {}
    done: list[LiveBuffer] = []
    for b in sorted(buffers, key=lambda b: -b.total_bytes):
        first, last = lifetime(b)
        busy = sorted(
            (placed[o.buffer], placed[o.buffer] + o.total_bytes)
            for o in done
            if lifetime(o)[0] <= last and first <= lifetime(o)[1]
        )  # fmt: skip
        period, offset = phases.get(b.buffer, (alignment, 0))
        address = _up(0, period, offset)
        for low, high in busy:
            if address + b.total_bytes <= low:
                break
            address = max(address, _up(high, period, offset))
        placed[b.buffer] = address
        done.append(b)
    return placed


def _up(address: int, period: int, offset: int) -> int:
    """The first address >= `address` that is `offset` modulo `period`."""
    return address + (offset - address) % period


def _peak(buffers: list[LiveBuffer], placed: dict) -> int:
    return max((placed[b.buffer] + b.total_bytes for b in buffers), default=0)


def _out_of_memory(space: Space, memory_map: MemoryMap, chip) -> OutOfMemory:
    entries = sorted(memory_map.entries_of(space), key=lambda e: -e.total_bytes)
    notes = [
        (f"'{e.name}' takes {e.total_bytes} bytes ({e.versions} x {e.version_bytes})", e.span)
        for e in entries
        if e.span is not None
    ]
    return OutOfMemory(
        at=entries[0].span,
        notes=[*notes, "memory map\n" + memory_map.text(space)],
        hint="use a smaller tile: all buffers that are in use at the same time must fit",
        memory=space.name,
        needed=memory_map.peak(space),
        available=chip.capacity_bytes(space),
        chip=chip.name,
    )


def _mentioned(body) -> set:
    """Variables and buffers that occur in some expression."""
    return set().union(*(free_vars(e) for s in statements(body) for e in exprs(s)))


class _Annotate(StmtMutator):
    """Add the addresses to the declarations; leave out on-chip buffers that are not in `mentioned`."""

    def __init__(self, addresses: dict, mentioned: set):
        self.addresses, self.mentioned = addresses, mentioned

    def visit_AllocBuffer(self, s: AllocBuffer):
        address = self.addresses.get(s.buffer)
        if address is None:
            on_chip = SCOPES.get(scope_of(s.buffer), Space.GM) is not Space.GM
            return None if on_chip and s.buffer not in self.mentioned else s
        return AllocBuffer(s.buffer, annotations={**dict(s.annotations or {}), "address": address}, span=s.span)


__all__ = ["plan_memory"]
