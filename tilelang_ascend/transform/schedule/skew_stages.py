"""skew_stages: loops whose values go from one kind of core to the other and back say which statements run iterations behind.

Before:  for k: gemm(Q, K[k], s); copy(s, ws_s);  copy(ws_s, x); p = softmax(x); copy(p, ws_p);  copy(ws_p, P); gemm(P, V[k], o); …
After:   for k [skew "0 0 0 0 0 2 2 …"]: the same

A wait for the other kind of core holds a core as a whole: written like this, the cube core does nothing while softmax(k) runs, and the
vector cores nothing while a product is made, however many versions tiles have. The statements of an iteration are a graph; a value that
changes sides begins a new stage. What stands in stages 2 and later (behind a way there and back) may run some iterations later, beside
stages 0 and 1 of a later one, if no value makes the round in the other direction: buffers that every iteration overwrites first get a version
for each iteration, and statements around any other buffer stay together, at the later place. `rotate_loops` does it when versions are known.

The same of values that begin on the vector cores: what these do with a product of what they have sent runs behind. A loop inside that is work of both kinds
of core is one statement; vector work that waits for the cube core, and that nothing early needs, then runs late as well. In loops of the cube core alone,
products that need a result of this iteration which has left L0C run one iteration behind.

Where nothing can run late although values go there and back in every iteration, a note says which statement forbids it.

A branch with products, as in kernels that skip blocks (`if Mask[k] != 0: …`), is a condition on each of its statements, which is asked again for late ones;
names in it are worked out whether it is taken or not.

Requires: mapped Tile IR; no pass may change loops between this one and `rotate_loops`. Ensures: annotation `tl.skew` on loops: by how many
iterations each statement of the body is late.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product
from typing import Any, Callable

from ...analysis.index.known_lets import known_lets
from ...analysis.tiles.core_kinds import CUBE_SCOPES, crosses
from ...analysis.tiles.home_loops import own_buffers
from ...errors import location_of
from ...ir import (
    AllocBuffer,
    Bind,
    BufferStore,
    For,
    IfThenElse,
    PrimFunc,
    Stmt,
    StmtMutator,
    Var,
    const_int,
    dtype_of,
    exprs,
    scope_of,
    seq,
    statements,
    stmts_of,
    sym,
)
from ...tile import ASSUME, conditions, is_op
from ...tile.jumps import may_leave
from ...tile.uses import (
    SKEW,
    Uses,
    conflict,
    conflicts,
    is_output,
    is_parallel,
    is_scalar_var,
    lateness,
    leaves_l0c,
    loads_in,
    own_uses,
    uses_of,
)

CUBE, VECTOR = "cube", "vector"
DISTANCE, LONG_DISTANCE = 2, 3
"""Iterations between the first stages and the last. The best hand-written kernels use one or two: with one, the way of a value to the other
core and back (transfers, flags, the work there) takes longer than what the cores have to do meanwhile. Where both products have parts, which alternate
(`rotate_loops`), the values of one iteration are complete at its end only."""

WORTH_TRIPS = 4
"""An unknown number of trips that is always smaller is not worth the branches."""


IN_STEP = "what one kind of core makes in an iteration, the other needs in the next one"


@dataclass(frozen=True)
class Obstacle:
    """Why no statement of a loop can run late. `span`: of the statement that forbids it."""

    reason: str
    span: Any = None


def offsets_of(loop: For, find_own: Callable, known: sym.Analyzer, constant: Callable) -> list[int] | Obstacle | None:
    """Iterations by which each statement of a loop is late; why not, if the body does not allow it; None if nothing is to be gained. `find_own` gives
    buffers that every iteration overwrites first, and nothing else uses. `known`: what lets are worth. `constant`: whether an expression reads
    nothing the function writes."""
    body = stmts_of(loop.body)
    if is_parallel(loop) or const_int(loop.extent) == 0:
        return None
    sides = [_by_core(s, constant) for s in body]
    found = _ends_unknown(loop, known, constant) or next(filter(None, map(_fixed, body, sides, [constant] * len(body))), None)
    if found is not None:
        return found
    if CUBE not in set().union(*sides):
        return None
    uses = [uses_of(s) for s in body]
    pairs = [(i, j, shared) for i, j in combinations(range(len(body)), 2) if (shared := conflicts(uses[i], uses[j]))]
    if VECTOR in set().union(*sides):
        distance = _distance(loop, sides)
        stages = _stages(sides, pairs)
        late = [distance * (n >= 2) for n in stages]
        if any(len(cores) > 1 for cores in sides):
            late = _as_late_as_possible(_as_accumulators(late, uses, pairs), stages, sides, pairs)
    else:
        late = _behind_results(body, pairs)
    if not any(late):
        return Obstacle(IN_STEP)
    own = find_own()
    alone, late = late, _together(late, own, uses, pairs)
    products = [conditions.has_product(s) for s in body]
    early = any(is_product and not n for is_product, n in zip(products, late))
    worth = any(n and (is_product or VECTOR in cores) for is_product, n, cores in zip(products, late, sides))
    return late if early and worth else _carried(body, alone, own, pairs)


def _carried(body: list[Stmt], late: list[int], own: set, pairs: list) -> Obstacle:
    """What keeps statements of a loop together that might run late on their own."""
    for i, j, shared in pairs:
        kept = sorted(b.name for b in shared - own)
        if late[j] > late[i] and kept:
            return Obstacle(f"'{kept[0]}' goes from iteration to iteration", body[j].span)
    return Obstacle(IN_STEP)


def _together(late: list[int], own: set, uses: list[Uses], pairs: list) -> list[int]:
    """`late`, where nobody is earlier than what it needs, and as late as everybody it shares another buffer with than `own` ones. Nor are a fill of an
    accumulator, the product it is for, and who reads it, apart: zero by agreement is no value one could keep a version of."""
    late = list(late)
    while True:
        before = list(late)
        for i, j, shared in pairs:
            late[j] = max(late[j], late[i])
            if shared - own or _in_l0c(shared):
                late[i] = late[j]
        if late == before:
            return late


def _in_l0c(buffers: set) -> bool:
    return any(scope_of(b) == "local.l0c" for b in buffers)


def _as_accumulators(late: list[int], uses: list[Uses], pairs: list) -> list[int]:
    """`late`, and who reads an accumulator no later than who adds to it: work of both kinds of core that begins early ends in an early statement."""
    late = list(late)
    for j, found in enumerate(uses):
        writers = [i for i, k, shared in pairs if k == j and _in_l0c(shared)]
        if writers and not _in_l0c(found.writes):
            late[j] = max(late[i] for i in writers)
    return late


def _as_late_as_possible(late: list[int], stages: list[int], sides: list, pairs: list) -> list[int]:
    """`late`, and vector work that waits for the other kind of core, if nothing but late vector work needs it, behind long work of both."""
    late = list(late)
    for i in reversed(range(len(late))):
        behind = [j for k, j, _ in pairs if k == i]
        if stages[i] and set(sides[i]) == {VECTOR} and behind and all(late[j] and set(sides[j]) == {VECTOR} for j in behind):
            late[i] = max(late)
    return late


def _behind_results(body: list[Stmt], pairs: list) -> list[int]:
    """Lateness of statements of the cube core alone: by one iteration what needs a result of this one that has left L0C."""
    left = {b for s in body if leaves_l0c(s) for b in uses_of(s).writes}
    return [int(any(k == j and shared & left & uses_of(s).reads for _, k, shared in pairs)) for j, s in enumerate(body)]


def _stages(sides: list, pairs: list) -> list[int]:
    """The number of times that what a statement begins with has changed sides. `sides`: of each statement, uses by core. pairs: (i, j, …) of statements
    that must keep their order."""
    begins, ends = [0] * len(sides), [dict.fromkeys(cores, 0) for cores in sides]
    for j, cores in enumerate(sides):
        begin = dict.fromkeys(cores, 0)
        for i in (i for i, k, _ in pairs if k == j):
            for a, b in product(ends[i], cores):
                if conflict(sides[i][a], cores[b]):
                    begin[b] = max(begin[b], ends[i][a] + ({a, b} == {CUBE, VECTOR}))
        begins[j] = min(begin.values())
        ends[j] = _within(begin, cores)
    return begins


def _within(begin: dict, cores: dict) -> dict:
    """How often what a statement leaves behind has changed sides. `begin`: the same of what it begins with; both by core."""
    if len(begin) == 1:
        return begin
    there, back = (cores[a].writes & cores[b].reads for a, b in ((VECTOR, CUBE), (CUBE, VECTOR)))
    if there and back:
        return dict.fromkeys(begin, max(begin.values()) + 2)
    end = dict(begin)
    for a, b, values in ((VECTOR, CUBE, there), (CUBE, VECTOR, back)):
        if values:
            end[b] = max(end[b], end[a] + 1)
    return end


def _distance(loop: For, sides: list) -> int:
    """Iterations between the first and the last stages of a loop. Where a statement is work of both kinds of core, as a loop is, it takes long enough."""
    if any(len(cores) > 1 for cores in sides):
        return 1
    in_parts = sum(isinstance(s, For) and conditions.has_product(s) for s in stmts_of(loop.body)) > 1
    return LONG_DISTANCE if in_parts else DISTANCE


def _ends_unknown(loop: For, known: sym.Analyzer, constant: Callable) -> Obstacle | None:
    """Why a loop has too few iterations, or has ends that may not be asked for again behind it: the body may have written what they read."""
    if not constant(loop.min) or not constant(loop.extent):
        return Obstacle("how often it runs depends on what the kernel writes", loop.span)
    if const_int(loop.extent) is None and known.const_int_bound(loop.extent).max_value < WORTH_TRIPS:
        return Obstacle(f"it runs less than {WORTH_TRIPS} times, and how often is not known", loop.span)
    return None


def _fixed(s: Stmt, sides: dict | None, constant: Callable) -> Obstacle | None:
    """Why a statement cannot run in another iteration. `sides`: what it uses, by the kind of core."""
    if may_leave(s):
        return Obstacle("an iteration may be left early", s.span)
    if any(is_output(x) for x in statements(s)):
        return Obstacle("it prints", s.span)
    if isinstance(s, Bind) and not constant(s.value):
        return Obstacle(f"'{s.var.name}' is made of what the kernel writes", s.span)
    return None if sides is not None else Obstacle("a statement is work of both kinds of core, or of the scalar unit", s.span)


def _by_core(s: Stmt, constant: Callable) -> dict | None:
    """What a statement uses, by the kind of core; "" stands for either, which a statement is alone that needs none. None for other work than that of
    tiles, and for work of both kinds that a skewed loop does, or one that decides by what it finds in tiles."""
    if isinstance(s, (AllocBuffer, Bind)) or is_op(s, ASSUME) or _sets_scalar(s, constant):
        return {"": uses_of(s)}
    side = _side_of(s)
    if side != "both":
        return {side: uses_of(s)} if side else None
    by_core: dict = {}
    for x in statements(s):
        if isinstance(x, For) and any(lateness(x)) or isinstance(x, BufferStore) and is_scalar_var(x.buffer):
            return None
        found = own_uses(x)
        side = _own_side(x)
        if side == "both" or not side and (found.writes or not all(map(constant, exprs(x)))):
            return None
        if side:
            uses = by_core.setdefault(side, Uses())
            uses.reads |= found.reads
            uses.writes |= found.writes
    return by_core


def _side_of(s: Stmt) -> str:
    """The same of a statement with all that is in it."""
    side = _side(uses_of(s))
    if side != "both":
        return side
    inside = {_own_side(x) for x in statements(s)} - {""}
    return next(iter(inside)) if len(inside) == 1 else "both"


def _own_side(s: Stmt) -> str:
    """The same of a statement without its children."""
    return crosses(s) or _side(own_uses(s))


def _side(uses: Uses) -> str:
    """The kind of core that works on such tiles, "both", or "" if either may."""
    scopes = {scope_of(b) for b in uses.all}
    cube, vector = bool(scopes & set(CUBE_SCOPES)), "shared.ub" in scopes
    return "both" if cube and vector else CUBE if cube else VECTOR if vector else ""


def _sets_scalar(s: Stmt, constant: Callable) -> bool:
    """True for a scalar variable that is set to what either core knows, from other such variables or none, if something holds that either knows. All that use one
    that a loop sets are equally late (`_together`)."""
    if isinstance(s, IfThenElse):
        return constant(s.condition) and all(
            _sets_scalar(x, constant) for arm in (s.then_case, s.else_case) if arm is not None for x in stmts_of(arm)
        )
    return isinstance(s, BufferStore) and is_scalar_var(s.buffer) and all(is_scalar_var(x.source) or constant(x) for x in loads_in(s.value))


def _goes_round(loop: For) -> bool:
    """True if values go from cube to vector cores in a loop, and others from vector to cube cores."""
    reads: dict = {CUBE: set(), VECTOR: set()}
    writes: dict = {CUBE: set(), VECTOR: set()}
    for s in statements(loop.body):
        found = own_uses(s)
        side = _own_side(s)
        if side in reads:
            reads[side] |= found.reads
            writes[side] |= found.writes
    return bool(writes[CUBE] & reads[VECTOR]) and bool(writes[VECTOR] & reads[CUBE])


class _Skew(StmtMutator):
    def __init__(self, body: Stmt, notes: list):
        self.notes, self.body = notes, body
        self.known, self.written = known_lets(body), uses_of(body).writes

    def constant(self, e) -> bool:
        """True for expressions that read nothing the function writes, such as lengths and tables of pages."""
        return conditions.is_lasting(e, self.written)

    def divided(self, s: For) -> For:
        """A loop with the statements of branches that have products each under their conditions, if these are known whenever they run."""
        body: list[Stmt] = []
        for x in stmts_of(s.body):
            body += conditions.apart(x, self.constant) or [x]
        return For(s.loop_var, s.min, s.extent, s.kind, seq(body), annotations=dict(s.annotations), span=s.span)

    def tell(self, s: For, obstacle: Obstacle) -> None:
        """A note on a loop whose values go round, if that is not so of a loop inside."""
        if not _goes_round(s) or any(isinstance(x, For) and x is not s and _goes_round(x) for x in statements(s)):
            return
        where = location_of(obstacle.span)
        self.notes.append(
            f"cube and vector cores take turns in the loop over '{s.loop_var.name}': {obstacle.reason}" + (f" ({where})" if where else "")
        )

    def visit_For(self, s: For):
        whole = self.generic(s)
        new = self.divided(whole)
        offsets = offsets_of(
            new,
            lambda: own_buffers(s, self.body),
            self.known,
            self.constant,
        )
        if isinstance(offsets, Obstacle):
            self.tell(s, offsets)
        if not isinstance(offsets, list):
            return whole
        notes = {**dict(s.annotations), SKEW: " ".join(map(str, offsets))}
        if not loads_in(s.extent):
            return For(s.loop_var, s.min, s.extent, s.kind, new.body, annotations=notes, span=s.span)
        trips = Var("trips", dtype_of(s.extent))
        return seq(Bind(trips, s.extent), For(s.loop_var, s.min, trips, s.kind, new.body, annotations=notes, span=s.span))


def skew_stages(func: PrimFunc, notes: list | None = None) -> PrimFunc:
    """Apply to a mapped Tile IR function. Why loops stay in step is added to `notes`."""
    return func.with_body(_Skew(func.body, [] if notes is None else notes)(func.body))


__all__ = ["skew_stages"]
