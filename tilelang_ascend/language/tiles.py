"""Element functions on whole tiles, written as `T.Parallel` nests: one lowering for element-wise work."""

from __future__ import annotations

from typing import Callable

from ..errors import ShapeMismatch
from ..frontend.builder import Builder, constant, index_var
from ..frontend.operators import as_scalar, cast, loop_extent, plain
from ..frontend.values import is_buffer, is_region
from ..ir import BufferLoad, For, ForKind, IntImm, parallel_nest
from .regions import TileOperand, offset, same, shape_text, tile_operand


def is_tile(value) -> bool:
    """True for whole buffers and for slices (not for numbers and single elements)."""
    value = plain(value)
    if is_region(value):
        return any(constant(r.extent) != 1 for r in value.region) or len(value.region) > 0
    return is_buffer(value)


def elementwise(name: str, function: Callable, sources: list, target) -> None:
    """``target[i, …] = function(source[i, …], …)`` for every element; a source may be a number or have dimensions of
    size 1.
    """
    dst = tile_operand(target, f"the destination of T.{name}")
    operands = [tile_operand(s, f"an operand of T.{name}") if is_tile(s) else s for s in sources]
    shape = _squeezed(dst)
    for op in operands:
        if isinstance(op, TileOperand):
            _check(name, op, dst, shape)
    parallel(shape, lambda index: _store(dst, function(*[_element(o, index, len(shape)) for o in operands]), index))


def parallel(shape: list, body: Callable) -> None:
    """Emit a `Parallel` nest over `shape`; `body` gets the index variables. An empty shape is a single store."""
    builder = Builder.current("a tile operation")
    if builder.region.inside("parallel"):
        _serial(builder, shape, body)
        return
    variables = [index_var(builder.unique(n)) for n in _index_names(len(shape))]
    region = builder.push("parallel") if shape else None
    body(variables)
    if region is None:
        return
    loops = list(zip(variables, map(loop_extent, shape)))
    builder.emit(parallel_nest(loops, builder.pop(region), builder.span()))


def _serial(builder: Builder, shape: list, body: Callable) -> None:
    variables = [index_var(builder.unique(n)) for n in _index_names(len(shape))]
    region = builder.push("loop")
    body(variables)
    nest, span = builder.pop(region), builder.span()
    for var, extent in reversed(list(zip(variables, shape))):
        nest = For(var, IntImm("int32", 0), loop_extent(extent), ForKind.SERIAL, nest, span=span)
    builder.emit(nest)


def _index_names(rank: int) -> list[str]:
    return [("ijkl"[d] if d < 4 else f"i{d}") for d in range(rank)]


def _squeezed(op: TileOperand) -> list:
    """Extents without leading ones (a region of a higher-rank buffer counts as the tile it holds)."""
    extents = list(op.extents)
    while extents and constant(extents[0]) == 1 and len(extents) > 1:
        extents.pop(0)
    return extents


def _check(name: str, op: TileOperand, dst: TileOperand, shape: list) -> None:
    extents = _squeezed(op)
    fits = len(extents) <= len(shape) and all(constant(e) == 1 or same(e, s) for e, s in zip(reversed(extents), reversed(shape)))
    if not fits:
        raise ShapeMismatch(
            f"T.{name}: the operand {op.describe()} does not match the destination {dst.describe()}",
            notes=[f"the operation covers {shape_text(shape)} elements"],
            hint="operands have the shape of the destination, or 1 along a broadcast dimension",
        )


def _element(op, index: list, rank: int):
    """Element of an operand at `index`; dimensions of size 1 are broadcast."""
    if not isinstance(op, TileOperand):
        return op
    extents = _squeezed(op)
    own = [0 if constant(e) == 1 else i for e, i in zip(extents, index[rank - len(extents) :])]
    return BufferLoad(op.buffer, offset(op, own))


def _store(dst: TileOperand, value, index: list) -> None:
    own = [0 if constant(e) == 1 else i for e, i in zip(_squeezed(dst), index)]
    Builder.current().store(dst.buffer, cast(as_scalar(value), dst.dtype), offset(dst, own))
