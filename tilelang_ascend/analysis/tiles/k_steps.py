"""Copies that bring a gemm loop the next piece of K."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import Evaluate, attrs_of, const_int, decl_buffer, dtype_of, full_region, region, scope_of
from ...tile import tile_op
from ...tile.uses import covers_whole, on_chip
from ..index.affine import affine


@dataclass(frozen=True)
class KStep:
    """One copy of the loop: statement, tile, GM dimension that advances, tile dimension along K."""

    stmt: Evaluate
    tile: object
    gm_dim: int
    tile_dim: int
    extent: int

    @property
    def other_dim(self) -> int:
        """The dimension of a matrix along M or N."""
        return 1 - self.tile_dim

    def widened(self, factor: int):
        """A tile for what `factor` steps load."""
        shape = [const_int(n) for n in self.tile.ty.shape]
        shape[self.tile_dim] *= factor
        return decl_buffer(shape, dtype_of(self.tile), self.tile.name, scope=scope_of(self.tile))

    def load(self, tile, factor: int) -> Evaluate:
        """The copy of `factor` steps to a widened `tile`, from where one would begin."""
        src = self.stmt.value.args[0]
        extents = [r.extent for r in src.region]
        extents[self.gm_dim] = self.extent * factor
        wide = region(src.source, [r.min for r in src.region], extents)
        return tile_op("copy", wide, full_region(tile), span=self.stmt.span)


def k_dimensions(gemms: list) -> dict:
    """tile -> its K dimension (-1 or -2), None where two gemms disagree."""
    out: dict = {}
    for s in gemms:
        a, b = (x.source for x in s.value.args[:2])
        attrs = attrs_of(s)
        for buffer, dim in ((a, -2 if int(attrs["transpose_A"]) else -1), (b, -1 if int(attrs["transpose_B"]) else -2)):
            out[buffer] = dim if out.get(buffer, dim) == dim else None
    return out


def match_copy(s: Evaluate, var, dims: dict) -> KStep | None:
    """The copy as a step along K, or None."""
    src, dst = s.value.args
    if on_chip(src.source) or not covers_whole(dst) or dims.get(dst.source) is None:
        return None
    tile_dim = len(dst.region) + dims[dst.source]
    if tile_dim < 0 or len(src.region) < 2 or len(dst.region) < 2:
        return None
    gm_dim = len(src.region) + dims[dst.source]
    extent = const_int(dst.region[tile_dim].extent)
    for d, r in enumerate(src.region):
        form = affine(r.min, [var])
        step = form.coeffs.get(var, 0) if form else None
        if step != (extent if d == gm_dim else 0):
            return None
    return KStep(s, dst.source, gm_dim, tile_dim, extent) if const_int(src.region[gm_dim].extent) == extent else None


__all__ = ["KStep", "k_dimensions", "match_copy"]
