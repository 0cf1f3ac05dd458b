"""Live ranges of on-chip buffers over the instructions of a `Program`: backwards through its tree, byte by byte.

A byte is live where an instruction may still read what is in it: reads make bytes live, an instruction that surely writes them all makes
them dead in front of it. Iterations of a loop hand over what is live at its head.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from ...ir import const_int, dtype_of, itemsize
from .program import Block, Branch, Instr, Jump, Loop, Program

Ranges = tuple[tuple[int, int], ...]
"""(first, last) of disjoint ranges, both included, ascending: of instructions, or of bytes."""


@dataclass
class LiveBuffer:
    """One on-chip buffer.

    Attributes:
        buffer, space: the variable and its memory.
        versions, version_bytes: copies and size of one copy.
        users: instructions that touch it.
        tight: instructions (program order) between which the contents matter.
        wide: `tight` without gaps and extended to whole loops, so that reuse adds no dependences inside them.
        inner: the same inside the outermost loop.
    """

    buffer: object
    space: str
    versions: int
    version_bytes: int
    program: Program
    users: list = field(default_factory=list)

    @property
    def total_bytes(self) -> int:
        return self.versions * self.version_bytes

    @property
    def lines(self) -> tuple[int, int] | None:
        """First and last source line that uses the buffer."""
        numbers = [span.line for span in (getattr(i.stmt, "span", None) for i in self.users) if span is not None]
        return (min(numbers), max(numbers)) if numbers else None

    @cached_property
    def tight(self) -> Ranges:
        return _Walk(self).ranges()

    @cached_property
    def wide(self) -> Ranges:
        return self._extended(0)

    @cached_property
    def inner(self) -> Ranges:
        return self._extended(1)

    def _extended(self, depth: int) -> Ranges:
        """`tight` without gaps and extended to the whole of loops that stand in `depth` others."""
        first, last = self.tight[0][0], self.tight[-1][1]
        for loops in {instr.loops for instr in self.users}:
            for loop in [loop for loop in loops if not loop.independent][depth : depth + 1]:
                low, high = self._orders_of(loop)
                first, last = min(first, low), max(last, high)
        return ((first, last),)

    def _orders_of(self, loop: Loop) -> tuple[int, int]:
        """First and last instruction of a loop around a user; buffers stand in the same loops."""
        known = self.program.orders.get(id(loop))
        if known is None:
            known = self.program.orders[id(loop)] = _orders(loop)
        return known


def live_buffers(program: Program) -> list[LiveBuffer]:
    """All on-chip buffers that are used, in order of first use."""
    found: dict = {}
    for instr in program.instrs:
        for access in instr.accesses:
            if access.space == "global":
                continue
            entry = found.get(access.buffer)
            if entry is None:
                shape = access.buffer.ty.shape
                size = const_int(shape[1]) * itemsize(dtype_of(access.buffer))
                entry = found[access.buffer] = LiveBuffer(access.buffer, access.space, const_int(shape[0]), size, program)
            if not entry.users or entry.users[-1] is not instr:
                entry.users.append(instr)
    return list(found.values())


def meet(a: Ranges, b: Ranges) -> bool:
    """True if two live ranges have an instruction in common."""
    for low, high in a:
        for first, last in b:
            if low <= last and first <= high:
                return True
    return False


class _Walk:
    """One buffer, backwards through a program. States are the live bytes of one version."""

    def __init__(self, entry: LiveBuffer):
        self.entry, self.whole = entry, ((0, entry.version_bytes - 1),)
        self.touched = self._touched()
        """Identity of a block -> indices of its nodes that touch the buffer or may leave the iteration, ascending."""
        self.live: list = []
        """Ranges of instructions between which something is live."""
        self.jumps: Ranges = ()
        """What is live where jumps out of an iteration of the innermost loop go."""
        self.anew = {a.anew for i in entry.users for a in i.accesses if a.buffer is entry.buffer} - {None}
        self.first: set = set()
        """Atoms of the loops of which the walk sees the first iteration."""

    def _touched(self) -> dict[int, list[int]]:
        program = self.entry.program
        found: dict[int, set] = {}
        for node in self.entry.users:
            while node is not None and program.places[id(node)] not in (seen := found.setdefault(id(node.parent), set())):
                seen.add(program.places[id(node)])
                node = node.parent.owner
        for block, indices in program.jumping.items():
            found.setdefault(block, set()).update(indices)
        return {block: sorted(indices) for block, indices in found.items()}

    def ranges(self) -> Ranges:
        entry = self.entry
        self.block(entry.program.root, ())
        # Nothing is in the buffer before the first instruction that touches it, or the loop that may run it again.
        around = {loop for i in entry.users for loop in i.loops if not self.stays_inside(loop)}
        start = min(entry.users[0].order, *(_orders(loop)[0] for loop in around)) if around else entry.users[0].order
        return _union([(max(low, start), high) for low, high in self.live if high >= start])

    def stays_inside(self, loop: Loop) -> bool:
        """True if no iteration of a loop finds what another one, or code around it, left."""
        users = self.entry.users
        if not loop.independent or any(loop not in i.loops for i in users):
            return False
        accesses = (a for i in users for a in i.accesses if a.buffer is self.entry.buffer)
        return not any(a.version is not None and loop.atom in a.version.varies for a in accesses)

    def block(self, block: Block, live: Ranges) -> Ranges:
        """What is live at the start of a block, from what is at its end."""
        nodes, at = block.nodes, len(block.nodes)
        for k in reversed(self.touched.get(id(block), ())):
            self.pass_by(nodes, k + 1, at, live)
            live, at = self.node(nodes[k], live), k
        self.pass_by(nodes, 0, at, live)
        return live

    def pass_by(self, nodes: list, start: int, stop: int, live: Ranges) -> None:
        """Nodes that do not touch the buffer."""
        orders = _orders_of(nodes[start:stop]) if live else None
        if orders is not None:
            self.live.append(orders)

    def node(self, node, live: Ranges) -> Ranges:
        if isinstance(node, Instr):
            return self.instr(node, live)
        if isinstance(node, Loop):
            return self.loop(node, live)
        if isinstance(node, Branch):
            arms = [live if arm is None else self.block(arm, live) for arm in (node.then, node.other)]
            return _union([*arms[0], *arms[1]])
        return self.jumps if isinstance(node, Jump) else live

    def loop(self, loop: Loop, after: Ranges) -> Ranges:
        around, first = self.jumps, self.first
        again: Ranges = ()
        while True:
            self.jumps = _union([*after, *again])
            head = self.block(loop.body, self.jumps)
            if self.stays_inside(loop) or not set(head) - set(again):
                break
            again = _union([*again, *head])
        if loop.atom in self.anew:
            self.jumps, self.first = _union([*after, *again]), first | {loop.atom}
            head = self.block(loop.body, self.jumps)
        self.jumps, self.first = around, first
        return head if (loop.trip or 0) > 0 else _union([*head, *after])

    def instr(self, instr: Instr, live: Ranges) -> Ranges:
        self.live.append((instr.order, instr.order))
        accesses = [a for a in instr.accesses if a.buffer is self.entry.buffer]
        for a in accesses:
            live = _without(live, self.overwritten(a))
        return _union([*live, *(r for a in accesses if a.read and not self.overwritten(a) for r in self.bytes_of(a))])

    def overwritten(self, a) -> Ranges:
        """Bytes that an access surely writes, and reads none of."""
        known = a.versions == 1 and a.exact and not a.start.terms and a.size
        if not known or a.read and a.anew not in self.first:
            return ()
        (first, last), end = self.bytes_of(a)[0], a.start.const + a.size
        return tuple((n, min(n + a.piece, end) - 1) for n in range(first, last + 1, a.pitch)) if a.pitch else ((first, last),)

    def bytes_of(self, a) -> Ranges:
        """Bytes that an access may touch."""
        if a.start.terms or a.size is None:
            return self.whole
        return ((a.start.const, min(a.start.const + a.size, self.entry.version_bytes) - 1),) if a.size else ()


def _orders(node) -> tuple[int, int] | None:
    """First and last instruction of a node, None if it has none."""
    if isinstance(node, Instr):
        return node.order, node.order
    blocks = [node.body] if isinstance(node, Loop) else [node.then, node.other] if isinstance(node, Branch) else []
    return _orders_of([n for b in blocks if b is not None for n in b.nodes])


def _orders_of(nodes: list) -> tuple[int, int] | None:
    """The same of several nodes, in program order."""
    first = next((o for n in nodes if (o := _orders(n)) is not None), None)
    last = next((o for n in reversed(nodes) if (o := _orders(n)) is not None), None)
    return None if first is None else (first[0], last[1])


def _union(ranges: list) -> Ranges:
    """The ranges together; neighbours become one."""
    out: list = []
    for low, high in sorted(ranges):
        if out and low <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], high))
        else:
            out.append((low, high))
    return tuple(out)


def _without(ranges: Ranges, gone: Ranges) -> Ranges:
    """`ranges` without what is in `gone`."""
    for start, end in gone:
        left = [(low, min(high, start - 1)) for low, high in ranges if low < start]
        right = [(max(low, end + 1), high) for low, high in ranges if high > end]
        ranges = tuple(left + right)
    return _union(list(ranges))


__all__ = ["LiveBuffer", "Ranges", "live_buffers", "meet"]
