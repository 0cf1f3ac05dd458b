"""Reductions as element-wise nests over the source whose lanes are folded: of int64 tiles, and of regions that start anywhere."""

from __future__ import annotations

from ...analysis.index.sums import is_integer
from ...ir import BufferLoad, BufferStore, Evaluate, Stmt, TensorRegion, Var, attrs_of, const_int, dtype_of, seq
from ..base.context import VectorContext
from ..base.unsupported import Unsupported
from ..vector.fold.accumulate import Update, fold_dtype
from ..vector.graph.convert import convert
from ..vector.graph.graph import Node
from ..vector.graph.operations import BITS_OF
from ..vector.nest.nest import Nest
from ..vector.nest.parallel import StraightLine
from .reduce_scalar import BOOLEAN, carrier_of, is_float, nothing_holds, prepared

_OPERATIONS = {
    "sum": "add", "abssum": "add", "max": "max", "absmax": "max", "min": "min", "any": "max", "all": "min", "bitand": "and",
    "bitor": "or", "bitxor": "xor",
}  # fmt: skip


def reduce_nest(s: Evaluate, ctx: VectorContext) -> Stmt:
    """Lower `tl.reduce`; any and all fold flags, 0 and 1 in float16. Raises `Unsupported`, `Unreadable` or `Unwritable`."""
    source, target = s.value.args
    attrs = attrs_of(s)
    kind, rank = str(attrs["kind"]), len(source.region)
    dim = int(attrs["dim"]) % rank
    extents = tuple(const_int(r.extent) for r in source.region)
    if None in extents:
        raise Unsupported("the reduced region has a size known only at run time")
    axes = [Var(f"r{d}", "int32") for d in range(rank)]
    at = [r.min if n == 1 else r.min + v for r, n, v in zip(source.region, extents, axes)]
    to = _result_index(target, dim, axes, extents)
    clear = bool(int(attrs.get("clear", 1)))
    result, carrier = dtype_of(target.source), carrier_of(source.source, target.source, kind, clear)
    _refuse_mixtures(dtype_of(source.source), result, carrier, kind, clear)
    block = StraightLine(ctx, Nest(axes, extents, seq(), s.span), {}, None)

    operation, dtype = _OPERATIONS[kind], "float16" if kind in BOOLEAN else fold_dtype(_OPERATIONS[kind], carrier)
    # An unsigned maximum is a signed one of values whose top bit is inverted.
    flip = block.exprs.ops.flipped if carrier in BITS_OF and operation in ("max", "min") else lambda n: n

    def folded(e) -> Node:
        value = block.exprs.value(e)
        value = block.graph.lane_mask(value) if kind in BOOLEAN else value
        return flip(block.exprs.ops.scalar_cast(value, dtype) if value.is_scalar else convert(block.graph, value, dtype))

    old = None
    if not clear:
        old = folded(prepared(BufferLoad(target.source, to), "any" if kind in BOOLEAN else "sum", carrier))
    value = block.graph.tile(folded(prepared(BufferLoad(source.source, at), kind, carrier)))
    place = block.exprs.place(target.source, to)
    missing = tuple(a for a, n in enumerate(extents) if n > 1 and not place.strides[a])
    store = BufferStore(target.source, BufferLoad(target.source, to), to, span=s.span)

    def stored(n: Node) -> Node:
        # Integers that are folded as floats wrap like integers.
        if is_integer(carrier) and not is_integer(dtype) and carrier != result:
            return block.as_stored(convert(block.graph, n, "int16"), result)
        return block.as_stored(block.graph.reinterpret(flip(n), carrier) if carrier == "uint32" else flip(n), result)

    block.fold(store, place, value, old, Update(operation, None), missing, stored)
    return block.emit()


def _refuse_mixtures(dtype: str, result: str, carrier: str, kind: str, clear: bool) -> None:
    """Raises `Unsupported` for a source of `dtype` whose lanes cannot be folded as `carrier` and become, or join, a `result`."""
    if not clear and is_float(dtype) and not is_float(carrier) and kind not in BOOLEAN:
        raise Unsupported(f"floats that are folded first and then joined with {result}")
    if not clear and nothing_holds(dtype, result):
        raise Unsupported(f"{dtype} that is folded first and then joined with {result}")
    if "uint64" in (dtype, result, carrier) and not all(map(is_integer, (dtype, result, carrier))):
        raise Unsupported("no vector conversion of uint64 from or to floats")


def _result_index(target: TensorRegion, dim: int, axes: list, extents: tuple) -> list:
    """Where the result of the lanes at `axes` of a source of `extents` goes, reduced along `dim`: the target keeps that dimension, or not."""
    rank = len(axes)
    kept = range(rank) if len(target.region) == rank else [d for d in range(rank) if d != dim]
    if len(kept) != len(target.region):
        return [r.min for r in target.region]
    return [r.min if d == dim or extents[d] == 1 else r.min + axes[d] for r, d in zip(target.region, kept)]


__all__ = ["reduce_nest"]
