"""Atomic updates of GM."""

from __future__ import annotations

from ..errors import InvalidArgument, NotYetAvailable
from ..frontend.builder import Builder
from ..frontend.keywords import Ignored
from ..frontend.operators import as_scalar, cast, plain
from ..frontend.values import is_buffer, is_region
from ..ir import tile_op
from .regions import operand, pair_extents, sized
from .tiles import is_tile


def _atomic(kind: str):
    def atomic(
        dst,
        value,
        size=None,
        memory_order: Ignored = None,
        return_prev: bool = False,
        use_tma: Ignored = False,
        annotations: Ignored = None,
    ) -> None:
        if isinstance(size, str):  # a memory order: updates of one element are always atomic and unordered
            size = None
        if return_prev:
            raise NotYetAvailable(
                name=f"atomic_{kind}(return_prev=True)",
                hint="Ascend cores add to GM without reading the old value back",
            )
        builder = Builder.current(f"T.atomic_{kind}")
        what = f"the destination of T.atomic_{kind}"
        value = plain(value)
        if is_tile(value) or (
            (is_buffer(dst) or is_region(dst)) and type(value).__name__ == "TensorLoad" and size is not None
        ):
            _tiles(builder, kind, dst, value, size, what)
            return
        target = operand(dst, what)
        if target.extents is None:
            extents = (1,) * len(target.mins)
        else:
            extents = target.extents
        amount = cast(as_scalar(value, f"the value of T.atomic_{kind}"), target.dtype)
        builder.emit(tile_op(f"atomic_{kind}", target.region(extents), amount, span=builder.span()))

    atomic.__name__ = f"atomic_{kind}"
    atomic.__doc__ = (
        f"`dst {kind}= value` without losing concurrent updates; `value` is a tile, "
        "or a number for one element of `dst`."
    )
    return atomic


def _tiles(builder: Builder, kind: str, dst, value, size, what: str) -> None:
    if size is not None:
        target, source = sized(dst, size, what), sized(value, size, f"the source of T.atomic_{kind}")
        extents = (list(source.extents), list(target.extents))
    else:
        target, source = operand(dst, what), operand(value, f"the source of T.atomic_{kind}")
        extents = pair_extents(source, target)
    if target.buffer.scope() != "global":
        raise InvalidArgument(
            f"T.atomic_{kind} on {target.describe()}, which is on chip",
            hint="only tensors in GM are shared between cores",
        )
    builder.emit(tile_op(f"atomic_{kind}", target.region(extents[1]), source.region(extents[0]), span=builder.span()))


atomic_add, atomic_max, atomic_min = _atomic("add"), _atomic("max"), _atomic("min")


def atomic_addx2(dst, value, return_prev: bool = False) -> None:
    """Atomic add of two neighbouring elements, starting at `dst` and `value`."""
    atomic_add(dst, value, [2], return_prev=return_prev)


def atomic_addx4(dst, value, return_prev: bool = False) -> None:
    """Atomic add of four neighbouring elements, starting at `dst` and `value`."""
    atomic_add(dst, value, [4], return_prev=return_prev)


NAMES = ("atomic_add", "atomic_max", "atomic_min", "atomic_addx2", "atomic_addx4")
