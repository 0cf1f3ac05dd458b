"""Loops whose iterations may run in any order, and side by side."""

from __future__ import annotations

from ...analysis.index.affine import affine
from ...analysis.tiles.home_loops import overwritten_first
from ...analysis.tiles.split_globals import is_global
from ...ir import (
    Bind,
    BufferStore,
    For,
    ForKind,
    Stmt,
    TensorRegion,
    Var,
    const_int,
    free_vars,
    scope_of,
    statements,
    substitute_expr,
)
from ...tile.uses import loads_in, on_chip, own_uses, uses_of, work_of


def is_serial(s: Stmt) -> bool:
    """True for a loop whose iterations run one after the other."""
    return isinstance(s, For) and s.kind == ForKind.SERIAL


def independent(loop: For, whole: Stmt) -> bool:
    """True if iterations of `loop` may run in any order, and side by side: every tile that one changes it fills before, and nobody else looks at
    it; what they store to tensors lies apart, and none reads it."""
    uses, stores = uses_of(loop.body), stores_of(loop.body)
    if any(scope_of(b) == "local.var" for b in uses.writes) or any(b in uses.reads for b, _ in stores):
        return False
    if len({b for b, _ in stores}) < len(stores):
        return False
    inner = {s.loop_var: const_int(s.extent) for s in statements(loop.body) if isinstance(s, For)}
    # What an iteration names itself, as an element it loads, is another one in each.
    own = uses.writes | {s.var for s in statements(loop.body) if isinstance(s, Bind)}
    apart = all(any(_apart(low, n, loop.loop_var, inner, own) for low, n in box) for _, box in stores)
    return apart and all(only_in(b, loop, whole) for b in uses.writes if on_chip(b))


def _apart(low, extent, var: Var, inner: dict, own: set) -> bool:
    """True if the indices from `low` on are others for each value of `var`, whatever those of `own` are."""
    form, extent = affine(low, [var, *inner]), const_int(extent)
    if form is None or extent is None or any(inner.get(v, 1) is None for v in form.coeffs) or free_vars(low) & own:
        return False
    _, span = form.hull({**inner, var: 1})
    return abs(form.coeffs.get(var, 0)) >= span - 1 + extent


def only_in(tile, loop: For, whole: Stmt) -> bool:
    """True if a tile is nobody's but the iterations' of `loop`, each of which fills it first."""
    inside = list(statements(loop))
    outside = (s for s in statements(whole) if tile in own_uses(s).all and not any(s.same_as(x) for x in inside))
    return next(outside, None) is None and overwritten_first(loop.body, tile)


def stores_of(body: Stmt) -> list[tuple]:
    """(tensor, (first index, number of indices) of each dimension) of all stores of `body` to tensors, without names for indices."""
    found, known = [], {}
    for s in statements(body):
        if isinstance(s, Bind) and not loads_in(s.value):
            known[s.var] = substitute_expr(s.value, known)
        if isinstance(s, BufferStore) and is_global(s.buffer):
            found.append((s.buffer, [(i, 1) for i in s.indices]))
        record = work_of(s)
        for i in record.writes if record is not None else ():
            arg = s.value.args[i]
            if is_global(arg.source):
                box = [(r.min, r.extent) for r in arg.region] if isinstance(arg, TensorRegion) else [(x, 1) for x in arg.indices]
                found.append((arg.source, box))
    return [(buffer, [(substitute_expr(low, known), n) for low, n in box]) for buffer, box in found]


__all__ = ["independent", "is_serial", "only_in", "stores_of"]
