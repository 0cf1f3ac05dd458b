"""The mode of atomic transfers."""

from __future__ import annotations

from ...ir import Evaluate, intrin
from ...tile import tile_op_of

_MODES = {"sum": "add", "max": "max", "min": "min"}


def set_atomic(stmt: Evaluate, dtype: str) -> Evaluate:
    """From here on transfers to GM combine, as the atomic update `stmt` asks for."""
    return intrin("set_atomic", op=_MODES[tile_op_of(stmt).combine], dtype=dtype, span=stmt.span)


__all__ = ["set_atomic"]
