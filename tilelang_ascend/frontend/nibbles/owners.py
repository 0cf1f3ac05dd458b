"""one_block_for_each_byte: blocks of the grid that store to halves of the same bytes become one block.

Before:  grid b < 64: y[b] = v                               # an element of int4: blocks 0 and 1 have halves of byte 0
After:   grid g < 32: for h in range(2): y[2 * g + h] = v

An axis of the grid is kept if blocks that differ along it store to bytes of their own: some dimension of the tensor steps with the axis by more
than all that a block stores there. The others are shortened, by as few blocks in one as that takes; an axis of which nothing is known becomes a
loop of one block.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ...analysis.index.affine import affine
from ...ir import (
    Bind,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    PrimFunc,
    Stmt,
    StmtMutator,
    TensorRegion,
    Var,
    const_int,
    dtype_of,
    expr_children,
    free_vars,
    if_then,
    imm,
    is_leaf,
    map_children,
    stmts_of,
    substitute,
    substitute_expr,
    sym,
    tirx,
)
from ...ir.grids import is_grid_axis
from ...log import get_logger
from ...tile import tile_op_of
from ...tile.uses import loads_in
from .views import storages

_MOST = 64
"""Blocks that are made one before an axis is given up."""


@dataclass
class _Write:
    """What a statement stores to a tensor. `pinned`: axes of the grid -> the only block along them that runs it."""

    mins: list
    extents: list
    loops: dict
    pinned: dict


class _Writes:
    """All stores to tensors in the body of a grid."""

    def __init__(self, buffers, axes: dict):
        self.axes = axes
        self.found: dict = {b: [] for b in buffers}
        self.loops: dict = {}
        self.lets: dict = {}

    def see(self, s: Stmt, pinned: dict) -> None:
        if isinstance(s, Bind):
            self.lets[s.var] = substitute_expr(s.value, self.lets)
        elif isinstance(s, For):
            self.loops[s.loop_var] = const_int(s.extent)
            self.see(s.body, pinned)
        elif isinstance(s, IfThenElse):
            self.see(s.then_case, {**pinned, **self.pins(s.condition)})
            if s.else_case is not None:
                self.see(s.else_case, pinned)
        elif isinstance(s, BufferStore):
            self.note(s.buffer, s.indices, [1] * len(s.indices), pinned)
        elif tile_op_of(s) is not None:
            for k, arg in enumerate(s.value.args):
                if isinstance(arg, TensorRegion) and k in tile_op_of(s).writes:
                    self.note(arg.source, [r.min for r in arg.region], [const_int(r.extent) for r in arg.region], pinned)
        else:
            for child in [s.body] if hasattr(s, "body") else stmts_of(s):
                if child is not s:
                    self.see(child, pinned)

    def note(self, buffer, mins, extents: list, pinned: dict) -> None:
        if buffer in self.found:
            mins = [substitute_expr(e, self.lets) for e in mins]
            self.found[buffer].append(_Write(mins, extents, dict(self.loops), pinned))

    def pins(self, cond) -> dict:
        """Axes of which a condition leaves one block."""
        cond = substitute_expr(cond, self.lets)
        if isinstance(cond, tirx.And):
            return {**self.pins(cond.a), **self.pins(cond.b)}
        if isinstance(cond, tirx.EQ):
            for a, b in ((cond.a, cond.b), (cond.b, cond.a)):
                if isinstance(a, Var) and a in self.axes and const_int(b) is not None:
                    return {a: const_int(b)}
        return {}


def _kept(writes: list, axes: dict, together: dict) -> set:
    """Axes along which blocks store to bytes of their own. `axes`: extents, None if not known; `together`: blocks that are one, None: all."""
    kept = {a for a in axes if all(a in w.pinned for w in writes) and len({w.pinned[a] for w in writes}) == 1}
    divided = {a: k for a in axes if together[a] == 1 and (k := _divisor(writes, a)) is not None}
    parts = {a: (Var(f"{a.name}_high", dtype_of(a)), Var(f"{a.name}_low", dtype_of(a))) for a in divided}
    writes = [replace(w, mins=[_divided(e, divided, parts) for e in w.mins]) for w in writes]
    for a, k in divided.items():
        axes = {**axes, parts[a][0]: None if axes[a] is None else -(-axes[a] // k), parts[a][1]: k}
    together, last = {a: together.get(a, 1) for a in axes}, len(writes[0].mins) - 1
    while True:
        more = set().union(*(_apart(writes, axes, together, kept, d, d == last) for d in range(last + 1))) - kept
        if not more:
            return kept | {a for a, halves in parts.items() if kept.issuperset(halves)}
        kept |= more


def _quotients(e, axis) -> list:
    """Divisors of an axis of the grid in an expression, None for what is no quotient or remainder of it."""
    if isinstance(e, (tirx.FloorDiv, tirx.FloorMod)) and e.a.same_as(axis):
        return [const_int(e.b)]
    if isinstance(e, Var):
        return [None] if e.same_as(axis) else []
    return [] if is_leaf(e) else [k for child in expr_children(e) for k in _quotients(child, axis)]


def _divisor(writes: list, axis) -> int | None:
    """The number by which an axis is divided wherever it is used: a grid of several axes that was made one."""
    found = {k for w in writes for e in w.mins for k in _quotients(e, axis)}
    return next(iter(found)) if len(found) == 1 else None


def _divided(e, divisors: dict, parts: dict):
    """An expression in quotients and remainders of axes."""

    def go(x):
        if isinstance(x, (tirx.FloorDiv, tirx.FloorMod)) and x.a in parts and const_int(x.b) == divisors[x.a]:
            return parts[x.a][isinstance(x, tirx.FloorMod)]
        return map_children(x, go)

    return go(e)


def _apart(writes: list, axes: dict, together: dict, kept: set, d: int, halves: bool) -> set:
    """Axes that dimension `d` tells apart, of blocks that do not differ along those `kept`; `halves`: two numbers of it share a byte."""
    steps, low, high, first = None, 0, 0, None
    analyzer = sym.Analyzer()
    for w in writes:
        form = affine(w.mins[d], [*axes, *(v for v, n in w.loops.items() if n)])
        if form is None or w.extents[d] is None or loads_in(form.base) or free_vars(form.base) & w.loops.keys():
            return set()
        own = {a: form.coeffs.get(a, 0) for a in axes}
        base = form.base if first is None else analyzer.simplify(form.base - first)
        if first is None:
            first, start = form.base, 0
        else:
            start = const_int(base)
        if start is None or (steps is not None and own != steps):
            return set()
        steps = own
        reach = [c * (w.loops[v] - 1) for v, c in form.coeffs.items() if v not in axes]
        low = min(low, start + sum(r for r in reach if r < 0))
        high = max(high, start + sum(r for r in reach if r > 0) + w.extents[d] - 1)
    for a, n in together.items():
        if n is None and steps[a]:
            if axes[a] is None:
                return set()
            low, high = low + min(0, steps[a] * (axes[a] - 1)), high + max(0, steps[a] * (axes[a] - 1))
        elif n is not None:
            low, high = low + min(0, steps[a] * (n - 1)), high + max(0, steps[a] * (n - 1))
    steps = {a: c * together[a] for a, c in steps.items() if c and together[a] is not None}
    need, offset = high - low + 1, const_int(first)
    if halves:
        whole = offset is not None and all(c % 2 == 0 for c in steps.values())
        need = (offset + high) // 2 * 2 - (offset + low) // 2 * 2 + 2 if whole else need + 1
    found: set = set()
    for a, c in sorted(((a, c) for a, c in steps.items() if a not in kept), key=lambda x: abs(x[1])):
        # What a longer step does not tell apart may make up for a shorter one.
        found = found | {a} if abs(c) >= need else set()
        need = math.inf if axes[a] is None else need + abs(c) * (-(-axes[a] // together[a]) - 1)
    return found


class _Join(StmtMutator):
    """Gives every launch the blocks its tensors allow."""

    def __init__(self, buffers: dict, roots: dict):
        self.buffers, self.roots = buffers, roots
        self.changed = False

    def visit_For(self, s: For):
        if not is_grid_axis(s):
            return self.generic(s)
        grid, body = [s], s.body
        while is_grid_axis(body):
            grid, body = [*grid, body], body.body
        axes = {a.loop_var: const_int(a.extent) for a in grid if const_int(a.extent) != 1}
        writes = _Writes(self.buffers, axes)
        writes.see(body, {})
        names = [self.roots.get(b, b) for b, found in writes.found.items() if found]
        if len(set(names)) < len(names):  # indices under two names say nothing of each other
            together: dict = dict.fromkeys(axes)
        else:
            together = self.together([w for w in writes.found.values() if w], axes)
        if all(n == 1 for n in together.values()):
            return s
        self.changed = True
        self.tell(writes, together)
        return self.joined(grid, body, together)

    def tell(self, writes: _Writes, together: dict) -> None:
        """A warning of what becomes slower."""
        names = [b.name for b, found in writes.found.items() if found]
        at = next(self.buffers[b] for b, found in writes.found.items() if found)
        blocks = ", ".join(f"{'all' if n is None else n} blocks along {a.name} are one" for a, n in together.items() if n != 1)
        where = "" if at is None else f"{at.source_name.name}:{at.line}: "
        get_logger().warning("%sblocks may store to halves of the same byte of %s: %s", where, ", ".join(names), blocks)

    @staticmethod
    def together(stores: list, axes: dict) -> dict:
        """Axis -> how many of its blocks become one; None: all."""
        together: dict = dict.fromkeys(axes, 1)
        while True:
            lost = {a for w in stores for a in axes if together[a] is not None and a not in _kept(w, axes, together)}
            if not lost:
                return together
            for a in lost:
                n = 2 * together[a]
                together[a] = n if n <= _MOST and n < (axes[a] or n + 1) else None

    def joined(self, grid: list, body: Stmt, together: dict) -> Stmt:
        shorter: list = []
        for a in reversed(grid):
            n, var, extent = together.get(a.loop_var, 1), a.loop_var, a.extent
            dtype = dtype_of(var)
            if n is None:
                body = For(var, imm(0, dtype), extent, ForKind.SERIAL, body, span=a.span)
                shorter.insert(0, (Var(f"{var.name}_all", dtype), imm(1, dtype)))
            elif n > 1:
                outer, inner = Var(f"{var.name}_some", dtype), Var(f"{var.name}_part", dtype)
                block = outer * imm(n, dtype) + inner
                body = substitute(body, {var: block})
                if const_int(extent) is None or const_int(extent) % n:
                    body = if_then(block < extent, body, span=a.span)
                body = For(inner, imm(0, dtype), imm(n, dtype), ForKind.SERIAL, body, span=a.span)
                shorter.insert(0, (outer, sym.Analyzer().simplify(tirx.floordiv(extent + imm(n - 1, dtype), imm(n, dtype)))))
            else:
                shorter.insert(0, (var, extent))
        for (var, extent), a in reversed(list(zip(shorter, grid))):
            body = For(var, a.min, extent, a.kind, body, annotations=dict(a.annotations), span=a.span)
        return body


def one_block_for_each_byte(func: PrimFunc, buffers: dict) -> PrimFunc:
    """Apply to a function with dtypes of 4 bits; `buffers`: tensors of which halves of bytes are stored, and where that is done."""
    if not buffers:
        return func
    join = _Join(buffers, storages(func.body))
    body = join(func.body)
    return func.with_body(body) if join.changed else func


__all__ = ["one_block_for_each_byte"]
