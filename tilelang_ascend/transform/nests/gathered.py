"""Statements of a list that are to stand together: what stands in front of them then, and what behind."""

from __future__ import annotations

from ...ir import Bind, Stmt, exprs, free_vars, statements
from ...tile.jumps import may_leave
from ...tile.uses import Uses, conflict, uses_of


def uses_and_names(s: Stmt) -> Uses:
    """What a statement uses, and names: those it binds are written, those it mentions read, so that none is asked for before it is known."""
    uses = uses_of(s)
    inside = list(statements(s))
    names = {v for x in inside for e in exprs(x) for v in free_vars(e)}
    return Uses(uses.reads | names, uses.writes | {x.var for x in inside if isinstance(x, Bind)})


def between(body: list[Stmt], positions: set[int]) -> set[int]:
    """`positions`, and all that needs one of them and that another one needs."""
    return _between([uses_and_names(s) for s in body], positions)


def _between(uses: list, positions: set[int]) -> set[int]:
    behind, needed = set(positions), set(positions)
    for j in range(len(uses)):
        if any(i in behind and conflict(uses[i], uses[j]) for i in range(j)):
            behind.add(j)
    for i in reversed(range(len(uses))):
        if any(j in needed and conflict(uses[i], uses[j]) for j in range(i + 1, len(uses))):
            needed.add(i)
    return behind & needed


def gathered(body: list[Stmt], positions: set[int]) -> tuple[list[Stmt], list[Stmt]] | None:
    """(what stays in front, what goes behind) of the statements at `positions`, so that all keep their order where it matters; None if that cannot
    be. None of them passes a statement that may leave the iteration."""
    uses = [uses_and_names(s) for s in body]
    if _between(uses, positions) != positions or any(map(may_leave, body[min(positions) : max(positions)])):
        return None
    behind: set[int] = set()
    for j in range(len(body)):
        if j not in positions and any((i in positions or i in behind) and conflict(uses[i], uses[j]) for i in range(j)):
            behind.add(j)
    last = max(positions)
    front = [s for i, s in enumerate(body) if i not in positions and i not in behind and i < last]
    return front, [s for i, s in enumerate(body) if i in behind or i > last and i not in positions]


__all__ = ["between", "gathered", "uses_and_names"]
