"""prefetch_loads: loads of the next iteration are issued in front of the computation of this one.

Before:  for t in range(n): wait_flag<V_MTE2>(t % 2); copy_gm_to_ub(x[t % 2], X[t * 64]); set_flag<MTE2_V>(t % 2)
                            wait_flag<MTE2_V>(t % 2); exp(y, x[t % 2]); …; set_flag<V_MTE2>(t % 2)
After:   if 0 < n:   wait_flag<V_MTE2>(0); copy_gm_to_ub(x[0], X[0]); set_flag<MTE2_V>(0)
         for t in range(n):
             if t + 1 < n: wait_flag<V_MTE2>((t + 1) % 2); copy_gm_to_ub(x[(t + 1) % 2], X[(t + 1) * 64]); set_flag<MTE2_V>(…)
             wait_flag<MTE2_V>(t % 2); exp(y, x[t % 2]); …; set_flag<V_MTE2>(t % 2)

The scalar pipe issues to all pipes, and a queue takes only so many instructions: behind a long computation the next load is issued when
the computation is nearly over, however early its tile is free.

No pipe gets its items (instructions, flags, barriers) in another order than before; only the order between pipes changes, which nothing
but flags decides. So what was synchronised stays synchronised. What has to be shown is that the scalar pipe never waits for itself:
nothing the moved items pass may hold it for the sake of other pipes (`pipe_barrier<ALL>`, waits for other cores), and no moved wait may
need a flag that is set by what it passes.

Requires: one program for each core, with synchronisation. Ensures: each pipe executes the same sequence.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ...analysis.dependence.core_use import call_of, record_of
from ...analysis.index.linear import Linear, LinearForms
from ...ir import (
    Bind,
    Break,
    BufferStore,
    Call,
    Continue,
    For,
    IfThenElse,
    IRModule,
    Stmt,
    StmtMutator,
    TensorLoad,
    While,
    children,
    const_int,
    dtype_of,
    exprs,
    free_vars,
    if_then,
    imm,
    map_children,
    renew,
    seq,
    statements,
    stmts_of,
    substitute,
    sym,
    tirx,
)
from ...isa import split_event

AHEAD = "MTE2"
"""The pipe whose items run ahead: it loads from GM."""


def prefetch_loads(module: IRModule, queue_depth: int) -> IRModule:
    """Apply to the module made by split_cores. `queue_depth`: a loop stays as it is if no pipe has more items to queue behind the loads."""
    return IRModule({gv: func.with_body(_Rotate(queue_depth)(func.body)) for gv, func in module.functions.items()})


@dataclass
class _Item:
    """One statement of the body of a loop, as the queues see it.

    queued: items by pipe for one run, at most. works: there is an instruction among them. holds: the core waits here for other pipes or
    cores. jumps: may leave an iteration early. crosses: tells another core. sets, waits: (event, id expression) of flags. uses, defines:
    variables (mutable ones are buffers); stores: mutable variables.
    """

    stmt: Stmt
    queued: Counter = field(default_factory=Counter)
    works: bool = False
    holds: bool = False
    jumps: bool = False
    crosses: bool = False
    sets: list = field(default_factory=list)
    waits: list = field(default_factory=list)
    uses: set = field(default_factory=set)
    defines: set = field(default_factory=set)
    stores: set = field(default_factory=set)


class _Rotate(StmtMutator):
    """Rotates every loop that is worth it, inner loops first."""

    def __init__(self, queue_depth: int):
        self.queue_depth = queue_depth

    def visit_For(self, s: For):
        s = self.generic(s)
        trips = const_int(s.extent)
        if trips is not None and trips < 2 or not self.is_full(_queued(s.body, self.queue_depth)):
            return s
        body = _Body(s, self.queue_depth)
        group = body.group()
        behind = sum((body.items[i].queued for i in range(body.start, len(body.items)) if i not in group), Counter())
        return _rotated(s, body, group) if group and self.is_full(behind) else s

    def is_full(self, queued: Counter) -> bool:
        """True if the scalar pipe has to wait for room in a queue to issue that. What it does itself takes none."""
        return max((n for pipe, n in queued.items() if pipe != "S"), default=0) > self.queue_depth


class _Body:
    """The body of a loop: which of its items may run ahead, and where they go (`start`)."""

    def __init__(self, loop: For, queue_depth: int):
        self.loop, self.start = loop, 0
        self.items = [_summary(s, queue_depth) for s in stmts_of(loop.body)]
        self.defined = {v for x in self.items for v in x.defines}
        self.lets = {x.stmt.var: x for x in self.items if isinstance(x.stmt, Bind) and not x.queued}
        self.stored = {b for x in self.items for b in x.stores}

    def group(self) -> list[int]:
        """Positions of the items that run ahead, empty if none should: the first ones of the pipe, all up to one that cannot. They go right
        behind the last one that cannot."""
        users = [i for i, x in enumerate(self.items) if x.queued[AHEAD]]
        if not users or any(x.jumps for x in self.items):
            return []
        count = next((n for n, i in enumerate(users) if not self.movable(self.items[i])), len(users))
        group = users[:count]
        if not any(self.items[i].works for i in group):
            return []
        self.start = users[-1] + 1 if count < len(users) else 0
        return group if self.may_pass(group) else []

    def may_pass(self, group: list[int]) -> bool:
        """True if the scalar pipe never waits for itself where `group` runs ahead: nothing it passes holds the core or sets a flag it needs."""
        behind = [x for i, x in enumerate(self.items) if i >= self.start and i not in group]
        before = [x for i, x in enumerate(self.items[: group[-1]]) if i not in group]
        if any(x.holds for x in behind + before):
            return False
        ids = _Ids(self)
        waits = [w for i in group for w in self.items[i].waits]
        passed = [(x, later) for items, later in ((behind, 1), (before, 0)) for y in items for x in y.sets]
        return all(ids.differ(w, x, later) for x, later in passed for w in waits)

    def movable(self, item: _Item) -> bool:
        """True if an item queues for the pipe alone, and can be told an iteration before."""
        if set(item.queued) != {AHEAD} or item.holds or item.crosses or item.stores:
            return False
        return self.lets_for(item.uses) is not None

    def lets_for(self, names: set) -> set | None:
        """The lets of the body that `names` depend on; None if some value is known in its own iteration only."""
        found: set = set()
        todo = [v for v in names if v in self.defined or v in self.stored]
        while todo:
            v = todo.pop()
            if v in found:
                continue
            if v not in self.lets:
                return None
            found.add(v)
            todo += [u for u in self.lets[v].uses if u in self.defined or u in self.stored]
        return found


def _rotated(s: For, body: _Body, group: list[int]) -> list[Stmt]:
    """The loop with the items of `group` an iteration ahead, and what comes before it."""
    items = body.items
    lets = set().union(*(body.lets_for(items[i].uses) for i in group))
    needed = [i for i, x in enumerate(items) if i in group or (isinstance(x.stmt, Bind) and x.stmt.var in lets)]
    moved = seq([items[i].stmt for i in needed])
    rest = _live([i for i in range(len(items)) if i not in group], items)

    before, extent = [], s.extent
    if const_int(extent) is None and not isinstance(extent, tirx.Var):
        extent = tirx.Var(f"{s.loop_var.name}_end", dtype_of(s.extent))
        before.append(Bind(extent, s.extent, span=s.span))
    zero = imm(0, dtype_of(s.loop_var))
    first = _at(moved, s.loop_var, zero)
    before.append(first if const_int(extent) is not None else if_then(zero < extent, first, span=s.span))
    succ = s.loop_var + imm(1, dtype_of(s.loop_var))
    ahead = if_then(succ < extent, _at(moved, s.loop_var, succ), span=items[group[0]].stmt.span)
    kept = [items[i].stmt for i in rest if i < body.start], ahead, [items[i].stmt for i in rest if i >= body.start]
    return [*before, For(s.loop_var, s.min, extent, s.kind, seq(*kept), annotations=dict(s.annotations), span=s.span)]


def _live(positions: list[int], items: list[_Item]) -> list[int]:
    """`positions` without lets nobody uses any more."""
    used: set = set()
    out = []
    for i in reversed(positions):
        x = items[i]
        if isinstance(x.stmt, Bind) and not x.queued and x.stmt.var not in used:
            continue
        used |= x.uses
        out.append(i)
    return out[::-1]


def _at(stmt: Stmt, var, value) -> Stmt:
    """`stmt` of the iteration `value`, with variables of its own."""
    return _Simplify()(renew(substitute(stmt, {var: value})))


class _Simplify(StmtMutator):
    """Computes what is known now that the iteration is."""

    def __init__(self):
        self.analyzer = sym.Analyzer()

    def expr(self, e):
        if isinstance(e, (Call, TensorLoad)):
            return map_children(e, self.expr)
        return self.analyzer.simplify(e)

    def visit_IfThenElse(self, s: IfThenElse):
        taken = const_int(self.expr(s.condition))
        if taken is None:
            return self.generic(s)
        arm = s.then_case if taken else s.else_case
        return None if arm is None else self.visit(arm)


def _summary(stmt: Stmt, queue_depth: int) -> _Item:
    """What a statement and everything below it do."""
    item = _Item(stmt)
    item.queued = _queued(stmt, queue_depth)
    for s in statements(stmt):
        for e in exprs(s):
            item.uses |= free_vars(e)
        if isinstance(s, BufferStore):
            item.stores.add(s.buffer)
        elif isinstance(s, For):
            item.defines.add(s.loop_var)
        elif isinstance(s, (Break, Continue, While)):
            item.jumps = True
        elif isinstance(s, Bind):
            item.defines.add(s.var)
        called = call_of(s)
        if called is not None:
            _see_call(item, called)
    item.uses -= item.defines
    return item


def _see_call(item: _Item, called) -> None:
    """Flags and other synchronisation of one instruction."""
    name = record_of(called).name
    if name in ("set_flag", "wait_flag"):
        (item.sets if name == "set_flag" else item.waits).append((str(called.attrs["event"]), called.args[0]))
    item.works |= bool(record_of(called).operands)
    item.holds |= name == "cross_core_wait_flag" or _queue(called) == "ALL"
    item.crosses |= name == "cross_core_set_flag"


def _queue(called) -> str:
    """The pipe in whose queue an instruction waits; `ALL` for a barrier of all pipes."""
    record = record_of(called)
    if "event" in record.attrs:
        source, destination = split_event(str(called.attrs["event"]))
        return source if record.name == "set_flag" else destination
    return str(called.attrs["pipe"]) if "pipe" in record.attrs else record.pipe.name


def _queued(stmt: Stmt, most: int) -> Counter:
    """Items by pipe that one run of `stmt` issues; an unknown number of iterations counts as many."""
    called = call_of(stmt)
    if called is not None:
        return Counter({_queue(called): 1}) if record_of(called).operands or record_of(called).attrs else Counter()
    inner = sum((_queued(c, most) for c in children(stmt)), Counter())
    if not isinstance(stmt, For):
        return inner
    trips = const_int(stmt.extent)
    return Counter({pipe: n * (most + 1 if trips is None else trips) for pipe, n in inner.items()})


class _Ids:
    """Compares flag ids of different iterations."""

    def __init__(self, body: _Body):
        self.forms = LinearForms()
        self.atom = self.forms.loop(body.loop.loop_var)
        self.unknown = body.defined - set(body.lets)
        for let in body.lets.values():
            self.forms.bind(let.stmt.var, let.stmt.value)

    def differ(self, wait: tuple, flag: tuple, ahead: int) -> bool:
        """True if `wait`, `ahead` iterations later, surely does not wait for what `flag` sets."""
        if wait[0] != flag[0]:
            return True
        if (free_vars(wait[1]) | free_vars(flag[1])) & self.unknown:
            return False
        (a, x, n), (b, y, m) = self.parts(wait[1]), self.parts(flag[1])
        if a + n <= b or b + m <= a:
            return True
        if a != b or n != m or self.varies_deeper(x) or self.varies_deeper(y):
            return False
        gap = x.plus(y, -1)
        return all(c % n == 0 for c in gap.terms.values()) and (gap.const + ahead * x.terms.get(self.atom, 0)) % n != 0

    def parts(self, ident) -> tuple[int, Linear, int]:
        """(c, x, n) of an id `c + x % n`."""
        form = self.forms(ident)
        if not form.terms:
            return form.const, Linear(0), 1
        ((atom, factor),) = form.terms.items()
        assert factor == 1 and atom.kind == "mod", f"not the id of a flag: {ident}"
        return form.const, atom.arg, atom.modulus

    def varies_deeper(self, form: Linear) -> bool:
        """True if the loop variable stands inside a division."""
        return any(self.atom in a.varies for a in form.terms if a is not self.atom)


__all__ = ["prefetch_loads"]
