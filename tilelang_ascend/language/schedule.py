"""Schedulers: which tile a resident block works on next."""

from __future__ import annotations

from ..errors import InvalidArgument
from ..frontend.builder import Builder
from ..frontend.keywords import other_meaning
from ..frontend.operators import as_scalar, binop, cast
from ..ir import BufferLoad
from . import math
from .alloc import alloc_var
from .math import ceildiv


class _Number:
    """An int32 that changes while a kernel runs."""

    def __init__(self):
        # The interpreter of Python runs a block as it stands: a number will do.
        self.buffer = None if other_meaning("alloc_var") is not None else alloc_var("int32").buffer
        self.value = None

    def get(self):
        return self.value if self.buffer is None else BufferLoad(self.buffer, [as_scalar(0)])

    def set(self, value) -> None:
        if self.buffer is None:
            self.value = int(value)
        else:
            Builder.current("a tile scheduler").store(self.buffer, cast(value, "int32"), [as_scalar(0)])


class BaseTileScheduler:
    """The tile a block works on: `m_idx` and `n_idx`, its number `linear_idx`, and how many came before it, `current_iter`.

    A subclass sets `_total_tiles` and says in `update_current_idx(linear_idx)` which tile that is.
    """

    def __init__(self, stateful: bool = True, name: str | None = None):
        self._total_tiles = 0
        names = ("m_idx", "n_idx", "linear_idx", "current_iter") if stateful else ()
        self._numbers = {n: _Number() for n in names}

    def _number(self, name: str) -> _Number:
        if name not in self._numbers:
            raise InvalidArgument(f"a scheduler with stateful=False has no {name}", hint="coord(tile_id) gives the tile of a number")
        return self._numbers[name]

    m_idx = property(lambda self: self._number("m_idx").get(), doc="The row of the tile.")
    n_idx = property(lambda self: self._number("n_idx").get(), doc="The column of the tile.")
    linear_idx = property(lambda self: self._number("linear_idx").get(), doc="The number of the tile.")
    current_iter = property(lambda self: self._number("current_iter").get(), doc="How many tiles the block has worked on before.")

    def update_current_idx(self, linear_idx):
        raise NotImplementedError("a scheduler says in update_current_idx which tile a number is")

    def init(self, linear_init):
        """Begin with the tile of this number."""
        self._number("current_iter").set(0)
        self._number("linear_idx").set(linear_init)
        self.update_current_idx(self.linear_idx)

    def next_tile(self, step):
        """Go on to the tile `step` numbers further."""
        self._number("current_iter").set(binop("Add", self.current_iter, 1))
        self._number("linear_idx").set(binop("Add", self.linear_idx, step))
        self.update_current_idx(self.linear_idx)

    def valid(self):
        """True while there is a tile."""
        number, end = self.linear_idx, self._total_tiles
        return number < end if isinstance(number, int) else as_scalar(number) < as_scalar(end)


class PersistentTileScheduler(BaseTileScheduler):
    """A grid of tiles for resident blocks: block w works on tiles w, w + num_workers, …

    Tiles are numbered along M first (`column_major`, the default) or along N first, in strips of `swizzle_size` tiles of the other dimension,
    the last one narrower if need be. With `cluster_size` c, c rows of tiles are one. `num_workers`: as many blocks as the chip runs at a time.
    `stateful=False`: no current tile, `coord` only.
    """

    def __init__(
        self, num_m_tiles, num_n_tiles, num_workers=None, swizzle_size: int = 1, column_major: bool = True, cluster_size: int = 1,
        stateful: bool = True, name: str | None = None,
    ):  # fmt: skip
        super().__init__(stateful, name)
        if num_workers is None:
            from ..targets import resolve_chip

            num_workers = max(1, int(resolve_chip(None).num_aic) // cluster_size)
        rows = ceildiv(num_m_tiles, cluster_size)
        self.num_workers, self.cluster_size, self.swizzle_size = num_workers, cluster_size, swizzle_size
        self._column_major, self._total_tiles = column_major, binop("Mult", rows, num_n_tiles)
        self._along, self._across = (rows, num_n_tiles) if column_major else (num_n_tiles, rows)

    def coord(self, tile_id):
        """(row, column) of a tile by its number."""
        if other_meaning("alloc_var") is not None:
            tile_id = int(tile_id)
        strip = binop("Mult", self._along, self.swizzle_size)
        first = binop("Mult", binop("FloorDiv", tile_id, strip), self.swizzle_size)
        inside = binop("Mod", tile_id, strip)
        # At least 1: numbers behind the last tile are decoded, too.
        width = math.max(1, math.min(self.swizzle_size, binop("Sub", self._across, first)))
        along, across = binop("FloorDiv", inside, width), binop("Add", first, binop("Mod", inside, width))
        return (along, across) if self._column_major else (across, along)

    def update_current_idx(self, linear_idx):
        m, n = self.coord(linear_idx)
        self._number("m_idx").set(m)
        self._number("n_idx").set(n)

    def next_tile(self, step=None):
        """Go on to the next tile of this block."""
        super().next_tile(self.num_workers if step is None else step)


NAMES = ("BaseTileScheduler", "PersistentTileScheduler")
