"""chain_tiles: tiles of one core follow each other without a pause where their loops have late statements.

Before:  for t [persistent]: load(Q); fill(o); for k [skew "0 0 2"]: …; store(o)
After:   for t [persistent, chained "0 2 0 2", behind 1]: the same

A loop whose late statements run some iterations behind begins with iterations without late ones and ends with some without early ones, each time
it runs: once for every tile of a core. Statements around the loop are early or late like those in it: what early ones need, or what has to stay in
front of them, is early, everything else late. Then the late half of a tile may be on its way while the early half of the next one begins, if
nothing they share is in the way: what passes from early to late statements in the loop has a version for each iteration, and what else both use,
and some write, gets one for each tile that is under way: two where every tile has as many iterations as late statements are behind, one more for each
iteration by which they are if tiles may have only one. `rotate_loops` does it when versions are known. All of a tile may stand under one condition
on numbers and tensors nobody writes (`if bx * 64 < Length[bz]`).

Requires: mapped Tile IR with the annotations of `skew_stages`. Ensures: annotation `tl.chained` on persistent loops: by how many iterations of
the loop inside each statement of a tile (`tile_of`) is late, and `tl.behind`: by how many tiles; statements of other loops are late by fewer iterations
than these have.
"""

from __future__ import annotations

from functools import cached_property
from typing import Callable

from ...analysis.index.value_facts import at_loops
from ...analysis.tiles.core_kinds import crosses, works_on_cube
from ...analysis.tiles.home_loops import all_home_loops
from ...ir import AllocBuffer, Bind, For, IfThenElse, PrimFunc, Stmt, StmtMutator, While, const_int, exprs, scope_of, statements, stmts_of
from ...tile import ASSUME, is_op
from ...tile.conditions import is_lasting
from ...tile.jumps import may_leave
from ...tile.uses import BEHIND, CHAINED, INDEPENDENT, SKEW, Uses, conflict, is_output, lateness, on_chip, tile_of, uses_of, with_lateness


def _offsets(loop: For, own: For, body: list, homes: dict) -> list[int] | None:
    """By how many iterations of `own`, the loop inside, each statement of a tile (`body`) may be late; None if its late half may not run beside the early one
    of the next tile. homes: the loops that number versions of a buffer."""
    workspaces = {b for b in homes if not on_chip(b)}
    uses, late = {s: uses_of(s) for s in body}, max(lateness(own))
    sides = _sides(stmts_of(own.body), lateness(own))
    before, behind = body[: body.index(own)], body[body.index(own) + 1 :]
    if any(uses[s].all & workspaces for s in (*before, *behind)):
        return None
    held = [sides[0]]
    offsets = {s: late for s in behind}
    for s in reversed(before):
        early = any(conflict(uses[s], u) for u in held)
        offsets[s] = 0 if early else late
        held += [uses[s]] * early
    for s in (*before, *behind):
        side = sides[offsets[s] > 0]
        side.reads |= uses[s].reads
        side.writes |= uses[s].writes
    if not _apart(loop, own, sides, homes) or not _met_once([*before, *behind, *stmts_of(own.body)], workspaces):
        return None
    return [0 if s is own or _is_name(s) else offsets[s] for s in body]


def _sides(body: list, late: list) -> tuple[Uses, Uses]:
    """What early and late statements use."""
    sides = Uses(), Uses()
    for s, n in zip(body, late):
        found, side = uses_of(s), sides[n > 0]
        side.reads |= found.reads
        side.writes |= found.writes
    return sides


def _apart(loop: For, own: For, sides: tuple, homes: dict) -> bool:
    """True if whatever both sides use, and one of them writes, has or may have versions for several tiles."""
    written = sides[0].writes | sides[1].writes
    for b in sides[0].all & sides[1].all & written:
        found = homes.get(b, [])
        if len(found) == 1 and found[0].same_as(own):
            continue
        if not (len(found) == 1 and found[0].same_as(loop)):
            return False
    return True


def _met_once(body: list, workspaces: set) -> bool:
    """True if no tensor that is written is touched by a second statement: tiles need not tell each other about tensors."""
    found = [uses_of(s) for s in body]
    tensors = {b for u in found for b in u.writes if not on_chip(b) and b not in workspaces}
    return all(sum(b in u.all for u in found) == 1 and not any(b in u.reads for u in found) for b in tensors)


