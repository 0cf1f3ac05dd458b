"""Names of one storage through which a program sees what it stored through another of them."""

from __future__ import annotations

from collections.abc import Iterable

from ...ir import Break, BufferStore, Continue, Evaluate, For, IfThenElse, SeqStmt, Stmt, TensorRegion, While, const_int, statements
from ...ir.base import elements
from ...ir.grids import is_grid_axis
from ...tile import VIEW, is_op
from ...tile.uses import Uses, is_parallel, loads_in, own_uses, uses_of, work_of
from ..index.coverage import fill_together, lies_in, read_boxes, written_boxes

State = dict[tuple, frozenset]
"""(a name, another one) -> boxes of the first that were surely stored through it since something was stored through the other; a pair of which
that was never the case, or of which all was stored again, is not in it."""


def names_that_meet(body: Stmt, names: Iterable) -> set[frozenset]:
    """Pairs of `names`, all of them of one storage, of which a read through one may find what was stored through the other. Blocks of a grid begin
    with memory of their own."""
    walk = _Walk(tuple(names))
    walk.run(body, {})
    return walk.met


class _Walk:
    """Follows states through a program. A state is None where nobody comes."""

    def __init__(self, names: tuple):
        self.names = names
        self.met: set[frozenset] = set()
        self.next: list[State | None] = []
        """For each loop around, the states in which iterations end early."""
        self.left: list[State | None] = []
        """And those in which it is left."""

    def run(self, s: Stmt, state: State | None) -> State | None:
        """The state behind `s`."""
        if state is None:
            return None
        if isinstance(s, SeqStmt):
            for x in s.seq:
                state = self.run(x, state)
            return state
        if isinstance(s, (Break, Continue)):
            ends = self.left if isinstance(s, Break) else self.next
            ends[-1] = _either(ends[-1], state)
            return None
        if isinstance(s, IfThenElse):
            self.step(s, own_uses(s), state)
            return _either(self.run(s.then_case, state), state if s.else_case is None else self.run(s.else_case, state))
        if is_grid_axis(s):
            return self.run(s.body, {})
        if isinstance(s, While) or isinstance(s, For) and not is_parallel(s):
            return self.loop(s, state)
        return state if is_op(s, VIEW) else self.step(s, uses_of(s), state)

    def loop(self, s: For | While, state: State) -> State | None:
        """The state behind a loop."""
        if isinstance(s, For):
            self.step(s, own_uses(s), state)
        while True:
            if isinstance(s, While):  # Its condition is asked again behind every iteration.
                self.step(s, own_uses(s), state)
            self.next.append(None)
            self.left.append(None)
            end = self.run(s.body, state)
            end, left = _either(end, self.next.pop()), self.left.pop()
            begin = _either(state, end)
            if begin == state:
                break
            state = begin
        runs = isinstance(s, For) and (const_int(s.extent) or 0) > 0
        return _either(end if runs else begin, left)

    def step(self, s: Stmt, uses: Uses, state: State) -> State:
        """The state behind a nest or an op, or what a loop or a branch reads itself."""
        written = [x for x in self.names if x in uses.writes]
        for x in self.names:
            if x in uses.reads:
                self.see(s, x, written, state)
        return self.stored(s, written, state) if written else state

    def see(self, s: Stmt, x, written: list, state: State) -> None:
        """`s` reads through `x`."""
        self.met |= {frozenset((x, y)) for y in written if y is not x}
        pairs = [(pair, stored) for pair, stored in state.items() if pair[0] is x]
        boxes = _reads(s, x) if pairs else []
        self.met |= {frozenset(pair) for pair, stored in pairs if not all(lies_in(b, stored) for b in boxes)}

    def stored(self, s: Stmt, written: list, state: State) -> State:
        """The state behind `s`, which stores through the names `written`."""
        state = {pair: stored for pair, stored in state.items() if pair[1] not in written}
        state |= {(x, y): frozenset() for y in written for x in self.names if x is not y}
        if len(written) > 1:
            return state
        (x,) = written
        boxes = frozenset(tuple(box) for box in written_boxes(s, x))
        for pair in [p for p in state if p[0] is x]:
            state[pair] |= boxes
            if fill_together([list(b) for b in state[pair]], x.ty.shape):
                # Nothing is left of what was stored through the other, whatever it is called.
                state = {p: stored for p, stored in state.items() if p[1] is not pair[1]}
        return state


def _reads(s: Stmt, buffer) -> list:
    """Boxes of `buffer` in which all lies that a statement reads; None among them stands for any place."""
    if is_parallel(s):
        ops = [x for x in statements(s) if work_of(x) is not None]
        named = any(isinstance(a, TensorRegion) and a.source.same_as(buffer) for op in ops for a in elements(op.value.args))
        return [None] if named else read_boxes(s, buffer)
    if work_of(s) is not None:
        return [None for a in elements(s.value.args) for x in loads_in(a) if x.source.same_as(buffer)] + read_boxes(s, buffer)
    return read_boxes(s, buffer) if isinstance(s, (Evaluate, BufferStore)) else [None]


def _either(a: State | None, b: State | None) -> State | None:
    """What is sure in one of two states."""
    if a is None or b is None:
        return b if a is None else a
    both = {pair: a[pair] & b[pair] for pair in a.keys() & b.keys()}
    return both | {pair: s[pair] for s, other in ((a, b), (b, a)) for pair in s.keys() - other.keys()}


__all__ = ["names_that_meet"]
