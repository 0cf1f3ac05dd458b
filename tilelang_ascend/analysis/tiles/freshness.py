"""Where does a zero fill of an accumulator still stand for a value that is nowhere in memory?

L0C cannot be filled: until something writes it, a filled accumulator is *fresh*, zero by agreement. The analysis follows each part of an
accumulator through loops (any number of trips), branches, `break` and `continue`. A state of a part is the set of events that may have
come last on the way there: fills, statements that leave its value in memory, or none since the block began. From a state follows

* no fill: the value is in memory;                  * fills only: the part is fresh;
* both, and fresh exactly if a condition holds: in a loop that runs at least once and leaves no part fresh, "first iteration";
* both: only a flag that fills raise and writers lower can tell. The state names all statements that have to.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ...ir import (
    Break,
    Continue,
    Evaluate,
    For,
    IfThenElse,
    SeqStmt,
    Stmt,
    While,
    children,
    const_int,
    imm,
    op_name,
    region,
    tirx,
)
from ...tile import FILL, is_op
from ...tile.jumps import may_leave
from ...tile.uses import loads_in, own_uses
from ..index.data_names import DataNames
from ..index.known_lets import known_lets
from ..index.windows import window_of

MAX_PARTS = 64
"""Accumulators split into more parts are followed as a whole."""

PIECE = 16
"""Rows and columns of the smallest part of an accumulator that can become zero on its own."""


@dataclass(frozen=True)
class State:
    """What may have happened last to a part: `fills` and `writers` are sites. `cond`: fresh exactly if it holds, None if unknown."""

    fills: frozenset = frozenset()
    writers: frozenset = frozenset()
    untouched: bool = False
    cond: object = field(default=None, compare=False)

    @property
    def in_memory(self) -> bool:
        """True if the value surely is in memory (or nobody has given one)."""
        return not self.fills

    @property
    def fresh(self) -> bool:
        """True if the part surely is zero by agreement; what was never written may be taken for zero."""
        return bool(self.fills) and not self.writers

    def joined(self, other: State) -> State:
        """Either of two ways."""
        cond = self.cond if self.cond is other.cond else None
        return State(self.fills | other.fills, self.writers | other.writers, self.untouched or other.untouched, cond)

    def agrees(self, other: State) -> bool:
        """True if both parts are fresh at the same times: the same statements decide."""
        if self.in_memory or other.in_memory:
            return self.in_memory and other.in_memory
        if self.fresh or other.fresh:
            return self.fresh and other.fresh
        return self.cond is other.cond and (self.cond is not None or self == other)


UNTOUCHED = State(untouched=True)


def _joined(a: tuple | None, b: tuple | None) -> tuple | None:
    """States of all parts where two ways meet; None is a way nobody takes."""
    if a is None or b is None:
        return b if a is None else a
    return tuple(x.joined(y) for x, y in zip(a, b))


def _told(states: tuple, conds: dict) -> tuple:
    """`states` with conditions of some parts."""
    return tuple(replace(x, cond=conds[i]) if i in conds else x for i, x in enumerate(states))


def _same(a: tuple, b: tuple) -> bool:
    return all(x == y and x.cond is y.cond for x, y in zip(a, b))


def box_of(region) -> tuple | None:
    """((first row, end), (first column, end)) of a region of an accumulator; None unless they are constants."""
    sides = [(const_int(r.min), const_int(r.extent)) for r in list(region.region)[-2:]]
    return None if any(None in side for side in sides) else tuple((low, low + n) for low, n in sides)


def regions_of(stmt: Stmt, buffer) -> list:
    """Regions of `buffer` among the operands of a statement; of what is only read, the whole pieces it lies in."""
    args = stmt.value.args if isinstance(stmt, Evaluate) and op_name(stmt) else []
    found = [a for a in args if hasattr(a, "region") and a.source.same_as(buffer)]
    return found if buffer in own_uses(stmt).writes else [_whole_pieces(a) for a in found]


def _whole_pieces(part):
    """A region that reaches from whole pieces to whole pieces of its accumulator; as it is unless its bounds are constants."""
    box = box_of(part)
    if box is None:
        return part
    sides = [(lo // PIECE * PIECE, min(-(-hi // PIECE) * PIECE, const_int(n))) for (lo, hi), n in zip(box, part.source.ty.shape[-2:])]
    front = list(part.region)[:-2]
    return region(
        part.source, [*(r.min for r in front), *(lo for lo, _ in sides)], [*(r.extent for r in front), *(hi - lo for lo, hi in sides)]
    )


class Parts:
    """An accumulator split along the edges of all constant regions in use; parts are numbered row by row."""

    def __init__(self, buffer, regions: list):
        self.shape = tuple(const_int(n) for n in buffer.ty.shape[-2:])
        boxes = [b for b in (box_of(r) for r in regions) if b is not None]
        cuts = [sorted({0, n, *(x for b in boxes for x in b[d] if 0 < x < n)}) for d, n in enumerate(self.shape)]
        if (len(cuts[0]) - 1) * (len(cuts[1]) - 1) > MAX_PARTS:
            cuts = [[0, n] for n in self.shape]
        rows, columns = ([*zip(c, c[1:])] for c in cuts)
        self.boxes = [(r, c) for r in rows for c in columns]

    def of(self, region) -> list[int] | None:
        """The parts a region consists of; None if it is not known or no whole number of them."""
        box = box_of(region)
        if box is None:
            return None
        inside = [i for i, b in enumerate(self.boxes) if all(lo <= low and high <= hi for (lo, hi), (low, high) in zip(box, b))]
        touched = [i for i, b in enumerate(self.boxes) if all(lo < high and low < hi for (lo, hi), (low, high) in zip(box, b))]
        return inside if inside == touched else None


class Freshness:
    """`before`: path of a statement -> states of all parts in front of it. A path is the place in the tree: positions of children.

    blocks: how many blocks run at a time, None if that is not known.
    """

    def __init__(self, body: Stmt, buffer, blocks: int | None = None):
        self.buffer = buffer
        self._known: dict = {}
        found: list = []
        self._collect(body, found)
        self.parts = Parts(buffer, found)
        self.before: dict = {}
        self._known_here = known_lets(body, DataNames(body), blocks)
        self._loops: list[For] = []
        self._leaving: list = []
        """Innermost last: [states at `break`, states at `continue`] of the loops around."""
        self._visit(body, (), tuple(UNTOUCHED for _ in self.parts.boxes))

    def concerns(self, s: Stmt) -> bool:
        """True if the statement itself touches the accumulator."""
        if s not in self._known:
            self._known[s] = self.buffer in own_uses(s).all
        return self._known[s]

    def _collect(self, s: Stmt, found: list) -> None:
        found += regions_of(s, self.buffer)
        for c in children(s):
            self._collect(c, found)

    def touched(self, s: Stmt) -> list[int] | None:
        """Parts a statement touches, None if it may be any."""
        found: list = []
        for r in regions_of(s, self.buffer):
            of = self.parts.of(r)
            if of is None:
                return None
            found += of
        return found or None

    # -- the walk -----------------------------------------------------------------------------------------------
    def _visit(self, s: Stmt, path: tuple, state: tuple | None) -> tuple | None:
        """States behind `s`."""
        if isinstance(s, SeqStmt):
            for i, x in enumerate(s.seq):
                state = self._visit(x, (*path, i), state)
            return state
        if isinstance(s, IfThenElse) and any(self._surely_runs(window_of(s, loop), loop) for loop in self._loops):
            # Iterations of a window follow each other: those of the loop around them are none of its own.
            return self._visit(s.then_case, (*path, 0), state)
        if isinstance(s, IfThenElse):
            with self._known_here.constraint_scope(imm(True, "bool") if loads_in(s.condition) else s.condition):
                then = self._visit(s.then_case, (*path, 0), state)
            other = state if s.else_case is None else self._visit(s.else_case, (*path, 1), state)
            return _joined(then, other)
        if isinstance(s, (For, While)):
            return None if state is None else self._loop(s, path, state)
        if isinstance(s, (Break, Continue)):
            exits = self._leaving[-1]
            which = 0 if isinstance(s, Break) else 1
            exits[which] = _joined(exits[which], state)
            return None
        if not self.concerns(s):
            return state
        self.before[path] = state
        return None if state is None else self._behind(s, path, state)

    def _behind(self, s: Stmt, path: tuple, state: tuple) -> tuple:
        """States behind a statement that fills, accumulates or reads."""
        touched = self.touched(s)
        if is_op(s, FILL) and touched is not None:
            return tuple(State(fills=frozenset([path])) if i in touched else x for i, x in enumerate(state))
        wrote = State(writers=frozenset([path]))
        return tuple(wrote if (touched is None or i in touched) and (x.fills or x.untouched) else x for i, x in enumerate(state))

    def _loop(self, s: For | While, path: tuple, start: tuple) -> tuple | None:
        if isinstance(s, For) and "tl.persistent" in s.annotations:
            # One iteration is one block of the user's grid: it finds nothing.
            start = tuple(UNTOUCHED for _ in start)
            self._body(s, path, start)
            return start
        certain = isinstance(s, For) and bool(self._known_here.can_prove(s.extent >= 1))
        begins = self._begins(s) if certain else {}
        told = {
            i: self._first(s, x, begins.get(i, 0)) for i, x in enumerate(start) if certain and (x.fresh or (x.fills and x.cond is not None))
        }
        told = {i: cond for i, cond in told.items() if begins.get(i, 0) is not None}
        head = None
        while head is None:
            head = _told(start, told)
            while True:
                back, out = self._body(s, path, head)
                lost = [i for i in told if back is not None and not back[i].in_memory]
                met = _told(_joined(head, back), told)
                if lost or _same(met, head):
                    break
                head = met
            for i in lost:
                # Some way through the body leaves the part fresh: the first iteration is not alone.
                del told[i]
                head = None
        if out is not None:
            out = tuple(x if x.cond is y.cond else replace(x, cond=None) for x, y in zip(out, start))
        return _joined(back if certain else head, out)

    def _surely_runs(self, window: tuple[int, int] | None, loop: For) -> bool:
        """True for a window of a loop that comes to one iteration of it at least: the loop is not left before."""
        return window is not None and not may_leave(loop.body) and bool(self._known_here.can_prove(loop.extent >= sum(window) + 1))

    def _begins(self, loop: For) -> dict:
        """Part -> the iteration that is the first to come to the statements that touch it; None where it is not one for all."""
        begins: dict = {}

        def see(s: Stmt, first: int) -> None:
            if isinstance(s, IfThenElse) and self._surely_runs(window := window_of(s, loop), loop):
                first = max(first, window[0])
            if self.concerns(s):
                touched = self.touched(s)
                for i in range(len(self.parts.boxes)) if touched is None else touched:
                    begins[i] = first if begins.get(i, first) == first else None
            for c in children(s):
                see(c, first)

        see(loop.body, 0)
        return begins

    @staticmethod
    def _first(s: For, state: State, begin: int | None):
        """The condition "this is the first iteration", of the loops around, too, that have the part fresh in their first one only."""
        first = tirx.EQ(s.loop_var, imm(begin or 0, s.loop_var.ty.dtype))
        return first if state.cond is None else tirx.And(state.cond, first)

    def _body(self, s: For | While, path: tuple, head: tuple) -> tuple:
        """(states at the end of an iteration, states where the loop is left by `break`)."""
        self._leaving.append([None, None])
        self._loops += [s] if isinstance(s, For) else []
        end = self._visit(s.body, (*path, 0), head)
        self._loops = self._loops[:-1] if isinstance(s, For) else self._loops
        out, again = self._leaving.pop()
        return _joined(end, again), out


__all__ = ["Freshness", "Parts", "State", "box_of", "regions_of"]
