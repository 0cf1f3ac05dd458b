"""Dtypes of 4 bits: tensors of them are tensors of bytes, tiles of them hold the numbers in a dtype that has instructions.

Before:  X: Tensor((m, n), int4); x: shared (64, 32), int4; copy(X[r : r + 64, c : c + 32], x); Parallel: y[i, j] = cast(float16, x[i, j])
After:   X: Tensor((m, n // 2), uint8); x: shared (64, 32), int8; b: shared (64, 16), uint8; copy(X[r : r + 64, c // 2 : c // 2 + 16], b)
         Parallel: x[i, j] = <code j % 2 of b[i, j // 2]>; Parallel: y[i, j] = cast(float16, x[i, j])

Two codes share a byte, the one with the even index in the low half; rows of a tensor are whole bytes. Integers are held in int8,
float4_e2m1fn in float16. A value is wrapped or rounded (docs/numbers.md) where it is converted to 4 bits, so tiles hold nothing else. Loads may
start anywhere. Stores that begin or end in the middle of a byte read it, change their half and write it back; blocks that would do so with
one byte become one block (`owners`).

Requires: what the front end made. Ensures: no dtype of 4 bits; `tl.nibbles` has [index of a parameter, its dtype, what is known of padding
at the end of its rows (docs/ir.md)] of tensors that had one.
"""

from __future__ import annotations

from ...ir import AllocBuffer, PrimFunc, dtype_of, exprs, statements, walk_expr
from ...runtime.dtypes import NIBBLES
from .owners import one_block_for_each_byte
from .unpack import Unpack
from .views import resolve_byte_views
from .wide import widen_tile_ops


def _mentions(func: PrimFunc) -> bool:
    """Whether anything in a function has 4 bits."""
    if any(dtype_of(p) in NIBBLES for p in func.params):
        return True
    found: list = []
    for s in statements(func.body):
        if isinstance(s, AllocBuffer) and dtype_of(s.buffer) in NIBBLES:
            return True
        for e in exprs(s):
            walk_expr(e, lambda x: found.append(x) if str(getattr(x.ty, "dtype", "")) in NIBBLES else None)
    return bool(found)


def unpack_nibbles(func: PrimFunc) -> PrimFunc:
    """Apply to what the front end made of a function; functions without dtypes of 4 bits stay as they are."""
    if not _mentions(func):
        return func
    span = func.span  # functions with another body have none
    func, updated = widen_tile_ops(resolve_byte_views(func))
    unpack = Unpack(func, span)
    body = unpack(func.body)
    owned = one_block_for_each_byte(func, unpack.shared | updated)
    if owned is not func:
        unpack = Unpack(owned, span)
        body = unpack(owned.body)
    return PrimFunc(unpack.params, body, span=span).with_attr(unpack.attrs(func))


__all__ = ["unpack_nibbles"]
