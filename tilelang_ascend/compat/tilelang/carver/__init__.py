"""`tilelang.carver`: tile sizes worth trying. A GPU's cost model says nothing about an Ascend core, so the proposals
are our own."""

from __future__ import annotations

from .arch import CDNA, CUDA, RDNA, TileDevice
from .roller import Hint, NoRasterization
from .template import (
    ConvTemplate,
    ElementwiseTemplate,
    FlashAttentionTemplate,
    GEMVTemplate,
    GeneralReductionTemplate,
    MatmulTemplate,
)  # fmt: skip

__all__ = [
    "CDNA", "CUDA", "ConvTemplate", "ElementwiseTemplate", "FlashAttentionTemplate", "GEMVTemplate",
    "GeneralReductionTemplate", "Hint", "MatmulTemplate", "NoRasterization", "RDNA", "TileDevice",
]  # fmt: skip
