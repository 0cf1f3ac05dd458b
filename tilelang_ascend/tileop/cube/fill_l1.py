"""`tl.fill` of an operand of gemm: the cube core writes runs of whole 32-byte pieces of L1, which knows no single elements.

What it cannot write (`fill_obstacle`) is made in UB and comes over like any operand the vector cores compute.
"""

from __future__ import annotations

from ...ir import Evaluate, FloatImm, Stmt, TensorRegion, as_expr, const_int, dtype_of, imm, itemsize, tirx
from ...isa.units import BLOCK_BYTES, FRACTAL_ROWS
from ..base.placement import Placement
from ..copy.cube import fill_rows

# Types the instruction takes a number of; bytes are written in pairs, of others only zero is known.
NUMBERS = ("float16", "bfloat16", "float32", "int16", "uint16", "int32", "uint32")
BYTES = ("int8", "uint8", "bool")


def fill_number(value):
    """The number a constant fill value stands for, None if it is computed at run time."""
    while isinstance(value, tirx.Cast):
        value = value.value
    return float(value.value) if isinstance(value, FloatImm) else const_int(value)


def fill_obstacle(region: TensorRegion, value) -> str | None:
    """Why the cube core cannot fill `region` of a tile in L1, None if it can."""
    dtype, number = dtype_of(region.source), fill_number(value)
    if number is None:
        return "its value is known at run time only"
    if number != 0 and dtype not in NUMBERS + BYTES:
        return f"the fill of L1 knows no {dtype}"
    shape, bounds = [const_int(n) for n in region.source.ty.shape], []
    for r, n in zip(region.region, shape):
        bounds.append((const_int(r.min), const_int(r.extent), n))
    if any(low is None or extent is None for low, extent, _ in bounds):
        return "where it starts or ends is known at run time only"
    unit = BLOCK_BYTES // itemsize(dtype)
    low, extent, columns = bounds[-1]
    if low % unit or (low + extent) % unit and low + extent != columns:
        return f"its columns are not whole pieces of {unit} elements of the tile"
    # The unit adds up what lies in the padding as well.
    rows = shape[-2] if len(shape) > 1 else 1
    if number != 0 and (columns % max(unit, FRACTAL_ROWS) or rows % max(unit, FRACTAL_ROWS)):
        return "the padding of the tile has to stay zero"
    return None


def lower_fill_l1(s: Evaluate, placement: Placement) -> Stmt:
    """Lower `tl.fill(dst region, value)` of a tile in L1."""
    region, value = s.value.args
    dst = placement.side(region)
    tile, dtype, number = dst.tile, dst.dtype, fill_number(value)
    nz, size = tile.nz, itemsize(dtype)
    row = const_int(dst.mins[-2]) if len(dst.mins) > 1 else 0
    rows = const_int(dst.extents[-2]) if len(dst.extents) > 1 else 1
    if row + rows == nz.rows:  # Rows of padding belong to the last row of the tile.
        rows = nz.rows_padded - row
    if size == 1:
        pair = (int(number) & 255) * 257
        number = imm(pair - (pair >> 15 << 16), "int16")
    else:
        number = as_expr(number, dtype)
    return fill_rows(tile, dst.version, row, dst.mins[-1], rows, dst.extents[-1], s.span, number)


__all__ = ["fill_number", "fill_obstacle", "lower_fill_l1"]
