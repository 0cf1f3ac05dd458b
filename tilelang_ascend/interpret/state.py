"""What is going on while a kernel is interpreted, and where in the user's program that is."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from ..errors import Location, TilelangAscendError, location_in_code

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_HERE = threading.local()


class InterpretError(TilelangAscendError, RuntimeError):
    """The kernel does something no kernel may do: it reads what nobody wrote, or outside of a buffer."""


class Session:
    """One interpreted call.

    Attributes:
        rng: `random.Random`; decides the order of blocks and of parallel iterations.
        symbols: values of the dynamic dimensions by name.
        constants: values of the `T.const` names of an eager kernel.
        safe_values: what elements outside of a tensor read as, by tensor.
        launch: which `T.Kernel` of the function runs in this pass; earlier ones are skipped.
        block: the block of that launch, None while its grid is not known.
        last: it is the last block; the pass goes on behind the launch.
        kernels: launches met so far in this pass.
        globals: memory allocated outside of a launch, the same in every pass.
        grid: (indices, extents) inside of a launch, else None.
        parallel: depth of `T.Parallel` loops.
        long: there are tensors with more elements in a dimension than an int32 can number.
    """

    def __init__(self, rng):
        self.rng = rng
        self.symbols: dict[str, Any] = {}
        self.constants: dict[str, int] | None = None
        self.safe_values: dict[int, Any] = {}
        self.launch = self.kernels = self.allocated = self.parallel = 0
        self.block: tuple | None = None
        self.last = False
        self.extents: tuple = ()
        self.globals: list[Any] = []
        self.grid: tuple | None = None
        self.torch = self.long = False


def current() -> Session | None:
    """The session of this thread, None when no kernel is interpreted."""
    return getattr(_HERE, "session", None)


def set_current(session: Session | None) -> None:
    """Start or end the interpretation in this thread."""
    _HERE.session = session


def user_frame():
    """The innermost frame of the user's program."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return frame


def is_user_code(code) -> bool:
    """True for code outside of this package."""
    return not code.co_filename.startswith(_PACKAGE)


def here() -> Location | None:
    """The place in the user's program that is being executed."""
    frame = user_frame()
    return None if frame is None else location_in_code(frame.f_code, frame.f_lasti, frame.f_lineno)
