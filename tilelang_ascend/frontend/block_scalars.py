"""Scalars in front of a launch that its blocks change: every block has one of its own, which begins with the value from outside.

Before:  n = 5;  for bx in grid(200): n = n + A[bx]; B[bx] = n
After:   n = 5;  for bx in grid(200): n_1 = n; n_1 = n_1 + A[bx]; B[bx] = n_1

On a GPU they are registers of each thread. Those that another launch or the end of the function uses, too, stay: `split_launches` refuses them.
"""

from __future__ import annotations

from ..ir import AllocBuffer, BufferLoad, BufferStore, For, Stmt, decl_buffer, dtype_of, imm, seq, statements, stmts_of, substitute
from ..ir.grids import is_grid_axis
from ..tile.uses import is_scalar_var, own_uses


def own_scalars(body: Stmt) -> Stmt:
    """`body`, that of a function, with scalars of their own for the blocks of each launch."""
    top = stmts_of(body)
    outside = {s.buffer for s in top if isinstance(s, AllocBuffer) and is_scalar_var(s.buffer)}
    out = list(top)
    for k, grid in enumerate(top):
        if not is_grid_axis(grid):
            continue
        elsewhere = [x for s in (*(g for g in top[:k] if is_grid_axis(g)), *top[k + 1 :]) for x in statements(s)]
        used = set().union(*(own_uses(x).all for x in elsewhere)) if elsewhere else set()
        changed = [s.buffer for s in statements(grid) if isinstance(s, BufferStore) and s.buffer in outside - used]
        if changed:
            out[k] = _with_own(grid, list(dict.fromkeys(changed)))
    return seq(out)


def _with_own(axis: For, scalars: list) -> For:
    """The launch with copies of `scalars` in each block."""
    if is_grid_axis(axis.body):
        body = _with_own(axis.body, scalars)
    else:
        own = {b: decl_buffer((1,), dtype_of(b), f"{b.name}_own", scope="local.var") for b in scalars}
        start = [x for b, new in own.items() for x in (AllocBuffer(new), BufferStore(new, BufferLoad(b, [imm(0)]), [imm(0)]))]
        body = seq(start, substitute(axis.body, own))
    return For(axis.loop_var, axis.min, axis.extent, axis.kind, body, annotations=dict(axis.annotations), span=axis.span)


__all__ = ["own_scalars"]
