"""`tilelang.carver.roller.rasterization`: orders in which a GPU runs its blocks."""

from __future__ import annotations


class Rasterization:
    """An order of blocks; the compiler for Ascend chooses it by itself."""

    panel_width = 0


class NoRasterization(Rasterization):
    """Row by row."""


class Rasterization2DRow(Rasterization):
    """Panels of rows."""

    def __init__(self, panel_width: int = 4):
        self.panel_width = panel_width


class Rasterization2DColumn(Rasterization2DRow):
    """Panels of columns."""
