"""Work for several values of a variable, of the grid or of a loop, as one on longer tiles, if that means the same."""

from __future__ import annotations

from dataclasses import dataclass

from ...analysis.index.affine import affine
from ...analysis.tiles.same_work import same_work
from ...analysis.tiles.split_axis import SplitPlan, plan_along
from ...ir import AllocBuffer, For, Stmt, Var, const_int, dtype_of, seq, statements, substitute
from ...ir.visit import drop_allocs
from .divided_body import DividedBody, LongerBody
from .loose_loops import stores_of


@dataclass(frozen=True)
class Longer:
    """The work for several values of a variable as one, and its longer tiles, by those they stand for."""

    body: Stmt
    tiles: dict

    @staticmethod
    def of(body: Stmt, var: Var, plan: SplitPlan, times: int) -> Longer | None:
        """`times` values of `var` as one; None if parts of that are not, each alone, what `body` does for one value."""
        declared = {s.buffer for s in statements(body) if isinstance(s, AllocBuffer)}
        whole = seq([AllocBuffer(b) for b in plan.dims if b not in declared], body)
        mutator = LongerBody(plan, times)
        longer = mutator(substitute(whole, {var: var * times}))
        buffer, dim = next(iter(plan.dims.items()))
        back = plan_along(longer, mutator.buffers[buffer], dim, times)
        if back.refusal is not None or len(back.dims) != len(plan.dims):
            return None
        which = Var("which", dtype_of(var))
        part = DividedBody(back, which, times)(longer)
        if not same_work(substitute(whole, {var: var * times + which}), part, {which: times}):
            return None
        return Longer(drop_allocs(longer, set(mutator.buffers.values()) - {mutator.buffers.get(b) for b in declared}), mutator.buffers)


def ends_outside(body: Stmt, var: Var, extent: int) -> bool:
    """True if whatever `body` stores to tensors for values of `var` from `extent` on lies outside of them."""
    loops = {s.loop_var: const_int(s.extent) for s in statements(body) if isinstance(s, For)}
    return all(
        any(_outside(low, const_int(n), var, extent, loops) for (low, _), n in zip(box, buffer.ty.shape)) for buffer, box in stores_of(body)
    )


def _outside(index, size: int | None, var: Var, extent: int, loops: dict) -> bool:
    form = affine(index, [var, *loops])
    if form is None or size is None or any(loops.get(v, 1) is None for v in form.coeffs):
        return False
    low = const_int(form.hull({**loops, var: 1})[0])
    return low is not None and low >= 0 and form.coeffs.get(var, 0) * extent >= size


__all__ = ["Longer", "ends_outside"]
