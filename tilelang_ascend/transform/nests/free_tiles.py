"""free_tiles: tiles that blocks work through by a loop of their own are blocks.

Before:  grid(24): for w in range(22): t = 24 * w + block; if t >= 512: break; copy(A[t // 8 % 32 * 128 : +128], a); …
After:   grid(8, 32, 2): copy(A[by * 128 : +128], a); …                                                     # t = bx + 8 * by + 256 * bz

GPU kernels are persistent to fill multiprocessors without a pause. Here every grid is worked through by as many blocks as there are cores, tiles follow
each other without a pause (`chain_tiles`), and what neighbours load alike is loaded once: but for that, it has to be known that tiles are
independent, and which are neighbours. A block that is nothing but such a loop has tiles numbered by the loop and the block together; that they store to
elements of their own is found out tile by tile, as which of them a condition leaves out.

Requires: Tile IR after wrap_products, before fold_conditions. Ensures: same values.
"""

from __future__ import annotations

import operator
from dataclasses import replace
from itertools import permutations, takewhile

from ...analysis.index.affine import affine
from ...analysis.index.sums import SUMS, as_sum
from ...analysis.tiles.home_loops import overwritten_first
from ...ir import (
    AllocBuffer,
    Bind,
    Break,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    PrimFunc,
    Range,
    Stmt,
    StmtMutator,
    Var,
    const_int,
    dtype_of,
    expr_children,
    exprs,
    free_vars,
    imm,
    map_children,
    scope_of,
    seq,
    statements,
    stmts_of,
    substitute,
    sym,
    tirx,
)
from ...ir.grids import Grid
from ...tile.jumps import may_leave
from ...tile.nests import inline_index_binds
from ...tile.uses import is_output, loads_in, on_chip, uses_of
from .loose_loops import stores_of

MOST_TILES = 1 << 13
"""Tiles that are looked at one by one."""
MOST_AXES = 3
"""Of a grid."""

_OPERATIONS: dict = {
    tirx.Add: operator.add, tirx.Sub: operator.sub, tirx.Mul: operator.mul, tirx.FloorDiv: operator.floordiv, tirx.FloorMod: operator.mod,
    tirx.Min: min, tirx.Max: max, tirx.LT: operator.lt, tirx.LE: operator.le, tirx.GT: operator.gt, tirx.GE: operator.ge, tirx.EQ: operator.eq,
    tirx.NE: operator.ne, tirx.And: lambda a, b: bool(a and b), tirx.Or: lambda a, b: bool(a or b),
}  # fmt: skip


class _Unknown(Exception):
    """An expression is of more than the number of a tile."""


def free_tiles(func: PrimFunc, notes: list) -> PrimFunc:
    """Apply to a Tile IR function; what was done is told in `notes`."""
    grid = Grid.of(func.body)
    if len(grid.axes) != 1 or grid.extents[0] is None:
        return func
    found = _tiles_of(grid)
    if found is None:
        return func
    tile, count, body = found
    axes, number = _axes(grid, tile, count, body)
    notes.append(f"the {count} tiles that {grid.extents[0]} blocks work through one after the other are blocks of their own")
    return func.with_body(replace(grid, axes=tuple(axes), extents=tuple(const_int(a.extent) for a in axes), body=number).rebuilt(func.body))


def _tiles_of(grid: Grid) -> tuple[Var, int, Stmt] | None:
    """(number of a tile, how many there are, what a block does for one); None if blocks do anything else, or tiles are not independent."""
    stmts = stmts_of(grid.body)
    work = [s for s in stmts if not isinstance(s, (AllocBuffer, Bind))]
    around = [s for s in stmts if isinstance(s, (AllocBuffer, Bind))]
    if len(work) != 1 or not isinstance(work[0], For) or work[0].kind != ForKind.SERIAL or const_int(work[0].min) != 0:
        return None
    (loop,), blocks = work, grid.extents[0]
    waves = const_int(loop.extent)
    if waves is None or waves < 2 or blocks * waves > MOST_TILES or any(loads_in(s.value) for s in around if isinstance(s, Bind)):
        return None
    inside = inline_index_binds(seq([s for s in around if isinstance(s, Bind)], loop.body))
    tile = Var("tile", "int32")
    body = _numbered(inside, grid.axes[0].loop_var, loop.loop_var, blocks, tile)
    if body is None:
        return None
    found = _there(list(stmts_of(body)), tile, blocks, waves)
    if found is None:
        return None
    count, rest = found
    if count < 2 or not _alone(rest, tile, count):
        return None
    return tile, count, seq([s for s in around if isinstance(s, AllocBuffer)], rest)


