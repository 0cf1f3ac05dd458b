"""`T.sync_grid()`: what stands behind it in a block is a launch of its own, which begins when all blocks have come there.

Before:  for bx in grid(24): n = bx * 2; part[bx] = f(A[bx]); sync_grid; s = sum(part); B[bx] = s + n
After:   for bx in grid(24): n = bx * 2; part[bx] = f(A[bx])
         for bx in grid(24): n = bx * 2; s = sum(part); B[bx] = s + n

Memory that is not global ends with a block: what a tile or a variable holds behind the barrier has to be written there. Workspaces outlive the launch:
they are made in front of it. Names are worked out again, unless they read what the block changes, before or behind it.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..analysis.index.coverage import writes_whole
from ..errors import UnsupportedConstruct, location_of
from ..ir import (
    AllocBuffer,
    Bind,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    Stmt,
    While,
    call,
    children,
    const_int,
    exprs,
    free_vars,
    op_name,
    renew,
    scope_of,
    seq,
    statements,
    stmts_of,
)
from ..ir.grids import is_grid_axis
from ..tile import VIEW, is_op
from ..tile.clears import gemm_args, multiplies_own
from ..tile.jumps import may_leave
from ..tile.uses import is_parallel, is_scalar_var, own_uses, uses_of

BARRIER = "frontend.sync_grid"


def barrier(span) -> Evaluate:
    """The statement."""
    return Evaluate(call(BARRIER, [], span=span), span=span)


def _is_barrier(s: Stmt) -> bool:
    return isinstance(s, Evaluate) and op_name(s.value) == BARRIER


def split_at_barriers(body: Stmt) -> Stmt:
    """`body`, that of a function, with a launch for each part of blocks between two barriers."""
    if not any(_is_barrier(s) for s in statements(body)):
        return body
    return seq([x for s in stmts_of(body) for x in (_launches(s) if is_grid_axis(s) else [s])])


def _launches(grid: For) -> list[Stmt]:
    inner = grid
    while is_grid_axis(inner.body):
        inner = inner.body
    parts: list[list[Stmt]] = [[]]
    stmts = stmts_of(inner.body)
    views = {s.value.args[0].source for s in stmts if is_op(s, VIEW)}
    workspaces = [s for s in stmts if isinstance(s, AllocBuffer) and scope_of(s.buffer) in ("global", "") and s.buffer not in views]
    for s in stmts:
        if _is_barrier(s):
            parts.append([])
            continue
        if s in workspaces:
            continue
        if (inside := next((x for x in statements(s) if _is_barrier(x)), None)) is not None:
            raise UnsupportedConstruct(
                "T.sync_grid within a loop or a branch of a block",
                at=location_of(inside.span),
                hint="put it between the statements of the block, or write several `with T.Kernel(...)`, one after the other",
            )
        parts[-1].append(s)
    first, *others = parts
    before, launches, written = list(first), [_around(grid, first)], uses_of(inner.body).writes
    for part in others:
        launches.append(renew(_around(grid, _needed(part, before, written) + part)))
        before += part
    return [*workspaces, *launches]


def _around(axis: For, stmts: list[Stmt]) -> For:
    """The grid around other statements."""
    body = _around(axis.body, stmts) if is_grid_axis(axis.body) else seq(stmts)
    return For(axis.loop_var, axis.min, axis.extent, axis.kind, body, annotations=dict(axis.annotations), span=axis.span)


def _needed(part: list[Stmt], before: list[Stmt], written: set) -> list[Stmt]:
    """Declarations, views and names of `before` that a later part of the block needs, too. written: what the block changes anywhere: another block may be
    behind the barrier already when a name is worked out again."""
    used = set().union(*map(_names, part))
    out: list[Stmt] = []
    for s in reversed(before):
        if isinstance(s, AllocBuffer) and s.buffer in used:
            if scope_of(s.buffer) not in ("global", "") and not _written_first(part, s.buffer):
                what = "variable" if is_scalar_var(s.buffer) else "tile"
                raise UnsupportedConstruct(
                    f"a {what} ('{s.buffer.name}') that keeps its value across T.sync_grid",
                    at=location_of(s.span),
                    hint="pass it on in a tensor: what stands behind the barrier is a launch of its own",
                )
            out.insert(0, s)
        elif is_op(s, VIEW) and s.value.args[0].source in used:
            used |= _names(s)
            out.insert(0, s)
        elif isinstance(s, Bind) and s.var in used:
            read = _names(s) & written
            if read:
                raise UnsupportedConstruct(
                    f"the name '{s.var.name}' across T.sync_grid, which reads '{min(x.name for x in read)}', which the block changes",
                    at=location_of(s.span),
                    hint="read it again behind the barrier, or pass it on in a tensor",
                )
            used |= _names(s)
            out.insert(0, s)
    return out


def _names(s: Stmt) -> set:
    """Variables and buffers that a statement uses."""
    return uses_of(s).all | {v for x in statements(s) for e in exprs(x) for v in free_vars(e)}


def _written_first(stmts: Iterable[Stmt], buffer) -> bool:
    """True if no statement reads what `buffer` held in front of them all."""
    return _go(stmts, buffer, False)[0]


def _go(stmts: Iterable[Stmt], buffer, known: bool) -> tuple[bool, bool]:
    """(does nothing read what was there before, is it all written now?). known: it was all written before."""
    for s in stmts:
        inside = isinstance(s, (For, While, IfThenElse)) and not is_parallel(s)
        if not known and buffer in (own_uses if inside else uses_of)(s).reads and not _begins_anew(s, buffer):
            return False, known
        if not inside:
            known |= _writes_all(s, buffer)
            continue
        ends = [_go(stmts_of(x), buffer, known) for x in children(s)]
        if not all(right for right, _ in ends):
            return False, known
        surely = len(ends) == 2 if isinstance(s, IfThenElse) else isinstance(s, For) and _runs_to_the_end(s)
        known |= surely and all(end for _, end in ends)
    return True, known


def _begins_anew(s: Stmt, buffer) -> bool:
    """True for a product that does not look at what its accumulator `buffer` holds."""
    args = gemm_args(s)
    return args is not None and args[2].source.same_as(buffer) and bool(const_int(args[3])) and not multiplies_own(s)


def _runs_to_the_end(loop: For) -> bool:
    """True if a loop surely has an iteration, of which nothing is left out."""
    return (const_int(loop.extent) or 0) > 0 and not may_leave(loop.body)


def _writes_all(s: Stmt, buffer) -> bool:
    """True if a statement writes all of a tile or variable."""
    if isinstance(s, BufferStore):
        return s.buffer.same_as(buffer) and is_scalar_var(buffer)
    return writes_whole(s, buffer)


__all__ = ["barrier", "split_at_barriers"]
