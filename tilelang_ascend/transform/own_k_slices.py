"""own_k_slices: a part of K that is not made of whole pieces gets tiles of its own.

Before:  gemm(A_s[0:32, 0:24], B_s[0:24, 0:48], C)                       # float16: the cube core takes K in pieces of 16
After:   copy(A_s[0:32, 0:24], A_k); copy(B_s[0:24, 0:48], B_k); gemm(A_k, B_k, C)

The cube core multiplies whole pieces of 32 bytes along K, whatever the length. Behind the last column of a tile lie zeros; behind the last
one of a part lies the rest of the tile.

Requires: Tile IR without views. Ensures: along K, operands of gemm start at whole pieces of their tiles and end there or with the tile.
"""

from __future__ import annotations

from ..analysis.tile_uses import on_chip
from ..ir import (
    AllocBuffer,
    Evaluate,
    PrimFunc,
    StmtMutator,
    TensorRegion,
    attrs_of,
    call,
    const_int,
    decl_buffer,
    dtype_of,
    full_region,
    imm,
    itemsize,
    op_name,
    scope_of,
    seq,
    sym,
    tile_op,
    tirx,
)
from ..tileop.gemm import SQUARE_SIDE
from ..tileop.layout import BLOCK_BYTES
from .grid_bodies import rewrite_grid_bodies


class _Own(StmtMutator):
    def __init__(self):
        self.allocs: list[AllocBuffer] = []

    def visit_Evaluate(self, s: Evaluate):
        if op_name(s) != "tl.gemm":
            return s
        attrs, out, args = attrs_of(s), [], list(s.value.args)
        for k, axis in ((0, -2 if int(attrs["transpose_A"]) else -1), (1, -1 if int(attrs["transpose_B"]) else -2)):
            if on_chip(args[k].source) and not _whole_pieces(args[k], axis):
                own = self.tile(args[k])
                out.append(tile_op("copy", args[k], own, span=s.span))
                args[k] = own
        return [*out, Evaluate(call("tl.gemm", args, attrs, span=s.span), span=s.span)] if out else s

    def tile(self, part: TensorRegion) -> TensorRegion:
        """A new tile of the shape of a part."""
        shape = [const_int(r.extent) for r in part.region][-2:]
        buffer = decl_buffer(shape, dtype_of(part.source), f"{part.source.name}_k", scope=scope_of(part.source))
        self.allocs.append(AllocBuffer(buffer))
        return full_region(buffer)


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


def own_k_slices(func: PrimFunc) -> PrimFunc:
    """Apply to a Tile IR function."""

    def rewrite(body):
        own = _Own()
        new = own(body)
        return seq(own.allocs, new) if own.allocs else body

    return rewrite_grid_bodies(func, rewrite)


__all__ = ["own_k_slices"]
