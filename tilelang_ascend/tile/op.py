"""The record of a tile op: everything passes, verifier and interpreter need to know of it."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Callable, Mapping

PREFIX = "tl."


class Side(enum.Enum):
    """Which engines of a core an op is work for."""

    CUBE = "cube"
    VECTOR = "vector"
    ANY = "any"
    """It follows its operands: transfers, fills."""
    NONE = "none"
    """It makes no instruction."""


@dataclass(frozen=True)
class Operand:
    """A leading argument of a tile op: a region of a buffer, or a scalar expression if `or_value`."""

    name: str
    read: bool = False
    written: bool = False
    or_value: bool = False


@dataclass(frozen=True, eq=False)
class TileOp:
    """One tile op.

    Attributes:
        name: as in Tile IR, without the prefix.
        doc: what it does, one line.
        operands: the leading arguments.
        values: least and greatest number of scalar arguments behind them.
        attrs: attribute -> legal values; None: any.
        side: whose work it is.
        whole: the dimension of the first operand along which the op has to see all elements at once, from its attributes and the rank;
            None: no such dimension. Along the others it is as many independent ones, and dimensions of its operands correspond.
        independent: elements of the result depend on the same elements of the operands only: any division is the same op.
        combine: for atomic updates, how old and new value are combined: "sum", "max" or "min".
        once: it has to happen exactly once for each block of the user's grid.
        check: what is wrong between its arguments, of Tile IR before tiles have versions, and its attributes; None: nothing.
    """

    name: str
    doc: str
    operands: tuple[Operand, ...] = ()
    values: tuple[int, int] = (0, 0)
    attrs: Mapping[str, tuple | None] = field(default_factory=lambda: MappingProxyType({}))
    side: Side = Side.VECTOR
    whole: Callable[[Mapping, int], int] | None = None
    independent: bool = False
    combine: str | None = None
    once: bool = False
    check: Callable[[list, Mapping], str | None] = lambda args, attrs: None

    @property
    def op(self) -> str:
        """The name in Tile IR."""
        return PREFIX + self.name

    @cached_property
    def reads(self) -> tuple[int, ...]:
        """Positions of the arguments it reads."""
        return tuple(i for i, x in enumerate(self.operands) if x.read)

    @cached_property
    def writes(self) -> tuple[int, ...]:
        """Positions of the arguments it writes."""
        return tuple(i for i, x in enumerate(self.operands) if x.written)
