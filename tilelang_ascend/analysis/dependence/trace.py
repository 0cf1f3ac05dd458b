"""Bounded unrolling of a `Program` into a linear trace that stands for every execution.

Loops with a constant trip count run a small number of iterations with the same residue (so versions like `k % 2` fall
as in the real loop); loops with an unknown count run that many iterations with an exit before each or, where versions need one count, all or none
of them. Branches contribute both arms, or the one that is taken where that is known (`Window`).
Every instruction instance knows, for each column, the latest earlier instance it depends on: `Trace.need`. They are found by the native part
(src/analysis/trace_needs.cc): every dependence is compared with every instance of its source.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ... import native
from ...ir import Break
from ..index.linear import Linear
from .dependence import Dependence
from .program import QUEUES, Branch, Instr, Jump, Loop, Node, Program, Sync, branches_of, jumps_of

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

    (INSTR, queue, column, position, number of the instance) · (GAP, block, statement position, env) · (SYNC, node, env) ·
    (FORK,) · (ELSE,) · (JOIN,) · (JUMP,)

    `needs` holds the needs of all instructions, one behind the other: column, position, number of the dependence in `dependences`, level, and
    position of the consumer. Those of instance i begin where those of the one before end, and end at `ends[i]`.

    Instances are grouped in columns, the units in which a clock knows what is complete. Without control flow a queue is
    a column: queues complete as a prefix. With control flow, instances of one instruction on one set of versions form a
    column, because a path may leave out some of them and not others. `columns[c]` is the queue of column c.
    """

    events: list
    needs: np.ndarray
    ends: list
    dependences: list
    columns: list
    forked: bool

    def need(self, number: int) -> Need:
        """One row of `needs`."""
        column, position, dependence, level, at = self.needs[number].tolist()
        return Need(column, position, self.dependences[dependence], level, at)

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
        return self.needs[:, :2].copy()


class TooManyTraces(Exception):
    """Loops with unknown trip counts, in which versions depend on them, one behind the other: all counts of one meet all of the next."""


