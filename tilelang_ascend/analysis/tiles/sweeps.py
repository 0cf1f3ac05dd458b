"""Sweeps over tiles that are too large for their memory: which statements work on a part together before the next part's turn comes, and what of
a tile one sweep leaves to another.

A statement that reads what a reduction along the divided axis finds has to wait until all parts are through: a new sweep starts there, as it does
where the parts have to come in the other order, as those of a scan from the end. What a
sweep finds in a tile is made again if that is cheap, from tensors nobody writes (`reloaded`); else it comes from a workspace that holds the tile
between sweeps (`kept`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...ir import (
    AllocBuffer,
    Bind,
    BufferStore,
    Evaluate,
    FloatImm,
    For,
    IfThenElse,
    IntImm,
    Stmt,
    TensorLoad,
    Var,
    While,
    attrs_of,
    statements,
    stmts_of,
    walk_expr,
)
from ...tile import COPY, is_op
from ...tile.jumps import may_leave
from ...tile.uses import is_parallel, uses_of
from ..index.coverage import writes_whole
from .split_axis import SplitPlan, continued, scanned
from .split_globals import is_global

CHEAP = 12
"""Operations for each element that make a tile again sooner than it goes to GM and comes back: 8 bytes at some 25 a cycle and core take as
long as some 12 vector instructions for 256 bytes, which are at most 2 cycles each."""


@dataclass(eq=False)
class Sweep:
    """Statements all of which work on one part before any works on the next. reloaded: statements that bring what it finds in tiles from tensors;
    kept: tiles whose content it finds in their workspaces; stored: tiles it has to leave there. backwards: the parts come from the last to the
    first; None if any order will do."""

    plan: SplitPlan
    stmts: list[Stmt] = field(default_factory=list)
    reloaded: list[Stmt] = field(default_factory=list)
    kept: list = field(default_factory=list)
    stored: list = field(default_factory=list)
    reads: set = field(default_factory=set)
    writes: set = field(default_factory=set)
    results: set = field(default_factory=set)
    """What is right behind the last part only: of reductions along the divided axis, and undivided tiles that nests store to."""
    backwards: bool | None = None

    def takes(self, s: Stmt) -> bool:
        """True if `s` may work on a part although others of the statements before have not seen all parts."""
        uses, order = uses_of(s), self._order(s)
        if order is not None and self.backwards not in (None, order):
            return False
        return not uses.all & self.results and not (self._result(s) & (self.reads | self.writes))

    def add(self, s: Stmt) -> None:
        uses = uses_of(s)
        self.stmts.append(s)
        order = self._order(s)
        self.backwards = self.backwards if order is None else order
        self.reads |= uses.reads
        self.writes |= uses.writes
        self.results |= self._result(s)

    def _result(self, s: Stmt) -> set:
        if is_parallel(s):
            return {b for b in uses_of(s).writes if b not in self.plan.dims and not is_global(b)}
        return {s.value.args[1].source} if continues(s, self.plan) else set()

    def _order(self, s: Stmt) -> bool | None:
        """Whether `s` needs the parts backwards: scans say so; what a nest stores to an undivided tile is what its last iteration does."""
        if scans(s, self.plan):
            return bool(int(attrs_of(s).get("reverse", 0)))
        return False if is_parallel(s) and self._result(s) else None

    def may_follow(self, s: Stmt) -> bool:
        """True if the undivided statement `s`, which stands behind the sweep, may run in front of it."""
        if not isinstance(s, (AllocBuffer, Evaluate, BufferStore, Bind)) and not is_parallel(s):
            return False
        uses = uses_of(s)
        return not uses.writes & (self.reads | self.writes) and not uses.reads & self.writes

    def finds(self) -> list:
        """Divided tiles whose content from before the sweep it needs."""
        found, seen = [], set()
        for s in self.stmts:
            uses = uses_of(s)
            for b in self.plan.dims:
                if b in uses.all and b not in seen:
                    seen.add(b)
                    if b in uses.reads or not writes_whole(s, b):
                        found.append(b)
        return found


@dataclass
class Around:
    """A statement with sweeps inside: its bodies, in order."""

    stmt: Stmt
    bodies: list[list[Any]]


def continues(s: Stmt, plan: SplitPlan) -> str | None:
    """dtype in which a reduction along the divided axis goes on from part to part; None if `s` is something else."""
    return continued(s, lambda b: [plan.dims[b]] if b in plan.dims else [])


def scans(s: Stmt, plan: SplitPlan) -> str | None:
    """dtype in which a scan along the divided axis goes on from part to part; None if `s` is something else."""
    return scanned(s, lambda b: [plan.dims[b]] if b in plan.dims else [])


def find_sweeps(body: Stmt, plan: SplitPlan) -> list:
    """`body`, divided by `plan`, as a list of sweeps, of statements that are not divided, and of those around sweeps (`Around`)."""
    items = _arranged(body, plan)
    written = {b for b in uses_of(body).writes if is_global(b)}
    _Contents(plan, written).walk(items, {})
    every = {b for sweep in _all(items) for b in sweep.kept}
    _needed_later(items, set(), every)
    for sweep in _all(items):
        _drop_unused(sweep)
    return items


def _arranged(body: Stmt, plan: SplitPlan) -> list:
    items: list = []
    last: Sweep | None = None
    for s in stmts_of(body):
        if _works_on_parts(s, plan):
            if last is None or not last.takes(s):
                last = Sweep(plan)
                items.append(last)
            last.add(s)
        elif not is_parallel(s) and isinstance(s, (For, While, IfThenElse)) and uses_of(s).all & plan.dims.keys():
            bodies = [s.then_case, s.else_case] if isinstance(s, IfThenElse) else [s.body]
            items.append(Around(s, [[] if b is None else _arranged(b, plan) for b in bodies]))
            last = None
        elif last is not None and last.may_follow(s):
            items.insert(items.index(last), s)
        else:
            items.append(s)
            last = None
    return items


def _works_on_parts(s: Stmt, plan: SplitPlan) -> bool:
    if is_parallel(s) and any(is_parallel(x) and x.loop_var in plan.nest_vars for x in statements(s)):
        return True
    return (is_parallel(s) or isinstance(s, (Evaluate, BufferStore))) and bool(uses_of(s).all & plan.dims.keys())


def _all(items: list) -> list[Sweep]:
    out = []
    for x in items:
        if isinstance(x, Sweep):
            out.append(x)
        elif isinstance(x, Around):
            out += [y for b in x.bodies for y in _all(b)]
    return out


def _merged(chains: list[list[Stmt]]) -> list[Stmt]:
    """The statements of all chains, each once."""
    out: list[Stmt] = []
    for s in (s for chain in chains for s in chain):
        if not any(s.same_as(x) for x in out):
            out.append(s)
    return out


def _operations(s: Stmt) -> int:
    """Operations for each element that a statement computes."""
    found = 0

    def count(e):
        nonlocal found
        found += not isinstance(e, (Var, TensorLoad, IntImm, FloatImm))

    for x in statements(s):
        if isinstance(x, BufferStore):
            walk_expr(x.value, count)
    return found


class _Contents:
    """What tiles hold in front of every sweep: statements that make it again from tensors nobody writes, where that is known."""

    def __init__(self, plan: SplitPlan, written: set):
        self.plan, self.written = plan, written

    def walk(self, items: list, made: dict) -> None:
        """`made`: tile -> statements that make its content again. Changed to what holds behind `items`."""
        for x in items:
            if isinstance(x, Sweep):
                self.forget(x.results, made)  # They are begun anew in front of it.
                finds = x.finds()
                x.kept = [b for b in finds if b not in made]
                x.reloaded = _merged([made[b] for b in finds if b in made])
                for s in x.stmts:
                    self.run(s, made)
            elif isinstance(x, Around):
                writes = uses_of(x.stmt).writes
                if not isinstance(x.stmt, IfThenElse):
                    self.forget(writes, made)  # The iteration before may have written them.
                for b in x.bodies:
                    self.walk(b, dict(made))
                self.forget(writes, made)
            else:
                self.forget(uses_of(x).writes, made)

    def run(self, s: Stmt, made: dict) -> None:
        uses = uses_of(s)
        chain = None
        if is_op(s, COPY) or is_parallel(s):
            (dst, *others), divided = uses.writes, uses.reads & self.plan.dims.keys()
            if not others and dst in self.plan.dims and writes_whole(s, dst) and divided <= made.keys() and not uses.reads & self.written:
                chain = _merged([*(made[b] for b in self.plan.dims if b in divided), [s]])
        self.forget(uses.writes, made)
        if chain is not None and sum(map(_operations, chain)) <= CHEAP:
            made[dst] = chain

    @staticmethod
    def forget(writes: set, made: dict) -> None:
        for b in [b for b, chain in made.items() if any(uses_of(s).all & writes for s in chain)]:
            del made[b]


def _needed_later(items: list, live: set, every: set) -> set:
    """Tiles whose workspace has to be right in front of `items`, given those behind; notes what each sweep stores. `every`: all there are."""
    live = set(live)
    for x in reversed(items):
        if isinstance(x, Sweep):
            x.stored = [b for b in x.plan.dims if b in x.writes and b in live]
            finds = x.finds()
            overwritten = {b for b in x.plan.dims if b in x.writes and b not in finds}
            live = live - overwritten | set(x.kept)
        elif isinstance(x, Around) and isinstance(x.stmt, IfThenElse):
            live = set().union(*(_needed_later(b, live, every) for b in x.bodies))
        elif isinstance(x, Around):
            (inside,) = x.bodies
            again = live | _needed_later(inside, live, every)
            live = live | _needed_later(inside, again, every)
        elif may_leave(x):
            live = set(every)
    return live


def _drop_unused(sweep: Sweep) -> None:
    """Without statements whose tiles nobody reads in this sweep, and nobody later but by making them again."""
    needed, out = set(sweep.stored), []
    for s in reversed(sweep.stmts):
        uses = uses_of(s)
        if uses.writes and uses.writes <= sweep.plan.dims.keys() and not uses.writes & needed:
            continue
        needed |= uses.reads | uses.writes
        out.append(s)
    sweep.stmts, made = out[::-1], []
    for s in reversed(sweep.reloaded):
        if uses_of(s).writes & needed:
            needed |= uses_of(s).reads
            made.append(s)
    sweep.reloaded = made[::-1]
    sweep.kept = [b for b in sweep.kept if b in needed]


__all__ = ["Around", "Sweep", "continues", "find_sweeps", "scans"]
