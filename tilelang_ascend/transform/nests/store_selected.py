"""Which elements of a staged tile a nest stores to, and transfers of exactly these.

Elements between them may belong to other blocks: writing a whole tile back would race with what those store. Where it is not clear
from the loops that a nest stores to every element of its tile, the nest also writes a mask, and only what the mask selects is
transferred: whole rows if the innermost index does not matter, otherwise runs of elements, which the scalar unit finds.

Where a nest updates elements in place, and what it reads of them does not decide which, the mask comes first and only what it selects is
loaded: the others may be those of blocks that are storing to them. Where an element decides whether it is stored itself, what may be stored is
loaded, and another mask says what is.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import numpy as np

from ...analysis.index.affine import affine
from ...analysis.index.nest_indices import conjuncts
from ...ir import (
    AllocBuffer,
    Bind,
    Break,
    BufferLoad,
    BufferStore,
    Continue,
    Evaluate,
    For,
    IfThenElse,
    SeqStmt,
    Stmt,
    StmtMutator,
    Var,
    While,
    const_int,
    decl_buffer,
    dtype_of,
    exprs,
    free_vars,
    full_region,
    if_then,
    imm,
    loop,
    parallel_nest,
    region,
    seq,
    statements,
    stmts_of,
    structural_equal,
    tirx,
)
from ...tile import tile_op
from ...tile.uses import is_scalar_var, loads_in

RUN_ELEMENTS = 512
"""Elements that are spread to blocks of their own at a time, so that a run may start anywhere: 16 KB of UB."""


def covers(loops: list, body: Stmt, buffer) -> bool:
    """True if a nest surely stores to every element of `buffer`, a tile of constant shape."""
    sizes = [const_int(e) for _, e in loops]
    if None in sizes or 0 in sizes:
        return False
    shape = [const_int(n) for n in buffer.ty.shape]
    return bool(_stored(body, buffer, dict(zip([v for v, _ in loops], sizes)), shape).all())


def _stored(stmt: Stmt, buffer, extents: dict, shape: list) -> np.ndarray:
    """The elements that are stored to in every run of `stmt` over all values of the variables."""
    if isinstance(stmt, For):
        n = const_int(stmt.extent)
        if n is not None and any(isinstance(x, Break) for s in stmts_of(stmt.body) for x in _this_iteration(s)):
            n = 1  # Nothing is sure beyond the first iteration.
        return _stored(stmt.body, buffer, {**extents, stmt.loop_var: n}, shape) if n else np.zeros(shape, bool)
    found = np.zeros(shape, bool)
    for s in stmts_of(stmt):
        if isinstance(s, For):
            found |= _stored(s, buffer, extents, shape)
            continue
        if any(isinstance(x, (Break, Continue)) for x in _this_iteration(s)):
            break
        for indices in _places(s, buffer):
            forms = [affine(i, list(extents)) for i in indices]
            if all(f is not None and const_int(f.base) is not None for f in forms):
                found[_walked(forms, extents, [const_int(f.base) for f in forms])] = True
    return found


def _this_iteration(stmt: Stmt) -> list[Stmt]:
    """`stmt` and what it holds, without the loops inside: their jumps are their own."""
    sides = [stmt.then_case, stmt.else_case] if isinstance(stmt, IfThenElse) else []
    return [stmt, *(x for side in sides if side is not None for s in stmts_of(side) for x in _this_iteration(s))]


def _places(stmt: Stmt, buffer) -> list:
    """Indices of the elements that one iteration surely stores to, loops inside of it left out."""
    if isinstance(stmt, BufferStore):
        return [list(stmt.indices)] if stmt.buffer.same_as(buffer) else []
    if not isinstance(stmt, IfThenElse) or stmt.else_case is None:
        return []
    # An iteration runs one of the sides: both must store to the same element.
    sides = [[p for s in stmts_of(x) for p in _places(s, buffer)] for x in (stmt.then_case, stmt.else_case)]
    return [a for a in sides[0] if any(all(map(structural_equal, a, b)) for b in sides[1])]


def _walked(forms: list, extents: dict, bases: list) -> tuple:
    """Arrays of indices that affine `forms` with the given bases take over all values of the variables."""
    used = [v for v in extents if any(v in f.coeffs for f in forms)]
    grids = dict(zip(used, np.indices([extents[v] for v in used], sparse=True))) if used else {}
    return tuple(sum((c * grids[v] for v, c in f.coeffs.items()), base) for f, base in zip(forms, bases))


def fills_hull(forms: list, extents: dict) -> bool:
    """True if indices of affine `forms` take every value in the box they span. Extents of the variables in them are constants."""
    hulls = [replace(f, base=0).hull(extents) for f in forms]
    found = np.zeros([size for _, size in hulls], bool)
    found[_walked(forms, extents, [-low for low, _ in hulls])] = True
    return bool(found.all())


def needs_whole_rows(loops: list, body: Stmt, buffer) -> bool:
    """True if a nest stores to all elements of a row of `buffer` or to none: conditions do not look at the innermost index."""
    inside = list(statements(body))
    if any(isinstance(s, (Break, Continue, While)) for s in inside):
        return False  # Whether a store is reached depends on more than the conditions around it.
    extents = {v: const_int(e) for v, e in loops}
    lets = {s.var: s.value for s in inside if isinstance(s, Bind)}
    changed = {s.buffer for s in inside if isinstance(s, BufferStore) and is_scalar_var(s.buffer)}
    width = const_int(buffer.ty.shape[-1])

    def mentions(e, var) -> bool:
        return any(v.same_as(var) or v in changed or (v in lets and mentions(lets[v], var)) for v in free_vars(e))

    def uniform(stmt: Stmt, conditions: list) -> bool:
        if isinstance(stmt, SeqStmt):
            return all(uniform(s, conditions) for s in stmt.seq)
        if isinstance(stmt, IfThenElse):
            sides = [stmt.then_case] + ([stmt.else_case] if stmt.else_case is not None else [])
            return all(uniform(s, [*conditions, stmt.condition]) for s in sides)
        if isinstance(stmt, For):
            return uniform(stmt.body, [*conditions, stmt.extent])
        if not (isinstance(stmt, BufferStore) and stmt.buffer.same_as(buffer)):
            return True
        last = stmt.indices[-1]
        if not isinstance(last, Var) or extents.get(last) != width:
            return False
        return not any(mentions(e, last) for e in (*conditions, *list(stmt.indices)[:-1]))

    return uniform(body, [])


class Selection:
    """A mask beside a staged tile: which of its elements (or of its rows) the nest has stored to."""

    def __init__(self, buffer, rows: bool):
        self.buffer, self.rows = buffer, rows
        shape = [const_int(n) for n in buffer.ty.shape]
        self.mask = decl_buffer((shape[:-1] or [1]) if rows else shape, "int32", f"{buffer.name}_set", scope="shared.ub")

    @property
    def nbytes(self) -> int:
        """Bytes of the mask."""
        total = 4
        for n in self.mask.ty.shape:
            total *= const_int(n)
        return total

    @property
    def spread_bytes(self) -> int:
        """Bytes the transfer needs for a while."""
        return 0 if self.rows else 32 * RUN_ELEMENTS

    def index(self, indices: list) -> list:
        """Index into the mask of an element of the tile."""
        return (indices[:-1] or [imm(0)]) if self.rows else indices

    def mark(self, body: Stmt, alone: bool = False) -> Stmt:
        """`body` with a store to the mask beside every store to the tile, or with `alone` in place of it."""
        return _Mark(self, alone)(body)

    def clear(self, span) -> list[Stmt]:
        """What stands in front of the nest: nothing is selected."""
        return [tile_op("fill", full_region(self.mask), imm(0, "int32"), span=span)]

    def transfer(self, gm, span, load: bool = False) -> Stmt:
        """The copies of what is selected; `gm(indices, extents)` is the region of GM of a box of the tile. `load`: into the tile."""
        shape = [const_int(n) for n in self.buffer.ty.shape]
        outer = [Var(f"r{d}", "int32") for d in range(len(shape) - 1)]
        if self.rows:
            extents = [*[1] * len(outer), shape[-1]]
            ends = [region(self.buffer, [*outer, imm(0)], extents), gm([*outer, imm(0)], extents)]
            row = tile_op("copy", *(reversed(ends) if load else ends), span=span)
            skipped = tirx.EQ(BufferLoad(self.mask, self.index([*outer, imm(0)])), imm(0, "int32"))
            body = if_then(tirx.Not(skipped), row, span=span)
        else:
            whole, rest = shape[-1] // RUN_ELEMENTS, shape[-1] % RUN_ELEMENTS
            part = Var("part", "int32")
            parts = loop(part, whole, self._runs(outer, part * RUN_ELEMENTS, RUN_ELEMENTS, gm, span, load), span=span) if whole else None
            body = seq(parts, self._runs(outer, imm(whole * RUN_ELEMENTS), rest, gm, span, load) if rest else None)
        notes = {} if self.rows or load else {"tl__slow": SLOW}
        around = list(zip(outer, shape)) or [(Var("once", "int32"), 1)]
        for v, n in reversed(around):
            body = loop(v, n, body, span=span, **(notes if v is around[0][0] else {}))
        return body

    def _runs(self, outer: list, first, count: int, gm, span, load: bool) -> Stmt:
        """Transfers of the selected ones of `count` elements from `first` on of one row."""
        spread = decl_buffer((count, 1), dtype_of(self.buffer), f"{self.buffer.name}_apart", scope="shared.ub")
        i, j = Var("i", "int32"), Var("j", "int32")
        start = decl_buffer((1,), "int32", "run", scope="local.var")
        begin = BufferLoad(start, [imm(0)])
        if load:
            together = BufferStore(self.buffer, BufferLoad(spread, [i, imm(0)]), [*outer, first + i], span=span)
        else:
            together = BufferStore(spread, BufferLoad(self.buffer, [*outer, first + i]), [i, imm(0)], span=span)
        element_wise = parallel_nest([(i, imm(count))], together, span)

        def move(end) -> Stmt:
            length = end - begin
            ends = [region(spread, [begin, imm(0)], [length, 1]), gm([*outer, first + begin], [*[1] * len(outer), length])]
            return if_then(begin < end, tile_op("copy", *(reversed(ends) if load else ends), span=span), span=span)

        # `run` is where the run began that has not ended yet; without one it is the present element.
        ends = seq(move(j), BufferStore(start, j + 1, [imm(0)], span=span))
        skipped = tirx.EQ(BufferLoad(self.mask, [*outer, first + j]), imm(0, "int32"))
        return seq(
            AllocBuffer(spread, span=span),
            AllocBuffer(start, span=span),
            tile_op("fill", full_region(spread), imm(0, dtype_of(spread)), span=span) if load else element_wise,
            BufferStore(start, imm(0), [imm(0)], span=span),
            loop(j, count, if_then(skipped, ends, span=span), span=span),
            move(imm(count)),
            element_wise if load else None,
        )


SLOW = "this conditional store to global memory runs element by element: its condition is neither a bound nor the same for whole rows"


class _Mark(StmtMutator):
    """Stores to the mask beside those to the tile, or with `alone` in place of them."""

    def __init__(self, selection: Selection, alone: bool):
        self.selection, self.alone = selection, alone

    def visit_BufferStore(self, s: BufferStore):
        if not s.buffer.same_as(self.selection.buffer):
            return s
        mark = BufferStore(self.selection.mask, imm(1, "int32"), self.selection.index(list(s.indices)), span=s.span)
        return mark if self.alone else [s, mark]


def updates_in_place(body: Stmt, buffer) -> bool:
    """True if all that a nest stores are elements of `buffer`, each iteration one, and all it reads of `buffer` is this element, which
    decides neither whether it is stored nor where."""
    found = _updated(body, buffer)
    return found is not None and not any(_depend(e, found) for s in statements(body) for e in _decides(s))


def all_it_may_store(body: Stmt, buffer) -> Stmt | None:
    """Where each iteration updates one element of `buffer` in place, and this element may decide whether it does: the nest that stores whenever an
    element might have it so, which are all elements that are read. None elsewhere."""
    found = _updated(body, buffer)
    return None if found is None else _Undecided(found)(body)


def _updated(body: Stmt, buffer) -> set | None:
    """Elements of `buffer` and the scalars that are computed from them, if all that a nest stores are elements of `buffer`, each iteration one, and
    all it reads of `buffer` is this element, which does not decide where it is. None elsewhere."""
    inside = list(statements(body))
    if any(isinstance(s, (Break, Continue, While, Evaluate)) for s in inside):
        return None
    stores = [s for s in inside if isinstance(s, BufferStore) and not is_scalar_var(s.buffer)]
    loads = [x for s in inside for e in exprs(s) for x in loads_in(e) if x.source.same_as(buffer)]
    if not all(s.buffer.same_as(buffer) for s in stores):
        return None
    places = [list(x.indices) for x in (*stores, *loads)]
    if not all(all(map(structural_equal, places[0], p)) for p in places[1:]):
        return None
    elements = {buffer} | _scalars_from(buffer, inside)
    where = [*places[0], *(s.extent for s in inside if isinstance(s, For) and any(s.loop_var in free_vars(i) for i in places[0]))]
    return None if any(_depend(e, elements) for e in where) else elements


def _depend(e, elements: set) -> bool:
    return not elements.isdisjoint(free_vars(e))


def _decides(s: Stmt) -> list:
    """What tells whether statements inside of `s` run."""
    return [s.condition] if isinstance(s, IfThenElse) else [s.extent] if isinstance(s, For) else []


class _Undecided(StmtMutator):
    """Both sides of conditions that `elements` decide, as far as the rest of them holds, and one iteration of loops."""

    def __init__(self, elements: set):
        self.elements = elements

    def visit_For(self, s: For):
        new = self.generic(s)
        if not _depend(s.extent, self.elements):
            return new
        return For(s.loop_var, s.min, imm(1, dtype_of(s.loop_var)), s.kind, new.body, annotations=dict(s.annotations), span=s.span)

    def visit_IfThenElse(self, s: IfThenElse):
        if not _depend(s.condition, self.elements):
            return self.generic(s)
        rest = [c for c in conjuncts(s.condition) if not _depend(c, self.elements)]
        first = self.block(s.then_case)
        first = if_then(reduce(tirx.And, rest), first, span=s.span) if rest else first
        return seq(first, self.block(s.else_case) if s.else_case is not None else None)


def _scalars_from(buffer, inside: list[Stmt]) -> set:
    """Scalars whose value in one of the statements `inside` depends on elements of `buffer`: computed from them, or assigned where they decide."""
    found: set = {buffer}
    before = 0
    while before != len(found):
        before = len(found)
        found |= {s.var for s in inside if isinstance(s, Bind) and _depend(s.value, found)}
        decided = {x for s in inside if any(_depend(e, found) for e in _decides(s)) for x in statements(s)}
        assigned = (s for s in inside if isinstance(s, BufferStore) and is_scalar_var(s.buffer))
        found |= {s.buffer for s in assigned if s in decided or _depend(s.value, found)}
    return found - {buffer}


__all__ = ["Selection", "all_it_may_store", "covers", "fills_hull", "needs_whole_rows", "updates_in_place"]
