"""Flags that hand memory on in turn: places that several statements of a loop fill and use, one after the other.

Products of one loop share the two places of L0A and L0B, an access to which is `place = n % 2` for a number n that goes up from statement to statement.
A flag from each product to the next one would wait for all of it; one that belongs to the place is free as soon as the place is:

    wait(place); load(place); multiply(place); set(place)      # the same two flags for all products

Whoever uses a place finds the flag up that the last one to use it has set, whichever statement that was, and leaves it up: this holds for any order of
statements, under any conditions. What the flags order is not assumed but simulated, as for all others.

Only where what uses a place completes in order: a flag set behind it then tells of all before, as one for all places does. Other pipes would need barriers
for what such a flag orders by the way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ...analysis.dependence.dependence import Dependence
from ...analysis.dependence.program import Block, Instr, path_to_root, position_in
from .plan import Edge, Slot


@dataclass(eq=False)
class _Use:
    """Statements of a block that fill places of some buffers and use them: what their flag is waited for in front of, and set behind."""

    edge: Edge
    buffers: set

    @property
    def block(self) -> Block:
        return self.edge.set_at.block

    @property
    def kind(self) -> tuple:
        return self.edge.src, self.edge.dst, self.edge.count, id(self.edge.home)

    def contains(self, instr: Instr) -> bool:
        inside = any(b is self.block for b in path_to_root(instr.parent))
        return inside and self.edge.wait_at.gap <= position_in(instr, self.block) < self.edge.set_at.gap

    def meets(self, other: _Use) -> bool:
        """Have both statements in common?"""
        mine, its = (range(u.edge.wait_at.gap, u.edge.set_at.gap) for u in (self, other))
        return self.block is other.block and self.kind == other.kind and mine.start < its.stop and its.start < mine.stop


def turns(dependences: list[Dependence], rotating: Callable[[Dependence], Edge | None]) -> list[list[Edge]]:
    """Groups of edges with the same flags, of statements that use the same places in turn. rotating: a flag for each version, from one use to the next one
    by the same statement, or None."""
    carried = [d for d in dependences if d.src.queue != d.dst.queue and d.version_count > 1 and d.versions is not None and d.common]
    in_order = [d for d in carried if d.src.ordered]
    uses = _uses([(edge, d.buffer) for d in in_order if (edge := rotating(d)) is not None and edge.every_id_primed and not edge.cross])
    groups: list[list[_Use]] = [[u] for u in uses]
    for d in carried:
        src, dst = (_use_of(i, d, uses) for i in (d.src, d.dst))
        if src is None or dst is None or src.kind != dst.kind or src.buffers != dst.buffers:
            continue
        a, b = (next(g for g in groups if end in g) for end in (src, dst))
        if a is not b:
            groups.remove(a)
            b += a
    return [_one_flag(g) for g in groups if len(g) > 1]


def _use_of(instr: Instr, d: Dependence, uses: list[_Use]) -> _Use | None:
    """The one an instruction belongs to that is one end of a dependence."""
    return next((u for u in uses if (u.edge.src, u.edge.dst) == (d.src.queue, d.dst.queue) and u.contains(instr)), None)


def _uses(edges: list[tuple]) -> list[_Use]:
    """The shortest uses, of (edge, buffer); those with the same places that overlap are one."""
    found: list[_Use] = []
    for edge, buffer in sorted(edges, key=lambda e: e[0].set_at.gap - e[0].wait_at.gap):
        use = _Use(edge, {buffer})
        same = [u for u in found if u.meets(use)]
        if not same:
            found.append(use)
        elif len(same) == 1 and same[0].edge.ring == edge.ring and not _around(use, same[0]):
            same[0].edge = _joined(same[0].edge, edge)
            same[0].buffers.add(buffer)
    return found


def _around(long: _Use, short: _Use) -> bool:
    """Does a use contain all of another one, at neither end of it? It leads from one statement to an earlier one that uses the same place."""
    return long.edge.wait_at.gap < short.edge.wait_at.gap and short.edge.set_at.gap < long.edge.set_at.gap


def _joined(a: Edge, b: Edge) -> Edge:
    first, last = min(a.wait_at.gap, b.wait_at.gap), max(a.set_at.gap, b.set_at.gap)
    return replace(a, wait_at=Slot(a.wait_at.block, first, a.wait_at.phase), set_at=Slot(a.set_at.block, last, a.set_at.phase))


def _one_flag(uses: list[_Use]) -> list[Edge]:
    """The edges of uses, with the flags of one of them."""
    first = uses[0].edge  # of the shortest use, raised and taken down for all
    return [first, *(replace(u.edge, twin=first, primed=False, drained=False) for u in uses[1:])]


__all__ = ["turns"]
