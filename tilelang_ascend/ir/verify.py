"""The verifier: `verify_tile` and `verify_ascend` list broken rules, `check_tile` and `check_ascend` raise.

verify_tile(func) -> [Problem, …]                      docs/ir.md section 1
verify_ascend(module, chip, addresses=True) -> […]     docs/ir.md section 2
"""

from __future__ import annotations

from .base import IRModule, PrimFunc
from .verify_ascend import verify_ascend
from .verify_tile import verify_tile
from .wellformed import Problem, VerificationError


def check_tile(func: PrimFunc, after: str = "the front end") -> PrimFunc:
    """`func`, if it is legal Tile IR.

    Raises:
        VerificationError: listing every broken rule.
    """
    problems = verify_tile(func)
    if problems:
        raise VerificationError(f"Tile IR after {after}", problems)
    return func


def check_ascend(
    module: IRModule | PrimFunc, chip, addresses: bool = True, after: str = "lowering"
) -> IRModule | PrimFunc:
    """`module`, if it is legal Ascend IR for `chip`.

    Raises:
        VerificationError: listing every broken rule.
    """
    problems = verify_ascend(module, chip, addresses)
    if problems:
        raise VerificationError(f"Ascend IR after {after}", problems)
    return module


__all__ = ["Problem", "VerificationError", "check_ascend", "check_tile", "verify_ascend", "verify_tile"]
