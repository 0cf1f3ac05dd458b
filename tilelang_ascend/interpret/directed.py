"""float32 arithmetic with a direction of rounding: `T.ieee_*`."""

from __future__ import annotations

from typing import Callable

import numpy as np

from ..errors import DtypeMismatch, InvalidArgument
from ..ir.build import DIRECTIONS
from ..sim.reference_rounding import EXACT, directed
from .state import here
from .values import Scalar, scalar


def chosen(name: str, value: Callable, rest, mode) -> tuple[Callable, list]:
    """(the function of scalars that rounds as the call says, its further arguments without the mode)."""
    rest = list(rest)
    if mode is None and rest and isinstance(rest[-1], str):
        mode = rest.pop()
    if mode in (None, "", "rn"):
        return value, rest
    if name.removeprefix("ieee_") not in EXACT:
        raise InvalidArgument(f"T.{name} rounds to nearest, not with {mode!r}", at=here())
    _check(name, mode)
    return lambda *operands: _apply(name, mode, operands), rest


def fused(x, y, z, rounding_mode="rn"):
    """`T.ieee_fmaf`"""
    _check("ieee_fmaf", rounding_mode)
    return _apply("ieee_fmaf", rounding_mode, (x, y, z))


def _check(name: str, mode) -> None:
    if mode not in DIRECTIONS:
        raise InvalidArgument(f"T.{name} does not round with {mode!r}", at=here(), hint="use one of: " + ", ".join(map(repr, DIRECTIONS)))


def _apply(name: str, mode: str, operands) -> Scalar:
    given = [scalar(v) for v in operands]
    for v in given:
        if v.dtype != "float32" and not v.literal:
            raise DtypeMismatch(
                f"T.{name} with {mode!r} is for float32, an operand is {v.dtype}", at=here(), hint="convert it first: T.cast(x, 'float32')"
            )
    fault = next((v.fault for v in given if v.fault is not None), None)
    if fault is not None:
        return Scalar(0, "float32", fault=fault.computed())
    return Scalar(directed(name.removeprefix("ieee_"), mode, *(float(np.float32(v.value)) for v in given)), "float32")
