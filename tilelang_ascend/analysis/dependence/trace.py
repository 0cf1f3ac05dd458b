"""Bounded unrolling of a `Program` into a linear trace that stands for every execution.

Loops with a constant trip count run a small number of iterations with the same residue (so versions like `k % 2` fall
as in the real loop); loops with an unknown count run that many iterations with an exit before each or, where versions need one count, all or none
of them. Branches contribute both arms, or the one that is taken where that is known (`Window`).
Every instruction instance knows, for each queue, the latest earlier instance it depends on: `needs`.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...ir import Break
from ..index.linear import Linear
from .dependence import Dependence
from .program import QUEUES, Branch, Instr, Jump, Loop, Program, Sync, branches_of, jumps_of

INSTR, GAP, SYNC, FORK, ELSE, JOIN, JUMP = range(7)
"""Kinds of trace events: the first item of each event tuple."""

SAME_ITERATION = -1

STEP = 1 << 10
"""Distance of trace positions of consecutive instructions; leaves room for the positions of waits between them."""
MOST_INSTANCES = (1 << 31) // STEP - 2
"""Positions fit 32 bits."""


@dataclass(eq=False, slots=True)
class Need:
    """Instance of a dependence in the trace: column and position of the producer, position `at` of the consumer;
    `level` is the common loop that carries it."""

    column: int
    position: int
    dependence: Dependence
    level: int
    at: int


@dataclass(eq=False)
class Trace:
    """One unrolled execution. `events` are tuples:

    (INSTR, queue, column, position, first need, end of needs) · (GAP, block, statement position, env) · (SYNC, node, env) ·
    (FORK,) · (ELSE,) · (JOIN,) · (JUMP,)

    `needs` holds the needs of all instructions, one behind the other.

    Instances are grouped in columns, the units in which a clock knows what is complete. Without control flow a queue is
    a column: queues complete as a prefix. With control flow, instances of one instruction on one set of versions form a
    column, because a path may leave out some of them and not others. `columns[c]` is the queue of column c.
    """

    events: list
    needs: list
    columns: list
    forked: bool

    @cached_property
    def gaps(self) -> dict:
        """(id of a block, statement position) -> (number of the event, env) each time the trace comes by."""
        found: dict = {}
        for number, event in enumerate(self.events):
            if event[0] == GAP:
                found.setdefault((id(event[1]), event[2]), []).append((number, event[3]))
        return found

    @cached_property
    def memo(self) -> dict:
        """What others have found out about this trace."""
        return {}

    @cached_property
    def column_table(self) -> np.ndarray:
        """Queue of each column."""
        return np.array(self.columns, np.int64)

    @cached_property
    def need_table(self) -> np.ndarray:
        """Column and position of each need."""
        return np.array([(n.column, n.position) for n in self.needs], np.int64).reshape(-1, 2)


def traces(program: Program, deps: list[Dependence], extra: list[Linear] = (), at_least: int = 1, often: set | None = None) -> list[Trace]:
    """Traces for `program`; one when all that matters is constant, several when versions depend on unknown trip counts.

    `extra`: further linear forms (flag ids) whose value must be known in the trace. The loops `often` (None: all) run more than `at_least`
    iterations (unless they have fewer).
    """
    plan = _TripPlan(program, deps, extra, at_least, often)
    return [_Unroller(program, deps, env, trips, exits).run() for env, trips, exits in plan.scenarios()]


def _has_forks(program: Program, exits: set) -> bool:
    return (
        bool(exits)
        or any(loop.trip is None or loop.has_jump for loop in program.loops)
        or any(b.window is None for b in branches_of(program))
    )


class _TripPlan:
    """How many iterations every loop runs in the trace."""

    def __init__(self, program: Program, deps, extra, at_least: int, often: set | None):
        self.program = program
        self.at_least = {loop: at_least if often is None or loop in often else 1 for loop in program.loops}
        forms = {v for d in deps if d.versions for v in d.versions} | set(extra)
        self.ends = _ends(program)
        self.atoms = set()
        self.moduli: dict = {}
        self.largest: dict = {}
        for form in forms:
            for atom in form.atoms():
                self.atoms.add(atom)
                if atom.kind == "mod":
                    for inner in atom.arg.atoms():
                        self.moduli[inner] = math.lcm(self.moduli.get(inner, 1), atom.modulus)
                        self.largest[inner] = max(self.largest.get(inner, 1), atom.modulus)

    def scenarios(self):
        """Yield (env, trips, exits): values of opaque atoms, iterations per loop, loops that may exit early."""
        unknown = [loop for loop in self.program.loops if loop.trip is None]
        pinned = [loop for loop in unknown if self._pinned(loop)]
        exits = {loop for loop in unknown if loop not in pinned}
        base = self._base_trips()
        extents: dict = {}
        for loop in pinned:
            at_least, ends = extents.get(loop.extent, (1, 0))
            at_least = max(at_least, self.at_least[loop], self.largest.get(loop.atom, 1))
            extents[loop.extent] = at_least, max(sum(self.ends.get(loop, ())), ends)
        for counts in itertools.product(*(self._counts(e, *n) for e, n in extents.items())):
            trips, env = dict(base), {}
            for extent, count in zip(extents, counts):
                self._solve(extent, count, env)
                trips.update((loop, count) for loop in pinned if loop.extent == extent)
            yield env, trips, exits

    def _counts(self, extent: Linear, at_least: int, ends: int) -> list[int]:
        """Trip counts that stand for all: none, one, and enough iterations with every residue; where the first and last iterations are others
        than those in between, all smaller ones, too. `at_least`: iterations in which every version is used."""
        modulus, largest = (max((found.get(a, 1) for a in extent.terms), default=1) for found in (self.moduli, self.largest))
        enough = max(largest, at_least) + 1 + ends
        return [*range(enough if ends else 2), *range(enough, enough + modulus)]

    def _pinned(self, loop: Loop) -> bool:
        """Versions, or what the last iterations do, depend on the trip count, so the trace must use one count."""
        if self.ends.get(loop, (0, 0))[1]:
            return True
        return loop.extent is not None and any(a in self.atoms and a.kind != "loop" for a in loop.extent.atoms())

    def _solve(self, extent: Linear, count: int, env: dict) -> None:
        """Give the one atom of `extent` the value that makes it `count`."""
        if len(extent.terms) == 1:
            ((atom, c),) = extent.terms.items()
            if abs(c) == 1 and atom.kind != "loop":
                env[atom] = (count - extent.const) * c

    def _base_trips(self) -> dict:
        trips = {}
        for loop in self.program.loops:
            # One more than the distance of the farthest dependence; what happens later is a shifted copy.
            enough = max(self.largest.get(loop.atom, 1), self.at_least[loop]) + 1 + sum(self.ends.get(loop, ()))
            trips[loop] = enough if loop.trip is None else max(0, _clamp(loop.trip, enough, self.moduli.get(loop.atom, 1)))
        return trips


def _ends(program: Program) -> dict:
    """Loop -> (its first, its last iterations) that are not like those in between."""
    ends: dict = {}
    for b in branches_of(program):
        if b.window is not None:
            first, last = ends.get(b.window.loop, (0, 0))
            ends[b.window.loop] = max(first, b.window.first), max(last, b.window.last)
    return ends


def _clamp(trip: int, enough: int, modulus: int) -> int:
    """The smallest count >= `enough` with the residue of `trip`; `trip` itself when it is smaller."""
    return trip if trip <= enough else enough + (trip - enough) % modulus


class _Unroller:
    def __init__(self, program: Program, deps, env: dict, trips: dict, exits: set):
        self.program, self.trips, self.exits = program, trips, exits
        self.env = env
        self.iters: list[int] = []
        self.events: list = []
        self.needs: list[Need] = []
        self.position = 0
        self.instances: dict[Instr, dict] = {i: {} for i in program.instrs}
        """Of each instruction: (column, values of its version forms) -> (position, iterations of the loops around) of its instances."""
        self.forms = _versions_by_instr(program.instrs, deps)
        self.incoming: dict[Instr, list] = {i: [] for i in program.instrs}
        """Of each instruction: (dependence, instances of its source, places of both version forms, or None)."""
        for d in deps:
            places = [self.forms[i].index(f) for i, f in zip((d.src, d.dst), d.versions)] if d.versions else (None, None)
            self.incoming[d.dst].append((d, self.instances[d.src], *places))
        self.forked = _has_forks(program, exits)
        self.columns = list(range(len(QUEUES)))
        self.column_of: dict = {}

    def run(self) -> Trace:
        self.block(self.program.root)
        assert self.position <= MOST_INSTANCES * STEP, f"{self.position // STEP} instructions in one trace"
        return Trace(self.events, self.needs, self.columns, self.forked)

    def column(self, node: Instr, versions: tuple) -> int:
        """Column of an instance."""
        if not self.forked:
            return node.queue
        key = (node.order, *versions)
        column = self.column_of.get(key)
        if column is None:
            column = self.column_of[key] = len(self.columns)
            self.columns.append(node.queue)
        return column

    def block(self, block) -> None:
        env, last, skipped = self.env, -1, 0
        # A statement of both cores is two nodes in one place.
        for node, following in zip(block.nodes, [*block.nodes[1:], None]):
            if node.position > last:
                self.events.append((GAP, block, node.position, env))
            _VISIT[type(node)](self, node)
            last = node.position + 1
            if following is None or following.position != node.position:
                if following is not None and jumps_of(node):
                    # What is left of the iteration exists on one path only.
                    self.events.append((FORK,))
                    skipped += 1
                self.events.append((GAP, block, last, env))
        self.events.extend([(JOIN,)] * skipped)

    def instr(self, node: Instr) -> None:
        versions = tuple([f.evaluate(self.env) for f in self.forms[node]])
        iters = tuple(self.iters)
        needs: dict[int, Need] = {}
        self.position += STEP
        for incoming in self.incoming[node]:
            self._need(*incoming, iters, versions, needs)
        column = self.column(node, versions)
        first = len(self.needs)
        self.needs += needs.values()
        self.events.append((INSTR, node.queue, column, self.position, first, len(self.needs)))
        self.instances[node].setdefault((column, *versions), []).append((self.position, iters))

    def _need(self, d: Dependence, sources: dict, src_form, dst_form, iters: tuple, versions: tuple, needs: dict) -> None:
        """Add what `d` demands of an instance: for each column, the latest instance of the source that it conflicts
        with."""
        mine = versions[dst_form] if dst_form is not None else None
        for key, found in sources.items():
            if mine is not None:
                theirs = key[src_form + 1]
                if theirs is not None and theirs != mine:
                    continue
            column = key[0]
            best = needs.get(column)
            floor = best.position if best is not None else 0
            for position, other in reversed(found):
                if position <= floor:
                    break
                level = _first_difference(other, iters, len(d.common))
                if d.same_iteration if level == SAME_ITERATION else d.distances[level]:
                    needs[column] = Need(column, position, d, level, self.position)
                    break

    def loop(self, node: Loop) -> None:
        trip, may_exit = self.trips[node], node in self.exits or any(isinstance(s, Break) for n in node.body.nodes for s in jumps_of(n))
        outer = self.env
        # A loop that has the same count whenever the trace comes by may have none in some iterations of those around it.
        skips = not may_exit and node.trip is None and bool(self.iters)
        if skips:
            self.events.append((FORK,))
        self.iters.append(0)
        for i in range(trip):
            if may_exit:
                self.events.append((FORK,))
            self.iters[-1] = i
            self.env = {**outer, node.atom: i}
            self.block(node.body)
        self.iters.pop()
        self.env = outer
        if skips:
            self.events.append((JOIN,))
        if may_exit:
            self.events.extend([(JOIN,)] * trip)

    def branch(self, node: Branch) -> None:
        if node.window is not None:
            w = node.window
            if w.first <= self.env[w.loop.atom] < self.trips[w.loop] - w.last:
                self.block(node.then)
            return
        self.events.append((FORK,))
        self.block(node.then)
        if node.other is not None:
            self.events.append((ELSE,))
            self.block(node.other)
        self.events.append((JOIN,))

    def sync(self, node: Sync) -> None:
        self.events.append((SYNC, node, self.env))

    def jump(self, node: Jump) -> None:
        self.events.append((JUMP,))


def _first_difference(a: tuple, b: tuple, depth: int) -> int:
    """Outermost of `depth` common loops in which two instances are in different iterations."""
    for level in range(depth):
        if a[level] != b[level]:
            return level
    return SAME_ITERATION


def _versions_by_instr(instrs, deps) -> dict:
    """Instruction -> the forms that number versions in its dependences."""
    forms: dict = {i: {} for i in instrs}
    for d in deps:
        for instr, form in zip((d.src, d.dst), d.versions or ()):
            forms[instr].setdefault(form)
    return {i: list(found) for i, found in forms.items()}


_VISIT = {
    Instr: _Unroller.instr,
    Loop: _Unroller.loop,
    Branch: _Unroller.branch,
    Sync: _Unroller.sync,
    Jump: _Unroller.jump,
}

__all__ = ["ELSE", "FORK", "GAP", "INSTR", "JOIN", "JUMP", "Need", "SAME_ITERATION", "SYNC", "Trace", "traces"]
