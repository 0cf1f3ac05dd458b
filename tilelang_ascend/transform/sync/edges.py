"""Choose synchronisation: the fewest flags and barriers under which every dependence of a `Program` is ordered.

Rounds of "simulate, then order what is not ordered" from the innermost loops outwards; then every flag whose removal
leaves everything ordered is removed.
"""

from __future__ import annotations

import math
from bisect import bisect_left

from ...analysis.dependence.dependence import Dependence, version_argument
from ...analysis.dependence.happens_before import Timeline
from ...analysis.dependence.program import (
    QUEUES,
    Block,
    Branch,
    Instr,
    Loop,
    Node,
    common_block,
    enclosing_loops,
    jumps_of,
    path_to_root,
    position_in,
)
from ...analysis.dependence.trace import SAME_ITERATION, Need, Trace
from .executions import Executions, is_cross
from .plan import BARRIERS, GUARD_SET, GUARD_WAIT, SETS, WAITS, Barrier, Binder, Edge, Ring, Slot, SyncPlan
from .turns import turns

MAX_ROUNDS = 40


class JumpsInTheWay(Exception):
    """No flags order the cores of a kernel with `break` or `continue`; without these there are some (`guard_jumps`)."""


class EdgeChooser:
    """Chooses flags and barriers. `events` maps a core to the pipe pairs that have hardware events. `within_cores`: flags between windows may be
    those of one core, too. `seen`: the traces that are looked at (None: all). `in_turn`: statements may use the same flags in turn."""

    def __init__(
        self, executions: Executions, events: dict, within_cores: bool = True, seen: list[Trace] | None = None, in_turn: bool = True
    ):
        self.program, self.legal, self.within_cores, self.in_turn = executions.program, events, within_cores, in_turn
        self.credit, self.solved, self.dependences = executions.credit, executions.solved, executions.deps
        self.traces = executions.traces if seen is None else seen
        self.plan = SyncPlan()
        self.tried: set = set()
        self.guards: dict[Edge, Edge] = {}
        self.unsafe: set = set()
        self.between_windows = False
        """A flag of one core, from one window to another, was thought of."""

    def choose(self) -> SyncPlan:
        """The plan. Flag ids are not assigned yet."""
        self._fence_jumps(self.program.root)
        if self.in_turn:
            self._hand_on()
        for _ in range(MAX_ROUNDS):
            if not self._improve():
                break
        else:
            self._give_up_jumps()
            raise AssertionError("synchronisation does not converge")
        self._prune_guarded()
        self._raise_early()
        self._place_barriers()
        self._prune()
        for edge in self.plan.edges:
            _check_jumps(edge)
        return self.plan

    # ---- loops that are left by break or continue

    def _fence_jumps(self, block: Block) -> None:
        """Flags cannot straddle a jump, so nothing may be pending there: barriers for all pipes before the statement
        that holds the jump and at the start of each iteration. A core with nothing to do in the loop has nothing to wait for, and with a
        barrier it would have to know when the loop is left."""
        for node in block.nodes:
            if isinstance(node, Loop):
                if node.has_jump:
                    note = "break or continue in the loop"
                    places = {node.body.nodes[0].position, *(n.position for n in node.body.nodes if jumps_of(n))}
                    busy = {QUEUES[i.queue][0] for i in self.program.instrs if node in i.loops}
                    for gap in sorted(places):
                        for core in (c for c in self.program.cores if c in busy):
                            slot = Slot(node.body, gap, BARRIERS)
                            self.plan.barriers.append(Barrier(core, None, slot, node.stmt, fixed=True, note=note))
                self._fence_jumps(node.body)
            elif isinstance(node, Branch):
                self._fence_jumps(node.then)
                if node.other is not None:
                    self._fence_jumps(node.other)

    # ---- flags

    def _hand_on(self) -> None:
        """Add flags of places that statements use in turn (`turns`), where no statement waits for a place that it has itself, or leaves with one."""
        for group in turns(self.dependences, lambda d: self._rotating(d, len(d.common) - 1)):
            if any(_jump_between(e.set_at.block, e.wait_at.gap, e.set_at.gap) is not None for e in group):
                continue
            binder = Binder(SyncPlan([*self.plan.edges, *group], self.plan.barriers))
            found = [binder.bind(trace).run(credit=self.credit) for trace in self.traces]
            if not any(x.broken or x.leftover for x in found):
                self.plan.edges += group

    def _improve(self) -> bool:
        """Add flags for what one simulation finds missing; False when nothing is missing."""
        binder = Binder(self.plan)
        needs, unsafe = [], []
        for trace in self.traces:
            found = binder.bind(trace).run(credit=self.credit)
            if found.broken or found.leftover:
                self._give_up_jumps()
                raise AssertionError((found.broken, found.leftover, self.plan.edges))
            needs += [n for n in found.kinds if n.dependence.src.queue != n.dependence.dst.queue]
            unsafe += found.unsafe
        proposals: dict = {}
        fenced = False
        for need in needs:
            key = (need.dependence, need.level)
            if key in proposals:
                continue
            edge = self._edge_for(*key)
            if self._is_legal(edge.src, edge.dst):
                proposals[key] = edge
            else:
                fenced |= self._fence(edge, f"there is no event from {QUEUES[edge.src][1]} to {QUEUES[edge.dst][1]}")
        if proposals:
            deepest = max(e.depth for e in proposals.values())
            chosen = {key: e for key, e in proposals.items() if e.depth == deepest}
            self.tried |= {(*key, _shape(e)) for key, e in chosen.items()}
            self.plan.edges += _undominated(list(chosen.values()))
            return True
        self._make_safe(list(dict.fromkeys(key[0] for key in unsafe)))
        return bool(unsafe) or fenced

    def _make_safe(self, unsafe: list[Edge]) -> None:
        """Guard flags that could be set again too early; where a guard is not enough, use another kind of flag. Flags used in turn are
        dropped by all statements together, which get flags of their own in the next round."""
        shared = {edge.flags for edge in self.plan.edges if edge.twin is not None}.intersection(unsafe)
        if shared:
            self.plan.edges = [edge for edge in self.plan.edges if edge.flags not in shared]
            return
        guarded = {guard: edge for edge, guard in self.guards.items()}
        hopeless = [guarded.get(edge, edge) for edge in unsafe if edge in self.guards or edge in guarded]
        hopeless = list(dict.fromkeys(hopeless))
        for edge in hopeless:
            self._replace_unsafe(edge)
        if not hopeless:
            self.guards.update((edge, self._guard(edge)) for edge in unsafe)
            self.plan.edges += [self.guards[edge] for edge in unsafe]

    def _fence(self, edge: Edge, note: str) -> bool:
        """Use a barrier for all pipes instead of `edge`; False when it is there already."""
        core = QUEUES[edge.dst][0]
        slot = Slot(edge.wait_at.block, edge.wait_at.gap, BARRIERS)
        if any(b.at == slot and b.core == core and b.queue is None for b in self.plan.barriers):
            return False
        self.plan.barriers.append(Barrier(core, None, slot, edge.dst_stmt, note=note))
        return True

    def _is_legal(self, src: int, dst: int) -> bool:
        (core, source), (other, destination) = QUEUES[src], QUEUES[dst]
        return core != other or f"{source}_{destination}" in self.legal[core]

    def _edge_for(self, d: Dependence, level: int) -> Edge:
        """The direct flag for one dependence: rotating with the versions at first, plain when that was not enough."""
        inside = self._in_seldom_branch(d)
        if inside is not None and not self._was_tried(d, level, inside):
            return inside
        windowed = self._between_windows(d, level)
        if windowed is not None and not self._was_tried(d, level, windowed):
            return windowed
        if level == SAME_ITERATION:
            block = common_block(d.src, d.dst)
            edge = self._forward(d, block, plain=False)
            return self._forward(d, block, plain=True) if self._was_tried(d, level, edge) else edge
        for make in (self._rotating, self._skewed):
            edge = make(d, level)
            if edge is not None and not self._was_tried(d, level, edge):
                return edge
        return self._plain(d, level)

    def _was_tried(self, d: Dependence, level: int, edge: Edge) -> bool:
        """An edge like this is in the plan and does not order the dependence, or cannot be used safely."""
        return (d, level, _shape(edge)) in self.tried or _shape(edge) in self.unsafe

    def _rotating(self, d: Dependence, level: int) -> Edge | None:
        """A flag for each version at the innermost loop around both sides, when both use the same version there.

        It also orders iterations of outer loops, because each id is handed back and forth in the order in which its
        version is.
        """
        block, loop = common_block(d.src, d.dst), d.common[-1]
        i, j = position_in(d.src, block), position_in(d.dst, block)
        ring = self._ring(d, block)
        if ring is None or ring.set_form != ring.wait_form or i < j:
            return None
        if is_cross(d.src.queue, d.dst.queue) and d.distances[-1] != ring.count:
            return None
        return self._make(d, block, i, j, loop, ring.count, ring)

    def _in_seldom_branch(self, d: Dependence) -> Edge | None:
        """A flag right behind the first or in front of the second instruction, where that one stands in a branch that is seldom taken and the other
        one does not: elsewhere nobody waits for it."""
        if is_cross(d.src.queue, d.dst.queue):
            return None
        for node, other, behind in ((d.dst, d.src, 0), (d.src, d.dst, 1)):
            around = {b.owner for b in path_to_root(other.parent)}
            branch = next(
                (b.owner for b in path_to_root(node.parent) if isinstance(b.owner, Branch) and b.owner.seldom and b.owner not in around),
                None,
            )
            if branch is not None:
                block, gap = branch.then, position_in(node, branch.then) + behind
                depth = len(enclosing_loops(block))
                set_at, wait_at = Slot(block, gap, SETS), Slot(block, gap, WAITS)
                return Edge(d.src.queue, d.dst.queue, set_at, wait_at, None, 0, None, d.src.stmt, d.dst.stmt, depth)
        return None

    def _between_windows(self, d: Dependence, level: int) -> Edge | None:
        """A flag from one window of a loop to another one, of as many iterations, counted in iterations of the windows: as if both had begun
        with the loop. Elsewhere in the loop nobody waits for it."""
        loop = next(iter(reversed(enclosing_loops(common_block(d.src, d.dst)))), None) if level == SAME_ITERATION else d.common[level]
        if loop is None:
            return None
        a, b = (_window_in(node, loop.body) for node in (d.src, d.dst))
        if a is None or b is None or a is b or a.window.first + a.window.last != b.window.first + b.window.last:
            return None
        later = 0 if level == SAME_ITERATION else d.distances[level]
        distance, cross, ring = later + a.window.first - b.window.first, is_cross(d.src.queue, d.dst.queue), None
        if not cross:
            ring = self._ring(d, loop.body) if self.within_cores else None
            if ring is None or distance != ring.count or not _shifted(ring, loop, later):
                return None
            self.between_windows = True
        elif not 0 <= distance <= self.credit or any(jumps_of(n) for n in loop.body.nodes):
            return None
        set_at = Slot(a.then, position_in(d.src, a.then) + 1, SETS)
        wait_at = Slot(b.then, position_in(d.dst, b.then), WAITS)
        depth = len(enclosing_loops(loop.body))
        return Edge(
            d.src.queue, d.dst.queue, set_at, wait_at, loop if distance else None, distance, ring, d.src.stmt, d.dst.stmt, depth
        )  # fmt: skip

    def _skewed(self, d: Dependence, level: int) -> Edge | None:
        """A flag for each version when the two sides work on versions of different iterations (`k % 2` and `(k - 1) %
        2`)."""
        loop = d.common[level]
        block, distance = loop.body, d.distances[level]
        if is_cross(d.src.queue, d.dst.queue):
            block = _block_around(d, loop)
            return self._make(d, block, position_in(d.src, block), position_in(d.dst, block), loop, distance, None)
        i, j = position_in(d.src, block), position_in(d.dst, block)
        ring = self._ring(d, block)
        in_flight = distance + (1 if i < j else 0)
        if ring is None or in_flight > ring.count or not _shifted(ring, loop, distance):
            return None
        if distance < ring.count and loop.trip is None:
            return None
        return self._make(d, block, i, j, loop, distance, ring)

    def _plain(self, d: Dependence, level: int) -> Edge:
        """One flag, from each iteration to the next. In a branch when both sides stand in the same arm or, in whatever it contains, in the same window."""
        loop = d.common[level]
        block = common_block(d.src, d.dst)
        if enclosing_loops(block)[-1] is not loop:
            block = _block_around(d, loop)
        i, j = position_in(d.src, block), position_in(d.dst, block)
        if i < j and not is_cross(d.src.queue, d.dst.queue):
            return self._forward(d, block, plain=True)
        return self._make(d, block, i, j, loop, 1, None)

    def _forward(self, d: Dependence, block: Block, plain: bool) -> Edge:
        ring = None if plain else self._ring(d, block)
        if ring is not None and ring.set_form != ring.wait_form:
            ring = None
        return self._make(d, block, position_in(d.src, block), position_in(d.dst, block), None, 0, ring)

    def _make(self, d: Dependence, block: Block, i: int, j: int, loop, distance: int, ring) -> Edge:
        cross = is_cross(d.src.queue, d.dst.queue)
        ring, set_gap = None if cross else ring, i + 1
        if cross and distance and _jump_between(block, min(i, j), set_gap) is not None:
            # Who leaves the iteration does not come to the set: at the start of the next one it tells of all before.
            set_gap, loop, distance = block.nodes[0].position, None, 0
        jump = _jump_between(block, set_gap, j) if cross and not distance else None
        return Edge(
            d.src.queue, d.dst.queue, Slot(block, set_gap, SETS), Slot(block, j if jump is None else jump, WAITS), loop, distance, ring,
            d.src.stmt, d.dst.stmt, len(enclosing_loops(block)),
        )  # fmt: skip

    def _ring(self, d: Dependence, block: Block) -> Ring | None:
        """Rotating ids, when the versions of both sides can be told in `block`."""
        if d.versions is None or d.version_count < 2:
            return None
        visible = {loop.atom for loop in enclosing_loops(block)}
        if any(not form.varies <= visible or not self._has_value(form) for form in d.versions):
            return None
        if not any(form.varies for form in d.versions):
            return None
        return Ring(d.version_count, *d.versions)

    def _has_value(self, form) -> bool:
        """The traces know `form` in every iteration. They do not know what is read from memory, nor the number of the block."""
        return all(atom.kind != "opaque" or atom in self.solved for atom in form.atoms())

    def _guard(self, edge: Edge) -> Edge:
        """The opposite flag that keeps `edge` from being set again before its last wait is over."""
        loops = enclosing_loops(edge.wait_at.block)
        assert loops, "a flag outside of loops is set once"
        set_at = Slot(edge.wait_at.block, edge.wait_at.gap, GUARD_SET)
        wait_at = Slot(edge.set_at.block, edge.set_at.gap, GUARD_WAIT)
        ring = Ring(edge.ring.count, edge.ring.wait_form, edge.ring.set_form) if edge.ring else None
        # A set may be as many sets ahead of the waits as there are ids (or counts).
        distance = max(0, (self.credit if edge.cross else edge.count) - edge.distance)
        loop = (edge.loop or loops[-1]) if distance else None
        return Edge(edge.dst, edge.src, set_at, wait_at, loop, distance, ring, edge.dst_stmt, edge.src_stmt, edge.depth)

    def _replace_unsafe(self, edge: Edge) -> None:
        """A guard did not help (a rotating flag, primed again and again inside an outer loop): do without `edge`.

        The dependence gets a plain flag in the next round.
        """
        guard = self.guards.pop(edge)
        self.unsafe.add(_shape(edge))
        self.plan.edges = [e for e in self.plan.edges if e is not edge and e is not guard]
        if edge.ring is None:
            if edge.cross:
                self._give_up_jumps()
                raise AssertionError(f"{edge} cannot be made safe")
            self._fence(edge, f"a flag from {QUEUES[edge.src][1]} to {QUEUES[edge.dst][1]} could be set twice")

    def _give_up_jumps(self) -> None:
        """Raise `JumpsInTheWay` if the kernel has loops that are left early, between which no flags keep the two cores in step."""
        if any(loop.has_jump for i in self.program.instrs for loop in i.loops):
            raise JumpsInTheWay

    # ---- barriers

    def _place_barriers(self) -> None:
        """Barriers right before dependent instructions of queues that complete out of order. Going through the trace in
        order and placing each as late as possible gives the fewest of them in straight-line code."""
        branches: dict[int, Slot] = {}
        placed: set = set()
        while True:
            slots: dict = {}
            binder = Binder(self.plan)
            for trace in self.traces:
                for need, times in binder.bind(trace).run(assume_barriers=True).often:
                    dst, slot = need.dependence.dst, _slot_in_branch(need)
                    # One branch is enough to wait in: with more of them, a barrier right before the second instruction serves all.
                    if slot is None or branches.setdefault(dst.order, slot) != slot:
                        slot = _slot_before(need)
                    known, stmt = slots.get((slot, dst.queue), (0, dst.stmt))
                    slots[slot, dst.queue] = known + times, stmt
            # A barrier in front of a loop covers less than the simulation assumed inside the loop: look again.
            if not slots:
                return
            if slots.keys() <= placed:
                self._give_up_jumps()
                raise AssertionError("barriers do not converge")
            placed |= slots.keys()
            # Those that few iterations need come first: of several that serve, they are the first to be left out.
            for (slot, queue), (_, stmt) in sorted(slots.items(), key=lambda item: item[1][0]):
                self.plan.barriers.append(Barrier(QUEUES[queue][0], queue, slot, stmt))

    # ---- pruning

    def _prune_guarded(self) -> None:
        """Remove flags that others make superfluous together with their guards, before barriers are placed: a guard is tighter than
        what it guards, and where it also orders two instructions of one queue a barrier costs less."""
        timelines, out = self._timelines(), set()
        for edge, guard in list(self.guards.items()):
            trial = out | {edge, guard}
            if all(self._flags_suffice(t, trial) for t in timelines):
                out = trial
                del self.guards[edge]
        self.plan = self.plan.without(*out)

    def _timelines(self) -> list[Timeline]:
        binder = Binder(self.plan)
        return [binder.bind(trace) for trace in self.traces]

    def _flags_suffice(self, timeline: Timeline, without: set) -> bool:
        """True if nothing but barriers of single queues is missing."""
        found = timeline.run(without=without, credit=self.credit)
        return not (found.unsafe or found.broken or found.leftover) and all(
            need.dependence.src.queue == need.dependence.dst.queue for need in found.kinds
        )

    def _prune(self) -> None:
        """Remove whatever is not needed: outer flags first, so that the local ones stay; of one loop those that wait for the
        same or the previous iteration first, so that what stays leaves the most room for transfers to run ahead."""
        order = sorted(self.plan.edges, key=lambda e: (e.depth, e.distance, -abs(e.wait_at.gap - e.set_at.gap)))
        order += [b for b in self.plan.barriers if not b.fixed]
        timelines = self._timelines()
        needed, out = self._indispensable_barriers(timelines), set()
        # A guard exists for the sake of one flag: try them together before the guard starts to stand in for others. So do flags used in turn.
        together: dict = {}
        for edge in self.plan.edges:
            together.setdefault(edge.flags, set()).add(edge)
        groups = [{edge, guard} for edge, guard in self.guards.items()]
        groups += [edges for edges in together.values() if len(edges) > 1] + [{item} for item in order]
        for group in groups:
            if group & needed or group & out:
                continue
            trial = out | group
            refusing = next((t for t in timelines if not t.run(without=trial, first_only=True, credit=self.credit).clean), None)
            if refusing is None:
                out = trial
            else:  # The trace that refused something last is asked first.
                timelines.remove(refusing)
                timelines.insert(0, refusing)
        self.plan = self.plan.without(*out)

    def _raise_early(self) -> None:
        """Raise the flags of the first loop of the kernel in front of all that comes before it, where that orders as much: a pipe that sets
        one there would first wait for what it needs itself, such as operands that are loaded once, and so would the loads of the loop."""
        root = self.program.root
        first = next((n for n in root.nodes if not isinstance(n, Instr)), None)
        early = [e for e in self.plan.edges if e.distance and not e.cross and e.primed and e.every_id_primed and e.home is first]
        if not early or first is root.nodes[0]:
            return
        self._move_primes(early, True)
        if not all(self._flags_suffice(t, set()) for t in self._timelines()):
            self._move_primes(early, False)

    def _move_primes(self, edges: list[Edge], early: bool) -> None:
        for edge in edges:
            edge.early = early
            for trace in self.traces:
                trace.memo.pop(edge, None)

    def _indispensable_barriers(self, timelines: list[Timeline]) -> set:
        """Barriers that are the only ones between two instructions that nothing else orders. (Trying to remove them takes
        longer.)"""
        needed = set()
        for timeline in timelines:
            at, barriers = timeline.barriers()
            for need in timeline.run(without_barriers=True).uncovered:
                between = {barriers[i] for i in range(bisect_left(at, need.position), bisect_left(at, need.at))}
                if len(between) == 1:
                    needed |= between
        return needed


