"""Printing and checks that run on the device."""

from __future__ import annotations

from ..errors import InvalidArgument
from ..frontend.builder import Builder, constant
from ..frontend.keywords import Ignored
from ..frontend.operators import as_bool, as_scalar, plain
from ..frontend.values import is_buffer, is_expr, is_region
from ..ir import full_region, tile_op, tirx


def print_(obj=None, msg: str = "", warp_group_id: Ignored = 0, warp_id: Ignored = 0) -> None:
    """Print a scalar, a buffer or a slice when the kernel runs, after the text `msg`."""
    builder = Builder.current("T.print")
    obj = plain(obj)
    if isinstance(obj, str) or obj is None:
        obj, msg = 0, obj or msg
    value = full_region(obj) if is_buffer(obj) else obj if is_region(obj) else as_scalar(obj)
    builder.emit(tile_op("print", value, span=builder.span(), msg=str(msg)))


def device_assert(condition, msg: str = "") -> None:
    """Stop the kernel with `msg` if `condition` is false when it runs."""
    condition = as_bool(plain(condition))
    known = constant(condition) if is_expr(condition) else bool(condition)
    if known is False:
        raise InvalidArgument(f"T.device_assert is false at compile time{': ' + msg if msg else ''}")
    if known is None:
        builder = Builder.current("T.device_assert")
        builder.emit(tile_op("device_assert", condition, span=builder.span(), msg=str(msg)))


def evaluate(value) -> None:
    """Evaluate an expression for its effect."""
    builder = Builder.current("T.evaluate")
    builder.emit(tirx.Evaluate(as_scalar(value), span=builder.span()))


NAMES = ("device_assert", "evaluate")
