"""chain_tiles: tiles of one core follow each other without a pause where their loops have late statements.

Before:  for t [persistent]: load(Q); fill(o); for k [skew "0 0 2"]: …; store(o)
After:   for t [persistent, chained "0 2 0 2"]: the same

A loop whose late statements run some iterations behind begins with iterations without late ones and ends with some without early ones, each time
it runs: once for every tile of a core. Statements around the loop are early or late like those in it: what early ones need, or what has to stay in
front of them, is early, everything else late. Then the late half of a tile may be on its way while the early half of the next one begins, if
nothing they share is in the way: what passes from early to late statements in the loop has a version for each iteration, and what else both use,
and some write, gets one for each of two tiles. `rotate_loops` does it when versions are known.

Requires: mapped Tile IR with the annotations of `skew_stages`. Ensures: annotation `tl.chained` on persistent loops: by how many iterations of
the loop inside each statement of the body is late.
"""

from __future__ import annotations

from functools import cached_property

from ...analysis.index.value_facts import at_loops
from ...analysis.tiles.core_kinds import crosses, works_on_cube
from ...analysis.tiles.home_loops import KnownUses, core_number, home_loops, versioned_buffers
from ...ir import AllocBuffer, Bind, For, IfThenElse, PrimFunc, Stmt, StmtMutator, While, const_int, exprs, scope_of, statements, stmts_of
from ...tile import ASSUME, is_op
from ...tile.jumps import may_leave
from ...tile.uses import CHAINED, INDEPENDENT, Uses, conflict, is_output, lateness, loads_in, on_chip, uses_of


def lateness_around(loop: For, homes: dict, workspaces: set, long_enough: dict) -> list[int] | None:
    """Iterations of the loop inside by which each statement of a persistent loop may be late; None if tiles cannot be chained. `homes`: the
    loops that number versions of a buffer. long_enough: loop -> has it surely as many
    iterations as its late statements are behind?"""
    body = stmts_of(loop.body)
    inner = [s for s in body if isinstance(s, For) and any(lateness(s)) and works_on_cube(s)]
    if const_int(loop.extent) == 1 or const_int(loop.min) != 0 or loads_in(loop.extent) or len(inner) != 1:
        return None
    (own,) = inner
    late = max(lateness(own))
    if not long_enough[own] or const_int(own.min) != 0 or not all(_plain(s, s is own) for s in body):
        return None
    uses = {s: uses_of(s) for s in body}
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
    """True if whatever both sides use, and one of them writes, has or may have versions for two tiles."""
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


def _plain(s: Stmt, is_own: bool) -> bool:
    """True for statements that may run at another time: work of one kind of core outside of the loop inside, which says nothing, leaves nothing
    and decides nothing by what it finds in tiles."""
    inside = list(statements(s))
    if may_leave(s) or any(isinstance(x, While) or is_output(x) for x in inside):
        return False
    if not is_own and any(map(crosses, inside)):
        return False
    heads = (e for x in inside if isinstance(x, (Bind, IfThenElse, For)) for e in exprs(x))
    if any(loads_in(e) for e in heads):
        return False
    uses = uses_of(s)
    if any(scope_of(b) == "local.var" for b in uses.all):
        return False
    return is_own or not works_on_cube(s) or not any(scope_of(b) in ("local.l0c", "shared.ub") for b in uses.all)


class _Chain(StmtMutator):
    def __init__(self, func: PrimFunc):
        self.func, body = func, func.body
        uses, core = KnownUses(), core_number(body)
        self.homes = {b: home_loops(body, b, uses, core) for b in versioned_buffers(body)}
        self.workspaces = {b for b in self.homes if not on_chip(b)}

    @cached_property
    def long_enough(self) -> dict:
        """Loop -> does it have as many iterations as its late statements are behind, whenever the program comes by? Then two tiles at most are under
        way; known numbers are no smaller."""
        return at_loops(
            self.func, lambda facts, s: any(lateness(s)) and (const_int(s.extent) is not None or facts.proves(s.extent >= max(lateness(s))))
        )

    def visit_For(self, s: For):
        offsets = lateness_around(s, self.homes, self.workspaces, self.long_enough) if INDEPENDENT in s.annotations else None
        if offsets is None:
            return s
        notes = {**dict(s.annotations), CHAINED: " ".join(map(str, offsets))}
        return For(s.loop_var, s.min, s.extent, s.kind, s.body, annotations=notes, span=s.span)


def chain_tiles(func: PrimFunc) -> PrimFunc:
    """Apply to a mapped Tile IR function."""
    return func.with_body(_Chain(func)(func.body))


__all__ = ["chain_tiles"]
