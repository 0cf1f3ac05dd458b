"""drop_dead_fills: remove constant fills and loads whose values nobody reads.

Placement writes a cleared or loaded tile on every core that holds it; the instance that is overwritten by a transfer needs no fill or load. Nor does
the start of a maximum or minimum that changes none.

Before:  fill(C@ub, 0); copy(ws, C@ub[whole]); fill(m, -inf); reduce(C@ub, m, max, clear=0)
         copy(A, a@l1); copy(A, a@ub); f(a@ub, b@ub); copy(b@ub, a@l1)
         copy(p@ub, ws); copy(ws, p@l1); g(p@ub); copy(p@ub, ws_1); copy(ws_1, p@l1)
After:   copy(ws, C@ub[whole]); reduce(C@ub, m, max, clear=1)
         copy(A, a@ub); f(a@ub, b@ub); copy(b@ub, a@l1)
         g(p@ub); copy(p@ub, ws_1); copy(ws_1, p@l1)

Requires: placed Tile IR. Ensures: values read are unchanged.
"""

from __future__ import annotations

from typing import NamedTuple

from ...analysis.index.coverage import writes_whole
from ...ir import Evaluate, FloatImm, For, PrimFunc, Stmt, StmtMutator, attrs_of, drop_allocs, dtype_of, seq, stmts_of
from ...ir.grids import is_grid_axis
from ...tile import COPY, FILL, REDUCE, is_op, tile_op
from ...tile.jumps import may_leave
from ...tile.reductions import start
from ...tile.uses import covers_whole, on_chip, uses_of, workspaces


class _Body(NamedTuple):
    """The body of a loop, and what runs behind the loop (None: not known).

    `last`: the body of the grid; what is not read in it is never read.
    """

    stmts: list
    rest: list | None
    around: _Body | None
    last: bool


class _Drop(StmtMutator):
    """read: what is read anywhere. passed: workspaces."""

    def __init__(self, read: set, passed: set):
        self.read, self.passed = read, passed
        self.next: tuple = (None, None, None)
        """A statement, what stands behind it in its block, and the loop around the block."""

    def visit_Evaluate(self, s: Evaluate):
        if is_op(s, COPY):
            target = s.value.args[1].source
            if (on_chip(target) or target in self.passed) and target not in self.read:
                return None
        return s

    def visit_For(self, s: For):
        stmt, rest, around = self.next
        if stmt is not s:
            rest = around = None
        body = self.visit_block(s.body, _Body(stmts_of(s.body), rest, around, is_grid_axis(s) and not is_grid_axis(s.body)))
        return For(s.loop_var, s.min, s.extent, s.kind, body, annotations=dict(s.annotations), span=s.span)

    def visit_block(self, body: Stmt, loop: _Body | None) -> Stmt:
        stmts, out = list(stmts_of(body)), []
        for i in range(len(stmts)):
            s = stmts[i]
            j = _continues_from(stmts, i)
            if j is not None:
                stmts[j] = tile_op("reduce", *stmts[j].value.args, span=stmts[j].span, **attrs_of(stmts[j]) | {"clear": 1})
            rest = stmts[i + 1 :]
            filled = s.value.args[0 if is_op(s, FILL) else 1].source if is_op(s, FILL) or is_op(s, COPY) else None
            if filled is not None and on_chip(filled) and _is_unread(filled, rest, loop):
                continue  # the user sees what is not on chip
            self.next = (s, rest, loop)
            out.append(self.visit(s))
        return seq(out)


def _continues_from(stmts: list[Stmt], i: int) -> int | None:
    """The place of the maximum or minimum that is the first to use what a fill at `i` leaves, and goes on from what changes none."""
    s = stmts[i]
    if not is_op(s, FILL) or not on_chip(s.value.args[0].source) or not covers_whole(s.value.args[0]):
        return None
    buffer, value = s.value.args[0].source, s.value.args[1]
    for j in range(i + 1, len(stmts)):
        uses = uses_of(stmts[j])
        if may_leave(stmts[j]):
            return None
        if buffer not in uses.all:
            continue
        if not is_op(stmts[j], REDUCE) or str(stmts[j].value.attrs["kind"]) not in ("max", "min"):
            return None
        src, dst = stmts[j].value.args
        same = dst.source.same_as(buffer) and covers_whole(dst) and not src.source.same_as(buffer)
        neutral = (
            isinstance(value, FloatImm)
            and "float" in dtype_of(buffer)
            and value.value == start(stmts[j].value.attrs["kind"], dtype_of(buffer)).value
        )
        return j if same and neutral and not int(stmts[j].value.attrs.get("clear", 1)) else None
    return None


def _is_unread(buffer, rest: list[Stmt], loop: _Body | None) -> bool:
    """Is all of `buffer` written before it is read, whatever comes after `rest`, the end of the body of `loop`?"""
    first = _is_overwritten(buffer, rest)
    if first is not None or loop is None:
        return bool(first)
    if loop.last:
        return True
    return loop.rest is not None and bool(_is_overwritten(buffer, loop.stmts)) and _is_unread(buffer, loop.rest, loop.around)


def _is_overwritten(buffer, stmts: list[Stmt]) -> bool | None:
    """Does the first statement that uses `buffer` write all of it and read nothing? None where no statement uses it."""
    for s in stmts:
        uses = uses_of(s)
        if buffer in uses.all:
            return buffer not in uses.reads and writes_whole(s, buffer)
        if may_leave(s):
            return False  # Whoever leaves here does not come to the write.
    return None


def drop_dead_fills(func: PrimFunc) -> PrimFunc:
    """Apply to a placed Tile IR function."""
    passed, read = workspaces(func.body), uses_of(func.body).reads
    body = _Drop(read, passed).visit_block(func.body, None)
    # What is left in a workspace for a load that has been removed is dead, too.
    while passed & read - (now := uses_of(body).reads):
        read = now
        body = _Drop(read, passed).visit_block(body, None)
    dead = passed - uses_of(body).all
    return func.with_body(drop_allocs(body, dead) if dead else body)


__all__ = ["drop_dead_fills"]
