"""Printing and checks."""

from __future__ import annotations

import re

from ..errors import DeviceAssertionError
from .memory import is_tile_like_many, operand
from .state import InterpretError, current, here
from .values import scalar


def print_(obj=None, msg: str = "", *_hints, **_more) -> None:
    """`T.print`."""
    session = current()
    block = "" if session.grid is None else f"block {tuple(int(i.value) for i in session.grid[0])} "
    if isinstance(obj, str):
        obj, msg = None, obj
    shown = "" if obj is None else repr(obj) if is_tile_like_many(obj) else str(scalar(obj))
    print(f"{block}{msg}{': ' if msg and shown else ''}{shown}")


def printf(format_str: str, *args) -> None:
    """`T.printf`."""
    values = [a if isinstance(a, str) else scalar(a).get() for a in args]
    text = re.sub(r"%(-?\d*\.?\d*)(?:ll|l|h)?i", r"%\1d", re.sub(r"%(-?\d*\.?\d*)(?:ll|l|h)?u", r"%\1d", format_str))
    print(text % tuple(values), end="")


def dump_tensor(tensor, desc, dump_size, shape_info=()) -> None:
    """`T.dump_tensor`."""
    values = operand(tensor, "the tensor of T.dump_tensor").read()[0].reshape(-1)[: int(scalar(dump_size).get())]
    print(f"dump {int(scalar(desc).get())}: {values}")


def device_assert(condition, msg: str = "") -> None:
    """`T.device_assert`."""
    if not bool(scalar(condition)):
        raise DeviceAssertionError(f"assertion failed{': ' + str(msg) if msg else ''}", at=here())


def assume(cond) -> None:
    """`T.assume`: the promise is checked."""
    if not bool(scalar(cond)):
        raise InterpretError("what T.assume promises does not hold", at=here(), hint="the compiler relies on it without a check")


def sync_grid() -> None:
    """`T.sync_grid`: of blocks that run one after the other none can wait for all."""
    raise InterpretError(
        "T.sync_grid waits for all blocks, and plain Python runs one after the other",
        at=here(),
        hint="write what stands behind it under a second `with T.Kernel(...)`",
    )


MEANINGS = {
    "print": print_, "printf": printf, "dump_tensor": dump_tensor, "device_assert": device_assert, "assume": assume,
    "evaluate": lambda value: None, "sync_grid": sync_grid,
}  # fmt: skip
