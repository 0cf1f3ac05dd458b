"""Loops: `T.serial`, `T.Parallel`, `T.Pipelined`, `T.Persistent`, `T.grid`, and spellings that mean the same here."""

from __future__ import annotations

from ..errors import InvalidArgument
from ..frontend.builder import Builder, constant
from ..frontend.control import serial_range
from ..frontend.flow import check_break
from ..frontend.keywords import Ignored
from ..frontend.operators import as_integer, as_scalar, binop, compare, distance, plain
from ..frontend.values import LoopSpec
from ..ir import Break, Continue, tirx
from .math import ceildiv


def _range(start, stop=None, step=None, unrollable=False, **annotations) -> LoopSpec:
    first, last = (0, start) if stop is None else (start, stop)
    return serial_range(first, last, 1 if step is None else step, unrollable, annotations)


def serial(start, stop=None, step=None, *, annotations: Ignored = None) -> LoopSpec:
    """``for i in T.serial(n)`` / ``T.serial(start, stop, step)``: one iteration after the other."""
    return _range(start, stop, step)


def unroll(
    start, stop=None, step=None, *, explicit: Ignored = False, unroll_factor: Ignored = None, annotations: Ignored = None
) -> LoopSpec:
    """Like `serial`: unrolling is up to the compiler (the front end unrolls where a Python list is indexed)."""
    return _range(start, stop, step, unrollable=True)


def vectorized(start, stop=None, *, annotations: Ignored = None) -> LoopSpec:
    """Like `serial`: the iterations of a GPU vector instruction have an order that may be relied on."""
    return _range(start, stop)


def Parallel(
    *extents, coalesced_width: Ignored = None, loop_layout: Ignored = None, prefer_async: Ignored = None, annotations: Ignored = None
) -> LoopSpec:
    """``for i, j in T.Parallel(M, N)``: independent iterations over 1 or more dimensions. Loops directly inside of each other are one nest; one
    among other statements of a nest is a serial loop of each of its iterations."""
    if not extents:
        raise InvalidArgument("T.Parallel needs at least one extent")
    builder = Builder.active()
    nested = builder is not None and builder.region.inside("parallel")
    return LoopSpec("nested" if nested else "parallel", tuple(_extent(e, "T.Parallel") for e in extents))


def parallel(start, stop=None, *, annotations: Ignored = None) -> LoopSpec:
    """``T.parallel(n)``: one-dimensional `T.Parallel`."""
    if stop is None:
        return Parallel(start)
    start, stop = as_integer(start, "the start of T.parallel"), as_integer(stop, "the end of T.parallel")
    spec = Parallel(distance(stop, start))
    spec.make_values = lambda i: binop("Add", i, start)
    return spec


def _extent(value, what: str):
    return as_integer(value, f"an extent of {what}")


def Pipelined(
    start,
    stop=None,
    num_stages: int = 0,
    order: Ignored = None,
    stage: Ignored = None,
    sync: Ignored = None,
    group: Ignored = None,
    annotations: Ignored = None,
    cross_interval: Ignored = None,
) -> LoopSpec:
    """``for k in T.Pipelined(n, num_stages=3)``: a serial loop whose copies may run ahead; the number of stages is a
    hint.

    Note that the second positional argument is `stop`: ``T.Pipelined(n, 2)`` runs from n to 2.
    """
    stages = plain(num_stages)
    if not isinstance(stages, int) or stages < 0:
        raise InvalidArgument(f"num_stages must be a non-negative integer, got {stages!r}")
    return _range(start, stop, num_stages=stages)


def Persistent(domain, wave_size, index, group_size=8, num_stages: int = 0, *, annotations: Ignored = None) -> LoopSpec:
    """``for bx, by in T.Persistent([gx, gy], wave_size, cid)``: the tiles block `index` of `wave_size` works on.

    Tiles are walked in groups of `group_size` along the last dimension, so that blocks running at the same time share
    operands. Iterations past the last tile leave the loop.
    """
    if not isinstance(domain, (tuple, list)) or not domain:
        raise InvalidArgument(
            f"the domain of T.Persistent is {domain!r}, a list of extents is needed", hint="T.Persistent([gx, gy], waves, cid)"
        )
    domain = [as_integer(d, "an extent of T.Persistent") for d in domain]
    wave_size, index = as_integer(wave_size, "the wave size of T.Persistent"), as_integer(index, "the index of T.Persistent")
    total = domain[0]
    for d in domain[1:]:
        total = binop("Mult", total, d)
    group = plain(group_size)
    group = domain[-1] if group is None else _minimum(group, domain[-1])
    waves = ceildiv(total, wave_size)

    def tiles(wave):
        builder = Builder.current("T.Persistent")
        tile = builder.let("tile", binop("Add", binop("Mult", wave, wave_size), index))
        outside = compare(("GtE",), tile, total)
        if constant(outside) is None:
            region = builder.push("branch")
            builder.emit(Break(span=builder.span()))
            body = builder.pop(region)
            builder.emit(tirx.IfThenElse(outside, body, None, span=builder.span()))
        return _walk(tile, domain, group)

    notes = {"num_stages": num_stages} if num_stages else {}
    return LoopSpec("serial", (waves,), tiles, notes)


def _minimum(a, b):
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else tirx.min(as_scalar(a), as_scalar(b))


def _walk(tile, domain: list, group):
    """Coordinates of a tile: the last dimension is cut in groups, the others run inside a group."""
    rest = 1
    for d in domain[:-1]:
        rest = binop("Mult", rest, d)
    per_group = binop("Mult", rest, group)
    first = binop("Mult", binop("FloorDiv", tile, per_group), group)
    width = _minimum(group, binop("Sub", domain[-1], first))
    within = binop("Mod", tile, per_group)
    outer, last = binop("FloorDiv", within, width), binop("Add", first, binop("Mod", within, width))
    coordinates: list = []
    for d in reversed(domain[1:-1]):
        coordinates.insert(0, binop("Mod", outer, d))
        outer = binop("FloorDiv", outer, d)
    coordinates = ([outer] if len(domain) > 1 else []) + coordinates + [last]
    return coordinates[0] if len(coordinates) == 1 else tuple(coordinates)


def grid(*extents) -> LoopSpec:
    """``for i, j in T.grid(M, N)``: nested serial loops."""
    if not extents:
        raise InvalidArgument("T.grid needs at least one extent")
    return LoopSpec("serial", tuple(_extent(e, "T.grid") for e in extents))


def loop_break() -> None:
    """Leave the innermost run-time loop; the same as `break`."""
    builder = Builder.current("T.loop_break")
    if builder.loops:
        check_break(builder.loops[-1])
    builder.emit(Break(span=builder.span()))


def continue_loop() -> None:
    """Go to the next iteration of the innermost run-time loop; the same as `continue`."""
    builder = Builder.current("T.continue_loop")
    builder.emit(Continue(span=builder.span()))


break_loop = loop_break
Serial, Unroll, Vectorized = serial, unroll, vectorized
