"""Atomic updates of GM and of tiles."""

from __future__ import annotations

from ..errors import InvalidArgument, NotYetAvailable
from ..frontend.builder import Builder, constant
from ..frontend.keywords import Ignored
from ..frontend.operators import as_scalar, cast, plain
from ..ir import BufferLoad, TensorLoad, region, tirx
from ..tile import tile_op
from .regions import operand, pair_extents, sized
from .tiles import is_tile, parallel

_COMBINED = {"add": lambda a, b: a + b, "max": tirx.Max, "min": tirx.Min}


def _atomic(kind: str):
    def atomic(
        dst,
        value,
        size=None,
        memory_order: Ignored = None,
        return_prev: bool = False,
        use_tma: Ignored = False,
        annotations: Ignored = None,
    ):
        if isinstance(size, str):  # a memory order: updates of one element are always atomic and unordered
            size = None
        builder = Builder.current(f"T.atomic_{kind}")
        what = f"the destination of T.atomic_{kind}"
        target, value = operand(dst, what), plain(value)
        old = _previous(builder, kind, target) if return_prev else None
        if is_tile(value) or size is not None and isinstance(value, TensorLoad):
            _tiles(builder, kind, dst, value, size, what)
            return old
        if size is not None:
            target = sized(dst, size, what)
        extents = (1,) * len(target.mins) if target.extents is None else target.extents
        amount = cast(as_scalar(value, f"the value of T.atomic_{kind}"), target.dtype)
        if target.buffer.scope() == "local.var":
            builder.store(target.buffer, _COMBINED[kind](BufferLoad(target.buffer, [as_scalar(0)]), amount), [as_scalar(0)])
            return old
        builder.emit(tile_op(f"atomic_{kind}", target.region(extents), amount, span=builder.span()))
        return old

    atomic.__name__ = f"atomic_{kind}"
    atomic.__doc__ = (
        f"`dst {kind}= value` without losing concurrent updates; `value` is a tile, "
        "or a number for one element of `dst`. `return_prev`: give what an element of a tile was before."
    )
    return atomic


def _tiles(builder: Builder, kind: str, dst, value, size, what: str) -> None:
    target, update, amount = _update(kind, dst, value, size, what)
    if target.buffer.scope() == "global":
        builder.emit(tile_op(f"atomic_{kind}", update, amount, span=builder.span()))
        return
    # Only GM is shared between cores: on chip this is element-wise work.
    shape = [r.extent for r in update.region if constant(r.extent) != 1]

    def element(index: list) -> None:
        one = region(update.source, _at(update, index), [1] * len(update.region))
        value = cast(BufferLoad(amount.source, _at(amount, index)), target.dtype)
        builder.emit(tile_op(f"atomic_{kind}", one, value, span=builder.span()))

    parallel(shape, element)


def _update(kind: str, dst, value, size, what: str) -> tuple:
    """The destination, and the regions of equal extents that are updated and added."""
    of_source = f"the source of T.atomic_{kind}"
    if size is not None:
        whole = sized(dst, size, what)
        return whole, whole.region(), sized(value, size, of_source).region()
    target, source = operand(dst, what), operand(value, of_source)
    given, wanted = pair_extents(source, target)
    return target, target.region(wanted), source.region(given)


def _at(box, index: list) -> list:
    """Indices of one element of a region; `index` counts along the dimensions that have more than one."""
    steps = iter(index)
    return [r.min if constant(r.extent) == 1 else r.min + next(steps) for r in box.region]


def _previous(builder, kind: str, target):
    """What an element was before its update. Only tiles can tell: cores update GM without reading the old value back."""
    if target.buffer.scope() == "global" or target.extents is not None and any(constant(e) != 1 for e in target.extents):
        raise NotYetAvailable(
            name=f"atomic_{kind}(return_prev=True)",
            hint="Ascend cores update GM without reading the old value back; single elements of tiles have one",
        )
    return builder.let("previous", BufferLoad(target.buffer, [as_scalar(m) for m in target.mins]))


atomic_add, atomic_max, atomic_min = _atomic("add"), _atomic("max"), _atomic("min")


def atomic_addx2(dst, value, return_prev: bool = False) -> None:
    """Atomic add of two neighbouring elements, starting at `dst` and `value`."""
    _neighbours(dst, value, 2, return_prev)


def atomic_addx4(dst, value, return_prev: bool = False) -> None:
    """Atomic add of four neighbouring elements, starting at `dst` and `value`."""
    _neighbours(dst, value, 4, return_prev)


def _neighbours(dst, value, count: int, return_prev: bool) -> None:
    if not is_tile(value) and not isinstance(plain(value), TensorLoad):
        raise InvalidArgument(
            f"T.atomic_addx{count} adds {count} neighbouring elements of a buffer, got {value!r}",
            hint=f"give the first of them, such as x[i], or use T.atomic_add with the size [{count}]",
        )
    if return_prev:
        raise NotYetAvailable(name=f"atomic_addx{count}(return_prev=True)", hint="use T.atomic_add on single elements of tiles")
    atomic_add(dst, value, [count])


NAMES = ("atomic_add", "atomic_max", "atomic_min", "atomic_addx2", "atomic_addx4")