class _Numbered(StmtMutator):
    """Sums of a variable and `times` that of another one, in terms of their `number`."""

    def __init__(self, inner: Var, outer: Var, times: int, number: Var):
        self.inner, self.outer, self.times, self.number = inner, outer, times, number

    def expr(self, e):
        if isinstance(e, SUMS) and dtype_of(e) == "int32":
            found = as_sum(e, exact=True)
            n = found.coefficient(self.inner)
            if n and found.coefficient(self.outer) == n * self.times:
                rest = found.without([self.inner, self.outer])
                rest = self.expr(imm(rest.const) if not rest.terms else rest.expr())
                own = self.number if n == 1 else self.number * n
                return own if const_int(rest) == 0 else own + rest
        return map_children(e, self.expr)


def _numbered(body: Stmt, inner: Var, outer: Var, times: int, number: Var) -> Stmt | None:
    """`body` in terms of `number`, inner + times * outer; None if it asks for more of the two."""
    found = _Numbered(inner, outer, times, number)(body)
    left = set().union(*(free_vars(e) for s in statements(found) for e in exprs(s)))
    return None if {inner, outer} & left else found


def _there(body: list[Stmt], tile: Var, blocks: int, waves: int) -> tuple[int, list[Stmt]] | None:
    """(How many tiles there are, what is done for each) of at most so many for each of the blocks: those behind the last one that a condition does not
    leave out do nothing. None if a block may stop for good before tiles that are there."""
    most = blocks * waves
    names = list(takewhile(lambda s: isinstance(s, Bind) and not loads_in(s.value), body))
    first, rest = next(iter(body[len(names) :]), None), body[len(names) + 1 :]
    try:
        if isinstance(first, IfThenElse) and first.else_case is None and isinstance(first.then_case, Break):
            left = [bool(_number(first.condition, tile, n)) for n in range(most)]
            count = left.index(True) if True in left else most
            for n in range(blocks, most):
                left[n] |= left[n - blocks]  # A tile that is left out ends the work of its own block, not that of the others.
            return None if not all(left[count:]) or any(map(may_leave, rest)) else (count, [*names, *rest])
        if any(map(may_leave, body)):
            return None
        if isinstance(first, IfThenElse) and first.else_case is None and not rest:
            there = [n for n in range(most) if _number(first.condition, tile, n)]
            count = max(there, default=-1) + 1
            return count, [*names, *stmts_of(first.then_case)] if len(there) == count else body
    except _Unknown:
        if any(map(may_leave, body)):
            return None
    return most, body


def _number(e, tile: Var, n: int) -> int:
    """What an expression of integers is for tile number `n`."""
    if isinstance(e, IntImm):
        return int(e.value)
    if isinstance(e, Var):
        if e.same_as(tile):
            return n
        raise _Unknown
    if isinstance(e, tirx.Not):
        return not _number(e.a, tile, n)
    run = _OPERATIONS.get(type(e))
    if run is None or "float" in dtype_of(e.a):
        raise _Unknown
    a, b = _number(e.a, tile, n), _number(e.b, tile, n)
    if type(e) in (tirx.FloorDiv, tirx.FloorMod) and b == 0:
        raise _Unknown
    return run(a, b)


def _alone(body: list[Stmt], tile: Var, count: int) -> bool:
    """True if no tile uses what another one leaves: each fills what it changes on chip, and stores to elements of its own that nobody reads."""
    whole = seq(body)
    uses, stores = uses_of(whole), stores_of(whole)
    if any(is_output(s) for s in statements(whole)) or any(scope_of(b) == "local.var" for b in uses.writes):
        return False
    if any(b in uses.reads or sum(b.same_as(x) for x, _ in stores) > 1 for b, _ in stores):
        return False
    if {b for b in uses.writes if not on_chip(b)} != {b for b, _ in stores}:
        return False
    inner = {s.loop_var: const_int(s.extent) for s in statements(whole) if isinstance(s, For)}
    try:
        apart = all(_apart(box, tile, count, inner) for _, box in stores)
    except _Unknown:
        return False
    return apart and all(_is_filled(whole, b) for b in uses.writes if on_chip(b))


def _is_filled(body: Stmt, buffer) -> bool:
    """True if nothing of a tile on chip is read that `body` has not written, be it that loops alone use it, which may have no iteration."""
    users = [s for s in stmts_of(body) if not isinstance(s, AllocBuffer) and buffer in uses_of(s).all]
    loops = all(isinstance(s, For) and s.kind == ForKind.SERIAL and overwritten_first(s.body, buffer) for s in users)
    return loops or overwritten_first(body, buffer)


