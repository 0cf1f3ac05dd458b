"""separate_views: views of a tile through which nobody sees what was stored through another name of it are tiles of their own.

Before:  view(v, a); copy(A, a); gemm(a, b, c); Parallel(i, j): v[i, j] = c[i, j] * 2; copy(v, C)    # a: 32x64 float16, v: 16x64 float32
After:   copy(A, a); gemm(a, b, c); Parallel(i, j): v[i, j] = c[i, j] * 2; copy(v, C)

GPU kernels name a tile twice where shared memory is short: what has been used up makes room for something else. Here tiles that are not needed at
the same time share memory anyway (plan_memory), and the two may live in different memories.

Requires: Tile IR. Ensures: of two names of one storage in a `tl.view`, directly or by way of others, one may be read where it has what was stored
through the other.
"""

from __future__ import annotations

from ...analysis.tiles.shared_storage import names_that_meet
from ...ir import Evaluate, PrimFunc, StmtMutator, full_region, statements
from ...tile import VIEW, is_op, with_args
from ...tile.uses import on_chip


class _Separate(StmtMutator):
    """first: name -> the first one of those it meets."""

    def __init__(self, first: dict):
        self.first = first

    def visit_Evaluate(self, s: Evaluate):
        if not is_op(s, VIEW) or s.value.args[0].source not in self.first:
            return s
        view = s.value.args[0].source
        first = self.first[view]
        return None if first.same_as(view) else with_args(s, [s.value.args[0], full_region(first)])


def separate_views(func: PrimFunc) -> PrimFunc:
    """Apply to a Tile IR function."""
    groups: dict = {}
    """Name -> all names of its storage, in the order in which they are declared."""
    for s in statements(func.body):
        if is_op(s, VIEW) and on_chip(s.value.args[1].source):
            view, source = (r.source for r in s.value.args)
            names = groups.setdefault(source, [source])
            names.append(view)
            groups[view] = names
    first: dict = {}
    for names in {id(g): g for g in groups.values()}.values():
        classes = {x: [x] for x in names}
        for pair in names_that_meet(func.body, names):
            a, b = (classes[x] for x in pair)
            if a is not b:
                joined = [x for x in names if x in a or x in b]
                classes |= dict.fromkeys(joined, joined)
        if any(c is not classes[names[0]] for c in classes.values()):
            first |= {x: classes[x][0] for x in names[1:]}
    return func.with_body(_Separate(first)(func.body)) if first else func


__all__ = ["separate_views"]
