"""expand_lane_numbers: lane numbers come from vector additions.

Before:  create_vec_index(d, v, 200)                       d[i] = v + i
After:   duplicate(d, v, 64); adds_mask(d, d, 1, lanes 1, 3, 5, …); adds_mask(d, d, 2, lanes 2, 3, 6, …); … up to 32;
         adds(d[64], d, 64, 64); adds(d[128], d, 128, 72)

The interface has a function for it, CreateVecIndex, but it is no vector instruction: its first block is written by the scalar unit, with a
flag of its own between the two, so it neither waits for earlier vector work on the buffer nor leaves our flags alone.

Numbers of the first repeat are sums of powers of two, each added to the lanes that have this bit; after that the numbers known so far,
moved on, are the next. All are exact where d[i] is (float16: up to 2048).

Requires: Ascend IR without addresses. Ensures: no `create_vec_index`.
"""

from __future__ import annotations

from ...ir import (
    BufferLoad,
    Evaluate,
    PrimFunc,
    Stmt,
    StmtMutator,
    const_int,
    dtype_of,
    imm,
    intrin,
    itemsize,
    op_name,
    operand_parts,
    reinterpret,
    seq,
)
from ...isa.units import REPEAT_BYTES
from ...tileop.vector.emit.emitter import signed64

WORD_BITS = 64
NEXT_BLOCK, NEXT_REPEAT = 1, 8


def expand_lane_numbers(func: PrimFunc) -> PrimFunc:
    """Apply to a function; `func` itself when it has none."""
    expand = _Expand()
    body = expand(func.body)
    return func.with_body(body) if expand.found else func


class _Expand(StmtMutator):
    found = False

    def visit_Evaluate(self, s: Evaluate):
        if op_name(s) != "ascend.create_vec_index":
            return s
        self.found = True
        return lane_numbers(*s.value.args, span=s.span)


def lane_numbers(d, first, count, span=None) -> Stmt:
    """d[i] = first + i for i < count, a constant."""
    load, dtype = operand_parts(d)
    size, unit, count = itemsize(dtype), itemsize(dtype_of(load.source)), const_int(count)
    assert count is not None, "how many lanes an expression has is known"
    lanes = REPEAT_BYTES // size
    head = min(count, lanes)

    def number(n: int):
        return imm(float(n) if dtype.startswith("float") else n, dtype)

    def moved(offset: int):
        there = BufferLoad(load.source, [*load.indices[:-1], load.indices[-1] + offset * size // unit])
        return there if dtype == dtype_of(load.source) else reinterpret(there, dtype)

    out = [intrin("duplicate", d, first, head, span=span)]
    for bit in (1 << n for n in range(lanes.bit_length()) if 1 << n < head):
        mask = sum(1 << lane for lane in range(head) if lane & bit)
        words = signed64(mask >> WORD_BITS), signed64(mask & (1 << WORD_BITS) - 1)
        out.append(intrin("adds_mask", d, d, number(bit), *words, 1, NEXT_BLOCK, NEXT_BLOCK, NEXT_REPEAT, NEXT_REPEAT, span=span))
    width = lanes
    while width < count:
        out.append(intrin("adds", moved(width), d, number(width), min(width, count - width), span=span))
        width *= 2
    return seq(*out)


__all__ = ["expand_lane_numbers", "lane_numbers"]
