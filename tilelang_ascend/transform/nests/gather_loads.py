"""gather_loads: loads from tensors to UB stand together, in front of the work between them.

Before:  copy(A[k], a); f(a);            copy(B[k], b); g(a, b)
After:   copy(A[k], a); copy(B[k], b);   f(a);          g(a, b)

Each transfer the vector unit waits for by itself needs flags of its own, of which there are few; transfers right after each other may have one together
(`transform/sync/ids.py`), and wait in the queue while the work between them is done.

Kernels of the vector cores alone stay as they are: nothing holds their loads up but what these wait for themselves.

Requires: mapped Tile IR. Ensures: statements that share what one of them writes keep their order.
"""

from __future__ import annotations

from ...analysis.tiles.core_kinds import uses_cube
from ...analysis.tiles.home_loops import versioned_buffers
from ...ir import PrimFunc, SeqStmt, Stmt, StmtMutator, scope_of, seq
from ...tile import ASSUME, is_op
from ...tile.jumps import may_leave
from ...tile.uses import conflict, is_load, is_output, on_chip
from .gathered import uses_and_names


def _behind_each_other(body: list[Stmt], workspaces: set) -> list[Stmt]:
    """Statements of one list with each load from a tensor behind the one before it, if nothing in between is in its way."""
    out: list[Stmt] = []
    for s in body:
        place = len(out)
        if _from_tensor(s, workspaces):
            behind_last = next((n for n in range(len(out), 0, -1) if _from_tensor(out[n - 1], workspaces)), place)
            if all(_may_pass(s, x) for x in out[behind_last:]):
                place = behind_last
        out.insert(place, s)
    return out


def _from_tensor(s: Stmt, workspaces: set) -> bool:
    return is_load(s) and scope_of(s.value.args[1].source) == "shared.ub" and s.value.args[0].source not in workspaces


def _may_pass(load: Stmt, s: Stmt) -> bool:
    """True if a load may stand in front of a statement, which says nothing of where it loads from."""
    return not (may_leave(s) or is_output(s) or is_op(s, ASSUME) or conflict(uses_and_names(load), uses_and_names(s)))


class _Gather(StmtMutator):
    def __init__(self, workspaces: set):
        self.workspaces = workspaces

    def visit_SeqStmt(self, s: SeqStmt):
        return seq(_behind_each_other([self.visit(x) for x in s.seq], self.workspaces))


def gather_loads(func: PrimFunc) -> PrimFunc:
    """Apply to a mapped Tile IR function."""
    if not uses_cube(func.body):
        return func
    workspaces = {b for b in versioned_buffers(func.body) if not on_chip(b)}
    return func.with_body(_Gather(workspaces)(func.body))


__all__ = ["gather_loads"]
