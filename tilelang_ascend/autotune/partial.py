"""Which reductions, scans and sorts stand for themselves? The tile size that is the length of one of them is part of what the kernel computes.

A maximum over a tile is a part of a maximum over a row if the next iteration goes on with it, as in online softmax, if a tensor is updated
with it atomically, or if it goes to a tensor that is read again. Everything else is used with its own tile only: scales of groups of
numbers, sums of chunks. Flows are followed whatever the order of statements is, so that in case of doubt the answer is "combined".
"""

from __future__ import annotations

from ..analysis.index.coverage import writes_whole
from ..ir import Bind, Evaluate, For, PrimFunc, Stmt, While, attrs_of, children, exprs, free_vars, statements
from ..tile import VIEW, Side, is_op, tile_op_of
from ..tile.uses import is_atomic, is_parallel, is_scalar_var, on_chip, own_uses, uses_of


def lone_folds(func: PrimFunc) -> list[Evaluate]:
    """The tile ops that see a dimension as a whole and whose results never meet those of another iteration, block or launch."""
    found: list[tuple[Evaluate, set]] = []
    _collect(func.body, set(), found)
    again = {b for b in uses_of(func.body).reads if not on_chip(b)}
    flows = [_Flow(s) for s in _steps(func.body)] if found else []
    return [s for s, carried in found if not _combined(s, flows, carried | again)]


def _collect(s: Stmt, carried: set, found: list) -> None:
    """Folds below `s`, each with the buffers that take values from one iteration of a loop around it to the next."""
    record = tile_op_of(s) if isinstance(s, Evaluate) else None
    if record is not None and record.whole is not None and record.side is Side.VECTOR:
        found.append((s, carried))
    if isinstance(s, (For, While)) and not is_parallel(s) and "tl.grid" not in getattr(s, "annotations", {}):
        carried = carried | {b for b in uses_of(s.body).writes if _reads_first(s.body, b)}
    for c in children(s):
        _collect(c, carried, found)


def _steps(s: Stmt) -> list[Stmt]:
    """Nests, single statements, and what stands around them, in order."""
    return [s] if is_parallel(s) else [s, *(x for c in children(s) for x in _steps(c))]


def _reads_first(body: Stmt, buffer) -> bool:
    """True for tiles and scalars unless the first statement on them writes all and reads nothing of them."""
    if not on_chip(buffer) and not is_scalar_var(buffer):
        return False
    steps = [s for s in _steps(body) if is_parallel(s) or not children(s) or buffer in own_uses(s).reads]
    first = next(s for s in steps if buffer in uses_of(s).all)
    clears = isinstance(first, Evaluate) and bool(int(attrs_of(first).get("clear", 0)))
    return buffer in uses_of(first).reads and not clears or not writes_whole(first, buffer)


class _Flow:
    """What a step reads, what depends on that, and whether it is an atomic update. Names (`Bind`) count like buffers."""

    def __init__(self, s: Stmt):
        whole = uses_of(s) if is_parallel(s) else own_uses(s)
        inside = statements(s) if is_parallel(s) else [s]
        self.reads = whole.reads | {v for x in inside for e in exprs(x) for v in free_vars(e)}
        self.writes = uses_of(s).writes | {x.var for x in statements(s) if isinstance(x, Bind)}
        self.atomic = any(map(is_atomic, inside))
        if isinstance(s, Evaluate) and is_op(s, VIEW):
            self.reads = self.writes = whole.all


def _combined(fold: Evaluate, flows: list[_Flow], carried: set) -> bool:
    """True if the result of `fold` gets into something of `carried`, or is an atomic update."""
    reached, grown = set(own_uses(fold).writes), -1
    while grown != len(reached):
        grown = len(reached)
        for flow in flows:
            if flow.reads & reached:
                if flow.atomic:
                    return True
                reached |= flow.writes
    return bool(reached & carried)


__all__ = ["lone_folds"]