def _is_name(s: Stmt) -> bool:
    return isinstance(s, (AllocBuffer, Bind)) or is_op(s, ASSUME)


def _plain(s: Stmt, is_own: bool, constant: Callable) -> bool:
    """True for statements that may run at another time: work of one kind of core outside of the loop inside, which says nothing, leaves nothing
    and decides nothing by what the kernel writes."""
    inside = list(statements(s))
    if may_leave(s) or any(isinstance(x, While) or is_output(x) for x in inside):
        return False
    if not is_own and any(map(crosses, inside)):
        return False
    heads = (e for x in inside if isinstance(x, (Bind, IfThenElse, For)) for e in exprs(x))
    if not all(map(constant, heads)):
        return False
    uses = uses_of(s)
    if any(scope_of(b) == "local.var" for b in uses.all):
        return False
    return is_own or not works_on_cube(s) or not any(scope_of(b) in ("local.l0c", "shared.ub") for b in uses.all)


class _Chain(StmtMutator):
    def __init__(self, func: PrimFunc):
        self.func, self.written = func, uses_of(func.body).writes

    @cached_property
    def trips(self) -> dict:
        """Loop -> the iterations it has whenever the program comes by, as far as that is known: as many as its late statements are behind, one, or
        none."""
        return at_loops(self.func, _least_trips)

    def constant(self, e) -> bool:
        """True for expressions that read nothing the function writes."""
        return is_lasting(e, self.written)

    def lateness_around(self, loop: For) -> tuple[list[int], int] | None:
        """(Iterations of the loop inside by which each statement of a tile of a persistent loop may be late, tiles by which it may be); None if tiles cannot
        be chained."""
        names, condition, body = tile_of(loop)
        inner = [s for s in body if isinstance(s, For) and any(lateness(s)) and works_on_cube(s)]
        if const_int(loop.extent) == 1 or const_int(loop.min) != 0 or not self.constant(loop.extent) or len(inner) != 1:
            return None
        (own,) = inner
        if not self.trips[own] or const_int(own.min) != 0 or not all(_plain(s, s is own, self.constant) for s in (*names, *body)):
            return None
        if condition is not None and not self.constant(condition):
            return None
        offsets = _offsets(loop, own, body, all_home_loops(self.func.body))
        return None if offsets is None else (offsets, -(-max(lateness(own)) // self.trips[own]))

    def visit_For(self, s: For):
        found = self.lateness_around(s) if INDEPENDENT in s.annotations else None
        if found is None:
            return s
        offsets, behind = found
        notes = {**dict(s.annotations), CHAINED: " ".join(map(str, offsets)), BEHIND: behind}
        return For(s.loop_var, s.min, s.extent, s.kind, s.body, annotations=notes, span=s.span)


class _Alone(StmtMutator):
    """Late statements of loops that no tile follows are no further behind than there are iterations."""

    def __init__(self, body: Stmt):
        self.followed = {x for s in statements(body) if isinstance(s, For) and CHAINED in s.annotations for x in tile_of(s)[2]}

    def visit_For(self, s: For):
        new, trips, late = self.generic(s), const_int(s.extent), lateness(s)
        if trips is None or max(late, default=0) < trips or s in self.followed:
            return new
        notes = {name: note for name, note in dict(s.annotations).items() if name != SKEW}
        if trips > 1:
            notes[SKEW] = " ".join(str(min(n, trips - 1)) for n in late)
        return For(s.loop_var, s.min, s.extent, s.kind, new.body, annotations=notes, span=s.span)


def _least_trips(facts, s: For) -> int:
    late, known = max(lateness(s), default=0), const_int(s.extent)
    if not late or known == 0:
        return 0
    if known is not None:
        return min(late, known)
    return next((n for n in (late, 1) if facts.proves(s.extent >= n)), 0)


def chain_tiles(func: PrimFunc, chaining=None) -> PrimFunc:
    """Apply to a mapped Tile IR function. chaining: an object whose `chained` becomes true if tiles follow each other, as those without a loop
    inside may anyway."""
    chained = _Chain(func)(func.body)
    if chaining is not None:
        chaining.chained |= any(INDEPENDENT in s.annotations and with_lateness(s) for s in statements(chained) if isinstance(s, For))
    return func.with_body(_Alone(chained)(chained))


__all__ = ["chain_tiles"]
