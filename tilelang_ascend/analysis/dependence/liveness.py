"""Live ranges of on-chip buffers over the instructions of a `Program`."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...ir import const_int, dtype_of, itemsize
from .program import Block, Branch, Instr, Loop, Program, jumps_of, path_to_root, position_in


@dataclass
class LiveBuffer:
    """One on-chip buffer.

    Attributes:
        buffer, space: the variable and its memory.
        versions, version_bytes: copies and size of one copy.
        tight: first and last instruction (program order) between which the contents matter.
        wide: `tight` extended to whole loops, so that reuse adds no dependences inside them.
        users: instructions that touch it.
    """

    buffer: object
    space: str
    versions: int
    version_bytes: int
    users: list = field(default_factory=list)
    tight: tuple[int, int] = (0, 0)
    wide: tuple[int, int] = (0, 0)

    @property
    def total_bytes(self) -> int:
        return self.versions * self.version_bytes

    @property
    def lines(self) -> tuple[int, int] | None:
        """First and last source line that uses the buffer."""
        numbers = [span.line for span in (getattr(i.stmt, "span", None) for i in self.users) if span is not None]
        return (min(numbers), max(numbers)) if numbers else None


def live_buffers(program: Program) -> list[LiveBuffer]:
    """Live ranges of all on-chip buffers that are used, in order of first use."""
    found: dict = {}
    for instr in program.instrs:
        for access in instr.accesses:
            if access.space == "global":
                continue
            entry = found.get(access.buffer)
            if entry is None:
                shape = access.buffer.ty.shape
                size = const_int(shape[1]) * itemsize(dtype_of(access.buffer))
                entry = found[access.buffer] = LiveBuffer(access.buffer, access.space, const_int(shape[0]), size)
            if not entry.users or entry.users[-1] is not instr:
                entry.users.append(instr)
    ranges = {loop: _range_of(loop, program) for loop in program.loops}
    for entry in found.values():
        entry.tight = _tight(entry, ranges)
        entry.wide = _wide(entry, ranges)
    return list(found.values())


def _range_of(loop: Loop, program: Program) -> tuple[int, int]:
    orders = [i.order for i in program.instrs if loop in i.loops]
    return (orders[0], orders[-1]) if orders else (0, -1)


def _tight(entry: LiveBuffer, ranges: dict) -> tuple[int, int]:
    first, last = entry.users[0].order, entry.users[-1].order
    for loop in {loop for i in entry.users for loop in i.loops}:
        if _lives_across(entry, loop):
            low, high = ranges[loop]
            first, last = min(first, low), max(last, high)
    return first, last


def _wide(entry: LiveBuffer, ranges: dict) -> tuple[int, int]:
    first, last = entry.tight
    for instr in entry.users:
        outermost = next((loop for loop in instr.loops if not loop.independent), None)
        if outermost is not None:
            low, high = ranges[outermost]
            first, last = min(first, low), max(last, high)
    return first, last


def _lives_across(entry: LiveBuffer, loop: Loop) -> bool:
    """May an iteration of `loop` find in the buffer what an earlier iteration, or code outside, left there, or leave that to code behind?"""
    inside = [i for i in entry.users if loop in i.loops]
    if any(a.version is not None and loop.atom in a.version.varies for i in inside for a in _accesses(i, entry)):
        return True
    if len(inside) < len(entry.users):
        # Read behind the loop, it is what the last iteration that wrote it left: later ones must not lose it.
        if entry.users[-1] not in inside and not (_overwrites(entry, inside[0]) and _always_runs(inside[0], loop)):
            return True
        # Written before the loop and read in it: dead in between only if the loop starts afresh.
        return not _starts_afresh(entry, inside, loop) or entry.users[0] not in inside
    return not loop.independent and not _starts_afresh(entry, inside, loop)


def _starts_afresh(entry: LiveBuffer, inside: list, loop: Loop) -> bool:
    """Every iteration that uses the buffer first overwrites all of it."""
    return _overwrites(entry, inside[0]) and _runs_first(inside[0], inside, loop)


def _overwrites(entry: LiveBuffer, instr: Instr) -> bool:
    """`instr` writes every byte of the buffer and reads none."""
    return all(
        not a.read and a.exact and not a.start.terms and a.start.const == 0 and a.size is not None and a.size >= entry.version_bytes
        for a in _accesses(instr, entry)
    )


def _runs_first(instr: Instr, others: list, loop: Loop) -> bool:
    """Whenever one of `others` runs in an iteration of `loop`, `instr` has run before."""
    return all(all(block in path_to_root(i.parent) for i in others) for block in _may_be_skipped(instr, loop) if block is not loop.body)


def _always_runs(instr: Instr, loop: Loop) -> bool:
    """`instr` runs in every iteration of `loop` that begins."""
    return not _may_be_skipped(instr, loop)


def _may_be_skipped(instr: Instr, loop: Loop) -> list[Block]:
    """Blocks inside `loop`, its body among them, that may end without `instr` having run: arms of branches, bodies of loops that may be
    empty, and those that a jump in front of it leaves."""
    out, jumped = [], False
    for block in path_to_root(instr.parent):
        owner = block.owner
        jumped = jumped or any(n.position < position_in(instr, block) and jumps_of(n) for n in block.nodes)
        empty = isinstance(owner, Loop) and owner is not loop and not (owner.trip or 0) > 0
        if isinstance(owner, Branch) or empty or (jumped and isinstance(owner, Loop)):
            out.append(block)
        if owner is loop:
            return out
        if isinstance(owner, Loop):
            jumped = False
    raise AssertionError("the instruction stands outside of the loop")


def _accesses(instr: Instr, entry: LiveBuffer) -> list:
    return [a for a in instr.accesses if a.buffer is entry.buffer]


__all__ = ["LiveBuffer", "live_buffers"]
