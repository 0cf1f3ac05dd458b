"""Which buffers a Tile IR statement reads and writes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Set
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from ..ir import (
    AllocBuffer,
    Bind,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    Stmt,
    TensorLoad,
    TensorRegion,
    const_int,
    expr_children,
    exprs,
    is_buffer_var,
    is_leaf,
    scope_of,
    statements,
    stmts_of,
)
from ..ir.base import elements
from .op import Side, TileOp
from .table import COPY, GEMM, is_op, reads_of, tile_op_of, with_args

COUNT = "tl.count"
"""Annotation of a loop of a nest: how many of its iterations count. Vector instructions may run all, element by element only these do."""

IN_ORDER = "tl.in_order"
"""Annotation of a nest whose iterations have to run one after the other, each from its first to its last statement; its value says why."""


def is_load(stmt) -> bool:
    """True for a copy from a tensor or a workspace."""
    return tile_op_of(stmt) is COPY and scope_of(stmt.value.args[0].source) in ("global", "")


def leaves_l0c(stmt) -> bool:
    """True for a copy of a result of the cube core, to a tensor, a workspace or another tile."""
    return tile_op_of(stmt) is COPY and scope_of(stmt.value.args[0].source) == "local.l0c"


def moved_regions(stmt) -> tuple | None:
    """(source region, destination region) of a copy or of an atomic update by a tile; None for anything else."""
    record = tile_op_of(stmt)
    if record is COPY:
        return tuple(elements(stmt.value.args)[:2])
    if is_atomic(stmt) and isinstance(stmt.value.args[1], TensorRegion):
        return stmt.value.args[1], stmt.value.args[0]
    return None


def is_atomic(stmt) -> bool:
    """True for an atomic update."""
    record = tile_op_of(stmt)
    return record is not None and record.combine is not None


def work_of(stmt) -> TileOp | None:
    """The record of a tile op that does something: reads, writes or says it."""
    record = tile_op_of(stmt)
    return None if record is None or record.side is Side.NONE else record


def is_output(stmt) -> bool:
    """True for ops that talk to the user: they have to happen exactly once for each block of the user's grid."""
    record = tile_op_of(stmt)
    return record is not None and record.once


def is_element_atomic(stmt) -> bool:
    """True for an atomic update by a scalar expression."""
    return is_atomic(stmt) and not isinstance(stmt.value.args[1], TensorRegion)


def with_regions(stmt: Evaluate, src, dst) -> Evaluate:
    """The same copy or atomic update between other regions; those of a tensor have the same dimensions."""
    return with_args(stmt, (src, dst, *elements(stmt.value.args)[2:]) if is_op(stmt, COPY) else (dst, src))


def end_of(stmt: Evaluate) -> tuple | None:
    """(dimension, index) of the side in GM from which on nothing is there for a copy; None without one."""
    args = elements(stmt.value.args)
    return (const_int(args[2]), args[3]) if is_op(stmt, COPY) and len(args) == 4 else None


@dataclass
class Uses:
    """Buffers read and written by a statement and everything below it. Those of a statement are frozen sets, which all who ask share."""

    reads: Set = field(default_factory=set)
    writes: Set = field(default_factory=set)

    @property
    def all(self) -> Set:
        return self.reads | self.writes


def on_chip(buffer) -> bool:
    """True for tile buffers (not GM, not mutable scalars)."""
    return scope_of(buffer) not in ("global", "", "local.var")


def is_scalar_var(buffer) -> bool:
    """True for `local.var` buffers."""
    return scope_of(buffer) == "local.var"


def region_buffer(arg):
    """The buffer behind a tile-op argument, or None for a scalar expression."""
    return arg.source if type(arg) in (TensorRegion, TensorLoad) else None


def loads_in(expr) -> list[TensorLoad]:
    """All buffer loads of an expression."""
    found: list[TensorLoad] = []
    _find_loads(expr, found)
    return found


def _find_loads(expr, found: list) -> None:
    if type(expr) is TensorLoad:
        found.append(expr)
    if not is_leaf(expr):
        for child in expr_children(expr):
            _find_loads(child, found)


def used_outside(body: Stmt, inside: set) -> set:
    """What statements of `body` use that are not `inside`."""
    return set().union(*(own_uses(s).all for s in statements(body) if s not in inside and not isinstance(s, AllocBuffer)))


def workspaces(body: Stmt) -> set:
    """Buffers in GM that `body` declares: each block has its own."""
    return {s.buffer for s in statements(body) if isinstance(s, AllocBuffer) and "workspace" in s.annotations}


@lru_cache(maxsize=1 << 14)
def own_uses(stmt: Stmt) -> Uses:
    """Uses of the statement itself, without its children. Every pass asks again about statements that the one before has left as they were."""
    reads: set = set()
    writes: set = set()
    record = work_of(stmt)
    if record is not None:
        read_args = reads_of(stmt)
        for i, arg in enumerate(elements(stmt.value.args)):
            buffer = region_buffer(arg)
            if type(arg) is TensorRegion:
                reads |= {x.source for e in expr_children(arg) for x in loads_in(e)}
                if i in read_args:
                    reads.add(buffer)
                if i in record.writes:
                    writes.add(buffer)
            else:
                reads |= {x.source for x in loads_in(arg)}
    else:
        for e in exprs(stmt):
            reads |= {x.source for x in loads_in(e)}
        if isinstance(stmt, BufferStore):
            writes.add(stmt.buffer)
    return Uses(frozenset(reads), frozenset(writes))


