"""coarsen_blocks: neighbouring blocks of the grid whose products share an operand become one with a larger tile.

Before:  grid(8, 8): … copy(A[by * 128 : +128, k * 32 : +32], a); copy(B[k * 32 : +32, bx * 128 : +128], b); gemm(a, b, c) …   # c: 128 x 128
After:   grid(4, 8): … copy(A[by * 128 : +128, k * 32 : +32], a); copy(B[k * 32 : +32, bx * 256 : +256], b); gemm(a, b, c) …   # c: 128 x 256

GPU kernels have tiles for the registers of a GPU: a product of 128 x 128 loads more than the cube core can wait for. The axis of the tiles
that goes with an axis of the grid gets longer. That means the same if the work on the longer tiles can be divided into equal parts
(analysis/tiles/split_axis.py), and if each part is what the block it stands for did, statement by statement (`same_work`).

Only kernels whose products stand in one loop over K, with transfers beside them and nothing else, along axes of the grid whose length is known;
by a model of what bounds the loop: transfers to L1, or products.

Requires: Tile IR after normalize_clears, before merge_k_steps. Ensures: same values.
"""

from __future__ import annotations

from ...ir import PrimFunc, const_int
from .product_grid import ProductGrid, chain


def coarsen_blocks(func: PrimFunc, chip, notes: list, allowed: bool = True) -> PrimFunc:
    """`func` with larger tiles in a smaller grid, if that is faster and `allowed`; what was done is told in `notes`."""
    grid = ProductGrid.of(func.body, chip) if allowed else None
    if grid is None:
        return func
    *_, coarsest = chain(grid, chip)
    if coarsest is grid:
        return func
    sizes = [" x ".join(str(const_int(n)) for n in g.accumulator.ty.shape) for g in (grid, coarsest)]
    notes.append(f"neighbouring blocks are worked on together: products of {sizes[1]} instead of {sizes[0]} load less for each")
    return func.with_body(coarsest.rebuilt(func.body))


__all__ = ["coarsen_blocks"]
