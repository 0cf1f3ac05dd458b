"""rotate_loops: late statements of a loop run beside the early ones of a later iteration.

Before:  for k in range(n) [skew "0 0 1"]: gemm(…, s[k % 2]); p[k % 2] = f(s[k % 2]); gemm(p[k % 2], …)
After:   for k in range(n + 1):
             if k < n: gemm(…, s[k % 2]); p[k % 2] = f(s[k % 2])
             if k >= 1: gemm(p[(k + 1) % 2], …)

Every statement stands once: iterations before the first late ones and behind the last early ones need no code and no flags of their own, however
many there are. The conditions are *windows* of iterations (analysis/dependence/program.py), of which synchronisation knows when they hold.

Tiles that follow each other (`chain_tiles`) are iterations of one loop: what stands around the loop inside is done in its first and last iteration.

Before:  for t in range(m) [chained "0 0 2"]: load(q); for k in range(n) [skew "0 2"]: early; late; store(o)
After:   for t_k in range(m * n + 2):
             if t_k < m * n: t, k = t_k // n, t_k % n; if k == 0: load(q); early
             if t_k >= 2: t, k = (t_k - 2) // n, (t_k - 2) % n; late; if k == n - 1: store(o)

Where tiles have different numbers of steps, either side counts: it has two scalars for its tile and its step, and a loop in front adds up the steps.
Where a tile does nothing unless a condition holds, either side goes on to the next one of which it does, and counts those.

What passes from an early statement to one that is d iterations, or tiles, late needs d + 1 versions. A loop whose tiles have not got them stays as it is.

Requires: versioned Tile IR with the annotations of `skew_stages` and `chain_tiles`. Ensures: no loop is annotated.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import Callable

from ...analysis.tiles.core_kinds import crosses, works_on_cube
from ...analysis.tiles.home_loops import apart, own_buffers, versioned_buffers
from ...ir import (
    AllocBuffer,
    Bind,
    BufferLoad,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    PrimFunc,
    Range,
    Stmt,
    StmtMutator,
    TensorLoad,
    TensorRegion,
    Var,
    While,
    const_int,
    decl_buffer,
    dtype_of,
    expr_children,
    exprs,
    imm,
    map_children,
    renew,
    scope_of,
    seq,
    statements,
    stmts_of,
    substitute,
    tirx,
)
from ...tile import ASSUME, GEMM, is_op, tile_op
from ...tile.conditions import joined
from ...tile.uses import (
    BEHIND,
    CHAINED,
    SKEW,
    conflict,
    conflicts,
    is_load,
    is_parallel,
    lateness,
    leaves_l0c,
    own_uses,
    tile_of,
    uses_of,
    with_lateness,
)


class _Rotate(StmtMutator):
    def __init__(self, body: Stmt):
        self.versioned = versioned_buffers(body)

    def visit_For(self, s: For):
        if CHAINED in s.annotations:
            own = next((x for x in tile_of(s)[2] if isinstance(x, For) and any(lateness(x)) and works_on_cube(x)), None)
            if own is not None and _enough_versions(own, stmts_of(own.body), lateness(own)) and _enough_for_tiles(s, own, self.versioned):
                return self.chained(s, own)
            s = For(s.loop_var, s.min, s.extent, s.kind, s.body, annotations=_without(s, CHAINED, BEHIND), span=s.span)
        if SKEW not in s.annotations:
            return self.generic(s)
        notes, late = _without(s, SKEW), lateness(s)
        body = stmts_of(s.body)
        assert len(body) == len(late), f"{len(late)} offsets for {len(body)} statements"
        rotates = _enough_versions(s, body, late) and (any(map(works_on_cube, body)) or _loads_in_time(body, late))
        inner = [seq(self.visit(x)) for x in body]
        plain = For(s.loop_var, s.min, s.extent, s.kind, seq(inner if rotates else joined(inner)), annotations=notes, span=s.span)
        return self.rotated(plain, inner, late) if rotates else plain

    def chained(self, s: For, own: For):
        """A loop over tiles and the one inside as one loop, so that late statements of a tile run beside early ones of the next one."""
        kind, behind = dtype_of(own.loop_var), max(lateness(own))
        step, (around, condition, tile) = Var(f"{s.loop_var.name}_{own.loop_var.name}", kind), tile_of(s)
        known = const_int(own.extent) is not None and condition is None
        numbers = _known(s, own, step) if known else _counted(s, own)
        parts, ends = [(x, 0) for x in (*numbers.names, *around)], ([], [], [])
        """Early and late statements in front of the loop inside, and late ones behind it."""
        place = 0
        for x, late in zip(tile, lateness(s, CHAINED)):
            if x.same_as(own):
                place = 1
            elif _is_name(x):
                parts.append((x, 0))
            else:
                ends[place + (late > 0)].append(x)
        parts += [(x, 0) for x in numbers.own_names]
        single = const_int(own.extent) == 1 and known

        def in_step(number, xs: list) -> Stmt:
            """Statements of one step of a tile."""
            return seq(xs) if single else IfThenElse(tirx.EQ(own.loop_var, number), seq(xs), None, span=s.span)

        inside = stmts_of(_Numbered(step, _numbered_by(own, s, self.versioned))(own.body))
        parts += [(in_step(imm(0, kind), xs), late) for xs, late in zip(ends, (0, behind)) if xs]
        parts += [(seq(self.visit(x)), late) for x, late in zip(inside, lateness(own))]
        parts += [(in_step(numbers.last, ends[2]), behind)] if ends[2] else []
        if numbers.turn is not None:
            of_tiles = _Numbered(numbers.turn, _numbered_by(s, s, self.versioned))
            parts = [(of_tiles(x), late) for x, late in parts]
        parts = [(substitute(x, numbers.same), late) for x, late in parts]
        body, late = ([p[i] for p in parts] for i in (0, 1))
        whole = For(step, imm(0, kind), numbers.steps, s.kind, seq(body), annotations=_without(own, SKEW), span=own.span)
        return seq(numbers.before, self.rotated(whole, body, late, numbers))

    def rotated(self, s: For, body: list, late: list, numbers: _Numbers | None = None):
        distance, kind = max(late), dtype_of(s.loop_var)
        k, end, lag = s.loop_var, s.min + s.extent, imm(distance, kind)
        allocs = [x for x in body if isinstance(x, AllocBuffer)]
        parts = [(x, n) for x, n in zip(body, late) if not isinstance(x, AllocBuffer)]

        first, second = ([x for x, n in parts if n == side or _is_name(x)] for side in (0, distance))
        further, counters = (numbers.further, numbers.late) if numbers is not None else ([], {})
        late_side = stmts_of(renew(substitute(_Earlier(k, distance)(seq(second, further)), counters)))
        late_side, late_further = late_side[: len(late_side) - len(further)], late_side[len(late_side) - len(further) :]
        sides = stmts_of(seq(first)), _arrived_first(late_side)
        windows = [_Window(condition, s.span).inside(side) for condition, side in zip((k < end, k >= s.min + lag), sides)]
        both = _side_by_side(*sides, windows) or _in_between(*sides, windows) or _while_results_leave(*sides, windows)
        both += [w(x) for w, x in zip(windows, (further, late_further)) if x]
        return seq(allocs, For(k, s.min, s.extent + lag, s.kind, seq(both), annotations=dict(s.annotations), span=s.span))


@dataclass(frozen=True)
class _Numbers:
    """Which step of which tile an iteration of the loop over all steps is.

    names, own_names: statements that name both, and what depends on them. last: number of the last step of a tile. steps: of all tiles. before: statements
    in front of the loop. further: those that end an iteration, about the early side; `late`: what the late one has in place of it. turn: the number of a
    tile among those that do anything, if others do nothing. same: what stands for variables that need no name.
    """

    names: list
    last: object
    steps: object
    turn: Var | None = None
    own_names: list = field(default_factory=list)
    before: list = field(default_factory=list)
    further: list = field(default_factory=list)
    late: dict = field(default_factory=dict)
    same: dict = field(default_factory=dict)


def _known(loop: For, own: For, step: Var) -> _Numbers:
    """Where tiles have the same number of steps."""
    kind, trips = dtype_of(own.loop_var), const_int(own.extent)
    n = imm(trips, kind)
    if trips == 1:
        return _Numbers([], imm(0, kind), loop.extent, same={loop.loop_var: step, own.loop_var: imm(0, kind)})
    names = [Bind(loop.loop_var, tirx.floordiv(step, n)), Bind(own.loop_var, tirx.floormod(step, n))]
    return _Numbers(names, imm(trips - 1, kind), loop.extent * n)


def _counted(loop: For, own: For) -> _Numbers:
    """Where only run time tells how many steps a tile has, or whether it does anything: both sides count, and a loop in front adds up the steps of all
    tiles."""
    around, condition, body = tile_of(loop)
    kind, (t, k) = dtype_of(own.loop_var), (loop.loop_var, own.loop_var)
    (tile, late_tile), (step, late_step) = (_counters(f"{v.name}_", kind) for v in (t, k))
    total, all_steps = _counter("all_steps", kind), Var("all_steps", kind)
    zero, one, trips = imm(0, kind), imm(1, kind), Var("trips", kind)
    names, late = [Bind(t, _value(tile)), Bind(k, _value(step))], {tile: late_tile, step: late_step}
    known = [x for x in body[: next(i for i, x in enumerate(body) if x.same_as(own))] if _is_name(x)]
    adds: Stmt = seq(known, Bind(trips, own.extent), _set(total, _value(total) + trips))
    next_tile, first, turn = [_set(tile, t + one), _set(step, zero)], [], None
    if condition is not None:
        turn, (turns, late_turns), (looks, late_looks) = Var("turn", kind), _counters("turns_", kind), _counters("looks_", kind)
        names, late = [*names, Bind(turn, _value(turns))], {**late, turns: late_turns, looks: late_looks}
        adds = seq(around, IfThenElse(condition, adds, None, span=loop.span))
        found = _find_tile(loop, tile, looks, around, condition)
        next_tile, first = [*next_tile, _set(turns, turn + one), found], [renew(found), _set(late_tile, _value(tile))]
    sums = For(t, zero, loop.extent, ForKind.SERIAL, adds, span=loop.span)
    counters = [*late, *late.values(), total]
    return _Numbers(
        names=[*names, tile_op("assume", t < loop.extent)],
        last=trips - 1,
        steps=all_steps,
        turn=turn,
        own_names=[Bind(trips, own.extent), tile_op("assume", k < trips)],
        before=[*map(AllocBuffer, counters), *(_set(b, zero) for b in counters), renew(sums), Bind(all_steps, _value(total)), *first],
        further=[IfThenElse(tirx.EQ(k, trips - 1), seq(next_tile), _set(step, k + one), span=loop.span)],
        late=late,
    )


def _find_tile(loop: For, tile, looks, around: list, condition) -> Stmt:
    """Adds to the number in `tile` until a condition holds of that tile, or there is none any more. looks: a scalar that is 1 until then."""
    kind = dtype_of(looks)
    zero, one, t = imm(0, kind), imm(1, kind), Var(loop.loop_var.name, kind)
    this = substitute(seq(around, IfThenElse(condition, _set(looks, zero), _set(tile, t + one), span=loop.span)), {loop.loop_var: t})
    look = seq(Bind(t, _value(tile)), IfThenElse(t < loop.extent, this, _set(looks, zero), span=loop.span))
    return seq(_set(looks, one), renew(While(tirx.EQ(_value(looks), one), look, span=loop.span)))


def _counters(name: str, dtype: str) -> tuple:
    """A scalar of the early side and one of the late side."""
    return tuple(_counter(name + side, dtype) for side in ("now", "late"))


def _counter(name: str, dtype: str):
    return decl_buffer((1,), dtype, name, scope="local.var")


def _value(counter):
    return BufferLoad(counter, [imm(0)])


def _set(counter, value) -> Stmt:
    return BufferStore(counter, value, [imm(0)])


def _without(s: For, *annotations: str) -> dict:
    return {k: v for k, v in dict(s.annotations).items() if k not in annotations}


class _Numbered(StmtMutator):
    """Versions of a loop that runs again and again, counted through by `step`: an iteration works on its own, whichever it is. `tiles`: what has
    versions in no other loop."""

    def __init__(self, step: Var, tiles: set):
        self.step, self.tiles = step, tiles

    def number(self, e):
        return tirx.floormod(self.step, e.b)

    def expr(self, e):
        e = map_children(e, self.expr)
        if isinstance(e, TensorLoad) and e.source in self.tiles:
            return BufferLoad(e.source, [self.number(e.indices[0]), *e.indices[1:]])
        if isinstance(e, TensorRegion) and e.source in self.tiles:
            first, *rest = e.region
            return tirx.BufferRegion(e.source, [Range.from_min_extent(self.number(first.min), first.extent), *rest])
        return e

    def visit_BufferStore(self, s: BufferStore):
        s = self.generic(s)
        first, *rest = s.indices
        return BufferStore(s.buffer, s.value, [self.number(first), *rest], span=s.span) if s.buffer in self.tiles else s


def _numbered_by(loop: For, body: Stmt, versioned: list) -> set:
    """The tiles and workspaces, of all that have versions, whose versions are numbered by iterations of a loop wherever `body` uses them."""
    numbers: dict = {b: [] for b in versioned}
    for x in statements(body):
        for b, e in _first_indices(x):
            if b in numbers:
                numbers[b].append(e)
    return {b for b, found in numbers.items() if found and all(_rotates(e, loop.loop_var) for e in found)}


def _enough_for_tiles(loop: For, own: For, versioned: list) -> bool:
    """True if what early and late statements of a loop over tiles share has versions for all that are under way, or is the business of the loop inside, which
    numbers its versions through. `versioned`: what has versions at all."""
    found = [(uses_of(x), n) for x, n in with_lateness(loop)]
    written = set().union(*(u.writes for u, _ in found))
    early, late = (set().union(*(u.all for u, n in found if bool(n) == side)) for side in (False, True))
    of_steps, of_tiles = _numbered_by(own, loop, versioned), _numbered_by(loop, loop, versioned)
    behind = int(loop.annotations[BEHIND])
    return all(const_int(b.ty.shape[0]) > (behind if b in of_tiles else 1 if b in of_steps else inf) for b in early & late & written)


def _rotates(e, var: Var) -> bool:
    return isinstance(e, tirx.FloorMod) and var.same_as(e.a)


def _first_indices(s: Stmt):
    """(buffer, first index) of what a statement itself uses."""
    if isinstance(s, BufferStore):
        yield s.buffer, s.indices[0]
    todo = list(exprs(s))
    while todo:
        e = todo.pop()
        todo += expr_children(e)
        if isinstance(e, TensorLoad):
            yield e.source, e.indices[0]
        elif isinstance(e, TensorRegion):
            yield e.source, e.region[0].min


def _is_name(s: Stmt) -> bool:
    return isinstance(s, Bind) or is_op(s, ASSUME)


@dataclass(frozen=True)
class _Window:
    """The iterations in which statements of one side run. names: of values all of the side knows."""

    condition: object
    span: object
    names: tuple = ()

    def inside(self, body: list) -> _Window:
        """The window in a statement list, whose names are known there, too."""
        return replace(self, names=(*self.names, *filter(_is_name, body)))

    def __call__(self, body: list) -> Stmt | None:
        """Some statements of the side, with names of their own."""
        work = joined([x for x in body if not _is_name(x)])
        return IfThenElse(self.condition, renew(seq(list(self.names), work)), None, span=self.span) if work else None


def _side_by_side(first: list, second: list, windows: list) -> list[Stmt] | None:
    """Early and late statements, with a loop over parts of a product from either side made one, so that the cube core works on a part of each in
    turn: what one of them waits for, the other need not. None if there are none.

    Statements of different iterations share no version of anything, so that any order of early and late ones will do."""
    pair = next(((i, j) for i, a in enumerate(first) for j, b in enumerate(second) if _alike(a, b)), None)
    if pair is None:
        return None
    (i, j), (early, late) = pair, windows
    a, b = first[i], second[j]
    before = _needed_by(second, j)
    bodies = stmts_of(a.body), stmts_of(substitute(b.body, {b.loop_var: a.loop_var}))
    within = [w.inside(body) for w, body in zip(windows, bodies)]
    (loads, work), (late_loads, late_work) = (_loads_first(body) for body in bodies)
    both = _side_by_side(work, late_work, within) or [w(x) for w, x in zip(within, (work, late_work))]
    inner = seq([w(x) for w, x in zip(within, (loads, late_loads))], both)
    fused = For(a.loop_var, a.min, a.extent, a.kind, inner, annotations=dict(a.annotations), span=a.span)
    rest = [x for n, x in enumerate(second) if n != j and n not in before]
    return [early(first[:i]), late([second[n] for n in sorted(before)]), fused, early(first[i + 1 :]), late(rest)]


def _in_between(first: list, second: list, windows: list) -> list[Stmt] | None:
    """Early and late statements, of which both begin on the vector cores, and late ones end there: these do the early ones while the cube core is at what the
    late ones have sent it, and it goes on with what the early ones have sent then. None for others."""
    early, late = windows
    (made, product), (sent, rest) = (_in_front(side, _vector_work) for side in (first, second))
    if not made or not sent or not all(any(map(_of_products, x)) for x in (product, rest)):
        return None
    if any(map(_vector_work, product)) or not any(map(_vector_work, rest)):
        return None
    return [late(sent), early(made), late(rest), early(product)]


def _vector_work(s: Stmt) -> bool:
    return not works_on_cube(s) and any(map(_works_in_ub, statements(s)))


def _while_results_leave(first: list, second: list, windows: list) -> list[Stmt]:
    """Early and late statements: these are behind the others, or in front of the first product that waits for a result of its iteration to leave L0C, if
    they have products themselves."""
    early, late = windows
    leaving: list = []
    for n, s in enumerate(first if any(map(_of_products, second)) else ()):
        uses = uses_of(s)
        if _of_products(s) and any(conflict(x, uses) for x in leaving):
            return [x for x in (early(first[:n]), late(second), early.inside(first[:n])(first[n:])) if x]
        if leaves_l0c(s):
            leaving.append(uses)
    return [w(x) for w, x in zip(windows, (first, second))]


def _alike(a: Stmt, b: Stmt) -> bool:
    """True for two loops of the cube core with as many iterations, whose names may be asked for again: the loops write nothing they read."""
    loops = isinstance(a, For) and isinstance(b, For) and a.kind == b.kind == ForKind.SERIAL
    if not loops or const_int(a.extent) is None or const_int(a.extent) != const_int(b.extent) or const_int(a.min) != const_int(b.min):
        return False
    return all(_of_products(s) and not any(conflict(uses_of(x), uses_of(s)) for x in stmts_of(s.body) if _is_name(x)) for s in (a, b))


def _of_products(s: Stmt) -> bool:
    """True for work of the cube core with a product."""
    return any(is_op(x, GEMM) for x in statements(s)) and not any(map(_works_in_ub, statements(s)))


def _works_in_ub(s: Stmt) -> bool:
    return crosses(s) != "cube" and any(scope_of(b) == "shared.ub" for b in own_uses(s).all)


def _in_front(body: list, wanted: Callable) -> tuple[list, list]:
    """Statements that are `wanted` in front, where nothing in front of them is in their way, and the rest."""
    front: list = []
    rest: list = []
    for s in body:
        blocked = any(conflict(uses_of(x), uses_of(s)) for x in rest)
        (front if wanted(s) and not blocked else rest).append(s)
    return front, rest


def _loads_first(body: list, to: str | None = None) -> tuple[list, list]:
    """Loads from GM, to memories of one scope or (None) of all, and the rest (`_in_front`)."""
    return _in_front(body, lambda s: is_load(s) and to in (None, scope_of(s.value.args[1].source)))


def _arrived_first(body: list) -> list:
    """Late statements with loads to UB in front: what they bring has been there for some iterations."""
    names, work = ([s for s in body if _is_name(s) == is_name] for is_name in (True, False))
    loads, rest = _loads_first(work, "shared.ub")
    return [*names, *loads, *rest] if loads else body


def _needed_by(body: list, j: int) -> set[int]:
    """Positions in front of `j` of what has to stay there."""
    uses, needed = [uses_of(s) for s in body], {j}
    for n in reversed(range(j)):
        if any(conflict(uses[n], uses[m]) for m in needed if m > n):
            needed.add(n)
    return needed - {j}


class _Earlier(StmtMutator):
    """What a statement does `distance` iterations before that of `var`. Numbers of versions are never those of numbers below zero."""

    def __init__(self, var: Var, distance: int):
        self.var, self.distance = var, distance

    def expr(self, e):
        if isinstance(e, tirx.FloorMod) and e.a is self.var or (isinstance(e, tirx.FloorMod) and self.var.same_as(e.a)):
            n = const_int(e.b)
            if n is not None and n > 0:
                return tirx.floormod(self.var + imm(-self.distance % n, dtype_of(self.var)), e.b)
        if isinstance(e, Var) and e.same_as(self.var):
            return e - imm(self.distance, dtype_of(e))
        return map_children(e, self.expr)


def _enough_versions(loop: For, body: list, late: list) -> bool:
    """True if every tile and workspace that early and late statements share, and some of them write, has a version for each of the
    iterations in between and both ends, or if no two iterations use the same place of it."""
    uses = [uses_of(s) for s in body]
    early, behind = (set().union(*(u.all for u, n in zip(uses, late) if bool(n) == side)) for side in (False, True))
    written = set().union(*(u.writes for u in uses))
    shared = [b for b in early & behind & written if not (const_int(b.ty.shape[0]) or 0) > max(late)]
    return all(apart(loop, b) for b in shared)


def _loads_in_time(body: list, late: list) -> bool:
    """True if the late statements of a loop of vector work leave what they share with loads as soon as they begin, or have a version of it to spare:
    else the next load, and early work with it, waits until they are through."""
    loaded = {s.value.args[1].source for s, n in zip(body, late) if not n and is_load(s)}
    behind = [uses_of(s) for s, n in zip(body, late) if n and not isinstance(s, AllocBuffer) and not _is_name(s)]
    return all(const_int(b.ty.shape[0]) > max(late) + 1 or not any(b in u.all for u in behind[1:]) for b in loaded)


class _Annotated(StmtMutator):
    """Other annotations on loops."""

    def __init__(self, annotations: dict):
        self.annotations = annotations

    def visit_For(self, s: For):
        new = self.generic(s)
        if s not in self.annotations:
            return new
        return For(s.loop_var, s.min, s.extent, s.kind, new.body, annotations=self.annotations[s], span=s.span)


def with_less_skew(func: PrimFunc) -> tuple[PrimFunc, str] | None:
    """`func` with the statements of vector loops in step or, if they are, with tiles one after the other or, if they are, with the statements of
    all loops in step, and what that means; None if they are."""
    loops = [s for s in statements(func.body) if isinstance(s, For)]
    skewed, chained = ([s for s in loops if a in s.annotations] for a in (SKEW, CHAINED))
    ways = (
        ([s for s in skewed if not works_on_cube(s)], (SKEW,), "vector work of an iteration ends before that of the next one begins"),
        (chained, (CHAINED, BEHIND), "a tile ends before the next one begins"),
        (skewed, (SKEW,), "cube and vector cores take turns in loops"),
    )
    return next(((_annotated(func, {s: _without(s, *what) for s in loops}), text) for loops, what, text in ways if loops), None)


def with_nests_when_needed(func: PrimFunc) -> tuple[PrimFunc, str] | None:
    """`func` with nests whose results nothing but late vector work needs late, too, and what that means; None if they are. It takes less room in UB."""
    skewed = [s for s in statements(func.body) if isinstance(s, For) and SKEW in s.annotations and works_on_cube(s)]
    later = {
        s: {**dict(s.annotations), SKEW: " ".join(map(str, late))} for s in skewed if (late := _when_needed(s, func.body)) != lateness(s)
    }
    return (_annotated(func, later), "what only late vector work needs is made with it") if later else None


def _annotated(func: PrimFunc, annotations: dict) -> PrimFunc:
    return func.with_body(_Annotated(annotations)(func.body))


def _when_needed(loop: For, whole: Stmt) -> list[int]:
    """The lateness of the statements of a loop, where nests whose results nothing but late vector work needs, such as masks, are as late: these have to have no
    versions for the iterations in between. What is loaded comes early."""
    late, body = lateness(loop), stmts_of(loop.body)
    own = own_buffers(loop, whole)
    uses = [uses_of(s) for s in body]
    for i in reversed(range(len(body))):
        if late[i] or not is_parallel(body[i]) or works_on_cube(body[i]):
            continue
        front = [conflicts(uses[k], uses[i]) for k in range(i) if not late[k]]
        behind = [j for j in range(i + 1, len(body)) if conflict(uses[i], uses[j])]
        if behind and all(late[j] and not works_on_cube(body[j]) for j in behind) and all(shared <= own for shared in front):
            late[i] = max(late)
    return late


def rotate_loops(func: PrimFunc) -> PrimFunc:
    """Apply to a Tile IR function with versions."""
    return func.with_body(_Rotate(func.body)(func.body))


__all__ = ["rotate_loops", "with_less_skew", "with_nests_when_needed"]