def _shifted(ring: Ring, loop: Loop, distance: int) -> bool:
    """Is the id that is set in one iteration the one that is waited for `distance` iterations later, and no other one of as many iterations as there
    are ids? Those of a loop further out are the same in all of them."""
    set_at, wait_at = (version_argument(form, ring.count) for form in (ring.set_form, ring.wait_form))
    gap = wait_at.plus(set_at, -1)
    step = wait_at.terms.get(loop.atom, 0)
    if math.gcd(step, ring.count) != 1:
        return False
    return all(c % ring.count == 0 for c in gap.terms.values()) and (gap.const + step * distance) % ring.count == 0


def _window_in(node: Node, block: Block) -> Branch | None:
    """The statement of the body of a loop that contains `node`, if it is a window of the loop."""
    while node.parent is not block:
        node = node.parent.owner
    window = node.window if isinstance(node, Branch) else None
    return node if window is not None and window.loop is block.owner else None


def _block_around(d: Dependence, loop: Loop) -> Block:
    """The body of a loop, or of the window that both sides stand in."""
    window = _window_in(d.src, loop.body)
    return loop.body if window is None or window is not _window_in(d.dst, loop.body) else window.then


def _shape(edge: Edge) -> tuple:
    return edge.src, edge.dst, edge.set_at, edge.wait_at, edge.distance, edge.ring


