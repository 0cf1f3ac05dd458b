"""A second opinion on the front end: kernels executed as plain Python with NumPy tiles, without tracing, IR or compiler.

>>> from tilelang_ascend import interpret
>>> interpret.run(prim_func, a, b, c)       # in place, one block after the other, in a random order

With the environment variable TILELANG_INTERPRET=1 every kernel call does this. `print` and `pdb.set_trace()` work inside of a kernel.
Reads of what was never written, and element accesses outside of a buffer, are errors that name the line.

================  ======================================================================
`values`          numbers with a dtype: promotion, casts, arithmetic
`memory`          tiles: arrays and which of their elements were written; regions
`tileops`         copies, fills, products, atomics
`reductions`      reductions, scans, sorts
`elements`        functions of numbers
`loops`           loops
`scopes`          allocations, dimensions, the launch
`names`           assignments to mutable scalars
`bind`, `driver`  arguments; blocks
================  ======================================================================
"""

from __future__ import annotations

import sys

from .. import env
from ..stand_in import stand_in
from .state import InterpretError

__all__ = ["InterpretError", "enabled", "run"]


def enabled() -> bool:
    """True when kernel calls are to be interpreted."""
    return env.INTERPRET.get()


def source(function, annotations: dict):
    """What `@T.prim_func` leaves behind instead of a traced kernel."""
    from .driver import Source

    return Source(function, annotations)


def is_source(value) -> bool:
    """True for what `source` returns."""
    return type(value).__name__ == "Source" and type(value).__module__ == f"{__name__}.driver"


def macro(function):
    """What `@T.macro` leaves behind."""
    from .driver import macro

    return macro(function)


def compiled(function, out_idx):
    """The callable for a kernel; None when the interpreter does not know its source."""
    from .driver import Interpreted, source_of

    known = source_of(function)
    return None if known is None else Interpreted(known, out_idx)


def call_eager(function, args: tuple, kwargs: dict):
    """Run an eager kernel."""
    from .driver import call_eager

    return call_eager(function, args, kwargs)


def __getattr__(name: str):
    if name == "run":
        from .driver import run

        return run
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


stand_in(sys.modules[__name__])