def _apart(box: list, tile: Var, count: int, inner: dict) -> bool:
    """True if no two tiles have an element of a box, (first index, number of indices) of each dimension, in common. inner: loops in a tile, with their trips."""
    places: list = [[] for _ in range(count)]
    for low, extent in box:
        form, length = affine(low, list(inner)), const_int(extent)
        if form is None or length is None or any(inner[v] is None for v in form.coeffs):
            continue
        base, span = form.hull(inner)
        ends = [(first := _number(base, tile, n), first + span - 1 + length) for n in range(count)]
        distinct = sorted(set(ends))
        # Along some dimensions all intervals are the same, or have nothing in common: these tell tiles apart.
        if all(a[1] <= b[0] for a, b in zip(distinct, distinct[1:])):
            for place, end in zip(places, ends):
                place.append(end)
    return len(set(map(tuple, places))) == count


def _axes(grid: Grid, tile: Var, count: int, body: Stmt) -> tuple[list[For], Stmt]:
    """(Axes of a grid with a block for each tile, `body` in terms of them): one for each digit of the number of a tile that the body asks for."""
    known = _Short({tile: count})
    body = known(body)
    steps = [1]
    for n in sorted(_steps(body, tile)):
        if n % steps[-1] == 0 and count % n == 0 and steps[-1] < n < count and len(steps) < MOST_AXES:
            steps.append(n)
    sizes = [b // a for a, b in zip(steps, [*steps[1:], count])]
    digits = [(Var(name, "int32"), n) for name, n in zip(("bx", "by", "bz"), sizes)]
    number = sum((v * n if n > 1 else v for (v, _), n in zip(digits[1:], steps[1:])), start=digits[0][0])
    body = _Short(dict(digits))(substitute(body, {tile: number}))
    digits, body = _joined(digits, body)
    axis = grid.axes[0]
    axes = [
        For(v, imm(0), imm(n), axis.kind, axis.body, annotations={**dict(axis.annotations), "tl.grid": k}, span=axis.span)
        for k, (v, n) in enumerate(digits)
    ]
    return axes, body


def _joined(digits: list, body: Stmt) -> tuple[list, Stmt]:
    """(variable, how many values it has) of the axes of a grid, and `body` in terms of them: digits that are used as those of one number are one, as where a kernel
    works through its grid in groups."""
    for (inner, n), (outer, m) in permutations(digits, 2):
        number = Var(inner.name, "int32")
        found = _numbered(body, inner, outer, n, number)
        if found is not None and any(number in free_vars(e) for s in statements(found) for e in exprs(s)):
            at = digits.index((inner, n))
            left = [(number, n * m) if k == at else d for k, d in enumerate(digits) if not d[0].same_as(outer)]
            return _joined(left, found)
    return digits, body


def _steps(body: Stmt, tile: Var) -> set[int]:
    """Numbers of tiles after which a quotient or a remainder in `body` changes, or begins anew."""
    found: set = set()

    def see(e) -> None:
        if isinstance(e, (tirx.FloorDiv, tirx.FloorMod)) and const_int(e.b) and (n := _rate(e.a, tile)):
            found.add(n * const_int(e.b))
        for x in expr_children(e):
            see(x)

    for s in statements(body):
        for e in exprs(s):
            see(e)
    return found


def _rate(e, tile: Var) -> int:
    """How many tiles an expression goes without a change, if it is the number of a tile, or a quotient or remainder of such; 0 for anything else."""
    if isinstance(e, Var):
        return int(e.same_as(tile))
    if isinstance(e, tirx.FloorDiv) and const_int(e.b):
        return _rate(e.a, tile) * const_int(e.b)
    return _rate(e.a, tile) if isinstance(e, tirx.FloorMod) and const_int(e.b) else 0


class _Short(StmtMutator):
    """Quotients, remainders, minima and maxima of variables with so many values (`counts`), as short as that makes them."""

    def __init__(self, counts: dict):
        self.known, self.names = sym.Analyzer(), set(counts)
        for v, n in counts.items():
            self.known.bind(v, Range.from_min_extent(imm(0), imm(n)))

    def expr(self, e):
        out = map_children(e, self.expr)
        short = isinstance(out, (tirx.FloorDiv, tirx.FloorMod, tirx.Min, tirx.Max)) and not loads_in(out)
        return self.known.simplify(out) if short and free_vars(out) and free_vars(out) <= self.names else out


__all__ = ["free_tiles"]
