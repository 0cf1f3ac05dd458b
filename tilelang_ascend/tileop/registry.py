"""Which function lowers which vector tile op. One file per op; this table is all that knows them."""

from __future__ import annotations

from .argsort import lower_argsort
from .fill import lower_fill
from .output import lower_output
from .parallel import lower_parallel
from .reduce import lower_reduce
from .scan import lower_scan

TILE_OPS = {
    "tl.fill": lower_fill,
    "tl.reduce": lower_reduce,
    "tl.cumsum": lower_scan,
    "tl.cummax": lower_scan,
    "tl.argsort": lower_argsort,
    "tl.print": lower_output,
    "tl.printf": lower_output,
    "tl.device_assert": lower_output,
}

# Value ranges of index intrinsics, as functions of the number of blocks.
INDEX_RANGES = {
    "ascend.get_block_idx": lambda blocks: blocks,
    "ascend.get_sub_block_idx": lambda blocks: 2,
}

__all__ = ["INDEX_RANGES", "TILE_OPS", "lower_parallel"]
