"""hint_l2: tensors whose elements are needed once go past L2 where it cannot hold all that a launch uses.

Before:  X, Y, Z: 128 MiB each; copy(X[t], x); copy(Y[t], y); …; copy(z, Z[t])                 # L2 has 192 MiB
After:   the same, attribute `ascend.past_l2` = ["X", "Y"]

What is read once finds nothing in L2 and leaves there what nobody needs, instead of what has been written, which has to be written back for it and is what the next kernel
reads. As many of such tensors get the hint, the largest first, as leave the others room in L2; a tensor that is only written, once, and is larger than all of L2, gets it, too.
A vendor's addition of 3 x 128 MiB takes 188 instead of 264 us with such a hint. Kernels of the vector cores only.

Requires: placed Tile IR with one grid, before map_grid. Ensures: attribute `ascend.past_l2`: names of parameters, if there are any.
"""

from __future__ import annotations

from ...analysis.tiles.core_kinds import uses_cube
from ...analysis.tiles.used_once import used_once
from ...ir import PrimFunc, const_int, is_buffer_var
from ...ir.functions import PAST_L2, fixed_bytes


def hint_l2(func: PrimFunc, chip, notes: list, allowed: bool = True) -> PrimFunc:
    """Apply to a function whose tensors have known sizes, if `chip` has the hint and it is `allowed`; what got it is told in `notes`."""
    tensors = [p for p in func.params if is_buffer_var(p)]
    # What products need is loaded in parts, and again, as late passes see fit.
    if not allowed or not chip.l2_bypass or uses_cube(func.body) or any(const_int(n) is None for b in tensors for n in b.ty.shape):
        return func
    total = sum(map(fixed_bytes, tensors))
    if total <= chip.l2_bytes:
        return func
    loaded, stored = used_once(func)
    chosen = {b for b in stored if fixed_bytes(b) > chip.l2_bytes}
    left = total - sum(map(fixed_bytes, chosen))
    for b in sorted(loaded, key=lambda b: (-fixed_bytes(b), tensors.index(b))):
        if left <= chip.l2_bytes:
            break
        chosen.add(b)
        left -= fixed_bytes(b)
    if not chosen:
        return func
    names = [b.name for b in tensors if b in chosen]
    notes.append(
        f"tensors of {total >> 20} MiB do not fit L2: {', '.join(names)}, of which each element is needed once, go{'es' * (len(names) == 1)} past it"
    )
    return func.with_attr(PAST_L2, names)


__all__ = ["hint_l2"]