def _jump_between(block: Block, first: int, end: int) -> int | None:
    """Position of the first statement of `block` from `first` on, before `end`, that may leave the iteration."""
    return next((n.position for n in block.nodes if first <= n.position < end and jumps_of(n)), None)


def _check_jumps(edge: Edge) -> None:
    """A jump between a set and its wait would leave the flag behind."""
    low, high = sorted((edge.set_at.gap, edge.wait_at.gap))
    assert _jump_between(edge.set_at.block, low, high) is None, f"{edge} straddles a jump"


def _undominated(edges: list[Edge]) -> list[Edge]:
    """Drop edges that another one of the list implies: set no earlier, waited for no later, between the same queues."""
    kept: list[Edge] = []
    for edge in sorted(edges, key=lambda e: (-e.set_at.gap, e.wait_at.gap)):
        if not any(_implies(other, edge) for other in kept):
            kept.append(edge)
    return kept


def _implies(strong: Edge, weak: Edge) -> bool:
    same = strong.src == weak.src and strong.dst == weak.dst and strong.set_at.block is weak.set_at.block and strong.loop is weak.loop
    if not same or strong.set_at.gap < weak.set_at.gap or strong.wait_at.gap > weak.wait_at.gap:
        return False
    return not strong.distance or (strong.distance == weak.distance and strong.ring == weak.ring)


def _slot_before(need: Need) -> Slot:
    """Right before the second instruction."""
    d = need.dependence
    block = common_block(d.src, d.dst) if need.level == SAME_ITERATION else d.common[need.level].body
    return Slot(block, position_in(d.dst, block), BARRIERS)


def _slot_in_branch(need: Need) -> Slot | None:
    """Right after the first instruction, if that is optional and the second is not. What almost all iterations do is not: outside of its window a barrier
    serves other windows, too."""
    d = need.dependence
    if need.level != SAME_ITERATION:
        return None
    block = common_block(d.src, d.dst)
    inside, around = None, d.src
    while around.parent is not block:
        inside, around = around, around.parent.owner
    if inside is None or not isinstance(around, Branch) or around.other is not None or around.window is not None:
        return None
    return Slot(inside.parent, inside.position + 1, BARRIERS)


__all__ = ["EdgeChooser", "JumpsInTheWay"]
