"""`tl.fill`: a region becomes one number. Written as a parallel nest, so layouts, tails and dtypes are handled in one place."""

from __future__ import annotations

from ...ir import (
    BufferStore,
    Evaluate,
    For,
    Stmt,
    TensorRegion,
    Var,
    as_expr,
    const_int,
    dtype_of,
    imm,
    parallel_nest,
    tirx,
)
from ..base.context import VectorContext
from ..vector.nest.parallel import lower_parallel

_NAMES = "ijklmn"


def lower_fill(s: Evaluate, ctx: VectorContext) -> Stmt:
    """Lower `tl.fill(dst region, value)`."""
    region, value = s.value.args
    dtype = dtype_of(region.source)
    value = as_expr(value, dtype)
    if dtype_of(value) != dtype:
        value = tirx.Cast(dtype, value)
    return lower_parallel(element_nest(region, lambda indices: BufferStore(region.source, value, indices, span=s.span), s.span), ctx)


def element_nest(region: TensorRegion, store, span) -> For:
    """A parallel nest over a region; `store(indices)` makes the statement for one element."""
    loops, indices = [], []
    for name, r in zip(_NAMES, region.region):
        if const_int(r.extent) == 1:
            indices.append(r.min)
            continue
        var = Var(name, "int32")
        loops.append((var, r.extent))
        indices.append(var if const_int(r.min) == 0 else var + r.min)
    if not loops:
        var = Var("i", "int32")
        loops, indices = [(var, imm(1))], [*indices[:-1], indices[-1] + var]
    return parallel_nest(loops, store(indices), span)
