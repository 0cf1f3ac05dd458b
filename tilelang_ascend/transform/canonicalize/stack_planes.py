"""stack_planes: a tile of several matrices that the cube core reads or writes becomes one tall matrix, one plane below the other.

Before:  copy(A[0:3, 0:32, 0:32], a); for k in range(3): gemm(a[k, 0:32, 0:32], b, c)                        # a: 3x32x32
After:   for p in range(3): copy(A[p, 0:32, 0:32], a[p * 32 : +32, 0:32]); for k in range(3): gemm(a[k * 32 : +32, 0:32], b, c)

Planes start at rows where a fractal starts. Copies take one plane at a time; other tile ops work on a copy of their operand in its old
shape.

Requires: Tile IR without views. Ensures: operands and accumulators of gemm are matrices (leading dimensions are 1).
"""

from __future__ import annotations

import math

from ...ir import (
    AllocBuffer,
    BufferLoad,
    BufferStore,
    Evaluate,
    PrimFunc,
    Stmt,
    StmtMutator,
    TensorLoad,
    TensorRegion,
    Var,
    const_int,
    decl_buffer,
    dtype_of,
    full_region,
    imm,
    itemsize,
    loop,
    map_children,
    region,
    scope_of,
    seq,
    statements,
    sym,
)
from ...isa.units import FRACTAL_ROWS, round_up
from ...tile import FILL, GEMM, IM2COL, is_op, tile_op, with_args
from ...tile.uses import moved_regions, on_chip, with_regions, work_of
from ...tileop.base.layout import row_major
from ...tileop.copy.axes import paired_dims


