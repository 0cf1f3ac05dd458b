"""The instruction table: one frozen record per Ascend C instruction. Imports neither tvm nor numpy.

>>> from tilelang_ascend import isa
>>> isa.lookup("add").arg_names
('d', 's0', 's1', 'count')
"""

from .base import (
    DTYPE_CODES,
    GENERATIONS,
    ITEMSIZE,
    SCOPES,
    TEXT,
    Arg,
    Call,
    Intrinsic,
    Operand,
    Pipe,
    Space,
)
from .sync import AIC_EVENTS, AIV_EVENTS, CORE_EVENTS, CORE_PIPES, EVENTS, split_event
from .table import TABLE, lookup, opcode, table_hash
from .text import CTYPES
from .vector_convert import cast_rounds

__all__ = [
    "AIC_EVENTS", "AIV_EVENTS", "CORE_EVENTS", "CORE_PIPES", "CTYPES", "DTYPE_CODES", "EVENTS", "GENERATIONS",
    "ITEMSIZE",
    "SCOPES", "TABLE", "TEXT", "Arg", "Call", "Intrinsic", "Operand", "Pipe", "Space", "cast_rounds", "lookup", "opcode",
    "split_event",
    "table_hash",
]  # fmt: skip