@lru_cache(maxsize=1 << 12)
def uses_of(stmt: Stmt) -> Uses:
    """Uses of the statement and everything below it."""
    found = [own_uses(s) for s in statements(stmt)]
    return Uses(frozenset().union(*(u.reads for u in found)), frozenset().union(*(u.writes for u in found)))


def writers_and_readers(body: Stmt) -> tuple[dict, dict]:
    """Buffer -> statements of `body` that write it, and that read it, themselves."""
    writers, readers = defaultdict(list), defaultdict(list)
    for s in statements(body):
        uses = own_uses(s)
        for b in uses.writes:
            writers[b].append(s)
        for b in uses.reads:
            readers[b].append(s)
    return writers, readers


def forget_uses() -> None:
    """Drops what is known of the statements of a kernel, and with it the statements."""
    own_uses.cache_clear()
    uses_of.cache_clear()


def conflicts(a: Uses, b: Uses) -> set:
    """Buffers because of which two statements, of whom these are the uses, must keep their order."""
    return a.writes & b.all | a.reads & b.writes


def conflict(a: Uses, b: Uses) -> bool:
    """True if two statements must keep their order."""
    return bool(conflicts(a, b))


def read_with_k_along_rows(body: Stmt) -> set:
    """Tiles that a gemm reads with K along the rows."""
    found = set()
    for s in statements(body):
        if is_op(s, GEMM):
            flags = (int(s.value.attrs["transpose_A"]), not int(s.value.attrs["transpose_B"]))
            found |= {x.source for x, k_is_row in zip(s.value.args, flags) if k_is_row}
    return found


def is_parallel(stmt) -> bool:
    """True for the outermost loop of a `T.Parallel` nest."""
    return isinstance(stmt, For) and stmt.kind == ForKind.PARALLEL


def covers_whole(arg) -> bool:
    """True if a region is the whole of its (static) buffer."""
    if not isinstance(arg, TensorRegion):
        return False
    shape = arg.source.ty.shape
    return all(const_int(r.min) == 0 and const_int(r.extent) == const_int(n) is not None for r, n in zip(arg.region, shape))


def lateness(loop: For, of: str | None = None) -> list[int]:
    """What `SKEW`, or the annotation `of`, says of each statement of the body; empty without it."""
    return [int(n) for n in str(loop.annotations.get(of or SKEW, "")).split()]


def tile_of(loop: For) -> tuple[list[Stmt], Any, list[Stmt]]:
    """What stands in front of the condition under which an iteration of a loop over tiles does anything, if nothing else does, that condition, and the
    statements under it; nothing and None where there is no such condition."""
    body = stmts_of(loop.body)
    *names, last = body
    if isinstance(last, IfThenElse) and last.else_case is None and all(isinstance(s, (AllocBuffer, Bind)) for s in names):
        return names, last.condition, stmts_of(last.then_case)
    return [], None, body


def with_lateness(loop: For) -> list[tuple[Stmt, int]]:
    """Statements of a loop with `SKEW`, or of one with `CHAINED` and of the loop inside, and how late each of them may be; empty without either."""
    found = zip(tile_of(loop)[2], late) if (late := lateness(loop, CHAINED)) else zip(stmts_of(loop.body), lateness(loop))
    return [
        pair
        for s, n in found
        for pair in (with_lateness(s) if CHAINED in loop.annotations and isinstance(s, For) and any(lateness(s)) else [(s, n)])
    ]


__all__ = [
    "COUNT",
    "PAIRED",
    "IN_ORDER",
    "Uses",
    "conflict",
    "conflicts",
    "covers_whole",
    "end_of",
    "forget_uses",
    "is_atomic",
    "is_buffer_var",
    "is_element_atomic",
    "is_load",
    "is_output",
    "is_parallel",
    "is_scalar_var",
    "lateness",
    "leaves_l0c",
    "loads_in",
    "moved_regions",
    "on_chip",
    "own_uses",
    "read_with_k_along_rows",
    "region_buffer",
    "tile_of",
    "used_outside",
    "uses_of",
    "with_lateness",
    "writers_and_readers",
    "with_regions",
    "work_of",
    "workspaces",
]


SKEW = "tl.skew"
"""Annotation of a loop: by how many iterations each statement of its body may be late."""

CHAINED = "tl.chained"
"""Annotation of a loop over tiles whose body has one loop with `SKEW`: by how many iterations of that each statement of a tile (`tile_of`) may be
late."""

BEHIND = "tl.behind"
"""Annotation of a loop with `CHAINED`: how many tiles late statements may be behind early ones."""

CARRIED = "carried"
"""Annotation of a workspace: a place through which one scalar goes from vector cores to all cores of a block, made by `carry_elements`. Each
vector core has its own (`split_rows`); the cube core reads the first one."""

MET = "met"
"""Annotation of a place that the first vector core writes and both read: they meet in between."""

INDEPENDENT = "tl.persistent"
"""Annotation of loops whose iterations are different tiles of the user's grid."""


PAIRED = "tl.paired"
"""Annotation of loops of vector work whose iterations are two tiles side by side."""

UNORDERED = "tl.unordered"
"""Annotation of loops whose iterations are those of a parallel nest, or blocks of the user's grid: what they store to tensors of the user has no
order."""
