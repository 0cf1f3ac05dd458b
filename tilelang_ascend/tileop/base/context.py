"""What the lowering of a tile op knows about its surroundings: the chip, the UB layout of every buffer, and where temporaries come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...isa.units import round_up


@dataclass(frozen=True)
class UbLayout:
    """How an N-D tile buffer lies in its Ascend-level buffer ``[versions, elements]``.

    buffer:   the Ascend-level 2-D buffer (scope ``shared.ub``), same dtype as the tile buffer
    version:  index of the version in use (int or int32 expression)
    shape:    logical shape of the tile buffer
    strides:  elements from one index to the next, for each dimension of `shape`; the last one is 1
    capacity: elements of one version, pad lanes included: reads and writes below this bound stay inside the buffer
    """

    buffer: Any
    version: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    capacity: int


def pitched_strides(shape: tuple[int, ...], pitch_unit: int) -> tuple[int, ...]:
    """Row-major strides with rows of two- and more-dimensional shapes padded to a multiple of `pitch_unit` elements."""
    strides = [1]
    for d in range(len(shape) - 1, 0, -1):
        extent = round_up(shape[d], pitch_unit) if d == len(shape) - 1 else shape[d]
        strides.append(strides[-1] * extent)
    return tuple(reversed(strides))


@dataclass
class VectorContext:
    """Services the caller (a pass) offers to the lowering of one vector statement.

    chip:       the chip, passed to the instruction table to ask what is legal
    layout:     tile buffer -> UbLayout
    new_temp:   (dtype, elements, name) -> declared Ascend-level UB buffer ``[1, elements]``; the memory planner packs them
    warn:       (span, message) -> None, one call for every statement that could not be vectorised
    options:    `fast_math`: shorter sequences whose error grows with the argument; `widened_bytes`: the most that bytes of a tile may take that
                are widened to be read in another order, where room is short; `close_loads`: see `Copy`
    gm_address: (GM buffer, indices) -> operand, for elements of GM that the scalar loops read and write
    outside:    GM buffer -> number that elements outside of it read as
    pitch_unit: rows of two- and more-dimensional tiles are padded to a multiple of this many elements
    analyzer:   what is known about the ranges of the variables around the statement
    """

    chip: Any
    layout: Callable[[Any], UbLayout]
    new_temp: Callable[[str, int, str], Any]
    warn: Callable[[Any, str], None]
    pitch_unit: int
    options: dict = field(default_factory=dict)
    gm_address: Callable[[Any, list], Any] | None = None
    outside: Callable[[Any], Any] = lambda buffer: 0  # noqa: E731
    analyzer: Any = None
