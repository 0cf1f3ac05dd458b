"""float32 arithmetic with a direction of rounding: `T.ieee_add(x, y, "rd")` and its relatives."""

from __future__ import annotations

from typing import Callable

import numpy as np

from ..errors import DtypeMismatch
from ..frontend.operators import as_scalar, number, plain
from ..frontend.values import is_expr
from ..ir import call, dtype_of

NAMES = ("ieee_add", "ieee_sub", "ieee_mul", "ieee_fdiv", "ieee_frcp", "ieee_fsqrt", "ieee_fmaf")


def function(name: str, mode: str) -> Callable:
    """The function of scalars behind `T.<name>(…, mode)`. Raises: DtypeMismatch for operands of other dtypes than float32; Python's numbers
    take it."""

    def apply(*operands):
        values = []
        for v in map(plain, operands):
            v = as_scalar(v) if is_expr(v) else number(float(np.float32(v)), "float32")
            if dtype_of(v) != "float32":
                text = f"T.{name} with {mode!r} is for float32, an operand is {dtype_of(v)}"
                raise DtypeMismatch(text, hint="convert it first: T.cast(x, 'float32')")
            values.append(v)
        return call(f"ieee.{name.removeprefix('ieee_')}_{mode}", values, dtype="float32")

    return apply


__all__ = ["NAMES", "function"]
