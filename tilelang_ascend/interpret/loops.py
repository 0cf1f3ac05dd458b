"""Loops: generators of Python; iterations of `T.Parallel` come in random order."""

from __future__ import annotations

import itertools

from ..errors import InvalidArgument, UnsupportedConstruct
from .state import current, here
from .values import Scalar, is_float, join, scalar


def _integer(value, what: str) -> Scalar:
    x = scalar(value, what)
    if is_float(x.dtype):
        raise InvalidArgument(f"{what} is {value!r}, an integer is needed", at=here())
    return x


class Counter:
    """`range` whose numbers are integers of the kernel."""

    def __init__(self, start, stop, step=1):
        first, last, by = (_integer(v, "a bound of a loop") for v in (start, stop, step))
        if by.get() == 0:
            raise UnsupportedConstruct("a loop with step 0", at=here())
        self.range = range(int(first.get()), int(last.get()), int(by.get()))
        self.dtype = "int32" if first.literal or first.dtype == "bool" else join("int32", first.dtype)

    def _value(self, i):
        return Scalar(i, self.dtype)

    def __iter__(self):
        return map(self._value, self.range)

    def __reversed__(self):
        return map(self._value, reversed(self.range))

    def __len__(self):
        return len(self.range)

    def __getitem__(self, k):
        return self._value(self.range[k])

    def __contains__(self, value):
        value = value.get() if isinstance(value, Scalar) else value
        return (value.item() if hasattr(value, "item") else value) in self.range


def serial(start, stop=None, step=None, **_hints) -> Counter:
    """`T.serial`, `T.unroll`, `T.vectorized`."""
    first, last = (0, start) if stop is None else (start, stop)
    return Counter(first, last, 1 if step is None else step)


def python_range(*args):
    """Python's `range` in a kernel."""
    if current() is None:
        return range(*args)
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    return Counter(start, stop, step)


def Pipelined(start, stop=None, num_stages=0, *_hints, **_more) -> Counter:
    """`T.Pipelined`: a serial loop."""
    if isinstance(num_stages, bool) or int(scalar(num_stages).get()) < 0:
        raise InvalidArgument(f"num_stages must be a non-negative integer, got {num_stages!r}", at=here())
    return serial(start, stop)


def Parallel(*extents, **_hints):
    """`T.Parallel`: all iterations, in an order nobody may rely on."""
    if not extents:
        raise InvalidArgument("T.Parallel needs at least one extent", at=here())
    return _shuffled([_integer(e, "an extent of T.Parallel").__index__() for e in extents], (0,) * len(extents))


def parallel(start, stop=None, **_hints):
    """`T.parallel`."""
    first, last = (0, start) if stop is None else (start, stop)
    first = _integer(first, "a bound of T.parallel").__index__()
    return _shuffled([_integer(last, "a bound of T.parallel").__index__() - first], (first,))


def _shuffled(extents, firsts):
    session = current()
    places = list(itertools.product(*[range(f, f + max(0, n)) for f, n in zip(firsts, extents)]))
    session.rng.shuffle(places)
    session.parallel += 1
    try:
        for place in places:
            yield Scalar(place[0], "int32") if len(place) == 1 else tuple(Scalar(i, "int32") for i in place)
    finally:
        session.parallel -= 1


def grid(*extents):
    """`T.grid`: nested serial loops."""
    if not extents:
        raise InvalidArgument("T.grid needs at least one extent", at=here())
    sizes = [_integer(e, "an extent of T.grid").__index__() for e in extents]
    for place in itertools.product(*map(range, sizes)):
        yield Scalar(place[0], "int32") if len(place) == 1 else tuple(Scalar(i, "int32") for i in place)


def Persistent(domain, wave_size, index, group_size=8, num_stages=0, **_hints):
    """`T.Persistent`: tiles `index`, `index + wave_size`, … of the domain, whose last dimension is walked in groups."""
    sizes = [scalar(d).__index__() for d in domain]
    total = 1
    for n in sizes:
        total *= n
    group = sizes[-1] if group_size is None else min(int(scalar(group_size).get()), sizes[-1])
    wave, first = scalar(wave_size).__index__(), scalar(index).__index__()
    for k in range(-(-total // wave)):
        tile = k * wave + first
        if tile >= total:
            break
        place = _walk(tile, sizes, group)
        yield Scalar(place[0], "int32") if len(place) == 1 else tuple(Scalar(i, "int32") for i in place)


def _walk(tile: int, sizes: list[int], group: int) -> tuple:
    """Coordinates of a tile: whole groups of columns one after the other, rows inside of a group."""
    rows = 1
    for n in sizes[:-1]:
        rows *= n
    first = tile // (rows * group) * group
    width = min(group, sizes[-1] - first)
    outer, column = divmod(tile % (rows * group), width)
    place = [first + column]
    for n in reversed(sizes[1:-1]):
        outer, inner = divmod(outer, n)
        place.insert(0, inner)
    return (outer, *place) if len(sizes) > 1 else tuple(place)


def _statement(word: str):
    def refuse():
        raise UnsupportedConstruct(f"T.{word}() where it is not a statement of its own", at=here(), hint="write `break` or `continue`")

    return refuse


MEANINGS = {
    "serial": serial, "Serial": serial, "unroll": serial, "Unroll": serial, "vectorized": serial, "Vectorized": serial,
    "Parallel": Parallel, "parallel": parallel, "Pipelined": Pipelined, "Persistent": Persistent, "grid": grid,
    "loop_break": _statement("loop_break"), "break_loop": _statement("break_loop"), "continue_loop": _statement("continue_loop"),
}  # fmt: skip
