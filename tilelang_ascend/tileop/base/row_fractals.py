"""Which operands of gemm lie in L1 row by row of fractals, so that one load brings a step of K to L0.

L0A wants the fractals of a row of A one behind the other, L0B those of a row of K. In NZ those of a column are: a load takes one row, and a
step of 128 x 128 takes eight. Where the transfer from GM writes rows of fractals, it takes one, and seven places in the queue of MTE1 are left for
later steps.
"""

from __future__ import annotations

import math

from ...ir import Evaluate, Stmt, TensorRegion, const_int, dtype_of, itemsize, scope_of, statements
from ...isa import lookup
from ...isa.base import Space
from ...isa.units import BLOCK_BYTES, FRACTAL_BYTES, FRACTAL_ROWS, MAX_REPEAT
from ...tile import COPY, GEMM, is_op
from ...tile.uses import own_uses
from .l0_slots import SLOTS
from .layout import row_major

MAX_ND2NZ_STRIDE = 65535


def laid_by_rows(body: Stmt, chip) -> set:
    """Versioned tiles of `body` that are better laid out by rows of fractals: 16-bit elements, loaded as a whole by one transfer, and by no gemm in
    more than one step across that order."""
    if lookup("load_l0a_v2").runs_on(chip.generation):
        return set()  # One instruction loads any rectangle.
    good: dict = {}
    for s in statements(body):
        for b in own_uses(s).all:
            if scope_of(b) == "shared.l1":
                good[b] = good.get(b, itemsize(dtype_of(b)) == 2) and _suits(s, b, chip)
    return {b for b, suits in good.items() if suits}


def _suits(s: Stmt, b, chip) -> bool:
    if not isinstance(s, Evaluate) or any(isinstance(a, TensorRegion) and a.source.same_as(b) and not _is_whole(a) for a in s.value.args):
        return False
    if is_op(s, COPY):
        source, target = s.value.args[:2]
        return target.source.same_as(b) and scope_of(source.source) in ("global", "") and one_transfer(_pitch(source), b.ty.shape[-2:])
    if not is_op(s, GEMM):
        return False
    left, right = (x.source for x in s.value.args[:2])
    flags = int(s.value.attrs["transpose_A"]), int(s.value.attrs["transpose_B"])
    if (b.same_as(left) and flags[0]) or (b.same_as(right) and flags[1]) or left.same_as(right):
        return False
    # A step of A has whole rows of fractals if it has all of K; a step of B has them anyway.
    return b.same_as(right) or all(
        _fractals(x) <= chip.capacity_bytes(space) // SLOTS // FRACTAL_BYTES for x, space in ((left, Space.L0A), (right, Space.L0B))
    )


def _is_whole(r: TensorRegion) -> bool:
    """True for one version of a tile of whole fractals as a whole."""
    sizes = [const_int(x.extent) for x in r.region[1:]]
    whole = sizes == [const_int(n) for n in r.source.ty.shape[1:]] and len(sizes) == 2
    return whole and not any(n % FRACTAL_ROWS for n in sizes) and _fractals(r.source) <= MAX_REPEAT


def _fractals(tile) -> int:
    return math.prod(const_int(n) for n in tile.ty.shape[-2:]) * itemsize(dtype_of(tile)) // FRACTAL_BYTES


def _pitch(source: TensorRegion) -> int | None:
    """Elements from a row of what is loaded to the next, None if nobody knows."""
    long = [d for d, x in enumerate(source.region[:-1]) if const_int(x.extent) != 1]
    strides = list(source.source.strides) or row_major(source.source.ty.shape)
    return const_int(strides[long[0]]) if len(long) == 1 else None


def one_transfer(pitch: int | None, shape, size: int = 2) -> bool:
    """True if one transfer writes a matrix of whole fractals row by row of them, `size` bytes an element."""
    rows, cols = (const_int(n) for n in shape)
    return pitch is not None and units_of(pitch, cols, rows, size) is not None


def units_of(pitch: int, cols: int, rows: int, size: int, tile_cols: int | None = None) -> int | None:
    """Elements moved as one, 1 or 2, so that the strides from 16 rows to the next fit the transfer; None if they do not. `tile_cols`: columns of
    the tile, if those that are moved are not all."""
    if rows % FRACTAL_ROWS or cols * size % BLOCK_BYTES:
        return None
    for unit in (1, 2) if size == 2 else (1,):
        strides = FRACTAL_ROWS * pitch // unit, FRACTAL_ROWS * (tile_cols or cols) // unit, pitch // unit
        if pitch % unit == 0 and cols % unit == 0 and max(strides) <= MAX_ND2NZ_STRIDE:
            return unit
    return None


__all__ = ["MAX_ND2NZ_STRIDE", "laid_by_rows", "one_transfer", "units_of"]
