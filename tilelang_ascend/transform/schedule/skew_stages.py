"""skew_stages: loops whose values go from one kind of core to the other and back say which statements run iterations behind.

Before:  for k: gemm(Q, K[k], s); copy(s, ws_s);  copy(ws_s, x); p = softmax(x); copy(p, ws_p);  copy(ws_p, P); gemm(P, V[k], o); …
After:   for k [skew "0 0 0 0 0 2 2 …"]: the same

A wait for the other kind of core holds a core as a whole: written like this, the cube core does nothing while softmax(k) runs, and the
vector cores nothing while a product is made, however many versions tiles have. The statements of an iteration are a graph; a value that
changes sides begins a new stage. What stands in stages 2 and later (behind a way there and back) may run some iterations later, beside
stages 0 and 1 of a later one, if no value makes the round in the other direction: buffers that every iteration overwrites first get a version
for each iteration, and statements around any other buffer stay together, at the later place. `rotate_loops` does it when versions are known.

Requires: mapped Tile IR; no pass may change loops between this one and `rotate_loops`. Ensures: annotation `tl.skew` on loops: by how many
iterations each statement of the body is late.
"""

from __future__ import annotations

from itertools import combinations
from typing import Callable

from ...analysis.tiles.core_kinds import CUBE_SCOPES
from ...analysis.tiles.home_loops import KnownUses, core_number, home_loops, versioned_buffers
from ...ir import AllocBuffer, Bind, For, PrimFunc, Stmt, StmtMutator, Var, const_int, dtype_of, scope_of, seq, statements, stmts_of, sym
from ...tile import ASSUME, GEMM, is_op
from ...tile.jumps import may_leave
from ...tile.uses import SKEW, conflicts, is_output, is_parallel, is_scalar_var, loads_in, uses_of

CUBE, VECTOR = "cube", "vector"
DISTANCE, LONG_DISTANCE = 2, 3
"""Iterations between the first stages and the last. The best hand-written kernels use one or two: with one, the way of a value to the other
core and back (transfers, flags, the work there) takes longer than what the cores have to do meanwhile. Where both products have parts, which alternate
(`rotate_loops`), the values of one iteration are complete at its end only."""

WORTH_TRIPS = 4
"""An unknown number of trips that is always smaller is not worth the branches."""


def offsets_of(loop: For, own: set, known: sym.Analyzer, constant: Callable) -> list[int] | None:
    """Iterations by which each statement of a loop is late; None if nothing is to be gained or the body does not allow it. `own`: buffers
    that every iteration overwrites first, and nothing else uses. `known`: what lets are worth. `constant`: whether an expression reads
    nothing the function writes."""
    body = stmts_of(loop.body)
    if not _rotatable(loop, known, constant) or not all(_movable(s, constant) for s in body):
        return None
    sides = [_side(s) for s in body]
    if None in sides or not {CUBE, VECTOR} <= set(sides):
        return None
    uses = [uses_of(s) for s in body]
    pairs = [(i, j, shared) for i, j in combinations(range(len(body)), 2) if (shared := conflicts(uses[i], uses[j]))]
    stages = [0] * len(body)
    for i, j, _ in pairs:
        stages[j] = max(stages[j], stages[i] + ({sides[i], sides[j]} == {CUBE, VECTOR}))
    distance = _distance(loop)
    late = [distance * (n >= 2) for n in stages]
    if any(is_scalar_var(b) for u in uses for b in u.writes):
        return None  # either core keeps its own
    while True:
        before = list(late)
        for i, j, shared in pairs:
            late[j] = max(late[j], late[i])
            if shared - own or any(scope_of(b) == "local.l0c" for b in uses[i].writes & uses[j].writes):
                late[i] = late[j]  # also a fill and the product it is for: zero by agreement is no value one could keep a version of
        if late == before:
            break
    products = {late[i] for i, s in enumerate(body) if any(is_op(x, GEMM) for x in statements(s))}
    return late if products == {0, distance} else None


def _distance(loop: For) -> int:
    """Iterations between the first and the last stages of a loop."""
    in_parts = sum(isinstance(s, For) and any(is_op(x, GEMM) for x in statements(s)) for s in stmts_of(loop.body)) > 1
    distance, trips = LONG_DISTANCE if in_parts else DISTANCE, const_int(loop.extent)
    return distance if trips is None else min(distance, trips - 1)


def _rotatable(loop: For, known: sym.Analyzer, constant: Callable) -> bool:
    """True for loops of several iterations whose ends may be asked for again behind them: the body may have written what they read."""
    if is_parallel(loop) or const_int(loop.extent) in (0, 1) or not constant(loop.min) or not constant(loop.extent):
        return False
    return const_int(loop.extent) is not None or known.const_int_bound(loop.extent).max_value >= WORTH_TRIPS


def _movable(s: Stmt, constant: Callable) -> bool:
    if may_leave(s) or any(is_output(x) for x in statements(s)):
        return False
    return not isinstance(s, Bind) or constant(s.value)


def _side(s: Stmt) -> str | None:
    """The kind of core a statement needs; "" if it needs none, None if both or another one than tile work."""
    if isinstance(s, (AllocBuffer, Bind)) or is_op(s, ASSUME):
        return ""
    scopes = {scope_of(b) for b in uses_of(s).all}
    cube, vector = bool(scopes & set(CUBE_SCOPES)), "shared.ub" in scopes
    return None if cube == vector else CUBE if cube else VECTOR


class _Skew(StmtMutator):
    def __init__(self, body: Stmt):
        uses, core = KnownUses(), core_number(body)
        self.known, self.written = sym.Analyzer(), uses_of(body).writes
        self.homes = {b: home_loops(body, b, uses, core) for b in versioned_buffers(body)}

    def visit_Bind(self, s: Bind):
        if dtype_of(s.var) in ("int32", "int64") and not loads_in(s.value):
            self.known.bind(s.var, s.value)
        return s

    def constant(self, e) -> bool:
        """True for expressions that read nothing the function writes, such as lengths and tables of pages."""
        return all(x.source not in self.written for x in loads_in(e))

    def visit_For(self, s: For):
        own = {b for b, homes in self.homes.items() if any(home.same_as(s) for home in homes)}
        offsets = offsets_of(s, own, self.known, self.constant)
        if offsets is None:
            return self.generic(s)
        notes = {**dict(s.annotations), SKEW: " ".join(map(str, offsets))}
        if not loads_in(s.extent):
            return For(s.loop_var, s.min, s.extent, s.kind, s.body, annotations=notes, span=s.span)
        trips = Var("trips", dtype_of(s.extent))
        return seq(Bind(trips, s.extent), For(s.loop_var, s.min, trips, s.kind, s.body, annotations=notes, span=s.span))


def skew_stages(func: PrimFunc) -> PrimFunc:
    """Apply to a mapped Tile IR function."""
    return func.with_body(_Skew(func.body)(func.body))


__all__ = ["skew_stages"]
