"""name_variables: scalar variables that straight-line code sets before it reads them are names of what they are set to, as are others from where they are set
for the last time.

Before:  v = 0; v = off[b]; copy(A[v : v + 64], a); v = off[b + 1]; for k in range(v): …
After:   v_0 = off[b] (a name); copy(A[v_0 : v_0 + 64], a); v_1 = off[b + 1] (a name); for k in range(v_1): …

What a variable is worth depends on where it is read: statements that read it do not move, and a loop whose extent it is overlaps no work of the two kinds
of core. A name has one value. Variables that branches or loops set for what stands behind them, or iterations for each other, stay, and
so do those of nests, each iteration of which has its own. Where loops come behind the last statement that sets one, what it is then has a name:
         for q in range(8): end = max(end, ends[q])      # a variable
         end_0 = end (a name); for k in range(end_0): …

Requires: Tile IR. Ensures: values are unchanged.
"""

from __future__ import annotations

from collections import defaultdict

from ...ir import (
    AllocBuffer,
    Bind,
    BufferLoad,
    BufferStore,
    For,
    PrimFunc,
    Stmt,
    StmtMutator,
    TensorLoad,
    TensorRegion,
    Var,
    children,
    dtype_of,
    exprs,
    imm,
    map_children,
    stmts_of,
    walk_expr,
)
from ...tile.uses import is_parallel, is_scalar_var


class _Accesses:
    """Where variables are set and read: for each of both the way there, a pair (list of statements, number in it) for each list around it.

    sets, reads: variable -> ways. kept: variables that something else is done with, or that nests set.
    """

    def __init__(self, body: Stmt):
        self.sets: dict = defaultdict(list)
        self.reads: dict = defaultdict(list)
        self.kept: set = set()
        self.lists: list = []
        self.go(body, (), False)

    def go(self, body: Stmt, way: tuple, in_nest: bool) -> None:
        mine = len(self.lists)
        self.lists.append(stmts_of(body))
        for n, s in enumerate(self.lists[mine]):
            here = (*way, (mine, n))
            if isinstance(s, BufferStore) and is_scalar_var(s.buffer):
                self.sets[s.buffer].append(here)
                if in_nest:
                    self.kept.add(s.buffer)
            for e in exprs(s):
                walk_expr(e, lambda x, here=here: self.see(x, here))
            for child in children(s):
                self.go(child, here, in_nest or is_parallel(s))

    def see(self, x, here: tuple) -> None:
        if isinstance(x, TensorLoad) and is_scalar_var(x.source):
            self.reads[x.source].append(here)
        elif isinstance(x, TensorRegion) and is_scalar_var(x.source):
            self.kept.add(x.source)

    def home(self, v) -> int | None:
        """The list that itself sets all that is ever read of a variable, before it is read; None if there is none."""
        if v in self.kept:
            return None
        for home in sorted({way[-1][0] for way in self.sets[v]}):
            inside = [way for way in self.sets[v] if any(at == home for at, _ in way)]
            first = min(n for way in inside for at, n in way if at == home)
            own = all(way[-1][0] == home for way in inside)
            if own and all(any(at == home and n > first for at, n in way) for way in self.reads[v]):
                return home
        return None

    def named(self) -> dict:
        """Variable -> for each time it is set, in order, whether it is a name there; what it is elsewhere nobody reads."""
        homes = {v: home for v in self.sets if (home := self.home(v)) is not None}
        return {v: [way[-1][0] == home for way in self.sets[v]] for v, home in homes.items()}

    def settled(self) -> dict:
        """Statement -> variables that it is the last one in its list to set, or something in it, and which loops behind it in the list read."""
        found: dict = defaultdict(list)
        for v, sets in self.sets.items():
            last: dict = {}
            for way in sets:
                last |= {at: max(n, last.get(at, n)) for at, n in way}
            loops = {at for way in self.reads[v] for at, n in way if n > last.get(at, n) and isinstance(self.lists[at][n], For)}
            for at in () if v in self.kept else sorted(loops):
                found[self.lists[at][last[at]]].append(v)
        return found


class _Worth(StmtMutator):
    """worth: variable -> its name here."""

    def __init__(self):
        self.worth: dict = {}

    def expr(self, e):
        if isinstance(e, TensorLoad) and e.source in self.worth:
            return self.worth[e.source]
        return map_children(e, self.expr)

    def name(self, v, value, span) -> Bind:
        """A name for what a variable is from here on."""
        self.worth[v] = Var(v.name, dtype_of(v))
        return Bind(self.worth[v], value, span=span)


class _Settle(_Worth):
    """settled: see `_Accesses.settled`."""

    def __init__(self, settled: dict):
        super().__init__()
        self.settled = settled

    def block(self, stmt: Stmt) -> Stmt:
        before, self.worth = self.worth, dict(self.worth)
        out = super().block(stmt)
        self.worth = before
        return out

    def visit(self, stmt: Stmt):
        return [super().visit(stmt), *(self.name(v, BufferLoad(v, [imm(0)]), stmt.span) for v in self.settled.get(stmt, ()))]


class _Name(_Worth):
    """named: see `_Accesses.named`."""

    def __init__(self, named: dict):
        super().__init__()
        self.named = {v: iter(times) for v, times in named.items()}

    def visit_AllocBuffer(self, s: AllocBuffer):
        return None if s.buffer in self.named else s

    def visit_BufferStore(self, s: BufferStore):
        if s.buffer not in self.named:
            return self.generic(s)
        return self.name(s.buffer, self.expr(s.value), s.span) if next(self.named[s.buffer]) else None


def name_variables(func: PrimFunc) -> PrimFunc:
    """Apply to a Tile IR function."""
    accesses, body = _Accesses(func.body), func.body
    named = accesses.named()
    if named:
        body = _Name(named)(body)
        accesses = _Accesses(body)
    settled = accesses.settled()
    body = _Settle(settled)(body) if settled else body
    return func if body.same_as(func.body) else func.with_body(body)


__all__ = ["name_variables"]
