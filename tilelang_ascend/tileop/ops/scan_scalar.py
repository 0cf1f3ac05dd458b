"""The last resort of a scan: one scalar loop for each row."""

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
    as_dtype,
    attrs_of,
    const_int,
    decl_buffer,
    dtype_of,
    if_then,
    imm,
    seq,
    tirx,
)
from ...tile import CUMSUM, is_op
from ..base.context import VectorContext
from ..scalar.loops import scalar_loops
from .reduce_scalar import is_float


def scalar_scan(s: Evaluate, ctx: VectorContext, reason: str) -> Stmt:
    """`tl.cumsum` or `tl.cummax` element by element, for all dtypes and regions. The first element, if there is one, starts the
    accumulator."""
    source, target = s.value.args
    attrs, span, total_of = attrs_of(s), s.span, tirx.Add if is_op(s, CUMSUM) else tirx.Max
    dim = int(attrs.get("dim", 0)) % len(source.region)
    loops = [Var(f"r{d}", "int32") for d in range(len(source.region))]
    extent = source.region[dim].extent
    result = dtype_of(target.source)
    # Sums are taken in the range of the result; floats are whole only there.
    carrier = result if total_of is tirx.Add and not is_float(dtype_of(source.source)) else dtype_of(source.source)
    carrier = "float32" if is_float(carrier) else carrier
    total = decl_buffer((1,), carrier, "total", scope="local.var")
    held = BufferLoad(total, [imm(0)])

    def at(region, step) -> list:
        place = extent - imm(1) - step if int(attrs.get("reverse", 0)) else step
        return [r.min + (place if d == dim else loops[d]) for d, r in enumerate(region.region)]

    def put(value, step) -> Stmt:
        kept = BufferStore(total, value, [imm(0)], span=span)
        return seq(kept, BufferStore(target.source, as_dtype(held, result), at(target, step), span=span))

    def element(step):
        return as_dtype(BufferLoad(source.source, at(source, step)), carrier)

    k = Var("k", "int32")
    rest = put(total_of(held, element(k + 1)), k + 1)
    first = put(element(imm(0)), imm(0))
    if (const_int(extent) or 0) < 1:
        first = if_then(extent > 0, first, span=span)
    body = seq(AllocBuffer(total), first, For(k, imm(0), extent - imm(1), ForKind.SERIAL, rest, span=span))
    for d in reversed(range(len(loops))):
        if d != dim:
            body = For(loops[d], imm(0), source.region[d].extent, ForKind.PARALLEL, body, span=span)
    return scalar_loops(body, ctx, reason)


__all__ = ["scalar_scan"]
