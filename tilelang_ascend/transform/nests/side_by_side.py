"""Two bodies that do the same on tiles of their own, statement beside statement."""

from __future__ import annotations

from itertools import groupby

from ...analysis.tiles.core_kinds import CUBE_SCOPES, crosses
from ...ir import (
    AllocBuffer,
    Bind,
    For,
    ForKind,
    Stmt,
    While,
    decl_buffer,
    dtype_of,
    scope_of,
    seq,
    statements,
    stmts_of,
    structural_equal,
    substitute,
)
from ...tile.jumps import may_leave
from ...tile.uses import conflict, is_output, is_parallel, own_uses
from .gathered import uses_and_names

TILES = 2
"""Side by side."""


def may_stand_beside(body: Stmt) -> bool:
    """True if nothing in a body says anything, ends early, or goes on for as long as data says."""
    return not any(isinstance(s, While) or is_output(s) or may_leave(s) for s in statements(body))


def another(b, taken: set):
    """A buffer like `b` with a name of its own, which is added to those that are taken."""
    name = next(n for k in range(TILES, len(taken) + TILES + 1) if (n := f"{b.name}_{k}") not in taken)
    taken.add(name)
    return decl_buffer(list(b.ty.shape), dtype_of(b), name, scope=scope_of(b) or "global")


def side_by_side(first: list[Stmt], second: list[Stmt], in_turns: bool) -> list[Stmt]:
    """The statements of two bodies that do the same; loops with the same ends are one. They take turns one by one or, `in_turns`, in stages between which values
    go from one kind of core to the other, so that a core hands on what it has made before it turns to the other tile."""
    if not in_turns or not is_mixed(first):
        return [x for pair in zip(first, second) for x in _as_one(*pair, in_turns) or pair]
    stages = _stages(first)
    out: list[Stmt] = []
    for _, run in groupby(sorted(range(len(first)), key=stages.__getitem__), stages.__getitem__):
        at = list(run)
        fused = _as_one(first[at[0]], second[at[0]], in_turns) if len(at) == 1 and _side_of(first[at[0]]) == "both" else None
        out += fused or [body[i] for body in (first, second) for i in at]
    return out


def is_mixed(body: list[Stmt]) -> bool:
    """True for work of both kinds of core."""
    return {"cube", "vector"} <= {_side(x) for s in body for x in statements(s)}


def _stages(body: list[Stmt]) -> list[int]:
    """How often what a statement needs has gone from one kind of core to the other. A loop with work of both is a stage of its own."""
    uses, sides, stages = [uses_and_names(s) for s in body], [_side_of(s) for s in body], [0] * len(body)
    for j, side in enumerate(sides):
        if side == "both":
            stages[j] = max(stages[:j], default=-1) + 1
            continue
        alone = [stages[i] + 1 for i in range(j) if sides[i] == "both"]
        needed = [stages[i] + bool(side and sides[i] and side != sides[i]) for i in range(j) if conflict(uses[i], uses[j])]
        stages[j] = max([0, *alone, *needed])
    return stages


def _is_loop(s: Stmt) -> bool:
    return isinstance(s, For) and not is_parallel(s)


def _as_one(a: Stmt, b: Stmt, in_turns: bool) -> list[Stmt]:
    """Two loops with the same ends as one, nothing for other statements."""
    if not (_is_loop(a) and _is_loop(b)) or a.kind != ForKind.SERIAL:
        return []
    if not structural_equal(a.min, b.min) or not structural_equal(a.extent, b.extent):
        return []
    inside = side_by_side(stmts_of(a.body), stmts_of(substitute(b.body, {b.loop_var: a.loop_var})), in_turns)
    return [For(a.loop_var, a.min, a.extent, a.kind, seq(inside), annotations=dict(a.annotations), span=a.span)]


def _side_of(s: Stmt) -> str:
    """The kind of core that does a statement with all that is in it, "" for names."""
    if isinstance(s, (AllocBuffer, Bind)):
        return ""
    found = {_side(x) for x in statements(s)} - {""}
    return found.pop() if len(found) == 1 else "both" if found else ""


def _side(s: Stmt) -> str:
    """The same of a statement without its children."""
    if isinstance(s, (AllocBuffer, Bind)):
        return ""
    scopes = {scope_of(b) for b in own_uses(s).all}
    return crosses(s) or ("cube" if scopes & set(CUBE_SCOPES) else "vector" if "shared.ub" in scopes else "")


__all__ = ["TILES", "another", "is_mixed", "may_stand_beside", "side_by_side"]