class _Stack(StmtMutator):
    def __init__(self, stacks: dict):
        self.stacks = stacks
        """Tile of several matrices -> (the tall matrix, rows from one plane to the next)."""

    # -- places -------------------------------------------------------------------------------------------------
    def place(self, buffer, indices) -> tuple:
        """(tall matrix, row, column) of an element."""
        tall, pitch = self.stacks[buffer]
        row = indices[-2]
        for i, stride in zip(indices[:-2], row_major(buffer.ty.shape[:-2])):
            row = i * (const_int(stride) * pitch) + row
        return tall, sym.Analyzer().simplify(row), indices[-1]

    def flat(self, r: TensorRegion) -> TensorRegion:
        """The rows of the tall matrix that a region of one plane names, or a whole tile without gaps between its planes."""
        mins, extents = [x.min for x in r.region], [x.extent for x in r.region]
        tall, row, column = self.place(r.source, mins)
        rows = math.prod(map(const_int, extents[:-2])) * extents[-2] if len(self.spread(r)) else extents[-2]
        return region(tall, [row, column], [rows, extents[-1]])

    @staticmethod
    def spread(r: TensorRegion) -> list[int]:
        """Leading dimensions of which a region has more than one element."""
        return [d for d, x in enumerate(r.region[:-2]) if const_int(x.extent) != 1]

    def whole(self, r: TensorRegion) -> bool:
        """True if a region is all of a tile whose planes follow each other without a gap."""
        _, pitch = self.stacks[r.source]
        shape = [const_int(n) for n in r.source.ty.shape]
        return pitch == shape[-2] and [const_int(x.extent) for x in r.region] == shape

    # -- elements -----------------------------------------------------------------------------------------------
    def expr(self, e):
        if isinstance(e, TensorLoad) and e.source in self.stacks:
            tall, *indices = self.place(e.source, [self.expr(i) for i in e.indices])
            return BufferLoad(tall, indices)
        return map_children(e, self.expr)

    def visit_BufferStore(self, s: BufferStore):
        value, indices = self.expr(s.value), [self.expr(i) for i in s.indices]
        if s.buffer not in self.stacks:
            return BufferStore(s.buffer, value, indices, span=s.span)
        tall, *indices = self.place(s.buffer, indices)
        return BufferStore(tall, value, indices, span=s.span)

    # -- tile ops -----------------------------------------------------------------------------------------------
    def visit_AllocBuffer(self, s: AllocBuffer):
        return AllocBuffer(self.stacks[s.buffer][0], annotations=s.annotations, span=s.span) if s.buffer in self.stacks else s

    def visit_Evaluate(self, s: Evaluate):
        if work_of(s) is None:
            return self.generic(s)
        # Elements in scalar arguments and in the bounds of regions; the tiles of the regions themselves come below.
        args = [self.bounds(a) if isinstance(a, TensorRegion) else self.expr(a) for a in s.value.args]
        s = with_args(s, args)
        stacked = [k for k, a in enumerate(args) if isinstance(a, TensorRegion) and a.source in self.stacks]
        if not stacked:
            return s
        moves = moved_regions(s) is not None
        if not moves and not is_op(s, FILL, GEMM, IM2COL):
            return self.unstacked(s, stacked)  # It numbers the dimensions of its operands, or shows them.
        if all(not self.spread(args[k]) for k in stacked):
            return self.replaced(s, {k: self.flat(args[k]) for k in stacked})
        return self.move(s) if moves else self.fill(s)

    def bounds(self, r: TensorRegion) -> TensorRegion:
        return region(r.source, [self.expr(x.min) for x in r.region], [self.expr(x.extent) for x in r.region])

    @staticmethod
    def replaced(s: Evaluate, by: dict) -> Evaluate:
        args = [by.get(k, a) for k, a in enumerate(s.value.args)]
        return with_args(s, args)

    def fill(self, s: Evaluate) -> Stmt:
        target = s.value.args[0]
        if self.whole(target):
            return self.replaced(s, {0: full_region(self.stacks[target.source][0])})
        return self.planes(target, s.span, lambda at: self.replaced(s, {0: self.flat(self.plane(target, at))}))

    def move(self, s: Evaluate) -> Stmt:
        """A copy or an atomic update, plane by plane; all at once where both sides are such tiles."""
        src, dst = moved_regions(s)
        if all(r.source in self.stacks and self.whole(r) for r in (src, dst)):
            return with_regions(s, *(full_region(self.stacks[r.source][0]) for r in (src, dst)))
        lead, other = (src, dst) if src.source in self.stacks and self.spread(src) else (dst, src)
        pairs = {t: o for o, t in paired_dims([x.extent for x in other.region], [x.extent for x in lead.region])}

        def one(at: dict):
            mine, theirs = self.plane(lead, at), self.plane(other, {pairs[d]: i for d, i in at.items() if d in pairs})
            new = with_regions(s, *((mine, theirs) if lead is src else (theirs, mine)))
            return self.visit(new)

        return self.planes(lead, s.span, one)

    def unstacked(self, s: Evaluate, stacked: list[int]) -> list[Stmt]:
        """An op that is neither a product nor a transfer works on a tile of the old shape, filled before and written back after it."""
        record = work_of(s)
        before, after, by = [], [], {}
        for k in stacked:
            r = s.value.args[k]
            extents = [x.extent for x in r.region]
            # What is known only at run time is no more than the tile has.
            shape = [n if const_int(e) is None else e for e, n in zip(extents, r.source.ty.shape)]
            tile = decl_buffer([const_int(n) for n in shape], dtype_of(r.source), f"{r.source.name}_p", scope=scope_of(r.source))
            by[k] = region(tile, [imm(0)] * len(extents), extents)
            before.append(AllocBuffer(tile))
            if k in record.reads:
                before.append(self.visit(tile_op("copy", r, by[k], span=s.span)))
            if k in record.writes:
                after.append(self.visit(tile_op("copy", by[k], r, span=s.span)))
        return [*before, self.replaced(s, by), *after]

    def planes(self, r: TensorRegion, span, body) -> Stmt:
        """`body({dimension: index})` for every plane of a region."""
        dims = self.spread(r)
        loops = {d: Var("plane", "int32") for d in dims}
        out = body(loops)
        for d in reversed(dims):
            out = loop(loops[d], r.region[d].extent, seq(out), span=span)
        return out

    @staticmethod
    def plane(r: TensorRegion, at: dict) -> TensorRegion:
        mins = [x.min + at[d] if d in at else x.min for d, x in enumerate(r.region)]
        return region(r.source, mins, [imm(1) if d in at else x.extent for d, x in enumerate(r.region)])


def _matrices(func: PrimFunc) -> dict:
    """Tiles of more than one matrix that gemms work on, with the matrices they become."""
    found: dict = {}
    for s in statements(func.body):
        if not is_op(s, GEMM):
            continue
        for r in s.value.args[:3]:
            shape = [const_int(n) for n in r.source.ty.shape]
            if not on_chip(r.source) or r.source in found or math.prod(shape[:-2]) == 1:
                continue
            pitch = round_up(shape[-2], FRACTAL_ROWS * (2 if itemsize(dtype_of(r.source)) == 1 else 1))
            rows = math.prod(shape[:-2]) * pitch
            found[r.source] = decl_buffer([rows, shape[-1]], dtype_of(r.source), r.source.name, scope=scope_of(r.source)), pitch
    return found


def stack_planes(func: PrimFunc) -> PrimFunc:
    """Apply to a Tile IR function."""
    stacks = _matrices(func)
    return func.with_body(_Stack(stacks)(func.body)) if stacks else func


__all__ = ["stack_planes"]
