"""`tilelang.carver.roller`: the form in which tile sizes are proposed."""

from __future__ import annotations

from .hint import Hint
from .rasterization import NoRasterization, Rasterization2DColumn, Rasterization2DRow

__all__ = ["Hint", "NoRasterization", "Rasterization2DColumn", "Rasterization2DRow"]
