"""Does a statement write every element of a buffer?"""

from __future__ import annotations

from collections.abc import Iterable

from ...ir import (
    Bind,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    SeqStmt,
    Stmt,
    TensorRegion,
    Var,
    const_int,
    exprs,
    imm,
    statements,
    stmts_of,
    substitute_expr,
    sym,
    tirx,
)
from ...isa.base import VECTOR_CORES_PER_BLOCK
from ...tile import reads_of
from ...tile.uses import COUNT, covers_whole, is_parallel, loads_in, on_chip, work_of
from .affine import affine, affine_limits
from .nest_indices import conjuncts, sides_of


def writes_whole(stmt: Stmt, buffer) -> bool:
    """True if `stmt` surely overwrites all of the static `buffer` without reading its old value being needed for coverage.

    Tile ops cover their destination region; a `Parallel` nest covers a buffer it stores to unconditionally with distinct loop
    variables as indices whose extents equal the shape.
    """
    if isinstance(stmt, Evaluate):
        record = work_of(stmt)
        if record is None:
            return False
        return any(
            getattr(arg, "source", None) is not None and arg.source.same_as(buffer) and covers_whole(arg)
            for i, arg in enumerate(stmt.value.args)
            if i in record.writes
        )
    if isinstance(stmt, For) and stmt.kind == ForKind.PARALLEL:
        return _nest_covers(stmt, buffer, {})
    if isinstance(stmt, SeqStmt):
        return any(writes_whole(s, buffer) for s in stmt.seq)
    return False


def whole_store(nest: Stmt) -> BufferStore | None:
    """The store that a `Parallel` nest is: to each element of a tile on chip once, beside nothing but names for values. None for other
    statements."""
    rest = [s for s in statements(nest) if not isinstance(s, (For, SeqStmt, Bind))] if is_parallel(nest) else []
    if len(rest) != 1 or not isinstance(rest[0], BufferStore):
        return None
    (s,) = rest
    extents = {x.loop_var: const_int(x.extent) for x in statements(nest) if isinstance(x, For)}
    return s if on_chip(s.buffer) and writes_whole(nest, s.buffer) and not repeats(s, extents) else None


def repeats(store: BufferStore, extents: dict) -> bool:
    """May several iterations of loops (variable -> extent) store to one element, so that each finds what the one before has left? Not if each of their
    numbers is in an index of its own."""
    forms = [affine(i, list(extents)) for i in store.indices]
    own = {v for f in forms if f is not None and len(f.coeffs) == 1 for v in f.coeffs}
    return any(n != 1 and v not in own for v, n in extents.items())


def written_boxes(stmt: Stmt, buffer, core=None) -> list[list[tuple[int, int]]]:
    """Boxes of `buffer`, (first, end) for each dimension, that a statement surely overwrites; only what has constant bounds. `core`: the
    variable with the number of the vector core, all of which run the statement; memory they share is filled by what one of them stores."""
    if writes_whole(stmt, buffer):
        return [[(0, const_int(n)) for n in buffer.ty.shape]]
    if _on_one_core(stmt, core) and not on_chip(buffer):
        return [box for s in stmts_of(stmt.then_case) for box in written_boxes(s, buffer)]
    if isinstance(stmt, IfThenElse):
        # Cores may go different ways: what each of them has for itself in one is no matter of the other.
        arms = [
            [box for s in stmts_of(arm) for box in written_boxes(s, buffer)] for arm in (stmt.then_case, stmt.else_case) if arm is not None
        ]
        return [box for box in arms[0] if box in arms[1]] if len(arms) == 2 else []
    if is_parallel(stmt):
        return _nest_boxes(stmt, buffer, {})
    record = work_of(stmt)
    return [] if record is None else [b for b in _region_boxes(stmt, buffer, record.writes, core) if b is not None]


def _on_one_core(stmt: Stmt, core) -> bool:
    """True for what only one of the vector cores does."""
    if core is None or not isinstance(stmt, IfThenElse) or stmt.else_case is not None or not isinstance(stmt.condition, tirx.EQ):
        return False
    sides = stmt.condition.a, stmt.condition.b
    number = next((const_int(e) for e in sides if const_int(e) is not None), None)
    return any(e.same_as(core) for e in sides) and number is not None and 0 <= number < VECTOR_CORES_PER_BLOCK


def read_boxes(stmt: Stmt, buffer, core=None) -> list[list[tuple[int, int]] | None]:
    """Boxes in which all lies that a statement, a nest or a tile op, reads of `buffer`; None among them stands for any place."""
    record = work_of(stmt)
    if record is not None:
        scalars = [x for a in stmt.value.args for x in loads_in(a)] if not any(isinstance(a, TensorRegion) for a in stmt.value.args) else []
        return _region_boxes(stmt, buffer, reads_of(stmt), core) + [None for x in scalars if x.source.same_as(buffer)]
    extents = {s.loop_var: const_int(s.extent) for s in statements(stmt) if is_parallel(s)}
    return [_box_of(x.indices, extents) for s in statements(stmt) for e in exprs(s) for x in loads_in(e) if x.source.same_as(buffer)]


