"""split_rows: let the two vector cores of a block share the vector work of a kernel that also has cube work.

Before:  copy(ws[0:128, 0:256], C_ub[0:128, 0:256]); Parallel(i < 128, j < 256): C_ub[i, j] = f(C_ub[i, j], i)
After:   copy(ws[vid * 64 : +64, 0:256], C_ub[0:64, 0:256]); Parallel(i < 64, j < 256): C_ub[i, j] = f(C_ub[i, j], i + vid * 64)

The axis is proven independent (analysis/tiles/split_axis.py). Odd sizes are exact: the first core takes the larger half, transfers of
the second are clipped, and loops in which it works on a row too many say so (`tl.count`). Without such an axis the first vector core does all the work.

Requires: placed Tile IR after map_grid. Ensures: vector statements of mixed kernels depend on `get_sub_block_idx` where they differ.
"""

from __future__ import annotations

from ...analysis.tiles.core_kinds import uses_cube, uses_vector
from ...analysis.tiles.split_axis import find_split, is_ub
from ...errors import location_of
from ...ir import (
    AllocBuffer,
    Bind,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    PrimFunc,
    Stmt,
    StmtMutator,
    While,
    call,
    children,
    decl_buffer,
    dtype_of,
    exprs,
    free_vars,
    imm,
    seq,
    stmts_of,
    tirx,
)
from ...isa.base import VECTOR_CORES_PER_BLOCK
from ...tile.uses import is_output, is_parallel, is_scalar_var, own_uses, uses_of
from .divided_body import DividedBody, writes_globals


def reads_ub(s: Stmt) -> bool:
    """True if the condition or extent of `s` is read from a tile: only a core that has computed it can tell."""
    return any(is_ub(b) for b in own_uses(s).reads)


def from_ub(body: Stmt) -> set:
    """Lets and scalar variables whose value depends on an element of a tile, directly or by the branches that set them."""
    found: set = set()

    def depends(s: Stmt) -> bool:
        return reads_ub(s) or any(v in found for e in exprs(s) for v in free_vars(e))

    def see(s: Stmt, decided: bool) -> None:
        inner = decided or isinstance(s, (For, While, IfThenElse)) and not is_parallel(s) and depends(s)
        if isinstance(s, Bind) and depends(s):
            found.add(s.var)
        if isinstance(s, BufferStore) and is_scalar_var(s.buffer) and (decided or depends(s)):
            found.add(s.buffer)
        for x in children(s):
            see(x, inner)

    while True:
        before = len(found)
        see(body, False)
        if len(found) == before:
            return found


class _FirstCoreOnly(StmtMutator):
    """Guard all vector statements with `sub_block == 0`. `tiles_decide`: scalars that only the core that has the tiles knows."""

    def __init__(self, sub, tiles_decide: set):
        self.sub, self.tiles_decide = sub, tiles_decide

    def control(self, s):
        if reads_ub(s) or any(v in self.tiles_decide for e in exprs(s) for v in free_vars(e)):
            return IfThenElse(tirx.EQ(self.sub, imm(0)), s, None, span=s.span)
        return self.generic(s)

    def visit_For(self, s: For):
        return self.guard(s) if is_parallel(s) else self.control(s)

    def visit_IfThenElse(self, s: IfThenElse):
        return self.control(s)

    def visit_While(self, s: While):
        return self.control(s)

    def visit_Evaluate(self, s: Evaluate):
        return self.guard(s)

    def visit_BufferStore(self, s: BufferStore):
        return self.guard(s)

    def visit_Bind(self, s: Bind):
        """The second core, which has no such tile, sees zero, and no statement of it depends on that."""
        if not reads_ub(s):
            return s
        place = decl_buffer((1,), dtype_of(s.var), s.var.name, scope="local.var")
        zero, index = BufferStore(place, tirx.const(0, dtype_of(s.var)), [imm(0)], span=s.span), [imm(0)]
        read = IfThenElse(tirx.EQ(self.sub, imm(0)), BufferStore(place, s.value, index, span=s.span), None, span=s.span)
        return [AllocBuffer(place), zero, read, Bind(s.var, BufferLoad(place, index), span=s.span)]

    def guard(self, s: Stmt):
        if any(is_ub(b) for b in uses_of(s).all) or is_output(s) or writes_globals(s):
            return IfThenElse(tirx.EQ(self.sub, imm(0)), s, None, span=s.span)
        return s


def split_rows(func: PrimFunc, notes: list | None = None) -> PrimFunc:
    """Apply to a placed Tile IR function; functions without cube or without vector work stay as they are. What forbids a division is added
    to `notes`."""
    body = func.body
    if not (uses_cube(body) and uses_vector(body)):
        return func
    sub = tirx.Var("sub_block", "int32")
    plan = find_split(body)
    split = _FirstCoreOnly(sub, from_ub(body))(body) if plan.refusal else DividedBody(plan, sub, VECTOR_CORES_PER_BLOCK)(body)
    if plan.refusal and notes is not None:
        where = location_of(plan.refusal.span)
        notes.append(f"one of the two vector cores does all vector work: {plan.refusal.reason}" + (f" ({where})" if where else ""))
    allocs = [s for s in stmts_of(split) if isinstance(s, AllocBuffer)]
    rest = [s for s in stmts_of(split) if not isinstance(s, AllocBuffer)]
    return func.with_body(seq(allocs, Bind(sub, call("ascend.get_sub_block_idx", [], dtype="int32")), rest))


__all__ = ["split_rows"]
