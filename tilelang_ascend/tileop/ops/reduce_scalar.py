"""The last resort of a reduction: one scalar loop for each result."""

from __future__ import annotations

from ...ir import (
    AllocBuffer,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    Stmt,
    Var,
    attrs_of,
    const_int,
    decl_buffer,
    dtype_of,
    if_then,
    imm,
    itemsize,
    seq,
    tirx,
)
from ..base.context import VectorContext
from ..scalar.loops import scalar_loops
from ..vector.fold.accumulate import neutral

_COMBINE = {
    "sum": tirx.Add, "abssum": tirx.Add, "max": tirx.Max, "absmax": tirx.Max, "min": tirx.Min, "any": tirx.Or, "all": tirx.And,
    "bitand": tirx.bitwise_and, "bitor": tirx.bitwise_or, "bitxor": tirx.bitwise_xor,
}  # fmt: skip
"""kind -> how two values of the accumulator dtype become one."""
BOOLEAN, _ABSOLUTE = ("any", "all"), ("abssum", "absmax")


def carrier_of(source, target, kind: str, clear: bool = True) -> str:
    """dtype of the accumulator of a reduction of a buffer into another. Sums are taken in the range of the result. Without `clear`:
    the dtype in which the result meets what the destination holds, which keeps its precision and range."""
    if kind in BOOLEAN:
        return "bool"
    src, dst = dtype_of(source), dtype_of(target)
    if not clear or kind in ("sum", "abssum") or kind == "absmax" and not src.startswith("uint"):
        return _common(src, dst, clear)
    return "float32" if is_float(src) else src


def _common(src: str, dst: str, clear: bool) -> str:
    """The dtype in which values of `src` meet results of `dst`."""
    if is_float(dst) or is_float(src) and clear:
        return "float32"
    if is_float(src) or not clear and nothing_holds(src, dst):
        return dst
    src, dst = ("uint8" if d == "bool" else d for d in (src, dst))
    wide = max(src, dst, key=itemsize)
    alike = src.startswith("int") == dst.startswith("int")
    if alike or wide.startswith("int") and itemsize(src) != itemsize(dst):
        return wide
    return f"int{min(64, 16 * itemsize(wide))}"  # Signed numbers beside unsigned ones of at least their width.


def nothing_holds(src: str, dst: str) -> bool:
    """True for uint64 beside signed numbers, which meet as an accumulator of the destination's dtype would have them."""
    return "uint64" in (src, dst) and any(d.startswith("int") for d in (src, dst))


def is_float(dtype: str) -> bool:
    """True for floats of any width."""
    return dtype.startswith(("float", "bfloat"))


def prepared(value, kind: str, carrier: str):
    """An element as the accumulator takes it: a flag, its magnitude, or itself."""
    if kind in BOOLEAN:
        value = tirx.Cast("float32", value) if dtype_of(value).startswith("float8") else value
        return value if dtype_of(value) == "bool" else tirx.NE(value, tirx.const(0, dtype_of(value)))
    value = value if dtype_of(value) == carrier else tirx.Cast(carrier, value)
    zero = tirx.const(0, carrier)
    return tirx.Select(value < zero, zero - value, value) if kind in _ABSOLUTE else value


def _of_nothing(kind: str, dtype: str):
    """What a reduction of no element gives: the number that changes no other."""
    if dtype == "bool":
        return tirx.const(kind in ("all", "min"), dtype)
    if kind in ("max", "min"):
        return tirx.const(neutral(kind, dtype), dtype)
    zero = tirx.const(0, dtype)
    return tirx.bitwise_not(zero) if kind == "bitand" else zero


def scalar_reduce(s: Evaluate, ctx: VectorContext, reason: str) -> Stmt:
    """`tl.reduce` element by element, exact for all dtypes and regions. The first element starts the accumulator, if there is one."""
    source, target = s.value.args
    attrs, span = attrs_of(s), s.span
    kind, rank = str(attrs["kind"]), len(source.region)
    dim = int(attrs["dim"]) % rank
    loops = [Var(f"r{d}", "int32") for d in range(rank)]
    kept = [d for d in range(rank) if d != dim]
    to = list(range(rank)) if len(target.region) == rank else kept
    places = [r.min if d == dim else r.min + loops[d] for r, d in zip(target.region, to)]
    if not to or len(target.region) != len(to):
        places = [r.min for r in target.region]
    cleared = bool(int(attrs.get("clear", 1)))
    carrier = carrier_of(source.source, target.source, kind)
    total = decl_buffer((1,), carrier, "total", scope="local.var")
    held = BufferLoad(total, [imm(0)])

    def element(step):
        return prepared(
            BufferLoad(source.source, [r.min + (step if d == dim else loops[d]) for d, r in enumerate(source.region)]), kind, carrier
        )

    def into(value):
        return BufferStore(total, value, [imm(0)], span=span)

    extent = source.region[dim].extent
    start = into(element(imm(0)))
    if (const_int(extent) or 0) < 1:
        start = if_then(extent > 0, start, into(_of_nothing(kind, carrier)), span=span)
    step = Var("k", "int32")
    fold = into(_COMBINE[kind](held, element(step + 1)))
    dtype = dtype_of(target.source)
    result = held
    if not cleared:
        meet = carrier_of(source.source, target.source, kind, clear=False)
        old = prepared(BufferLoad(target.source, places), "any" if kind in BOOLEAN else "sum", meet)
        result = _COMBINE[kind](held if carrier == meet else tirx.Cast(meet, held), old)
    result = result if dtype == dtype_of(result) else tirx.Cast(dtype, result)
    body = seq(
        AllocBuffer(total), start,
        For(step, imm(0), extent - 1, ForKind.SERIAL, fold, span=span), BufferStore(target.source, result, places, span=span),
    )  # fmt: skip
    for d in reversed(kept):
        body = For(loops[d], imm(0), source.region[d].extent, ForKind.PARALLEL, body, span=span)
    return scalar_loops(body, ctx, reason)


__all__ = ["BOOLEAN", "carrier_of", "is_float", "nothing_holds", "prepared", "scalar_reduce"]
