"""pair_tiles: two tiles of a core may be worked on side by side.

Before:  for t in range(2 * n) [persistent]: load(S[t], s); for k: gemm(X[k], s, p); copy(p, ws); copy(ws, x); s = f(x)
After:   for t in range(n) [persistent]:
             load(S[2 * t], s); load(S[2 * t + 1], s_2)
             for k: gemm(X[k], s, p); gemm(X[k], s_2, p_2); copy(p, ws); copy(p_2, ws_2); …; s = f(x); s_2 = f(x_2)

What goes from step to step by way of both kinds of core, as the state of a recurrence does, leaves nothing that could run late (`skew_stages`): while one
kind of core works, the other one waits. So does a vector unit in a chain of short instructions, each of which needs the one before. Blocks of a grid need
nothing of each other: with the statements of a second one in between, each waits for its own block only. Loops with the same ends are one;
statements take turns one by one or, where there are two kinds of core, in runs of one kind, so that a core hands on what it has made before it turns to the
other tile.

Tiles of both have to have room, and what is left over, where the number of tiles is odd, takes code of its own: the machine model decides
(`pipeline.lower`). Everything that is declared has to be overwritten first by each tile.

Requires: mapped Tile IR behind skew_stages, before chain_tiles. Ensures: the same values.
"""

from __future__ import annotations

from ...analysis.index.known_lets import known_lets
from ...analysis.tiles.core_kinds import uses_cube, uses_vector
from ...analysis.tiles.home_loops import core_number, overwritten_first
from ...ir import (
    AllocBuffer,
    For,
    IfThenElse,
    PrimFunc,
    Stmt,
    const_int,
    dtype_of,
    imm,
    redeclared,
    renew,
    seq,
    statements,
    stmts_of,
    substitute,
    tirx,
)
from ...tile.uses import INDEPENDENT, PAIRED, SKEW, is_parallel, lateness, loads_in, used_outside, uses_of
from .core_time import Model
from .side_by_side import TILES, another, is_mixed, may_stand_beside, side_by_side

LEAST_LATENCY = 1 / 4
"""Share of vector work that has to be latency."""


def pair_tiles(func: PrimFunc, chip, pairing) -> PrimFunc:
    """Apply to a mapped Tile IR function. pairing: an object whose `may_pair` becomes true if that may be worth it, and whose `pair` says whether to
    do it."""
    pairs = {}
    for s in stmts_of(func.body):
        if isinstance(s, For) and INDEPENDENT in s.annotations and _waits(func, s, chip) and (own := _own_buffers(func, s)) is not None:
            pairs[s] = own
    pairing.may_pair |= bool(pairs)
    if not pairs or not pairing.pair:
        return func
    taken = {b.name for b in uses_of(func.body).all}
    others = {b: [another(b, taken) for _ in range(TILES)] for own in pairs.values() for b in own}
    body = seq([x for s in stmts_of(func.body) for x in (_paired(s, others) if s in pairs else [s])])
    used = uses_of(body).all
    return func.with_body(redeclared(body, {b: [b, *(x for x in new if x in used)] for b, new in others.items()}))


def _waits(func: PrimFunc, loop: For, chip) -> bool:
    """True if a core has two of the tiles of a loop, and waits while it works on one: for the other kind of core in every step, or for its own results."""
    inside = list(statements(loop.body))
    cores = const_int(func.attrs["ascend.block_dim"])
    steps = [s for s in inside if isinstance(s, For) and not is_parallel(s)]
    if not steps or any(any(lateness(s)) for s in steps) or not may_stand_beside(loop.body):
        return False
    if (
        any(loads_in(e) for e in (loop.min, loop.extent))
        or known_lets(func.body, blocks=cores).const_int_bound(loop.extent).max_value < TILES
    ):
        return False
    if uses_cube(func.body):
        return uses_vector(func.body) and any(is_mixed([s]) for s in steps)
    with_latency, without = (Model(chip, cores, latency=latency).cost(loop.body).vector for latency in (True, False))
    return with_latency - without >= LEAST_LATENCY * with_latency


def _own_buffers(func: PrimFunc, loop: For) -> list | None:
    """What is declared and written in a loop; None if one of its iterations may find something there, or something else does."""
    written, core = uses_of(loop.body).writes, core_number(func.body)
    declared = [s.buffer for s in statements(func.body) if isinstance(s, AllocBuffer)]
    own = [b for b in declared if b in written]
    if used_outside(func.body, {loop, *statements(loop.body)}) & set(own):
        return None
    return own if all(overwritten_first(loop.body, b, core) for b in own) else None


def _paired(loop: For, others: dict) -> list[Stmt]:
    """The loop over pairs of tiles, and the tile that is left over. others: buffer of a tile -> those of the second one, and of the one that is left."""
    t, kind, number = loop.loop_var, dtype_of(loop.loop_var), const_int(loop.extent)
    notes = {name: note for name, note in dict(loop.annotations).items() if name != SKEW}

    def tile(which, buffers: int | None = None) -> list[Stmt]:
        """The work on tile number `which`, with other buffers or those of the loop."""
        own = {} if buffers is None else {b: new[buffers] for b, new in others.items()}
        return stmts_of(renew(substitute(loop.body, {t: loop.min + which, **own})))

    both = tile(t * TILES), tile(t * TILES + imm(1, kind), 0)
    pairs = imm(number // TILES, kind) if number is not None else tirx.floordiv(loop.extent, imm(TILES, kind))
    marked = notes if is_mixed(both[0]) else {**notes, PAIRED: 1}
    out: list[Stmt] = [For(t, imm(0, kind), pairs, loop.kind, seq(side_by_side(*both, in_turns=True)), annotations=marked, span=loop.span)]
    if number is None or number % TILES:
        last = seq(tile(pairs * TILES, 1))
        rest = tirx.floormod(loop.extent, imm(TILES, kind))
        out.append(last if number is not None else IfThenElse(tirx.NE(rest, imm(0, kind)), last, None, span=loop.span))
    return out


__all__ = ["pair_tiles"]
