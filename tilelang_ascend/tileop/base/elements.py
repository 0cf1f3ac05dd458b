"""Single elements on their way from and to GM."""

from __future__ import annotations

from ...ir import (
    AllocBuffer,
    Bind,
    BufferLoad,
    BufferStore,
    decl_buffer,
    dtype_of,
    if_then,
    imm,
    intrin,
    itemsize,
    operand_parts,
    seq,
    tirx,
)
from ...isa.units import BLOCK_BYTES
from .context import VectorContext
from .layout import element_written


def store_element(ctx: VectorContext, name: str, address, value, span) -> list:
    """The element of GM at `address` becomes `value`: a transfer from a place in UB.

    The scalar unit has no way past its cache, which takes and returns 64 bytes at a time and knows nothing of what other cores, or transfers
    of its own core, write beside the element meanwhile.
    """
    address, value = element_written(address, value)
    _, dtype = operand_parts(address)
    place = BufferLoad(ctx.new_temp(dtype, BLOCK_BYTES // itemsize(dtype), f"{name}_v"), [imm(0), imm(0)])
    return [intrin("set_value", place, value, span=span), move_element(address, place, dtype, span)]


def guarded_read(inside, read: Bind, outside, out: list):
    """The element `read` binds, where the condition `inside` holds; elsewhere the number `outside`. Statements are appended to `out`."""
    dtype, index = dtype_of(read.var), [imm(0)]
    place = decl_buffer((1,), dtype, "inside", scope="local.var")
    then = seq(read, BufferStore(place, read.var, index, span=read.span))
    out += [
        AllocBuffer(place),
        BufferStore(place, tirx.const(outside, dtype), index, span=read.span),
        if_then(inside, then, span=read.span),
    ]
    return BufferLoad(place, index)


def move_element(address, place, dtype: str, span):
    """The transfer of one element from a place in UB to GM."""
    return intrin("copy_ub_to_gm", address, place, *(imm(n) for n in (1, itemsize(dtype), 0, 0)), span=span)


__all__ = ["guarded_read", "move_element", "store_element"]