def traces(
    program: Program,
    deps: list[Dependence],
    extra: list[Linear] = (),
    at_least: int = 1,
    often: set | None = None,
    most: int | None = None,
) -> list[Trace]:
    """Traces for `program`; one when all that matters is constant, several when versions depend on unknown trip counts.

    `extra`: further linear forms (flag ids) whose value must be known in the trace. The loops `often` (None: all) run more than `at_least`
    iterations (unless they have fewer); of a loop around others of them, an iteration counts as often as these run in it.

    Raises: TooManyTraces if there were more than `most`.
    """
    plan, dependent = _TripPlan(program, deps, extra, at_least, often), _Dependences(program, deps)
    scenarios = list(itertools.islice(plan.scenarios(), None if most is None else most + 1))
    if most is not None and len(scenarios) > most:
        raise TooManyTraces
    return [_Unroller(program, dependent, env, trips, exits).run() for env, trips, exits in scenarios]


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
        self.often = often or set()
        forms = {v for d in deps if d.versions for v in d.versions} | set(extra)
        self.windows = [b for b in branches_of(program) if b.window is not None]
        self.ends = _ends(self.windows)
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
            at_least, ends, residues = extents.get(loop.extent, (1, 0, 1))
            at_least = max(at_least, self.at_least[loop], self.largest.get(loop.atom, 1))
            ends = max(ends, sum(self.ends.get(loop, ())))
            extents[loop.extent] = at_least, ends, math.lcm(residues, self.moduli.get(loop.atom, 1))
        for counts in itertools.product(*(self._counts(e, *n) for e, n in extents.items())):
            trips, env = dict(base), {}
            for extent, count in zip(extents, counts):
                self._solve(extent, count, env)
                trips.update((loop, count) for loop in pinned if loop.extent == extent)
            trips.update((loop, self._fewer_trips(loop, trips, pinned)) for loop in self.often if loop.trip is not None)
            yield env, trips, exits

    def _counts(self, extent: Linear, at_least: int, ends: int, residues: int) -> list[int]:
        """Trip counts that stand for all: none, one, and enough iterations with every residue; where the first and last iterations are others
        than those in between, all smaller ones that have few or almost enough in between, too. `at_least`: iterations in which every version is
        used; `residues`: what numbers versions in such loops has the same value after so many."""
        modulus, largest = (max((found.get(a, 1) for a in extent.terms), default=1) for found in (self.moduli, self.largest))
        enough = max(largest, at_least) + 1 + ends
        short = [n for n in range(enough) if n < ends + residues or n > enough - residues] if ends else range(2)
        return [*short, *range(enough, enough + modulus)]

    def _fewer_trips(self, loop: Loop, trips: dict, pinned: list[Loop]) -> int:
        """Iterations of a loop in the trace in which those inside of it have these `trips`: the fewer steps an iteration consists of, the more iterations
        may be under way, as what the cores may be apart is counted in steps. With one step in each, all are there."""
        steps = max((trips[inner] - self._late(inner) for inner in loop.body.nodes if inner in pinned and inner in self.often), default=1)
        return self._trips(loop, max(2, -(-self.at_least[loop] // max(1, steps))))

    def _late(self, loop: Loop) -> int:
        """Iterations in which a window of `loop` is closed."""
        return max((b.window.first + b.window.last for b in self.windows if b.window.loop is loop), default=0)

    def _pinned(self, loop: Loop) -> bool:
        """Versions, or what the last iterations do, depend on the trip count, so the trace must use one count."""
        if self.ends.get(loop, (0, 0))[1]:
            return True
        return loop.extent is not None and any(a in self.atoms and _is_open(a) for a in loop.extent.atoms())

    def _solve(self, extent: Linear, count: int, env: dict) -> None:
        """Give the one atom of `extent` the value that makes it `count`."""
        if len(extent.terms) == 1:
            ((atom, c),) = extent.terms.items()
            if abs(c) == 1 and _is_open(atom):
                env[atom] = (count - extent.const) * c

    def _base_trips(self) -> dict:
        return {loop: self._trips(loop, self.at_least[loop]) for loop in self.program.loops}

    def _trips(self, loop: Loop, at_least: int) -> int:
        # One more than the distance of the farthest dependence; what happens later is a shifted copy.
        enough = max(self.largest.get(loop.atom, 1), at_least) + 1 + sum(self.ends.get(loop, ()))
        return enough if loop.trip is None else max(0, _clamp(loop.trip, enough, self.moduli.get(loop.atom, 1)))


def _is_open(atom) -> bool:
    """True for what a trace may choose a value for: not numbers of iterations, nor their remainders (`k % 2`), which it counts."""
    return atom.kind == "opaque" or not atom.varies


def _ends(windows: list[Branch]) -> dict:
    """Loop -> (its first, its last iterations) that are not like those in between."""
    ends: dict = {}
    for w in (b.window for b in windows):
        first, last = ends.get(w.loop, (0, 0))
        ends[w.loop] = max(first, w.first), max(last, w.last)
    return ends


def _clamp(trip: int, enough: int, modulus: int) -> int:
    """The smallest count >= `enough` with the residue of `trip`; `trip` itself when it is smaller."""
    return trip if trip <= enough else enough + (trip - enough) % modulus


class _Dependences:
    """Dependences as tables for the native part."""

    def __init__(self, program: Program, deps):
        self.number = {instr: n for n, instr in enumerate(program.instrs)}
        """Of each instruction."""
        self._leaving: dict[Node, bool] = {}
        self.forms = _versions_by_instr(program.instrs, deps)
        """Of each instruction: the forms that number versions in its dependences."""
        self.deps = sorted(deps, key=lambda d: self.number[d.dst])
        self.depth = max((len(i.loops) for i in program.instrs), default=0)
        self.most_forms = max(map(len, self.forms.values()), default=0)
        self.table = _table([self._row(d) for d in self.deps], 6)
        self.carried = _table([_padded([bool(x) for x in d.distances], self.depth) for d in self.deps], self.depth)

    def may_leave(self, node: Node) -> bool:
        """True if an iteration of the loop around `node` may end there. Traces come by again and again."""
        if node not in self._leaving:
            self._leaving[node] = bool(jumps_of(node))
        return self._leaving[node]

    def _row(self, d: Dependence) -> tuple:
        places = [self.forms[i].index(f) for i, f in zip((d.src, d.dst), d.versions)] if d.versions else (-1, -1)
        return (self.number[d.src], self.number[d.dst], *places, len(d.common), d.same_iteration)

    def needs(self, instances: list, versions: list, iterations: list) -> tuple[np.ndarray, list]:
        """(needs, ends) of instances: (number of the instruction, column, position), values of its forms, and iterations of the loops around."""
        known = [_padded([_UNKNOWN if v is None else v for v in own], self.most_forms) for own in versions]
        around = [_padded(own, self.depth) for own in iterations]
        needs, ends = native.function("analysis.trace_needs")(
            _table(instances, 3), _table(known, self.most_forms), _table(around, self.depth), self.table, self.carried, len(self.number)
        )  # fmt: skip
        return np.frombuffer(needs, np.int64).reshape(-1, 5), np.frombuffer(ends, np.int64).tolist()


_UNKNOWN = -(1 << 63)
"""A version nobody can tell, as the native part knows it."""


def _padded(values, length: int) -> tuple:
    return (*values, *(0,) * (length - len(values)))


def _table(rows: list, width: int) -> np.ndarray:
    return np.array(rows, np.int64).reshape(len(rows), width)


class _Unroller:
    def __init__(self, program: Program, dependent: _Dependences, env: dict, trips: dict, exits: set):
        self.program, self.dependent, self.trips, self.exits = program, dependent, trips, exits
        self.env = env
        self.iters: list[int] = []
        self.events: list = []
        self.instances: list = []
        self.versions: list = []
        self.iterations: list = []
        """Of each instance, for `_Dependences.needs`."""
        self.forked = _has_forks(program, exits)
        self.columns = list(range(len(QUEUES)))
        self.column_of: dict = {}

    def run(self) -> Trace:
        self.block(self.program.root)
        assert len(self.instances) <= MOST_INSTANCES, f"{len(self.instances)} instructions in one trace"
        needs, ends = self.dependent.needs(self.instances, self.versions, self.iterations)
        return Trace(self.events, needs, ends, self.dependent.deps, self.columns, self.forked)

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
                if self.dependent.may_leave(node):
                    # What is left of the iteration exists on one path only, be it only a flag.
                    self.events.append((FORK,))
                    skipped += 1
                self.events.append((GAP, block, last, env))
        self.events.extend([(JOIN,)] * skipped)

    def instr(self, node: Instr) -> None:
        env = self.env
        versions = tuple([f.evaluate(env) for f in self.dependent.forms[node]])
        column, position = self.column(node, versions), (len(self.instances) + 1) * STEP
        self.events.append((INSTR, node.queue, column, position, len(self.instances)))
        self.instances.append((self.dependent.number[node], column, position))
        self.versions.append(versions)
        self.iterations.append(tuple(self.iters))

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

__all__ = ["ELSE", "FORK", "GAP", "INSTR", "JOIN", "JUMP", "Need", "SAME_ITERATION", "SYNC", "TooManyTraces", "Trace", "traces"]
