"""Statements of a list that are to stand together: what stands in front of them then, and what behind."""

from __future__ import annotations

from ...ir import Stmt
from ...tile.jumps import may_leave
from ...tile.uses import conflict, uses_of


def between(uses: list, positions: set[int]) -> set[int]:
    """`positions`, and all that needs one of them and that another one needs."""
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
    uses = [uses_of(s) for s in body]
    if between(uses, positions) != positions or any(map(may_leave, body[min(positions) : max(positions)])):
        return None
    behind: set[int] = set()
    for j in range(len(body)):
        if j not in positions and any((i in positions or i in behind) and conflict(uses[i], uses[j]) for i in range(j)):
            behind.add(j)
    last = max(positions)
    front = [s for i, s in enumerate(body) if i not in positions and i not in behind and i < last]
    return front, [s for i, s in enumerate(body) if i in behind or i > last and i not in positions]


__all__ = ["between", "gathered"]
