"""A parallel nest as the vectoriser sees it: axes in instruction order, extents, body."""

from __future__ import annotations

from dataclasses import dataclass

from ....analysis.index.sums import as_sum, is_variable
from ....ir import (
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    Stmt,
    TensorLoad,
    Var,
    const_int,
    exprs,
    is_buffer_var,
    statements,
    walk_expr,
)
from ....tile.nests import tile_bounds
from ...base.unsupported import Unsupported


@dataclass
class Nest:
    """axes: loop variables, the one that most accesses step through contiguously last; extents: their sizes."""

    axes: list[Var]
    extents: tuple[int, ...]
    body: Stmt
    span: object


def read_nest(stmt: For) -> Nest:
    """Collect the loops of a parallel nest.

    An extent known only at run time becomes the size of the tiles the variable indexes, with the body under ``var < extent``.
    Raises `Unsupported` when no tile bounds the variable.
    """
    loops, runtime, body = [], [], stmt
    while isinstance(body, For) and body.kind == ForKind.PARALLEL:
        loops.append((body.loop_var, const_int(body.extent)))
        if const_int(body.extent) is None:
            runtime.append((body.loop_var, body.extent))
        body = body.body
    bounds = tile_bounds([v for v, _ in runtime], body) if runtime else {}
    for var, extent in runtime:
        if var not in bounds:
            raise Unsupported(
                "the extent of T.Parallel is known only at run time and no tile bounds it",
                "index a tile with the variable in all iterations",
            )
        loops = [(v, bounds[v] if v.same_as(var) else n) for v, n in loops]
        body = IfThenElse(var < extent, body, None, span=stmt.span)
    order = _order([v for v, _ in loops], body)
    return Nest([loops[k][0] for k in order], tuple(loops[k][1] for k in order), body, stmt.span)


def _order(variables: list[Var], body: Stmt) -> list[int]:
    """Positions of the loops, the innermost axis of the instructions last."""
    votes = [0] * len(variables)
    found = [indices for _, indices in _accesses(body)]
    deep = [i for i in found if len(i) > 1]
    for last in [i[-1] for i in deep or found]:
        for k, v in enumerate(variables):
            if abs(as_sum(last).coefficient(v)) == 1:
                votes[k] += 1
    innermost = max(range(len(variables)), key=lambda k: (votes[k], k))
    return [k for k in range(len(variables)) if k != innermost] + [innermost]


def _accesses(body: Stmt) -> list:
    """(buffer, indices) of all loads and stores."""
    found: list = []

    def see(e):
        if isinstance(e, TensorLoad):
            found.append((e.source, list(e.indices)))

    for s in statements(body):
        if isinstance(s, BufferStore):
            found.append((s.buffer, list(s.indices)))
        for e in exprs(s):
            walk_expr(e, see)
    return found


def scalar_vars(e) -> list[Var]:
    """The scalar variables an expression reads."""
    out: list[Var] = []

    def see(x):
        if is_variable(x):
            out.append(x)
        elif isinstance(x, TensorLoad) and is_buffer_var(x.source):
            out.append(x.source)

    walk_expr(e, see)
    return out
