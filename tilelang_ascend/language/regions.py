"""Operands of tile operations: a whole buffer, a slice of it, or a head address, and the extents they stand for."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..errors import InvalidArgument, ShapeMismatch
from ..frontend.builder import Builder, constant
from ..frontend.operators import as_integer, as_scalar, binop, cast, plain
from ..frontend.values import ScalarVar, is_buffer, is_expr, is_region
from ..ir import Range, TensorLoad, dtype_of, scope_of, sym, tirx


@dataclasses.dataclass(frozen=True)
class Operand:
    """`mins` has one entry per dimension of `buffer`; `extents` is None for a head address (``A[i, j]``)."""

    buffer: Any
    mins: tuple
    extents: tuple | None
    kind: str  # "buffer", "slice" or "head"

    def region(self, extents=None):
        """The operand as a region; `extents`, which a head address needs, are right-aligned to the dimensions and padded with ones."""
        extents = self.extents if extents is None else extents
        assert extents is not None, "a head address has no extents of its own"
        extents = list(extents)
        rank = len(self.mins)
        if len(extents) > rank:
            lead, extents = extents[: len(extents) - rank], extents[len(extents) - rank :]
            if any(constant(e) != 1 for e in lead):
                raise ShapeMismatch(f"{self.describe()} has {rank} dimensions, a tile of shape {shape_text(lead + extents)} does not fit")
        extents = [1] * (rank - len(extents)) + extents
        on_chip = scope_of(self.buffer) not in ("global", "")
        ranges = [Range.from_min_extent(_int32(m) if on_chip else as_scalar(m), _int32(e)) for m, e in zip(self.mins, extents)]
        return tirx.BufferRegion(self.buffer, ranges)

    @property
    def dtype(self) -> str:
        return str(self.buffer.ty.dtype)

    def describe(self) -> str:
        """`A_shared (128x32 float16)`"""
        extents = self.extents if self.extents is not None else self.buffer.ty.shape
        return f"{self.buffer.name} ({shape_text(extents)} {self.dtype})"


@dataclasses.dataclass(frozen=True)
class TileOperand(Operand):
    """An operand that has extents of its own."""

    extents: tuple


def shape_text(extents) -> str:
    """`128x32`"""
    return "x".join(str(e if (n := constant(e)) is None else n) for e in extents) or "scalar"


def operand(value, what: str) -> Operand:
    """Classify one operand of a tile operation; `what` names it in errors."""
    value = value if isinstance(value, ScalarVar) else plain(value)
    if isinstance(value, ScalarVar):
        return TileOperand(value.buffer, (0,), (1,), "buffer")
    if is_buffer(value):
        shape = tuple(_number(s) for s in value.ty.shape)
        return TileOperand(value, (0,) * len(shape), shape, "buffer")
    if is_region(value):
        return TileOperand(
            value.source,
            tuple(_number(r.min) for r in value.region),
            tuple(_number(r.extent) for r in value.region),
            "slice",
        )
    if is_expr(value) and (builder := Builder.active()) is not None:
        value = builder.evaluations.address(value)  # a name of an element is a head address, too
    if isinstance(value, TensorLoad):
        return Operand(value.source, tuple(_number(i) for i in value.indices), None, "head")
    raise InvalidArgument(f"{what} must be a buffer, a slice such as A[0:16, :] or an element such as A[i, j]; got {value!r}")


def _int32(value):
    """A place in a tile, or a size of one, as what it fits in, whatever it was computed in. Constants of tiles that are far too large stay."""
    e, known = as_scalar(value), constant(value)
    too_large = known is not None and abs(known) >= 2**31
    return e if dtype_of(e) == "int32" or too_large else cast(e, "int32")


def _number(expr):
    known = constant(expr)
    return expr if known is None else known


def tile_operand(value, what: str) -> TileOperand:
    """An operand whose extents must be its own (a head address is one element)."""
    op = operand(value, what)
    return op if isinstance(op, TileOperand) else TileOperand(op.buffer, op.mins, (1,) * len(op.mins), op.kind)


def pair_extents(src: Operand, dst: Operand) -> tuple[list, list]:
    """Extents of both sides of a copy.

    A head address takes the other side's extents. Sides with equally many extents other than 1 keep their own;
    otherwise extents are aligned at the right and ones are broadcast, two different run-time extents meet in the
    larger one. Paired extents of which one is known only at run time are clamped to the smaller.
    """
    given, wanted = src.extents, dst.extents
    if given is None:
        assert wanted is not None, "one of two head addresses takes the other's extents"
        given = (1,) * len(wanted)
    elif wanted is None:
        wanted = (1,) * len(given)
    a, b = list(given), list(wanted)
    if sum(not _is_one(e) for e in a) != sum(not _is_one(e) for e in b):
        a, b = _broadcast(a, b, src, dst)
    _clamp(a, b, src, dst)
    return a, b


def _is_one(extent) -> bool:
    return constant(extent) == 1


def _broadcast(a: list, b: list, src: Operand, dst: Operand) -> tuple[list, list]:
    rank = max(len(a), len(b))
    a, b = [1] * (rank - len(a)) + a, [1] * (rank - len(b)) + b
    for k, (x, y) in enumerate(zip(a, b)):
        if _is_one(x):
            a[k] = y
        elif _is_one(y):
            b[k] = x
        elif not same(x, y):
            if constant(x) is not None and constant(y) is not None:
                raise _mismatch(src, dst)
            a[k] = b[k] = tirx.max(as_scalar(x), as_scalar(y))
    return a, b


def _clamp(a: list, b: list, src: Operand, dst: Operand) -> None:
    wide = [[k for k, e in enumerate(side) if not _is_one(e)] for side in (a, b)]
    for i, j in zip(*wide):
        if same(a[i], b[j]):
            continue
        if constant(a[i]) is not None and constant(b[j]) is not None:
            raise _mismatch(src, dst)
        a[i] = b[j] = tirx.min(as_scalar(a[i]), as_scalar(b[j]))


def _mismatch(src: Operand, dst: Operand) -> ShapeMismatch:
    return ShapeMismatch(
        f"the source {src.describe()} and the destination {dst.describe()} have different shapes",
        hint="give one side as a head address (A[i, j]) to take the other side's shape, or slice the larger one",
    )


def same(a, b) -> bool:
    """True if two extents are provably equal."""
    if constant(a) is not None or constant(b) is not None:
        return constant(a) == constant(b)
    return bool(sym.Analyzer().can_prove_equal(as_scalar(a), as_scalar(b)))


def sized(value, size, what: str) -> TileOperand:
    """An operand with an explicit size list, aligned at the right."""
    op = operand(value, what)
    if not isinstance(size, (tuple, list)):
        raise InvalidArgument(f"the size list of {what} is {size!r}", hint="give a list of extents: size=[16, 32]")
    size = [_positive(as_integer(s, f"a size of {what}"), what) for s in size]
    if len(size) > len(op.mins) and any(s != 1 for s in size[: len(size) - len(op.mins)]):
        raise ShapeMismatch(f"{op.describe()} has {len(op.mins)} dimensions, the size list {size} has {len(size)}")
    size = size[max(0, len(size) - len(op.mins)) :]
    if isinstance(op, TileOperand):
        _check_fits(op, size)
    return TileOperand(op.buffer, op.mins, (1,) * (len(op.mins) - len(size)) + tuple(size), "slice")


def _positive(size, what: str):
    if isinstance(size, int) and size <= 0:
        raise InvalidArgument(f"a size of {what} is {size}, it must be positive")
    return size


def _check_fits(op: TileOperand, size: list) -> None:
    for have, want in zip(reversed(op.extents), reversed(size)):
        if constant(have) is not None and constant(want) is not None and want > have:
            raise ShapeMismatch(f"the size list {size} is larger than {op.describe()}")


def squeeze(extents) -> list:
    """Extents without ones."""
    return [e for e in extents if not _is_one(e)]


def offset(op: Operand, index: list) -> list:
    """Indices of one element: `index` counts inside the region, aligned at the right."""
    full = [0] * (len(op.mins) - len(index)) + list(index)
    return [as_scalar(binop("Add", m, i)) for m, i in zip(op.mins, full)]
