"""Chips as data: `get_chip("Ascend910B1")`, `parse_target("ascend -chip=a3")`. Imports no tvm.

>>> get_chip("a2").num_aic
24
"""

from .load import chips
from .spec import ChipSpec, MemorySpec, Price, Quantity, lane_rate
from .target import CANN_RELEASES, DEFAULT_CHIP, get_chip, parse_target, parse_target_options

__all__ = [
    "CANN_RELEASES",
    "DEFAULT_CHIP",
    "ChipSpec",
    "MemorySpec",
    "Price",
    "Quantity",
    "chips",
    "get_chip",
    "lane_rate",
    "parse_target",
    "parse_target_options",
]