def _box_of(indices, extents: dict) -> list[tuple[int, int]] | None:
    limits = [affine_limits(i, extents) for i in indices] if None not in extents.values() else [None]
    return None if None in limits else [(low, high + 1) for low, high in limits]


def _region_boxes(stmt: Evaluate, buffer, operands, core) -> list:
    """The boxes of some operands of a tile op, on every core; None for one without constant bounds."""
    boxes = [
        [(_on_core(r.min, core, number), _on_core(r.extent, core, number)) for r in a.region]
        for i, a in enumerate(stmt.value.args)
        if i in operands and isinstance(a, TensorRegion) and a.source.same_as(buffer)
        for number in range(VECTOR_CORES_PER_BLOCK if core is not None else 1)
    ]
    return [None if any(None in side for side in box) else [(low, low + n) for low, n in box] for box in boxes]


def _on_core(e, core, number: int) -> int | None:
    """The number an expression is on a vector core, None if it is none."""
    known = const_int(e)
    if known is not None:
        return known
    return const_int(sym.Analyzer().simplify(e if core is None else substitute_expr(e, {core: imm(number)})))


def fill_together(boxes: list[list[tuple[int, int]]], shape) -> bool:
    """True if boxes that differ along one dimension only cover a whole static buffer."""
    whole = [(0, const_int(n)) for n in shape]
    if whole in boxes:
        return True
    for d in range(len(whole)):
        end = 0
        for low, high in sorted(b[d] for b in boxes if b[:d] + b[d + 1 :] == whole[:d] + whole[d + 1 :]):
            end = max(end, high) if low <= end else end
        if end >= whole[d][1]:
            return True
    return False


def lies_in(box, boxes: Iterable) -> bool:
    """True if a box, (first, end) for each dimension, lies in one of `boxes`; None stands for any place."""
    return box is not None and any(all(low <= first and end <= high for (first, end), (low, high) in zip(box, other)) for other in boxes)


def _nest_boxes(stmt: Stmt, buffer, ranges: dict) -> list[list[tuple[int, int]]]:
    """Boxes that stores of a nest fill whose indices are its loops, each shifted by a constant. ranges: variable -> (first, end) of the iterations
    that run, as conditions on single loops tell."""
    if isinstance(stmt, For):
        if not _runs(stmt):
            return []
        inner = {**ranges, stmt.loop_var: (0, const_int(stmt.extent))}
        return [box for s in stmts_of(stmt.body) for box in _nest_boxes(s, buffer, inner)]
    if isinstance(stmt, IfThenElse):
        held = _where(stmt.condition, ranges)
        return [] if held is None else [box for s in stmts_of(stmt.then_case) for box in _nest_boxes(s, buffer, held)]
    if not isinstance(stmt, BufferStore) or not stmt.buffer.same_as(buffer):
        return []
    forms, used = [affine(i, list(ranges)) for i in stmt.indices], set()
    box: list[tuple[int, int]] = []
    for form in forms:
        base = None if form is None else const_int(form.base)
        if base is None or len(form.coeffs) > 1 or any(c != 1 or v in used for v, c in form.coeffs.items()):
            return []
        used |= form.coeffs.keys()
        low, end = next((ranges[v] for v in form.coeffs), (0, 1))
        box.append((base + low, base + end))
    return [box]


def _where(condition, ranges: dict) -> dict | None:
    """The iterations of `ranges` in which a condition holds; None if these are none, or not told by bounds of single loops."""
    held = dict(ranges)
    for term in conjuncts(condition):
        sides = sides_of(term)
        if sides is None:
            return None
        small, large, least = sides
        left, right = (affine(x, list(ranges)) for x in (small, large))
        bases = [None if f is None else const_int(f.base) for f in (left, right)]
        if None in bases or len(left.coeffs) + len(right.coeffs) != 1:
            return None
        ((v, c),) = (left.coeffs or right.coeffs).items()
        if c != 1:
            return None
        low, end = held[v]
        if left.coeffs:  # b - (v + a) >= least
            end = min(end, bases[1] - bases[0] - least + 1)
        else:  # v + b - a >= least
            low = max(low, bases[0] - bases[1] + least)
        held[v] = low, end
        if low >= end:
            return None
    return held


def _runs(loop: For) -> bool:
    """Does a loop of a nest run all of its iterations, of which there is one at least? Those of run time may be none."""
    return loop.kind == ForKind.PARALLEL and COUNT not in loop.annotations and bool(const_int(loop.extent))


def _nest_covers(stmt: Stmt, buffer, extents: dict) -> bool:
    if isinstance(stmt, For):
        if not _runs(stmt):
            return False
        return any(_nest_covers(s, buffer, {**extents, stmt.loop_var: const_int(stmt.extent)}) for s in stmts_of(stmt.body))
    if isinstance(stmt, BufferStore) and stmt.buffer.same_as(buffer):
        used = set()
        for index, n in zip(stmt.indices, buffer.ty.shape):
            if const_int(n) == 1 and const_int(index) == 0:
                continue
            if not isinstance(index, Var) or index in used or extents.get(index) != const_int(n):
                return False
            used.add(index)
        return True
    return False


__all__ = ["fill_together", "lies_in", "read_boxes", "repeats", "whole_store", "writes_whole", "written_boxes"]
