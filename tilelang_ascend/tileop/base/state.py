"""What the lowering of tile ops shares: where every tile lives, which values indices can take, and where new buffers come from."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...analysis.index.value_facts import ValueFacts
from ...ir import (
    AllocBuffer,
    Bind,
    Range,
    TensorRegion,
    Var,
    const_int,
    decl_buffer,
    dtype_of,
    imm,
    itemsize,
    scope_of,
    sym,
    tirx,
)
from .context import BLOCK_BYTES, REPEAT_BYTES, UbLayout, VectorContext, pitched_strides, round_up
from .l0_slots import L0Slots
from .layout import GmTensor, NzLayout, head, l0c_layout, l1_layout


@dataclass(frozen=True)
class Tile:
    """One placed tile buffer: its Ascend-level buffer `[versions, elements]`, logical shape (no version) and layout."""

    buffer: Var
    view: Var
    shape: tuple
    nz: NzLayout | None = None
    strides: tuple = ()
    capacity: int = 0


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


@dataclass
class LoweringState:
    """State of one run of lower_tile_ops."""

    chip: object
    tiles: dict = field(default_factory=dict)
    gms: dict = field(default_factory=dict)
    pitch_unit: int = 8
    blocks: int = 1
    vector_options: dict = field(default_factory=dict)
    allocs: list = field(default_factory=list)
    warnings: list = field(default_factory=list)
    facts: ValueFacts = field(default_factory=ValueFacts)
    zero_rows: set = field(default_factory=set)
    """L1 tiles whose padding rows take part in a gemm and must be zero: rows along K, and single rows of A."""
    mixed: set = field(default_factory=set)
    """L0C tiles that gemms of several forms add to, as a whole and in parts, or with B transposed and not: all leave out the same padding."""
    names: set = field(default_factory=set)
    binds: list = field(default_factory=list)

    def __post_init__(self):
        self.l0 = L0Slots(self.chip, self.unique)

    @property
    def analyzer(self) -> sym.Analyzer:
        """Ranges of variables; guards around the present place."""
        return self.facts.analyzer

    # -- declarations -------------------------------------------------------------------------------------------
    def unique(self, name: str) -> str:
        """A buffer name nobody uses yet."""
        candidate, n = name, 1
        while candidate in self.names:
            candidate, n = f"{name}_{n}", n + 1
        self.names.add(candidate)
        return candidate

    def declare(self, shape, dtype: str, name: str, scope: str, span=None, notes: dict | None = None):
        """A new Ascend-level buffer with its declaration."""
        buffer = decl_buffer(shape, dtype, self.unique(name), scope=scope)
        self.allocs.append(AllocBuffer(buffer, annotations=notes or {}, span=span))
        return buffer

    def place(self, buffer, span=None, transposed: bool = False, entered_anywhere: bool = False) -> Tile:
        """Choose the layout of a versioned tile buffer `[versions, *shape]` and declare it.

        `transposed`, `entered_anywhere`: how a gemm reads it, see `l1_layout`.
        """
        versions, shape = const_int(buffer.ty.shape[0]), tuple(const_int(n) for n in buffer.ty.shape[1:])
        dtype, scope = str(buffer.ty.dtype), scope_of(buffer)
        nz, strides = None, ()
        if scope == "shared.ub":
            strides, elements = self.ub_layout(shape, dtype)
        else:
            nz = l0c_layout(shape, dtype) if scope == "local.l0c" else l1_layout(shape, dtype, transposed, entered_anywhere)
            elements = nz.elements
        notes = {} if nz else {"elements": (sum((n - 1) * step for n, step in zip(shape, strides)) + 1) * itemsize(dtype)}
        new = self.declare([versions, elements], dtype, buffer.name, scope, span, notes)
        view = decl_buffer(shape, dtype, buffer.name, scope=scope)
        tile = Tile(new, view, shape, nz, strides, elements)
        self.tiles[buffer] = tile
        return tile

    def ub_layout(self, shape, dtype: str):
        """(strides, elements of one version) of a tile in UB.

        A version is a multiple of 256 bytes long: versions start aligned, and a count-form compare, which handles
        whole repeats only, can read any tile in place. This costs less than 256 bytes for each version.
        """
        # A tile of one statement may have smaller elements than all others.
        unit = max(self.pitch_unit, BLOCK_BYTES // itemsize(dtype))
        strides = pitched_strides(shape, unit)
        last = shape[-1] if len(shape) == 1 else round_up(shape[-1], unit)
        elements = strides[0] * shape[0] if len(shape) > 1 else last
        return strides, round_up(elements, REPEAT_BYTES // itemsize(dtype))

    # -- views for the vectoriser -------------------------------------------------------------------------------
    def vector_context(self, versions: dict) -> VectorContext:
        """Context for one statement; `versions` maps view buffers to the version in use."""
        by_view = {t.view: t for t in self.tiles.values()}

        def layout(view) -> UbLayout:
            t = by_view[view]
            return UbLayout(t.buffer, versions.get(view, imm(0)), t.shape, t.strides, t.capacity)

        return VectorContext(
            chip=self.chip,
            layout=layout,
            new_temp=lambda dtype, elements, name: self.declare([1, round_up(elements, 32)], dtype, name, "shared.ub"),
            warn=lambda span, message: self.warnings.append((span, message)),
            pitch_unit=self.pitch_unit,
            options=self.vector_options,
            gm_address=lambda b, indices: head(self.gms[b].flat, None, self.gms[b].offset(indices, self.analyzer)),
            analyzer=self.analyzer,
        )

    def temp_tile(self, shape, dtype: str, name: str) -> Tile:
        """A UB tile for one statement."""
        strides, elements = self.ub_layout(shape, dtype)
        buffer = self.declare([1, elements], dtype, name, "shared.ub")
        tile = Tile(buffer, decl_buffer(shape, dtype, name, scope="shared.ub"), tuple(shape), None, strides, elements)
        self.tiles[tile.view] = tile
        return tile

    # -- regions ------------------------------------------------------------------------------------------------
    def side(self, r: TensorRegion) -> Side:
        """Resolve a copy operand."""
        mins, extents = [x.min for x in r.region], [x.extent for x in r.region]
        dtype = str(r.source.ty.dtype)
        if r.source in self.tiles:
            return Side(self.tiles[r.source], None, mins[0], mins[1:], extents[1:], dtype)
        return Side(None, self.gms[r.source], None, mins, extents, dtype)

    def bind_range(self, var: Var, extent) -> None:
        """Tell the analyzer that 0 <= var < extent."""
        self.analyzer.bind(var, Range.from_min_extent(imm(0), extent))

    def bind_like(self, var: Var, value) -> None:
        """Tell the analyzer the numbers between which `value` lies, as the range of the integer `var`."""
        if not dtype_of(var).startswith("int"):
            return
        if const_int(value) is not None:
            self.analyzer.bind(var, value)
            return
        bound, dtype = self.analyzer.const_int_bound(value), dtype_of(var)
        largest = (1 << (8 * itemsize(dtype) - 1)) - 1
        low, high = int(bound.min_value), min(int(bound.max_value), largest)
        if low >= 0:
            high = min(high, largest - 1)
        if 0 < high - low + 1 <= largest:
            self.analyzer.bind(var, Range.from_min_extent(imm(low, dtype), imm(high - low + 1, dtype)))
        elif low <= high:
            # Half of the numbers of a dtype or more: how many they are is no number of that dtype.
            self.analyzer.update(var, sym.ConstIntBound(low, high))

    def bind_value(self, name: str, value, extent):
        """A variable for `value`, 0 <= value <= extent; `take_binds` gives the statement that defines it."""
        positive = self.proves(value > 0)
        var = tirx.Var(self.unique(name), "int32")
        low = 1 if positive else 0
        upper = const_int(extent)
        if upper is not None:
            upper = max(low, min(upper, int(self.analyzer.const_int_bound(value).max_value)))
            self.analyzer.bind(var, Range.from_min_extent(imm(low), imm(upper + 1 - low)))
        elif positive:
            self.analyzer.bind(var, Range.from_min_extent(imm(1), imm(2**30)))
        self.binds.append(Bind(var, value))
        return var

    def take_binds(self) -> list:
        """Statements that define the variables made since the last call."""
        out, self.binds = self.binds, []
        return out

    def simplify(self, e):
        """Simplified expression (Python ints stay)."""
        return e if isinstance(e, int) else self.analyzer.simplify(e)

    def proves(self, cond) -> bool:
        """True if `cond` holds for all values."""
        return bool(cond) if isinstance(cond, bool) else self.facts.proves(cond)


def as_int(cond):
    """0/1 of a condition."""
    value = const_int(cond)
    return imm(int(value)) if value is not None else tirx.Cast("int32", cond)


__all__ = ["LoweringState", "Side", "Tile", "as_int"]
