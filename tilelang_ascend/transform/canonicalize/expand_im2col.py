"""expand_im2col: patches the transfers of the cube core cannot gather become element-wise work.

Before:  im2col(img, x, m, k); Parallel: y[i, j] = x[i, j] * 2
After:   Parallel(i, j): x[i, j] = if_then_else(<inside of the image>, img[n, h, w, c], 0); Parallel: …

Only tiles that are nothing but operands of gemm keep the tile op, and only where each kernel position contributes whole blocks of
32 bytes to a row: then rows of pixels travel straight to L1 (`tileop/cube/im2col.py`).

Requires: Tile IR without views whose operands of gemm fit the cube core. Ensures: `tl.im2col` fills tiles that only gemm reads, in pieces of whole blocks.
"""

from __future__ import annotations

from ...analysis.index.data_names import DataNames
from ...analysis.index.patches import moves_whole_blocks, patches_of
from ...analysis.index.signs import Known, is_nonnegative
from ...ir import (
    Bind,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    PrimFunc,
    StmtMutator,
    Var,
    dtype_of,
    imm,
    parallel_nest,
    statements,
    tirx,
)
from ...isa.units import BLOCK_BYTES
from ...tile import GEMM, IM2COL, is_op
from ...tile.uses import own_uses


def gemm_operands_only(func: PrimFunc) -> set:
    """Buffers that nothing but gemm reads."""
    read, other = set(), set()
    for s in statements(func.body):
        (read if is_op(s, GEMM) else other).update(own_uses(s).reads)
    return read - other


class _Expand(StmtMutator):
    def __init__(self, operands: set, known: Known):
        self.operands, self.known = operands, known

    def visit_Bind(self, s: Bind):
        self.known.bind(s)
        return s

    def visit_For(self, s: For):
        self.known.loop(s)
        return self.generic(s)

    def visit_Evaluate(self, s: Evaluate):
        if not is_op(s, IM2COL):
            return s
        p = patches_of(s)
        return s if p.tile in self.operands and moves_whole_blocks(p, BLOCK_BYTES) else element_nest(p, self.known, s.span)


def element_nest(p, known: Known, span) -> For:
    """The patches as a nest over the elements of the tile."""
    i, j = Var("i", "int32"), Var("j", "int32")
    batch, height, width, channels = p.image.ty.shape
    m, k = p.steps[0] * p.rows + i, p.steps[1] * p.columns + j
    position, c = tirx.floordiv(k, channels), tirx.floormod(k, channels)
    n, h, w = p.pixel(tirx.floordiv(m, p.out_size[1]), tirx.floormod(m, p.out_size[1]), position)
    inside = n < batch
    for start, step in zip((n >= 0, position >= 0), p.steps):
        if not is_nonnegative(step, known):
            inside = tirx.And(inside, start)
    for cond in (h >= 0, h < height, w >= 0, w < width, position < p.kernel * p.kernel):
        inside = tirx.And(inside, cond)
    dtype = dtype_of(p.tile)
    value = tirx.if_then_else(inside, BufferLoad(p.image, [n, h, w, c]), imm(0, dtype))
    body = BufferStore(p.tile, value, [i, j], span=span)
    return parallel_nest([(i, imm(p.rows)), (j, imm(p.columns))], body, span)


def expand_im2col(func: PrimFunc) -> PrimFunc:
    """Apply to a Tile IR function."""
    if not any(is_op(s, IM2COL) for s in statements(func.body)):
        return func
    return func.with_body(_Expand(gemm_operands_only(func), Known(DataNames(func.body)))(func.body))


__all__ = ["expand_im2col"]
