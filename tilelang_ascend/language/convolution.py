"""`T.im2col`: the patches of a convolution as rows of a matrix."""

from __future__ import annotations

from ..errors import InvalidArgument, ShapeMismatch
from ..frontend.builder import Builder, constant
from ..frontend.keywords import Ignored
from ..frontend.operators import as_scalar
from ..ir import scope_of
from ..tile import tile_op
from .regions import TileOperand, operand


def im2col(img, col, nhw_step, c_step, kernel, stride, dilation, pad, eviction_policy: Ignored = None, annotations: Ignored = None) -> None:
    """Load one tile of the patch matrix of an image.

    `img` is a GM tensor of shape (N, H, W, C), `col` a tile of shape (block_M, block_K) of the same dtype. Row m of the matrix is
    the patch of output pixel m (counted over images, rows and columns), column k = (ky * kernel + kx) * C + c its element at kernel
    position (ky, kx) and channel c. The tile starts at row ``nhw_step * block_M`` and column ``c_step * block_K``. What lies
    outside of the image, in front of the first pixel or column or behind the last one, is zero.

    Errors: InvalidArgument for other ranks and for sizes that are no positive constants, ShapeMismatch for different dtypes.
    """
    builder = Builder.current("T.im2col")
    image, tile = operand(img, "the image of T.im2col"), operand(col, "the tile of T.im2col")
    if (
        not isinstance(image, TileOperand)
        or image.kind != "buffer"
        or len(image.extents) != 4
        or scope_of(image.buffer) not in ("global", "")
    ):
        raise InvalidArgument(
            f"T.im2col needs a global tensor of shape (N, H, W, C), got {image.describe()}", hint="pass the whole tensor, channels last"
        )
    if not isinstance(tile, TileOperand) or tile.kind != "buffer" or len(tile.extents) != 2 or scope_of(tile.buffer) in ("global", ""):
        raise InvalidArgument(f"T.im2col needs a two-dimensional tile to fill, got {tile.describe()}", hint="use T.alloc_shared((M, K))")
    if image.dtype != tile.dtype:
        raise ShapeMismatch(f"T.im2col converts nothing: {image.describe()} into {tile.describe()}", hint="make the dtypes equal")
    sizes = {}
    for name, value, least in (("kernel", kernel, 1), ("stride", stride, 1), ("dilation", dilation, 1), ("pad", pad, 0)):
        known = constant(value)
        if not isinstance(known, int) or known < least:
            raise InvalidArgument(f"{name} of T.im2col must be a constant integer of at least {least}, got {value!r}")
        sizes[name] = known
    for d, size in ((1, "H"), (2, "W")):
        reach = sizes["dilation"] * (sizes["kernel"] - 1) + 1
        known = constant(image.extents[d])
        if known is not None and known + 2 * sizes["pad"] < reach:
            raise InvalidArgument(f"the kernel of T.im2col covers {reach} pixels, {size} with padding is {known + 2 * sizes['pad']}")
    start = [as_scalar(nhw_step, "nhw_step"), as_scalar(c_step, "c_step")]
    builder.emit(tile_op("im2col", image.region(), tile.region(), *start, span=builder.span(), **sizes))


c2d_im2col = im2col

NAMES = ("c2d_im2col", "im2col")
