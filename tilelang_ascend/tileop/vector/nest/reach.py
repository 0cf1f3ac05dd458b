"""Which stores of a nest may reach another tile in lanes that a condition leaves out.

    Parallel(i < 8): if p + i < 8: y[p + i] = x[i]        inside of y[8] in all lanes under 0 <= p and p + 8 <= 8

What constant offsets put outside was left out before (`narrow_nests`); here are offsets known only at run time, and nests whose length is.
"""

from __future__ import annotations

from ....analysis.index.affine import affine
from ....ir import (
    Bind,
    BufferStore,
    For,
    IfThenElse,
    SeqStmt,
    Stmt,
    const_int,
    free_vars,
    scope_of,
    statements,
    structural_equal,
    substitute_expr,
    sym,
    written_out,
)
from ....tile.uses import loads_in, on_chip
from .nest import Nest


def reach_conditions(nest: Nest, analyzer) -> list:
    """What has to hold outside of the nest for every masked store to stay inside of its tile, as far as it is not known to."""
    analyzer = analyzer or sym.Analyzer()
    extents, lets = _known_extents(nest), _lets(nest.body)
    changed = {s.buffer for s in statements(nest.body) if isinstance(s, BufferStore)}
    own = {s.loop_var for s in statements(nest.body) if isinstance(s, For)}
    out: list = []
    for s in _masked_stores(nest.body, {*nest.axes, *lets, *own}):
        if not on_chip(s.buffer) or scope_of(s.buffer) == "local.var":
            continue
        for index, size in zip(s.indices, s.buffer.ty.shape):
            form = affine(substitute_expr(index, lets), list(extents))
            if form is None or const_int(size) is None:
                continue
            low, span = form.hull(extents)
            if free_vars(low) & own or any(scope_of(x.source) != "local.var" or x.source in changed for x in loads_in(low)):
                continue  # An index that is data is the user's word.
            low = analyzer.simplify(low)
            for c in map(analyzer.simplify, (low >= 0, low <= const_int(size) - span)):
                if not analyzer.can_prove(c) and not any(structural_equal(c, x) for x in out):
                    out.append(c)
    return out


def _known_extents(nest: Nest) -> dict:
    """How many values, from 0 on, the axes of a nest take and the variables of loops inside of it; what run time tells is left out."""
    inner = {s.loop_var: const_int(s.extent) for s in statements(nest.body) if isinstance(s, For) and const_int(s.min) == 0}
    return dict(zip(nest.axes, nest.extents)) | {v: n for v, n in inner.items() if n}


def _lets(body: Stmt) -> dict:
    """What names stand for, in terms of names that are bound outside of `body`."""
    lets: dict = {}
    for s in statements(body):
        if isinstance(s, Bind):
            lets[s.var] = written_out(s, lets)
    return lets


def _masked_stores(body: Stmt, lanes: set) -> list[BufferStore]:
    """Stores under a condition that differs between lanes."""
    out: list = []

    def see(s: Stmt, masked: bool):
        if isinstance(s, BufferStore):
            out.extend([s] if masked else [])
        elif isinstance(s, SeqStmt):
            for x in s.seq:
                see(x, masked)
        elif isinstance(s, IfThenElse):
            below = masked or bool(free_vars(s.condition) & lanes)
            for x in (s.then_case, s.else_case):
                if x is not None:
                    see(x, below)
        elif isinstance(s, For):
            see(s.body, masked)

    see(body, False)
    return out


__all__ = ["reach_conditions"]
