"""What tiles of a class of kernels may be like on a chip, and which are likely to be fast. Imports no tvm.

=============  ============================================  ===========================================================
class          which kernels                                 axes
=============  ============================================  ===========================================================
gemm           products, none of which consumes another      M and N of the accumulator, a step along K, stages
attention      a product consumes what another one made      the same, and rows and columns of vector tiles
row-wise       reductions, scans or sorts, no product        rows from one on, columns, stages
element-wise   anything else                                 the same
=============  ============================================  ===========================================================

Values along an axis are powers of two, and three times powers of two from 48 on for the axes of products, from the smallest piece the
hardware works on (`Ladder.smallest`, or 32 bytes for columns of vector tiles) up to what the memory of the chip could hold beside the
smallest extent of the other axes.

`fits` leaves out tiles that are too large for certain. It allows accumulators and vector tiles *twice* their memory, because the compiler
works on larger ones in parts; the inputs of a product have to be in L1 at once, as often as stages say.

`Load.cost` puts tiles in order: bytes between GM and the busiest core, with some more for each transfer, then the number of steps it takes,
then the depth of pipelines. Tiles of vector kernels that leave no room for a second copy come behind all others (`crowded`). Nothing else of
what overlaps is known, nor the work of the core itself. The order decides what is tried first and what is dropped from a large space, never
what wins.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import Callable, Iterable, Mapping

from ..arch import ChipSpec
from ..isa.base import Space

FRACTAL = 16
"""Rows and columns of the smallest piece of a product."""
VECTOR_BYTES = 32
"""A block of UB, the smallest piece of a row a vector instruction reads."""
ACCUMULATOR_BYTES = 4
"""Elements of L0C."""
IN_PARTS = 2
"""How many times its memory a tile may be: the compiler works on such tiles in parts, smaller ones of their own do as well."""
STAGES = (1, 2, 3, 4)
PREFERRED_STAGES = 2
"""Two steps in flight hide a transfer behind the work on the one before; more are needed rarely, one never where there is room."""


@dataclass(frozen=True)
class Ladder:
    """The values along one axis.

    Attributes:
        smallest: elements of the smallest tile; `bytewise`: but at least 32 bytes.
        memory: where the tile lies.
        across: elements in that memory for each one along the axis, where the other axes are smallest.
        thirds: whether three times powers of two count, too.
    """

    smallest: int
    memory: Space
    across: int
    bytewise: bool = False
    thirds: bool = False

    def values(self, chip: ChipSpec, itemsize: int) -> list[int]:
        """Extents in elements of `itemsize` bytes, ascending."""
        first = max(self.smallest, -(-VECTOR_BYTES // itemsize)) if self.bytewise else self.smallest
        most = IN_PARTS * chip.capacity_bytes(self.memory) // (self.across * itemsize)
        powers = [first << n for n in range(max(1, most // first).bit_length())]
        between = [3 * p // 2 for p in powers if p >= 2 * FRACTAL] if self.thirds else []
        return sorted(x for x in {*powers, *between} if x <= most)


@dataclass(frozen=True)
class Template:
    """A class of kernels.

    Attributes:
        name: as in the table above.
        ladders: axis -> its values. Axes: ``m``, ``n``, ``k``, ``rows``, ``columns``.
        cube: whether a block takes a cube core and two vector cores, or one vector core.
    """

    name: str
    ladders: Mapping[str, Ladder]
    cube: bool

    def values(self, axis: str, chip: ChipSpec, itemsize: int) -> list[int]:
        """Extents worth trying along `axis` of a tile with elements of `itemsize` bytes, ascending."""
        return self.ladders[axis].values(chip, itemsize)

    def cores(self, chip: ChipSpec) -> int:
        """Blocks that run at a time."""
        return chip.num_aic if self.cube else chip.num_aiv

    def blocks(self, chip: ChipSpec) -> list[int]:
        """Numbers of blocks, or of parts of a loop, worth trying: powers of two, and one or two for each core."""
        cores = self.cores(chip)
        return sorted({1 << n for n in range(cores.bit_length() + 1)} | {cores, 2 * cores})

    def fits(self, chip: ChipSpec, demand: "Demand") -> bool:
        """False if the tiles are too large for certain."""
        shared_by = 2 if self.cube else 1  # vector cores that divide the tiles of a block
        return (
            demand.l1_bytes <= chip.capacity_bytes(Space.L1)
            and demand.l0c_bytes <= IN_PARTS * chip.capacity_bytes(Space.L0C)
            and demand.ub_bytes <= IN_PARTS * shared_by * chip.capacity_bytes(Space.UB)
        )

    def crowded(self, chip: ChipSpec, demand: "Demand") -> bool:
        """True if vector tiles leave no room for a second copy, so that a vector core waits while one is loaded."""
        return not self.cube and 2 * demand.ub_bytes > chip.capacity_bytes(Space.UB)


# A row of an accumulator is a fractal wide at least. A step along K lies in L1 with a fractal of rows of A and of columns of B.
_ACCUMULATOR = Ladder(FRACTAL, Space.L0C, FRACTAL, thirds=True)
_STEP = Ladder(FRACTAL, Space.L1, 2 * FRACTAL, bytewise=True, thirds=True)
_VECTOR = {"rows": Ladder(1, Space.UB, VECTOR_BYTES // 4), "columns": Ladder(1, Space.UB, 1, bytewise=True)}
_CUBE = MappingProxyType({"m": _ACCUMULATOR, "n": _ACCUMULATOR, "k": _STEP, **_VECTOR})

GEMM = Template("gemm", _CUBE, cube=True)
ATTENTION = Template("attention", _CUBE, cube=True)
ROW_WISE = Template("row-wise", MappingProxyType(_VECTOR), cube=False)
ELEMENT_WISE = Template("element-wise", MappingProxyType(_VECTOR), cube=False)


@dataclass(frozen=True)
class Demand:
    """Bytes a block needs at a time: inputs of a product in all stages, an accumulator, the tiles one vector statement works on."""

    l1_bytes: int = 0
    l0c_bytes: int = 0
    ub_bytes: int = 0


@dataclass(frozen=True)
class Load:
    """What a kernel moves.

    Attributes:
        blocks: of the grid.
        bytes_per_block: between GM and the core.
        steps: iterations of the loops in a block.
        transfers: how many a block makes.
        stages: depth of its pipelines; 0 for none.
    """

    blocks: int
    bytes_per_block: float
    steps: float
    transfers: float = 0
    stages: int = 0

    def cost(self, template: Template, chip: ChipSpec) -> tuple[float, float, int]:
        """Smaller is likely to be faster. Each core runs every `template.cores`-th block; a transfer takes the time of some more bytes."""
        waves = math.ceil(self.blocks / template.cores(chip))
        price = chip.prices["gm_to_l1" if template.cube else "gm_to_ub"]
        start_bytes = price.latency_cycles * price.rates["bytes"]
        moved = self.bytes_per_block + self.transfers * start_bytes
        return waves * moved, waves * self.steps, abs(self.stages - PREFERRED_STAGES) if self.stages else 0


def burst_bytes(chip: ChipSpec, length: int) -> int:
    """Bytes a transfer takes for `length` bytes in a row: GM is read and written in granules."""
    return max(length, chip.gm_granule_bytes)


def useful(values: Iterable[int], tiles: Callable[[int], int]) -> list[int]:
    """Those of `values`, which come from the smallest tile on, that need fewer `tiles` than all before: others only hold more padding."""
    found: list[int] = []
    fewest = math.inf
    for value in values:
        if tiles(value) < fewest:
            found.append(value)
            fewest = tiles(value)
    return found


__all__ = [
    "ACCUMULATOR_BYTES", "ATTENTION", "Demand", "ELEMENT_WISE", "FRACTAL", "GEMM", "Ladder", "Load", "PREFERRED_STAGES", "ROW_WISE", "STAGES",
    "Template", "burst_bytes", "useful",
]  # fmt: skip
