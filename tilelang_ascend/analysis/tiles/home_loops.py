"""The loops whose iterations may each work on a copy of their own of a tile."""

from __future__ import annotations

from functools import lru_cache

from ...ir import (
    AllocBuffer,
    Bind,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    Stmt,
    const_int,
    dtype_of,
    imm,
    op_name,
    scope_of,
    seq,
    statements,
    stmts_of,
    structural_equal,
    substitute,
    sym,
)
from ...tile.conditions import is_lasting
from ...tile.jumps import may_leave
from ...tile.uses import is_parallel, loads_in, uses_of
from ..index.coverage import fill_together, lies_in, read_boxes, written_boxes

FEW_TRIPS = 16
"""Loops over parts of tiles have no more iterations, of others these decide: they are looked at one by one."""


def core_number(body: Stmt):
    """The variable with the number of the vector core, None in kernels whose vector cores do not share work."""
    binds = (s for s in statements(body) if isinstance(s, Bind) and op_name(s.value) == "ascend.get_sub_block_idx")
    return next((s.var for s in binds), None)


def home_loops(stmt: Stmt, buffer, core=None) -> list[For]:
    """The loops whose iterations may each use a version of their own: innermost loops that together contain every access of
    `buffer` and each overwrite it first. Empty if there are none. `core`: see `core_number`."""
    users = [s for s in _in_branches(stmt, buffer) if not isinstance(s, AllocBuffer) and buffer in uses_of(s).all]
    loops = [s for s in users if isinstance(s, For) and not is_parallel(s)]
    if not users or len(loops) != len(users):
        return []
    homes: list[For] = []
    for s in loops:
        inner = home_loops(s.body, buffer, core)
        if not inner and not overwritten_first(s.body, buffer, core):
            return []
        homes += inner or [s]
    return homes


def _in_branches(stmt: Stmt, buffer):
    """Statements, and those of branches whose conditions do not use `buffer` in place of these."""
    for s in stmts_of(stmt):
        if isinstance(s, IfThenElse) and all(x.source is not buffer for x in loads_in(s.condition)):
            for branch in (s.then_case, s.else_case):
                yield from _in_branches(branch, buffer) if branch is not None else ()
        else:
            yield s


def overwritten_first(body: Stmt, buffer, core=None) -> bool:
    """True if each run of `body` writes all of `buffer` before reading any of it, or does not use it."""
    whole = stmts_of(body)
    users = [s for s in whole if not isinstance(s, AllocBuffer) and buffer in uses_of(s).all]
    runs = _under_conditions(users, uses_of(body).writes)
    if runs is not None:
        return all(overwritten_first(seq(run), buffer, core) for run in runs if buffer in uses_of(seq(run)).all)
    return _filled_first(whole, buffer, core, []) is True


def _under_conditions(stmts: list, writes: set) -> list | None:
    """What runs of neighbouring statements under the same condition where it holds, and where it does not, if statements that write such buffers change
    none of the conditions; None if any statement stands under none."""
    if not stmts or not all(isinstance(s, IfThenElse) and is_lasting(s.condition, writes) for s in stmts):
        return None
    groups: list = []
    for s in stmts:
        if groups and structural_equal(groups[-1][0].condition, s.condition):
            groups[-1].append(s)
        else:
            groups.append([s])
    arms = [arm for group in groups for arm in ([s.then_case for s in group], [s.else_case for s in group if s.else_case is not None])]
    return [stmts_of(seq(*arm)) for arm in arms if arm]


def _filled_first(body: list, buffer, core, boxes: list) -> bool | None:
    """The same of what follows writes to `boxes`, which are added to; None if the end comes before all is written."""
    for s in body:
        found = uses_of(s)
        if buffer not in found.all:
            continue
        known = _known_to_run(s) if buffer in found.writes else None
        if known is not None:
            for now in known:
                filled = False if now is None else _filled_first(now, buffer, core, boxes)
                if filled is not None:
                    return filled
            continue
        if buffer in found.reads and not all(lies_in(box, boxes) for box in _all_read(s, buffer, core)):
            return False
        if buffer in found.writes:
            written = written_boxes(s, buffer, core)
            boxes += written
            if not written or fill_together(boxes, buffer.ty.shape):
                return bool(written)
    return None


def apart(loop: For, buffer) -> bool:
    """True if no two iterations of a loop of few use the same element of `buffer`."""
    boxes: list = []
    for body in _known_to_run(loop) or [None]:
        if body is None:
            return False
        used = [s for s in body if buffer in uses_of(s).all]
        mine = [box for s in used for box in (*_all_read(s, buffer, None), *_all_written(s, buffer))]
        if None in mine or any(_meet(a, b) for a in mine for b in boxes):
            return False
        boxes += mine
    return True


def _meet(a, b) -> bool:
    return all(low < end and first < high for (low, high), (first, end) in zip(a, b))


def _all_written(s: Stmt, buffer) -> list:
    """Boxes in which all lies that is written below `s`; None among them stands for any place."""
    if buffer not in uses_of(s).writes:
        return []
    return (written_boxes(s, buffer) or [None]) if is_parallel(s) or isinstance(s, Evaluate) else [None]


def _known_to_run(s: Stmt):
    """What runs of a loop over parts, iteration by iteration, or of a branch whose condition is known, and a last None if that is not all; None
    for other statements, such as loops that may be left early."""
    if isinstance(s, IfThenElse):
        holds = const_int(sym.Analyzer().simplify(s.condition))
        return None if holds is None else [stmts_of(s.then_case if holds else s.else_case)]
    if not isinstance(s, For) or s.kind != ForKind.SERIAL or const_int(s.min) != 0 or may_leave(s.body):
        return None
    trips = const_int(s.extent)
    return None if trips is None else _iterations(s, trips)


def _iterations(s: For, trips: int):
    for n in range(min(trips, FEW_TRIPS)):
        yield stmts_of(substitute(s.body, {s.loop_var: imm(n, dtype_of(s.loop_var))}))
    if trips > FEW_TRIPS:
        yield None


def _all_read(s: Stmt, buffer, core) -> list:
    """Boxes of all that is read below `s`; None among them stands for any place."""
    return read_boxes(s, buffer, core) if is_parallel(s) or isinstance(s, Evaluate) else [None]


@lru_cache(maxsize=8)
def all_home_loops(body: Stmt) -> dict:
    """Tile buffer or workspace -> its `home_loops`. Several passes ask about the same body, and every attempt to fit it again."""
    core = core_number(body)
    return {b: home_loops(body, b, core) for b in versioned_buffers(body)}


def own_buffers(loop: For, body: Stmt) -> set:
    """Tile buffers and workspaces of which each iteration of a loop in `body` may use a version of its own (`home_loops`)."""
    return {b for b, homes in all_home_loops(body).items() if any(home.same_as(loop) for home in homes)}


def versioned_buffers(body: Stmt) -> list:
    """Tile buffers and workspaces, in order of declaration."""
    return [
        s.buffer
        for s in statements(body)
        if isinstance(s, AllocBuffer) and (scope_of(s.buffer) not in ("local.var", "global", "") or "workspace" in s.annotations)
    ]
