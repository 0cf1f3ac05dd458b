"""The last resort of a reduction: one scalar loop for each result."""

from __future__ import annotations

from ..ir import (
    AllocBuffer,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    Stmt,
    Var,
    attrs_of,
    decl_buffer,
    dtype_of,
    imm,
    seq,
    tirx,
)
from .context import VectorContext
from .parallel_scalar import scalar_loops

#: kind -> how two values of the accumulator dtype become one.
_COMBINE = {
    "sum": tirx.Add, "abssum": tirx.Add, "max": tirx.Max, "absmax": tirx.Max, "min": tirx.Min, "any": tirx.Or, "all": tirx.And,
    "bitand": tirx.bitwise_and, "bitor": tirx.bitwise_or, "bitxor": tirx.bitwise_xor,
}  # fmt: skip
BOOLEAN, _ABSOLUTE = ("any", "all"), ("abssum", "absmax")


def carrier_of(source, target, kind: str) -> str:
    """dtype of the accumulator of a reduction of a buffer into another."""
    if kind in BOOLEAN:
        return "bool"
    dtype = dtype_of(target if kind == "sum" else source)
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def prepared(value, kind: str, carrier: str):
    """An element as the accumulator takes it: a flag, its magnitude, or itself."""
    if kind in BOOLEAN:
        return value if dtype_of(value) == "bool" else tirx.NE(value, tirx.const(0, dtype_of(value)))
    value = value if dtype_of(value) == carrier else tirx.Cast(carrier, value)
    zero = tirx.const(0, carrier)
    return tirx.Select(value < zero, zero - value, value) if kind in _ABSOLUTE else value


def scalar_reduce(s: Evaluate, ctx: VectorContext, reason: str) -> Stmt:
    """`tl.reduce` element by element, exact for all dtypes and regions. The first element starts the accumulator."""
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
    carrier = carrier_of(source.source, target.source, kind)
    total = decl_buffer((1,), carrier, "total", scope="local.var")
    held = BufferLoad(total, [imm(0)])

    def element(step):
        return prepared(
            BufferLoad(source.source, [r.min + (step if d == dim else loops[d]) for d, r in enumerate(source.region)]), kind, carrier
        )

    def into(value):
        return BufferStore(total, value, [imm(0)], span=span)

    cleared = bool(int(attrs.get("clear", 1)))
    old = "any" if kind in BOOLEAN else "sum"
    start = element(imm(0)) if cleared else prepared(BufferLoad(target.source, places), old, carrier)
    first = 1 if cleared else 0
    step = Var("k", "int32")
    fold = into(_COMBINE[kind](held, element(step + first)))
    extent = source.region[dim].extent - first
    dtype = dtype_of(target.source)
    result = held if dtype == carrier else tirx.Cast(dtype, held)
    body = seq(
        AllocBuffer(total), into(start), For(step, imm(0), extent, ForKind.SERIAL, fold, span=span),
        BufferStore(target.source, result, places, span=span),
    )  # fmt: skip
    for d in reversed(kept):
        body = For(loops[d], imm(0), source.region[d].extent, ForKind.PARALLEL, body, span=span)
    return scalar_loops(body, ctx, reason)


__all__ = ["BOOLEAN", "carrier_of", "prepared", "scalar_reduce"]
