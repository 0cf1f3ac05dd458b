"""All tile ops. docs/ir.md shows this table; what they mean is in `sim/reference_ops.py`, how they are lowered in `tileop/`."""

from __future__ import annotations

from types import MappingProxyType

from ..ir import Evaluate, attrs_of, call, op, op_name
from . import checks
from .op import PREFIX, Operand, Side, TileOp

_FLAG = (0, 1)
REDUCTIONS = ("sum", "max", "min", "abssum", "absmax", "any", "all", "bitand", "bitor", "bitxor")
MAX_PRINTED = 256


def _attrs(**attrs) -> MappingProxyType:
    return MappingProxyType(attrs)


def _in(name: str = "src") -> Operand:
    return Operand(name, read=True)


def _out(name: str = "dst") -> Operand:
    return Operand(name, written=True)


def _both(name: str = "dst") -> Operand:
    return Operand(name, read=True, written=True)


def _along(attrs, rank: int) -> int:
    return int(attrs["dim"]) % rank


COPY = TileOp(
    "copy", "dst = src, converted; the values: a dimension of the side in GM, and an index from which on nothing of it is there", (_in(), _out()),
    (0, 2), side=Side.ANY, independent=True, check=checks.copies,
)  # fmt: skip
FILL = TileOp("fill", "dst = value", (_out(),), (1, 1), side=Side.ANY, independent=True)
ZERO_ACCUMULATOR = TileOp(
    "zero_accumulator", "dst = 0: whole fractals of an accumulator in L0C; made by `fold_clears` only", (_out(),), side=Side.CUBE
)
GEMM = TileOp(
    "gemm", "C = A @ B, added to C unless the value, `clear_accum`, is true", (_in("A"), _in("B"), _both("C")), (1, 1),
    _attrs(transpose_A=_FLAG, transpose_B=_FLAG), Side.CUBE, check=checks.product,
)  # fmt: skip
IM2COL = TileOp(
    "im2col", "dst = patches of an image (a GM tensor N, H, W, C); the values are the row and column of the first one", (_in(), _out()),
    (2, 2), _attrs(kernel=None, stride=None, dilation=None, pad=None), Side.CUBE, check=checks.patches,
)  # fmt: skip
REDUCE = TileOp(
    "reduce", "dst = src combined along `dim`, and with the old dst unless `clear`", (_in(), _both()),
    attrs=_attrs(kind=REDUCTIONS, dim=None, clear=_FLAG), whole=_along, check=checks.reduces,
)  # fmt: skip


def _scan(name: str, doc: str) -> TileOp:
    return TileOp(name, doc, (_in(), _out()), attrs=_attrs(dim=None, reverse=_FLAG), whole=_along, check=checks.scans)


CUMSUM = _scan("cumsum", "dst = sums of src so far along `dim`")
CUMMAX = _scan("cummax", "dst = greatest of src so far along `dim`")
ARGSORT = TileOp(
    "argsort", "dst = places of the largest elements of the rows of src (float32, a multiple of 32, no NaN), stable", (_in(), _out()),
    whole=lambda attrs, rank: rank - 1, check=checks.sorts,
)  # fmt: skip


def _atomic(name: str, combine: str) -> TileOp:
    return TileOp(
        f"atomic_{name}", f"dst = {combine} of dst and src, region or value, as one step", (_both(), Operand("src", read=True, or_value=True)),
        side=Side.ANY, independent=True, combine=combine, check=checks.moves,
    )  # fmt: skip


ATOMIC_ADD, ATOMIC_MAX, ATOMIC_MIN = _atomic("add", "sum"), _atomic("max", "max"), _atomic("min", "min")
PRINT = TileOp(
    "print", "show a region; the values belong to the heading", (_in(),), (0, MAX_PRINTED), _attrs(format=None, desc=None), once=True
)
PRINTF = TileOp("printf", "show values by a C format", (), (0, MAX_PRINTED), _attrs(format=None), once=True)
DEVICE_ASSERT = TileOp("device_assert", "show values unless the first one is true", (), (1, MAX_PRINTED), _attrs(format=None), once=True)
ASSUME = TileOp("assume", "a promise from here to the end of the statement list", (), (1, 1), side=Side.NONE)
VIEW = TileOp(
    "view", "from here on dst is the storage of src, row-major, reinterpreted: whole buffers of the same size, both on chip or both in GM",
    (Operand("dst"), Operand("src")), side=Side.NONE, check=checks.sees,
)  # fmt: skip

TABLE: dict[str, TileOp] = {
    record.op: record
    for record in (
        COPY, FILL, ZERO_ACCUMULATOR, GEMM, IM2COL, REDUCE, CUMSUM, CUMMAX, ARGSORT, ATOMIC_ADD, ATOMIC_MAX, ATOMIC_MIN, PRINT, PRINTF,
        DEVICE_ASSERT, ASSUME, VIEW,
    )
}  # fmt: skip
"""Name in Tile IR -> record."""
for _name in TABLE:
    op(_name)  # Text may be the first to name one.


def tile_op_of(node) -> TileOp | None:
    """The record of the tile op that a statement or a call is; None if it is something else."""
    name = op_name(node)
    return TABLE[name] if name is not None and name.startswith(PREFIX) else None


def reads_of(stmt: Evaluate) -> tuple[int, ...]:
    """Positions of the arguments that a tile op reads: not what a reduction overwrites."""
    record = TABLE[op_name(stmt)]
    overwrites = record is REDUCE and int(attrs_of(stmt).get("clear", 1))
    return tuple(i for i in record.reads if i not in record.writes) if overwrites else record.reads


def is_op(node, *records: TileOp) -> bool:
    """True if a statement or a call is one of these tile ops."""
    found = tile_op_of(node)
    return found is not None and found in records


def tile_op(name: str, *args, span=None, **attrs) -> Evaluate:
    """The statement that is a tile op; `name` is without the prefix."""
    return Evaluate(call(TABLE[PREFIX + name].op, args, attrs, span=span), span=span)


def with_args(stmt: Evaluate, args) -> Evaluate:
    """The same op, with the same attributes, on other arguments."""
    return Evaluate(call(op_name(stmt), args, attrs_of(stmt), span=stmt.span), span=stmt.span)
