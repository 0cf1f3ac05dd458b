"""Printing and checks that run on the device."""

from __future__ import annotations

import math

from ..errors import InvalidArgument
from ..frontend.builder import Builder, constant
from ..frontend.keywords import Ignored
from ..frontend.operators import as_bool, as_scalar, plain
from ..frontend.output import emit_assert, emit_print, emit_printf
from ..frontend.values import is_buffer, is_expr, is_region
from ..ir import const_int, full_region, region, tirx
from ..tile import tile_op


def print_(obj=None, msg: str = "", warp_group_id: Ignored = 0, warp_id: Ignored = 0) -> None:
    """Print a scalar, a buffer or a slice when the kernel runs, after the text `msg` and the indices of the block."""
    builder = Builder.current("T.print")
    obj = plain(obj)
    if isinstance(obj, str):
        obj, msg = None, obj
    elif obj is not None:
        obj = full_region(obj) if is_buffer(obj) else obj if is_region(obj) else as_scalar(obj)
    emit_print(builder, obj, str(msg))


def printf(format_str: str, *args) -> None:
    """Print values by a C format: %d %i %u %x %X for integers, %f %F for floats, %s for Python strings."""
    emit_printf(Builder.current("T.printf"), format_str, [plain(a) for a in args])


def dump_tensor(tensor, desc: int, dump_size: int, shape_info: Ignored = ()) -> None:
    """Print the first `dump_size` elements of a buffer or slice, named by the number `desc`.

    Elements count row by row, so `dump_size` has to be a number of whole rows, or a part of the first one.
    """
    builder = Builder.current("T.dump_tensor")
    tensor = plain(tensor)
    whole = full_region(tensor) if is_buffer(tensor) else tensor
    emit_print(builder, _first(whole, int(dump_size)), f"dump {int(desc)}", int(desc))


def _first(r, count: int):
    """The part of a region with its first `count` elements in row-major order."""
    extents: list[int] = [n for x in r.region if (n := const_int(x.extent)) is not None]
    if len(extents) != len(r.region):
        raise InvalidArgument("T.dump_tensor of a part of a tensor with dynamic shape", hint="dump a slice of known size")
    if count > math.prod(extents):
        raise InvalidArgument(f"T.dump_tensor: dump_size is {count}, the tensor has {math.prod(extents)} elements")
    out = [min(n, max(1, count // math.prod(extents[d + 1 :]))) for d, n in enumerate(extents)]
    if math.prod(out) != count:
        raise InvalidArgument(
            f"T.dump_tensor: {count} elements of a tensor of shape {tuple(extents)} are no whole number of rows",
            hint=f"dump {math.prod(out)} elements",
        )
    return region(r.source, [x.min for x in r.region], out)


def device_assert(condition, msg: str = "") -> None:
    """Stop the kernel with `msg` and the values `condition` reads if it is false when the kernel runs."""
    condition = as_bool(plain(condition))
    known = constant(condition) if is_expr(condition) else bool(condition)
    if known is False:
        raise InvalidArgument(f"T.device_assert is false at compile time{': ' + msg if msg else ''}")
    if known is None:
        emit_assert(Builder.current("T.device_assert"), condition, str(msg))


def assume(cond) -> None:
    """A promise the compiler may rely on from here on: transfers that it shows to lie inside of a tensor are not clipped.

    The kernel is wrong, and nothing says so, if `cond` does not hold. Conditions that read tensors tell nothing.
    """
    cond = as_bool(plain(cond))
    known = constant(cond) if is_expr(cond) else bool(cond)
    if known is False:
        raise InvalidArgument("T.assume is false at compile time")
    if known is None:
        builder = Builder.current("T.assume")
        builder.emit(tile_op("assume", cond, span=builder.span()))


def evaluate(value) -> None:
    """Evaluate an expression for its effect."""
    builder = Builder.current("T.evaluate")
    builder.emit(tirx.Evaluate(as_scalar(value), span=builder.span()))


NAMES = ("assume", "device_assert", "dump_tensor", "evaluate", "printf")
