"""Which function lowers which tile op of the vector cores. One file per op; this table is all that knows them."""

from __future__ import annotations

from ...tile import ARGSORT, CUMMAX, CUMSUM, DEVICE_ASSERT, FILL, PRINT, PRINTF, REDUCE, TABLE, Side
from ..scalar.output import lower_output
from ..vector.nest.parallel import lower_parallel
from .argsort import lower_argsort
from .fill import lower_fill
from .reduce import lower_reduce
from .scan import lower_scan

LOWERINGS = {
    FILL: lower_fill,
    REDUCE: lower_reduce,
    CUMSUM: lower_scan,
    CUMMAX: lower_scan,
    ARGSORT: lower_argsort,
    PRINT: lower_output,
    PRINTF: lower_output,
    DEVICE_ASSERT: lower_output,
}
assert LOWERINGS.keys() >= {record for record in TABLE.values() if record.side is Side.VECTOR}, "an op of the vector cores has no lowering"

# Value ranges of index intrinsics, as functions of the number of blocks.
INDEX_RANGES = {
    "ascend.get_block_idx": lambda blocks: blocks,
    "ascend.get_sub_block_idx": lambda blocks: 2,
}

__all__ = ["INDEX_RANGES", "LOWERINGS", "lower_parallel"]
