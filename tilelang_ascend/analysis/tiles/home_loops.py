"""The loops whose iterations may each work on a copy of their own of a tile."""

from __future__ import annotations

from ...ir import AllocBuffer, Bind, For, Stmt, op_name, scope_of, statements, stmts_of
from ...tile.uses import is_parallel, uses_of
from ..index.coverage import fill_together, written_boxes


class KnownUses:
    """`uses_of` of statements, each computed once: the same ones are asked about every tile."""

    def __init__(self):
        self.known: dict = {}

    def __call__(self, stmt: Stmt):
        if stmt not in self.known:
            self.known[stmt] = uses_of(stmt)
        return self.known[stmt]


def core_number(body: Stmt):
    """The variable with the number of the vector core, None in kernels whose vector cores do not share work."""
    binds = (s for s in statements(body) if isinstance(s, Bind) and op_name(s.value) == "ascend.get_sub_block_idx")
    return next((s.var for s in binds), None)


def home_loops(stmt: Stmt, buffer, uses=uses_of, core=None) -> list[For]:
    """The loops whose iterations may each use a version of their own: innermost loops that together contain every access of
    `buffer` and each overwrite it first. Empty if there are none. `core`: see `core_number`."""
    users = [s for s in stmts_of(stmt) if not isinstance(s, AllocBuffer) and buffer in uses(s).all]
    loops = [s for s in users if isinstance(s, For) and not is_parallel(s)]
    if not users or len(loops) != len(users):
        return []
    homes: list[For] = []
    for s in loops:
        inner = home_loops(s.body, buffer, uses, core)
        if not inner and not overwritten_first(s.body, buffer, uses, core):
            return []
        homes += inner or [s]
    return homes


def overwritten_first(body: Stmt, buffer, uses=uses_of, core=None) -> bool:
    """True if each run of `body` writes all of `buffer` before reading any of it."""
    boxes: list = []
    for s in stmts_of(body):
        found = uses(s)
        if buffer in found.reads:
            return False
        if buffer in found.writes:
            written = written_boxes(s, buffer, core)
            boxes += written
            if not written or fill_together(boxes, buffer.ty.shape):
                return bool(written)
    return False


def versioned_buffers(body: Stmt) -> list:
    """Tile buffers and workspaces, in order of declaration."""
    return [
        s.buffer
        for s in statements(body)
        if isinstance(s, AllocBuffer) and (scope_of(s.buffer) not in ("local.var", "global", "") or "workspace" in s.annotations)
    ]
