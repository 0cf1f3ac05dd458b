"""own_k_slices: parts of tiles that are less than the cube core multiplies get tiles of their own.

Before:  gemm(A_s[0:32, 0:24], B_s[0:24, 0:48], C)                       # float16: the cube core takes K in pieces of 16
After:   copy(A_s[0:32, 0:24], A_k); copy(B_s[0:24, 0:48], B_k); gemm(A_k, B_k, C)

The cube core multiplies whole pieces of 32 bytes along K, whatever the length. Behind the last column of a tile lie zeros; behind the last
one of a part lies the rest of the tile. Nor does it multiply a single row of A: it takes a whole piece of rows, all of which have to be there.
Where K runs along the rows, what it takes of the columns begins at a whole piece, too.

Requires: Tile IR without views. Ensures: along K, operands of gemm start at whole pieces of their tiles and end there or with the tile; single
rows of A are tiles, or lie in front of other rows of tiles that are always written as a whole.
"""

from __future__ import annotations

from ...analysis.index.coverage import writes_whole
from ...ir import (
    AllocBuffer,
    Evaluate,
    PrimFunc,
    Stmt,
    StmtMutator,
    TensorRegion,
    attrs_of,
    children,
    const_int,
    decl_buffer,
    dtype_of,
    full_region,
    imm,
    itemsize,
    scope_of,
    seq,
    sym,
    tirx,
)
from ...ir.grids import rewrite_grid_bodies
from ...isa.units import BLOCK_BYTES, FRACTAL_ROWS
from ...tile import GEMM, is_op, tile_op
from ...tile.uses import is_parallel, on_chip, uses_of
from ...tileop.cube.gemm import SQUARE_SIDE


class _Own(StmtMutator):
    def __init__(self, body: Stmt):
        self.allocs: list[AllocBuffer] = []
        self.in_parts = written_in_parts(body)

    def visit_Evaluate(self, s: Evaluate):
        if not is_op(s, GEMM):
            return s
        attrs, out, args = attrs_of(s), [], list(s.value.args)
        for k, axis in ((0, -2 if int(attrs["transpose_A"]) else -1), (1, -1 if int(attrs["transpose_B"]) else -2)):
            single = k == 0 and self.lacks_rows(args[k], -3 - axis)
            if on_chip(args[k].source) and (single or not _whole_pieces(args[k], axis) or axis == -2 and not _enters_whole(args[k])):
                own = self.tile(args[k])
                out.append(tile_op("copy", args[k], own, span=s.span))
                args[k] = own
        return [*out, tile_op("gemm", *args, span=s.span, **attrs)] if out else s

    def lacks_rows(self, part: TensorRegion, axis: int) -> bool:
        """True if a part is a single row along `axis`, and not all rows of a fractal from there on surely have a value."""
        if len(part.region) < 2 or const_int(part.region[axis].extent) != 1 or const_int(part.source.ty.shape[axis]) == 1:
            return False
        first, size = part.region[axis].min, part.source.ty.shape[axis]
        return part.source in self.in_parts or not sym.Analyzer().can_prove(first + FRACTAL_ROWS <= size)

    def tile(self, part: TensorRegion) -> TensorRegion:
        """A new tile of the shape of a part."""
        shape = [const_int(r.extent) for r in part.region][-2:]
        buffer = decl_buffer(shape, dtype_of(part.source), f"{part.source.name}_k", scope=scope_of(part.source))
        self.allocs.append(AllocBuffer(buffer))
        return full_region(buffer)


def written_in_parts(body: Stmt) -> set:
    """Buffers that some statement writes, but not all of them."""
    if is_parallel(body) or not children(body):
        return {b for b in uses_of(body).writes if not writes_whole(body, b)}
    return set().union(*(written_in_parts(s) for s in children(body)))


def _whole_pieces(part: TensorRegion, axis: int) -> bool:
    """True if a part starts at a whole piece along `axis`, and ends at one or with the tile."""
    if len(part.region) + axis < 0:
        return True
    r, size, bytes_ = part.region[axis], part.source.ty.shape[axis], itemsize(dtype_of(part.source))
    piece, analyzer = BLOCK_BYTES // bytes_, sym.Analyzer()
    whole = lambda e, unit: analyzer.can_prove(tirx.EQ(tirx.floormod(e, imm(unit)), imm(0)))  # noqa: E731
    # Where K runs along the rows, loads transpose squares.
    starts = whole(r.min, SQUARE_SIDE[bytes_] if axis == -2 else piece)
    return starts and (whole(r.extent, piece) or analyzer.can_prove(tirx.EQ(r.min + r.extent, size)))


def _enters_whole(part: TensorRegion) -> bool:
    """True if the columns of a part, in which K runs along the rows, start at a whole piece."""
    unit = SQUARE_SIDE[itemsize(dtype_of(part.source))]
    return sym.Analyzer().can_prove(tirx.EQ(tirx.floormod(part.region[-1].min, imm(unit)), imm(0)))


def own_k_slices(func: PrimFunc) -> PrimFunc:
    """Apply to a Tile IR function."""

    def rewrite(body):
        own = _Own(body)
        new = own(body)
        return seq(own.allocs, new) if own.allocs else body

    return rewrite_grid_bodies(func, rewrite)


__all__ = ["own_k_slices"]
