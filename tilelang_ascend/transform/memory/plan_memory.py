"""plan_memory: give every on-chip buffer an address.

Before:  a = alloc_buffer((2, 1024), "float32", scope="shared.ub")
After:   a = alloc_buffer((2, 1024), "float32", scope="shared.ub", annotations={"address": 0})

Buffers lie side by side as long as they fit: sharing an address costs synchronisation. If they do not fit, buffers whose live ranges are
disjoint share addresses; first only those that never meet in one loop, then in one inside the outermost loop, then those that are used one behind
the other, then all. In UB the
sources of one vector instruction are put into different halves of the bank groups, because two reads of one group in one cycle conflict, and
its destination into another bank than sources it would wait for.

Declarations of on-chip buffers no statement mentions are dropped.

Requires: Ascend IR for both cores together. Ensures: alignment, capacity; live ranges that overlap have disjoint
addresses.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import accumulate

from ...analysis.dependence.build_program import build_program
from ...analysis.dependence.liveness import LiveBuffer, Ranges, live_buffers, meet
from ...analysis.dependence.program import Program
from ...errors import OutOfMemory
from ...ir import AllocBuffer, PrimFunc, StmtMutator, exprs, free_vars, scope_of, statements
from ...isa import SCOPES, Space
from .memory_map import MapEntry, MemoryMap
from .ub_banks import bank_phases, bank_rivals

MOST_NAMED = 10
"""Buffers an error names, the largest first."""


def plan_memory(func: PrimFunc, chip) -> tuple[PrimFunc, MemoryMap]:
    """`func` with an `address` annotation on every on-chip declaration, and the map of all memories.

    Raises: OutOfMemory with the table of the buffers of the memory that is too small.
    """
    program = build_program(func, chip)
    live = live_buffers(program)
    declared = {s.buffer: s for s in statements(func.body) if isinstance(s, AllocBuffer)}
    entries, packed = [], {}
    for scope in dict.fromkeys(b.space for b in live):
        buffers, space = [b for b in live if b.space == scope], SCOPES[scope]
        placed, packed[space] = _plan_space(buffers, space, program, chip)
        entries += [MapEntry.of(b, placed[b.buffer], declared.get(b.buffer)) for b in buffers]
    memory_map = MemoryMap(chip.name, entries, {s: chip.capacity_bytes(s) for s in chip.memories}, packed)
    over = [space for space in chip.memories if memory_map.peak(space) > chip.capacity_bytes(space)]
    if over:
        raise _out_of_memory(over[0], memory_map, chip)
    addresses = {e.buffer: e.address for e in entries}
    return func.with_body(_Annotate(addresses, _mentioned(func.body))(func.body)), memory_map


def bytes_apart(func: PrimFunc, space: Space, chip) -> int:
    """Bytes of a memory without which buffers that meet in a loop inside another one would have to share addresses."""
    buffers = [b for b in live_buffers(build_program(func, chip)) if SCOPES[b.space] is space]
    return _peak(buffers, _pack(buffers, _inner, chip.memories[space].alignment_bytes, {}))


def _always(b: LiveBuffer) -> Ranges:
    """A lifetime that meets every other."""
    return ((0, 0),)


def _without_gaps(b: LiveBuffer) -> Ranges:
    return ((b.tight[0][0], b.tight[-1][1]),)


def _inner(b: LiveBuffer) -> Ranges:
    return b.inner


LIFETIMES = (_always, lambda b: b.wide, _inner, _without_gaps, lambda b: b.tight)
"""Ranges in which a buffer keeps its address to itself, in the order in which they are tried."""


def _least(buffers: list[LiveBuffer], lifetime) -> int:
    """Bytes without which buffers have no place: those of what lives at the same instruction."""
    changes: dict[int, int] = {}
    for b in buffers:
        for first, last in lifetime(b):
            changes[first] = changes.get(first, 0) + b.total_bytes
            changes[last + 1] = changes.get(last + 1, 0) - b.total_bytes
    return max(accumulate(n for _, n in sorted(changes.items())), default=0)


def _plan_space(buffers: list[LiveBuffer], space: Space, program: Program, chip) -> tuple[dict, int]:
    """(addresses in one memory, bytes it takes to pack them); the last attempt is returned even when it does not fit."""
    capacity, alignment = chip.capacity_bytes(space), chip.memories[space].alignment_bytes
    phases = bank_phases(buffers, program, chip) if space is Space.UB else {}
    banks = _Banks(chip.ub_banks.groups * chip.ub_banks.bank_bytes, capacity, bank_rivals(program, phases)) if phases else None
    if banks is not None and LIFETIMES[0] is _always and _least(buffers, _always) <= capacity:
        placed = _pack(buffers, _always, alignment, phases, banks)
        if _peak(buffers, placed) <= capacity:
            return placed, _peak(buffers, _pack(buffers, _inner, alignment, {}))
    placed: dict = {}
    for lifetime in LIFETIMES:
        hopeless = _least(buffers, lifetime) > capacity
        if hopeless and lifetime is not LIFETIMES[-1]:
            continue
        for preferred in (phases, {}) if phases and not hopeless else ({},):
            placed = _pack(buffers, lifetime, alignment, preferred)
            if (peak := _peak(buffers, placed)) <= capacity:
                return _least_waits(buffers, placed, lifetime, alignment, preferred, capacity, banks), peak
    return placed, _peak(buffers, placed)


def _least_waits(
    buffers: list[LiveBuffer], placed: dict, lifetime, alignment: int, phases: dict, capacity: int, banks: _Banks | None
) -> dict:
    """`placed`, moved apart, or what fits if buffers of several queues choose before those of one: whichever lets queues wait less."""
    waits = _Waits(buffers, banks)
    ways = [waits.moved_apart(placed, lifetime, alignment, phases, capacity)]
    if waits.of_all(ways[0]):
        ways.append(waits.chosen(lifetime, alignment, phases, capacity))
    return min((way for way in ways if way is not None), key=waits.of_all)


class _Waits:
    """How long queues wait for each other where buffers share addresses: the fewer instructions are between two that do, the longer the second one
    waits."""

    def __init__(self, buffers: list[LiveBuffer], banks: _Banks | None):
        self.banks, self.buffers, self.queues = banks, buffers, {b.buffer: frozenset(i.queue for i in b.users) for b in buffers}

    def of(self, b: LiveBuffer, address: int, placed: dict) -> float:
        """Of one buffer, if it lies at `address`."""
        end, mine = address + b.total_bytes, self.queues[b.buffer]
        return sum(
            1 / (1 + _gap(b.tight, o.tight))
            for o in self.buffers
            if o is not b
            and placed.get(o.buffer, end) < end
            and address < placed[o.buffer] + o.total_bytes
            and len(mine | self.queues[o.buffer]) > 1
        )

    def of_all(self, placed: dict) -> float:
        return sum(self.of(b, placed[b.buffer], placed) for b in self.buffers)

    def moved_apart(self, placed: dict, lifetime, alignment: int, phases: dict, capacity: int) -> dict:
        """`placed`, with buffers moved to other free addresses, one after the other, where queues wait less or, if none does, banks meet less."""
        placed = dict(placed)
        for b in _large_first(self.buffers):
            if any(self._cost(b, placed[b.buffer], placed)):
                free = [placed[b.buffer], *self._free(b, placed, lifetime, phases.get(b.buffer, (alignment, 0)), capacity)]
                placed[b.buffer] = min(free, key=lambda a: (*self._cost(b, a, placed), a))
        return placed

    def _cost(self, b: LiveBuffer, address: int, placed: dict) -> tuple[float, int]:
        """What queues wait for a buffer at `address`, and what is written to banks that are read at the same time."""
        others = [o for o in self.buffers if o is not b and o.buffer in placed]
        return self.of(b, address, placed), 0 if self.banks is None else self.banks.cost(b, address, placed, others)

    def chosen(self, lifetime, alignment: int, phases: dict, capacity: int) -> dict | None:
        """Addresses at which queues wait least, one buffer after the other: first those of several queues, large ones before small ones. None if some
        find no room."""
        placed: dict = {}
        for b in sorted(_large_first(self.buffers), key=lambda b: len(self.queues[b.buffer]) == 1):
            free = self._free(b, placed, lifetime, phases.get(b.buffer, (alignment, 0)), capacity)
            if not free:
                return None
            placed[b.buffer] = min(free, key=lambda a: (*self._cost(b, a, placed), a))
        return placed

    def _free(self, b: LiveBuffer, placed: dict, lifetime, place: tuple[int, int], capacity: int) -> list[int]:
        """Where a buffer may lie beside others, in front of or behind any of them."""
        others = [(placed[o.buffer], placed[o.buffer] + o.total_bytes, o) for o in self.buffers if o is not b and o.buffer in placed]
        mine = lifetime(b)
        busy = sorted((start, end) for start, end, o in others if meet(lifetime(o), mine))
        found = {_first_fit(b, low, busy, *place) for low in {0, *(end for _, end, _ in others)}}
        return [a for a in found if a + b.total_bytes <= capacity]


def _large_first(buffers: list[LiveBuffer]) -> list[LiveBuffer]:
    return sorted(buffers, key=lambda b: -b.total_bytes)


def _gap(a: Ranges, b: Ranges) -> int:
    """Instructions between live ranges."""
    return min(max(low - last, first - high) for low, high in a for first, last in b)


@dataclass(frozen=True)
class _Banks:
    """Banks of `nbytes` consecutive bytes, and which buffers should not share one (`bank_rivals`)."""

    nbytes: int
    capacity: int
    rivals: dict

    def cost(self, b: LiveBuffer, address: int, placed: dict, done: list[LiveBuffer]) -> int:
        """Bytes written to a bank that is read at the same time, if `b` lies at `address`."""
        rivals = self.rivals.get(b.buffer, {})
        mine = self._of(address, b)
        return sum(rivals[o.buffer] for o in done if o.buffer in rivals and mine & self._of(placed[o.buffer], o))

    def _of(self, address: int, b: LiveBuffer) -> set:
        return set(range(address // self.nbytes, (address + b.total_bytes - 1) // self.nbytes + 1))


def _pack(buffers: list[LiveBuffer], lifetime, alignment: int, phases: dict, banks: _Banks | None = None) -> dict:
    """First fit, large buffers first, in each bank if `banks` are given. `phases`: buffer -> (period, offset) its address should have."""
    placed: dict = {}
    done: list[LiveBuffer] = []
    taken: list[tuple[int, int, Ranges]] = []  # by address
    for b in _large_first(buffers):
        mine = lifetime(b)
        place = phases.get(b.buffer, (alignment, 0))
        chooses = banks is not None and b.buffer in banks.rivals
        busy: Iterable = ((start, end) for start, end, ranges in taken if meet(ranges, mine))
        busy = list(busy) if chooses else busy  # One place is found before all have been looked at.
        address = _first_fit(b, 0, busy, *place)
        if chooses:
            starts = [_first_fit(b, low, busy, *place) for low in range(banks.nbytes, banks.capacity, banks.nbytes)]
            inside = [address, *(a for a in starts if a + b.total_bytes <= banks.capacity)]
            address = min(inside, key=lambda a: (banks.cost(b, a, placed, done), a))
        placed[b.buffer] = address
        done.append(b)
        insort(taken, (address, address + b.total_bytes, mine))
    return placed


def _first_fit(b: LiveBuffer, low: int, busy: Iterable[tuple[int, int]], period: int, offset: int) -> int:
    """The first address from `low` on that is `offset` modulo `period` and free."""
    address, size = _up(low, period, offset), b.total_bytes
    for start, end in busy:
        if address + size <= start:
            break
        if end > address:
            address = _up(end, period, offset)
    return address


def _up(address: int, period: int, offset: int) -> int:
    """The first address >= `address` that is `offset` modulo `period`."""
    return address + (offset - address) % period


def _peak(buffers: list[LiveBuffer], placed: dict) -> int:
    return max((placed[b.buffer] + b.total_bytes for b in buffers), default=0)


def _out_of_memory(space: Space, memory_map: MemoryMap, chip) -> OutOfMemory:
    entries = sorted(memory_map.entries_of(space), key=lambda e: -e.total_bytes)
    shown = entries[:MOST_NAMED]
    notes: list = [
        (f"'{e.name}' takes {e.total_bytes} bytes ({e.versions} x {e.version_bytes})", e.span) for e in shown if e.span is not None
    ]
    if len(entries) > len(shown):
        rest = entries[len(shown) :]
        notes.append(f"{len(rest)} smaller buffers take {sum(e.total_bytes for e in rest)} bytes")
    return OutOfMemory(
        at=entries[0].span,
        notes=[*notes, "memory map\n" + replace(memory_map, entries=shown).text(space)],
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


__all__ = ["bytes_apart", "plan_memory"]
