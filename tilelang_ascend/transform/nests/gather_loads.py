"""gather_loads: loads from tensors to one memory stand together, in front of the work between them.

Before:  copy(A[k], a); f(a);            copy(B[k], b); g(a, b)
After:   copy(A[k], a); copy(B[k], b);   f(a);          g(a, b)

Each transfer the vector unit waits for by itself needs flags of its own, of which there are few; transfers right after each other may have one together
(`transform/sync/ids.py`), and wait in the queue while the work between them is done.

Loads to L1 do so only where flags have run out otherwise: products would wait for loads that only later ones need. Kernels of the vector cores alone stay as
they are: nothing holds their loads up but what these wait for themselves.

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


def _behind_each_other(body: list[Stmt], workspaces: set, memories: tuple[str, ...]) -> list[Stmt]:
    """Statements of one list with each load from a tensor to one of `memories` behind the one before it, if nothing in between is in its way."""
    out: list[Stmt] = []
    for s in body:
        place, memory = len(out), _loaded_to(s, workspaces)
        if memory in memories:
            behind_last = next((n for n in range(len(out), 0, -1) if _loaded_to(out[n - 1], workspaces) == memory), place)
            if all(_may_pass(s, x) for x in out[behind_last:]):
                place = behind_last
        out.insert(place, s)
    return out


def _loaded_to(s: Stmt, workspaces: set) -> str | None:
    """The memory to which a statement loads from a tensor, None for others."""
    return scope_of(s.value.args[1].source) if is_load(s) and s.value.args[0].source not in workspaces else None


def _may_pass(load: Stmt, s: Stmt) -> bool:
    """True if a load may stand in front of a statement, which says nothing of where it loads from."""
    return not (may_leave(s) or is_output(s) or is_op(s, ASSUME) or conflict(uses_and_names(load), uses_and_names(s)))


class _Gather(StmtMutator):
    def __init__(self, workspaces: set, memories: tuple[str, ...]):
        self.workspaces, self.memories = workspaces, memories

    def visit_SeqStmt(self, s: SeqStmt):
        return seq(_behind_each_other([self.visit(x) for x in s.seq], self.workspaces, self.memories))


def gather_loads(func: PrimFunc, few_flags: bool = False) -> PrimFunc:
    """Apply to a mapped Tile IR function. few_flags: they have run out otherwise."""
    if not uses_cube(func.body):
        return func
    workspaces = {b for b in versioned_buffers(func.body) if not on_chip(b)}
    memories = ("shared.ub", "shared.l1") if few_flags else ("shared.ub",)
    return func.with_body(_Gather(workspaces, memories)(func.body))


__all__ = ["gather_loads"]
