"""The geometry of `tl.im2col`: which pixel of the image an element of the patch matrix is."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from ...ir import Evaluate, const_int, dtype_of, itemsize, tirx


@dataclass(frozen=True)
class Patches:
    """One `tl.im2col` statement, taken apart.

    image, tile:  GM tensor (N, H, W, C) and tile buffer (rows, columns)
    steps:        index of the tile in the patch matrix along its two dimensions
    """

    image: object
    tile: object
    steps: tuple
    kernel: int
    stride: int
    dilation: int
    pad: int
    rows: int
    columns: int

    @property
    def out_size(self) -> tuple:
        """Rows and columns of the output image."""
        reach = self.dilation * (self.kernel - 1) + 1
        return tuple(tirx.floordiv(n + 2 * self.pad - reach, self.stride) + 1 for n in list(self.image.ty.shape)[1:3])

    @property
    def channels(self) -> int | None:
        """Number of channels if it is a constant."""
        return const_int(self.image.ty.shape[3])

    @property
    def piece(self) -> int | None:
        """Columns of the tile come in pieces of this many, each within one kernel position; None if that is not known."""
        return gcd(self.channels, self.columns) if self.channels else None

    def pixel(self, line, ow, position):
        """(n, h, w) of output column `ow` of output line `line` (counted over all images) at a kernel position."""
        oh = tirx.floormod(line, self.out_size[0])
        ky, kx = tirx.floordiv(position, self.kernel), tirx.floormod(position, self.kernel)
        return (
            tirx.floordiv(line, self.out_size[0]),
            oh * self.stride + ky * self.dilation - self.pad,
            ow * self.stride + kx * self.dilation - self.pad,
        )


def patches_of(s: Evaluate) -> Patches:
    """The parts of a `tl.im2col` statement (before tiles get versions)."""
    image, tile, *steps = s.value.args
    sizes = {name: int(s.value.attrs[name]) for name in ("kernel", "stride", "dilation", "pad")}
    rows, columns = (const_int(r.extent) for r in list(tile.region)[-2:])
    return Patches(image.source, tile.source, tuple(steps), **sizes, rows=rows, columns=columns)


def moves_whole_blocks(p: Patches, block_bytes: int) -> bool:
    """True if every piece is a multiple of `block_bytes` and contiguous in GM."""
    strides = list(p.image.strides or [])
    contiguous = not strides or const_int(strides[-1]) == 1
    return contiguous and p.piece is not None and p.piece * itemsize(dtype_of(p.image)) % block_bytes == 0


__all__ = ["Patches", "moves_whole_blocks", "patches_of"]
