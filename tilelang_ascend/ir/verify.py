"""The verifier of Ascend IR (docs/ir.md section 2): `verify_ascend` lists broken rules, `check_ascend` raises."""

from __future__ import annotations

from .base import IRModule, PrimFunc
from .verify_ascend import verify_ascend
from .wellformed import Problem, VerificationError


def check_ascend(module: IRModule | PrimFunc, chip, addresses: bool = True, after: str = "lowering") -> IRModule | PrimFunc:
    """`module`, if it is legal Ascend IR for `chip`.

    Raises:
        VerificationError: listing every broken rule.
    """
    problems = verify_ascend(module, chip, addresses)
    if problems:
        raise VerificationError(f"Ascend IR after {after}", problems)
    return module


__all__ = ["Problem", "VerificationError", "check_ascend", "verify_ascend"]
