"""Tile ops: what each one is (`op`), which there are (`table`), what statements use (`uses`), what is legal (`verify`)."""

from .op import Operand, Side, TileOp
from .table import (
    ARGSORT,
    ASSUME,
    ATOMIC_ADD,
    ATOMIC_MAX,
    ATOMIC_MIN,
    COPY,
    CUMMAX,
    CUMSUM,
    DEVICE_ASSERT,
    FILL,
    GEMM,
    IM2COL,
    PRINT,
    PRINTF,
    REDUCE,
    TABLE,
    VIEW,
    ZERO_ACCUMULATOR,
    is_op,
    reads_of,
    tile_op,
    tile_op_of,
    with_args,
)  # fmt: skip

__all__ = [
    "ARGSORT", "ASSUME", "ATOMIC_ADD", "ATOMIC_MAX", "ATOMIC_MIN", "COPY", "CUMMAX", "CUMSUM", "DEVICE_ASSERT", "FILL", "GEMM", "IM2COL",
    "Operand", "PRINT", "PRINTF", "REDUCE", "Side", "TABLE", "TileOp", "VIEW", "ZERO_ACCUMULATOR", "is_op", "reads_of", "tile_op", "tile_op_of",
    "with_args",
]  # fmt: skip
