"""A space of configurations from the kernel itself and its chip, for users who write none.

Which parameters are tuned follows from what they do, never from their names. A parameter with an integer as default that the caller did not
pass is tried with other values, and the traces are compared (`structure`). It is left out if one of them takes other arguments (number,
dtypes, shapes of tensors), computes with other constants, reduces groups of another length (`partial`), uses other elements of a tensor, or
consists of other statements. What remains changes extents only, and it is a
*schedule* if it makes an exchange: tiles grow while loops, or the grid, get shorter; one loop grows while another one shrinks; pipelines
get deeper. A parameter that only makes more (iterations, a window) or nothing (threads) is no schedule. Masks and constants that stand among
places (``i < limit``) can hide another meaning, so whoever tunes has to compare the results of the winner with those of the default.

===========================  ==================================================================================
what the parameter controls  values
===========================  ==================================================================================
depth of pipelines           1 to 4
an axis of a product         ladders ``m``, ``n``, ``k`` of the kernel's class (`templates`)
columns of vector tiles      ladder ``columns``: an axis that is the last one of the tiles with most dimensions
rows of vector tiles         ladder ``rows``: any other axis
blocks, parts of a loop      powers of two, and one or two for each core
===========================  ==================================================================================

The default is always among them. Each value is traced once, with defaults for all other parameters; values that do not trace, and values that
need as many trips as a smaller tile does, go. So do combinations whose tiles do not fit, computed from these traces: extents of which each
parameter decides a factor. (Parameters that can only change together are therefore not tuned.)

Order: the default first, then by `Template.crowded` and `Load.cost`, best first. A space is thinned in two steps. Above `MAX_COMBINED` combinations the axis with most
values loses every second of them, again and again. Of what fits, the `limit` first ones stay.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Collection, Iterable
from fractions import Fraction
from typing import Any

from ..arch import ChipSpec
from ..errors import InvalidArgument
from . import templates
from .ranges import NOMINAL
from .structure import Kind, Number, Structure, Tile, read
from .templates import STAGES, Demand, Load, Template

MAX_CONFIGS = 1000
MAX_COMBINED = 20_000
_DOUBLED = 3
"""How many times a default is doubled in search of an exchange. It is halved down to 1."""


def derive(
    trace: Callable[[dict[str, Any]], Any],
    signature: inspect.Signature,
    given: Collection[str],
    chip: ChipSpec,
    limit: int = MAX_CONFIGS,
) -> list[dict[str, int]]:
    """The configurations worth trying on `chip`, at most `limit`, the default first, then likely good ones before others.

    Args:
        trace: from parameters that differ from those of the call to Tile IR.
        signature: of the kernel function.
        given: names of parameters the caller passed.

    Raises:
        InvalidArgument: no parameter is tunable; notes say why.
        whatever `trace` raises for the defaults.
    """
    base = read(trace({}))
    axes, reasons = [], []
    for name, parameter in signature.parameters.items():
        if type(parameter.default) is not int or name in given:
            continue
        found = _Axis(name, parameter.default, base, trace).resolve(_template(base), chip)
        if isinstance(found, str):
            reasons.append(f"{name} {found}")
        else:
            axes.append(found)
    if not axes:
        raise InvalidArgument(
            "autotune finds no parameter to tune",
            notes=reasons or ["no parameter that the call leaves out has an integer as default"],
            hint='write configs=[{"block_M": 64}, ...], or give the kernel its tile sizes as parameters with defaults (block_M=64)',
        )
    return _Space(base, axes, _template(base), chip).configs(limit)


def _template(structure: Structure) -> Template:
    """The class of a kernel."""
    if structure.products:
        return templates.ATTENTION if structure.chained else templates.GEMM
    return templates.ROW_WISE if structure.reduces else templates.ELEMENT_WISE


class _Axis:
    """A parameter: what it changes, and its values.

    Attributes:
        structures: value -> structure of the kernel with it; only of those comparable with the default's.
        values: those to combine.
    """

    def __init__(self, name: str, default: int, base: Structure, trace: Callable[[dict[str, Any]], Any]):
        self.name, self.default, self.base, self._trace = name, default, base, trace
        self.structures: dict[int, Structure | None] = {default: base}
        self.values: list[int] = []

    def resolve(self, template: Template, chip: ChipSpec) -> "_Axis | str":
        """This axis with its values, or why the parameter is not tuned."""
        witness = None
        for value in _probes(self.default):
            found = self._at(value)
            if found is None:
                continue
            if found.interface != self.base.interface:
                return "changes the arguments of the kernel"
            if (found.data, found.folds) != (self.base.data, self.base.folds):
                return "is part of what the kernel computes"
            if not self._reaches_the_same(found):
                return "changes which elements of a tensor the kernel uses"
            if witness is None and self._exchanges(found):
                witness = value
        if witness is None:
            return "changes no schedule: no tile grows while loops get shorter"
        tried = self._candidates(witness, template, chip)
        usable = [v for v in tried if (s := self._at(v)) is not None and self._computes_the_same(s)]
        self.values = self._useful(usable, witness)
        return self if len(self.values) > 1 else "has one sensible value"

    def ratio(self, value: int, place: int) -> Fraction:
        """How much larger the number at `place` is with `value` than with the default, where 0 (no stages) counts as 1."""
        found = self.structures[value]
        assert found is not None
        before, after = self.base.numbers[place].value, found.numbers[place].value
        return Fraction(max(1, after), max(1, before))

    def _at(self, value: int) -> Structure | None:
        if value not in self.structures:
            try:
                found = read(self._trace({self.name: value}))
            except Exception:  # whatever the user's function or the tracer has against a value, it is not one to try
                found = None
            same = found is not None and (found.shape, len(found.numbers)) == (self.base.shape, len(self.base.numbers))
            self.structures[value] = found if same else None
        return self.structures[value]

    def _computes_the_same(self, other: Structure) -> bool:
        mine, others = ((s.interface, s.data, s.folds) for s in (self.base, other))
        return mine == others and self._reaches_the_same(other)

    def _reaches_the_same(self, other: Structure) -> bool:
        return all(a is None or b is None or a.same(b) for a, b in zip(self.base.reaches, other.reaches))

    def _changed(self, other: Structure, *kinds: Kind) -> list[int]:
        pairs = zip(self.base.numbers, other.numbers)
        return [i for i, (a, b) in enumerate(pairs) if a.kind in kinds and (a.value, a.text) != (b.value, b.text)]

    def _exchanges(self, other: Structure) -> bool:
        if self._changed(other, Kind.STAGES):
            return True
        ups, downs = ([self._moves(other, i, up) for i in range(len(other.numbers))] for up in (True, False))
        for way, back in ((ups, downs), (downs, ups)):
            grows = [i for i in other.places(Kind.TILE, Kind.NEST, Kind.TRIPS) if way[i]]
            shrinks = [i for i in other.places(Kind.TRIPS) if back[i]]
            if any(i != j for i in grows for j in shrinks):
                return True
        return False

    def _moves(self, other: Structure, place: int, up: bool) -> bool:
        """Whether a number gets larger (`up`) or smaller. An unknown one with another text may do either."""
        before, after = self.base.numbers[place], other.numbers[place]
        if before.most == after.most:
            return before.text != after.text and not before.known
        return (after.most > before.most) == up

    def _candidates(self, witness: int, template: Template, chip: ChipSpec) -> list[int]:
        other = self._at(witness)
        assert other is not None
        if self._changed(other, Kind.STAGES):
            return sorted({*STAGES, self.default})
        tiles = self._changed(other, Kind.TILE) or self._changed(other, Kind.NEST)
        if not tiles:
            return sorted({*template.blocks(chip), self.default})
        axis, place = self._role(tiles)
        number = self.base.numbers[place]
        extents = template.values(axis, chip, number.itemsize or _smallest_element(self.base))
        extents = [x for n, x in enumerate(extents) if n == 0 or extents[n - 1] < self.base.longest]
        # Elements per unit of the parameter, or of its inverse.
        scale = Fraction(witness, self.default) if self.default > 0 else None
        if scale is not None and self.ratio(witness, place) == scale:
            values = [Fraction(x * self.default, number.value) for x in extents]
        elif scale is not None and self.ratio(witness, place) == 1 / scale:
            values = [Fraction(number.value * self.default, x) for x in extents]
        else:
            values = [Fraction(x) for x in extents]
        return sorted({int(v) for v in values if v.denominator == 1 and v >= 1} | {self.default})

    def _role(self, tiles: list[int]) -> tuple[str, int]:
        """(the axis of the template, the place of the number that stands for it)."""
        for axis in ("k", "m", "n"):  # K first: its smallest piece is at least as large
            for product in self.base.products:
                for place in product.axes[axis]:
                    if place in tiles:
                        return axis, place
        numbers = self.base.numbers
        widest = max(tiles, key=lambda i: (numbers[i].rank, numbers[i].last, -numbers[i].itemsize))
        return "columns" if numbers[widest].last else "rows", widest

    def _useful(self, values: list[int], witness: int) -> list[int]:
        """`values` without those that need as many trips as a smaller tile does; all, where there are no tiles, or nobody knows the trips."""
        other = self._at(witness)
        assert other is not None
        tiles = self._changed(other, Kind.TILE, Kind.NEST)
        if self._changed(other, Kind.STAGES) or not tiles:
            return values
        place = self._role(tiles)[1]
        bigger = other.numbers[place].value > self.base.numbers[place].value
        against = [i for i in other.places(Kind.TRIPS) if self._moves(other, i, not bigger)]

        if not all(self.base.numbers[i].known for i in against):
            return values

        def trips(value: int) -> int:
            return math.prod(max(1, self._numbers(value)[i].most) for i in against)

        return sorted({*templates.useful(sorted(values, key=lambda v: self._numbers(v)[place].value), trips), self.default})

    def _numbers(self, value: int) -> list[Number]:
        found = self.structures[value]
        assert found is not None
        return found.numbers


def _probes(default: int) -> Iterable[int]:
    doubled = [max(1, default) << n for n in range(1, 1 + _DOUBLED)]
    halved = [default >> n for n in range(1, max(1, default).bit_length())]
    ones = [1] if default == 0 else []
    return [*ones, *(v for pair in itertools.zip_longest(doubled, halved) for v in pair if v is not None)]


def _smallest_element(structure: Structure) -> int:
    return min((move.tile.itemsize for move in structure.moves), default=4)


class _Space:
    """All combinations of the values of some axes."""

    def __init__(self, base: Structure, axes: list[_Axis], template: Template, chip: ChipSpec):
        self.base, self.axes, self.template, self.chip = base, axes, template, chip
        places = range(len(base.numbers))
        self._ratios = [{v: [axis.ratio(v, i) for i in places] for v in axis.values} for axis in axes]
        self._movers = [[n for n, of in enumerate(self._ratios) if any(r[i] != 1 for r in of.values())] for i in places]

    def configs(self, limit: int) -> list[dict[str, int]]:
        """See the head of this module."""
        default = tuple(axis.default for axis in self.axes)
        rated = []
        for values in itertools.product(*_thinned([axis.values for axis in self.axes], default)):
            numbers = self._numbers(values)
            demand = self._demand(numbers)
            if values != default and self.template.fits(self.chip, demand):
                rated.append((self.template.crowded(self.chip, demand), self._cost(numbers), values))
        rated.sort()
        names = [axis.name for axis in self.axes]
        return [dict(zip(names, values)) for values in (default, *(values for *_, values in rated[: limit - 1]))]

    def _numbers(self, values: tuple[int, ...]) -> list[int]:
        found = [number.value for number in self.base.numbers]
        for i, movers in enumerate(self._movers):
            if movers:
                found[i] = math.ceil(max(1, found[i]) * math.prod(self._ratios[n][values[n]][i] for n in movers))
        return found

    def _demand(self, numbers: list[int]) -> Demand:
        def size(tile: Tile) -> int:
            copies = max(1, numbers[tile.stages]) if tile.stages is not None else 1
            return tile.itemsize * copies * math.prod(numbers[i] for i in tile.extents)

        inputs = [sum(map(size, {p.a, p.b})) for p in self.base.products]
        accumulators = [templates.ACCUMULATOR_BYTES * size(p.c) // p.c.itemsize for p in self.base.products]
        vector = [sum(map(size, group)) for group in self.base.groups]
        return Demand(max(inputs, default=0), max(accumulators, default=0), max(vector, default=0))

    def _cost(self, numbers: list[int]) -> tuple[float, ...]:
        """`Load.cost`, summed over the launches of the kernel."""
        stages = max((numbers[i] for i in self.base.places(Kind.STAGES)), default=0)
        totals: tuple[float, ...] = (0.0, 0.0, 0.0)
        for grid in dict.fromkeys(move.grid for move in self.base.moves):
            moved, transfers, steps = 0, 0, 1
            for move in self.base.moves:
                if move.grid == grid:
                    *rows, row = [numbers[i] for i in move.tile.extents]
                    # Of what nobody counts there is as much as there is, in as many parts as it takes.
                    trips = math.prod(numbers[i] for i in move.loops) if move.counted else NOMINAL**2 // max(1, math.prod(rows) * row)
                    moved += trips * math.prod(rows) * templates.burst_bytes(self.chip, row * move.tile.itemsize)
                    transfers += trips
                    steps = max(steps, trips)
            load = Load(math.prod(numbers[i] for i in grid), moved, steps, transfers, stages)
            totals = tuple(a + b for a, b in zip(totals, load.cost(self.template, self.chip)))
        return totals


def _thinned(values: list[list[int]], default: tuple[int, ...]) -> list[list[int]]:
    """`values` with at most `MAX_COMBINED` combinations."""
    values = [list(v) for v in values]
    while math.prod(map(len, values)) > MAX_COMBINED:
        longest = max(range(len(values)), key=lambda i: len(values[i]))
        values[longest] = [v for n, v in enumerate(values[longest]) if n % 2 or v == default[longest]]
    return values


__all__ = ["MAX_COMBINED", "MAX_CONFIGS", "derive"]
