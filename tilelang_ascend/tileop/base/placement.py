"""Where everything lives while the tile ops of a kernel become instructions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...ir import TensorRegion, Var, const_int, decl_buffer, itemsize, scope_of
from ...isa.units import BLOCK_BYTES, REPEAT_BYTES, round_up
from .context import pitched_strides
from .layout import GmTensor, NzLayout, l0c_layout, l1_layout
from .output import Output


@dataclass(frozen=True, eq=False)
class Tile:
    """One placed tile buffer: its Ascend-level buffer `[versions, elements]`, logical shape (no version) and layout."""

    buffer: Var
    view: Var
    shape: tuple
    nz: NzLayout | None = None
    strides: tuple = ()
    capacity: int = 0
    pitch_unit: int = 1


@dataclass(frozen=True)
class Side:
    """One side of a copy: a tile or a GM tensor, the version in use, and the region without the version dimension."""

    tile: Tile | None
    gm: GmTensor | None
    version: object
    mins: list
    extents: list
    dtype: str

    @property
    def scope(self) -> str:
        return scope_of(self.tile.buffer) if self.tile else "global"


@dataclass(frozen=True)
class Placement:
    """Decided for a whole kernel before its first statement is lowered.

    chip, blocks:   the chip, and how many blocks of the kernel run on it at a time
    tiles, gms:     versioned tile buffer -> Tile; tensor in GM -> GmTensor
    pitch_unit:     elements to which rows of tiles in UB are padded where no tile of the statement says so
    vector_options: `VectorContext.options` of every element-wise statement
    zero_rows:      tiles in L1 whose padding rows take part in a gemm and must be zero: rows along K, and single rows of A
    mixed:          tiles in L0C that gemms of several forms add to, as a whole and in parts, or with B transposed and not: all leave out the
                    same padding
    """

    chip: object
    blocks: int
    tiles: Mapping
    gms: Mapping
    pitch_unit: int
    vector_options: Mapping
    zero_rows: frozenset
    mixed: frozenset

    def unit_of(self, tiles) -> int:
        """Elements to which rows of the temporaries of a statement on some tiles are padded."""
        return max((t.pitch_unit for t in tiles if t.nz is None), default=self.pitch_unit)

    def side(self, r: TensorRegion) -> Side:
        """Resolve a copy operand."""
        mins, extents = [x.min for x in r.region], [x.extent for x in r.region]
        dtype = str(r.source.ty.dtype)
        if r.source in self.tiles:
            return Side(self.tiles[r.source], None, mins[0], mins[1:], extents[1:], dtype)
        return Side(None, self.gms[r.source], None, mins, extents, dtype)


def place_tile(buffer, pitch_unit: int, out: Output, span=None, **read: bool) -> Tile:
    """Choose the layout of a versioned tile buffer `[versions, *shape]` and declare it.

    `read`: how gemms read it, the options of `l1_layout`.
    """
    versions, shape = const_int(buffer.ty.shape[0]), tuple(const_int(n) for n in buffer.ty.shape[1:])
    dtype, scope = str(buffer.ty.dtype), scope_of(buffer)
    nz, strides = None, ()
    if scope == "shared.ub":
        strides, elements = _ub_layout(shape, dtype, pitch_unit)
    else:
        nz = l0c_layout(shape, dtype) if scope == "local.l0c" else l1_layout(shape, dtype, **read)
        elements = nz.elements
    notes = {} if nz else {"elements": (sum((n - 1) * step for n, step in zip(shape, strides)) + 1) * itemsize(dtype)}
    new = out.declare([versions, elements], dtype, buffer.name, scope, span, notes)
    return Tile(new, decl_buffer(shape, dtype, buffer.name, scope=scope), shape, nz, strides, elements, pitch_unit)


def temporary_tile(shape, dtype: str, name: str, pitch_unit: int, out: Output) -> Tile:
    """A UB tile for one statement."""
    strides, elements = _ub_layout(shape, dtype, pitch_unit)
    buffer = out.declare([1, elements], dtype, name, "shared.ub")
    return Tile(buffer, decl_buffer(shape, dtype, name, scope="shared.ub"), tuple(shape), None, strides, elements, pitch_unit)


def _ub_layout(shape, dtype: str, pitch_unit: int):
    """(strides, elements of one version) of a tile in UB.

    A version is a multiple of 256 bytes long: versions start aligned, and a count-form compare, which handles
    whole repeats only, can read any tile in place. This costs less than 256 bytes for each version.
    """
    # A tile of one statement may have smaller elements than all others.
    unit = max(pitch_unit, BLOCK_BYTES // itemsize(dtype))
    strides = pitched_strides(shape, unit)
    last = shape[-1] if len(shape) == 1 else round_up(shape[-1], unit)
    elements = strides[0] * shape[0] if len(shape) > 1 else last
    return strides, round_up(elements, REPEAT_BYTES // itemsize(dtype))


__all__ = ["Placement", "Side", "Tile", "place_tile", "temporary_tile"]
