"""interleave_pairs: vector instructions of two tiles that are worked on side by side stand together, so that fewer barriers part them.

Before:  for t [paired]: for i: mul(m, r, a); add(s, m, m[2048]); mul(m_2, r_2, a_2); add(s_2, m_2, m_2[2048])
After:   for t [paired]: for i: mul(m, r, a); mul(m_2, r_2, a_2); add(s, m, m[2048]); add(s_2, m_2, m_2[2048])

What `schedule_vector` does, where it may: before addresses are chosen, so that temporaries of one tile do not lie where those of the other have been.

Requires: Ascend IR for both cores together, without addresses. Ensures: dependent instructions keep their order.
"""

from __future__ import annotations

from ...analysis.dependence.build_program import build_program
from ...ir import For, PrimFunc, statements
from ...tile.uses import PAIRED
from .vector_runs import Permute, moves, tiles_apart


def interleave_pairs(func: PrimFunc, chip) -> PrimFunc:
    """Apply to a function after lower_tile_ops; `func` itself when no loop works on pairs of tiles, or nothing changes."""
    if chip.orders("V") or not any(isinstance(s, For) and PAIRED in s.annotations for s in statements(func.body)):
        return func
    program = tiles_apart(build_program(func, chip))
    found = moves(program, lambda instr: any(PAIRED in loop.stmt.annotations for loop in instr.loops), shared=set())
    return func.with_body(Permute(found)(func.body)) if found else func


__all__ = ["interleave_pairs"]
