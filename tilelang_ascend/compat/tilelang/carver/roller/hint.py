"""`tilelang.carver.roller.hint`: one proposal."""

from __future__ import annotations

from dataclasses import dataclass, field

from .rasterization import NoRasterization, Rasterization


@dataclass
class Hint:
    """Tile sizes worth trying.

    Attributes:
        block: extents of the tile of the result.
        warp: the tile of one warp; half the block in each direction, so that scripts get four warps out of it.
        rstep: extents of one step along the reduced dimensions.
        pipeline_stage: steps in flight.
        rasterization_plan: order of the blocks.
    """

    block: list[int]
    warp: list[int]
    rstep: list[int] = field(default_factory=list)
    pipeline_stage: int = 2
    use_async: bool = False
    rasterization_plan: Rasterization | type[Rasterization] = NoRasterization

    @property
    def thread(self) -> list[int]:
        """As `warp`; cores have no threads."""
        return self.warp
